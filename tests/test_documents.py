"""The Python in the documents runs, and what they say of commands is true."""

from __future__ import annotations

import pkgutil
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from packaging.requirements import Requirement
from typer.core import TyperGroup

from fences import blocks, without_blocks
from heatproof.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def snippets() -> list[tuple[str, str]]:
    return [
        (f"{page.name}-{number}", code)
        for page in PAGES
        for number, code in enumerate(
            (code for kind, code in blocks(page.read_text(encoding="utf-8")) if kind == "python"), 1
        )
    ]


@pytest.mark.parametrize("code", [code for _, code in snippets()], ids=[name for name, _ in snippets()])
def test_snippets_run(code, tmp_path, monkeypatch, capsys):
    from heatproof.explainers import explainers
    from heatproof.metrics import metrics

    monkeypatch.chdir(tmp_path)
    for registry in (explainers, metrics):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    module = ModuleType("snippet")
    monkeypatch.setitem(sys.modules, "snippet", module)  # dataclasses look their module up
    exec(compile(code, "snippet", "exec"), module.__dict__)
    for run in tmp_path.glob("runs/*"):
        assert not (run / "failures").exists()
        assert (run / "report.html").is_file()


def commands_of(page: Path) -> list[str]:
    """Every line of a block that is a command of ours; what a backslash breaks is one line."""
    shown = [block for kind, block in blocks(page.read_text(encoding="utf-8")) if kind in ("", "console", "sh", "bash")]
    lines = [line for block in shown for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("heatproof ")]


