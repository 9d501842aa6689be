"""What the page says of effects: captions, pictures without each object, and how far masks tell the truth."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING

from heatproof.benchmarks.clevr_removal.effects import LEAST, Asked
from heatproof.benchmarks.clevr_removal.following import following
from heatproof.benchmarks.clevr_xai import rows as questions_of
from heatproof.benchmarks.orders import rank_correlation
from heatproof.clevr.answers import in_words
from heatproof.clevr.changed_pictures import folder_of, read_changed, wanted_of
from heatproof.clevr.interventions import RULES
from heatproof.lazy import np, pl
from heatproof.story import Cell, Column, Fact, Plate, Section, Table, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.models.vqa import Vqa

NAMED = 3
"""Objects whose effects stand under a case; the plates have all."""
PLATES = 3
"""Cases that the page shows without each object."""
WORDS = Words(cases="questions", truth="the objects that the question is about", as_published="logit")
FACTS = (
    *questions_of.FACTS,
    Fact("largest_effect", "largest effect of an object on the logit"),
)


def done_in_words(intervention: str) -> str:
    """What is said before the objects that were changed."""
    return "with" if intervention in RULES else "hiding" if intervention == "hide" else "without"


def thing_in_words(one: Asked, place: int) -> str:
    """An object as questions speak of it."""
    assert one.question.scene is not None
    thing = one.question.scene["objects"][place]
    return " ".join(str(thing[name]) for name in ("size", "color", "material", "shape"))


def changed_thing(one: Asked, place: int, intervention: str) -> str:
    """The object that a change is about; if it stays, with what it has now."""
    assert one.question.scene is not None
    rule = RULES.get(intervention)
    now = f" that is {rule.value(one.question.scene, place)} now" if rule else ""
    return thing_in_words(one, place) + now


def by_effect(one: Asked) -> list[int]:
    """The objects, that with the largest effect first."""
    return [int(place) for place in np.argsort(-np.abs(one.effects["logit"]), kind="stable")]


def caption(one: Asked, intervention: str) -> str:
    """What changes of the answer's logit, at the objects where that is most."""
    order = by_effect(one)
    if not order:
        return "The scene has no object."
    told = [
        f"{changed_thing(one, place, intervention)} {signed(-one.effects['logit'][place])}" for place in order[:NAMED]
    ]
    if rest := order[NAMED:]:
        told.append(f"{len(rest)} more at most {np.abs(one.effects['logit'][rest]).max():.2f} either way")
    return f"The answer's logit {done_in_words(intervention)} {', '.join(told)}"


def sections(network: Vqa, measured: Sequence[Asked], shown: Sequence[Asked], intervention: str) -> tuple[Section, ...]:
    """Some cases with their changed pictures; what masks say and what is; the network's own consistency."""
    plates = [plate(network, one, intervention) for one in shown[:PLATES]]
    found = [Section("What if it were another?" if intervention in RULES else "What if it were not there?", plates)]
    if table := masks_table(measured):
        found.append(Section("Do the masks tell the truth?", [table]))
    if intervention in RULES and (followed := following(network, measured, intervention)):
        found.append(Section("Does the network follow the change?", [followed]))
    return tuple(found)


def companions(network: Vqa, one: Asked, intervention: str) -> list[tuple[str, str]]:
    """The picture as it is and after every change, the largest effect first; under each what it does to the answer."""
    assert one.question.scene is not None
    folder = folder_of(one.question.dataset)
    wanted = wanted_of([one.question.scene], intervention)
    said = network.answers[one.answer]
    pictures = [(f"as it is: {said}, probability {one.probability:.3f}", address(read_changed(folder, wanted[0])))]
    for place in by_effect(one):
        thing = changed_thing(one, place, intervention)
        text = (
            f"{done_in_words(intervention)} {thing}: {network.answers[one.others[place]]};"
            f" logit {signed(-one.effects['logit'][place])}, probability {signed(-one.effects['probability'][place])}"
        )
        pictures.append((text, address(read_changed(folder, wanted[1 + place]))))
    return pictures


def plate(network: Vqa, one: Asked, intervention: str) -> Plate:
    """A case with a picture for every change."""
    pictures = companions(network, one, intervention)
    title = f"{one.question.text} {in_words(one.question.answer)}"
    return Plate(title, "Under each picture: the network's answer, and what changes of its first one.", pictures)


def address(picture: NDArray[np.uint8]) -> str:
    """A picture as an address that needs no file."""
    from PIL import Image

    stream = BytesIO()
    Image.fromarray(picture).save(stream, format="WEBP", quality=85)
    return "data:image/webp;base64," + base64.b64encode(stream.getvalue()).decode()


