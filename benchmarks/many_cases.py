"""A page with many cases in a real browser: how long each thing takes that people do with it.

`python -m benchmarks.many_cases [COUNT]` runs a made-up benchmark of 2,000 pictures, or COUNT, keeps every heatmap, and
prints the milliseconds from an action to the page's next frame. It needs Chromium and ChromeDriver.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import torch

import heatproof as hp
from heatproof.cases import Chunk
from heatproof.metrics.localisation import mass_accuracy, rank_accuracy
from heatproof.pooling import pool
from heatproof.story import Fact, Words

SIDE, CHUNK = 32, 100
EXPLAINERS = "gradient,gradient_x_input,integrated_gradients:steps=4,occlusion,random,centre,oracle"
TIMES = 7
FACTS = (
    Fact("kind", "kind", filters=True),
    Fact("correct", "the network is", filters=True, words=("right", "wrong")),
    Fact("brightness", "brightness"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedDiscs(hp.Opened):
    """Discs before noise, each of a class, at places and in sizes that differ."""

    kinds: Sequence[str]

    def load(self, chunk: Chunk) -> hp.Batch:
        places = range(int(chunk.name), int(chunk.name) + chunk.cases)
        return discs(places, self.kinds)

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        wanted = {place_of(case) // CHUNK * CHUNK for case in cases}
        return [chunk for chunk in super().chunks_with(cases) if int(chunk.name) in wanted]

    def model(self, name: str) -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Softplus(beta=8), torch.nn.AdaptiveMaxPool2d(1), torch.nn.Flatten(), torch.nn.Softplus()
        )

    def score(self, batch: hp.Batch, relevance: torch.Tensor, model: torch.nn.Module) -> Any:
        heat, truth = pool(relevance, "sum_abs"), batch.masks["disc"]
        values = {
            ("mass_accuracy", "disc", "sum_abs"): mass_accuracy(heat, truth),
            ("rank_accuracy", "disc", "sum_abs"): rank_accuracy(heat, truth),
        }
        return hp.score_rows(batch, values)


@dataclass(frozen=True, kw_only=True)
class Discs(hp.Benchmark):
    """Discs: three colours of discs before noise, and a network that takes the brightest colour."""

    title = "Discs"
    paper = ""
    metrics = ("mass_accuracy", "rank_accuracy")
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"standard": {}}
    default_explainers = tuple(EXPLAINERS.split(","))
    quantities = ("logit",)

    count: int = hp.option(60, "How many pictures.")
    kinds: Sequence[str] = hp.option(("red", "green", "blue"), "What the classes are called.")
    sample: int | None = hp.option(None, "How many are kept unless all are.")

    def open(self, seed: int, progress: Any = None) -> OpenedDiscs:
        names = [case_name(place) for place in range(self.count)]
        story = hp.Story(
            self.title,
            "",
            "discs",
            hp.metric_words(self.metrics),
            poolings=("sum_abs",),
            words=Words(cases="discs", truth="the disc"),
            examples={name: f"{self.kinds[place % 3]} disc" for place, name in enumerate(names)},
            captions={name: f"number {place}" for place, name in enumerate(names) if place % 2},
            facts=FACTS,
        )
        return OpenedDiscs(
            story=story,
            settings={"count": self.count},
            fingerprint=f"discs-{self.count}",
            models={"brightest": "1"},
            counts={"": self.count},
            per_chunk=CHUNK,
            sample=self.sample,
            kinds=self.kinds,
        )


def case_name(place: int) -> str:
    return f"disc-{place:04d}"


def place_of(case: str) -> int:
    return int(case.rpartition("-")[2])


def discs(places: Sequence[int], kinds: Sequence[str]) -> hp.Batch:
    """Pictures in [0, 1]; that of each number is always the same."""
    inputs, masks, brightness = [], [], []
    y, x = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    for place in places:
        random = torch.Generator().manual_seed(place)
        across, down, size, bright = torch.rand(4, generator=random).tolist()
        mask = (x - 6 - 20 * across) ** 2 + (y - 6 - 20 * down) ** 2 <= (2 + 4 * size) ** 2
        picture = 0.6 * torch.rand(3, SIDE, SIDE, generator=random)
        picture[place % 3][mask] = 0.55 + 0.4 * bright
        inputs.append(picture)
        masks.append(mask)
        brightness.append(bright)
    seen = torch.stack(inputs).amax((2, 3)).argmax(1)
    target = torch.tensor([place % 3 for place in places])
    return hp.Batch(
        inputs=torch.stack(inputs),
        target=target,
        ids=tuple(map(case_name, places)),
        masks={"disc": torch.stack(masks)},
        facts={
            "kind": [kinds[place % 3] for place in places],
            "correct": (seen == target).tolist(),
            "brightness": brightness,
        },
    )


def choose(label: str, value: str) -> str:
    """A script that chooses from the controls as a person does."""
    return (
        "const fields = [...document.querySelectorAll('.case-controls label')];"
        f"const select = fields.find(field => field.firstChild.textContent === {label!r}).lastChild;"
        f"select.value = {value!r}; select.dispatchEvent(new Event('change'));"
    )


def key(name: str) -> str:
    return f"document.querySelector('dialog').dispatchEvent(new KeyboardEvent('keydown', {{key: {name!r}}}));"


CLOSE = "document.querySelector('dialog').close();"
OPEN = "document.querySelector('.case-grid .case-tile').click();"
ACTIONS = {
    "sort, worst first": (choose("sort", "worst"), choose("sort", "run")),
    "sort, methods disagree most": (choose("sort", "differ"), choose("sort", "run")),
    "sort, largest truth first": (choose("sort", "large"), choose("sort", "run")),
    "heatmaps of one method": (choose("method", "gradient"), choose("method", "")),
    "another score": (choose("score", "rank_accuracy"), choose("score", "mass_accuracy")),
    "filter by kind": (choose("kind", "green"), choose("kind", "")),
    "filter by right or wrong": (choose("the network is", "wrong"), choose("the network is", "")),
    "next page": (
        "document.querySelector('.case-pager button:last-child').click();",
        "document.querySelector('.case-pager button').click();",
    ),
    "open a case": (OPEN, CLOSE),
    "next case": (f"if (!document.querySelector('dialog').open) {{ {OPEN} }}" + key("ArrowRight"), ""),
    "another map on the left": (choose("left", "occlusion"), choose("left", "gradient")),
    "close": (CLOSE, OPEN),
}
MEASURE = """
const done = arguments[arguments.length - 1];
const start = performance.now();
ACTION
requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
"""


def measure(browser: Any) -> dict[str, list[float]]:
    """Milliseconds until the next frame is drawn, of each action several times."""
    found: dict[str, list[float]] = {}
    for name, (act, back) in ACTIONS.items():
        for _ in range(TIMES):
            found.setdefault(name, []).append(browser.execute_async_script(MEASURE.replace("ACTION", act)))
            browser.execute_async_script(MEASURE.replace("ACTION", back))
    return found


def main(count: int = 2000) -> None:
    from selenium import webdriver

    with tempfile.TemporaryDirectory() as place:
        run = hp.run(Discs(count=count), explainers=EXPLAINERS, keep_heatmaps=True, out=Path(place) / "r")
        page = run.folder / "report.html"
        beside = [path.stat().st_size for path in run.folder.glob("report_files/**/*") if path.is_file()]
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        for flag in ("headless", "no-sandbox", "disable-gpu", f"user-data-dir={place}/browser"):
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            browser.get(page.as_uri())
            timing = "const [e] = performance.getEntriesByType('navigation'); return [e.domInteractive, e.loadEventEnd]"
            ready, loaded = browser.execute_script(timing)
            print(
                f"{count:,} cases: page {page.stat().st_size / 1e6:.1f} MB, beside it {len(beside):,} files,", end=" "
            )
            print(f"{sum(beside) / 1e6:.1f} MB; ready after {ready:.0f} ms, loaded after {loaded:.0f} ms")
            print(f"{'milliseconds to the next frame':34}{'median':>8}{'most':>8}")
            for name, times in measure(browser).items():
                print(f"{name:34}{median(times):8.0f}{max(times):8.0f}")
        finally:
            browser.quit()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
