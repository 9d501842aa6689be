"""Where the places of the input are in a tensor that a network has made of it.

Convolutional networks keep maps (B, C, *extent), some with the channels last; transformers tokens (B, T, D), one for
each cell of a grid, behind a class token and perhaps a few more. A shape alone does not tell which: (B, 64, 64, 256)
may be maps, or all pairs of 64 cells. So places are followed from the input on, function by function.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import gcd, prod

import torch
from torch import Tensor

from heatproof.explainers.relevance_kinds import SHAPES
from heatproof.explainers.watching import Call, tensors_in

FURTHER_TOKENS = 8
"""The most tokens beside the grid: class, distillation, registers."""

MAP_MAKERS = (
    "conv", "max_pool", "avg_pool", "lp_pool", "fractional_max_pool", "max_unpool", "interpolate", "upsample", "pixel_",
)  # fmt: skip
"""What functions are called whose second axis is the channels and whose further ones are space."""
NORMS = ("batch_norm", "instance_norm", "group_norm")
"""The same, but they give any tensor back in its own shape."""
MIXERS = ("conv", "linear", "matmul", "bmm", "mm", "addmm", "baddbmm", "einsum")
"""Functions that weights take part in: before the first of these there is no layer."""
PERMUTATIONS = {"permute", "transpose", "movedim", "adjoint", "t", "__get__"}
MOVES = {"roll", "flip", "fliplr", "flipud", "rot90", "index_select", "gather", "take_along_dim"}
"""Functions after which a value may not be where it was."""
BY_VALUE = {"sort": 1, "topk": 2}
"""Functions that put values where their size says, and which argument names the axis."""
JOINS = {"cat", "concat", "concatenate"}
CUTS = {"__getitem__", "slice", "narrow", "pad", "constant_pad_nd"}
PARTS = CUTS | {
    "split", "split_with_sizes", "unsafe_split", "chunk", "unsafe_chunk", "tensor_split", "hsplit", "vsplit", "dsplit",
}  # fmt: skip
"""Functions that may give a part of the input only, such as its left half."""
ALONG_THE_LAST = {"linear", "multi_head_attention_forward"}
"""Functions that mix what lies along the last axis."""
TOKEN_LAYERS = ("linear", "attention_forward", "_norm")
TOKEN_NORMS = {"layer_norm", "rms_norm"}
RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu"}
ONLY_MOVING = SHAPES - {"as_strided", "expand", "expand_as", "broadcast_to", "broadcast_tensors"}
"""Functions that only give a tensor other axes."""
JOINING = {"reshape", "reshape_as", "view", "view_as", "flatten", "unflatten"}
"""Those that may join and split axes."""
MOST_CELLS = 2**25
"""Values of a tensor whose cells are followed one by one."""
EVEN = 1.5
"""How much more one dimension may shrink than another for the whole to be still there."""
MOST = 2 / 3
"""A cut that leaves less of a dimension leaves a part of the input; one that leaves more takes an edge off."""


@dataclass(frozen=True)
class Places:
    """Of a tensor's axes, which one counts cases and which are space: one per dimension, or one for all (tokens).

    Where they cannot be told, `space` is empty, and `extent` that of the last maps that it comes from.
    """

    shape: tuple[int, ...]
    extent: tuple[int, ...] = ()
    space: tuple[int, ...] = ()
    batch: int = 0
    deep: bool = False
    """Whether a layer has come before it."""
    worked_on: bool = False
    """Whether it comes from what a layer made of tokens, so that these are more than maps in another order."""
    gone: bool = False
    """Whether it has no places at all, but frequencies, or what is mixed of all places."""
    portion: tuple[float, ...] = ()
    """How much of each dimension of the input is there, where something was cut out of it."""
    shuffled: bool = False
    """Whether its cells were put into another order, so that lengths do not tell what is where."""
    order: Tensor | None = field(default=None, compare=False, repr=False)
    """While cells are only moved about: which cell of `moved_from` each value belongs to."""
    moved_from: tuple[int, ...] = ()
    behind: int = 0
    """Further tokens that stand behind the grid; the others stand before it."""
    least: tuple[int, ...] = ()
    """The smallest extents on the way here: what goes beyond them is an edge."""
    came_last: bool = False
    """Whether space followed the channels where it was last known."""
    moved: tuple[Tensor, Tensor] | None = field(default=None, compare=False)
    """Numbers of the places of a case as functions moved them, and as they were; None: all are where they were."""

    @property
    def tokens(self) -> bool:
        return len(self.space) == 1 and (len(self.extent) > 1 or self.shape[self.space[0]] > self.extent[0])

    @property
    def are_known(self) -> bool:
        return bool(self.space) and len(self.shape) == 2 + len(self.space) and self.moved is None

    @property
    def are_of_a_part(self) -> bool:
        """Whether there is more to the input than these, so that they may not be laid over all of it."""
        return any(there < MOST for there in self.portion)

    @property
    def come_last(self) -> bool:
        """Whether space follows the channels."""
        (channels,) = {*range(len(self.shape))} - {self.batch, *self.space}
        return bool(channels < self.space[0])

    def maps(self, values: Tensor) -> Tensor:
        """Values of this shape (a gradient, say) as maps (B, C, *extent); tokens beside the grid fall out."""
        (channels,) = {*range(values.ndim)} - {self.batch, *self.space}
        values = values.permute(self.batch, channels, *self.space)
        if len(self.space) == 1:
            further = values.shape[2] - prod(self.extent)
            grid = values.narrow(2, further - min(further, self.behind), prod(self.extent))
            values = grid.reshape(*values.shape[:2], *self.extent)
        return values

    @property
    def so_far(self) -> bool:
        """Whether space follows the channels, or did where it was last known."""
        return self.come_last if self.are_known else self.came_last

    def lost(self, shape: Sequence[int]) -> Places:
        nowhere = replace(self, space=(), batch=0, worked_on=False, gone=False, order=None, moved_from=())
        return replace(nowhere, shape=tuple(shape), came_last=self.so_far)

    def at(self, shape: Sequence[int], space: Sequence[int], extent: Sequence[int]) -> Places:
        least = self.least_with(extent)
        kept = Places(tuple(shape), tuple(extent), tuple(space), deep=self.deep, least=least, behind=self.behind)
        return replace(kept, portion=self.portion)

    def least_with(self, extent: Sequence[int]) -> tuple[int, ...]:
        return tuple(map(min, self.least, extent)) if len(self.least) == len(extent) else tuple(extent)


def places_of_inputs(inputs: Tensor) -> Places:
    extent = tuple(inputs.shape[2:])
    return Places(tuple(inputs.shape), extent, tuple(range(2, inputs.ndim)), least=extent)


def follow(call: Call | None, shape: Sequence[int], parents: Sequence[Places], inputs: Places) -> Places:
    """The places of a function's output of this shape; without a call, of a function that nobody saw."""
    shape = tuple(shape)
    name = call.name if call else ""
    parent = main_parent(name, shape, parents)
    deep = parent.deep or not call or name.startswith(MIXERS)
    worked_on = parent.worked_on or (parent.tokens and not parent.come_last and name.endswith(TOKEN_LAYERS))
    places = ordered(call, name, parent, followed(call, name, shape, parent, inputs))
    if (places.deep, places.worked_on) == (deep, worked_on):
        return places
    return replace(places, deep=deep, worked_on=worked_on)


