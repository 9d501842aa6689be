"""What torch functions do to differences of their arguments: the kinds that DeepLIFT tells apart, by plain names."""

from __future__ import annotations

SILENT = {
    "__get__", "__set__", "__len__", "len", "size", "dim", "ndimension", "numel", "nelement", "stride",
    "storage_offset", "element_size", "data_ptr", "untyped_storage", "is_contiguous", "is_floating_point", "is_complex",
    "is_same_size", "is_signed", "get_device", "detach", "item", "tolist", "numpy", "requires_grad", "retain_grad",
    "register_hook", "backward", "__repr__", "__format__", "repr", "format", "hash", "type", "is_nonzero", "bool",
    "int", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor", "zeros_like", "ones_like", "empty_like",
    "full_like", "rand_like", "randn_like", "is_shared", "is_tensor", "is_storage", "result_type", "is_inference",
    "_is_view", "dim_order", "__contains__", "contains", "__dlpack__", "iter", "reversed", "dir", "_assert",
}  # fmt: skip
"""Nothing passes back through them; autograd knows about those that give a part of a tensor (`x.T`)."""

LINEAR = {
    "add", "sub", "rsub", "neg", "positive", "pos", "sum", "mean", "cumsum", "nansum", "trace", "diff",
    "reshape", "reshape_as", "view", "view_as", "_unsafe_view", "flatten", "unflatten", "ravel", "permute", "transpose",
    "movedim", "t", "adjoint", "expand", "expand_as", "broadcast_to", "broadcast_tensors", "repeat",
    "repeat_interleave", "tile", "cat", "stack", "hstack", "vstack", "dstack", "column_stack", "row_stack",
    "block_diag", "__getitem__", "__setitem__", "split", "split_with_sizes", "chunk", "tensor_split", "hsplit",
    "vsplit", "dsplit", "unbind", "unsqueeze", "squeeze", "atleast_1d", "atleast_2d", "atleast_3d", "contiguous",
    "clone", "pad", "roll", "flip", "fliplr", "flipud", "rot90", "narrow", "select", "index_select", "take",
    "take_along_dim", "unfold", "fold", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle", "native_channel_shuffle",
    "tril", "triu", "diag", "diagonal", "diag_embed", "as_strided", "to", "type_as", "float", "double", "half",
    "bfloat16", "cpu", "cuda", "requires_grad", "alias", "real", "imag", "conj", "view_as_real", "view_as_complex",
    "complex", "copy", "zero", "fill", "masked_fill", "masked_select", "masked_scatter", "index_add", "index_copy",
    "index_fill", "index_put", "scatter", "scatter_add", "select_scatter", "slice_scatter", "where",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d",
    "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "interpolate", "upsample", "upsample_nearest", "upsample_bilinear", "affine_grid", "batch_norm",
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "feature_dropout",
    "fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "fft_fft2", "fft_ifft2", "fft_rfft2", "fft_irfft2", "fft_fftn",
    "fft_ifftn", "fft_rfftn", "fft_irfftn", "fft_fftshift", "fft_ifftshift", "stft", "istft",
}  # fmt: skip
"""Linear in all arguments that depend on the inputs, as long as the others are the same for inputs and baselines."""

PRODUCTS = {
    "mul", "div", "matmul", "rmatmul", "mm", "bmm", "mv", "dot", "vdot", "inner", "outer", "ger", "einsum", "tensordot",
    "kron", "cross", "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "conv_tbc", "convolution", "addmm", "addbmm", "baddbmm", "addmv", "addr", "addcmul", "lerp",
}  # fmt: skip
"""Linear in each of their factors: with one that depends on the inputs they are linear."""

PICKS = {"gather": 1, "sort": 1, "topk": 2}
"""They pick values along an axis, which may stand at other places for inputs than for baselines; the axis is the
argument with this number."""

QUADRATIC = {"var", "var_mean"}

EXACT = {
    "relu", "relu6", "leaky_relu", "prelu", "rrelu", "hardtanh", "clamp", "clamp_min", "clamp_max", "threshold", "abs",
    "hardshrink", "softshrink", "sign", "round", "floor", "ceil", "trunc", "fix", "masked_fill",
}  # fmt: skip
"""Elementwise and piecewise linear: their differences lose no digits, however small they are."""

SMOOTH = {
    "gelu", "silu", "mish", "tanh", "sigmoid", "expit", "special_expit", "logsigmoid", "log_sigmoid", "tanhshrink",
    "exp", "expm1", "sin", "cos", "erf", "erfc", "atan", "arctan", "sinh", "cosh", "asinh", "arcsinh",
}  # fmt: skip
"""Elementwise, and bent on a scale of about one: over much less than that their derivative hardly changes."""

POWERS = {"log", "log2", "log10", "sqrt", "rsqrt", "square", "pow", "reciprocal", "rdiv", "rtruediv", "float_power"}
"""Elementwise, and bent on the scale of their argument."""

ELEMENTWISE = EXACT | SMOOTH | POWERS | {
    "elu", "selu", "celu", "hardswish", "hardsigmoid", "softplus", "softsign", "logit", "exp2", "log1p",
    "special_log1p", "rpow", "tan", "asin", "acos", "arcsin", "arccos", "acosh", "atanh", "arccosh", "arctanh", "sinc",
    "erfinv", "lgamma", "digamma", "frac", "nan_to_num", "deg2rad", "rad2deg", "i0", "floor_divide", "remainder",
    "fmod", "maximum", "minimum", "fmax", "fmin", "atan2", "arctan2", "hypot", "logaddexp", "logaddexp2", "copysign",
    "xlogy", "special_xlogy", "addcdiv",
}  # fmt: skip
"""Each value of the output depends on one value of each argument."""

MIXED_BY_CONSTANTS = {"add", "sub", "rsub", "mul", "div", "masked_fill", "where"}
"""Linear functions that are elementwise too: what a constant that differs has changed can be told from its place."""

MAX_POOLS = {
    f"{kind}max_pool{n}d{more}": n for kind in ("", "adaptive_") for n in (1, 2, 3) for more in ("", "_with_indices")
}
"""With the number of dimensions that they pool."""
