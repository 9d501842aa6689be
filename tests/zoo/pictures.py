"""Convolutional networks over pictures."""

from __future__ import annotations

from torch.nn import functional as F

from zoo import own, signals
from zoo.kinds import Layer, Network
from zoo.makers import GATED, LAYER_NORM, NO_RECTIFIER, WIDE, dense_head, densenet, mean_head, narrow_head, timm, vision

PLAIN = [
    Network("plain CNN", "plain CNN", own.plain_cnn, layer=Layer("features"), quick=True),
    Network("CNN with batch norm, in place", "plain CNN", own.normed_cnn, layer=Layer("features"), quick=True),
    Network("LeNet (tanh)", "plain CNN", own.lenet, (1, 32, 32), Layer("features"), refuses=NO_RECTIFIER),
    Network("all convolutional", "plain CNN", own.all_convolutional, layer=Layer("features")),
    Network("maximum pools", "plain CNN", own.max_pooled, (3, 28, 28), Layer("features.3"), own.max_pooled_by_windows),
    Network("one output", "plain CNN", own.one_output, layer=Layer("features"), quick=True),
    Network("functions only", "plain CNN", own.FunctionalCnn, layer=Layer("twice", then=F.relu, head=mean_head)),
    Network("a sum over places", "plain CNN", own.AddedUp, (3, 16, 16), refuses=NO_RECTIFIER, quick=True),
    Network("perceptron", "plain CNN", signals.Perceptron, (3, 20)),
    Network("group and instance norms", "plain CNN", own.group_normed, layer=Layer("features")),
]

CLASSIC = [
    Network(
        "AlexNet (torchvision)",
        "AlexNet, VGG",
        narrow_head("alexnet", 256),
        (3, 96, 96),
        Layer("features"),
        not_run=WIDE,
    ),
    Network(
        "VGG-11 (torchvision)", "AlexNet, VGG", narrow_head("vgg11", 512), layer=Layer("features.19"), not_run=WIDE
    ),
    Network(
        "VGG-11 BN (torchvision)",
        "AlexNet, VGG",
        narrow_head("vgg11_bn", 512),
        (3, 64, 64),
        Layer("features"),
        not_run=WIDE,
    ),
    Network(
        "SqueezeNet 1.1 (torchvision)", "AlexNet, VGG", vision("squeezenet1_1"), (3, 64, 64), Layer("classifier.2")
    ),
]

RESIDUAL = [
    Network("CIFAR ResNet", "ResNet", own.CifarResnet, layer=Layer("layer2"), quick=True),
    Network("pre-activation ResNet", "ResNet", own.PreActivation, layer=Layer("last", then=F.relu, head=mean_head)),
    Network("ResNet-18 (torchvision)", "ResNet", vision("resnet18"), (3, 64, 64), Layer("layer4"), not_run=WIDE),
    Network("ResNet-50 (torchvision)", "ResNet", vision("resnet50"), (3, 64, 64), Layer("layer4"), not_run=WIDE),
    Network("ResNet-26d (timm)", "ResNet", timm("resnet26d"), (3, 64, 64), Layer("layer4"), not_run=WIDE),
    Network("ResNet-v2 BiT (timm)", "ResNet", timm("resnetv2_50x1_bit"), (3, 64, 64), Layer("norm"), not_run=WIDE),
    Network("DLA-34 (timm)", "ResNet", timm("dla34"), (3, 64, 64), Layer("level5"), not_run=WIDE),
    Network("Res2Net-50 (timm)", "ResNet", timm("res2net50_26w_4s"), (3, 64, 64), Layer("layer4"), not_run=WIDE),
]

GATES = [
    Network(
        "squeeze and excite",
        "ResNeXt, squeeze and excite",
        lambda: own.gated(own.Gate(8)),
        layer=Layer("features"),
        refuses=GATED,
        quick=True,
    ),
    Network(
        "CBAM",
        "ResNeXt, squeeze and excite",
        lambda: own.gated(own.Gate(8), own.PlaceGate()),
        layer=Layer("features"),
        refuses=GATED,
    ),
    Network(
        "ResNeXt-50 (torchvision)",
        "ResNeXt, squeeze and excite",
        vision("resnext50_32x4d"),
        (3, 64, 64),
        Layer("layer4"),
        not_run=WIDE,
    ),
    Network(
        "SE-ResNet-18 (timm)",
        "ResNeXt, squeeze and excite",
        timm("seresnet18"),
        (3, 64, 64),
        Layer("layer4"),
        refuses=GATED,
        not_run=WIDE,
    ),
    Network(
        "SK-ResNet-18 (timm)",
        "ResNeXt, squeeze and excite",
        timm("skresnet18"),
        (3, 64, 64),
        Layer("layer4"),
        refuses=GATED,
        not_run=WIDE,
    ),
    Network(
        "ResNeSt-14d (timm)",
        "ResNeXt, squeeze and excite",
        timm("resnest14d"),
        (3, 64, 64),
        Layer("layer4"),
        refuses=GATED,
        not_run=WIDE,
    ),
    Network(
        "RegNetX-400MF (torchvision)",
        "ResNeXt, squeeze and excite",
        vision("regnet_x_400mf"),
        (3, 64, 64),
        Layer("trunk_output"),
        not_run=WIDE,
    ),
    Network(
        "RegNetY-400MF (torchvision)",
        "ResNeXt, squeeze and excite",
        vision("regnet_y_400mf"),
        (3, 64, 64),
        Layer("trunk_output"),
        refuses=GATED,
        not_run=WIDE,
    ),
]

