"""`heatproof fetch ...`"""

from __future__ import annotations

from typing import Annotated

import typer

from heatproof.cli.terminal import say


def fetch(
    name: Annotated[
        str, typer.Argument(help="clevr-xai, relation-network, alexnet, vgg16 or resnet18.", metavar="NAME")
    ],
) -> None:
    """Download published data sets and weights once; they are verified and kept in the cache folder.

    An interrupted download is resumed. HEATPROOF_HOME names another cache folder.

    Examples:

    heatproof fetch relation-network

    heatproof run clevr-xai --dataset data --weights relation-network

    heatproof fetch clevr-xai

    heatproof run clevr-xai --preset paper

    heatproof fetch vgg16

    heatproof run focus --images photos --model vgg16 --weights imagenet
    """
    from heatproof.clevr.release import NAME, fetch_release
    from heatproof.cli.bars import bars
    from heatproof.downloads import downloads
    from heatproof.downloads import fetch as download

    with bars() as progress:
        path = fetch_release(progress=progress) if name == NAME else download(name, progress)
    say(f"{path}\n{downloads[name].about}, licence {downloads[name].licence}")
