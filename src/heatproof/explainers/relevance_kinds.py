"""Torch functions by what they do to relevance, under their plain names (see `watching.plain_name`)."""

from __future__ import annotations

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d"}
TRANSPOSED = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
LAYERS = {"linear"} | CONVOLUTIONS | TRANSPOSED

PRODUCTS = {"matmul", "rmatmul", "mm", "bmm", "mv", "dot", "inner", "tensordot", "einsum"}
"""With a constant, they are linear maps."""
SHIFTED_PRODUCTS = {"addmm": "mm", "baddbmm": "bmm", "addmv": "mv"}
"""A product of the second and third argument, added to the first: with a constant, a linear map with its bias."""

NORMS = {"batch_norm", "instance_norm", "group_norm"}

DROPOUTS = {
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
}  # fmt: skip
ACTIVATIONS = DROPOUTS | {
    "relu", "relu6", "hardtanh", "leaky_relu", "prelu", "rrelu", "elu", "selu", "celu", "gelu", "silu", "mish",
    "hardswish", "softplus", "tanh", "sigmoid", "hardsigmoid", "log_sigmoid", "logsigmoid", "softsign", "threshold",
    "clamp", "clamp_min", "clamp_max", "abs", "hardshrink", "softshrink", "tanhshrink",
}  # fmt: skip
"""They pass relevance on as it is."""

RAISED = {"sigmoid", "hardsigmoid", "softplus", "log_sigmoid", "logsigmoid", "threshold", "clamp", "clamp_min"}
"""Those that may not be zero at zero."""

SCALINGS = {"mul", "div", "neg"}
"""Without a second thing that depends on the inputs, they pass relevance on as it is."""
ADDITIONS = {"add", "sub", "rsub", "addcmul"}
"""They share it among what is added."""
AVERAGES = {
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "interpolate", "upsample", "sum", "mean", "cumsum", "fold",
}  # fmt: skip
"""Linear functions of one tensor that share it in proportion to what each value gives."""

MAX_POOLS = {
    f"{kind}max_pool{axes}d{result}" for kind in ("", "adaptive_", "fractional_") for axes in (1, 2, 3)
    for result in ("", "_with_indices")
}  # fmt: skip
SHAPES = {
    "reshape", "reshape_as", "view", "view_as", "flatten", "ravel", "unflatten", "unsqueeze", "squeeze", "permute",
    "transpose", "t", "mT", "movedim", "adjoint", "contiguous", "clone", "expand", "expand_as", "broadcast_to",
    "broadcast_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "__get__", "as_strided", "unfold",
}  # fmt: skip
PICKED = {
    "__getitem__", "split", "split_with_sizes", "tensor_split", "hsplit", "vsplit", "dsplit", "chunk", "unbind",
    "narrow", "select", "index_select", "gather", "take_along_dim", "take", "masked_select", "diagonal", "tril", "triu",
    "max", "min", "amax", "amin", "maximum", "minimum", "fmax", "fmin", "sort", "topk", "where", "max_unpool1d",
    "max_unpool2d", "max_unpool3d",
}  # fmt: skip
MOVED_ALONE = SHAPES - {"broadcast_tensors", "atleast_1d", "atleast_2d", "atleast_3d"} | {
    "chunk", "narrow", "select", "split", "split_with_sizes", "unbind",
}  # fmt: skip
"""Those that move the values of their first argument and of nothing else."""
ASKED = {"dim", "element_size", "is_contiguous", "is_floating_point", "ndimension", "numel", "size", "stride"}
"""What is asked of a tensor beside its values."""
PUT_TOGETHER = {
    "cat", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack", "repeat", "repeat_interleave", "tile",
    "pad", "roll", "flip", "fliplr", "flipud", "rot90", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "native_channel_shuffle",
}  # fmt: skip
WRITTEN = {
    "__setitem__", "copy", "fill", "zero", "masked_fill", "masked_scatter", "index_fill", "index_copy", "scatter",
    "select_scatter", "slice_scatter",
}  # fmt: skip
CONVERTED = {
    "to", "type", "type_as", "float", "double", "half", "bfloat16", "cpu", "cuda", "detach", "requires_grad",
    "retain_grad",
}  # fmt: skip
MOVEMENTS = MAX_POOLS | SHAPES | PICKED | PUT_TOGETHER | WRITTEN | CONVERTED
"""Autograd's own backward is right for these; what is picked for its size takes all of its relevance."""

MOVING_NODES = {
    "AccumulateGrad", "AdaptiveMaxPool2D", "AdaptiveMaxPool3D", "Alias", "Amax", "Amin", "AsStrided",
    "BackwardHookFunction", "Cat", "ChannelShuffle", "Clone", "ConstantPadNd", "CopyBackwards", "CopySlices",
    "Diagonal", "Expand", "Fill", "Flip", "Fmax", "Fmin", "FractionalMaxPool2D", "FractionalMaxPool3D", "Gather", "Im",
    "Im2Col", "Index", "IndexCopy", "IndexFill", "IndexPut", "IndexSelect", "LiftFresh", "MaskedFill", "MaskedScatter",
    "MaskedSelect", "Max", "MaxPool2D", "MaxPool2DWithIndices", "MaxPool3DWithIndices", "MaxUnpool2D", "MaxUnpool3D",
    "Maximum", "Min", "Minimum", "MkldnnMaxPool2D", "MkldnnMaxPool3D", "NativeChannelShuffle", "Permute",
    "PixelShuffle", "PixelUnshuffle", "ReflectionPad1D", "ReflectionPad2D", "ReflectionPad3D", "Repeat",
    "ReplicationPad1D", "ReplicationPad2D", "ReplicationPad3D", "ReshapeAlias", "Roll", "Rot90", "Scatter", "Select",
    "SelectScatter", "Slice", "SliceScatter", "Sort", "Split", "SplitWithSizes", "Squeeze", "Stack", "T", "Take",
    "ToCopy", "Topk", "Transpose", "Tril", "Triu", "Unbind", "Unfold", "UnsafeSplit", "UnsafeView", "Unsqueeze",
    "View", "Where", "Zero", "Zeros",
}  # fmt: skip
"""The nodes of autograd's graph that these functions leave, as `autograd_graph.function_name` calls them."""
COPIES = {"Alias", "BackwardHookFunction", "Clone", "ToCopy"}
"""Those of them that hand a tensor on as it is."""
RESHAPED = {"ReshapeAlias", "UnsafeView", "View"}
"""Those that do so if the shape stays the same."""