DENSE = [
    Network("dense block", "DenseNet", own.dense, layer=Layer("features"), quick=True),
    Network(
        "DenseNet (torchvision)", "DenseNet", densenet(), (3, 64, 64), Layer("features", then=F.relu, head=dense_head)
    ),
    Network(
        "DenseNet, checkpointed (torchvision)",
        "DenseNet",
        densenet(memory_efficient=True),
        (3, 64, 64),
        Layer("features", then=F.relu, head=dense_head),
        densenet(),
    ),
    Network("DenseNet-121 (timm)", "DenseNet", timm("densenet121"), (3, 64, 64), Layer("features"), not_run=WIDE),
    Network(
        "VoVNet-19 (timm)",
        "DenseNet",
        timm("ese_vovnet19b_dw"),
        (3, 64, 64),
        Layer("stages"),
        refuses=GATED,
        not_run=WIDE,
    ),
]

INCEPTION = [
    Network("inception block", "Inception", own.inception, layer=Layer("features"), quick=True),
    Network(
        "GoogLeNet (torchvision)",
        "Inception",
        vision("googlenet", aux_logits=False, init_weights=False),
        (3, 96, 96),
        Layer("inception5b"),
        not_run=WIDE,
    ),
    Network(
        "Inception-v3 (torchvision)",
        "Inception",
        vision("inception_v3", aux_logits=False, init_weights=False),
        (3, 107, 107),
        Layer("Mixed_7c"),
        not_run=WIDE,
    ),
    Network("Inception-v4 (timm)", "Inception", timm("inception_v4"), (3, 107, 107), Layer("features"), not_run=WIDE),
    Network("Xception-41 (timm)", "Inception", timm("xception41"), (3, 64, 64), Layer("act"), not_run=WIDE),
]

MOBILE = [
    Network("grouped CNN, ReLU6", "mobile", own.grouped, layer=Layer("features"), quick=True),
    Network(
        "MobileNetV2 (torchvision)",
        "mobile",
        vision("mobilenet_v2", width_mult=0.35),
        (3, 64, 64),
        Layer("features"),
        not_run=WIDE,
    ),
    Network(
        "MobileNetV3 small (torchvision)",
        "mobile",
        vision("mobilenet_v3_small"),
        (3, 64, 64),
        Layer("features"),
        refuses=GATED,
        not_run=WIDE,
    ),
    Network(
        "MobileNetV4 small (timm)",
        "mobile",
        timm("mobilenetv4_conv_small_050"),
        (3, 64, 64),
        Layer("blocks"),
        not_run=WIDE,
    ),
    Network(
        "EfficientNet-B0 (torchvision)",
        "mobile",
        vision("efficientnet_b0"),
        (3, 64, 64),
        Layer("features"),
        refuses=GATED | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network("EfficientNet-Lite0 (timm)", "mobile", timm("efficientnet_lite0"), (3, 64, 64), Layer("bn2"), not_run=WIDE),
    Network(
        "ShuffleNetV2 (torchvision)", "mobile", vision("shufflenet_v2_x0_5"), (3, 64, 64), Layer("conv5"), not_run=WIDE
    ),
    Network("MNASNet (torchvision)", "mobile", vision("mnasnet0_5"), (3, 64, 64), Layer("layers"), not_run=WIDE),
    Network(
        "GhostNet (timm)", "mobile", timm("ghostnet_050"), (3, 64, 64), Layer("blocks"), refuses=GATED, not_run=WIDE
    ),
]

MODERN = [
    Network(
        "ConvNeXt blocks",
        "modern convolutions",
        own.modern,
        layer=Layer("features"),
        refuses=LAYER_NORM | NO_RECTIFIER,
        quick=True,
    ),
    Network(
        "ConvNeXt atto (timm)",
        "modern convolutions",
        timm("convnext_atto", depths=(1, 1, 2, 1)),
        (3, 64, 64),
        Layer("stages"),
        refuses=LAYER_NORM | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "ConvNeXt tiny (torchvision)",
        "modern convolutions",
        vision("convnext_tiny"),
        (3, 64, 64),
        Layer("features"),
        refuses=LAYER_NORM | NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network("RepVGG-A0 (timm)", "modern convolutions", timm("repvgg_a0"), (3, 64, 64), Layer("stages"), not_run=WIDE),
    Network(
        "MobileOne-S0 (timm)", "modern convolutions", timm("mobileone_s0"), (3, 64, 64), Layer("stages"), not_run=WIDE
    ),
    Network(
        "CSPDarkNet-53 (timm)",
        "modern convolutions",
        timm("cspdarknet53"),
        (3, 64, 64),
        Layer("stages"),
        refuses=NO_RECTIFIER,
        not_run=WIDE,
    ),
    Network(
        "NF-RegNet-B0 (timm)",
        "modern convolutions",
        timm("nf_regnet_b0"),
        (3, 64, 64),
        Layer("final_act"),
        refuses=GATED,
        not_run=WIDE,
    ),
    Network(
        "PoolFormer (timm)",
        "modern convolutions",
        timm("poolformer_s12"),
        (3, 64, 64),
        Layer("stages"),
        refuses=LAYER_NORM | NO_RECTIFIER,
        not_run=WIDE,
    ),
]