def main_parent(name: str, shape: tuple[int, ...], parents: Sequence[Places]) -> Places:
    """Of a function's arguments, the one that its output takes its places from: one that was moved, if any was."""
    if len(parents) < 2:
        return parents[0] if parents else Places(shape)
    deep, worked_on = any(parent.deep for parent in parents), any(parent.worked_on for parent in parents)
    alike = [parent for parent in parents if parent.shape == shape or name in JOINS]
    if moved := [parent for parent in alike if parent.shuffled or parent.moved is not None]:
        parents = moved
    elif not name.startswith(MIXERS) and len({parent.space for parent in alike if parent.are_known}) > 1:
        parents = [replace(alike[0].lost(shape), shuffled=True)]  # one of them lies on its side
    first = max(parents, key=lambda p: (p.are_known, p.shape == shape, prod(p.extent), prod(p.shape)))
    return replace(first, deep=deep, worked_on=worked_on)


def followed(call: Call | None, name: str, shape: tuple[int, ...], parent: Places, inputs: Places) -> Places:
    if name in RECURRENT:  # each step holds all steps before it
        return Places(shape)
    if name.startswith("fft_i"):  # places again, though it is not known which axes they are
        return Places(shape, inputs.extent, came_last=parent.so_far)
    if name.startswith("fft_") or parent.gone:
        return Places(shape, gone=True, came_last=parent.so_far)
    if name == "stft":  # its frames follow each other in time
        return parent.at(shape, (2,), shape[2:]) if len(shape) == 3 else parent.lost(shape)
    if name.startswith("adaptive_"):  # to a fixed size: what it returns is no longer where it was
        return parent if shape == parent.shape else Places(shape)
    if call is not None and name in BY_VALUE and orders_places(call, parent):
        return replace(parent.lost(shape), shuffled=True)
    if name in PARTS and parent.are_known and not parent.tokens and gives_a_part(call, shape, parent):
        return resized(parent, shape)
    if call is not None and parent.are_known and mixes_places(call, parent):
        return Places(shape, gone=True, came_last=parent.so_far)  # each value holds all places
    if call is not None and (name in MOVES or picks(call)):
        return after_move(call, shape, parent)
    if parent.moved is not None or (name in TOKEN_NORMS and parent.tokens and parent.come_last):
        return parent.lost(shape)
    if call is not None and name in PERMUTATIONS and (order := permutation(call, parent.shape)):
        return permuted(parent, order)
    if shape == parent.shape and parent.are_known and not name.startswith(MAP_MAKERS):
        return parent
    if name.startswith((*MAP_MAKERS, *NORMS)):
        return made_maps(shape, parent, inputs)
    if parent.are_known and len(shape) == len(parent.shape):
        kept = same_axes(name, shape, parent if call is None or name not in JOINS else joined(call, parent))
        if kept is not None:
            return kept
    return by_shape(name, shape, parent, inputs)


