"""A model while it is asked or explained: in evaluation mode, as before torch.compile, and afterwards what it was."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

from heatproof.cases import Batch
from heatproof.errors import HeatproofError
from heatproof.lazy import torch

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@contextmanager
def untouched(model: torch.nn.Module, freeze: bool = True) -> Iterator[None]:
    """A model that is asked for scores: it does what it does to tensors of its own, and is afterwards what it was."""
    from heatproof.explainers.manners import looked_after

    with set_up(model, freeze) as layers, looked_after(model, layers):
        yield


@contextmanager
def set_up(model: torch.nn.Module, freeze: bool = True) -> Iterator[list[torch.nn.Module]]:
    """Evaluation mode; on leaving, modes, flags, gradients and hooks are what they were. Gives all of its modules.

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
        for parameter, flag, gradient in states:
            if gradient is not None:
                parameter.grad = None
            if freeze and flag:
                parameter.requires_grad = False
        with uncompiled():
            yield modules
    finally:
        for module, mode in modes:
            if module.training != mode:
                module.training = mode
        if next_hook() > first_hook:
            take_off_hooks(modules, first_hook)
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


@contextmanager
def no_backward_hooks(model: torch.nn.Module) -> Iterator[None]:
    """In here hooks that are made for gradients are off, so that none changes what comes back in their place."""
    put_aside = [
        (module, name, hooks)
        for module in modules_of(model)
        for name in ("_backward_hooks", "_backward_pre_hooks")
        if (hooks := module.__dict__[name])
    ]
    for module, name, hooks in put_aside:
        module.__dict__[name] = type(hooks)()
    try:
        yield
    finally:
        for module, name, hooks in put_aside:
            module.__dict__[name] = hooks


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
    "derivative for ", "modified inplace", "modified by an inplace operation", "a leaf Variable that requires grad",
    "TensorImpl", "use_reentrant=True",
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
