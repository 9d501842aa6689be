"""A backward pass that carries DeepLIFT's multipliers instead of gradients.

The baselines went through the model first (`recording`). Now the inputs do, each call of a torch function beside its
record: the two belong together by the order of calls, whatever the axes of a tensor mean. Like the relevance graph,
this watches functions and not modules, so functional, reused and in-place activations count too, which Captum's hooks
miss.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import cbrt
from typing import Any

import torch
from torch import Tensor, nn

from heatproof.errors import HeatproofError
from heatproof.explainers.composed import length
from heatproof.explainers.function_kinds import (
    ELEMENTWISE,
    EXACT,
    MIXED_BY_CONSTANTS,
    PICKS,
    POWERS,
    PRODUCTS,
    QUADRATIC,
    SMOOTH,
)
from heatproof.explainers.recording import Kept, Maxima, Paired, Record, is_linear, is_maximum, leaves, maxima
from heatproof.explainers.rescale_rules import (
    Pooled,
    due_shares,
    gauss_legendre,
    length_weights,
    logsumexp_weights,
    multiplied,
    noise,
    pick_shares,
    several_slopes,
    slope,
    valued,
)
from heatproof.explainers.watching import Call, elsewhere, place_of, running_layer, tensors_in, works_in_place

NODES = 16
"""Points of the mean derivative of functions that no rule knows: most that are smooth add up to many digits."""
BENDS = 4
"""Points of the mean derivative of elementwise functions of several arguments; what is missing then is added."""


class Rescale(Paired):
    """Inside this context, functions that are not linear pass multipliers back; all else its gradient."""

    def __init__(self, model: nn.Module, records: Sequence[Record], checkpoints: bool = False) -> None:
        super().__init__()
        self.model = model
        self.saving = saved_anyway if checkpoints else nullcontext
        self.records = list(reversed(records))
        self.doubtful: dict[str, None] = {}
        """Functions that may not add up, in the order of calls."""
        self.types: set[torch.dtype] = set()
        """Of the numbers that were computed with: half precision inside a model leaves more over."""

    def pair(self, call: Call) -> Any:
        record = self.partner(call)
        if not record.passes:
            return call.value()
        self.types.add(call.carriers[0].dtype)
        same = constants_equal(call, record)
        with self.saving():
            if is_linear(call) and (same or call.name not in MIXED_BY_CONSTANTS):
                if not same:
                    self.doubt(call)
                return call.value()
            place = place_of(call)
            call = call if place is None else elsewhere(call)
            value = self.rescaled(call, record, same)
            return value if place is None else place.copy_(value)

    def rescaled(self, call: Call, record: Record, same: bool) -> Any:
        """The function's value with its rule."""
        if is_maximum(call):
            return maximum(call, record)
        if call.name in PICKS:
            return picked(call, record)
        if call.name == "logsumexp":
            return log_sum_exp(call, record)
        if call.name == "over_length":
            return over_length(call, record)
        if (call.name in ELEMENTWISE or is_linear(call)) and is_plain(call):
            return elementwise(call, record)
        exact = call.name in PRODUCTS | QUADRATIC
        if not (exact and same):
            self.doubt(call)
        factors = len(call.carriers) if call.name == "einsum" else 2
        return mean_derivative(call, record, (factors + 1) // 2 if exact else NODES)

    def partner(self, call: Call) -> Record:
        """The record of the same call for the baselines."""
        record = self.records.pop() if self.records else None
        if record is None or record.name != call.name or not same_shapes(call, record):
            self.parts(f"{call.name!r}", record)
        assert record is not None
        return record

    def finish(self) -> None:
        """An error if the baselines called more functions than the inputs did."""
        if self.records:
            self.parts("the end", self.records[-1])

    def parts(self, came: str, record: Record | None) -> None:
        layer = running_layer(self.model)
        raise HeatproofError(
            "deep_lift: the model goes another way for an input than for its baseline: where the baseline came to"
            f" {repr(record.name) if record else 'the end'}, the input came to {came}"
            + (f" in layer {layer!r}" if layer else "")
            + ". Take a method that needs no pairs, such as integrated_gradients."
        )

    def doubt(self, call: Call) -> None:
        layer = running_layer(self.model)
        self.doubtful[f"{call.name!r}" + (f" of layer {layer!r}" if layer else "")] = None


CHECKPOINTS = "Checkpoints in the model."
"""What torch says where it is told not to let anybody else save tensors."""


def saved_anyway() -> AbstractContextManager[None]:
    """What functions save for the backward pass stays, also inside a checkpoint.

    A checkpoint would throw it away and compute that part of the model again, in the backward pass, where nobody
    watches.
    """
    return torch.autograd.graph.saved_tensors_hooks(lambda tensor: (tensor, tensor._version), unchanged)


def unchanged(saved: tuple[Tensor, int]) -> Tensor:
    tensor, version = saved
    if tensor._version != version:
        raise RuntimeError("a tensor that is needed in the backward pass was changed in place.")
    return tensor


def is_plain(call: Call) -> bool:
    """Whether the arguments of an elementwise function are real and broadcast as everywhere, unlike PReLU's slopes."""
    carriers = call.carriers
    return all(c.is_floating_point() for c in carriers) and (call.name != "prelu" or len(carriers) == 1)


def same_shapes(call: Call, record: Record) -> bool:
    given = leaves((call.args, call.kwargs))
    if len(given) != len(record.arguments):
        return False
    for leaf, kept in zip(given, record.arguments, strict=True):
        if isinstance(leaf, Tensor) and leaf.shape != (kept.tensor.shape if isinstance(kept, Kept) else kept):
            return False
    return True


def constants_equal(call: Call, record: Record) -> bool:
    """Whether all arguments that have no gradient are the same for inputs and baselines."""
    for leaf, kept in zip(leaves((call.args, call.kwargs)), record.arguments, strict=True):
        if isinstance(leaf, Tensor):
            if not leaf.requires_grad and not equal(leaf, kept.tensor):
                return False
        elif leaf is not kept and not (leaf == kept or (leaf != leaf and kept != kept)):
            return False
    return True


def equal(a: Tensor, b: Tensor) -> bool:
    if a.data_ptr() == b.data_ptr() and a.stride() == b.stride():
        return True
    return a.dtype == b.dtype and bool(torch.equal(a, b) or ((a == b) | ((a != a) & (b != b))).all())


def with_these(call: Call, tensors: Iterable[Tensor]) -> Call:
    """The same call with other tensors."""
    others = iter(tensors)
    return call.with_tensors(lambda _: next(others))


def at_baseline(call: Call, record: Record) -> Call:
    """The call as it was for the baselines, numbers included."""
    given = iter(record.arguments)

    def before(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: before(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)([before(part) for part in value])
        kept = next(given)
        return kept.tensor if isinstance(kept, Kept) else kept

    return replace(call, args=before(call.args), kwargs=before(call.kwargs))


def plain_value(call: Call) -> Any:
    """The function's value without a graph; the call's own tensors stay as they are."""
    free = call.with_tensors(lambda tensor: tensor.detach())
    if works_in_place(free):
        free = elsewhere(free)
    return free.value()


def elementwise(call: Call, record: Record) -> Tensor:
    """A function that works place by place: quotients of differences."""
    value: Tensor = plain_value(call)
    before = record.tensors
    base = record.values[0].tensor if record.values else plain_value(at_baseline(call, record))
    carriers = call.carriers
    if len(carriers) > 1 or carriers[0].shape != value.shape:
        return several(call, before, value, base)
    x = carriers[0].detach()
    b = next(kept for given, kept in zip(call.tensors, before, strict=True) if given.requires_grad)
    multiplier, far = slope(x - b, value - base, near(call.name, x, b, value, base))
    if far is not None:
        carries = [tensor.requires_grad for tensor in call.tensors]
        middle = derivatives(call, between(before, call.tensors, carries, 0.5))[0]
        multiplier = torch.where(far, multiplier, middle)
    return multiplied(value, [multiplier], carriers)


def near(name: str, x: Tensor, b: Tensor, value: Tensor, base: Tensor) -> Tensor | float:
    """The difference up to which the derivative in the middle is nearer to the slope than a quotient of differences.

    The quotient has lost digits by then; the derivative is off by the square of the difference, on the scale on which
    the function bends, unless it has a kink.
    """
    if name in EXACT:
        return 0.0
    if name in SMOOTH:
        return cbrt(torch.finfo(x.dtype).eps)
    if name in POWERS:
        return torch.minimum(x.abs(), b.abs()) * cbrt(torch.finfo(x.dtype).eps)
    return noise(x, b, value, base)


def derivatives(call: Call, tensors: Sequence[Tensor]) -> list[Tensor]:
    """The derivatives of an elementwise function by its carriers at these arguments; 0 where there is none."""
    given = [tensor.detach() for tensor in tensors]
    points = []
    for place, carrier in enumerate(call.tensors):
        if carrier.requires_grad:
            given[place] = given[place].requires_grad_()
            points.append(given[place])
    with torch.enable_grad():
        there = with_these(call, given)
        total = (elsewhere(there) if works_in_place(there) else there).value().sum()
    found = torch.autograd.grad(total, points, allow_unused=True, materialize_grads=True)
    return [torch.nan_to_num(gradient, 0.0, 0.0, 0.0) for gradient in found]


def several(call: Call, before: Sequence[Tensor], value: Tensor, base: Tensor) -> Tensor:
    """An elementwise function of several carriers, or of one that is expanded."""
    carries = [tensor.requires_grad for tensor in call.tensors]
    ends = [
        [tensor.detach().expand_as(value) if carrier else tensor for tensor, carrier in zip(side, carries, strict=True)]
        for side in (before, call.tensors)
    ]
    pairs = [pair for pair, carrier in zip(zip(*ends, strict=True), carries, strict=True) if carrier]
    gradients = [torch.zeros_like(value) for _ in pairs]
    for point, weight in gauss_legendre(BENDS):
        found = derivatives(call, between(ends[0], ends[1], carries, point))
        gradients = [total + weight * gradient for total, gradient in zip(gradients, found, strict=True)]
    moved = [x - b for b, x in pairs]
    limit = noise(value, base, *[side for pair in pairs for side in pair])
    return multiplied(value, several_slopes(value - base, moved, gradients, limit), call.carriers)


def between(before: Sequence[Tensor], after: Sequence[Tensor], carries: Sequence[bool], point: float) -> list[Tensor]:
    """Arguments on the straight way from the baseline's to the input's; constants are those of the nearer end."""
    return [
        b + point * (x.detach() - b) if carrier else (x if point >= 0.5 else b)
        for b, x, carrier in zip(before, after, carries, strict=True)
    ]


def mean_derivative(call: Call, record: Record, nodes: int) -> Any:
    """The mean of a function's derivatives on the straight way: the two-point rule for products, with one node."""
    value = plain_value(call)
    carries = [tensor.requires_grad for tensor in call.tensors]
    made: list[Tensor] = []
    with torch.enable_grad():
        for point, weight in gauss_legendre(nodes):
            there = [
                valued(middle, tensor) if carrier else middle
                for middle, tensor, carrier in zip(
                    between(record.tensors, call.tensors, carries, point), call.tensors, carries, strict=True
                )
            ]
            found = tensors_in([with_these(call, there).value()])
            parts = [part * weight if part.requires_grad else part for part in found]
            made = [a + b if b.requires_grad else b for a, b in zip(made, parts, strict=True)] if made else parts
    ways = iter(made)

    def with_way_back(tensor: Tensor) -> Tensor:
        way = next(ways)
        return valued(tensor, way) if way.requires_grad else tensor

    return rebuilt(value, with_way_back)


def rebuilt(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """What a function gave, with its tensors changed."""
    if isinstance(value, Tensor):
        return change(value)
    return type(value)([rebuilt(part, change) for part in value]) if isinstance(value, (list, tuple)) else value


def maximum(call: Call, record: Record) -> Any:
    """Max-pooling, and `max` over an axis: the places of both maxima share the difference."""
    carrier = call.args[0]
    found = maxima(call.with_tensors(lambda tensor: tensor.detach()))
    reached, base = found.lined_up(found.value), found.lined_up(record.values[0].tensor)
    assert record.places is not None
    due = due_shares(reached, base, found.place, record.places)
    moved = found.flat(carrier.detach()) - found.flat(record.tensors[0])
    flat: Tensor = Pooled.apply(found.flat(carrier), [reached.clone()], moved, due)  # type: ignore[no-untyped-call]
    return found.result(flat.reshape(found.value.shape) if found.axis is None else put_back(flat, found))


def picked(call: Call, record: Record) -> Any:
    """Values that are picked along an axis: the places that they stand at for input and baseline share the difference.

    So a place that is picked for neither has no part in it, though its value may have decided which ones are.
    """
    before = at_baseline(call, record)
    value, base = plain_value(call), plain_value(before)
    carrier, axis = call.args[0], argument(call, "dim", PICKS[call.name], -1)
    if call.name == "gather":
        made, places = (value, base), [argument(side, "index", 2) for side in (call, before)]
    else:
        made, places = (value[0], base[0]), [value[1], base[1]]
    moved = [(carrier.detach() - record.tensors[0]).gather(axis, place) for place in places]
    shares = pick_shares(made[0] - made[1], moved, noise(*made))
    with torch.enable_grad():
        ways = [share * carrier.gather(axis, place) for share, place in zip(shares, places, strict=True)]
        result = valued(made[0], ways[0] + ways[1])
    return result if call.name == "gather" else type(value)((result, value[1]))


def argument(call: Call, name: str, place: int, default: Any = None) -> Any:
    """An argument of a call, by its place or its name."""
    return call.args[place] if len(call.args) > place else call.kwargs.get(name, default)


def put_back(flat: Tensor, found: Maxima) -> Tensor:
    """Maxima over an axis in the shape that the call gives."""
    kept = found.value.ndim == found.call.args[0].ndim
    return flat.movedim(-1, found.axis or 0) if kept else flat.squeeze(-1)


def log_sum_exp(call: Call, record: Record) -> Tensor:
    """The function's value; its way back is that of a sum with the multipliers as weights."""
    value: Tensor = plain_value(call)
    weights = logsumexp_weights(
        call.args[0].detach(), record.tensors[0], call.args[1] if len(call.args) > 1 else call.kwargs["dim"]
    )
    weighted = with_these(call, [call.args[0] * weights])
    return valued(value, replace(weighted, func=torch.sum).value())


def over_length(call: Call, record: Record) -> Tensor:
    """The function's value; its way back is that of a linear function with the multipliers as weights."""
    carrier, axes, eps, mean = call.args
    x, b = carrier.detach(), record.tensors[0]
    lengths = length(x, axes, eps, mean), length(b, axes, eps, mean)
    scale, missing, along = length_weights(x, b, lengths, axes, mean)
    return valued(x / lengths[0], scale * carrier + missing * (along * carrier).sum(axes, keepdim=True))
