"""What an explainer is, what it explains, and how it is found by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from math import isfinite
from typing import Any, ClassVar, Literal, get_args

from heatproof.cases import Batch
from heatproof.errors import HeatproofError, unknown_name
from heatproof.explainers.guards import gradients_in_words, gradients_possible, hookable, set_up
from heatproof.lazy import torch
from heatproof.progress import part_by_part, reached
from heatproof.registry import Registry
from heatproof.seeds import CaseRandom, SampleDraws

Quantity = Literal["logit", "probability", "log_probability"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
Target = Literal["logit", "probability", "log_probability", "both"]
"""What a run explains; both: logit and probability, in tables of their own."""
LooksAt = Literal["values", "relus", "layers"]


def admitted(name: str, found: Any) -> type[Explainer]:
    """The class that a plug-in's entry point names, under that name."""
    if not isinstance(found, type) or not issubclass(found, Explainer):
        raise HeatproofError(f"it must be a subclass of heatproof.Explainer, and is {found!r}.")
    if vars(found).get("name", name) != name:
        raise HeatproofError(f"it is registered as {found.name!r}; the entry point must have the same name.")
    found.name = name
    return found


explainers: Registry[type[Explainer]] = Registry("explainer", "heatproof.explainers", admitted)
register_explainer = explainers.register_class
"""Class decorator: the explainer is known by this name on the command line, in files and in Python."""


