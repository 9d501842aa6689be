"""A model while it is explained: looked after, and afterwards what it was.

It runs in evaluation mode, on tensors of its own that it may change, as it was before torch.compile, and with batch
norms whose gradients are right.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.lazy import torch

OWN_HOOKS = 2
"""How many hooks a model that is looked after has for that."""
HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def untouched(model: torch.nn.Module, freeze: bool = True) -> Iterator[None]:
    """Evaluation mode; on leaving, modes, flags, gradients and hooks are what they were.

    `freeze` switches gradients of parameters off meanwhile, which saves work where only those of inputs are needed.
    """
    require_module(model)
    modules = modules_of(model)
    parameters = [p for module in modules for p in module._parameters.values() if p is not None]
    require_ordinary(parameters)
    modes = [
        (module, module.training) for module in modules if hasattr(module, "training")
    ]  # frozen programs have none
    states = [(parameter, parameter.requires_grad, parameter.grad) for parameter in parameters]
    first_hook = next_hook()
    try:
        for module, mode in modes:
            if mode:
                module.training = False
        model.register_forward_pre_hook(hand_out_copies, prepend=True)
        model.register_forward_hook(mend_norms)
        for parameter, flag, gradient in states:
            if gradient is not None:
                parameter.grad = None
            if freeze and flag:
                parameter.requires_grad = False
        with uncompiled():
            yield
    finally:
        for module, mode in modes:
            if module.training != mode:
                module.training = mode
        take_off_hooks(modules if next_hook() > first_hook + OWN_HOOKS else [model], first_hook)
        for parameter, flag, gradient in states:
            if parameter.requires_grad != flag:
                parameter.requires_grad = flag
            if parameter.grad is not gradient:
                parameter.grad = gradient


def next_hook() -> int:
    """The number that torch will give to the next hook of any module."""
    return torch.utils.hooks.RemovableHandle.next_id


def take_off_hooks(modules: Iterable[torch.nn.Module], first: int) -> None:
    """Remove all hooks of this number and later ones: they were left behind."""
    for module in modules:
        for name in HOOKS:
            if hooks := module.__dict__[name]:
                for left in [number for number in hooks if number >= first]:
                    del hooks[left]


def modules_of(model: torch.nn.Module) -> list[torch.nn.Module]:
    """The model and all modules in it, each once; torch's own way takes longer than the pass of a small network."""
    found, waiting = {model}, [model]
    for module in waiting:  # which grows meanwhile
        for inner in module._modules.values():
            if inner is not None and inner not in found:
                found.add(inner)
                waiting.append(inner)
    return waiting


def require_module(model: object) -> None:
    """The model must be a module: its layers, modes and weights are looked after."""
    if not isinstance(model, torch.nn.Module):
        found = getattr(model, "__name__", "")
        raise HeatproofError(
            f"the model must be a torch.nn.Module that gives logits, got {type(model).__name__} {found}".rstrip()
            + "; wrap a function in a module whose forward calls it."
        )


def require_ordinary(parameters: Sequence[torch.Tensor]) -> None:
    """The weights must be there, and none may come from inference mode."""
    lazy = torch.nn.parameter.UninitializedParameter
    if any(issubclass(kind, lazy) for kind in set(map(type, parameters))):
        raise HeatproofError("the model has lazy layers without weights; run it once on inputs, or load its weights.")
    for parameter in parameters:
        if parameter.is_meta:
            raise HeatproofError(
                "the model is on the meta device, where weights have no values; load its weights first."
            )
        if parameter.is_inference():
            raise HeatproofError(
                "the model was made within torch.inference_mode, and no gradient passes such weights; make or load it"
                " outside of that."
            )


