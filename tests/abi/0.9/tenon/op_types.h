/* Printed by opgen from ops.def: change that file, not this one. */
#ifndef TENON_OP_TYPES_H
#define TENON_OP_TYPES_H

#include <math.h>

#include "tenon/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The operators' numbers: ABI, appended only. */
typedef enum tn_op {
  TN_OP_COPY = 1,
  TN_OP_CAST = 2,
  TN_OP_FILL = 3,
  TN_OP_ADD = 10,
  TN_OP_SUB = 11,
  TN_OP_MUL = 12,
  TN_OP_DIV = 13,
  TN_OP_MAXIMUM = 14,
  TN_OP_MINIMUM = 15,
  TN_OP_EQUAL = 20,
  TN_OP_NOT_EQUAL = 21,
  TN_OP_LESS = 22,
  TN_OP_LESS_EQUAL = 23,
  TN_OP_GREATER = 24,
  TN_OP_GREATER_EQUAL = 25,
  TN_OP_NEG = 30,
  TN_OP_EXP = 31,
  TN_OP_LOG = 32,
  TN_OP_SQRT = 33,
  TN_OP_RELU = 34,
  TN_OP_SIGMOID = 35,
  TN_OP_TANH = 36,
  TN_OP_GELU = 37,
  TN_OP_RELU_GRAD = 40,
  TN_OP_SIGMOID_GRAD = 41,
  TN_OP_TANH_GRAD = 42,
  TN_OP_GELU_GRAD = 43,
  TN_OP_SUM = 50,
  TN_OP_MEAN = 51,
  TN_OP_MAX = 52,
  TN_OP_ARGMAX = 53,
  TN_OP_MATMUL = 60,
  TN_OP_CONV2D = 61,
  TN_OP_CONV2D_GRAD_INPUT = 62,
  TN_OP_CONV2D_GRAD_WEIGHT = 63,
  TN_OP_MAX_POOL2D = 70,
  TN_OP_MAX_POOL2D_GRAD = 71,
  TN_OP_AVG_POOL2D = 72,
  TN_OP_AVG_POOL2D_GRAD = 73,
  TN_OP_SOFTMAX = 80,
  TN_OP_LOG_SOFTMAX = 81,
  TN_OP_SOFTMAX_GRAD = 82,
  TN_OP_LOG_SOFTMAX_GRAD = 83,
  TN_OP_NLL_LOSS = 84,
  TN_OP_NLL_LOSS_GRAD = 85,
  TN_OP_CROSS_ENTROPY = 86,
  TN_OP_CROSS_ENTROPY_GRAD = 87,
  TN_OP_DROPOUT = 90,
  TN_OP_DROPOUT_GRAD = 91,
  TN_OP_UNIFORM = 92,
  TN_OP_NORMAL = 93,
  TN_OP_SGD_STEP = 100,
  TN_OP_ADAM_STEP = 101,
  TN_OP_ABS = 128,
  TN_OP_SIGN = 129,
  TN_OP_RECIPROCAL = 130,
  TN_OP_SQUARE = 131,
  TN_OP_RSQRT = 132,
  TN_OP_CBRT = 133,
  TN_OP_EXP2 = 134,
  TN_OP_EXPM1 = 135,
  TN_OP_LOG2 = 136,
  TN_OP_LOG10 = 137,
  TN_OP_LOG1P = 138,
  TN_OP_SIN = 139,
  TN_OP_COS = 140,
  TN_OP_TAN = 141,
  TN_OP_ASIN = 142,
  TN_OP_ACOS = 143,
  TN_OP_ATAN = 144,
  TN_OP_SINH = 145,
  TN_OP_COSH = 146,
  TN_OP_ASINH = 147,
  TN_OP_ACOSH = 148,
  TN_OP_ATANH = 149,
  TN_OP_ERF = 150,
  TN_OP_ERFC = 151,
  TN_OP_SOFTPLUS = 152,
  TN_OP_LEAKY_RELU = 153,
  TN_OP_ELU = 154,
  TN_OP_SELU = 155,
  TN_OP_SILU = 156,
  TN_OP_MISH = 157,
  TN_OP_HARDSWISH = 158,
  TN_OP_HARDSIGMOID = 159,
  TN_OP_FLOOR = 160,
  TN_OP_CEIL = 161,
  TN_OP_ROUND = 162,
  TN_OP_TRUNC = 163,
  TN_OP_ISNAN = 164,
  TN_OP_ISINF = 165,
  TN_OP_ISFINITE = 166,
  TN_OP_LOGICAL_NOT = 167,
  TN_OP_BITWISE_NOT = 168,
  TN_OP_FLOOR_DIV = 192,
  TN_OP_MOD = 193,
  TN_OP_FMOD = 194,
  TN_OP_POW = 195,
  TN_OP_ATAN2 = 196,
  TN_OP_HYPOT = 197,
  TN_OP_LOGICAL_AND = 198,
  TN_OP_LOGICAL_OR = 199,
  TN_OP_LOGICAL_XOR = 200,
  TN_OP_BITWISE_AND = 201,
  TN_OP_BITWISE_OR = 202,
  TN_OP_BITWISE_XOR = 203,
  TN_OP_LEFT_SHIFT = 204,
  TN_OP_RIGHT_SHIFT = 205,
  TN_OP_WHERE = 206,
  TN_OP_CLAMP = 207,
  TN_OP_CLAMP_GRAD = 208,
  TN_OP_LERP = 209,
  TN_OP_FMA = 210,
  TN_OP_SILU_GRAD = 224,
  TN_OP_MISH_GRAD = 225,
  TN_OP_SOFTPLUS_GRAD = 226,
  TN_OP_LEAKY_RELU_GRAD = 227,
  TN_OP_ELU_GRAD = 228,
  TN_OP_SELU_GRAD = 229,
  TN_OP_HARDSWISH_GRAD = 230,
  TN_OP_HARDSIGMOID_GRAD = 231,
  TN_OP_PROD = 240,
  TN_OP_MIN = 241,
  TN_OP_ANY = 242,
  TN_OP_ALL = 243,
  TN_OP_ARGMIN = 244,
  TN_OP_VAR = 245,
  TN_OP_STD = 246,
  TN_OP_LOGSUMEXP = 247,
  TN_OP_NORM = 248,
  TN_OP_CUMSUM = 249,
  TN_OP_CUMPROD = 250,
  TN_OP_CUMMAX = 251,
  TN_OP_PAD = 264,
  TN_OP_PAD_GRAD = 265,
  TN_OP_TILE = 266,
  TN_OP_REPEAT = 267,
  TN_OP_FLIP = 268,
  TN_OP_ROLL = 269,
  TN_OP_INDEX_SELECT = 270,
  TN_OP_INDEX_ADD = 271,
  TN_OP_GATHER = 272,
  TN_OP_TAKE_ALONG_AXIS = 273,
  TN_OP_SCATTER = 274,
  TN_OP_SCATTER_ADD = 275,
  TN_OP_SCATTER_MAX = 276,
  TN_OP_ONE_HOT = 277,
  TN_OP_NONZERO = 279,
  TN_OP_ARANGE = 280,
  TN_OP_LINSPACE = 281,
  TN_OP_EYE = 282,
  TN_OP_TRIL = 283,
  TN_OP_TRIU = 284,
  TN_OP_CONCAT = 288,
  TN_OP_STACK = 289,
  TN_OP_SORT = 304,
  TN_OP_ARGSORT = 305,
  TN_OP_TOPK = 306,
  TN_OP_UNIQUE = 307,
  TN_OP_DOT = 320,
  TN_OP_OUTER = 321,
  TN_OP_CONV1D = 328,
  TN_OP_CONV1D_GRAD_INPUT = 329,
  TN_OP_CONV1D_GRAD_WEIGHT = 330,
  TN_OP_CONV3D = 331,
  TN_OP_CONV3D_GRAD_INPUT = 332,
  TN_OP_CONV3D_GRAD_WEIGHT = 333,
  TN_OP_CONV_TRANSPOSE1D = 334,
  TN_OP_CONV_TRANSPOSE1D_GRAD_INPUT = 335,
  TN_OP_CONV_TRANSPOSE1D_GRAD_WEIGHT = 336,
  TN_OP_CONV_TRANSPOSE2D = 337,
  TN_OP_CONV_TRANSPOSE2D_GRAD_INPUT = 338,
  TN_OP_CONV_TRANSPOSE2D_GRAD_WEIGHT = 339,
  TN_OP_CONV_TRANSPOSE3D = 340,
  TN_OP_CONV_TRANSPOSE3D_GRAD_INPUT = 341,
  TN_OP_CONV_TRANSPOSE3D_GRAD_WEIGHT = 342,
  TN_OP_MAX_POOL1D = 352,
  TN_OP_MAX_POOL1D_GRAD = 353,
  TN_OP_AVG_POOL1D = 354,
  TN_OP_AVG_POOL1D_GRAD = 355,
  TN_OP_MAX_POOL3D = 356,
  TN_OP_MAX_POOL3D_GRAD = 357,
  TN_OP_AVG_POOL3D = 358,
  TN_OP_AVG_POOL3D_GRAD = 359,
  TN_OP_ADAPTIVE_MAX_POOL1D = 360,
  TN_OP_ADAPTIVE_MAX_POOL1D_GRAD = 361,
  TN_OP_ADAPTIVE_AVG_POOL1D = 362,
  TN_OP_ADAPTIVE_AVG_POOL1D_GRAD = 363,
  TN_OP_ADAPTIVE_MAX_POOL2D = 364,
  TN_OP_ADAPTIVE_MAX_POOL2D_GRAD = 365,
  TN_OP_ADAPTIVE_AVG_POOL2D = 366,
  TN_OP_ADAPTIVE_AVG_POOL2D_GRAD = 367,
  TN_OP_ADAPTIVE_MAX_POOL3D = 368,
  TN_OP_ADAPTIVE_MAX_POOL3D_GRAD = 369,
  TN_OP_ADAPTIVE_AVG_POOL3D = 370,
  TN_OP_ADAPTIVE_AVG_POOL3D_GRAD = 371,
  TN_OP_RESIZE = 372,
  TN_OP_RESIZE_GRAD = 373,
  TN_OP_BATCH_NORM = 384,
  TN_OP_BATCH_NORM_INFERENCE = 385,
  TN_OP_BATCH_NORM_GRAD = 386,
  TN_OP_LAYER_NORM = 387,
  TN_OP_LAYER_NORM_GRAD = 388,
  TN_OP_GROUP_NORM = 389,
  TN_OP_GROUP_NORM_GRAD = 390,
  TN_OP_INSTANCE_NORM = 391,
  TN_OP_INSTANCE_NORM_GRAD = 392,
  TN_OP_RMS_NORM = 393,
  TN_OP_RMS_NORM_GRAD = 394,
  TN_OP_MSE_LOSS = 400,
  TN_OP_MSE_LOSS_GRAD = 401,
  TN_OP_BCE_WITH_LOGITS = 402,
  TN_OP_BCE_WITH_LOGITS_GRAD = 403,
  TN_OP_HUBER_LOSS = 404,
  TN_OP_HUBER_LOSS_GRAD = 405,
  TN_OP_KL_DIV = 406,
  TN_OP_KL_DIV_GRAD = 407,
  TN_OP_EMBEDDING = 420,
  TN_OP_EMBEDDING_GRAD = 421,
  TN_OP_ROPE = 422,
  TN_OP_SCALED_DOT_PRODUCT_ATTENTION = 423,
  TN_OP_SCALED_DOT_PRODUCT_ATTENTION_GRAD = 424,
  TN_OP_MULTI_SGD = 432,
  TN_OP_MULTI_ADAM = 433,
  TN_OP_MULTI_ADAMW = 434,
  TN_OP_MULTI_RMSPROP = 435,
  TN_OP_MULTI_ADAGRAD = 436,
  TN_OP_CLIP_GRAD_NORM = 437,
  TN_OP_UNSCALE_GRADS = 438,
  TN_OP_UPDATE_LOSS_SCALE = 439,
  TN_OP_BERNOULLI = 448,
  TN_OP_RANDINT = 449,
  TN_OP_TRUNCATED_NORMAL = 450,
  TN_OP_MULTINOMIAL = 451,
  TN_OP_RANDPERM = 452,
} tn_op;

