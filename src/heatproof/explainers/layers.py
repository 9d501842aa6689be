"""Which tensors of a model have places, found by watching the functions of a forward pass.

Layers are called by the module that returns them (`layer4`), and what functions make by the module that they run in
and their own name: `inception5b/cat`, `layer4.1/relu.2` for the second of that name, `/relu` in the model's own
`forward`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.base import Size, require_gradient
from heatproof.explainers.bottlenecks import Key, bottlenecks, key_of
from heatproof.explainers.compiled import require_layers
from heatproof.explainers.guards import uncompiled, untouched
from heatproof.explainers.known_layers import read_again, remember
from heatproof.explainers.places import Places, follow, places_of_inputs
from heatproof.explainers.watching import Call, Watching, layer_names, place_of, running_layer, tensors_in

NOT_COUNTED = ("adaptive_", "pad", "constant_pad")
"""Functions whose output is no layer: pooling to a fixed size, and what has an edge that is no place of the input."""
ASKING = {"size", "dim", "is_contiguous", "stride", "numel", "is_floating_point", "register_hook", "data_ptr", "len"}
"""Functions that make no tensor."""
BEFORE_MAX_POOL = "before_max_pool"
"""What `layer` may say instead of a name."""
SEARCHED = 200
"""Nodes of the graph that are looked at for what a tensor came from that no watched function has made."""


@dataclass(eq=False)
class Activation:
    """What a function made, where its places are, and whether everything passes through it."""

    tensor: Tensor
    key: Key
    places: Places
    function: str
    """Its name as the output of a function; no other has it."""
    modules: list[str] = field(default_factory=list)
    """The modules that returned it, inner ones first, and before all those that only pass it on."""
    is_norm: bool = False
    leads: bool = False
    """Whether the outputs depend on it."""
    is_bottleneck: bool = False
    kept: Tensor | None = None
    is_kept: bool = False
    """Whether its values must be held where the layer is read again."""
    name: str = ""
    returned_by: ReferenceType[nn.Module] | None = None
    """The outermost module that returned it, if one did and is not run again."""

    def __post_init__(self) -> None:
        self.version = self.tensor._version

    @property
    def edge(self) -> GradientEdge:
        """Where its gradient arrives, whatever became of the tensor since."""
        return GradientEdge(*self.key)

    @property
    def extent(self) -> tuple[int, ...]:
        return self.places.extent

    @property
    def tokens(self) -> bool:
        return self.places.tokens

    @property
    def width(self) -> int:
        return prod(self.places.shape) // (self.places.shape[self.places.batch] * self.cells)

    @property
    def cells(self) -> int:
        return prod(self.places.shape[axis] for axis in self.places.space)

    def maps(self) -> Tensor:
        """Its values as maps (B, C, *extent)."""
        if self.kept is None and self.tensor._version != self.version:
            raise HeatproofError(
                f"the layer {self.name!r} was changed in place by a function that cannot be watched;"
                " name another with layer=NAME."
            )
        return self.places.maps(self.tensor.detach() if self.kept is None else self.kept)

    def keep(self) -> None:
        """Hold its values, because what follows may change them in place."""
        if self.kept is None and self.tensor._version == self.version:
            self.kept = self.tensor.detach().clone()


class Recorder(Watching):
    """Collects what functions make that has places, in the order of the pass. It changes no function."""

    def __init__(self, model: nn.Module, inputs: Tensor, layer: str | None) -> None:
        super().__init__()
        self.layer = layer
        self.names = layer_names(model)
        self.origin = places_of_inputs(inputs)
        self.places: dict[Key, Places] = {require_key(inputs): self.origin}
        self.found: dict[Key, Activation] = {}
        self.latest: dict[int, Activation] = {}
        """By the identity of the tensor, which the activation keeps alive."""
        self.sharing: dict[int, list[Activation]] = defaultdict(list)
        """By the memory that they are in."""
        self.read: set[Key] = set()
        self.times: dict[tuple[str, str], int] = defaultdict(int)

    def replaces(self, name: str) -> bool:
        return False

    def watch(self, call: Call) -> Any:
        if call.name in ASKING:
            return call.value()
        changing = call.args[0] if call.name == "__setitem__" else place_of(call)
        if call.name == "__get__" and not isinstance(value := call.value(), Tensor):
            return value
        parents = []
        for tensor in call.carriers:
            if (key := key_of(tensor)) is not None:
                parents.append(self.places_at(key, tensor))
                if tensor is not changing:
                    self.read.add(key)
        if changing is not None:
            self.keep_what_changes(changing)
        value = call.value()
        for tensor in tensors_in([changing if value is None and changing is not None else value]):
            self.note(tensor, call, parents)
        return value

    def note(self, tensor: Tensor, call: Call | None, parents: list[Places]) -> Activation | None:
        key = key_of(tensor)
        if key is None or key in self.places or not (tensor.is_floating_point() or tensor.is_complex()):
            return None
        self.places[key] = places = follow(call, tensor.shape, parents, self.origin)
        if (
            tensor.is_complex()
            or not (places.are_known and places.deep)
            or places.are_of_a_part
            or (call is not None and call.name.startswith(NOT_COUNTED))
        ):
            return None
        running = running_layer(self.names)
        function = call.name.strip("_") if call is not None else "output"
        self.times[running, function] += 1
        times = self.times[running, function]
        name = f"{running}/{function}" + (f".{times}" if times > 1 else "")
        activation = Activation(tensor, key, places, name, is_norm=function.endswith("_norm"))
        self.found[key] = self.latest[id(tensor)] = activation
        self.sharing[tensor.untyped_storage().data_ptr()].append(activation)
        if name == self.layer:
            activation.keep()
        return activation

    def places_at(self, key: Key, tensor: Tensor) -> Places:
        """The places of a tensor; of one that no watched function has made, by what it came from."""
        if key not in self.places:
            self.places[key] = follow(None, tensor.shape, list(self.ancestors(key)), self.origin)
        return self.places[key]

    def ancestors(self, key: Key) -> Iterator[Places]:
        """The nearest tensors that are known and lead to this one."""
        waiting, seen = [key], {key}
        while waiting and len(seen) < SEARCHED:
            node, _ = waiting.pop()
            for edge in node.next_functions:
                if edge[0] is None or edge in seen:
                    continue
                seen.add(edge)
                if edge in self.places:
                    yield self.places[edge]
                else:
                    waiting.append(edge)

    def keep_what_changes(self, tensor: Tensor) -> None:
        """Before a function in place: what it changes may be wanted where something else has read it, or a part of it.

        Otherwise whatever passes through the tensor also passes through what it becomes.
        """
        for activation in self.sharing.get(tensor.untyped_storage().data_ptr(), ()):
            if activation.key in self.read or activation.is_norm or activation.places.shape != tuple(tensor.shape):
                activation.keep()

    def returned(self, module: nn.Module, args: Any, output: Any) -> None:
        """A forward hook: this module returned that activation."""
        name = self.names.get(id(module), "")
        if not name:
            return
        tensors = [output] if isinstance(output, Tensor) else tensors_in([output])
        known = [self.latest[id(tensor)] for tensor in tensors if id(tensor) in self.latest]
        if not known and len(tensors) == 1:
            known = self.unseen(tensors[0])
        if len(known) == 1:
            (activation,) = known
            passes_on = any(tensor is activation.tensor for tensor in args)  # such as a dropout that does nothing
            activation.modules.insert(0 if passes_on else len(activation.modules), name)
            if not passes_on:
                activation.returned_by = ref(module)
            activation.is_norm |= "Norm" in type(module).__name__
            if name == self.layer:
                activation.keep()

    def unseen(self, tensor: Tensor) -> list[Activation]:
        """What a module made by a function that cannot be watched."""
        with torch._C.DisableTorchFunction():
            key = key_of(tensor) if tensor.requires_grad else None
            made = None if key is None or key in self.places else self.note(tensor, None, list(self.ancestors(key)))
        return [] if made is None else [made]


def require_key(tensor: Tensor) -> Key:
    key = key_of(tensor)
    assert key is not None
    return key


def recorded(model: nn.Module, batch: Batch, layer: str | None) -> tuple[Tensor, list[Activation]]:
    """The model's outputs with their graph, and all that has places, in the order of the pass."""
    require_layers(model, "a class activation map")
    with torch.enable_grad():
        inputs = batch.inputs.detach().requires_grad_().clone()  # the model may change it
        start, _ = require_key(inputs)
        recorder = Recorder(model, inputs, layer)
        with hooked(model, recorder), uncompiled(), recorder:
            outputs = model(inputs, *batch.context)
    passed, nodes = bottlenecks(outputs, start) if isinstance(outputs, Tensor) else (set(), set())
    found = list(recorder.found.values())
    for activation in found:
        activation.leads = activation.key[0] in nodes
        activation.is_bottleneck = activation.key in passed
    name_all(found)
    return outputs, found


