/*
 * The table of kernels and the plugin's entry. Rows of one operator stand in falling
 * priority: a vendor library where there is one, then our own kernel.
 */
#include "backends/cuda/backend.h"
#include "kernels/common/quant.h"
#include "kernels/cuda/matmul/int8.h"
#include "kernels/cuda/matmul/int8_short.h"
#include "kernels/cuda/matmul/int8_skinny.h"
#include "kernels/cuda/window/depthwise.h"
#include "tenon/op_rows.h"

enum { own = 200, direct = 100, vendor = 300 };

#define FLAGS_DENSE (TN_KERNEL_DETERMINISTIC | TN_KERNEL_CAPTURE_SAFE)
#define FLAGS_STRIDED (FLAGS_DENSE | TN_KERNEL_STRIDED)

#define ROW(op_name, row_name, rank, row_flags, ...)                                               \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##op_name, .device_type = "cuda",                \
    .name = row_name, .priority = rank, .flags = row_flags, __VA_ARGS__                            \
  }
#define STRIDED_WITH(op, ...)                                                                      \
  ROW(op, "cuda." #op, own, FLAGS_STRIDED, .types = {TN_TYPES_##op}, .run = cuda_run_##op,         \
      __VA_ARGS__),
#define DENSE_WITH(op, ...)                                                                        \
  ROW(op, "cuda." #op, own, FLAGS_DENSE, .types = {TN_TYPES_##op}, .run = cuda_run_##op,           \
      __VA_ARGS__),
#define STRIDED(op) STRIDED_WITH(op, )
#define HEEDS_ALL(op) .attrs_size = sizeof(tn_##op##_attrs)
#define DENSE(op) DENSE_WITH(op, )
/* cuDNN's rows are deterministic because the plan takes only such algorithms while
 * the host asks for that. */
#define CONV(op, role, ...)                                                                        \
  ROW(op, "cuda." #op ".cudnn", vendor, FLAGS_DENSE, .run = cuda_run_conv,                         \
      .workspace = cuda_conv_workspace, .user = &conv_##role, HEEDS_ALL(op), __VA_ARGS__),         \
      ROW(op, "cuda." #op ".direct", direct, FLAGS_STRIDED, .run = cuda_run_conv_##role,           \
          HEEDS_ALL(op))
/* Two axes: channels-last as well; results that are images are so too, those that are weights not.
 */
#define CONV2D(op, role, row_flags, ...)                                                           \
  CONV2D_WHERE(op, role, cuda_conv_is_channels_last, row_flags, __VA_ARGS__)
#define CONV2D_WHERE(op, role, when, row_flags, ...)                                               \
  ROW(op, "cuda." #op ".cudnn.nhwc", vendor + 10, FLAGS_STRIDED | row_flags, .run = cuda_run_conv, \
      .workspace = cuda_conv_workspace, .supports = when,                                          \
      .types = {TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32)}, .user = &conv_##role##_nhwc,   \
      HEEDS_ALL(op)),                                                                              \
      CONV(op, role, __VA_ARGS__)
#define PLANNED .supports = cuda_conv_is_planned, .note = "results of 16 bits: " WHERE_PLANNED
#define WHERE_PLANNED                                                                              \
  "one group of channels that are multiples of 8, or no activation, relu or relu6"
#define ROUNDS_ONCE                                                                                \
  .supports = cuda_conv_rounds_once, .note = "results of 16 bits: no activation, relu or relu6"
/* Our own kernels first where there is little to reuse. */
#define CONV_THIN(op, role, when)                                                                  \
  ROW(op, "cuda." #op ".thin", vendor + 20, FLAGS_STRIDED, .run = cuda_run_conv_##role,            \
      .supports = when, .user = &conv_##role, HEEDS_ALL(op))
/* Each channel by itself, of images with channels last; results that are images are so too. */
#define CONV_DEPTHWISE(op, what, role, when, row_flags, ...)                                       \
  ROW(op, "cuda." #op ".depthwise", vendor + 30, FLAGS_STRIDED | row_flags,                        \
      .run = cuda_run_##what, .supports = when, .user = &conv_##role##_nhwc,                       \
      .types = {TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32)}, HEEDS_ALL(op),                 \
      .note =                                                                                      \
          "channels last, in groups of one; 16 bytes of channels or a multiple of it, at most "    \
          "128 weights to a channel of x; left to cuDNN where measuring tells its best engine, "   \
          "but for 3 x 3 and 5 x 5 at steps of 1 and 2",                                           \
      __VA_ARGS__)