/* How output shapes follow from inputs and attributes. */
typedef enum tn_shape_rule {
  TN_SHAPE_CUSTOM = 0, /* the row's own infer function says */
  TN_SHAPE_GIVEN = 1, /* no input tells: the caller gives the output */
  TN_SHAPE_SAME = 2, /* every output has the first input's shape */
  TN_SHAPE_BROADCAST = 3, /* the inputs' shapes broadcast together (NumPy's rule) */
  TN_SHAPE_REDUCE = 4, /* attributes axes, keepdims */
  TN_SHAPE_ARG_REDUCE = 5, /* attributes axis, keepdims */
  TN_SHAPE_MATMUL = 6, /* [..., m, k] by [..., k, n] */
  TN_SHAPE_CONV2D = 7, /* windows over [n, c, h, w] */
  TN_SHAPE_CONV2D_GRAD_INPUT = 8, /* the forward input's */
  TN_SHAPE_CONV2D_GRAD_WEIGHT = 9, /* the forward weight's */
  TN_SHAPE_POOL2D = 10, /* windows over [n, c, h, w] */
  TN_SHAPE_POOL2D_GRAD = 11, /* the forward input's */
  TN_SHAPE_SOFTMAX = 12, /* the input's; attribute axis is one of its axes */
  TN_SHAPE_CLASS_LOSS = 13, /* [n, c, ...] and [n, ...] to scalar or [n, ...] */
  TN_SHAPE_CLASS_LOSS_GRAD = 14, /* [n, c, ...] */
  TN_SHAPE_UPDATE = 15, /* every argument has the first one's shape */
  TN_SHAPE_NORM = 20, /* as reduce; attribute ord is 1, 2 or infinite */
  TN_SHAPE_SCAN = 21, /* the input's; attribute axis is one of its axes */
  TN_SHAPE_BATCH_NORM = 80, /* [n, c, ...], weights and statistics [c] */
  TN_SHAPE_BATCH_NORM_INFERENCE = 81, /* the input's; all else is [c] */
  TN_SHAPE_BATCH_NORM_GRAD = 82, /* the forward input's and weights' */
  TN_SHAPE_LAYER_NORM = 83, /* the input's; statistics have it up to attribute axis */
  TN_SHAPE_LAYER_NORM_GRAD = 84, /* the forward input's and weights' */
  TN_SHAPE_GROUP_NORM = 85, /* the input's; statistics are [n, groups] */
  TN_SHAPE_GROUP_NORM_GRAD = 86, /* the forward input's and weights' */
  TN_SHAPE_PAIR_LOSS = 87, /* two of one shape to scalar or that shape */
  TN_SHAPE_PAIR_LOSS_GRAD = 88, /* the forward input's */
  TN_SHAPE_DOT = 100, /* [..., k] by [..., k] */
  TN_SHAPE_OUTER = 101, /* [..., m] by [..., n] */
  TN_SHAPE_EMBEDDING = 102, /* [v, d] and [...] to [..., d] */
  TN_SHAPE_EMBEDDING_GRAD = 103, /* [..., d] and [...] to [rows, d] */
  TN_SHAPE_ROPE = 104, /* x's; tables [p, r / 2] */
  TN_SHAPE_ATTENTION = 105, /* [b, h, s, d] by [b, g, t, d] */
  TN_SHAPE_ATTENTION_GRAD = 106, /* those of q, k and v */
  TN_SHAPE_GIVEN_RANDOM = 107, /* no input tells: the caller gives the output */
  TN_SHAPE_MULTINOMIAL = 108, /* [..., n] to [..., samples] */
  TN_SHAPE_CREATE = 30, /* no input tells: the caller gives the output */
  TN_SHAPE_PAD = 31, /* attributes before, after */
  TN_SHAPE_PAD_GRAD = 32, /* the forward input's */
  TN_SHAPE_TILE = 33, /* attribute reps */
  TN_SHAPE_REPEAT = 34, /* attributes repeats, axis */
  TN_SHAPE_FLIP = 35, /* the input's; attribute axes */
  TN_SHAPE_ROLL = 36, /* the input's; attributes shifts, axes */
  TN_SHAPE_GATHER = 37, /* the data's, the index's in place of attribute axis */
  TN_SHAPE_TAKE_ALONG_AXIS = 38, /* the index's */
  TN_SHAPE_SCATTER = 39, /* updated in place: as large as the update or larger */
  TN_SHAPE_INDEX_ADD = 40, /* updated in place: the update's but for attribute axis */
  TN_SHAPE_ONE_HOT = 41, /* the index's and attribute classes */
  TN_SHAPE_SORT = 140, /* the input's; attribute axis is one of its axes */
  TN_SHAPE_TOPK = 141, /* the input's with k along axis */
  TN_SHAPE_UNIQUE = 142, /* at most [n] of n elements, and a count */
  TN_SHAPE_NONZERO = 42, /* as many rows as the input has elements, at most */
  TN_SHAPE_CONCAT = 120, /* the first input's, along attribute axis the sum of all */
  TN_SHAPE_STACK = 121, /* the inputs' with one more axis at attribute axis */
  TN_SHAPE_UPDATE_LISTS = 122, /* tensor k of every list has one shape */
  TN_SHAPE_SCALARS = 123, /* lists of any shapes; all else is scalars */
  TN_SHAPE_CONV = 50, /* windows over [n, c, size...], one to three sizes */
  TN_SHAPE_CONV_GRAD_INPUT = 51, /* the forward input's */
  TN_SHAPE_CONV_GRAD_WEIGHT = 52, /* the forward weight's */
  TN_SHAPE_CONV_TRANSPOSE = 53, /* what a convolution to x reads */
  TN_SHAPE_CONV_TRANSPOSE_GRAD_INPUT = 54, /* the forward input's */
  TN_SHAPE_CONV_TRANSPOSE_GRAD_WEIGHT = 55, /* the forward weight's */
  TN_SHAPE_POOL = 56, /* windows over [n, c, size...], one to three sizes */
  TN_SHAPE_POOL_GRAD = 57, /* the forward input's */
  TN_SHAPE_ADAPTIVE_POOL = 58, /* [n, c, output...] */
  TN_SHAPE_ADAPTIVE_POOL_GRAD = 59, /* the forward input's */
  TN_SHAPE_RESIZE = 60, /* [n, c, output] */
  TN_SHAPE_RESIZE_GRAD = 61, /* the forward input's */
  TN_SHAPE_TRIANGLE = 43, /* the input's, rank at least 2 */
  TN_SHAPE_RULES = 143
} tn_shape_rule;

/* Attribute structs. Start from the operator's TN_<NAME>_DEFAULTS and change fields:
 *     tn_softmax_attrs attrs = TN_SOFTMAX_DEFAULTS;
 *     attrs.axis = 1;
 * A NULL pointer in place of the struct means the defaults. */

/* Attributes of tn_cast. */
typedef struct tn_cast_attrs {
  uint32_t struct_size; /* sizeof(tn_cast_attrs) */
  int32_t dtype; /* element type of y */
} tn_cast_attrs;
#define TN_CAST_DEFAULTS {sizeof(tn_cast_attrs), TN_F32}

/* Attributes of tn_fill. */
typedef struct tn_fill_attrs {
  uint32_t struct_size; /* sizeof(tn_fill_attrs) */
  double value; /* the value, converted as tn_cast converts from float64 */
} tn_fill_attrs;
#define TN_FILL_DEFAULTS {sizeof(tn_fill_attrs), 0}

/* Attributes of tn_gelu. */
typedef struct tn_gelu_attrs {
  uint32_t struct_size; /* sizeof(tn_gelu_attrs) */
  int32_t tanh; /* 1 uses the tanh approximation */
} tn_gelu_attrs;
#define TN_GELU_DEFAULTS {sizeof(tn_gelu_attrs), 0}

/* Attributes of tn_gelu_grad. */
typedef struct tn_gelu_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_gelu_grad_attrs) */
  int32_t tanh; /* 1 uses the tanh approximation */
} tn_gelu_grad_attrs;
#define TN_GELU_GRAD_DEFAULTS {sizeof(tn_gelu_grad_attrs), 0}

