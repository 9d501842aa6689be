"""The commands of `make papers`."""

from __future__ import annotations

from papers.kinds import Step

STEPS = [
    Step("svea", "run svea --out {out} --quiet"),
    Step("regions", "export {svea} --to roe --out {out}"),
    Step("classifiers", "svea classifiers --quiet"),
    Step("fewer", "run svea --limit 1000 --explainers gradient,integrated_gradients --out {out} --quiet"),
    Step("literal", "run svea --limit 1000 --explainers gradient,integrated_gradients --svm literal"
         " --out {out} --quiet"),
    Step("focus", "run focus --preset quick --out {out} --quiet"),
    Step("baselines", "run focus --preset quick --explainers"
         " integrated_gradients:steps=30,baseline=black,integrated_gradients:steps=30,baseline=zero"
         " --out {out} --quiet"),
    Step("mosaics", "focus mosaics --per-class 5 --out {out}"),
    Step("layout", "focus layout --per-class 5 --out {out}"),
    Step("histogram", "focus randomise --only histogram --per-class 10 --out {out}"),
    Step("cascade", "focus randomise --only cascade --per-class 5 --out {out}"),
    Step("bias", "focus bias {focus}"),
    Step("clevr", "run clevr-xai --preset standard --keep-heatmaps --out {out} --quiet"),
    Step("again", "evaluate {clevr} --out {out} --quiet"),
    Step("poster", "clevr poster {clevr}"),
    Step("render", "clevr render {out} --num-images 20 --size 128x128 --quiet"),
    Step("simple", "clevr ask {render} --set simple --quiet"),
    Step("complex", "clevr ask {render} --set complex --quiet"),
    Step("truth", "clevr ground-truth {render} --size 128x128"),
    Step("stats", "clevr stats {render} --json"),
]  # fmt: skip