def ordered(call: Call | None, name: str, parent: Places, places: Places) -> Places:
    """The same places, if the cells are still in their order; else it is known that they are not.

    Lengths do not tell: windows laid out one after the other have as many cells as the grid. So where axes are split,
    permuted and joined, numbers of cells go the same way.
    """
    if places.shuffled and not parent.shuffled:
        return places
    if parent.order is not None and places.shape == parent.shape and name not in ONLY_MOVING:
        if places.are_known and not parent.shuffled:
            return replace(places, order=None)
        return replace(parent.lost(places.shape), order=parent.order, moved_from=parent.moved_from)
    if parent.order is None and parent.are_known and places.are_known and places.extent == parent.extent:
        if name in JOINING and not in_place(call, name, parent, places):
            return replace(parent.lost(places.shape), shuffled=True)
        return places
    if parent.order is None and (places.are_known or not parent.are_known or parent.tokens):
        return places if places.order is None else replace(places, order=None)
    order = moved_cells(call, name, parent)
    fine = parent.moved_from or parent.extent
    if order is None or not places.are_known:
        return replace(parent.lost(places.shape) if parent.shuffled else places, order=order, moved_from=fine)
    if bool((coarser(order, fine, places.extent) == numbered_cells(places)).all()):
        return replace(places, order=None, shuffled=False)
    return replace(parent.lost(places.shape), shuffled=True, order=order, moved_from=fine)