/* Attributes of tn_sum. */
typedef struct tn_sum_attrs {
  uint32_t struct_size; /* sizeof(tn_sum_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_sum_attrs;
#define TN_SUM_DEFAULTS {sizeof(tn_sum_attrs), {0, {0}}, 0}

/* Attributes of tn_mean. */
typedef struct tn_mean_attrs {
  uint32_t struct_size; /* sizeof(tn_mean_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_mean_attrs;
#define TN_MEAN_DEFAULTS {sizeof(tn_mean_attrs), {0, {0}}, 0}

/* Attributes of tn_max. */
typedef struct tn_max_attrs {
  uint32_t struct_size; /* sizeof(tn_max_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_max_attrs;
#define TN_MAX_DEFAULTS {sizeof(tn_max_attrs), {0, {0}}, 0}

/* Attributes of tn_argmax. */
typedef struct tn_argmax_attrs {
  uint32_t struct_size; /* sizeof(tn_argmax_attrs) */
  int64_t axis; /* axis to search */
  int32_t keepdims; /* 1 keeps the axis with size 1 */
} tn_argmax_attrs;
#define TN_ARGMAX_DEFAULTS {sizeof(tn_argmax_attrs), -1, 0}

/* Attributes of tn_matmul. */
typedef struct tn_matmul_attrs {
  uint32_t struct_size; /* sizeof(tn_matmul_attrs) */
  int32_t trans_a; /* 1 uses a with its last two axes swapped */
  int32_t trans_b; /* 1 uses b with its last two axes swapped */
  int64_t activation; /* a tn_activation, applied to every element */
} tn_matmul_attrs;
#define TN_MATMUL_DEFAULTS {sizeof(tn_matmul_attrs), 0, 0, 0}

/* Attributes of tn_conv2d. */
typedef struct tn_conv2d_attrs {
  uint32_t struct_size; /* sizeof(tn_conv2d_attrs) */
  int64_t stride[2]; /* step of the window */
  int64_t padding[2]; /* zeros on either side */
  int64_t dilation[2]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
} tn_conv2d_attrs;
#define TN_CONV2D_DEFAULTS {sizeof(tn_conv2d_attrs), {1, 1}, {0, 0}, {1, 1}, 1}

/* Attributes of tn_conv2d_grad_input. */
typedef struct tn_conv2d_grad_input_attrs {
  uint32_t struct_size; /* sizeof(tn_conv2d_grad_input_attrs) */
  int64_t stride[2]; /* step of the window */
  int64_t padding[2]; /* zeros on either side */
  int64_t dilation[2]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t size[2]; /* h, w of the forward input */
} tn_conv2d_grad_input_attrs;
#define TN_CONV2D_GRAD_INPUT_DEFAULTS {sizeof(tn_conv2d_grad_input_attrs), {1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}

/* Attributes of tn_conv2d_grad_weight. */
typedef struct tn_conv2d_grad_weight_attrs {
  uint32_t struct_size; /* sizeof(tn_conv2d_grad_weight_attrs) */
  int64_t stride[2]; /* step of the window */
  int64_t padding[2]; /* zeros on either side */
  int64_t dilation[2]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t kernel[2]; /* kh, kw of the forward weight */
} tn_conv2d_grad_weight_attrs;
#define TN_CONV2D_GRAD_WEIGHT_DEFAULTS {sizeof(tn_conv2d_grad_weight_attrs), {1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}

/* Attributes of tn_max_pool2d. */
typedef struct tn_max_pool2d_attrs {
  uint32_t struct_size; /* sizeof(tn_max_pool2d_attrs) */
  int64_t kernel[2]; /* height and width of the window */
  int64_t stride[2]; /* step of the window; 0 means kernel */
  int64_t padding[2]; /* border on either side, at most kernel / 2 */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_max_pool2d_attrs;
#define TN_MAX_POOL2D_DEFAULTS {sizeof(tn_max_pool2d_attrs), {2, 2}, {0, 0}, {0, 0}, 0}

/* Attributes of tn_max_pool2d_grad. */
typedef struct tn_max_pool2d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_max_pool2d_grad_attrs) */
  int64_t kernel[2]; /* height and width of the window */
  int64_t stride[2]; /* step of the window; 0 means kernel */
  int64_t padding[2]; /* border on either side, at most kernel / 2 */
  int64_t size[2]; /* h, w of the forward input */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_max_pool2d_grad_attrs;
#define TN_MAX_POOL2D_GRAD_DEFAULTS {sizeof(tn_max_pool2d_grad_attrs), {2, 2}, {0, 0}, {0, 0}, {0, 0}, 0}

/* Attributes of tn_avg_pool2d. */
typedef struct tn_avg_pool2d_attrs {
  uint32_t struct_size; /* sizeof(tn_avg_pool2d_attrs) */
  int64_t kernel[2]; /* height and width of the window */
  int64_t stride[2]; /* step of the window; 0 means kernel */
  int64_t padding[2]; /* border on either side, at most kernel / 2 */
  int32_t count_padding; /* 1 divides by all of the window, 0 by the elements inside x */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_avg_pool2d_attrs;
#define TN_AVG_POOL2D_DEFAULTS {sizeof(tn_avg_pool2d_attrs), {2, 2}, {0, 0}, {0, 0}, 1, 0}

/* Attributes of tn_avg_pool2d_grad. */
typedef struct tn_avg_pool2d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_avg_pool2d_grad_attrs) */
  int64_t kernel[2]; /* height and width of the window */
  int64_t stride[2]; /* step of the window; 0 means kernel */
  int64_t padding[2]; /* border on either side, at most kernel / 2 */
  int32_t count_padding; /* 1 divides by all of the window, 0 by the elements inside x */
  int64_t size[2]; /* h, w of the forward input */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_avg_pool2d_grad_attrs;
#define TN_AVG_POOL2D_GRAD_DEFAULTS {sizeof(tn_avg_pool2d_grad_attrs), {2, 2}, {0, 0}, {0, 0}, 1, {0, 0}, 0}

/* Attributes of tn_softmax. */
typedef struct tn_softmax_attrs {
  uint32_t struct_size; /* sizeof(tn_softmax_attrs) */
  int64_t axis; /* axis along which y sums to 1 */
} tn_softmax_attrs;
#define TN_SOFTMAX_DEFAULTS {sizeof(tn_softmax_attrs), -1}

/* Attributes of tn_log_softmax. */
typedef struct tn_log_softmax_attrs {
  uint32_t struct_size; /* sizeof(tn_log_softmax_attrs) */
  int64_t axis; /* axis along which y sums to 1 */
} tn_log_softmax_attrs;
#define TN_LOG_SOFTMAX_DEFAULTS {sizeof(tn_log_softmax_attrs), -1}

/* Attributes of tn_softmax_grad. */
typedef struct tn_softmax_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_softmax_grad_attrs) */
  int64_t axis; /* axis along which y sums to 1 */
} tn_softmax_grad_attrs;
#define TN_SOFTMAX_GRAD_DEFAULTS {sizeof(tn_softmax_grad_attrs), -1}

/* Attributes of tn_log_softmax_grad. */
typedef struct tn_log_softmax_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_log_softmax_grad_attrs) */
  int64_t axis; /* axis along which y sums to 1 */
} tn_log_softmax_grad_attrs;
#define TN_LOG_SOFTMAX_GRAD_DEFAULTS {sizeof(tn_log_softmax_grad_attrs), -1}

/* Attributes of tn_nll_loss. */
typedef struct tn_nll_loss_attrs {
  uint32_t struct_size; /* sizeof(tn_nll_loss_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over targets */
  int64_t ignore_index; /* a target that does not count, also not in the mean; INT64_MIN: none */
} tn_nll_loss_attrs;
#define TN_NLL_LOSS_DEFAULTS {sizeof(tn_nll_loss_attrs), TN_REDUCTION_MEAN, INT64_MIN}

/* Attributes of tn_nll_loss_grad. */
typedef struct tn_nll_loss_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_nll_loss_grad_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over targets */
  int64_t ignore_index; /* a target that does not count, also not in the mean; INT64_MIN: none */
} tn_nll_loss_grad_attrs;
#define TN_NLL_LOSS_GRAD_DEFAULTS {sizeof(tn_nll_loss_grad_attrs), TN_REDUCTION_MEAN, INT64_MIN}

/* Attributes of tn_cross_entropy. */
typedef struct tn_cross_entropy_attrs {
  uint32_t struct_size; /* sizeof(tn_cross_entropy_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over targets */
  int64_t ignore_index; /* a target that does not count, also not in the mean; INT64_MIN: none */
  double label_smoothing; /* share of the target that all classes have alike */
} tn_cross_entropy_attrs;
#define TN_CROSS_ENTROPY_DEFAULTS {sizeof(tn_cross_entropy_attrs), TN_REDUCTION_MEAN, INT64_MIN, 0}

/* Attributes of tn_cross_entropy_grad. */
typedef struct tn_cross_entropy_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_cross_entropy_grad_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over targets */
  int64_t ignore_index; /* a target that does not count, also not in the mean; INT64_MIN: none */
  double label_smoothing; /* share of the target that all classes have alike */
} tn_cross_entropy_grad_attrs;
#define TN_CROSS_ENTROPY_GRAD_DEFAULTS {sizeof(tn_cross_entropy_grad_attrs), TN_REDUCTION_MEAN, INT64_MIN, 0}

/* Attributes of tn_dropout. */
typedef struct tn_dropout_attrs {
  uint32_t struct_size; /* sizeof(tn_dropout_attrs) */
  double p; /* probability of dropping an element */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (elements + 3) / 4, in float64 twice that */
} tn_dropout_attrs;
#define TN_DROPOUT_DEFAULTS {sizeof(tn_dropout_attrs), 0.5, 0, 0}

/* Attributes of tn_dropout_grad. */
typedef struct tn_dropout_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_dropout_grad_attrs) */
  double p; /* as in dropout */
} tn_dropout_grad_attrs;
#define TN_DROPOUT_GRAD_DEFAULTS {sizeof(tn_dropout_grad_attrs), 0.5}

/* Attributes of tn_uniform. */
typedef struct tn_uniform_attrs {
  uint32_t struct_size; /* sizeof(tn_uniform_attrs) */
  double low; /* least value */
  double high; /* bound of the values, low <= high */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (elements + 3) / 4, in float64 twice that */
} tn_uniform_attrs;
#define TN_UNIFORM_DEFAULTS {sizeof(tn_uniform_attrs), 0, 1, 0, 0}

/* Attributes of tn_normal. */
typedef struct tn_normal_attrs {
  uint32_t struct_size; /* sizeof(tn_normal_attrs) */
  double mean; /* centre */
  double std; /* standard deviation */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (elements + 3) / 4, in float64 twice that */
} tn_normal_attrs;
#define TN_NORMAL_DEFAULTS {sizeof(tn_normal_attrs), 0, 1, 0, 0}

/* Attributes of tn_sgd_step. */
typedef struct tn_sgd_step_attrs {
  uint32_t struct_size; /* sizeof(tn_sgd_step_attrs) */
  double lr; /* learning rate */
  double momentum; /* decay of the momentum buffer */
  double weight_decay; /* L2 penalty added to the gradient */
  int32_t nesterov; /* 1 looks ahead along the momentum */
} tn_sgd_step_attrs;
#define TN_SGD_STEP_DEFAULTS {sizeof(tn_sgd_step_attrs), 0.01, 0, 0, 0}