def inline_commands_of(page: Path) -> list[str]:
    """Commands of ours between words."""
    text = without_blocks(page.read_text(encoding="utf-8"))
    found = (" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text))
    return [code for code in found if code.startswith("heatproof ")]


def commands() -> list[tuple[str, str]]:
    return [(page.name, line) for page in PAGES for line in commands_of(page)]


def options_of(command: Any) -> set[str]:
    """The options of a command; of a group (`heatproof run BENCHMARK`) those that any of its commands has."""
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    if isinstance(command, TyperGroup):
        context = command.make_context("heatproof", [], resilient_parsing=True)
        names = command.list_commands(context)
        known |= {option for name in names for option in options_of(command.get_command(context, name))}
    return known


def test_commands_between_words_exist_and_have_these_options():
    """They are forms as often as commands, so that only their names are looked at: of commands and of options."""
    top = typer.main.get_command(app)
    seen = 0
    for page in PAGES:
        for line in inline_commands_of(page):
            words = line.split()[1:]
            found = top
            while isinstance(found, TyperGroup) and words and re.fullmatch(r"[a-z][a-z0-9-]*", words[0]):
                context = found.make_context("heatproof", [], resilient_parsing=True)
                inner = found.get_command(context, words.pop(0))
                assert inner is not None, f"{page.name}: {line}"
                found = inner
            known = options_of(found)
            options = {word.partition("=")[0].strip("[]|,.") for word in words if word.startswith(("--", "[--"))}
            assert options <= {*known, "--help"}, f"{page.name}: {line}: {options - known}"
            seen += 1
    assert seen > 100


def check_understood(line: str, where: str) -> None:
    """Command, options and arguments exist; that they do what is said is for the tests of each."""
    words = shlex.split(line, comments=True)[1:]
    found, path = typer.main.get_command(app), ["heatproof"]
    while isinstance(found, TyperGroup):
        context = found.make_context("heatproof", [], resilient_parsing=True)
        inner = found.get_command(context, words[0]) if words else None
        assert inner is not None, f"{where}: {line}"
        found, path = inner, [*path, words.pop(0)]
    if {"--help", "..."} & set(words) or any(word.isupper() or "|" in word for word in words):
        return  # a form, not a command
    try:
        found.make_context(" ".join(path), words)
    except Exception as problem:  # typer brings its own click, or takes the one that is installed
        raise AssertionError(f"{where}: {line}: {problem}") from problem


def test_commands_in_the_documents_are_understood():
    assert len(commands()) > 150
    for page, line in commands():
        check_understood(line, page)


def every_command(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """All commands with their words."""
    command = command or typer.main.get_command(app)
    if isinstance(command, TyperGroup):
        context = command.make_context("heatproof", [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from every_command(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path), command


def test_every_command_says_what_it_does_with_examples_that_are_understood():
    for name, command in every_command():
        assert command.help, name
        head, _, examples = command.help.partition("Example")
        assert head.strip(), name
        whole = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", examples)]
        found = [line for text in whole for line in re.findall(r"heatproof .*?(?=, heatproof | > |$)", text)]
        assert found, f"heatproof {name} --help has no example"
        for line in found:
            check_understood(line, f"heatproof {name} --help")
        for parameter in command.params:
            assert parameter.name == "help" or parameter.help, f"heatproof {name}: {parameter.opts} is not explained"


def inline_code() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for code in re.findall(r"`([^`]+)`", without_blocks(page.read_text(encoding="utf-8"))):
            yield page.name, code


def test_options_between_words_exist():
    chaos = "".join(path.read_text() for path in (ROOT / "chaos").glob("*.py"))
    known = options_of(typer.main.get_command(app)) | set(re.findall(r'"(--[a-z-]+)"', chaos)) | {"--help"}
    for page, code in inline_code():
        words = [] if code.startswith("srun ") else code.split()
        found = {word.partition("=")[0].strip("[]|,.:;)") for word in words if word.startswith("--")}
        assert found <= known, f"{page}: {found - known}"


def test_files_and_python_names_between_words_exist():
    """`tests/metrics`, `heatproof.focus.bias`: what is named can be opened or imported."""
    seen = 0
    for page, code in inline_code():
        if re.fullmatch(r"(tests|benchmarks|examples|src|docs|papers|chaos|facts|notebooks)/[\w/.-]+", code):
            assert (ROOT / code).exists() or "NAME" in code, f"{page}: {code}"
            seen += 1
        name = re.match(r"heatproof(\.[a-z]\w+)+", code)
        if name and name[0] != "heatproof.poolings":  # that is a group of entry points
            assert pkgutil.resolve_name(name[0]) is not None, f"{page}: {code}"
            seen += 1
    assert seen > 30


def test_links_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_packages_without_torch_are_all_the_others():
    (named,) = re.findall(r"^pip install (cloudpickle .*)$", (ROOT / "docs" / "evaluate.md").read_text(), re.MULTILINE)
    needed = [Requirement(text) for text in metadata.requires("heatproof") or []]
    assert {*named.split(), "torch"} == {package.name for package in needed if package.marker is None}


def test_make_targets_that_are_named_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for named in re.findall(r"`make ([a-z -]+)`", page.read_text(encoding="utf-8")):
            assert set(named.split()) <= targets, f"{page.name} names make {named}"


def rooms() -> str:
    """What each room imports, as import-linter draws it."""
    command = [Path(sys.executable).parent / "import-linter", "drawgraph", "heatproof"]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[str]] = {}
    for room, imported in re.findall(r'"\.(\w+)" ->\s+"\.(\w+)"', drawn):
        found.setdefault(room, []).append(imported)
    lines = (f"{room:<14}{' '.join(sorted(imported))}" for room, imported in sorted(found.items()))
    return "\n".join(lines)


def test_the_graph_of_rooms_is_what_import_linter_draws():
    graph = rooms()
    assert len(graph.splitlines()) > 20
    assert f"```\n{graph}\n```" in (ROOT / "CONTRIBUTING.md").read_text(), f"CONTRIBUTING.md should say\n{graph}"


def test_the_layers_are_those_of_the_contract():
    contract = (ROOT / "pyproject.toml").read_text().partition("layers = [")[2].partition("\n]")[0]
    layers = "\n".join(re.findall(r'"(.*)"', contract.replace("heatproof.", "")))
    assert f"```\n{layers}\n```" in (ROOT / "CONTRIBUTING.md").read_text()
