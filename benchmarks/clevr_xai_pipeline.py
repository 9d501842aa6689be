"""CLEVR-XAI's eleven methods on the public Relation Network: our run against Captum, zennit and Quantus put together.

Both explain the same questions about the same pictures and score every heatmap with ten poolings, two metrics and two
ground truths. The others get the network in its plain form, with the denormal weights already taken out (without that,
they would take ten times as long), and as many questions at a time as ours. Their share is measured on fewer questions.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from captum import attr
from tests.reference.libraries import import_quantus, import_zennit
from torch import Tensor, nn

import heatproof
from benchmarks.workloads import cpu_seconds
from heatproof.benchmarks.clevr_xai import ClevrXai
from heatproof.benchmarks.clevr_xai.benchmark import METHODS as EVERY_METHOD
from heatproof.benchmarks.clevr_xai.benchmark import OpenedClevrXai
from heatproof.cases import Batch
from heatproof.clevr import open_dataset
from heatproof.clevr.ground_truth import make_masks
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.rendering.dataset import PictureSettings, render_dataset
from heatproof.clevr.scenes import SceneSettings
from heatproof.engine.passes import counted_passes
from heatproof.executors.choice import Execution
from heatproof.explainers.spec import make_explainer
from heatproof.metrics.heatmap_scores import score_heatmaps
from heatproof.models.relation_network import RelationNetwork
from heatproof.pooling import pool, poolings
from heatproof.seeds import CaseRandom

QUESTIONS, THEIR_QUESTIONS, AT_A_TIME = 50, 28, 4
METHODS = EVERY_METHOD[:11]
GREY = (0.463, 0.460, 0.453)


def main() -> None:
    checkpoint = Path(os.environ.get("HEATPROOF_SHARED_DATA", "../shared/data"), "relation_network")
    weights = checkpoint / "original_fp_epoch_493.pth"
    if not weights.is_file():
        print(f"clevr-xai-pipeline: needs the Relation Network's public checkpoint, {weights}")
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["HEATPROOF_HOME"] = str(folder / "home")  # so that no answer is known from before
        benchmark = make_benchmark(folder / "data", weights)
        few = replace(benchmark, limit=THEIR_QUESTIONS + 4).open(0)
        theirs = compare(few, few.load(few.chunks()[0])[:THEIR_QUESTIONS])
        whole = cpu_seconds(lambda: heatproof.run(benchmark, explainers=METHODS, out=folder / "run"))
        answered = heatproof.load_run(folder / "run").scores()["case"].n_unique()
        ours = whole / answered
        print(f"{'all: files to tables and page':<29} {ours:>8.3f} {theirs:>8.3f} {theirs / ours:>6.1f}")
        print(f"the last line: ours on {answered} answered questions; theirs without reading and tables")


def make_benchmark(folder: Path, weights: Path) -> ClevrXai:
    """The benchmark on a data set rendered and asked for it."""
    scenes, pictures = SceneSettings(width=128, height=128), PictureSettings(samples=16)
    render_dataset(folder, -(-QUESTIONS // 3), scenes, pictures, mask_size=(320, 480), how=Execution("local"))
    make_questions(folder, "simple")
    make_masks(open_dataset(folder), (128, 128))
    return ClevrXai(dataset=str(folder), weights=weights, limit=QUESTIONS)


def compare(benchmark: OpenedClevrXai, batch: Batch) -> float:
    """Print CPU seconds per question of each method; what the others take for all methods and scores."""
    print("CLEVR-XAI, eleven methods, CPU seconds per question (goal: at least 3 times faster in all)")
    print(f"{'method':<22} {'passes':>6} {'ours':>8} {'theirs':>8} {'ratio':>6}   mass accuracy, ours and theirs")
    others = their_methods(benchmark, batch)
    mine, theirs, scoring = 0.0, 0.0, 0.0
    for spec in METHODS:
        explainer = make_explainer(spec)
        model = benchmark.network.form(explainer.looks_at)

        def explain(explainer=explainer, model=model) -> Tensor:
            random = CaseRandom(0, explainer.name)
            return torch.cat([explainer(model, part, random) for part in parts(batch)])

        with counted_passes(model) as passes:
            shown = our_score(explain(), batch)  # and what a row costs in memory is measured at first use
        ours = cpu_seconds(explain) / len(batch)
        found: list[Tensor] = []
        other = cpu_seconds(lambda name=explainer.name, found=found: found.append(others[name]())) / len(batch)
        means: list[float] = []
        scoring += cpu_seconds(lambda found=found, means=means: means.append(their_scores(found[0], batch))) / len(
            batch
        )
        mine, theirs = mine + ours, theirs + other
        numbers = f"{passes.total / len(batch):>6.0f} {ours:>8.3f} {other:>8.3f} {other / ours:>6.1f}"
        print(f"{explainer.name:<22} {numbers}   {shown:.2f} {means[0]:.2f}", flush=True)
    print(f"{'all methods':<29} {mine:>8.3f} {theirs:>8.3f} {theirs / mine:>6.1f}")
    print(f"{'Quantus: 40 scores a map':<29} {'':>8} {scoring:>8.3f}")
    return theirs + scoring


def our_score(relevance: Tensor, batch: Batch) -> float:
    """The mean mass accuracy that the table shows."""
    masks = {"single_object": batch.masks["single_object"].numpy()}
    return float(np.nanmean(score_heatmaps(relevance.numpy(), masks, ["pos_l2_norm_sq"]).mass))


def parts(batch: Batch) -> Iterator[Batch]:
    return (batch[start : start + AT_A_TIME] for start in range(0, len(batch), AT_A_TIME))


def their_methods(benchmark: OpenedClevrXai, batch: Batch) -> dict[str, Callable[[], Tensor]]:
    """The methods by the name that we give them: Captum's, and zennit's for LRP and excitation backprop."""
    network = benchmark.network.module
    network.requires_grad_(False)  # nobody here needs gradients of weights
    last = network.get_submodule("convs.relu4")
    grey = torch.tensor(GREY).view(1, 3, 1, 1)
    tunnel = {"nt_samples": 20, "nt_samples_batch_size": 2, "stdevs": 0.05, "abs": False}

    def by_captum(explain: Callable[[Tensor, dict[str, object]], Tensor]) -> Callable[[], Tensor]:
        def every() -> Tensor:
            found = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for part in parts(batch):
                    given = {"target": part.target, "additional_forward_args": part.context}
                    found.append(explain(part.inputs, given).detach())
            return torch.cat(found)

        return every

    def cam(x: Tensor, given: dict[str, object]) -> Tensor:
        maps = attr.LayerGradCam(network, last).attribute(x, relu_attributions=True, **given)
        return attr.LayerAttribution.interpolate(maps, (128, 128), "bilinear")

    def integrated(x: Tensor, given: dict[str, object]) -> Tensor:
        return attr.IntegratedGradients(network).attribute(
            x, grey.expand_as(x), n_steps=21, method="riemann_trapezoid", internal_batch_size=8, **given
        )

    saliency, noisy = attr.Saliency(network), attr.NoiseTunnel(attr.Saliency(network))
    captum = {
        "gradient": lambda x, given: saliency.attribute(x, abs=False, **given),
        "gradient_x_input": lambda x, given: attr.InputXGradient(network).attribute(x, **given),
        "integrated_gradients": integrated,
        "smoothgrad": lambda x, given: noisy.attribute(x, nt_type="smoothgrad", **tunnel, **given),
        "vargrad": lambda x, given: noisy.attribute(x, nt_type="vargrad", **tunnel, **given),
        "guided_backprop": lambda x, given: attr.GuidedBackprop(network).attribute(x, **given),
        "deconvnet": lambda x, given: attr.Deconvolution(network).attribute(x, **given),
        "grad_cam": cam,
        "guided_grad_cam": lambda x, given: attr.GuidedGradCam(network, last).attribute(x, **given),
    }
    return {name: by_captum(explain) for name, explain in captum.items()} | zennit_methods(network, batch)


def zennit_methods(network: nn.Module, batch: Batch) -> dict[str, Callable[[], Tensor]]:
    """z+ everywhere, for LRP with the box rule at the input; batch norm merged, pairs summed in proportion."""
    zennit = import_zennit()
    from zennit.canonizers import SequentialMergeBatchNorm
    from zennit.composites import ExcitationBackprop, SpecialFirstLayerMapComposite

    class Asked(RelationNetwork):
        """The network for zennit: the sum over pairs is a module, and the question known."""

        def __init__(self) -> None:
            super().__init__()
            self.total = zennit.layer.Sum(1)

        def forward(self, pictures: Tensor) -> Tensor:
            pairs = self.g(self.pairs(self.objects(pictures), self.read(self.question)))
            answer: Tensor = self.f(self.total(pairs.flatten(1, 2)))
            return answer

    asked = Asked().eval()
    asked.load_state_dict(network.state_dict())
    asked.requires_grad_(False)
    rules, types = zennit.rules, zennit.types

    def every(make: Callable[[], object]) -> Tensor:
        found = []
        for part in parts(batch):
            asked.question = part.context[0]
            chosen = nn.functional.one_hot(part.target, 28).float()
            with zennit.attribution.Gradient(model=asked, composite=make()) as attributor:
                found.append(attributor(part.inputs, lambda output, chosen=chosen: output * chosen)[1].detach())
        return torch.cat(found)

    def lrp() -> object:
        layers = [(types.Activation, rules.Pass()), (zennit.layer.Sum, rules.Norm()), (types.Linear, rules.ZPlus())]
        first = [(types.Convolution, rules.ZBox(low=0.0, high=1.0))]
        return SpecialFirstLayerMapComposite(layers, first, canonizers=[SequentialMergeBatchNorm()])

    return {
        "lrp": lambda: every(lrp),
        "excitation_backprop": lambda: every(lambda: ExcitationBackprop(canonizers=[SequentialMergeBatchNorm()])),
    }


def their_scores(relevance: Tensor, batch: Batch) -> float:
    """All scores by Quantus, map by map as it does; the mean mass accuracy that the table shows."""
    quantus = import_quantus()
    usable = relevance.flatten(1).any(1)  # Quantus refuses heatmaps of zeros
    shown = float("nan")
    for pooling in poolings:
        pooled = pool(relevance[usable], pooling).unsqueeze(1).numpy()
        # a map whose positive part is zero everywhere is refused too
        good = pooled.reshape(len(pooled), -1).any(1)
        for kind, masks in batch.masks.items():
            given = {
                "model": nn.Sequential(nn.Flatten(), nn.Linear(128 * 128, 2)),
                "x_batch": pooled[good],
                "y_batch": np.zeros(int(good.sum()), dtype=int),
                "a_batch": pooled[good],
                "s_batch": masks[usable][torch.as_tensor(good)].unsqueeze(1).numpy(),
                "device": "cpu",
            }
            for metric in (quantus.RelevanceMassAccuracy, quantus.RelevanceRankAccuracy):
                if not good.any():
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    scores = metric(disable_warnings=True, display_progressbar=False)(**given)
                if (pooling, kind, metric) == ("pos_l2_norm_sq", "single_object", quantus.RelevanceMassAccuracy):
                    shown = float(np.mean(scores))
    return shown