/* Attributes of tn_adam_step. */
typedef struct tn_adam_step_attrs {
  uint32_t struct_size; /* sizeof(tn_adam_step_attrs) */
  double lr; /* learning rate */
  double beta1; /* decay of m */
  double beta2; /* decay of v */
  double eps; /* added to the denominator */
  double weight_decay; /* L2 penalty added to the gradient */
  int64_t step; /* number of this step, from 1 */
} tn_adam_step_attrs;
#define TN_ADAM_STEP_DEFAULTS {sizeof(tn_adam_step_attrs), 0.001, 0.9, 0.999, 1e-8, 0, 1}

/* Attributes of tn_softplus. */
typedef struct tn_softplus_attrs {
  uint32_t struct_size; /* sizeof(tn_softplus_attrs) */
  double beta; /* how sharp the bend is */
  double threshold; /* beta x beyond which the output is x */
} tn_softplus_attrs;
#define TN_SOFTPLUS_DEFAULTS {sizeof(tn_softplus_attrs), 1, 20}

/* Attributes of tn_leaky_relu. */
typedef struct tn_leaky_relu_attrs {
  uint32_t struct_size; /* sizeof(tn_leaky_relu_attrs) */
  double slope; /* the slope below 0 */
} tn_leaky_relu_attrs;
#define TN_LEAKY_RELU_DEFAULTS {sizeof(tn_leaky_relu_attrs), 0.01}

/* Attributes of tn_elu. */
typedef struct tn_elu_attrs {
  uint32_t struct_size; /* sizeof(tn_elu_attrs) */
  double alpha; /* less the limit at -Inf */
} tn_elu_attrs;
#define TN_ELU_DEFAULTS {sizeof(tn_elu_attrs), 1}

/* Attributes of tn_clamp. */
typedef struct tn_clamp_attrs {
  uint32_t struct_size; /* sizeof(tn_clamp_attrs) */
  double min; /* lower bound; NaN: none */
  double max; /* upper bound; NaN: none */
} tn_clamp_attrs;
#define TN_CLAMP_DEFAULTS {sizeof(tn_clamp_attrs), -INFINITY, INFINITY}

/* Attributes of tn_clamp_grad. */
typedef struct tn_clamp_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_clamp_grad_attrs) */
  double min; /* lower bound; NaN: none */
  double max; /* upper bound; NaN: none */
} tn_clamp_grad_attrs;
#define TN_CLAMP_GRAD_DEFAULTS {sizeof(tn_clamp_grad_attrs), -INFINITY, INFINITY}

/* Attributes of tn_softplus_grad. */
typedef struct tn_softplus_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_softplus_grad_attrs) */
  double beta; /* how sharp the bend is */
  double threshold; /* beta x beyond which the output is x */
} tn_softplus_grad_attrs;
#define TN_SOFTPLUS_GRAD_DEFAULTS {sizeof(tn_softplus_grad_attrs), 1, 20}

/* Attributes of tn_leaky_relu_grad. */
typedef struct tn_leaky_relu_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_leaky_relu_grad_attrs) */
  double slope; /* the slope below 0 */
} tn_leaky_relu_grad_attrs;
#define TN_LEAKY_RELU_GRAD_DEFAULTS {sizeof(tn_leaky_relu_grad_attrs), 0.01}

/* Attributes of tn_elu_grad. */
typedef struct tn_elu_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_elu_grad_attrs) */
  double alpha; /* less the limit at -Inf */
} tn_elu_grad_attrs;
#define TN_ELU_GRAD_DEFAULTS {sizeof(tn_elu_grad_attrs), 1}