#define CONV_DEPTHWISE_FORWARD(op)                                                                 \
  CONV_DEPTHWISE(op, conv_depthwise, forward, cuda_conv_is_own_depthwise, TN_KERNEL_CHANNELS_LAST, )
#define CONV_DEPTHWISE_BACKWARD(op)                                                                \
  CONV_DEPTHWISE(op, conv_depthwise_backward, backward, cuda_conv_backward_is_own_depthwise,       \
                 TN_KERNEL_CHANNELS_LAST, )
#define CONV_THIN_WEIGHT(op)                                                                       \
  ROW(op, "cuda." #op ".thin", vendor + 20, FLAGS_STRIDED, .run = cuda_run_conv_weight,            \
      .workspace = cuda_conv_weight_workspace, .supports = cuda_conv_weight_is_thin)
/* Our own kernel where a launch is most of what a call takes. */
#define CONV_SMALL(op, role, row_flags)                                                            \
  ROW(op, "cuda." #op ".small", vendor + 15, FLAGS_STRIDED | row_flags,                            \
      .run = cuda_run_conv_##role, .supports = cuda_conv_##role##_is_small, .user = &conv_##role,  \
      HEEDS_ALL(op),                                                                               \
      .note = "at most 2^23 multiplications and 2048 terms of a sum; no activation, relu, relu6 "  \
              "or hardswish")
