/*
 * The table of kernels and the plugin's entry. Rows of one operator stand in falling
 * priority: a vendor library where there is one, then our own kernel.
 */
#include "backends/cuda/backend.h"

enum { own = 200, direct = 100, vendor = 300 };

#define FLAGS_DENSE (TN_KERNEL_DETERMINISTIC | TN_KERNEL_CAPTURE_SAFE)
#define FLAGS_STRIDED (FLAGS_DENSE | TN_KERNEL_STRIDED)

#define ROW(NAME, row_name, rank, row_flags, ...)                                                  \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##NAME, .device_type = "cuda", .name = row_name, \
    .priority = rank, .flags = row_flags, __VA_ARGS__                                              \
  }
#define STRIDED(NAME, name) ROW(NAME, "cuda." #name, own, FLAGS_STRIDED, .run = cuda_run_##name),
#define DENSE(NAME, name) ROW(NAME, "cuda." #name, own, FLAGS_DENSE, .run = cuda_run_##name),
#define WITH_WORKSPACE(NAME, name, fn)                                                             \
  ROW(NAME, "cuda." #name, own, FLAGS_STRIDED, .run = cuda_run_##name, .workspace = fn),
#define DENSE_WITH_WORKSPACE(NAME, name, fn)                                                       \
  ROW(NAME, "cuda." #name, own, FLAGS_DENSE, .run = cuda_run_##name, .workspace = fn),
/* cuDNN's rows are deterministic because the plan takes only such algorithms while
 * the host asks for that. */
#define CONV(NAME, name, role)                                                                     \
  ROW(NAME, "cuda." #name ".cudnn", vendor, FLAGS_DENSE, .run = cuda_run_conv,                     \
      .workspace = cuda_conv_workspace, .user = &conv_##role),                                     \
      ROW(NAME, "cuda." #name ".direct", direct, FLAGS_STRIDED, .run = cuda_run_conv_##role)
/* Two axes: channels-last as well. */
#define CONV2D(NAME, name, role)                                                                   \
  ROW(NAME, "cuda." #name ".cudnn.nhwc", vendor + 10, FLAGS_STRIDED, .run = cuda_run_conv,         \
      .workspace = cuda_conv_workspace, .supports = cuda_conv_is_channels_last,                    \
      .types = {TN_SET(TN_F16) | TN_SET(TN_BF16) | TN_SET(TN_F32)}, .user = &conv_##role##_nhwc),  \
      CONV(NAME, name, role)
/* Our own kernels first where there is little to reuse. */
#define CONV_THIN(NAME, name, role, when)                                                          \
  ROW(NAME, "cuda." #name ".thin", vendor + 20, FLAGS_STRIDED, .run = cuda_run_conv_##role,        \
      .supports = when)

#define SORT(NAME, name, workspace_fn)                                                             \
  ROW(NAME, "cuda." #name, own, FLAGS_DENSE, .run = cuda_run_##name, .workspace = workspace_fn,    \
      .supports = cuda_sort_supports)

#define SCATTER(NAME, name, workspace_fn)                                                          \
  ROW(NAME, "cuda." #name, own, FLAGS_DENSE, .run = cuda_run_##name, .workspace = workspace_fn,    \
      .supports = cuda_scatter_supports)

#define MULTI(NAME, name)                                                                          \
  ROW(NAME, "cuda." #name, own, FLAGS_DENSE, .run = cuda_run_##name,                               \
      .supports = cuda_multi_supports)

#define CONV_ROLE(name, NAME)                                                                      \
  static const cuda_conv_row conv_##name = {CUDA_CONV_##NAME, false, cuda_run_conv_##name};        \
  static const cuda_conv_row conv_##name##_nhwc = {CUDA_CONV_##NAME, true, cuda_run_conv_##name};
CONV_ROLE(forward, FORWARD)
CONV_ROLE(backward, BACKWARD)
CONV_ROLE(weight, WEIGHT)
CONV_ROLE(transpose_weight, TRANSPOSE_WEIGHT)

static const tn_kernel cuda_kernels[] = {
#include "kernels/cuda/rows.def"
    /* These heed attributes that their operators got later. */
    ROW(SUM, "cuda.sum", own, FLAGS_STRIDED, .run = cuda_run_sum,
        .workspace = cuda_reduce_workspace, .attrs_size = sizeof(tn_sum_attrs)),
    ROW(PROD, "cuda.prod", own, FLAGS_STRIDED, .run = cuda_run_prod,
        .workspace = cuda_reduce_workspace, .attrs_size = sizeof(tn_prod_attrs)),
    ROW(CUMSUM, "cuda.cumsum", own, FLAGS_DENSE, .run = cuda_run_cumsum,
        .workspace = cuda_scan_workspace, .attrs_size = sizeof(tn_cumsum_attrs)),
    ROW(CUMPROD, "cuda.cumprod", own, FLAGS_DENSE, .run = cuda_run_cumprod,
        .workspace = cuda_scan_workspace, .attrs_size = sizeof(tn_cumprod_attrs)),
    ROW(MATMUL, "cuda.matmul.cublaslt.strided", vendor + 10, FLAGS_STRIDED, .run = cuda_run_matmul,
        .workspace = cuda_matmul_workspace, .supports = cuda_matmul_supports),
    ROW(MATMUL, "cuda.matmul.cublaslt", vendor, FLAGS_DENSE, .run = cuda_run_matmul,
        .workspace = cuda_matmul_workspace),
    ROW(DOT, "cuda.dot", own, FLAGS_STRIDED, .run = cuda_run_dot, .supports = cuda_dot_supports),
    ROW(EMBEDDING_GRAD, "cuda.embedding_grad", own, FLAGS_DENSE, .run = cuda_run_embedding_grad,
        .workspace = cuda_embedding_grad_workspace, .supports = cuda_embedding_grad_supports,
        .attrs_size = sizeof(tn_embedding_grad_attrs)),
    ROW(SCALED_DOT_PRODUCT_ATTENTION, "cuda.scaled_dot_product_attention", own, FLAGS_DENSE,
        .run = cuda_run_scaled_dot_product_attention, .supports = cuda_attention_supports,
        .attrs_size = sizeof(tn_scaled_dot_product_attention_attrs)),
    ROW(SCALED_DOT_PRODUCT_ATTENTION_GRAD, "cuda.scaled_dot_product_attention_grad", own,
        FLAGS_DENSE, .run = cuda_run_scaled_dot_product_attention_grad,
        .workspace = cuda_attention_grad_workspace, .supports = cuda_attention_grad_supports,
        .attrs_size = sizeof(tn_scaled_dot_product_attention_grad_attrs)),
    CONV_THIN(CONV1D, conv1d, forward, cuda_conv_is_thin),
    CONV(CONV1D, conv1d, forward),
    CONV(CONV1D_GRAD_INPUT, conv1d_grad_input, backward),
    CONV_THIN(CONV1D_GRAD_WEIGHT, conv1d_grad_weight, weight, cuda_conv_weight_is_thin),
    CONV(CONV1D_GRAD_WEIGHT, conv1d_grad_weight, weight),
    CONV(CONV_TRANSPOSE1D, conv_transpose1d, backward),
    CONV_THIN(CONV_TRANSPOSE1D_GRAD_INPUT, conv_transpose1d_grad_input, forward, cuda_conv_is_thin),
    CONV(CONV_TRANSPOSE1D_GRAD_INPUT, conv_transpose1d_grad_input, forward),
    CONV(CONV_TRANSPOSE1D_GRAD_WEIGHT, conv_transpose1d_grad_weight, transpose_weight),
    CONV_THIN(CONV2D, conv2d, forward, cuda_conv_is_thin),
    CONV2D(CONV2D, conv2d, forward),
    CONV2D(CONV2D_GRAD_INPUT, conv2d_grad_input, backward),
    CONV_THIN(CONV2D_GRAD_WEIGHT, conv2d_grad_weight, weight, cuda_conv_weight_is_thin),
    CONV2D(CONV2D_GRAD_WEIGHT, conv2d_grad_weight, weight),
    CONV2D(CONV_TRANSPOSE2D, conv_transpose2d, backward),
    CONV_THIN(CONV_TRANSPOSE2D_GRAD_INPUT, conv_transpose2d_grad_input, forward, cuda_conv_is_thin),
    CONV2D(CONV_TRANSPOSE2D_GRAD_INPUT, conv_transpose2d_grad_input, forward),
    CONV2D(CONV_TRANSPOSE2D_GRAD_WEIGHT, conv_transpose2d_grad_weight, transpose_weight),
    CONV_THIN(CONV3D, conv3d, forward, cuda_conv_is_thin),
    CONV(CONV3D, conv3d, forward),
    CONV(CONV3D_GRAD_INPUT, conv3d_grad_input, backward),
    CONV_THIN(CONV3D_GRAD_WEIGHT, conv3d_grad_weight, weight, cuda_conv_weight_is_thin),
    CONV(CONV3D_GRAD_WEIGHT, conv3d_grad_weight, weight),
    CONV(CONV_TRANSPOSE3D, conv_transpose3d, backward),
    CONV_THIN(CONV_TRANSPOSE3D_GRAD_INPUT, conv_transpose3d_grad_input, forward, cuda_conv_is_thin),
    CONV(CONV_TRANSPOSE3D_GRAD_INPUT, conv_transpose3d_grad_input, forward),
    CONV(CONV_TRANSPOSE3D_GRAD_WEIGHT, conv_transpose3d_grad_weight, transpose_weight),
    SCATTER(SCATTER, scatter, cuda_scatter_workspace),
    SCATTER(SCATTER_ADD, scatter_add, cuda_scatter_add_workspace),
    SCATTER(SCATTER_MAX, scatter_max, NULL),
    SCATTER(INDEX_ADD, index_add, cuda_index_add_workspace),
    MULTI(MULTI_SGD, multi_sgd),
    MULTI(MULTI_ADAM, multi_adam),
    MULTI(MULTI_ADAMW, multi_adamw),
    MULTI(MULTI_RMSPROP, multi_rmsprop),
    MULTI(MULTI_ADAGRAD, multi_adagrad),
    SORT(SORT, sort, cuda_sort_workspace),
    SORT(ARGSORT, argsort, cuda_sort_workspace),
    SORT(TOPK, topk, cuda_sort_workspace),
    SORT(UNIQUE, unique, cuda_unique_workspace),
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
