"""Networks that come with their own code, in a file: told apart, and refused where loading them could run anything.

torch.export.load unpickles parts of a file, evaluates expressions in it, and makes Python source out of its names. So
it never sees the file itself, only a copy of what was checked here: tensors, and a graph of torch's own operations.
TorchScript is code by nature and needs the user's trust.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from heatproof.errors import HeatproofError

NAME = re.compile(r"\w*", re.ASCII)
"""Names of values and arguments: they become variables in Python source."""
TEXT = re.compile(r"[\w.,;:/@<>\[\]' +-]*", re.ASCII)
"""Other words of a graph (layers, classes, versions): nothing that could be a call, or end a string."""
NAMES = {
    *("name", "as_name", "forward_arg_names"),
    *("tensor_values", "sym_int_values", "sym_float_values", "sym_bool_values"),
}
FREE = {"as_string", "as_strings"}
"""Arguments of operations, which torch quotes."""
OPERATOR = re.compile(
    r"_operator\.(getitem|add|sub|mul|floordiv|truediv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_)"
    r"|math\.(trunc|ceil|floor|sqrt)|torch\._?sym_[a-z0-9]+"
    r"|torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast|cond)",
    re.ASCII,
)
ATEN = re.compile(r"torch\.ops\.aten\.(\w+)\.(\w+)", re.ASCII)
TOUCHES_FILES = {"from_file", "save"}
EXPRESSIONS = (
    *(ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Load, ast.Constant, ast.Tuple),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
FUNCTIONS = re.compile(
    r"Symbol|Integer|Float|Rational|Add|Mul|Pow|Mod|Max|Min|Abs|floor|ceiling|Tuple|Piecewise|ExprCondPair|And|Or|Not"
    r"|Eq|Ne|Lt|Le|Gt|Ge|Equality|Unequality|(Strict)?(LessThan|GreaterThan)"
    r"|FloorDiv|ModularIndexing|Where|PythonMod|CleanDiv|Ceil(ToInt|Div)|FloorToInt|[LR]Shift|PowByNatural"
    r"|Float(Pow|TrueDiv)|IntTrueDiv|IsNonOverlappingAndDenseIndicator|TruncTo(Float|Int)|Round(ToInt|Decimal)|ToFloat"
    r"|Identity"
)
"""What sizes are computed with: of sympy, and of torch.utils._sympy."""
WORD = re.compile(r"[A-Za-z_]\w*|[\d.e+-]+", re.ASCII)
CONTAINERS = {"builtins.tuple", "builtins.list", "builtins.dict", "collections.OrderedDict"}
PAYLOAD = re.compile(r"(weight|tensor)_\d+", re.ASCII)
PLAIN = {".data/version", ".data/serialization_id", "byteorder", "version", "archive_format", "archive_version"}
PICKLES = {
    *("data/sample_inputs/model.pt", "data/weights/model.pt", "data/constants/model.pt"),
    *("serialized_state_dict.pt", "serialized_constants.pt", "serialized_example_inputs.pt"),
}
GRAPHS = {"models/model.json", "serialized_exported_program.json"}
SAMPLES = {"data/sample_inputs/model.pt", "serialized_example_inputs.pt"}
UNUSED = ("extra/", "extra_files/")


def load_program(path: Path, trust: bool = False) -> nn.Module:
    """A network that comes with its own code: torch.export, or TorchScript if the user trusts it."""
    from heatproof.explainers.wrapped import Program

    if not path.is_file():
        raise HeatproofError(f"there is no file {path}.")
    members = member_names(path)
    try:
        if members & {"archive_format", *GRAPHS}:
            return load_exported(path)
        if holds_script(members):
            require_trust(path, trust)
            scripted = torch.jit.load(str(path), map_location="cpu").eval()
            return Program(scripted)
    except HeatproofError:
        raise
    except Exception as problem:
        raise HeatproofError(f"{path} cannot be loaded: {type(problem).__name__}: {problem}") from problem
    raise HeatproofError(
        f"{path} is neither TorchScript nor torch.export. Weights alone go with --weights, beside a --model."
    )


def require_trust(path: Path, trust: bool) -> None:
    if not trust:
        raise HeatproofError(
            f"{path} is TorchScript, a program that can do anything on this machine. If you trust those who made it,"
            " say so with --trust (in Python trust=True); if not, ask them for a file of torch.export (.pt2)."
        )


def member_names(path: Path) -> set[str]:
    """The files in an archive, without the folder that all of them are in; none if it is no archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {below_root(name) for name in archive.namelist()}
    except Exception:  # of damaged archives, many kinds; names that are no text among them
        return set()


def below_root(name: str) -> str:
    """A member's name in its archive; files of torch.export before 2.8 have no folder around them."""
    return name if name in PLAIN | PICKLES | GRAPHS or name.startswith(UNUSED) else name.partition("/")[2]


def holds_script(members: set[str]) -> bool:
    return "constants.pkl" in members or any(name.startswith("code/") for name in members)


def load_exported(path: Path) -> nn.Module:
    """An exported program as modules, so that its layers have names."""
    network = torch.export.unflatten(torch.export.load(checked_copy(path)))
    for module in network.modules():
        graph = getattr(module, "graph", None)
        for node in graph.nodes if graph is not None else ():
            node.meta.pop("val", None)  # examples with symbols for sizes, which cannot be copied
    return network


def checked_copy(path: Path) -> io.BytesIO:
    """The archive again, with what is needed and harmless in it; an error if anything in it is not.

    A copy, because torch and zipfile need not agree on what a file with two members of one name holds.
    """
    copy = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as written:
        members = {name: below_root(name) for name in dict.fromkeys(archive.namelist())}
        pickled = PICKLES | set(pickled_payloads(path, archive, members))
        for name, member in members.items():
            if member.startswith(UNUSED):
                continue
            content = checked_member(Refusal(path, name), member, archive.read(name), member in pickled)
            written.writestr(name, content)
    copy.seek(0)
    return copy


