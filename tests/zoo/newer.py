"""Architectures of timm's that came after the rules of the methods were written."""

from __future__ import annotations

from typing import Any

from zoo.kinds import Layer, Network
from zoo.makers import GATED, LAYER_NORM, NO_RECTIFIER, WIDE, timm

NOT_RUN = WIDE | {"attn_lrp": "no transformer"}


def row(title: str, name: str, layer: str, layout: str = "maps", **more: Any) -> Network:
    """A network of timm's at 64 x 64 pixels."""
    return Network(f"{title} (timm)", "newer", timm(name), (3, 64, 64), Layer(layer, layout), not_run=NOT_RUN, **more)


NEWER = [
    row("HRNet-W18 small", "hrnet_w18_small", "final_layer"),
    row("MnasNet small", "mnasnet_small", "bn2", refuses=GATED),
    row("FBNet-C", "fbnetc_100", "bn2"),
    row("TinyNet-E", "tinynet_e", "bn2", refuses=GATED | NO_RECTIFIER),
    row("MixNet-S", "mixnet_s", "bn2", refuses=GATED),
    row("LCNet-050", "lcnet_050", "blocks", refuses=GATED),
    row("MambaOut, small", "test_mambaout", "stages", "last", refuses=GATED | NO_RECTIFIER),
    row("NFNet, small", "test_nfnet", "final_act", refuses=GATED),
    row("ConvNeXt with sums, small", "test_convnext2", "stages", refuses=LAYER_NORM | NO_RECTIFIER),
    row("ByobNet, small", "test_byobnet", "stages", refuses=GATED),
    row("DLA-46-C", "dla46_c", "level5"),
    row("HGNetV2-B0", "hgnetv2_b0", "stages"),
]