#define CONV_SMALL_OF(axes, row_flags)                                                             \
  CONV_SMALL(conv##axes##d, forward, row_flags),                                                   \
      CONV_SMALL(conv##axes##d_grad_input, backward, row_flags),                                   \
      CONV_SMALL(conv##axes##d_grad_weight, weight, 0),                                            \
      CONV_SMALL(conv_transpose##axes##d, backward, row_flags),                                    \
      CONV_SMALL(conv_transpose##axes##d_grad_input, forward, row_flags),                          \
      CONV_SMALL(conv_transpose##axes##d_grad_weight, transpose_weight, 0)

/* Bytes by cuBLASLt, exact as our own tiles are. */
#define INT8(op, row_flags, ...)                                                                   \
  ROW(op, "cuda." #op ".cublaslt", vendor, row_flags, .run = cuda_run_matmul_int8,                 \
      .workspace = cuda_matmul_int8_workspace, .supports = cuda_matmul_int8_supports,              \
      .note = "8-bit integers, 16 or more rows, columns and terms of a sum, 2^21 terms or more "   \
              "and not so many to one sum that it may overflow",                                   \
      .user = &int8_##op, __VA_ARGS__)

/* Recurrent networks with products by cuBLASLt. */
#define RECURRENT(op, when)                                                                        \
  ROW(op, "cuda." #op ".cublaslt", vendor, FLAGS_DENSE, .run = cuda_run_recurrent_planned,         \
      .workspace = cuda_recurrent_workspace, .supports = when, .types = {TN_TYPES_##op},           \
      .note = "64 or more hidden units, and 2^16 or more terms of a step's products: sequences "   \
              "times hidden units twice times gates",                                              \
      .user = &recurrent_##op)

/* Attention in 16 bits; deterministic as convolutions are: while the host asks for that,
 * gradients are left to our own kernels. */
#define ATTENTION(op)                                                                              \
  ROW(op, "cuda." #op ".cudnn", vendor, FLAGS_STRIDED, .run = cuda_run_attention,                  \
      .workspace = cuda_attention_workspace, .supports = cuda_attention_fused,                     \
      .types = {TN_SET(TN_F16) | TN_SET(TN_BF16)}, .attrs_size = sizeof(tn_##op##_attrs),          \
      .note = "no mask or bias, 64 queries and keys or more, vectors of at most 256 elements, a "  \
              "multiple of 8")

/* Elementwise functions whose results of 16 bits cost more than a look at a table of them
 * (kernels/cuda/base/table.h), in rows beside those that ask for no workspace. */
#define TABLE_OF(op, set)                                                                          \
  ROW(op, "cuda." #op ".table", own + 10, FLAGS_STRIDED, .run = cuda_run_##op,                     \
      .workspace = cuda_table_workspace, .types = {set})
#define TABLE(op) TABLE_OF(op, TN_SET(TN_F16) | TN_SET(TN_BF16))
/* What is as fast as memory in bfloat16 (kernels/cuda/elementwise/narrow.cuh; elu where alpha is
 * 1). */
#define TABLE_OF_F16(op) TABLE_OF(op, TN_SET(TN_F16))

/* Few queries and many keys, as a decoder has them: our own kernel, which reads keys and values
 * once.
 */
#define ATTENTION_SPLIT                                                                            \
  ROW(scaled_dot_product_attention, "cuda.scaled_dot_product_attention.split", vendor + 10,        \
      FLAGS_STRIDED, .run = cuda_run_attention_split, .workspace = cuda_attention_split_workspace, \
      .supports = cuda_attention_split_supports,                                                   \
      .types = {TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32)},                                \
      HEEDS_ALL(scaled_dot_product_attention),                                                     \
      .note =                                                                                      \
          "128 keys or more, at most 64 queries (16 in float32) to a head of keys, vectors of "    \
          "at most 256 elements, a multiple of 8, that begin at multiples of 16 bytes")

/* Sums and products of floats by atomic updates, in no order; deterministic runtimes leave these
 * rows out. */
#define SCATTER_ATOMIC(op, family, why)                                                            \
  ROW(op, "cuda." #op ".atomic", own + 10, TN_KERNEL_CAPTURE_SAFE, .run = cuda_run_##op##_atomic,  \
      .workspace = cuda_##family##_atomic_workspace, .supports = cuda_##family##_atomic_supports,  \
      .types = {TN_SET_FLOAT}, .note = why)

#define CONV_ROLE(name, NAME)                                                                      \
  static const cuda_conv_row conv_##name = {CUDA_CONV_##NAME, false, cuda_run_conv_##name};        \
  static const cuda_conv_row conv_##name##_nhwc = {CUDA_CONV_##NAME, true, cuda_run_conv_##name};
CONV_ROLE(forward, FORWARD)
static const cuda_conv_row conv_add = {CUDA_CONV_FORWARD, false, cuda_run_conv_add};
static const cuda_conv_row conv_add_nhwc = {CUDA_CONV_FORWARD, true, cuda_run_conv_add};
CONV_ROLE(backward, BACKWARD)
CONV_ROLE(weight, WEIGHT)
CONV_ROLE(transpose_weight, TRANSPOSE_WEIGHT)

static const cuda_int8_row int8_matmul_integer = {CUDA_INT8_SUMS, 1, cuda_run_matmul_integer};
static const cuda_int8_row int8_matmul_zero_points = {CUDA_INT8_SUMS, 1,
                                                      cuda_run_matmul_zero_points};
static const cuda_int8_row int8_qlinear_matmul = {CUDA_INT8_QUANTISE, QUANT_B,
                                                  cuda_run_qlinear_matmul};
static const cuda_int8_row int8_matmul_int = {CUDA_INT8_WRAP, 1, cuda_run_matmul_int};

#define RECURRENT_ROW(op)                                                                          \
  static const cuda_recurrent_row recurrent_##op = {cuda_recurrent_products, cuda_run_recurrent,   \
                                                    cuda_run_##op};                                \
  static const cuda_recurrent_row recurrent_##op##_grad = {                                        \
      cuda_recurrent_grad_products, cuda_run_recurrent_grad, cuda_run_##op##_grad};
RECURRENT_ROW(lstm)
RECURRENT_ROW(gru)
RECURRENT_ROW(rnn)

static const tn_kernel cuda_kernels[] = {
#include "kernels/cuda/rows.def"
    TABLE_OF_F16(exp),
    TABLE_OF_F16(exp2),
    TABLE_OF_F16(cosh),
    TABLE_OF_F16(selu),
    TABLE_OF_F16(tanh),
    TABLE_OF_F16(elu),
    TABLE(expm1),
    TABLE(log),
    TABLE(log2),
    TABLE(log10),
    TABLE(log1p),
    TABLE(erf),
    TABLE(erfc),
    TABLE(asinh),
    TABLE(acosh),
    TABLE(atanh),
    TABLE(sin),
    TABLE(cos),
    TABLE(tan),
    TABLE(asin),
    TABLE(acos),
    TABLE(atan),
    TABLE(gelu),
    TABLE(softplus),
    TABLE(mish),
    TABLE(celu),
    ROW(matmul, "cuda.matmul.small", vendor + 20, FLAGS_STRIDED, .run = cuda_run_matmul_small,
        .supports = cuda_matmul_small_supports,
        .note = "at most 64 rows and columns, 128 terms of a sum and 2^19 of all; no activation, "
                "relu, relu6 or hardswish"),
    ROW(matmul, "cuda.matmul.short", vendor + 15, FLAGS_STRIDED, .run = cuda_run_matmul_short,
        .supports = cuda_matmul_short_supports,
        .types = {TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32)},
        .note = "at most 2^30 multiplications that should take at most 7 us, 12 of floats and 8 "
                "where those may be TF32, 100 of at most 16 rows or columns of 16 bits; rows of "
                "operands begin at multiples of 16 bytes and have multiples of 16 bytes; "
                "without an activation or with relu"),
    ROW(matmul, "cuda.matmul.parts", vendor + 14, FLAGS_STRIDED, .run = cuda_run_matmul_parts,
        .workspace = cuda_matmul_parts_workspace, .supports = cuda_matmul_parts_supports,
        .types = {TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32)},
        .note =
            "sums of at least 4096 terms for at most 8 tiles of 64 rows and columns; of batches at "
            "most 32 of one tile each, or 64 of at most 4 each of floats; where cuBLASLt should "
            "take longer; operands as short products have them"),
    ROW(matmul, "cuda.matmul.cublaslt.strided", vendor + 10, FLAGS_STRIDED, .run = cuda_run_matmul,
        .workspace = cuda_matmul_workspace, .supports = cuda_matmul_supports),
    ROW(matmul, "cuda.matmul.cublaslt", vendor, FLAGS_DENSE, .run = cuda_run_matmul,
        .workspace = cuda_matmul_workspace),
    ROW(matmul_integer, "cuda.matmul_integer.short", vendor + 12, FLAGS_STRIDED,
        .run = cuda_run_matmul_integer_short, .supports = cuda_matmul_integer_is_short,
        .types = {TN_SET(TN_I8), TN_SET(TN_I8)},
        .note =
            "on devices of compute capability 9.0, signed bytes without zero points that should "
            "take at most 10 us, rows of multiples of 16 bytes, sums of a multiple of 16 terms"),
    ROW(matmul_integer, "cuda.matmul_integer.skinny", vendor + 10, FLAGS_STRIDED,
        .run = cuda_run_matmul_integer_skinny, .supports = cuda_matmul_integer_is_skinny,
        .types = {TN_SET(TN_I8), TN_SET(TN_I8)},
        .note = "signed bytes without zero points, at most 64 rows or 2^28 multiplications, 2^14 "
                "bytes of b or more in rows of a multiple of 4, sums of a multiple of 8 terms"),
    INT8(matmul_integer, FLAGS_STRIDED, ),
    INT8(matmul_zero_points, FLAGS_STRIDED, ),
    INT8(qlinear_matmul, FLAGS_STRIDED, ),
    INT8(matmul_int, FLAGS_DENSE, .types = {TN_SET(TN_I8) | TN_SET(TN_U8)}),
    ROW(matmul_scaled, "cuda.matmul_scaled.cublaslt", vendor, FLAGS_STRIDED,
        .run = cuda_run_matmul_f8, .workspace = cuda_matmul_f8_workspace,
        .types = {TN_SET_F8, TN_SET_F8, TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32)},
        .note = "as 8-bit floats where all are multiples of 16, not both operands "
                "are E5M2 and the device has compute capability 8.9, else in bfloat16"),
    SCATTER_ATOMIC(scatter_add, scatter, "in 16 bits half as many updates as y has elements"),
    SCATTER_ATOMIC(scatter_mul, scatter, "in 16 bits half as many updates as y has elements"),
    SCATTER_ATOMIC(scatter_nd_add, scatter_nd, "slices of less than 32 elements"),
    SCATTER_ATOMIC(scatter_nd_mul, scatter_nd, "slices of less than 32 elements"),
    RECURRENT(lstm, cuda_recurrent_is_large),
    RECURRENT(lstm_grad, cuda_recurrent_grad_is_large),
    RECURRENT(gru, cuda_recurrent_is_large),
    RECURRENT(gru_grad, cuda_recurrent_grad_is_large),
    RECURRENT(rnn, cuda_recurrent_is_large),
    RECURRENT(rnn_grad, cuda_recurrent_grad_is_large),
    ATTENTION_SPLIT,
    ROW(embedding_grad, "cuda.embedding_grad.few", own + 10, FLAGS_DENSE,
        .run = cuda_run_embedding_grad_few, .supports = cuda_embedding_grad_few_supports,
        HEEDS_ALL(embedding_grad), .note = "at most 64 indices"),
    ATTENTION(scaled_dot_product_attention),
    ATTENTION(scaled_dot_product_attention_grad),
    CONV_SMALL_OF(1, 0),
    CONV_SMALL_OF(2, TN_KERNEL_CHANNELS_LAST),
    CONV_SMALL_OF(3, 0),
    CONV_THIN(conv1d, forward, cuda_conv_is_thin),
    CONV(conv1d, forward, PLANNED),
    CONV(conv1d_grad_input, backward, ),
    CONV_THIN_WEIGHT(conv1d_grad_weight),
    CONV(conv1d_grad_weight, weight, ),
    CONV(conv_transpose1d, backward, ),
    CONV_THIN(conv_transpose1d_grad_input, forward, cuda_conv_is_thin),
    CONV(conv_transpose1d_grad_input, forward, ),
    CONV(conv_transpose1d_grad_weight, transpose_weight, ),
    CONV_DEPTHWISE_FORWARD(conv2d),
    CONV_THIN(conv2d, forward, cuda_conv_is_thin_image),
    CONV2D(conv2d, forward, TN_KERNEL_CHANNELS_LAST, PLANNED),
    CONV2D_WHERE(conv2d_add, add, cuda_conv_add_is_channels_last, TN_KERNEL_CHANNELS_LAST,
                 .supports = cuda_conv_add_is_planned,
                 .note = "results of 16 bits: 4096 elements or more; " WHERE_PLANNED),
    CONV_DEPTHWISE_BACKWARD(conv2d_grad_input),
    CONV_THIN(conv2d_grad_input, backward, cuda_conv_backward_is_planes),
    CONV2D(conv2d_grad_input, backward, TN_KERNEL_CHANNELS_LAST, ),
    CONV_DEPTHWISE(conv2d_grad_weight, conv_depthwise_weight, weight,
                   cuda_conv_weight_is_own_depthwise, 0,
                   .workspace = cuda_conv_depthwise_workspace),
    CONV_THIN_WEIGHT(conv2d_grad_weight),
    CONV2D(conv2d_grad_weight, weight, 0, ),
    CONV_DEPTHWISE_BACKWARD(conv_transpose2d),
    CONV_THIN(conv_transpose2d, backward, cuda_conv_backward_is_planes),
    CONV2D(conv_transpose2d, backward, TN_KERNEL_CHANNELS_LAST, ),
    CONV_DEPTHWISE_FORWARD(conv_transpose2d_grad_input),
    CONV_THIN(conv_transpose2d_grad_input, forward, cuda_conv_is_thin_image),
    CONV2D(conv_transpose2d_grad_input, forward, TN_KERNEL_CHANNELS_LAST, ),
    CONV_DEPTHWISE(conv_transpose2d_grad_weight, conv_depthwise_transpose_weight, transpose_weight,
                   cuda_conv_transpose_weight_is_own_depthwise, 0,
                   .workspace = cuda_conv_transpose_depthwise_workspace),
    CONV2D(conv_transpose2d_grad_weight, transpose_weight, 0, ),
    CONV_THIN(conv3d, forward, cuda_conv_is_thin),
    CONV(conv3d, forward, ROUNDS_ONCE),
    CONV(conv3d_grad_input, backward, ),
    CONV_THIN_WEIGHT(conv3d_grad_weight),
    CONV(conv3d_grad_weight, weight, ),
    CONV(conv_transpose3d, backward, ),
    CONV_THIN(conv_transpose3d_grad_input, forward, cuda_conv_is_thin),
    CONV(conv_transpose3d_grad_input, forward, ),
    CONV(conv_transpose3d_grad_weight, transpose_weight, ),
};

static const tn_backend *const backends[] = {&cuda_backend};

static const tn_plugin plugin = {
    .struct_size = sizeof(tn_plugin),
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "cuda",
    .version = TN_VERSION_STRING,
    .description = "NVIDIA GPUs: cuBLASLt, cuDNN and our own kernels",
    .backends = backends,
    .num_backends = 1,
    .kernels = cuda_kernels,
    .num_kernels = sizeof cuda_kernels / sizeof *cuda_kernels,
};

TN_PLUGIN_BRINGS("device:cuda kernels:cuda");

TN_PLUGIN_DEFINE("cuda") {
  (void)host;
  return &plugin;
}