@contextmanager
def hooked(model: nn.Module, recorder: Recorder) -> Iterator[None]:
    hooks = [module.register_forward_hook(recorder.returned) for module in model.modules()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def name_all(found: Iterable[Activation]) -> None:
    """Each is called by the outermost module that returned it last, or else by its function."""
    returned = {name: activation for activation in found for name in activation.modules}
    for activation in found:
        own = [name for name in activation.modules if returned[name] is activation]
        activation.name = own[-1] if own else activation.function
        if own[-1:] != activation.modules[-1:]:
            activation.returned_by = None


def spatial_activations(
    model: nn.Module, batch: Batch, layer: str | None = None, every: bool = True
) -> tuple[Tensor, list[Activation]]:
    """The model's outputs, and the activations that a class activation map may read, or that of `layer`.

    `layer` is a name, or BEFORE_MAX_POOL.

    These are maps that all of the score's gradient passes, in the order of the pass; in a transformer then come the
    tokens that a norm makes, or that layers made and everything passes. Pooling to a fixed size does not count, because
    what it returns is no longer where it was; nor does what does not depend on the inputs (the words of a question).

    Where not `every` one is wanted it may be the last alone, which is quicker if it is known from before; of tokens the
    last that counted, and those behind it.
    """
    if not every and (again := read_again(model, batch, layer)) is not None:
        return again
    outputs, found = recorded(model, batch, layer)
    if isinstance(outputs, Tensor):
        require_gradient(outputs)
    if layer == BEFORE_MAX_POOL:
        chosen = [before_max_pool(automatic(found))]
    elif layer is not None:
        chosen = [named(layer, found, model)]
    else:
        chosen = automatic(found)
    if not every and (layer is not None or not chosen[-1].tokens):
        remember(model, batch, layer, outputs, chosen[-1])
    return outputs, chosen


def automatic(found: list[Activation]) -> list[Activation]:
    """The activations that count where no layer is named."""
    wide = [activation for activation in found if activation.leads and max(activation.extent) > 1]
    chosen = [a for a in wide if a.is_bottleneck and not a.tokens]
    tokens = [a for a in wide if a.tokens and (a.is_norm or (a.is_bottleneck and a.places.worked_on))]
    if tokens and (not chosen or wide.index(chosen[-1]) < wide.index(tokens[-1])):
        chosen += tokens
    if not chosen:
        raise nowhere(wide)
    return chosen


def before_max_pool(chosen: list[Activation]) -> Activation:
    """What the last max-pooling was made of, where the last activation is its output; else that one."""
    is_pooled = chosen[-1].function.rpartition("/")[2].startswith(("max_pool", "fractional_max_pool"))
    return chosen[-2] if is_pooled and len(chosen) > 1 else chosen[-1]


@dataclass(frozen=True)
class Layer:
    """A layer that `layer=NAME` may name: its maps, whether all of the score's gradient passes it, and whether it is
    the one that is read where none is named."""

    name: str
    channels: int
    extent: tuple[int, ...]
    passed_by_all: bool
    automatic: bool


def all_layers(model: nn.Module, batch: Batch) -> list[Layer]:
    """The layers of a model with places, in the order of the pass, for people to choose from.

    What functions make is among them only if all of the score's gradient passes it.
    """
    from heatproof.explainers.cam import layers_read

    with untouched(model):
        _, found = recorded(model, batch, None)
    wide = [activation for activation in found if activation.leads and max(activation.extent) > 1]
    try:
        automatic = layers_read(model, batch, None)
    except HeatproofError:
        automatic = ""
    return [
        Layer(a.name, a.width, a.extent, a.is_bottleneck, a.name == automatic)
        for a in wide
        if a.modules or a.is_bottleneck
    ]


def named(layer: str, found: list[Activation], model: nn.Module) -> Activation:
    """The activation of this name: of a module that runs several times, the last."""
    for activation in reversed(found):
        if layer == activation.function or layer in activation.modules:
            if max(activation.extent) > 1:
                activation.name = layer
                return activation
            break
    known = [name for name in layer_names(model).values() if name]
    if layer not in known and not any(layer == activation.function for activation in found):
        raise unknown_name("layer", layer, [*known, *(activation.function for activation in found)])
    raise without_extent(f"layer {layer!r} has none")


def without_extent(reason: str) -> HeatproofError:
    return HeatproofError(
        f"a class activation map needs a layer with spatial extent, and {reason}."
        " Name a convolution with layer=NAME, or take a method that reads the input only (gradient, rise ...)."
    )


def nowhere(wide: list[Activation]) -> HeatproofError:
    """An error for a model of which no layer is the one to read."""
    if not wide:
        return without_extent("no layer of the model has any")
    last = list({activation.name: None for activation in reversed(wide) if not activation.tokens})
    return HeatproofError(
        "a class activation map reads the last layer that all of the score's gradient passes, and this model has none:"
        f" its branches meet where no places are left. Name a layer with layer=NAME, such as {', '.join(last[:4])}."
    )


def last_of_each_extent(activations: list[Activation]) -> list[Activation]:
    """The last activation of each extent, largest extents first."""
    last = {activation.extent: activation for activation in activations}
    return sorted(last.values(), key=lambda activation: -prod(activation.extent))


def model_size(model: nn.Module, batch: Batch) -> Size:
    """What the number of passes of an explainer depends on, seen in one pass of the batch."""
    try:
        with untouched(model):
            layers = last_of_each_extent(spatial_activations(model, batch)[1])
        channels = tuple(layer.width for layer in layers)
    except HeatproofError:  # no layer has places: class activation maps will say so
        channels = (0,)
    return Size(batch.space, channels)
