"""Transformers, mixers, skips, and networks over signals, volumes and questions."""

from __future__ import annotations

from functools import partial

from torch import nn
from torch.nn import functional as F

from heatproof.models.film_network import FilmNetwork
from heatproof.models.mnist1d_cnn import Mnist1dCnn
from heatproof.models.relation_network import RelationNetwork
from zoo import own, signals
from zoo.kinds import Layer, Network
from zoo.makers import (
    ASKED,
    ATTENTION,
    GATED,
    LAYER_NORM,
    NO_RECTIFIER,
    RECURRENT,
    WIDE,
    hugging_face,
    mean_head,
    time_head,
    timm,
    video,
    vision,
    vit,
)

TOKENS = {"layout": "tokens", "grid": (4, 4)}
CLASS_TOKEN = TOKENS | {"class_token": True}
TRANSFORMERS = [
    Network(
        "ViT (torchvision)",
        "transformer",
        vit(),
        layer=Layer("encoder.layers.encoder_layer_1.ln_1", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
    ),
    Network(
        "ViT tiny (timm)",
        "transformer",
        timm("vit_tiny_patch16_224", img_size=64, depth=2),
        (3, 64, 64),
        Layer("blocks.1.norm1", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
        not_run=WIDE,
        quick=True,
    ),
    Network(
        "DeiT tiny, distilled (timm)",
        "transformer",
        timm("deit_tiny_distilled_patch16_224", img_size=64, depth=2),
        (3, 64, 64),
        Layer("blocks.1.norm1", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
        not_run=WIDE,
    ),
    Network(
        "ViT with registers (timm)",
        "transformer",
        timm("vit_tiny_patch16_224", img_size=64, depth=2, reg_tokens=4),
        (3, 64, 64),
        Layer("blocks.1.norm1", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
        not_run=WIDE,
    ),
    Network(
        "ViT, mean of tokens (timm)",
        "transformer",
        timm("vit_tiny_patch16_224", img_size=64, depth=2, class_token=False, global_pool="avg"),
        (3, 64, 64),
        Layer("blocks.1", **TOKENS),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
        not_run=WIDE,
    ),
    Network(
        "ViT, mean of tokens, registers (timm)",
        "transformer",
        timm("vit_tiny_patch16_224", img_size=64, depth=2, class_token=False, reg_tokens=4, global_pool="avg"),
        (3, 64, 64),
        Layer("blocks.1", **TOKENS),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
        not_run=WIDE,
    ),
    Network(
        "ViT (Hugging Face)",
        "transformer",
        hugging_face(),
        layer=Layer("network.vit.layers.1.layernorm_before", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
    ),
    Network(
        "ViT, eager attention (Hugging Face)",
        "transformer",
        hugging_face(attn_implementation="eager"),
        layer=Layer("network.vit.layers.1.layernorm_before", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
    ),
    Network(
        "Swin-T (torchvision)",
        "transformer",
        vision("swin_t"),
        (3, 64, 64),
        Layer("permute"),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "Swin tiny (timm)",
        "transformer",
        timm("swin_tiny_patch4_window7_224", img_size=64, window_size=4, depths=(2, 2)),
        (3, 64, 64),
        Layer("norm", layout="last"),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "PVT-v2-B0 (timm)",
        "transformer",
        timm("pvt_v2_b0"),
        (3, 64, 64),
        Layer("stages"),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "MobileViT (timm)",
        "transformer",
        timm("mobilevit_xxs"),
        (3, 64, 64),
        Layer("final_conv"),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "BEiT, mean of patches beside a class token (timm)",
        "transformer",
        timm("beit_base_patch16_224", img_size=64, depth=2, embed_dim=48, num_heads=2),
        (3, 64, 64),
        Layer("blocks.1", **TOKENS),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
        not_run=WIDE,
        quick=True,
    ),
    Network(
        "EVA-02, rotary positions, gated units (timm)",
        "transformer",
        timm("eva02_tiny_patch14_224", img_size=56, depth=2, embed_dim=48, num_heads=2),
        (3, 56, 56),
        Layer("blocks.1", **TOKENS),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
        not_run=WIDE,
    ),
    Network(
        "DINOv2, class token and mean (Hugging Face)",
        "transformer",
        hugging_face("Dinov2"),
        layer=Layer("network.dinov2.layernorm", **TOKENS),
        refuses=ATTENTION | NO_RECTIFIER,
        attends=True,
    ),
    Network(
        "CaiT, talking heads (timm)",
        "transformer",
        timm("cait_xxs24_224", img_size=64, depth=2, embed_dim=48, num_heads=2),
        (3, 64, 64),
        Layer("blocks_token_only.1.norm1", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "TNT, dropout in place (timm)",
        "transformer",
        timm("tnt_s_patch16_224", img_size=64, depth=2),
        (3, 64, 64),
        Layer("blocks.1.norm_out", **CLASS_TOKEN),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "MaxViT (timm)",
        "transformer",
        timm("maxvit_rmlp_pico_rw_256", img_size=64),
        (3, 64, 64),
        Layer("norm"),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "Hiera, tokens in the order of windows (timm)",
        "transformer",
        timm("hiera_tiny_224", img_size=64),
        (3, 64, 64),
        Layer("patch_embed", layout="tokens", grid=(16, 16)),
        refuses=ATTENTION | NO_RECTIFIER,
        not_run=WIDE,
    ),
]

MIXERS = [
    Network(
        "mixer", "MLP-Mixer", own.Mixer, layer=Layer("norms.2", **TOKENS), refuses=LAYER_NORM | NO_RECTIFIER, quick=True
    ),
    Network(
        "MLP-Mixer (timm)",
        "MLP-Mixer",
        timm("mixer_s32_224", img_size=128),
        (3, 128, 128),
        Layer("norm", **TOKENS),
        refuses=LAYER_NORM | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "ResMLP (timm)",
        "MLP-Mixer",
        timm("resmlp_12_224", img_size=64),
        (3, 64, 64),
        Layer("norm", **TOKENS),
        refuses=NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "gMLP (timm)",
        "MLP-Mixer",
        timm("gmlp_ti16_224", img_size=64),
        (3, 64, 64),
        Layer("norm", **TOKENS),
        refuses=GATED | NO_RECTIFIER,
        not_run=WIDE,
    ),
]

SKIPS = [
    Network("U-Net, transposed convolution", "U-Net, VQ-VAE", partial(own.Unet, True), layer=Layer("last")),
    Network("U-Net, interpolation", "U-Net, VQ-VAE", partial(own.Unet, False), layer=Layer("last")),
    Network(
        "VQ-VAE residual, in place",
        "U-Net, VQ-VAE",
        partial(own.VqResidual, True),
        layer=Layer("last"),
        twin=partial(own.VqResidual, False),
        quick=True,
    ),
    Network(
        "pix2pix skip, in place",
        "U-Net, VQ-VAE",
        partial(own.PixSkip, True),
        layer=Layer("last", then=F.relu, head=mean_head),
        twin=partial(own.PixSkip, False),
    ),
]

SIGNALS = [
    Network("MNIST-1D CNN (ours)", "signals", Mnist1dCnn, (1, 40), Layer("relu3"), quick=True),
    Network("fully convolutional", "signals", signals.signal_fcn, (3, 40), Layer("features")),
    Network("InceptionTime", "signals", signals.InceptionTime, (3, 40), Layer("last"), quick=True),
    Network("dilated convolutions, weights normed", "signals", signals.dilated, (3, 40), Layer("features")),
    Network("LSTM", "signals", lambda: signals.Recurrent(nn.LSTM(3, 8), 8), (3, 12), refuses=RECURRENT | NO_RECTIFIER),
    Network("GRU", "signals", lambda: signals.Recurrent(nn.GRU(3, 8), 8), (3, 12), refuses=RECURRENT | NO_RECTIFIER),
    Network(
        "RNN (tanh)", "signals", lambda: signals.Recurrent(nn.RNN(3, 8), 8), (3, 12), refuses=RECURRENT | NO_RECTIFIER
    ),
    Network(
        "RNN (ReLU)",
        "signals",
        lambda: signals.Recurrent(nn.RNN(3, 8, nonlinearity="relu"), 8),
        (3, 12),
        refuses=RECURRENT,
    ),
    Network(
        "CRNN (bidirectional LSTM)",
        "signals",
        lambda: signals.Recurrent(nn.LSTM(6, 8, bidirectional=True), 16, True, True),
        (3, 24),
        Layer("conv"),
        refuses=RECURRENT,
    ),
    Network("time first", "signals", signals.TimeFirst, (3, 21), Layer("dense", "first", then=F.relu, head=time_head)),
    Network(
        "torch's encoder layer",
        "signals",
        signals.SignalTransformer,
        (3, 20),
        Layer("layer.norm2", "first", (20,)),
        refuses=ATTENTION,
        attends=True,
    ),
    Network(
        "batch norm over tokens",
        "signals",
        signals.TokenNorm,
        (6, 12),
        not_run={
            "CAMs": "no layer that a person would name",
            "guided maps": "no layer that a person would name",
            "masks": "no layer that a person would name",
        },
    ),
]

VOLUMES = [
    Network("3-D CNN", "volumes", signals.volume_cnn, (1, 8, 12, 12), Layer("features"), quick=True),
    Network("R3D-18 (torchvision)", "volumes", video("r3d_18"), (3, 4, 32, 32), Layer("layer4"), not_run=WIDE),
    Network("MC3-18 (torchvision)", "volumes", video("mc3_18"), (3, 4, 32, 32), Layer("layer4"), not_run=WIDE),
    Network("R(2+1)D-18 (torchvision)", "volumes", video("r2plus1d_18"), (3, 4, 32, 32), Layer("layer4"), not_run=WIDE),
]

QUESTIONS = [
    Network("maps gated by words", "questions", signals.GatedByWords, layer=Layer("last"), words=5, quick=True),
    Network("relations of cells", "questions", signals.Relations, layer=Layer("convs"), words=5, not_run=ASKED),
    Network(
        "Relation Network (ours)",
        "questions",
        RelationNetwork,
        (3, 128, 128),
        Layer("convs.relu4"),
        words=5,
        not_run=ASKED,
    ),
    Network("FiLM (ours)", "questions", FilmNetwork, (3, 128, 128), Layer("gather_relu"), words=5),
]
