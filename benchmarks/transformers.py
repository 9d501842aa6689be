"""Transformers: relevance layer by layer, our time over lxt's and grad-cam's, and the memory that LRP takes.

All networks have random weights. lxt has no vision transformer to take as it is, so torchvision's is written out with
lxt's functions, one for one.
"""

from __future__ import annotations

import copy
import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tests.reference.libraries import import_grad_cam, import_timm, import_torchvision, import_transformers
from torch import Tensor, nn
from torch.nn import functional

import heatproof
from benchmarks.workloads import interleaved, ours, show
from heatproof.benchmarks.clevr_xai.answers import pictures
from heatproof.cases import Batch
from heatproof.clevr.files import open_dataset
from heatproof.clevr.questions.make import make_questions
from heatproof.clevr.shipped import shipped_dataset
from heatproof.models.relation_network import PICTURE_SIZE
from heatproof.models.scene_logic import load_scene_logic
from heatproof.models.scene_steps import encode

SIDE, PATCH = 224, 16
SPEC = "lrp:composite=attn_lrp"


def main() -> None:
    conserved()
    print()
    faster()
    print()
    remembered()


def networks() -> Iterator[tuple[str, nn.Module, Tensor, tuple[Tensor, ...]]]:
    """With what it is asked about: a random picture, or a rendered one and a question. One after the other, so that
    only one is in memory."""
    x = torch.randn(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
    for name, network in vision_networks():
        yield name, network, x, ()
    yield "scene_logic, trained", load_scene_logic(), *complex_question()


def complex_question() -> tuple[Tensor, tuple[Tensor, ...]]:
    """A picture that ships, and the first complex question that is asked about it."""
    with TemporaryDirectory() as folder:
        for name in ("CLEVR_scenes.json", "images"):
            (Path(folder) / name).symlink_to(shipped_dataset() / name)
        make_questions(Path(folder), "complex", per_image=1)
        asked = open_dataset(Path(folder)).questions("complex")[:1]
        return pictures(asked, PICTURE_SIZE), (encode(asked[0].text),)


def vision_networks() -> Iterator[tuple[str, nn.Module]]:
    timm, transformers = import_timm(), import_transformers()
    from torchvision.models import vit_b_16

    torch.manual_seed(0)
    for name in (
        "vit_tiny_patch16_224",
        "deit_tiny_patch16_224",
        "swin_tiny_patch4_window7_224",
        "convnext_atto",
    ):
        yield f"timm:{name}", timm.create_model(name)
    yield "torchvision:vit_b_16", with_head(vit_b_16())
    config = transformers.ViTConfig(
        hidden_size=192, num_hidden_layers=12, num_attention_heads=3, intermediate_size=768, num_labels=1000
    )
    yield "hf: ViT of width 192", transformers.ViTForImageClassification(config)


def with_head(network: nn.Module) -> nn.Module:
    """torchvision begins with a head of zeros, whose score is zero; this one has weights."""
    nn.init.normal_(network.heads.head.weight, std=0.02)
    return network


def conserved() -> None:
    print(f"relevance of one picture under {SPEC}: at the score, the largest sum at any layer, at the inputs; biases")
    print(f"{'network':<34} {'layers':>6} {'score':>9} {'largest':>9} {'inputs':>9} {'biases':>9} {'elsewhere':>9}")
    for name, network, x, context in networks():
        levels = heatproof.conservation(network.eval(), x, SPEC, context=context)
        largest = max((level.relevance for level in levels), key=abs)
        last = levels[-1]
        print(
            f"{name:<34} {len(levels) - 2:>6} {levels[0].relevance:>9.4f} {largest:>9.4f} {last.relevance:>9.4f}"
            f" {last.biases:>9.4f} {last.elsewhere:>9.4f}",
            flush=True,
        )


def tiny() -> nn.Module:
    """torchvision's architecture with the numbers of a ViT-Tiny."""
    import_torchvision()
    from torchvision.models.vision_transformer import VisionTransformer

    torch.manual_seed(0)
    network = VisionTransformer(SIDE, PATCH, 12, 3, 192, 768, num_classes=10)
    return with_head(network).eval().requires_grad_(False)


def faster() -> None:
    network = tiny()
    print("our CPU seconds over theirs (below 1: we are faster), a ViT-Tiny in torchvision's architecture, 224 x 224")
    show("method", "other", "ours", "theirs", "ratio")
    for cases in (1, 4):
        inputs = torch.randn(cases, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(1))
        if cases == 1:
            require_equal(network, inputs)
        compared(network, inputs)


def compared(network: nn.Module, inputs: Tensor) -> None:
    """Both libraries on these pictures."""
    cases = len(inputs)
    batch = Batch(inputs, torch.full((cases,), 3), tuple(map(str, range(cases))))
    library = import_grad_cam()
    targets = [library.utils.model_targets.ClassifierOutputTarget(3)] * cases
    norm = network.encoder.layers[-1].ln_1
    mine, other = interleaved([ours(SPEC, network, batch), by_lxt(network, inputs)])
    show("lrp:composite=attn_lrp", f"lxt, explicit functions, {cases}", mine, other, mine / other)
    with library.GradCAM(model=network, target_layers=[norm], reshape_transform=on_grid) as cam:

        def theirs() -> object:
            with redirect_stderr(StringIO()):  # its progress bar
                return cam(input_tensor=inputs.clone().requires_grad_(), targets=targets)

        mine, other = interleaved([ours("grad_cam", network, batch), theirs])
    show("grad_cam", f"pytorch-grad-cam, {cases}", mine, other, mine / other)


def on_grid(tokens: Tensor) -> Tensor:
    side = SIDE // PATCH
    return tokens[:, 1:].reshape(len(tokens), side, side, -1).permute(0, 3, 1, 2)


def by_lxt(network: nn.Module, inputs: Tensor, epsilon: float = 1e-6) -> Callable[[], Tensor]:
    """AttnLRP of torchvision's network with lxt's own functions."""
    import lxt.explicit.functional as lxt

    def dense(layer: nn.Linear, x: Tensor) -> Tensor:
        return lxt.linear_epsilon(x, layer.weight, layer.bias, epsilon)

    def norm(layer: nn.LayerNorm, x: Tensor) -> Tensor:
        return lxt.layer_norm_grad_fn.apply(x, layer.weight, layer.bias, layer.eps, epsilon)

    def explain() -> Tensor:
        x = inputs.clone().requires_grad_()
        first, encoder = network.conv_proj, network.encoder
        patches = functional.unfold(x, PATCH, stride=PATCH).transpose(1, 2)
        tokens = lxt.linear_epsilon(patches, first.weight.flatten(1), first.bias, epsilon)
        tokens = torch.cat([network.class_token.expand(len(x), -1, -1), tokens], 1)
        tokens = lxt.add2(tokens, encoder.pos_embedding.expand_as(tokens), False, epsilon)
        for block in encoder.layers:
            attention = block.self_attention
            inner, heads = norm(block.ln_1, tokens), attention.num_heads
            packed = lxt.linear_epsilon(inner, attention.in_proj_weight, attention.in_proj_bias, epsilon)
            q, k, v = (
                part.reshape(*part.shape[:2], heads, -1).transpose(1, 2).contiguous() for part in packed.chunk(3, -1)
            )
            scores = lxt.mul2(lxt.matmul(q, k.transpose(-2, -1), False, epsilon), q.shape[-1] ** -0.5)
            mixed = lxt.matmul(lxt.softmax(scores, -1), v, False, epsilon).transpose(1, 2).reshape(inner.shape)
            tokens = lxt.add2(tokens, dense(attention.out_proj, mixed), False, epsilon)
            wide = PassedOn.apply(dense(block.mlp[0], norm(block.ln_2, tokens)))
            tokens = lxt.add2(tokens, dense(block.mlp[3], wide), False, epsilon)
        score = dense(network.heads.head, norm(encoder.ln, tokens)[:, 0])[:, 3]
        (found,) = torch.autograd.grad(score, x, score.detach())
        return found

    return explain


def require_equal(network: nn.Module, inputs: Tensor) -> None:
    """What is timed is the same, but for where stabilisers stand: in double precision and with hardly any of them."""
    network, inputs, epsilon = copy.deepcopy(network).double(), inputs.double(), 1e-12
    mine, other = (
        heatproof.explain(network, inputs, SPEC, target=3, epsilon=epsilon),
        by_lxt(network, inputs, epsilon)(),
    )
    difference = float((other - mine).norm() / mine.norm())
    print(f"lxt's relevance and ours differ by {difference:.1e} of its norm in double precision")
    if difference > 1e-6:
        raise SystemExit("so that their times say nothing.")


class PassedOn(torch.autograd.Function):
    """GELU, which passes relevance on."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return functional.gelu(x)

    @staticmethod
    def backward(ctx, coming):  # type: ignore[no-untyped-def]
        return coming


def remembered() -> None:
    print(
        "megabytes that explaining one picture of 224 x 224 by torchvision's vit_b_16 takes at most, beside the network"
    )
    for spec in ("no gradients", "gradient", "lrp:composite=attn_lrp", "lrp:composite=cp_lrp", "chefer"):
        script = f"from benchmarks.transformers import explain_once; explain_once({spec!r})"
        found = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
        print(f"{spec:<24} {found.stdout.strip():>6}", flush=True)


def explain_once(spec: str) -> None:
    """In a process of its own, so that nothing is there from before: what it needed beside the network is printed."""
    import_torchvision()
    from torchvision.models import vit_b_16

    torch.set_num_threads(1)
    torch.manual_seed(0)
    network = with_head(vit_b_16()).eval().requires_grad_(False)
    x = torch.randn(1, 3, SIDE, SIDE)
    heatproof.explain(tiny(), x, "gradient", target=3)  # what is imported on the way
    ctypes.CDLL("libc.so.6").malloc_trim(0)  # memory that is free already would hide what is needed
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now on
    before = megabytes("VmRSS")
    if spec == "no gradients":
        with torch.no_grad():
            network(x)
    else:
        heatproof.explain(network, x, spec, target=3)
    print(round(megabytes("VmHWM") - before))


def megabytes(field: str) -> float:
    """What Linux says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))