def in_place(call: Call | None, name: str, parent: Places, places: Places) -> bool:
    """Whether each value is still of the place where it seems to be, after axes were joined or split."""
    moved = moved_cells(call, name, parent)
    if moved is None or places.tokens != parent.tokens:
        return True
    return torch.equal(moved, numbered_cells(places))


def moved_cells(call: Call | None, name: str, parent: Places) -> Tensor | None:
    """Where a function that only moves cells about has put them; None of any other."""
    if call is None or name not in ONLY_MOVING or prod(parent.shape) > MOST_CELLS:
        return None
    order = numbered_cells(parent).contiguous() if parent.order is None else parent.order
    try:
        moved = call.func(order, *call.args[1:], **call.kwargs)
    except RuntimeError:  # patches as columns are made of numbers with a point only
        return None
    return moved if isinstance(moved, Tensor) else None


def numbered_cells(places: Places) -> Tensor:
    """The number of its cell at each value, of the shape of the whole."""
    shape = [1] * len(places.shape)
    for axis in places.space:
        shape[axis] = places.shape[axis]
    small = torch.int16 if prod(shape) < 2**15 else torch.int32
    return torch.arange(prod(shape), dtype=small).view(shape).expand(places.shape)


def coarser(cells: Tensor, fine: Sequence[int], coarse: Sequence[int]) -> Tensor:
    """Numbers of cells of a fine grid as those of the cells of a coarse one that they lie in."""
    found, rest = torch.zeros_like(cells), cells
    for axis in range(len(fine)):
        inner = prod(fine[axis + 1 :])
        found = found * coarse[axis] + rest // inner // (fine[axis] // coarse[axis])
        rest = rest % inner
    return found


def permutation(call: Call, shape: Sequence[int]) -> tuple[int, ...] | None:
    """The order of axes that a function gives to a tensor, seen on a stand-in whose axes all differ in length."""
    stand_in = torch.empty(tuple(range(2, 2 + len(shape))), device="meta")
    try:
        moved = call.func(stand_in, *call.args[1:], **call.kwargs)
    except (RuntimeError, TypeError, IndexError):
        return None
    if not isinstance(moved, Tensor) or sorted(moved.shape) != list(stand_in.shape):
        return None
    return tuple(length - 2 for length in moved.shape)


def mixes_places(call: Call, parent: Places) -> bool:
    """Whether it is a product by weights along space."""
    last = len(parent.shape) - 1
    if call.name in ALONG_THE_LAST:
        return last in parent.space
    if call.name != "matmul" or len(call.carriers) != 1 or len(call.args) != 2:
        return False
    return (last if call.args[0] is call.carriers[0] else last - 1) in parent.space


def picks(call: Call) -> bool:
    """Whether it takes values by a tensor of their numbers."""
    return call.name == "__getitem__" and bool(tensors_in(call.args[1:]))


def orders_places(call: Call, parent: Places) -> bool:
    """Whether a function that puts values in order does so along space."""
    place = BY_VALUE[call.name]
    axis = call.kwargs.get("dim", call.args[place] if len(call.args) > place else -1)
    return parent.are_known and axis % len(parent.shape) in parent.space


def after_move(call: Call, shape: tuple[int, ...], parent: Places) -> Places:
    """Places behind a function that moves values, seen on the numbers of places; back where they were they are known
    again."""
    now, before = parent.moved or (numbers_of(parent),) * 2
    if now.ndim != len(shape) or now.shape[1:] != parent.shape[1:]:
        return parent.lost(shape)
    try:  # for all cases, which it may take by their numbers too
        now = call.func(now.expand(parent.shape[0], *now.shape[1:]), *call.args[1:], **call.kwargs)[:1]
    except (RuntimeError, TypeError, IndexError):
        return replace(Places(shape), shuffled=True)
    if now.shape == before.shape and torch.equal(now, before):
        return parent if parent.are_known else replace(parent.lost(shape), moved=None)
    return replace(parent.lost(shape), moved=(now, before))


