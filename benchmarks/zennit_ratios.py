"""Our LRP over zennit's: the same rules (epsilon for dense layers, z+ for convolutions) on the same inputs."""

from __future__ import annotations

from tests.reference.libraries import import_zennit
from torch.nn.functional import one_hot

from benchmarks.workloads import interleaved, ours, show, works


def main() -> None:
    zennit = import_zennit()
    print("our CPU seconds over zennit's for LRP, composite epsilon_plus (below 1: we are faster)")
    show("method", "work", "ours", "zennit", "ratio")
    for title, (model, batch) in works():
        chosen = one_hot(batch.target, 10).float()

        def theirs(model=model, batch=batch, chosen=chosen) -> object:
            composite = zennit.composites.EpsilonPlus()
            with zennit.attribution.Gradient(model=model, composite=composite) as attributor:
                return attributor(batch.inputs, lambda output: output * chosen)[1]

        mine, other = interleaved([ours("lrp:composite=epsilon_plus", model, batch), theirs])
        show("lrp", title, mine, other, mine / other)