/* Attributes of tn_prod. */
typedef struct tn_prod_attrs {
  uint32_t struct_size; /* sizeof(tn_prod_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_prod_attrs;
#define TN_PROD_DEFAULTS {sizeof(tn_prod_attrs), {0, {0}}, 0}

/* Attributes of tn_min. */
typedef struct tn_min_attrs {
  uint32_t struct_size; /* sizeof(tn_min_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_min_attrs;
#define TN_MIN_DEFAULTS {sizeof(tn_min_attrs), {0, {0}}, 0}

/* Attributes of tn_any. */
typedef struct tn_any_attrs {
  uint32_t struct_size; /* sizeof(tn_any_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_any_attrs;
#define TN_ANY_DEFAULTS {sizeof(tn_any_attrs), {0, {0}}, 0}

/* Attributes of tn_all. */
typedef struct tn_all_attrs {
  uint32_t struct_size; /* sizeof(tn_all_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_all_attrs;
#define TN_ALL_DEFAULTS {sizeof(tn_all_attrs), {0, {0}}, 0}

/* Attributes of tn_argmin. */
typedef struct tn_argmin_attrs {
  uint32_t struct_size; /* sizeof(tn_argmin_attrs) */
  int64_t axis; /* axis to search */
  int32_t keepdims; /* 1 keeps the axis with size 1 */
} tn_argmin_attrs;
#define TN_ARGMIN_DEFAULTS {sizeof(tn_argmin_attrs), -1, 0}

/* Attributes of tn_var. */
typedef struct tn_var_attrs {
  uint32_t struct_size; /* sizeof(tn_var_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
  double correction; /* what the divisor, the count, is lowered by; the divisor is at least 0 */
} tn_var_attrs;
#define TN_VAR_DEFAULTS {sizeof(tn_var_attrs), {0, {0}}, 0, 1}

/* Attributes of tn_std. */
typedef struct tn_std_attrs {
  uint32_t struct_size; /* sizeof(tn_std_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
  double correction; /* what the divisor, the count, is lowered by; the divisor is at least 0 */
} tn_std_attrs;
#define TN_STD_DEFAULTS {sizeof(tn_std_attrs), {0, {0}}, 0, 1}

/* Attributes of tn_logsumexp. */
typedef struct tn_logsumexp_attrs {
  uint32_t struct_size; /* sizeof(tn_logsumexp_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
} tn_logsumexp_attrs;
#define TN_LOGSUMEXP_DEFAULTS {sizeof(tn_logsumexp_attrs), {0, {0}}, 0}

/* Attributes of tn_norm. */
typedef struct tn_norm_attrs {
  uint32_t struct_size; /* sizeof(tn_norm_attrs) */
  tn_axes axes; /* axes to reduce; none means all */
  int32_t keepdims; /* 1 keeps reduced axes with size 1 */
  double ord; /* 1, 2 or INFINITY */
} tn_norm_attrs;
#define TN_NORM_DEFAULTS {sizeof(tn_norm_attrs), {0, {0}}, 0, 2}

/* Attributes of tn_cumsum. */
typedef struct tn_cumsum_attrs {
  uint32_t struct_size; /* sizeof(tn_cumsum_attrs) */
  int64_t axis; /* axis along which the scan runs */
  int32_t reverse; /* 1 runs from the last element to the first */
  int32_t exclusive; /* 1 leaves each element out of its own result */
} tn_cumsum_attrs;
#define TN_CUMSUM_DEFAULTS {sizeof(tn_cumsum_attrs), -1, 0, 0}

/* Attributes of tn_cumprod. */
typedef struct tn_cumprod_attrs {
  uint32_t struct_size; /* sizeof(tn_cumprod_attrs) */
  int64_t axis; /* axis along which the scan runs */
  int32_t reverse; /* 1 runs from the last element to the first */
  int32_t exclusive; /* 1 leaves each element out of its own result */
} tn_cumprod_attrs;
#define TN_CUMPROD_DEFAULTS {sizeof(tn_cumprod_attrs), -1, 0, 0}

/* Attributes of tn_cummax. */
typedef struct tn_cummax_attrs {
  uint32_t struct_size; /* sizeof(tn_cummax_attrs) */
  int64_t axis; /* axis along which the scan runs */
  int32_t reverse; /* 1 runs from the last element to the first */
} tn_cummax_attrs;
#define TN_CUMMAX_DEFAULTS {sizeof(tn_cummax_attrs), -1, 0}

/* Attributes of tn_pad. */
typedef struct tn_pad_attrs {
  uint32_t struct_size; /* sizeof(tn_pad_attrs) */
  tn_dims before; /* elements put before each axis; none means 0 everywhere */
  tn_dims after; /* elements put behind each axis; none means 0 everywhere */
  int64_t mode; /* a tn_pad_mode: constant, reflect (fewer than the axis has) or edge */
  double value; /* what mode constant puts there, converted as tn_cast converts from float64 */
} tn_pad_attrs;
#define TN_PAD_DEFAULTS {sizeof(tn_pad_attrs), {0, 0, {0}}, {0, 0, {0}}, TN_PAD_CONSTANT, 0}

/* Attributes of tn_pad_grad. */
typedef struct tn_pad_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_pad_grad_attrs) */
  tn_dims before; /* elements put before each axis; none means 0 everywhere */
  tn_dims after; /* elements put behind each axis; none means 0 everywhere */
  int64_t mode; /* a tn_pad_mode: constant, reflect (fewer than the axis has) or edge */
} tn_pad_grad_attrs;
#define TN_PAD_GRAD_DEFAULTS {sizeof(tn_pad_grad_attrs), {0, 0, {0}}, {0, 0, {0}}, TN_PAD_CONSTANT}

/* Attributes of tn_tile. */
typedef struct tn_tile_attrs {
  uint32_t struct_size; /* sizeof(tn_tile_attrs) */
  tn_dims reps; /* times to repeat each axis, for the last axes where it has fewer entries */
} tn_tile_attrs;
#define TN_TILE_DEFAULTS {sizeof(tn_tile_attrs), {0, 0, {0}}}

/* Attributes of tn_repeat. */
typedef struct tn_repeat_attrs {
  uint32_t struct_size; /* sizeof(tn_repeat_attrs) */
  int64_t repeats; /* times to repeat each entry */
  int64_t axis; /* axis along which to repeat */
} tn_repeat_attrs;
#define TN_REPEAT_DEFAULTS {sizeof(tn_repeat_attrs), 1, -1}

/* Attributes of tn_flip. */
typedef struct tn_flip_attrs {
  uint32_t struct_size; /* sizeof(tn_flip_attrs) */
  tn_axes axes; /* axes to reverse; none means all */
} tn_flip_attrs;
#define TN_FLIP_DEFAULTS {sizeof(tn_flip_attrs), {0, {0}}}

/* Attributes of tn_roll. */
typedef struct tn_roll_attrs {
  uint32_t struct_size; /* sizeof(tn_roll_attrs) */
  tn_dims shifts; /* places to move along each of axes, negative to the front */
  tn_axes axes; /* axes to move along; none means all, in order */
} tn_roll_attrs;
#define TN_ROLL_DEFAULTS {sizeof(tn_roll_attrs), {0, 0, {0}}, {0, {0}}}

/* Attributes of tn_index_select. */
typedef struct tn_index_select_attrs {
  uint32_t struct_size; /* sizeof(tn_index_select_attrs) */
  int64_t axis; /* axis of the data that the index goes along */
} tn_index_select_attrs;
#define TN_INDEX_SELECT_DEFAULTS {sizeof(tn_index_select_attrs), 0}

/* Attributes of tn_index_add. */
typedef struct tn_index_add_attrs {
  uint32_t struct_size; /* sizeof(tn_index_add_attrs) */
  int64_t axis; /* axis of the data that the index goes along */
} tn_index_add_attrs;
#define TN_INDEX_ADD_DEFAULTS {sizeof(tn_index_add_attrs), 0}

/* Attributes of tn_gather. */
typedef struct tn_gather_attrs {
  uint32_t struct_size; /* sizeof(tn_gather_attrs) */
  int64_t axis; /* axis of the data that the index goes along */
} tn_gather_attrs;
#define TN_GATHER_DEFAULTS {sizeof(tn_gather_attrs), 0}

/* Attributes of tn_take_along_axis. */
typedef struct tn_take_along_axis_attrs {
  uint32_t struct_size; /* sizeof(tn_take_along_axis_attrs) */
  int64_t axis; /* axis of the data that the index goes along */
} tn_take_along_axis_attrs;
#define TN_TAKE_ALONG_AXIS_DEFAULTS {sizeof(tn_take_along_axis_attrs), 0}

/* Attributes of tn_scatter. */
typedef struct tn_scatter_attrs {
  uint32_t struct_size; /* sizeof(tn_scatter_attrs) */
  int64_t axis; /* axis of the data that the index goes along */
} tn_scatter_attrs;
#define TN_SCATTER_DEFAULTS {sizeof(tn_scatter_attrs), 0}

/* Attributes of tn_scatter_add. */
typedef struct tn_scatter_add_attrs {
  uint32_t struct_size; /* sizeof(tn_scatter_add_attrs) */
  int64_t axis; /* axis of the data that the index goes along */
} tn_scatter_add_attrs;
#define TN_SCATTER_ADD_DEFAULTS {sizeof(tn_scatter_add_attrs), 0}

/* Attributes of tn_scatter_max. */
typedef struct tn_scatter_max_attrs {
  uint32_t struct_size; /* sizeof(tn_scatter_max_attrs) */
  int64_t axis; /* axis of the data that the index goes along */
} tn_scatter_max_attrs;
#define TN_SCATTER_MAX_DEFAULTS {sizeof(tn_scatter_max_attrs), 0}

/* Attributes of tn_one_hot. */
typedef struct tn_one_hot_attrs {
  uint32_t struct_size; /* sizeof(tn_one_hot_attrs) */
  int64_t classes; /* size of the new axis */
  int64_t axis; /* where the new axis stands in y */
  int32_t dtype; /* element type of y */
  double on; /* the value at the index, converted as tn_cast converts from float64 */
  double off; /* the value elsewhere */
} tn_one_hot_attrs;
#define TN_ONE_HOT_DEFAULTS {sizeof(tn_one_hot_attrs), 1, -1, TN_F32, 1, 0}

/* Attributes of tn_arange. */
typedef struct tn_arange_attrs {
  uint32_t struct_size; /* sizeof(tn_arange_attrs) */
  double start; /* the first number */
  double step; /* from one to the next, not 0 */
} tn_arange_attrs;
#define TN_ARANGE_DEFAULTS {sizeof(tn_arange_attrs), 0, 1}

/* Attributes of tn_linspace. */
typedef struct tn_linspace_attrs {
  uint32_t struct_size; /* sizeof(tn_linspace_attrs) */
  double start; /* the first number */
  double stop; /* the last number */
} tn_linspace_attrs;
#define TN_LINSPACE_DEFAULTS {sizeof(tn_linspace_attrs), 0, 1}

/* Attributes of tn_eye. */
typedef struct tn_eye_attrs {
  uint32_t struct_size; /* sizeof(tn_eye_attrs) */
  int64_t diagonal; /* 0 is the main one, more lies above it, less below */
} tn_eye_attrs;
#define TN_EYE_DEFAULTS {sizeof(tn_eye_attrs), 0}

/* Attributes of tn_tril. */
typedef struct tn_tril_attrs {
  uint32_t struct_size; /* sizeof(tn_tril_attrs) */
  int64_t diagonal; /* 0 is the main one, more lies above it, less below */
} tn_tril_attrs;
#define TN_TRIL_DEFAULTS {sizeof(tn_tril_attrs), 0}

/* Attributes of tn_triu. */
typedef struct tn_triu_attrs {
  uint32_t struct_size; /* sizeof(tn_triu_attrs) */
  int64_t diagonal; /* 0 is the main one, more lies above it, less below */
} tn_triu_attrs;
#define TN_TRIU_DEFAULTS {sizeof(tn_triu_attrs), 0}

/* Attributes of tn_concat. */
typedef struct tn_concat_attrs {
  uint32_t struct_size; /* sizeof(tn_concat_attrs) */
  int64_t axis; /* the axis along which they are joined */
} tn_concat_attrs;
#define TN_CONCAT_DEFAULTS {sizeof(tn_concat_attrs), 0}

/* Attributes of tn_stack. */
typedef struct tn_stack_attrs {
  uint32_t struct_size; /* sizeof(tn_stack_attrs) */
  int64_t axis; /* where the new axis stands in y */
} tn_stack_attrs;
#define TN_STACK_DEFAULTS {sizeof(tn_stack_attrs), 0}

/* Attributes of tn_sort. */
typedef struct tn_sort_attrs {
  uint32_t struct_size; /* sizeof(tn_sort_attrs) */
  int64_t axis; /* axis to sort along */
  int32_t descending; /* 1 puts the largest first */
} tn_sort_attrs;
#define TN_SORT_DEFAULTS {sizeof(tn_sort_attrs), -1, 0}

/* Attributes of tn_argsort. */
typedef struct tn_argsort_attrs {
  uint32_t struct_size; /* sizeof(tn_argsort_attrs) */
  int64_t axis; /* axis to sort along */
  int32_t descending; /* 1 puts the largest first */
} tn_argsort_attrs;
#define TN_ARGSORT_DEFAULTS {sizeof(tn_argsort_attrs), -1, 0}

/* Attributes of tn_topk. */
typedef struct tn_topk_attrs {
  uint32_t struct_size; /* sizeof(tn_topk_attrs) */
  int64_t k; /* how many, at most the size of axis */
  int64_t axis; /* axis to search */
  int32_t largest; /* 1 finds the largest, largest first; 0 the smallest, smallest first */
} tn_topk_attrs;
#define TN_TOPK_DEFAULTS {sizeof(tn_topk_attrs), 1, -1, 1}

/* Attributes of tn_conv1d. */
typedef struct tn_conv1d_attrs {
  uint32_t struct_size; /* sizeof(tn_conv1d_attrs) */
  int64_t stride; /* step of the window */
  int64_t padding; /* zeros on either side */
  int64_t dilation; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
} tn_conv1d_attrs;
#define TN_CONV1D_DEFAULTS {sizeof(tn_conv1d_attrs), 1, 0, 1, 1}

/* Attributes of tn_conv1d_grad_input. */
typedef struct tn_conv1d_grad_input_attrs {
  uint32_t struct_size; /* sizeof(tn_conv1d_grad_input_attrs) */
  int64_t stride; /* step of the window */
  int64_t padding; /* zeros on either side */
  int64_t dilation; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t size; /* length of the forward input */
} tn_conv1d_grad_input_attrs;
#define TN_CONV1D_GRAD_INPUT_DEFAULTS {sizeof(tn_conv1d_grad_input_attrs), 1, 0, 1, 1, 0}

/* Attributes of tn_conv1d_grad_weight. */
typedef struct tn_conv1d_grad_weight_attrs {
  uint32_t struct_size; /* sizeof(tn_conv1d_grad_weight_attrs) */
  int64_t stride; /* step of the window */
  int64_t padding; /* zeros on either side */
  int64_t dilation; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t kernel; /* length of the forward weight */
} tn_conv1d_grad_weight_attrs;
#define TN_CONV1D_GRAD_WEIGHT_DEFAULTS {sizeof(tn_conv1d_grad_weight_attrs), 1, 0, 1, 1, 0}

/* Attributes of tn_conv3d. */
typedef struct tn_conv3d_attrs {
  uint32_t struct_size; /* sizeof(tn_conv3d_attrs) */
  int64_t stride[3]; /* step of the window */
  int64_t padding[3]; /* zeros on either side */
  int64_t dilation[3]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
} tn_conv3d_attrs;
#define TN_CONV3D_DEFAULTS {sizeof(tn_conv3d_attrs), {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1}

/* Attributes of tn_conv3d_grad_input. */
typedef struct tn_conv3d_grad_input_attrs {
  uint32_t struct_size; /* sizeof(tn_conv3d_grad_input_attrs) */
  int64_t stride[3]; /* step of the window */
  int64_t padding[3]; /* zeros on either side */
  int64_t dilation[3]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t size[3]; /* d, h, w of the forward input */
} tn_conv3d_grad_input_attrs;
#define TN_CONV3D_GRAD_INPUT_DEFAULTS {sizeof(tn_conv3d_grad_input_attrs), {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, {0, 0, 0}}

/* Attributes of tn_conv3d_grad_weight. */
typedef struct tn_conv3d_grad_weight_attrs {
  uint32_t struct_size; /* sizeof(tn_conv3d_grad_weight_attrs) */
  int64_t stride[3]; /* step of the window */
  int64_t padding[3]; /* zeros on either side */
  int64_t dilation[3]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t kernel[3]; /* d, h, w of the forward weight */
} tn_conv3d_grad_weight_attrs;
#define TN_CONV3D_GRAD_WEIGHT_DEFAULTS {sizeof(tn_conv3d_grad_weight_attrs), {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, {0, 0, 0}}

/* Attributes of tn_conv_transpose1d. */
typedef struct tn_conv_transpose1d_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose1d_attrs) */
  int64_t stride; /* step of the window */
  int64_t padding; /* zeros on either side */
  int64_t dilation; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding; /* elements added at the end of y, less than stride */
} tn_conv_transpose1d_attrs;
#define TN_CONV_TRANSPOSE1D_DEFAULTS {sizeof(tn_conv_transpose1d_attrs), 1, 0, 1, 1, 0}

/* Attributes of tn_conv_transpose1d_grad_input. */
typedef struct tn_conv_transpose1d_grad_input_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose1d_grad_input_attrs) */
  int64_t stride; /* step of the window */
  int64_t padding; /* zeros on either side */
  int64_t dilation; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding; /* elements added at the end of y, less than stride */
} tn_conv_transpose1d_grad_input_attrs;
#define TN_CONV_TRANSPOSE1D_GRAD_INPUT_DEFAULTS {sizeof(tn_conv_transpose1d_grad_input_attrs), 1, 0, 1, 1, 0}

