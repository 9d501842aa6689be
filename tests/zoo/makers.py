"""How networks of torchvision and timm are made small, and why methods refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from reference.libraries import import_torchvision, import_transformers
from zoo.own import CLASSES


def vision(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A network of torchvision's."""

    def make() -> nn.Module:
        import_torchvision()
        from torchvision import models

        model: nn.Module = models.get_model(name, weights=None, num_classes=CLASSES, **options)
        return model

    return make


def timm(name: str, **options: Any) -> Callable[[], nn.Module]:
    """A network of timm's."""

    def make() -> nn.Module:
        import_torchvision()
        from timm import create_model

        model: nn.Module = create_model(name, pretrained=False, num_classes=CLASSES, **options)
        return model

    return make


def video(name: str) -> Callable[[], nn.Module]:
    """A video network of torchvision's."""

    def make() -> nn.Module:
        import_torchvision()
        from torchvision.models import video

        model: nn.Module = getattr(video, name)(weights=None, num_classes=CLASSES)
        return model

    return make


def narrow_head(name: str, width: int) -> Callable[[], nn.Module]:
    """A network of torchvision's whose dense layers would hold most of its weights, with small ones."""

    def make() -> nn.Module:
        model = vision(name)()
        model.avgpool = nn.AdaptiveAvgPool2d(2)
        model.classifier = nn.Sequential(nn.Dropout(), nn.Linear(4 * width, 32), nn.ReLU(True), nn.Linear(32, CLASSES))
        return model

    return make


def densenet(**options: Any) -> Callable[[], nn.Module]:
    """torchvision's DenseNet, fewer and narrower layers."""

    def make() -> nn.Module:
        import_torchvision()
        from torchvision.models import DenseNet

        return DenseNet(8, (2, 3, 2), 16, num_classes=CLASSES, **options)

    return make


def vit(**options: Any) -> Callable[[], nn.Module]:
    """torchvision's vision transformer, two blocks of width 16."""

    def make() -> nn.Module:
        import_torchvision()
        from torchvision.models import VisionTransformer

        model = VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=CLASSES, **options)
        nn.init.normal_(model.heads.head.weight)
        return model

    return make


def hugging_face(family: str = "ViT", **options: Any) -> Callable[[], nn.Module]:
    """A vision transformer of transformers', two blocks of width 16, whose answer is a bundle with `logits`."""

    class Bundled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            transformers = import_transformers()
            config = getattr(transformers, f"{family}Config")(
                hidden_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                intermediate_size=32,
                image_size=32,
                patch_size=8,
                num_labels=CLASSES,
                **options,
            )
            self.network = getattr(transformers, f"{family}ForImageClassification")(config)

        def forward(self, pictures: Tensor) -> Tensor:
            logits: Tensor = self.network(pictures).logits
            return logits

    return Bundled


NO_RECTIFIER = {"guided": "it has no rectifier"}
GATED = {"LRP": "products of two paths have rules in the composites for attention only"}
ATTENTION = {"LRP": "attention has rules in the composites for it only"}
LAYER_NORM = {"LRP": "layer norms have rules in the composites for attention only"}
RECURRENT = dict.fromkeys(("LRP", "attn_lrp"), "recurrent layers have no rule")
ASKED = {"relevance kept": "the question takes its share"}
WIDE = {"masks": "a pass for each of its many maps"}


def mean_head(model: nn.Module, maps: Tensor) -> Tensor:
    """What our own networks do with their last maps."""
    logits: Tensor = model.out(maps.mean((2, 3)))
    return logits


def dense_head(model: nn.Module, maps: Tensor) -> Tensor:
    """What torchvision's DenseNet does with its last maps."""
    logits: Tensor = model.classifier(maps.mean((2, 3)))
    return logits


def flat_head(model: nn.Module, maps: Tensor) -> Tensor:
    """What the toys with a norm do with their last maps."""
    logits: Tensor = model.out(maps.flatten(1))
    return logits


def time_head(model: nn.Module, maps: Tensor) -> Tensor:
    """What the network with time in front does with its last states."""
    logits: Tensor = model.out(maps.mean(0))
    return logits
