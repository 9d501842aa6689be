"""The first few cases under every method, drawn without a script: for print, and for browsers that run none."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heatproof.report.figures import signal

if TYPE_CHECKING:
    from markupsafe import Markup

    from heatproof.report.cases import Drawn, Kept

FEW = 6


@dataclass(frozen=True, eq=False)
class Strip:
    """A column per case, a row per method.

    heads    title and caption of each case
    rows     the name of each row in short and in full, and a drawing for each case; empty where there is none
    numbers  of the pictures that are in it, so that the page need not hold them twice
    """

    target: str
    heads: Sequence[tuple[str, str]]
    rows: Sequence[tuple[str, str, Sequence[Markup]]]
    numbers: AbstractSet[int]


def strip_of(kept: Kept, drawn: Drawn, key: str, targets: Sequence[str]) -> Strip:
    """The first cases under the methods for the first explained quantity."""
    target = targets[0] if targets else ""
    chosen = [(n, method) for n, method in enumerate(kept.methods) if method.target in (target, "")]
    places = range(min(FEW, len(drawn.inputs)))
    heads = [(kept.title(place), kept.caption(place)) for place in places]
    if not kept.is_pictures:
        rows = [(m.name, m.full, [signal_cell(kept, drawn, place, n) for place in places]) for n, m in chosen]
        if not kept.masks:
            rows.insert(0, ("signal", "signal", [signal(kept.inputs[place, 0], None, None, None) for place in places]))
        return Strip(target, heads, rows, set())
    pictures = Pictures(drawn, key, set())
    rows = [("picture", "picture", [pictures.input(place, kept.title(place)) for place in places])]
    rows += [
        (m.name, m.full, [pictures.heat(place, n, f"{m.name}, {kept.title(place)}") for place in places])
        for n, m in chosen
    ]
    return Strip(target, heads, rows, pictures.numbers)


def signal_cell(kept: Kept, drawn: Drawn, place: int, number: int) -> Markup:
    """A signal over its heat, with the true mask, and what the method marks."""
    from markupsafe import Markup

    case, method = kept.ids[place], kept.methods[number]
    truth = next(iter(kept.masks.values()))[place] if kept.masks else None
    marks = [m for m in kept.run.story.marks if (m.explainer, m.target, m.case) == (method.full, method.target, case)]
    where = (marks[0].start, marks[0].length) if marks else None
    cell = signal(kept.inputs[place, 0], drawn.heats.get((place, number)), truth, where)
    return cell + Markup("<small>{}</small>").format(marks[0].text) if marks and marks[0].text else cell


@dataclass(frozen=True, eq=False)
class Pictures:
    """Draws pictures, each of which stands in the page once; `numbers` grows with what is drawn."""

    drawn: Drawn
    key: str
    numbers: set[int]

    def name(self, kind: str, place: int) -> str:
        return f"{self.key}.{kind}-{place}"

    def input(self, place: int, title: str) -> Markup:
        from markupsafe import Markup

        truths = self.drawn.truths[place]
        outline = outline_within(truths[0], self.name("inside", place)) if truths else ""
        return self.svg(
            title,
            Markup('<image id="{}" {}/><g id="{}">{}</g>').format(
                self.name("input", place), self.file(self.drawn.inputs[place]), self.name("truth", place), outline
            ),
        )

    def heat(self, place: int, number: int, title: str) -> Markup:
        from markupsafe import Markup

        if (file := self.drawn.maps[place][number]) is None:
            return Markup("")
        return self.svg(
            title,
            Markup('<use class="pale" href="#{}"/><image {}/><use href="#{}"/>').format(
                self.name("input", place), self.file(file), self.name("truth", place)
            ),
        )

    def file(self, number: int) -> Markup:
        from markupsafe import Markup

        self.numbers.add(number)
        height, width = self.drawn.size
        return Markup('data-file="{}" href="{}" width="{}" height="{}" preserveAspectRatio="none"').format(
            number, self.drawn.addresses[number], width, height
        )

    def svg(self, title: str, content: Markup) -> Markup:
        from markupsafe import Markup

        height, width = self.drawn.size
        return Markup('<svg class="picture" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
            width, height, title, content
        )


def outline_within(path: str, name: str) -> Markup:
    """A frame within a mask, so that one sees which side of a line it is on; `name` is an id of its own."""
    from markupsafe import Markup

    return Markup(
        '<clipPath id="{1}"><path d="{0}"/></clipPath><path class="mask-casing" d="{0}" clip-path="url(#{1})"/>'
        '<path class="mask-outline" d="{0}" clip-path="url(#{1})"/>'
    ).format(path, name)