/* Attributes of tn_conv_transpose1d_grad_weight. */
typedef struct tn_conv_transpose1d_grad_weight_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose1d_grad_weight_attrs) */
  int64_t stride; /* step of the window */
  int64_t padding; /* zeros on either side */
  int64_t dilation; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding; /* elements added at the end of y, less than stride */
  int64_t kernel; /* length of the forward weight */
} tn_conv_transpose1d_grad_weight_attrs;
#define TN_CONV_TRANSPOSE1D_GRAD_WEIGHT_DEFAULTS {sizeof(tn_conv_transpose1d_grad_weight_attrs), 1, 0, 1, 1, 0, 0}

/* Attributes of tn_conv_transpose2d. */
typedef struct tn_conv_transpose2d_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose2d_attrs) */
  int64_t stride[2]; /* step of the window */
  int64_t padding[2]; /* zeros on either side */
  int64_t dilation[2]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding[2]; /* elements added at the end of y, less than stride */
} tn_conv_transpose2d_attrs;
#define TN_CONV_TRANSPOSE2D_DEFAULTS {sizeof(tn_conv_transpose2d_attrs), {1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}

/* Attributes of tn_conv_transpose2d_grad_input. */
typedef struct tn_conv_transpose2d_grad_input_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose2d_grad_input_attrs) */
  int64_t stride[2]; /* step of the window */
  int64_t padding[2]; /* zeros on either side */
  int64_t dilation[2]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding[2]; /* elements added at the end of y, less than stride */
} tn_conv_transpose2d_grad_input_attrs;
#define TN_CONV_TRANSPOSE2D_GRAD_INPUT_DEFAULTS {sizeof(tn_conv_transpose2d_grad_input_attrs), {1, 1}, {0, 0}, {1, 1}, 1, {0, 0}}

/* Attributes of tn_conv_transpose2d_grad_weight. */
typedef struct tn_conv_transpose2d_grad_weight_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose2d_grad_weight_attrs) */
  int64_t stride[2]; /* step of the window */
  int64_t padding[2]; /* zeros on either side */
  int64_t dilation[2]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding[2]; /* elements added at the end of y, less than stride */
  int64_t kernel[2]; /* h, w of the forward weight */
} tn_conv_transpose2d_grad_weight_attrs;
#define TN_CONV_TRANSPOSE2D_GRAD_WEIGHT_DEFAULTS {sizeof(tn_conv_transpose2d_grad_weight_attrs), {1, 1}, {0, 0}, {1, 1}, 1, {0, 0}, {0, 0}}

/* Attributes of tn_conv_transpose3d. */
typedef struct tn_conv_transpose3d_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose3d_attrs) */
  int64_t stride[3]; /* step of the window */
  int64_t padding[3]; /* zeros on either side */
  int64_t dilation[3]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding[3]; /* elements added at the end of y, less than stride */
} tn_conv_transpose3d_attrs;
#define TN_CONV_TRANSPOSE3D_DEFAULTS {sizeof(tn_conv_transpose3d_attrs), {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, {0, 0, 0}}

/* Attributes of tn_conv_transpose3d_grad_input. */
typedef struct tn_conv_transpose3d_grad_input_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose3d_grad_input_attrs) */
  int64_t stride[3]; /* step of the window */
  int64_t padding[3]; /* zeros on either side */
  int64_t dilation[3]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding[3]; /* elements added at the end of y, less than stride */
} tn_conv_transpose3d_grad_input_attrs;
#define TN_CONV_TRANSPOSE3D_GRAD_INPUT_DEFAULTS {sizeof(tn_conv_transpose3d_grad_input_attrs), {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, {0, 0, 0}}

/* Attributes of tn_conv_transpose3d_grad_weight. */
typedef struct tn_conv_transpose3d_grad_weight_attrs {
  uint32_t struct_size; /* sizeof(tn_conv_transpose3d_grad_weight_attrs) */
  int64_t stride[3]; /* step of the window */
  int64_t padding[3]; /* zeros on either side */
  int64_t dilation[3]; /* distance of kernel elements */
  int64_t groups; /* groups of channels that do not mix */
  int64_t output_padding[3]; /* elements added at the end of y, less than stride */
  int64_t kernel[3]; /* d, h, w of the forward weight */
} tn_conv_transpose3d_grad_weight_attrs;
#define TN_CONV_TRANSPOSE3D_GRAD_WEIGHT_DEFAULTS {sizeof(tn_conv_transpose3d_grad_weight_attrs), {1, 1, 1}, {0, 0, 0}, {1, 1, 1}, 1, {0, 0, 0}, {0, 0, 0}}

/* Attributes of tn_max_pool1d. */
typedef struct tn_max_pool1d_attrs {
  uint32_t struct_size; /* sizeof(tn_max_pool1d_attrs) */
  int64_t kernel; /* size of the window */
  int64_t stride; /* step of the window; 0 means kernel */
  int64_t padding; /* border on either side, at most kernel / 2 */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_max_pool1d_attrs;
#define TN_MAX_POOL1D_DEFAULTS {sizeof(tn_max_pool1d_attrs), 2, 0, 0, 0}

/* Attributes of tn_max_pool1d_grad. */
typedef struct tn_max_pool1d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_max_pool1d_grad_attrs) */
  int64_t kernel; /* size of the window */
  int64_t stride; /* step of the window; 0 means kernel */
  int64_t padding; /* border on either side, at most kernel / 2 */
  int64_t size; /* length of the forward input */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_max_pool1d_grad_attrs;
#define TN_MAX_POOL1D_GRAD_DEFAULTS {sizeof(tn_max_pool1d_grad_attrs), 2, 0, 0, 0, 0}

/* Attributes of tn_avg_pool1d. */
typedef struct tn_avg_pool1d_attrs {
  uint32_t struct_size; /* sizeof(tn_avg_pool1d_attrs) */
  int64_t kernel; /* size of the window */
  int64_t stride; /* step of the window; 0 means kernel */
  int64_t padding; /* border on either side, at most kernel / 2 */
  int32_t count_padding; /* 1 divides by all of the window, 0 by the elements inside x */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_avg_pool1d_attrs;
#define TN_AVG_POOL1D_DEFAULTS {sizeof(tn_avg_pool1d_attrs), 2, 0, 0, 1, 0}

/* Attributes of tn_avg_pool1d_grad. */
typedef struct tn_avg_pool1d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_avg_pool1d_grad_attrs) */
  int64_t kernel; /* size of the window */
  int64_t stride; /* step of the window; 0 means kernel */
  int64_t padding; /* border on either side, at most kernel / 2 */
  int32_t count_padding; /* 1 divides by all of the window, 0 by the elements inside x */
  int64_t size; /* length of the forward input */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_avg_pool1d_grad_attrs;
#define TN_AVG_POOL1D_GRAD_DEFAULTS {sizeof(tn_avg_pool1d_grad_attrs), 2, 0, 0, 1, 0, 0}

/* Attributes of tn_max_pool3d. */
typedef struct tn_max_pool3d_attrs {
  uint32_t struct_size; /* sizeof(tn_max_pool3d_attrs) */
  int64_t kernel[3]; /* size of the window */
  int64_t stride[3]; /* step of the window; 0 means kernel */
  int64_t padding[3]; /* border on either side, at most kernel / 2 */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_max_pool3d_attrs;
#define TN_MAX_POOL3D_DEFAULTS {sizeof(tn_max_pool3d_attrs), {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, 0}

/* Attributes of tn_max_pool3d_grad. */
typedef struct tn_max_pool3d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_max_pool3d_grad_attrs) */
  int64_t kernel[3]; /* size of the window */
  int64_t stride[3]; /* step of the window; 0 means kernel */
  int64_t padding[3]; /* border on either side, at most kernel / 2 */
  int64_t size[3]; /* d, h, w of the forward input */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_max_pool3d_grad_attrs;
#define TN_MAX_POOL3D_GRAD_DEFAULTS {sizeof(tn_max_pool3d_grad_attrs), {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, {0, 0, 0}, 0}

/* Attributes of tn_avg_pool3d. */
typedef struct tn_avg_pool3d_attrs {
  uint32_t struct_size; /* sizeof(tn_avg_pool3d_attrs) */
  int64_t kernel[3]; /* size of the window */
  int64_t stride[3]; /* step of the window; 0 means kernel */
  int64_t padding[3]; /* border on either side, at most kernel / 2 */
  int32_t count_padding; /* 1 divides by all of the window, 0 by the elements inside x */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_avg_pool3d_attrs;
#define TN_AVG_POOL3D_DEFAULTS {sizeof(tn_avg_pool3d_attrs), {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, 1, 0}

/* Attributes of tn_avg_pool3d_grad. */
typedef struct tn_avg_pool3d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_avg_pool3d_grad_attrs) */
  int64_t kernel[3]; /* size of the window */
  int64_t stride[3]; /* step of the window; 0 means kernel */
  int64_t padding[3]; /* border on either side, at most kernel / 2 */
  int32_t count_padding; /* 1 divides by all of the window, 0 by the elements inside x */
  int64_t size[3]; /* d, h, w of the forward input */
  int64_t ceil_mode; /* 1 keeps a last window that the end cuts off, if it begins inside */
} tn_avg_pool3d_grad_attrs;
#define TN_AVG_POOL3D_GRAD_DEFAULTS {sizeof(tn_avg_pool3d_grad_attrs), {2, 2, 2}, {0, 0, 0}, {0, 0, 0}, 1, {0, 0, 0}, 0}

/* Attributes of tn_adaptive_max_pool1d. */
typedef struct tn_adaptive_max_pool1d_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_max_pool1d_attrs) */
  int64_t output; /* length of y */
} tn_adaptive_max_pool1d_attrs;
#define TN_ADAPTIVE_MAX_POOL1D_DEFAULTS {sizeof(tn_adaptive_max_pool1d_attrs), 1}

