"""Other libraries as references; a test that needs one skips with a reason where it is missing."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

libraries: list[torch.library.Library] = []


def import_torchvision() -> None:
    """Make torchvision importable: beside a torch build without its operators, these are declared first."""
    try:
        import torchvision  # noqa: F401
    except ImportError:
        pytest.skip("needs torchvision")
    except RuntimeError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        libraries.append(library)  # the operators live as long as this object


def import_quantus() -> ModuleType:
    import_torchvision()
    quantus: ModuleType = pytest.importorskip("quantus", reason="needs quantus")
    return quantus


def import_zennit() -> ModuleType:
    import_torchvision()
    for part in ("attribution", "composites", "layer", "rules", "types"):
        pytest.importorskip(f"zennit.{part}", reason="needs zennit")
    return sys.modules["zennit"]


def import_grad_cam() -> ModuleType:
    import_torchvision()
    pytest.importorskip("pytorch_grad_cam.utils.model_targets", reason="needs grad-cam")
    return sys.modules["pytorch_grad_cam"]


def import_timm() -> ModuleType:
    import_torchvision()
    timm: ModuleType = pytest.importorskip("timm", reason="needs timm")
    return timm


def import_transformers() -> ModuleType:
    import_torchvision()
    transformers: ModuleType = pytest.importorskip("transformers", reason="needs transformers")
    return transformers
