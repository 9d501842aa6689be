"""Masks: does relevance lie on the object? Any picture classifier, any pictures with object masks.

The scores are those of the pointing game and its kin (Zhang et al. 2018, Wang et al. 2020, Arras et al. 2022, Chefer et
al. 2021, Arias-Duart et al. 2023). Masks go through the same geometry as pictures do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from heatproof.benchmarks.base import Benchmark, Ending, Opened, metric_words, option, register_benchmark, require_limit
from heatproof.benchmarks.classifying import ClassifierOptions, predicted_logits
from heatproof.benchmarks.masks import rows as mask_rows
from heatproof.benchmarks.masks.finding import Found, Shown, check_cases, find_cases, read_case
from heatproof.benchmarks.masks.readers import MaskSource, Truth, Values, open_mask_source
from heatproof.benchmarks.masks.rows import FACTS, METRICS, TRUTH
from heatproof.benchmarks.masks.shipped import FIELD, shipped_fields
from heatproof.benchmarks.masks.voc import is_voc
from heatproof.benchmarks.sample import pictures_kept, pictures_shown, stratified
from heatproof.cases import Batch, Chunk
from heatproof.errors import HeatproofError, require_whole, unknown_name
from heatproof.lazy import np, pl, torch
from heatproof.metrics.mask_scores import INSIDE, OUTSIDE, VOID
from heatproof.models.classifiers import SHIPPED
from heatproof.mosaics.pictures import Fit
from heatproof.pooling import poolings
from heatproof.progress import Progress, silent
from heatproof.story import Story, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from heatproof.models.classifiers import Classifier
    from heatproof.models.versions import Versions

CHUNK_VALUES = 2**23
"""Values of inputs in a chunk: about 32 MB."""
Explained = Literal["label", "predicted"]


@register_benchmark("masks")
@dataclass(frozen=True, kw_only=True)
class Masks(Benchmark, ClassifierOptions):
    """Masks: does relevance for a class lie on its object? Your pictures, your masks, your network.

    Examples:

    heatproof run masks

    heatproof run masks --images photos --masks masks --model my_net.py:build --labels labels.csv

    heatproof run masks --images val2017 --masks instances_val2017.json --model torchvision:resnet50 --weights w.pt
    --labels labels.csv --classes zebra,banana

    heatproof run masks --masks VOC2012 --boxes --model my_net.py:build --labels labels.csv
    """

    title = "Masks: relevance on objects"
    paper = "Zhang et al. 2018: the pointing game, and its kin"
    metrics = METRICS
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"quick": {"limit": 60}, "standard": {}}
    preset_help = "quick: 60 pictures; standard: all of them."
    batch_size = 16
    quantities = ("logit",)

    images: Path | str | None = option(
        None, "A folder per class, a CSV (filename, label, subset), or one folder where masks know their classes."
    )
    masks: Path | str | None = option(
        None, "A folder with a mask picture per image, a .npz of arrays, COCO's .json, or VOC's folder."
    )
    object_value: int = option(255, "Mask pictures: the value of the object's pixels.")
    background_value: int = option(0, "Mask pictures: the value of the background's pixels.")
    void_value: int | None = option(None, "Mask pictures: the value of pixels that count neither way.")
    boxes: bool = option(False, "Take bounding boxes as masks (COCO, VOC).")
    explained: Explained = option("label", "The class that is explained: the label, or what the network has predicted.")
    classes: Sequence[str] | None = option(None, "Explain these classes only, such as cat,dog.")
    right_only: bool = option(False, "Explain only pictures whose class the network names.")
    subset: str | None = option(None, "Subset of the CSV. Default: all but train.")
    size: int | None = option(None, "Side of the inputs in pixels. Default: the model's, or 224.")
    fit: Fit | None = option(
        None,
        "How a picture becomes square: centre (shorter side to 8/7, middle cut out), crop (squashed to 8/7, middle cut"
        " out), squash. Default: squash where the model says so, else centre.",
    )
    tolerance: int = option(0, "Pointing game: pixels that the maximum may lie beside the mask.")
    limit: int | None = option(None, "Use this many pictures only, of all classes evenly.")

    @property
    def default_explainers(self) -> tuple[str, ...]:
        return (
            "grad_cam",
            "grad_cam_pp:eps=1e-6,shift=True",
            "lrp",
            "lrp:composite=focus",
            "excitation_backprop",
            "smoothgrad:samples=10,sigma=0.2",
            "integrated_gradients:steps=30,rule=gauss_legendre",
            "lime:top=5",
            "gradient",
            "gradient_x_input",
            "randomised:grad_cam",
            "edges",
            "centre",
            "constant",
            "random",
            "oracle",
        )

    def __post_init__(self) -> None:
        self.check_classifier(self.fit)
        if self.explained not in get_args(Explained):
            raise unknown_name("class to explain", self.explained, get_args(Explained))
        if self.size is not None:
            require_whole("size", self.size, 16)
        require_whole("tolerance", self.tolerance, 0)
        require_limit(self.limit)
        own = self.masks is None
        if own and self.images is not None:
            raise HeatproofError("say with --masks where the masks of these images are.")
        if not own and self.images is None and not is_voc(Path(str(self.masks))):
            raise HeatproofError("say with --images where the pictures of these masks are.")
        if not own and isinstance(self.model, str) and self.model in SHIPPED:
            raise HeatproofError("images need a model that knows their classes; give one with --model.")
        self.values  # noqa: B018  # which must differ

    @property
    def values(self) -> Values:
        return Values(self.object_value, self.background_value, self.void_value)

    def source(self) -> MaskSource:
        place = shipped_fields()[1] if self.masks is None else Path(self.masks)
        return open_mask_source(place, self.values, self.boxes)

    def pictures(self) -> Path:
        if self.masks is None:
            return shipped_fields()[0]
        return Path(self.masks if self.images is None else self.images)

    def shape(self, classifier: Classifier) -> tuple[int, Fit]:
        """Side of the inputs and how a picture becomes one: as the user says, as the model says, or as is usual.

        A model that was trained on pictures with their middle cut out saw them with their sides kept.
        """
        usual = FIELD if self.masks is None else classifier.size or 224
        fit: Fit = "squash" if classifier.fit == "squash" else "centre"
        return self.size or usual, self.fit or fit

    def find(self, source: MaskSource) -> Found:
        """The cases, before any is read."""
        found = find_cases(self.pictures(), source, self.subset, self.classes)
        if self.explained == "predicted":  # one case for each picture, whatever is in it
            once = {shown.mask: shown for shown in reversed(found.cases)}
            cases = [Shown(name, shown.file, name, shown.label) for name, shown in reversed(once.items())]
            return Found(cases, found.problems, found.lonely_masks)
        if any(not shown.label for shown in found.cases):
            raise HeatproofError(
                f"nobody says of which class the pictures of {self.pictures()} are: give a folder per class, a CSV"
                " (filename, label), or explain what the network predicts (--explained predicted)."
            )
        return found

    def open(self, seed: int, progress: Progress = silent) -> OpenedObjects:
        return self.opened(seed, progress, look=True)

    def rehearse(self, seed: int, progress: Progress = silent) -> OpenedObjects:
        """Only the first pictures are read, and no predictions are made."""
        return self.opened(seed, progress, look=False)

    def opened(self, seed: int, progress: Progress, look: bool) -> OpenedObjects:
        from heatproof.models.weights import fingerprint

        source = self.source()
        found = self.find(source)
        classes = sorted({shown.label for shown in found.cases} - {""})
        classifier = self.load_classifier()
        side, fit = self.shape(classifier)
        sample = classifier.inputs(np.stack(first_good(found, source, side, fit)))
        classifier, outputs, versions = self.ready(classifier, sample, classes, seed)
        hashed = ""
        if look:
            found, hashed = check_cases(found, source, side, fit, progress)
        found = Found(some_of(found.cases, self.limit), found.problems, found.lonely_masks)
        seen = SeenObjects(found.cases, source, classifier, outputs, side, fit)
        per_chunk = max(1, CHUNK_VALUES // (3 * side * side))
        predicted = {name: torch.zeros(len(found.cases), self.outputs(classifier, sample)) for name in versions.names}
        if look:
            predicted = {name: seen.predict(versions[name], per_chunk, progress) for name in versions.names}
        first = predicted[classifier.name].argmax(1)
        if self.right_only and look:
            right = [place for place, shown in enumerate(found.cases) if is_right(seen, shown, int(first[place]))]
            if not right:
                raise HeatproofError(f"the model names none of the {len(found.cases):,} pictures right.")
            seen = SeenObjects([found.cases[place] for place in right], source, classifier, outputs, side, fit)
            predicted = {name: logits[right] for name, logits in predicted.items()}
        named = predicted[classifier.name].argmax(1).tolist()
        rights = [is_right(seen, shown, named[place]) for place, shown in enumerate(seen.cases)]
        strata = {shown.case: (not rights[place], shown.label) for place, shown in enumerate(seen.cases)}
        titles = {shown.case: shown.label or shown.case for shown in seen.cases}
        all_right = [is_right(seen, shown, int(first[place])) for place, shown in enumerate(found.cases)]
        return OpenedObjects(
            story=Story(
                title=self.title,
                paper=self.paper,
                dataset="pictures",
                metrics=metric_words(self.metrics),
                columns=mask_rows.columns_for(list(poolings)),
                poolings=tuple(poolings),
                words=Words(cases="pictures", truth="the object", as_published="logit"),
                examples={case: titles[case] for case in stratified(strata, pictures_shown(side, side), seed)},
                facts=FACTS,
                figures={"accuracy": sum(all_right) / len(all_right)} if look and classes else {},
                repeats=len(seen.cases) - len({(shown.file, shown.label) for shown in seen.cases}),
            ),
            settings={
                **{name: getattr(self, name) for name in ("boxes", "explained", "right_only", "subset", "limit")},
                **source.settings(),
                "classes": None if self.classes is None else list(self.classes),
                "tolerance": self.tolerance,
                "size": side,
                "fit": fit,
                "mean": [float(value) for value in classifier.mean],
                "std": [float(value) for value in classifier.std],
                "outputs": outputs,
            },
            fingerprint=hashed,
            models=dict.fromkeys(versions.names, fingerprint(classifier.module)),
            counts={"": len(seen.cases)},
            per_chunk=per_chunk,
            sample=pictures_kept(side, side),
            recipe=self,
            seen=seen,
            versions=versions,
            predicted=predicted,
            left_out=found.notes,
        )

    def outputs(self, classifier: Classifier, sample: torch.Tensor) -> int:
        with torch.no_grad():
            return int(classifier.module(sample[:1]).shape[1])


def first_good(found: Found, source: MaskSource, side: int, fit: Fit) -> list[NDArray[np.uint8]]:
    """Two pictures that can be read, for a first look by the network."""
    good: list[NDArray[np.uint8]] = []
    problem = HeatproofError("there are no pictures.")
    for shown in found.cases:
        try:
            good.append(read_case(shown, source, side, fit)[0])
        except HeatproofError as bad:
            problem = bad
        if len(good) == 2:
            break
    if not good:
        raise problem
    return good


def some_of(cases: Sequence[Shown], limit: int | None) -> Sequence[Shown]:
    """At most so many, of all classes evenly."""
    if limit is None or limit >= len(cases):
        return cases
    turns = Counter[str]()
    places = []
    for place, shown in enumerate(cases):
        places.append((turns[shown.label], place))
        turns[shown.label] += 1
    return [cases[place] for place in sorted(place for _, place in sorted(places)[:limit])]


@dataclass(frozen=True, eq=False)
class SeenObjects:
    """Pictures with masks as a classifier sees them."""

    cases: Sequence[Shown]
    source: MaskSource
    classifier: Classifier
    outputs: Mapping[str, int]
    side: int
    fit: Fit

    def predict(self, module: torch.nn.Module, at_once: int, progress: Progress) -> torch.Tensor:
        """The logits of all pictures."""

        def inputs(start: int, end: int) -> torch.Tensor:
            pixels = [read_case(shown, self.source, self.side, self.fit)[0] for shown in self.cases[start:end]]
            return self.classifier.inputs(np.stack(pixels))

        return predicted_logits(module, inputs, len(self.cases), at_once, progress)

    def label_of(self, output: int) -> str:
        """What an output means; its number, if nobody says."""
        known = self.classifier.labels or self.outputs
        return next((label for label, number in known.items() if number == output), str(output))

    def read(self, shown: Shown, label: str) -> tuple[NDArray[np.uint8], Truth]:
        """Pixels, and the truth of a class in them, which may be another than the case's own."""
        return read_case(Shown(shown.case, shown.file, shown.mask, label), self.source, self.side, self.fit)


