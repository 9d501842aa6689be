"""`heatproof train ...`: how the networks that ship with Heatproof were made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Train the networks that the benchmarks explain.", no_args_is_help=True)


@app.callback()
def networks() -> None:
    """Keeps `mnist1d-cnn` a sub-command while it is the only one."""


@app.command("mnist1d-cnn")
def mnist1d_cnn(
    seed: Annotated[int, typer.Option(help="Seed of initial weights and of the order of signals.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Where to write. Default: mnist1d_cnn-SEED.npz.")] = None,
) -> None:
    """SVEA's shallow network on MNIST-1D; about 45 seconds.

    Example: heatproof train mnist1d-cnn --seed 4 --out net.npz
    """
    from heatproof import mnist1d
    from heatproof.models.mnist1d_cnn import accuracy, train
    from heatproof.models.weights import save_weights
    from heatproof.progress import bars

    signals, test = mnist1d.make()
    with bars() as progress:
        network = train(signals, seed, progress=progress)
    path = out or Path(f"mnist1d_cnn-{seed}.npz")
    save_weights(network, path)
    typer.echo(f"{path}: {accuracy(network, test):.1%} of the 1,000 test signals right")