def signed(value: float) -> str:
    """With its sign; what is rounded to nothing has none."""
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}") if round(value, 2) else "0.00"


def masks_table(measured: Sequence[Asked]) -> Table | None:
    """For each kind of mask how often the object with the largest effect is marked, and the effects on both sides."""
    kinds = dict.fromkeys(kind for one in measured for kind in one.marked() if kind != "all_objects")
    lines = []
    for kind in kinds:
        told = MaskFigures.of(measured, kind)
        if told is not None:
            lines.append((kind, told.cells()))
    heads = ("mask", "questions", "largest effect marked", "by chance", "median effect: marked", "unmarked")
    note = "Effects are absolute, on the logit of the network's answer. Right and wrong answers count alike."
    return Table("Objects that masks mark, and objects that matter", heads, lines, note=note) if lines else None


class MaskFigures:
    """How far one kind of mask agrees with effects, over questions that it marks some and not all objects of."""

    def __init__(self, hits: list[bool], chances: list[float], marked: list[float], unmarked: list[float]) -> None:
        self.hits, self.chances, self.marked, self.unmarked = hits, chances, marked, unmarked

    @classmethod
    def of(cls, measured: Sequence[Asked], kind: str) -> MaskFigures | None:
        hits, chances, inside, outside = [], [], [], []
        for one in measured:
            objects = one.marked().get(kind, frozenset())
            sizes = np.abs(one.effects["logit"])
            if not one.matters("logit") or not 0 < len(objects) < len(sizes):
                continue
            hits.append(int(sizes.argmax()) in objects)
            chances.append(len(objects) / len(sizes))
            inside += [float(sizes[place]) for place in objects]
            outside += [float(size) for place, size in enumerate(sizes) if place not in objects]
        return cls(hits, chances, inside, outside) if hits else None

    def cells(self) -> list[Cell]:
        values = (
            (f"{len(self.hits):,}", float(len(self.hits))),
            (f"{np.mean(self.hits):.1%}", float(np.mean(self.hits))),
            (f"{np.mean(self.chances):.1%}", float(np.mean(self.chances))),
            (f"{np.median(self.marked):.2f}", float(np.median(self.marked))),
            (f"{np.median(self.unmarked):.2f}", float(np.median(self.unmarked))),
        )
        return [Cell(text, value) for text, value in values]


def entered(network: Vqa, measured: Sequence[Asked], chosen: Sequence[Asked], name: str) -> str:
    """How good the network is, and what of it is explained."""
    right = sum(one.is_right(network) for one in measured)
    return (
        f"The network answers {right / len(measured):.1%} of {len(measured):,} {name} questions right;"
        f" {len(chosen):,} enter."
    )


def silence(chosen: Sequence[Asked]) -> list[str]:
    """For how many questions no object matters."""
    return [
        f"In {count:,} of {len(chosen):,} questions no object changes the answer's {quantity} by {least:g} or more;"
        " these have no order to find."
        for quantity, least in LEAST.items()
        if (count := sum(not one.matters(quantity) for one in chosen))
    ]


def agreement(table: pl.DataFrame, columns: Sequence[Column]) -> list[str]:
    """How mass accuracy and the removal scores agree on the order of explainers, floors and ceilings left out."""
    mass = next((column for column in columns if column.metric == "mass_accuracy"), None)
    if mass is None:
        return []
    lines = table.filter((pl.col("subset") == "all") & pl.col("mean").is_not_null())
    found = []
    for column in columns:
        if not column.metric.startswith("effect_"):
            continue
        one, other = (lines.filter(c.condition).select("explainer", "target", "mean") for c in (mass, column))
        both = one.join(other, on=["explainer", "target"], suffix="_effect")
        both = both.filter(~pl.col("explainer").str.split(":").list.first().is_in(NO_METHODS))
        if len(both) > FEWEST:
            rho, low, high = rank_correlation(both["mean"].to_list(), both["mean_effect"].to_list())
            found.append(f"{column.metric} {rho:.2f} ({low:.2f} to {high:.2f})")
    told = (
        f"Spearman correlation of mass accuracy ({mass.ground_truth}) over {len(both)} methods, with 95 % intervals: "
    )
    return [told + ", ".join(found) + "."] if found else []


FEWEST = 3
"""Methods whose order tells nothing."""
NO_METHODS = ("constant", "random", "centre", "edges", "object_size", "true_effects", "oracle", "input_magnitude")
"""Floors and ceilings, which would agree with anything."""