@dataclass(frozen=True, kw_only=True)
class Explainer(ABC):
    """Says how much each part of an input mattered for what a model decided.

    A frozen dataclass whose fields are its parameters, so that it prints, compares and serialises by itself.
    Fields declared with `compare=False` (memory limits) do not change the result and are not part of its identity.
    """

    name: ClassVar[str] = ""
    family: ClassVar[str] = "other"
    paper: ClassVar[str] = ""
    cost: ClassVar[str] = "0"
    """Forward and backward passes of the model per case, as a formula for people; `passes` gives the number."""
    dimensions: ClassVar[str] = "any"
    """How many space dimensions the inputs may have, for people."""
    looks_at: ClassVar[LooksAt] = "layers"
    """What of a model it depends on: only its values and gradients; or also how gradients pass its ReLUs; or each of
    its layers. A model may have quicker forms for the first two."""
    freezes: ClassVar[bool] = True
    """Whether gradients of the model's parameters are switched off while it explains."""

    @abstractmethod
    def explain(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        """Relevance of the inputs' shape, or with one channel. Call the object instead: it guards the model."""

    def passes(self, size: Size) -> int:
        """Forward plus backward passes of the model per case, or the most there can be."""
        return 0

    def layer_read(self, model: torch.nn.Module, batch: Batch) -> str:
        """The name of the layer that it reads maps from, several with commas between; empty if it reads none."""
        return ""

    def problem_with(self, masks: Collection[str]) -> str:
        """A sentence that says why it cannot explain cases with these ground truths; empty if it can."""
        return ""

    @property
    def is_ours(self) -> bool:
        """Whether all of its code is this package's, whose tests hold that it leaves weights alone."""
        return type(self).__module__.startswith("heatproof.")

    def weights_watched(self, model: torch.nn.Module) -> AbstractContextManager[None]:
        """While others' code explains, weights are watched, which takes a copy of them."""
        if self.is_ours:
            return nullcontext()
        from heatproof.explainers.weights import weights_kept

        return weights_kept(model, self.label)

    def looked_after(
        self, model: torch.nn.Module, layers: Sequence[torch.nn.Module], batch: Batch
    ) -> AbstractContextManager[None]:
        """While a model is asked, it does no harm and does not mix the cases; who asks none need not look at it."""
        from heatproof.explainers.manners import looked_after

        asks_none = self.family in ("floor", "ceiling")
        return looked_after(model, layers, None if asks_none else batch, self.label, self.is_ours)

    def __call__(self, model: torch.nn.Module, batch: Batch, rng: CaseRandom) -> torch.Tensor:
        """Explain a batch, in halves where memory runs out; the model is left as it was, also when this raises."""
        model = hookable(model)
        return self.guarded(model, batch, lambda cases: [self.explain(model, cases, rng)])[0]

    @property
    def shares_passes(self) -> bool:
        """Whether `each` explains several quantities from the same passes forward, which costs less than one by one."""
        return False

    def each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        """What a call gives for each of these quantities; all the same if it does not look at the model's score."""
        return [self(model, batch, rng)] * len(quantities)

    def guarded(
        self, model: torch.nn.Module, batch: Batch, explain: Callable[[Batch], list[torch.Tensor]]
    ) -> list[torch.Tensor]:
        """The maps that `explain(batch)` makes, checked; the model is looked after, and memory."""
        from heatproof.explainers.memory import memory_error_noted

        with (
            memory_error_noted(raises=len(batch) == 1) as ran_out,
            gradients_in_words(self.label),
            gradients_possible(batch) as cases,
            set_up(model, self.freezes) as layers,
            self.looked_after(model, layers, cases),
            self.weights_watched(model),
        ):
            found = explain(cases)
        if ran_out:
            middle = len(batch) // 2
            halves = part_by_part((batch[:middle], batch[middle:]), lambda half: self.guarded(model, half, explain))
            return [torch.cat(both) for both in zip(*halves, strict=True)]
        reached(1)
        return [checked(relevance, batch, self.label) for relevance in found]

    @property
    def parameters(self) -> dict[str, Any]:
        """The fields that make the result what it is."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.compare}

    @cached_property
    def label(self) -> str:
        """The name with the parameters that differ from the defaults: `smoothgrad:samples=50`."""
        changed = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.compare and f.name != "quantity" and getattr(self, f.name) != f.default
        ]
        return self.name + (":" + ",".join(changed) if changed else "")


@dataclass(frozen=True)
class Size:
    """What the number of passes depends on beside an explainer's parameters."""

    space: tuple[int, ...]
    channels: tuple[int, ...]
    """The widths of the last layer of each extent, from the input on; class activation maps read the last."""


@dataclass(frozen=True, kw_only=True)
class ScoreExplainer(Explainer):
    """An explainer of the model's score for the target class; `quantity` says which score."""

    quantity: Quantity = "logit"

    def __post_init__(self) -> None:
        require_one_of(self, "quantity", QUANTITIES)

    def each(
        self, model: torch.nn.Module, batch: Batch, rng: CaseRandom, quantities: Sequence[Quantity]
    ) -> list[torch.Tensor]:
        return part_by_part(quantities, lambda quantity: replace(self, quantity=quantity)(model, batch, rng))

    def score(
        self,
        model: torch.nn.Module,
        inputs: torch.Tensor,
        context: tuple[torch.Tensor, ...],
        target: torch.Tensor,
    ) -> torch.Tensor:
        """The explained quantity of each row (B,), in the model's own precision.

        The precision matters: a float32 probability that rounds to 1.0 has no gradient left (SVEA's published table).
        """
        return quantity_of(model(inputs, *context), target, self.quantity)

    def gradient(
        self, model: torch.nn.Module, inputs: torch.Tensor, context: tuple[torch.Tensor, ...], target: torch.Tensor
    ) -> torch.Tensor:
        """d score / d inputs, row by row."""
        from heatproof.explainers.compiled import require_gradients

        require_gradients(model, self.name)
        with torch.enable_grad():
            inputs = inputs.detach().requires_grad_()
            total = self.score(model, inputs, context, target).sum()
        return slope(total, inputs)


@dataclass(frozen=True, kw_only=True)
class SampledExplainer(ScoreExplainer):
    """An explainer that asks the model about many variants of each case.

    As many go through it at once as fit into `memory` megabytes, and at most `rows`.
    """

    gradients: ClassVar[bool] = False
    """Whether it asks for gradients at the variants, or for scores only."""

    rows: int = field(default=2000, compare=False)
    memory: float = field(default=500.0, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(self, "rows", "memory")

    def sweep(
        self,
        model: torch.nn.Module,
        batch: Batch,
        per_case: int,
        work: Callable[..., None],
        draws: SampleDraws | None = None,
    ) -> None:
        """`work(case, sample)`, or `work(case, sample, drawn)`, for all cases x samples in blocks, case by case."""

        def rows_of(start: int, stop: int) -> tuple[torch.Tensor, ...]:
            row = torch.arange(start, stop, device=batch.inputs.device)
            case, sample = row // per_case, row % per_case
            return (case, sample) if draws is None else (case, sample, draws.rows(case))

        self.sweep_rows(model, batch, len(batch) * per_case, rows_of, work)

    def sweep_rows(
        self,
        model: torch.nn.Module,
        batch: Batch,
        total: int,
        rows_of: Callable[[int, int], tuple[torch.Tensor, ...]],
        work: Callable[..., None],
    ) -> None:
        """`work(*rows_of(start, stop))` for blocks that cover 0 ... total and fit into memory."""
        from heatproof.explainers.memory import row_cost, sweep

        fitting = row_cost(model, batch).rows(self.memory, self.gradients)
        sweep(min(self.rows, fitting), total, rows_of, work)

    def score_rows(
        self, model: torch.nn.Module, inputs: torch.Tensor, batch: Batch, case: torch.Tensor
    ) -> torch.Tensor:
        """Scores of variants, without gradients; row i belongs to case `case[i]` of the batch."""
        with torch.no_grad():
            return self.score(model, inputs, context_rows(batch, case), batch.target[case])

    def gradient_rows(
        self, model: torch.nn.Module, inputs: torch.Tensor, batch: Batch, case: torch.Tensor
    ) -> torch.Tensor:
        """Gradients at variants; row i belongs to case `case[i]` of the batch."""
        return self.gradient(model, inputs, context_rows(batch, case), batch.target[case])


def slope(total: torch.Tensor, inputs: torch.Tensor, retain_graph: bool = False) -> torch.Tensor:
    """d total / d inputs."""
    require_gradient(total)
    (found,) = torch.autograd.grad(total, inputs, retain_graph=retain_graph, allow_unused=True)
    if found is None:  # the score has a gradient, but to weights alone
        raise no_gradient()
    return found


def require_gradient(total: torch.Tensor) -> None:
    """The score must depend on the inputs in a way that autograd can follow."""
    if not total.requires_grad:
        raise no_gradient()


def no_gradient() -> HeatproofError:
    return HeatproofError(
        "no gradient leads from the model's outputs to its inputs: its forward detaches them, or runs within"
        " torch.no_grad. Take that out, or take a method that asks for scores only (rise, lime, occlusion ...)."
    )


def context_rows(batch: Batch, case: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The context of each row, where row i belongs to case `case[i]`."""
    return tuple(tensor[case] for tensor in batch.context)


def quantity_of(outputs: torch.Tensor, target: torch.Tensor, quantity: Quantity) -> torch.Tensor:
    """Logit, probability or log-probability of the target class from the model's outputs (B, K)."""
    return picked(class_scores(outputs, quantity), target, outputs.shape[1])


def picked(scores: torch.Tensor, target: torch.Tensor, outputs: int) -> torch.Tensor:
    """The score of the target class of each row, of a model with so many outputs."""
    if len(scores) != len(target):
        raise HeatproofError(
            f"the model must return one row of logits for each case: it returned {len(scores)} for {len(target)}."
        )
    if scores.device.type != "cpu":  # others do not say what is out of range, or never work again
        require_classes(target, outputs)
    try:
        return scores.gather(1, target.unsqueeze(1)).squeeze(1)
    except RuntimeError:
        require_classes(target, outputs)
        raise


def class_scores(outputs: torch.Tensor, quantity: Quantity) -> torch.Tensor:
    """Logits, probabilities or log-probabilities (B, K) of all classes.

    One output z is that of a binary classifier: class 1 has the logit z and the probability sigmoid(z), class 0 the
    logit -z and the probability sigmoid(-z).
    """
    if not isinstance(outputs, torch.Tensor) or outputs.ndim != 2:
        found = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise HeatproofError(f"the model must return logits of shape (cases, classes), got {found}.")
    if outputs.is_complex() or outputs.layout is not torch.strided:
        raise HeatproofError("the model must return real, dense logits: end with .real, .abs() or .to_dense().")
    if outputs.shape[1] == 1:
        both = torch.cat([-outputs, outputs], 1)
        if quantity == "probability":
            return both.sigmoid()
        return torch.nn.functional.logsigmoid(both) if quantity == "log_probability" else both
    if quantity == "probability":
        return outputs.softmax(1)
    return outputs.log_softmax(1) if quantity == "log_probability" else outputs


def predicted_classes(outputs: torch.Tensor) -> torch.Tensor:
    """The class (B,) with the highest logit; of a single output z, class 1 where z is above zero."""
    return class_scores(outputs, "logit").argmax(1)


def require_classes(target: torch.Tensor, classes: int) -> None:
    low, high = target.min().item(), target.max().item()
    highest = max(classes, 2) - 1
    if target.dtype != torch.int64 or low < 0 or high > highest:
        counted = f"{classes} outputs" if classes > 1 else "1 output, which speaks for class 1 and against class 0"
        raise HeatproofError(
            f"the target must be a whole number between 0 and {highest}, the model has {counted}; got {low} to {high}."
        )


def checked(relevance: torch.Tensor, batch: Batch, label: str) -> torch.Tensor:
    """The relevance, detached, once its type, shape and values are seen to be right."""
    if not isinstance(relevance, torch.Tensor):
        raise HeatproofError(f"{label} must return a torch.Tensor, it returned {type(relevance).__name__}.")
    full = tuple(batch.inputs.shape)
    single = (full[0], 1, *full[2:])
    if tuple(relevance.shape) not in (full, single):
        raise HeatproofError(
            f"{label} returned relevance of shape {tuple(relevance.shape)};"
            f" it must be {full}, like the inputs, or {single}."
        )
    if not isfinite(relevance.sum().item()):  # one cheap pass; the sum of large finite values may overflow, so look
        finite = relevance.isfinite().flatten(1).all(1)
        bad = [case for case, good in zip(batch.ids, finite.tolist(), strict=True) if not good]
        if bad:
            half = relevance.dtype in (torch.float16, torch.bfloat16)
            raise HeatproofError(
                f"{label} returned NaN or infinite relevance for {len(bad)} case(s), the first is {bad[0]!r}."
                + " In half precision small numbers become zero: explain model.float()." * half
            )
    return relevance.detach()


def require_positive(explainer: Explainer, *names: str) -> None:
    """Each of these parameters must be a number above zero, a whole one where its default is."""
    whole = {f.name for f in fields(explainer) if isinstance(f.default, int)}
    for name in names:
        value = getattr(explainer, name)
        if name in whole and not isinstance(value, int):
            raise HeatproofError(f"{explainer.name}: {name} must be a whole number, got {value!r}.")
        if not value > 0:
            raise HeatproofError(f"{explainer.name}: {name} must be above zero, got {value}.")
        if value == float("inf"):
            raise HeatproofError(f"{explainer.name}: {name} must be finite.")


def require_one_of(explainer: Explainer, name: str, allowed: tuple[str, ...]) -> None:
    """This parameter must be one of these words."""
    value = getattr(explainer, name)
    if value not in allowed:
        raise unknown_name(f"{explainer.name} {name}", str(value), allowed)