def own_copies(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies that a model may change in place, as some do to normalise their inputs; gradients go through."""
    return tuple(given.clone() if isinstance(given, torch.Tensor) else given for given in tensors)


def hand_out_copies(_model: torch.nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """Forward pre-hook: the tensors of whoever asks stay as they are."""
    return own_copies(given)


def mend_norms(_model: torch.nn.Module, _given: Any, outputs: Any) -> None:
    """Forward hook: gradients reach batch norms in the layout that these have, whoever called them.

    torch 2.13 makes wrong gradients from some others on the CPU: of a single case, or along a side of length one.
    `instance_norm` is a batch norm inside.
    """
    if not torch.is_grad_enabled():
        return
    from heatproof.explainers.autograd_graph import behind, function_name
    from heatproof.explainers.watching import tensors_in

    found = outputs.values() if isinstance(outputs, dict) else [outputs]
    for node in behind(tensors_in(found)):
        if function_name(node) == "NativeBatchNorm":
            node.register_prehook(InLayout(layout_of(node._raw_saved_input.data)))  # type: ignore[attr-defined]


def layout_of(kept: Any) -> torch.memory_format:
    """The layout of what a norm took. The plain one is always right; a checkpoint keeps something else meanwhile."""
    if not isinstance(kept, torch.Tensor) or kept.ndim != 4 or kept.is_contiguous():
        return torch.contiguous_format
    return torch.channels_last if kept.is_contiguous(memory_format=torch.channels_last) else torch.contiguous_format


class InLayout:
    """Pre-hook of a node: what arrives is laid out so. It must not hold the node, or none of the graph would go."""

    def __init__(self, layout: torch.memory_format) -> None:
        self.layout = layout

    def __call__(self, signals: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
        return tuple(None if signal is None else signal.contiguous(memory_format=self.layout) for signal in signals)


def hookable(model: torch.nn.Module) -> torch.nn.Module:
    """The module that `torch.compile` was given; a module around a program of TorchScript; others as they are."""
    layers = getattr(model, "_modules", {})
    if "_orig_mod" in layers:
        return layers["_orig_mod"]  # type: ignore[no-any-return]
    if not isinstance(model, torch.jit.ScriptModule):
        return model
    from heatproof.explainers.wrapped import Program

    return Program(model)


def uncompiled() -> AbstractContextManager[Any]:
    """Parts of a model that are compiled run as they were written: a compiled graph hides its steps."""
    if "torch._dynamo" not in sys.modules:  # then nothing was compiled, and importing it takes seconds
        return nullcontext()
    return torch.compiler.set_stance("force_eager")  # type: ignore[no-any-return]


def as_usual() -> AbstractContextManager[None]:
    """In here torch computes as it does by itself: no autocast, float32 unless told. The caller's settings come back.

    What is explained in less than full precision is said so (`--precision`), never by what happens to be switched on.
    """
    before, switched_on = torch.get_default_dtype(), autocasts()
    return nullcontext() if before is torch.float32 and not switched_on else set_aside(before, switched_on)


@contextmanager
def set_aside(default: torch.dtype, switched_on: list[str]) -> Iterator[None]:
    """In here float32 is the default type, and these autocasts are off."""
    torch.set_default_dtype(torch.float32)
    try:
        with ExitStack() as stack:
            for kind in switched_on:
                stack.enter_context(torch.autocast(kind, enabled=False))
            yield
    finally:
        torch.set_default_dtype(default)


def autocasts() -> list[str]:
    """The kinds of devices for which autocast may be switched on."""
    try:
        return [kind for kind in ("cpu", "cuda") if torch.is_autocast_enabled(kind)]
    except TypeError:  # torch before 2.4 does not tell
        return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@contextmanager
def gradients_possible(batch: Batch) -> Iterator[Batch]:
    """Outside of `torch.inference_mode` and autocast, and the batch without tensors that were made in it."""
    with as_usual(), torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
        tensors = (batch.inputs, batch.target, *batch.context, *batch.masks.values())
        yield ordinary(batch) if any(tensor.is_inference() for tensor in tensors) else batch


NOT_FOLLOWED = (
    "derivative for ", "modified inplace", "modified by an inplace operation", "SparseTensorImpl", "BatchedTensorImpl",
    "use_reentrant=True",
)  # fmt: skip
"""What torch says where autograd cannot follow a function, or what it must remember was changed."""


@contextmanager
def gradients_in_words(label: str) -> Iterator[None]:
    """Where a model runs, but not with gradients, the error says so, and the way out."""
    try:
        yield
    except RuntimeError as problem:  # NotImplementedError is one
        if not any(words in str(problem) for words in NOT_FOLLOWED):
            raise
        raise HeatproofError(
            f"{label}: torch cannot follow this model backwards: {str(problem).split('. ')[0].rstrip('.')}. Write that"
            " part of the model in another way, or take a method that asks for scores only (rise, lime, occlusion"
            " ...)."
        ) from problem


def ordinary(batch: Batch) -> Batch:
    """The batch with copies of tensors that were made in inference mode."""

    def free(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.clone() if tensor.is_inference() else tensor

    return replace(
        batch,
        inputs=free(batch.inputs),
        target=free(batch.target),
        context=tuple(map(free, batch.context)),
        masks={name: free(mask) for name, mask in batch.masks.items()},
    )
