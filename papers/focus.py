"""Focus! Rating XAI Methods and Finding Biases."""

from __future__ import annotations

import polars as pl

from heatproof.benchmarks.references import read_reference
from papers.kinds import Done, Line, Reading, published

METHODS = {
    "grad_cam": "Grad-CAM",
    "lrp": "LRP",
    "lime": "LIME",
    "grad_cam_pp": "Grad-CAM++",
    "integrated_gradients": "Integrated Gradients",
    "smoothgrad": "SmoothGrad",
}
NAMES = {"dogs_vs_cats": "Dogs vs. Cats", "mame": "MAMe", "mit67": "MIT67", "imagenet": "ImageNet"}
NETWORKS = {"alexnet": "AlexNet", "vgg16": "VGG16", "resnet18": "ResNet-18"}
ELSEWHERE = "[real networks](focus-real-networks.md)"
WHY = {
    "dogs_vs_cats": "neither the pictures nor the fine-tuned weights ship; heads trained on other pictures of cats and"
    f" dogs are in {ELSEWHERE}",
    "mame": "neither the pictures nor the fine-tuned weights ship",
    "mit67": "neither the pictures nor the fine-tuned weights ship",
    "imagenet": "neither the pictures nor the weights ship; SqueezeNet and MobileNetV2 on ten of its classes are in"
    f" {ELSEWHERE}",
}


def cell(row: str) -> Line:
    """A network on a data set: a row of Table 1."""
    data, network = row.split("/")
    rows = read_reference("focus").filter(row=row)
    means = dict(rows.select("explainer", "reference").iter_rows())
    paper = ", ".join(f"{METHODS[name]} {means[name]:.3f}" for name in METHODS if name in means)
    command = f"heatproof run focus --dataset {data.replace('_', '-')} --images DIR --model {network} --weights FILE"
    return Line("Table 1", f"{NETWORKS[network]} on {NAMES[data]}", command, paper, WHY[data])


def in_order(means: dict[str, float]) -> str:
    return ", ".join(f"{METHODS[name]} {means[name]:.3f}" for name in sorted(means, key=lambda name: -means[name]))


def order(done: Done) -> str:
    return in_order({name: done.mean("focus", name, "focus", pooling="paper", target="logit") for name in METHODS})


def groups(done: Done, step: str, file: str) -> dict[str, float]:
    """Mean Focus by group, of an experiment's table."""
    table = pl.read_csv(done.place(step) / file).with_columns(pl.col("focus").cast(pl.Float64, strict=False))
    defined = table.filter(pl.col("focus").is_not_nan() & pl.col("focus").is_not_null())
    means = defined.group_by("group", maintain_order=True).agg(pl.col("focus").mean())
    return dict(means.iter_rows())


def layouts(done: Done) -> str:
    means = groups(done, "layout", "layout.csv")
    return ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())


def trained_and_random(done: Done) -> str:
    (_, trained), (_, random) = groups(done, "histogram", "histogram.csv").items()
    return f"trained {trained:.2f}, random {random:.2f}"


def cascade(done: Done) -> str:
    trained, top, *others = groups(done, "cascade", "randomise.csv").values()
    return f"trained {trained:.2f}, top block random {top:.2f}, all {1 + len(others)} blocks {others[-1]:.2f}"


def lowest(step: str) -> Reading:
    def read(done: Done) -> str:
        found = done.printed[step].splitlines()
        shown = next(line for line in found if line.startswith("shown:")).removeprefix("shown: ")
        test = next(line for line in found if line.startswith("test:")).removeprefix("test: ")
        return f"{shown}; {test}"

    return read


def black_and_grey(done: Done) -> str:
    """Focus of the two baselines on the network that ships."""
    lines = done.board("baselines", metric="focus", pooling="paper", target="logit")
    means = {label.partition("baseline=")[2].partition(",")[0]: mean
             for label, mean in lines.select("explainer", "mean").iter_rows() if "integrated" in label}  # fmt: skip
    return ", ".join(f"{name or 'grey'} {mean:.3f}" for name, mean in means.items())


FOCUS = [
    Line("Section 3.1", "mosaics of 2 x 2 pictures, two of the target class, positions at random",
         "heatproof focus mosaics --images DIR --per-class 100", "448 x 448, 100 of each class",
         lambda done: f"{done.printed['mosaics'].strip().rpartition(': ')[2]} as PNG files with a CSV"),
    Line("Section 3.2", "AlexNet, VGG16 and ResNet-18, fine-tuned with AMSGrad and augmentation",
         "heatproof train focus-finetune --model alexnet --images DIR --weights FILE",
         "mean per-class accuracy .36 to .99",
         f"it takes pictures and weights that do not ship; AlexNet on cats and dogs is in {ELSEWHERE}"),
    Line("Section 4, layout", "Focus by where the two target pictures stand", "heatproof focus layout",
         "beside each other higher than apart, above all on top", layouts),
    Line("Section 4, Figure 3", "Grad-CAM on a trained and on a random network",
         "heatproof focus randomise --only histogram", "trained 0.94, random 0.49", trained_and_random),
    Line("Section 4, cascade", "randomised from the top, block by block", "heatproof focus randomise --only cascade",
         "about 0.50 once the top layer is random", cascade),
    Line("Table 1", "Focus of the six methods, best first (the paper: mean over its networks and data sets)",
         "heatproof run focus", in_order({name: published("focus", name, "focus") for name in METHODS}), order),
    *[cell(str(row)) for row in read_reference("focus")["row"].unique(maintain_order=True)],
    Line("Section 5", "integrated gradients from a black image, as the paper says, and from grey, as its code has it",
         "heatproof run focus --explainers integrated_gradients:baseline=black,integrated_gradients:baseline=zero",
         "0.55 over its networks", black_and_grey),
    Line("Section 5", "Focus goes with the network's accuracy", "heatproof focus table RUN", "correlated",
         "it takes several networks, and one ships; four are in"
         " [real networks](focus-real-networks.md#focus-and-accuracy)"),
    Line("Section 6", "the class with the lowest Focus, its partner with the lowest, and their mosaics",
         "heatproof focus bias RUN", "MIT67 and MAMe: pairs that an expert explains", lowest("bias")),
]  # fmt: skip