/* Attributes of tn_adaptive_max_pool1d_grad. */
typedef struct tn_adaptive_max_pool1d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_max_pool1d_grad_attrs) */
  int64_t size; /* length of the forward input */
} tn_adaptive_max_pool1d_grad_attrs;
#define TN_ADAPTIVE_MAX_POOL1D_GRAD_DEFAULTS {sizeof(tn_adaptive_max_pool1d_grad_attrs), 1}

/* Attributes of tn_adaptive_avg_pool1d. */
typedef struct tn_adaptive_avg_pool1d_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_avg_pool1d_attrs) */
  int64_t output; /* length of y */
} tn_adaptive_avg_pool1d_attrs;
#define TN_ADAPTIVE_AVG_POOL1D_DEFAULTS {sizeof(tn_adaptive_avg_pool1d_attrs), 1}

/* Attributes of tn_adaptive_avg_pool1d_grad. */
typedef struct tn_adaptive_avg_pool1d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_avg_pool1d_grad_attrs) */
  int64_t size; /* length of the forward input */
} tn_adaptive_avg_pool1d_grad_attrs;
#define TN_ADAPTIVE_AVG_POOL1D_GRAD_DEFAULTS {sizeof(tn_adaptive_avg_pool1d_grad_attrs), 1}

/* Attributes of tn_adaptive_max_pool2d. */
typedef struct tn_adaptive_max_pool2d_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_max_pool2d_attrs) */
  int64_t output[2]; /* h, w of y */
} tn_adaptive_max_pool2d_attrs;
#define TN_ADAPTIVE_MAX_POOL2D_DEFAULTS {sizeof(tn_adaptive_max_pool2d_attrs), {1, 1}}

/* Attributes of tn_adaptive_max_pool2d_grad. */
typedef struct tn_adaptive_max_pool2d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_max_pool2d_grad_attrs) */
  int64_t size[2]; /* h, w of the forward input */
} tn_adaptive_max_pool2d_grad_attrs;
#define TN_ADAPTIVE_MAX_POOL2D_GRAD_DEFAULTS {sizeof(tn_adaptive_max_pool2d_grad_attrs), {1, 1}}

/* Attributes of tn_adaptive_avg_pool2d. */
typedef struct tn_adaptive_avg_pool2d_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_avg_pool2d_attrs) */
  int64_t output[2]; /* h, w of y */
} tn_adaptive_avg_pool2d_attrs;
#define TN_ADAPTIVE_AVG_POOL2D_DEFAULTS {sizeof(tn_adaptive_avg_pool2d_attrs), {1, 1}}

/* Attributes of tn_adaptive_avg_pool2d_grad. */
typedef struct tn_adaptive_avg_pool2d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_avg_pool2d_grad_attrs) */
  int64_t size[2]; /* h, w of the forward input */
} tn_adaptive_avg_pool2d_grad_attrs;
#define TN_ADAPTIVE_AVG_POOL2D_GRAD_DEFAULTS {sizeof(tn_adaptive_avg_pool2d_grad_attrs), {1, 1}}

/* Attributes of tn_adaptive_max_pool3d. */
typedef struct tn_adaptive_max_pool3d_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_max_pool3d_attrs) */
  int64_t output[3]; /* d, h, w of y */
} tn_adaptive_max_pool3d_attrs;
#define TN_ADAPTIVE_MAX_POOL3D_DEFAULTS {sizeof(tn_adaptive_max_pool3d_attrs), {1, 1, 1}}

/* Attributes of tn_adaptive_max_pool3d_grad. */
typedef struct tn_adaptive_max_pool3d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_max_pool3d_grad_attrs) */
  int64_t size[3]; /* d, h, w of the forward input */
} tn_adaptive_max_pool3d_grad_attrs;
#define TN_ADAPTIVE_MAX_POOL3D_GRAD_DEFAULTS {sizeof(tn_adaptive_max_pool3d_grad_attrs), {1, 1, 1}}

/* Attributes of tn_adaptive_avg_pool3d. */
typedef struct tn_adaptive_avg_pool3d_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_avg_pool3d_attrs) */
  int64_t output[3]; /* d, h, w of y */
} tn_adaptive_avg_pool3d_attrs;
#define TN_ADAPTIVE_AVG_POOL3D_DEFAULTS {sizeof(tn_adaptive_avg_pool3d_attrs), {1, 1, 1}}

/* Attributes of tn_adaptive_avg_pool3d_grad. */
typedef struct tn_adaptive_avg_pool3d_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_adaptive_avg_pool3d_grad_attrs) */
  int64_t size[3]; /* d, h, w of the forward input */
} tn_adaptive_avg_pool3d_grad_attrs;
#define TN_ADAPTIVE_AVG_POOL3D_GRAD_DEFAULTS {sizeof(tn_adaptive_avg_pool3d_grad_attrs), {1, 1, 1}}

/* Attributes of tn_resize. */
typedef struct tn_resize_attrs {
  uint32_t struct_size; /* sizeof(tn_resize_attrs) */
  int64_t output[2]; /* height and width of y */
  int64_t mode; /* tn_resize_mode */
  int32_t align_corners; /* 1 maps corner elements on each other, 0 corners of the image */
} tn_resize_attrs;
#define TN_RESIZE_DEFAULTS {sizeof(tn_resize_attrs), {1, 1}, TN_RESIZE_BILINEAR, 0}

/* Attributes of tn_resize_grad. */
typedef struct tn_resize_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_resize_grad_attrs) */
  int64_t size[2]; /* h, w of the forward input */
  int64_t mode; /* tn_resize_mode */
  int32_t align_corners; /* 1 maps corner elements on each other, 0 corners of the image */
} tn_resize_grad_attrs;
#define TN_RESIZE_GRAD_DEFAULTS {sizeof(tn_resize_grad_attrs), {1, 1}, TN_RESIZE_BILINEAR, 0}

/* Attributes of tn_batch_norm. */
typedef struct tn_batch_norm_attrs {
  uint32_t struct_size; /* sizeof(tn_batch_norm_attrs) */
  double eps; /* added to the variance */
  double momentum; /* share of this batch in the running statistics */
} tn_batch_norm_attrs;
#define TN_BATCH_NORM_DEFAULTS {sizeof(tn_batch_norm_attrs), 1e-5, 0.1}

/* Attributes of tn_batch_norm_inference. */
typedef struct tn_batch_norm_inference_attrs {
  uint32_t struct_size; /* sizeof(tn_batch_norm_inference_attrs) */
  double eps; /* added to the variance */
} tn_batch_norm_inference_attrs;
#define TN_BATCH_NORM_INFERENCE_DEFAULTS {sizeof(tn_batch_norm_inference_attrs), 1e-5}

/* Attributes of tn_layer_norm. */
typedef struct tn_layer_norm_attrs {
  uint32_t struct_size; /* sizeof(tn_layer_norm_attrs) */
  int64_t axis; /* first of the normalised axes */
  double eps; /* added to the variance */
} tn_layer_norm_attrs;
#define TN_LAYER_NORM_DEFAULTS {sizeof(tn_layer_norm_attrs), -1, 1e-5}

/* Attributes of tn_layer_norm_grad. */
typedef struct tn_layer_norm_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_layer_norm_grad_attrs) */
  int64_t axis; /* first of the normalised axes */
} tn_layer_norm_grad_attrs;
#define TN_LAYER_NORM_GRAD_DEFAULTS {sizeof(tn_layer_norm_grad_attrs), -1}

/* Attributes of tn_group_norm. */
typedef struct tn_group_norm_attrs {
  uint32_t struct_size; /* sizeof(tn_group_norm_attrs) */
  int64_t groups; /* divides c */
  double eps; /* added to the variance */
} tn_group_norm_attrs;
#define TN_GROUP_NORM_DEFAULTS {sizeof(tn_group_norm_attrs), 1, 1e-5}

/* Attributes of tn_group_norm_grad. */
typedef struct tn_group_norm_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_group_norm_grad_attrs) */
  int64_t groups; /* divides c */
} tn_group_norm_grad_attrs;
#define TN_GROUP_NORM_GRAD_DEFAULTS {sizeof(tn_group_norm_grad_attrs), 1}

/* Attributes of tn_instance_norm. */
typedef struct tn_instance_norm_attrs {
  uint32_t struct_size; /* sizeof(tn_instance_norm_attrs) */
  double eps; /* added to the variance */
} tn_instance_norm_attrs;
#define TN_INSTANCE_NORM_DEFAULTS {sizeof(tn_instance_norm_attrs), 1e-5}

/* Attributes of tn_rms_norm. */
typedef struct tn_rms_norm_attrs {
  uint32_t struct_size; /* sizeof(tn_rms_norm_attrs) */
  int64_t axis; /* first of the normalised axes */
  double eps; /* added to the mean square */
} tn_rms_norm_attrs;
#define TN_RMS_NORM_DEFAULTS {sizeof(tn_rms_norm_attrs), -1, 1e-6}

/* Attributes of tn_rms_norm_grad. */
typedef struct tn_rms_norm_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_rms_norm_grad_attrs) */
  int64_t axis; /* first of the normalised axes */
} tn_rms_norm_grad_attrs;
#define TN_RMS_NORM_GRAD_DEFAULTS {sizeof(tn_rms_norm_grad_attrs), -1}

/* Attributes of tn_mse_loss. */
typedef struct tn_mse_loss_attrs {
  uint32_t struct_size; /* sizeof(tn_mse_loss_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
} tn_mse_loss_attrs;
#define TN_MSE_LOSS_DEFAULTS {sizeof(tn_mse_loss_attrs), TN_REDUCTION_MEAN}

/* Attributes of tn_mse_loss_grad. */
typedef struct tn_mse_loss_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_mse_loss_grad_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
} tn_mse_loss_grad_attrs;
#define TN_MSE_LOSS_GRAD_DEFAULTS {sizeof(tn_mse_loss_grad_attrs), TN_REDUCTION_MEAN}

/* Attributes of tn_bce_with_logits. */
typedef struct tn_bce_with_logits_attrs {
  uint32_t struct_size; /* sizeof(tn_bce_with_logits_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
} tn_bce_with_logits_attrs;
#define TN_BCE_WITH_LOGITS_DEFAULTS {sizeof(tn_bce_with_logits_attrs), TN_REDUCTION_MEAN}

/* Attributes of tn_bce_with_logits_grad. */
typedef struct tn_bce_with_logits_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_bce_with_logits_grad_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
} tn_bce_with_logits_grad_attrs;
#define TN_BCE_WITH_LOGITS_GRAD_DEFAULTS {sizeof(tn_bce_with_logits_grad_attrs), TN_REDUCTION_MEAN}