@dataclass(frozen=True)
class Refusal:
    """Refuses a file for what one of its members holds."""

    path: Path
    member: str

    def __call__(self, why: str) -> HeatproofError:
        return HeatproofError(
            f"{self.path} is refused, because it could run code that is no part of a network: {self.member} {why}."
        )


def checked_member(refuse: Refusal, member: str, content: bytes, pickled: bool) -> bytes:
    """What torch may see of a member."""
    folder, _, last = member.rpartition("/")
    if pickled:
        require_weights_only(refuse, content)
        return b"" if member in SAMPLES else content
    if member in GRAPHS:
        return json.dumps(checked_graph(refuse, parsed(refuse, content))).encode()
    if is_payload_list(member):
        return json.dumps(parsed(refuse, content)).encode()
    if member in PLAIN or (folder in ("data/weights", "data/constants") and PAYLOAD.fullmatch(last)):
        return content
    raise refuse("is neither tensors nor a graph (compiled code and custom objects are not loaded)")


def is_payload_list(member: str) -> bool:
    return member in ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")


def pickled_payloads(path: Path, archive: zipfile.ZipFile, members: Mapping[str, str]) -> Iterator[str]:
    """The members that torch would unpickle because the lists of tensors say so."""
    for name, member in members.items():
        if not is_payload_list(member):
            continue
        refuse = Refusal(path, name)
        try:
            payloads = parsed(refuse, archive.read(name))["config"].values()
            places = [(str(payload["path_name"]), bool(payload["use_pickle"])) for payload in payloads]
        except (AttributeError, KeyError, TypeError) as problem:
            raise refuse("is no list of tensors") from problem
        for place, pickled in places:
            if not PAYLOAD.fullmatch(place):
                raise refuse(f"names {place!r}, which is no tensor")
            if pickled:
                yield f"{member.rpartition('/')[0]}/{place}"


def parsed(refuse: Refusal, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as problem:
        raise refuse(f"is no JSON ({problem})") from problem


def require_weights_only(refuse: Refusal, content: bytes) -> None:
    """What this accepts, torch's full unpickler reads alike: tensors in plain containers."""
    if not content:
        return
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as problem:  # zip, pickle and type errors of many kinds, by what it really is
        raise refuse("holds more than tensors") from problem


def checked_graph(refuse: Refusal, found: Any, key: str = "") -> Any:
    """A graph of torch's operations, without what torch would evaluate but no network needs: guards, traces."""
    if isinstance(found, dict):
        if "as_custom_obj" in found or found.get("custom_obj_values"):
            raise refuse("holds custom objects")
        kept = {name: value for name, value in found.items() if key != "metadata" or name == "nn_module_stack"}
        for name in kept:
            require_text(refuse, NAME if key in NAMES else TEXT, name)
        return {name: checked_graph(refuse, value, name) for name, value in kept.items() if name != "guards_code"}
    if isinstance(found, list):
        return [checked_graph(refuse, value, key) for value in found]
    if isinstance(found, str):
        CHECKS.get(key, require_word)(refuse, found, key)
    return found


def require_word(refuse: Refusal, text: str, key: str) -> None:
    if key not in FREE:
        require_text(refuse, NAME if key in NAMES else TEXT, text)


def require_text(refuse: Refusal, pattern: re.Pattern[str], text: str) -> None:
    if not pattern.fullmatch(text):
        raise refuse(f"holds the name {text[:80]!r}")


def require_operator(refuse: Refusal, target: str, _key: str) -> None:
    aten = ATEN.fullmatch(target)
    operation = getattr(getattr(torch.ops.aten, aten[1], None), aten[2], None) if aten else None
    known = isinstance(operation, torch._ops.OpOverload) and aten is not None and aten[1] not in TOUCHES_FILES
    if not known and not OPERATOR.fullmatch(target):
        raise refuse(f"calls {target[:80]!r}, which is none of torch's operations on tensors")


def require_expression(refuse: Refusal, text: str, _key: str) -> None:
    """A size: numbers, symbols and arithmetic; torch evaluates it as Python."""
    try:
        nodes = list(ast.walk(ast.parse(text, mode="eval")))
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise refuse(f"holds the size {text[:80]!r}") from problem
    if not all(isinstance(node, EXPRESSIONS) and harmless(node) for node in nodes):
        raise refuse(f"holds the size {text[:80]!r}")


def harmless(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and FUNCTIONS.fullmatch(node.func.id) is not None
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (int, float)) or (
            isinstance(node.value, str) and WORD.fullmatch(node.value) is not None
        )
    return True


def require_containers(refuse: Refusal, text: str, _key: str) -> None:
    """How inputs and outputs are nested: plain containers, because torch imports whatever else is named."""
    try:
        _protocol, spec = json.loads(text)
        specs = [spec]
        while specs:
            spec = specs.pop()
            specs += spec["children_spec"]
            keys = json.loads(spec["context"] or "null") or []
            plain = spec["type"] is None or spec["type"] in CONTAINERS
            named = isinstance(keys, list) and all(isinstance(key, int) or NAME.fullmatch(key) for key in keys)
            if not plain or not named:
                raise refuse(f"nests its inputs or outputs in {str(spec['type'])[:80]!r}")
    except (ValueError, TypeError, KeyError) as problem:
        raise refuse("nests its inputs or outputs in an unknown way") from problem


CHECKS: dict[str, Callable[[Refusal, str, str], None]] = {
    "target": require_operator,
    "as_operator": require_operator,
    "expr_str": require_expression,
    "in_spec": require_containers,
    "out_spec": require_containers,
}
