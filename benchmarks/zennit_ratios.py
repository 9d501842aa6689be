"""Our LRP over zennit's: the same rules (epsilon for dense layers, z+ for convolutions) on the same inputs."""

from __future__ import annotations

from tests.reference.libraries import import_zennit
from torch.nn.functional import one_hot

from benchmarks.workloads import interleaved, pictures, signals
from heatproof.explainers.spec import make_explainer
from heatproof.seeds import CaseRandom


def main() -> None:
    zennit = import_zennit()
    print("our CPU seconds over zennit's for LRP, composite epsilon_plus (below 1: we are faster)")
    print(f"{'work':<34} {'ours':>8} {'zennit':>8} {'ratio':>6}")
    for title, (model, batch) in (
        ("1 signal of 40 points", signals(1)),
        ("200 signals of 40 points", signals(200)),
        ("1 picture of 3 x 96 x 96", pictures(1)),
        ("8 pictures of 3 x 96 x 96", pictures(8)),
    ):
        explainer, chosen = make_explainer("lrp", composite="epsilon_plus"), one_hot(batch.target, 10).float()

        def ours(explainer=explainer, model=model, batch=batch) -> object:
            return explainer(model, batch, CaseRandom(0, "lrp"))

        def theirs(model=model, batch=batch, chosen=chosen) -> object:
            composite = zennit.composites.EpsilonPlus()
            with zennit.attribution.Gradient(model=model, composite=composite) as attributor:
                return attributor(batch.inputs, lambda output: output * chosen)[1]

        mine, other = interleaved([ours, theirs])
        print(f"{title:<34} {mine:>8.4f} {other:>8.4f} {mine / other:>6.2f}")