def numbers_of(places: Places) -> Tensor:
    """A number for each place of a case, the same for all channels; where places are not known, for each value."""
    if places.are_known:
        axes: Sequence[int] = places.space
    elif places.extent and places.came_last and places.shape[-len(places.extent) :] == places.extent:
        axes = range(len(places.shape))[-len(places.extent) :]  # channels in groups
    else:
        axes = range(1, len(places.shape))
    lengths = [length if axis in axes else 1 for axis, length in enumerate(places.shape)]
    return torch.arange(prod(lengths)).view(lengths).expand(1, *places.shape[1:])


def permuted(parent: Places, order: Sequence[int]) -> Places:
    shape = tuple(parent.shape[axis] for axis in order)
    if not parent.are_known:
        return parent.lost(shape)
    space = [order.index(axis) for axis in parent.space]
    return replace(parent, shape=shape, batch=order.index(parent.batch), space=tuple(space))


def gives_a_part(call: Call | None, shape: tuple[int, ...], parent: Places) -> bool:
    """Whether the output has less than most of the places along a dimension, seen on their numbers; steps do not."""
    if call is None or len(shape) != len(parent.shape):
        return False
    for axis, least in zip(parent.space, parent.least, strict=True):
        if shape[axis] >= MOST * least:
            continue
        numbers = torch.arange(parent.shape[axis]).view([-1 if axis == other else 1 for other in range(len(shape))])
        try:
            found = call.func(numbers.expand(parent.shape), *call.args[1:], **call.kwargs)
        except (RuntimeError, TypeError, IndexError):
            return False
        for part in tensors_in([found]):
            if part.shape == shape and part.numel() and int(part.max() - part.min()) + 1 < MOST * least:
                return True
    return False


def resized(parent: Places, shape: tuple[int, ...]) -> Places:
    """The same axes, of which a part was cut out, or parts were put side by side."""
    extent = tuple(shape[axis] for axis in parent.space)
    before = parent.portion or (1.0,) * len(extent)
    portion = tuple(there * new / old for there, new, old in zip(before, extent, parent.extent, strict=True))
    lengths = zip(extent, parent.extent, parent.least, strict=True)
    least = tuple(new if new > old else min(new, small) for new, old, small in lengths)
    return replace(parent, shape=shape, extent=extent, least=least, portion=portion)


def made_maps(shape: tuple[int, ...], parent: Places, inputs: Places) -> Places:
    """What a convolution returns, if the places of its argument were where a convolution expects them."""
    if len(shape) != len(inputs.shape) or shape[0] != inputs.shape[0]:
        return parent.lost(shape)
    if parent.are_known and (parent.space != inputs.space or parent.batch):
        return replace(parent.lost(shape), shuffled=True)
    if not parent.are_known:
        if parent.shuffled or any(new > old for new, old in zip(shape[2:], parent.extent, strict=False)):
            return parent.lost(shape)
        if not in_order(parent):
            return replace(parent.lost(shape), shuffled=True)
    return parent.at(shape, inputs.space, shape[2:])


def in_order(parent: Places) -> bool:
    """Whether cells that were only moved about lie where a convolution expects them, as far as can be told."""
    fine, coarse = parent.moved_from, parent.shape[2:]
    if parent.order is None or len(fine) != len(coarse) or any(a % b for a, b in zip(fine, coarse, strict=True)):
        return True
    expected = numbered_cells(replace(parent, space=tuple(range(2, len(parent.shape)))))
    return torch.equal(coarser(parent.order, fine, coarse), expected)