def is_right(seen: SeenObjects, shown: Shown, output: int) -> bool:
    """Whether the network names the class of a picture, or one of those that are annotated in it."""
    known = {seen.outputs[shown.label]} if shown.label in seen.outputs else set()
    if seen.source.knows_classes:
        known |= {seen.outputs[label] for label in seen.source.classes(shown.mask) if label in seen.outputs}
    return output in known


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedObjects(Opened):
    """Pictures with masks, the classifier, and what it makes of them."""

    recipe: Masks
    seen: SeenObjects
    versions: Versions
    predicted: Mapping[str, torch.Tensor]
    left_out: Sequence[str]

    def chunks_with(self, cases: Collection[str]) -> Sequence[Chunk]:
        places = {place // self.per_chunk for place, shown in enumerate(self.seen.cases) if shown.case in cases}
        return [chunk for place, chunk in enumerate(super().chunks_with(cases)) if place in places]

    def load(self, chunk: Chunk) -> Batch:
        rows = slice(int(chunk.name), int(chunk.name) + chunk.cases)
        cases, logits = self.seen.cases[rows], self.predicted[chunk.model][rows]
        named = logits.argmax(1)
        by_label = self.recipe.explained == "label"
        outputs = [self.seen.outputs[shown.label] for shown in cases] if by_label else named.tolist()
        labels = [
            shown.label if by_label else self.seen.label_of(int(n)) for shown, n in zip(cases, named, strict=True)
        ]
        read = [self.seen.read(shown, label) for shown, label in zip(cases, labels, strict=True)]
        truth = torch.from_numpy(np.stack([truth for _, truth in read]))
        target, void = torch.tensor(outputs), truth == VOID
        return Batch(
            inputs=self.seen.classifier.inputs(np.stack([pixels for pixels, _ in read])),
            target=target,
            ids=tuple(shown.case for shown in cases),
            masks={TRUTH: truth == INSIDE},
            facts={
                "target_class": labels,
                "predicted": named.tolist(),
                "predicted_class": [self.seen.label_of(int(n)) for n in named],
                "correct": [is_right(self.seen, shown, int(n)) for shown, n in zip(cases, named, strict=True)],
                "probability": logits.softmax(1).gather(1, target[:, None])[:, 0].tolist(),
            },
            black=self.seen.classifier.black,
            void=void if bool(void.any()) else None,
        )

    def model(self, name: str) -> torch.nn.Module:
        return self.versions[name]

    def score(self, batch: Batch, relevance: torch.Tensor, model: torch.nn.Module) -> pl.DataFrame:
        truth = np.where(batch.masks[TRUTH].cpu().numpy(), INSIDE, OUTSIDE).astype(np.uint8)
        if batch.void is not None:
            truth[batch.void.cpu().numpy()] = VOID
        maps = relevance.detach().cpu().numpy()
        return mask_rows.score_table(batch.ids, batch.facts, maps, truth, list(poolings), self.recipe.tolerance)

    def subsets(self) -> Mapping[str, pl.Expr]:
        classes = sorted({shown.label for shown in self.seen.cases} - {""})
        return mask_rows.parts_of_cases(classes, predicted=True)

    def remembers(self) -> pl.Expr:
        return mask_rows.remembered()

    def end(self, rows: pl.DataFrame, table: pl.DataFrame) -> Ending:
        own = rows.filter(pl.col("model") == self.seen.classifier.name)
        scored = own.unique("case").drop_nulls("uniform")
        said = []
        if len(scored):
            share = 100 * float(scored["mask_share"].to_numpy().mean())
            said.append(
                f"The object covers {share:.1f} % of a picture in the mean, which is what a map scores that says"
                " nothing. Lift is mass accuracy over that share, picture by picture."
            )
        if silent := len(self.seen.cases) - len(scored):
            said.append(
                f"Without a score, because the mask is empty or covers everything: {silent:,} of"
                f" {len(self.seen.cases):,} pictures."
            )
        if (accuracy := self.story.figures.get("accuracy")) is not None:
            said.append(f"The model names {100 * accuracy:.1f} % of the pictures right.")
        return Ending([*said, *self.left_out], sections=mask_rows.segmentation_section(rows))

    def about(self, case: Batch) -> str:
        return str(case.facts["target_class"][0])

    def as_pictures(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.seen.classifier.pictures(inputs)