/* Attributes of tn_huber_loss. */
typedef struct tn_huber_loss_attrs {
  uint32_t struct_size; /* sizeof(tn_huber_loss_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
  double delta; /* difference from which the loss grows evenly */
} tn_huber_loss_attrs;
#define TN_HUBER_LOSS_DEFAULTS {sizeof(tn_huber_loss_attrs), TN_REDUCTION_MEAN, 1}

/* Attributes of tn_huber_loss_grad. */
typedef struct tn_huber_loss_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_huber_loss_grad_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
  double delta; /* difference from which the loss grows evenly */
} tn_huber_loss_grad_attrs;
#define TN_HUBER_LOSS_GRAD_DEFAULTS {sizeof(tn_huber_loss_grad_attrs), TN_REDUCTION_MEAN, 1}

/* Attributes of tn_kl_div. */
typedef struct tn_kl_div_attrs {
  uint32_t struct_size; /* sizeof(tn_kl_div_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
  int32_t log_target; /* 1 says that target holds logarithms */
} tn_kl_div_attrs;
#define TN_KL_DIV_DEFAULTS {sizeof(tn_kl_div_attrs), TN_REDUCTION_MEAN, 0}

/* Attributes of tn_kl_div_grad. */
typedef struct tn_kl_div_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_kl_div_grad_attrs) */
  int64_t reduction; /* a tn_reduction: none, mean or sum over elements */
  int32_t log_target; /* 1 says that target holds logarithms */
} tn_kl_div_grad_attrs;
#define TN_KL_DIV_GRAD_DEFAULTS {sizeof(tn_kl_div_grad_attrs), TN_REDUCTION_MEAN, 0}

/* Attributes of tn_embedding_grad. */
typedef struct tn_embedding_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_embedding_grad_attrs) */
  int64_t rows; /* rows of the table */
  int64_t padding_index; /* a row whose gradient stays 0; -1 for none */
} tn_embedding_grad_attrs;
#define TN_EMBEDDING_GRAD_DEFAULTS {sizeof(tn_embedding_grad_attrs), 1, -1}

/* Attributes of tn_rope. */
typedef struct tn_rope_attrs {
  uint32_t struct_size; /* sizeof(tn_rope_attrs) */
  int32_t interleaved; /* 1 pairs elements 2 i and 2 i + 1; 0 pairs i and i + r / 2 */
  int32_t inverse; /* 1 turns the other way: y's gradient into x's */
} tn_rope_attrs;
#define TN_ROPE_DEFAULTS {sizeof(tn_rope_attrs), 0, 0}

/* Attributes of tn_scaled_dot_product_attention. */
typedef struct tn_scaled_dot_product_attention_attrs {
  uint32_t struct_size; /* sizeof(tn_scaled_dot_product_attention_attrs) */
  double scale; /* factor of q k^T; 0 means 1 / sqrt d */
  int32_t causal; /* 1 lets query i see keys up to i + t - s: the last query sees all keys */
} tn_scaled_dot_product_attention_attrs;
#define TN_SCALED_DOT_PRODUCT_ATTENTION_DEFAULTS {sizeof(tn_scaled_dot_product_attention_attrs), 0, 0}

/* Attributes of tn_scaled_dot_product_attention_grad. */
typedef struct tn_scaled_dot_product_attention_grad_attrs {
  uint32_t struct_size; /* sizeof(tn_scaled_dot_product_attention_grad_attrs) */
  double scale; /* factor of q k^T; 0 means 1 / sqrt d */
  int32_t causal; /* 1 lets query i see keys up to i + t - s: the last query sees all keys */
} tn_scaled_dot_product_attention_grad_attrs;
#define TN_SCALED_DOT_PRODUCT_ATTENTION_GRAD_DEFAULTS {sizeof(tn_scaled_dot_product_attention_grad_attrs), 0, 0}

/* Attributes of tn_multi_sgd. */
typedef struct tn_multi_sgd_attrs {
  uint32_t struct_size; /* sizeof(tn_multi_sgd_attrs) */
  double lr; /* learning rate */
  double momentum; /* decay of the momentum buffers */
  double weight_decay; /* L2 penalty added to the gradient */
  int32_t nesterov; /* 1 looks ahead along the momentum */
} tn_multi_sgd_attrs;
#define TN_MULTI_SGD_DEFAULTS {sizeof(tn_multi_sgd_attrs), 0.01, 0, 0, 0}

/* Attributes of tn_multi_adam. */
typedef struct tn_multi_adam_attrs {
  uint32_t struct_size; /* sizeof(tn_multi_adam_attrs) */
  double lr; /* learning rate */
  double beta1; /* decay of m */
  double beta2; /* decay of v */
  double eps; /* added to the denominator */
  double weight_decay; /* L2 penalty added to the gradient */
  int64_t step; /* number of this step, from 1 */
} tn_multi_adam_attrs;
#define TN_MULTI_ADAM_DEFAULTS {sizeof(tn_multi_adam_attrs), 0.001, 0.9, 0.999, 1e-8, 0, 1}

/* Attributes of tn_multi_adamw. */
typedef struct tn_multi_adamw_attrs {
  uint32_t struct_size; /* sizeof(tn_multi_adamw_attrs) */
  double lr; /* learning rate */
  double beta1; /* decay of m */
  double beta2; /* decay of v */
  double eps; /* added to the denominator */
  double weight_decay; /* share of the parameter taken off, times lr */
  int64_t step; /* number of this step, from 1 */
} tn_multi_adamw_attrs;
#define TN_MULTI_ADAMW_DEFAULTS {sizeof(tn_multi_adamw_attrs), 0.001, 0.9, 0.999, 1e-8, 0.01, 1}

/* Attributes of tn_multi_rmsprop. */
typedef struct tn_multi_rmsprop_attrs {
  uint32_t struct_size; /* sizeof(tn_multi_rmsprop_attrs) */
  double lr; /* learning rate */
  double decay; /* decay of v */
  double momentum; /* decay of the momentum buffers */
  double eps; /* added to the denominator */
  double weight_decay; /* L2 penalty added to the gradient */
} tn_multi_rmsprop_attrs;
#define TN_MULTI_RMSPROP_DEFAULTS {sizeof(tn_multi_rmsprop_attrs), 0.01, 0.99, 0, 1e-8, 0}

/* Attributes of tn_multi_adagrad. */
typedef struct tn_multi_adagrad_attrs {
  uint32_t struct_size; /* sizeof(tn_multi_adagrad_attrs) */
  double lr; /* learning rate */
  double lr_decay; /* decay of the learning rate */
  double eps; /* added to the denominator */
  double weight_decay; /* L2 penalty added to the gradient */
  int64_t step; /* number of this step, from 1 */
} tn_multi_adagrad_attrs;
#define TN_MULTI_ADAGRAD_DEFAULTS {sizeof(tn_multi_adagrad_attrs), 0.01, 0, 1e-10, 0, 1}

/* Attributes of tn_clip_grad_norm. */
typedef struct tn_clip_grad_norm_attrs {
  uint32_t struct_size; /* sizeof(tn_clip_grad_norm_attrs) */
  double max_norm; /* norm above which gradients are scaled down */
} tn_clip_grad_norm_attrs;
#define TN_CLIP_GRAD_NORM_DEFAULTS {sizeof(tn_clip_grad_norm_attrs), 1}

/* Attributes of tn_update_loss_scale. */
typedef struct tn_update_loss_scale_attrs {
  uint32_t struct_size; /* sizeof(tn_update_loss_scale_attrs) */
  double growth; /* what scale is multiplied by after enough good steps */
  double backoff; /* what scale is multiplied by after a bad step */
  int64_t interval; /* good steps after which scale grows */
} tn_update_loss_scale_attrs;
#define TN_UPDATE_LOSS_SCALE_DEFAULTS {sizeof(tn_update_loss_scale_attrs), 2, 0.5, 2000}

/* Attributes of tn_bernoulli. */
typedef struct tn_bernoulli_attrs {
  uint32_t struct_size; /* sizeof(tn_bernoulli_attrs) */
  double probability; /* of a 1 */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (elements + 3) / 4, in float64 twice that */
} tn_bernoulli_attrs;
#define TN_BERNOULLI_DEFAULTS {sizeof(tn_bernoulli_attrs), 0.5, 0, 0}

/* Attributes of tn_randint. */
typedef struct tn_randint_attrs {
  uint32_t struct_size; /* sizeof(tn_randint_attrs) */
  int64_t low; /* least value */
  int64_t high; /* one more than the greatest value, > low */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (numbers + 1) / 2 */
} tn_randint_attrs;
#define TN_RANDINT_DEFAULTS {sizeof(tn_randint_attrs), 0, 2, 0, 0}

/* Attributes of tn_truncated_normal. */
typedef struct tn_truncated_normal_attrs {
  uint32_t struct_size; /* sizeof(tn_truncated_normal_attrs) */
  double mean; /* centre of the whole distribution */
  double std; /* its standard deviation */
  double low; /* least value of (y - mean) / std */
  double high; /* greatest value of (y - mean) / std, > low */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (elements + 3) / 4, in float64 twice that */
} tn_truncated_normal_attrs;
#define TN_TRUNCATED_NORMAL_DEFAULTS {sizeof(tn_truncated_normal_attrs), 0, 1, -2, 2, 0, 0}

/* Attributes of tn_multinomial. */
typedef struct tn_multinomial_attrs {
  uint32_t struct_size; /* sizeof(tn_multinomial_attrs) */
  int64_t samples; /* numbers to draw from each row */
  int32_t replacement; /* 1 may draw a place more than once */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (numbers + 1) / 2 */
} tn_multinomial_attrs;
#define TN_MULTINOMIAL_DEFAULTS {sizeof(tn_multinomial_attrs), 1, 0, 0, 0}

/* Attributes of tn_randperm. */
typedef struct tn_randperm_attrs {
  uint32_t struct_size; /* sizeof(tn_randperm_attrs) */
  uint64_t seed; /* key of the random sequence */
  uint64_t offset; /* first counter used; a call uses (numbers + 1) / 2 */
} tn_randperm_attrs;
#define TN_RANDPERM_DEFAULTS {sizeof(tn_randperm_attrs), 0, 0}

#ifdef __cplusplus
}
#endif
#endif /* TENON_OP_TYPES_H */