def joined(call: Call, parent: Places) -> Places:
    """The parent's places, with the tokens that a concatenation puts behind it."""
    if not parent.tokens and len(parent.extent) > 1:
        return parent
    parts = call.tensors
    own = next((place for place, part in enumerate(parts) if tuple(part.shape) == parent.shape), len(parts))
    more = sum(part.shape[parent.space[0]] for part in parts[own + 1 :] if part.ndim == len(parent.shape))
    return replace(parent, behind=parent.behind + more)


def same_axes(name: str, shape: tuple[int, ...], parent: Places) -> Places | None:
    """The places of a tensor with as many axes as its parent (a sum, a slice, a concatenation), if they are there."""
    if shape[parent.batch] != parent.shape[parent.batch]:
        return None
    lengths = tuple(shape[axis] for axis in parent.space)
    if parent.tokens or (name == "cat" and len(lengths) == len(parent.extent) == 1):
        further = lengths[0] - prod(parent.extent)
        if parent.behind and 0 < further < parent.shape[parent.space[0]] - prod(parent.extent):
            return Places(shape)  # some of those before or behind the grid are gone
        return replace(parent, shape=shape) if 0 <= further <= FURTHER_TOKENS else None
    if lengths == parent.extent:
        return replace(parent, shape=shape)
    if name in JOINS and parent.deep and not any(new % old for new, old in zip(lengths, parent.extent, strict=True)):
        return resized(parent, shape)  # parts of the input, side by side
    if name in CUTS and min(lengths) > 0:
        ratios = [old / new for old, new in zip(parent.extent, lengths, strict=True)]
        if max(ratios) < EVEN * min(ratios):
            return replace(parent, shape=shape, extent=lengths, least=parent.least_with(lengths))
    return None


def by_shape(name: str, shape: tuple[int, ...], parent: Places, inputs: Places) -> Places:
    """The places of a tensor whose axes were joined or split: found again by their lengths, if in one way only."""
    if not parent.extent or not shape or shape[0] != inputs.shape[0] or (parent.shuffled and parent.order is None):
        return parent.lost(shape)
    for extent in extents_within(parent):
        further = FURTHER_TOKENS if parent.deep else 0
        found = [parent.at(shape, space, extent) for space in spaces(shape, extent, len(inputs.space), further)]
        if extent != parent.extent and parent.deep and len(shape) == 3:
            found = []  # as many tokens, or features of latents, as places by chance
        if name in ALONG_THE_LAST:  # what it has made lies there
            found = [places for places in found if len(shape) - 1 not in places.space]
        if parent.are_known:  # without a permutation, what followed the channels still does
            found = [places for places in found if places.come_last == parent.come_last]
        elif parent.deep and len(shape) == 3:  # features of latents may be as many as places
            found = [places for places in found if places.come_last == parent.came_last]
        if found:
            return found[0] if len(found) == 1 else parent.lost(shape)
    return parent.lost(shape)


def extents_within(parent: Places) -> Iterable[tuple[int, ...]]:
    """The parent's extent; where its places are lost, also a part of it, as cells are merged and patches cut."""
    yield parent.extent
    if not parent.are_known or not parent.deep:
        common = gcd(*parent.extent)
        for factor in (2, 4) if parent.deep else range(2, common + 1):
            if common % factor == 0:
                yield tuple(length // factor for length in parent.extent)


def spaces(shape: Sequence[int], extent: tuple[int, ...], dimensions: int, further: int) -> Iterable[tuple[int, ...]]:
    """The axes of a tensor (B, ...) that may be an extent, or hold it and `further` tokens at most."""
    cells = prod(extent)
    if len(shape) == dimensions + 2 and dimensions > 1:
        if tuple(shape[2:]) == extent:
            yield tuple(range(2, len(shape)))
        if tuple(shape[1:-1]) == extent:
            yield tuple(range(1, len(shape) - 1))
    if len(shape) == 3:
        if 0 <= shape[1] - cells <= further:
            yield (1,)
        if shape[2] == cells:
            yield (2,)
