/*
 * Kernels of Intel's oneDNN for the device type cpu. A kernel stands before ours where it was
 * measured to be faster (README.md says where and how) and leaves every other call to ours.
 */
#include "onednn.h"
#include "plan.h"

/* Values of dnnl_cpu_isa_t are sets of bits that hold those of all they build on. */
static bool may_use(dnnl_cpu_isa_t isa) {
  return ((unsigned)dnnl_get_effective_cpu_isa() & (unsigned)isa) == (unsigned)isa;
}

bool onednn_has_avx512(void) { return may_use(dnnl_cpu_isa_avx512_core); }
bool onednn_has_vnni(void) { return may_use(dnnl_cpu_isa_avx512_core_vnni); }
bool onednn_has_amx(void) { return may_use(dnnl_cpu_isa_avx512_core_amx); }
bool onednn_doubles_bf16(void) {
  return __builtin_cpu_is("amd") && may_use(dnnl_cpu_isa_avx512_core_bf16);
}

/* One more than OpenBLAS, which the backend gives 300. */
#define PRIORITY 310

static const conv_row forward = {CONV_FORWARD, false}, backward = {CONV_BACKWARD_DATA, false},
                      weights = {CONV_BACKWARD_WEIGHTS, false},
                      transpose_weights = {CONV_BACKWARD_WEIGHTS, true};

/* The rules of conv_choice.c, and of is_faster in product.c, in words. */
#define GROUPS "faster than ours with AVX-512 for depthwise and groups of 8 channels or more"
#define NOTE_forward GROUPS ", and where a patch has 128 elements or more"
#define NOTE_last NOTE_forward "; with channels last from 8 channels of results on"
#define NOTE_backward GROUPS ", and from 16 channels on either side on"
#define NOTE_weights GROUPS ", and windows above 1 with a patch of more than 48 elements"
#define NOTE_weights_bf16 GROUPS ", and windows above 1 with a patch of more than 128 elements"
#define NOTE_bf16 GROUPS ", and on AMD's with AVX512-BF16 as in f32"
#define NOTE_THIN "faster than OpenBLAS with AVX-512 for products of 10^6 terms or more "

#define ROW(OP, row_name, set, row_run, row_supports, ...)                                         \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##OP, .device_type = "cpu",                      \
    .name = "onednn." row_name, .priority = PRIORITY,                                              \
    .flags = TN_KERNEL_STRIDED | TN_KERNEL_DETERMINISTIC, .types = set, .run = row_run,            \
    .supports = row_supports, __VA_ARGS__                                                          \
  }
#define ONLY(...)                                                                                  \
  { __VA_ARGS__ }
#define CONV_F32(OP, name, role, text)                                                             \
  ROW(OP, name ".f32", ONLY(TN_SET(TN_F32)), conv_run, conv_supports, .user = &role, .note = text)
#define CONV(OP, name, role, note_f32, note_bf16)                                                  \
  CONV_F32(OP, name, role, note_f32), ROW(OP, name ".bf16", ONLY(TN_SET(TN_BF16)), conv_run,       \
                                          conv_supports, .user = &role, .note = note_bf16)
/* Row-major tensors, which the host sees to. */
#define AVG_POOL(OP, row_name, set)                                                                \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##OP, .device_type = "cpu",                      \
    .name = "onednn." row_name, .priority = PRIORITY, .flags = TN_KERNEL_DETERMINISTIC,            \
    .types = {set}, .run = avg_pool_run, .supports = avg_pool_supports,                            \
    .note = "faster than ours with AVX-512 for 10^5 window elements or more; not with ceil_mode"   \
  }
#define AVG_POOLS(OP, stem)                                                                        \
  AVG_POOL(OP, stem ".f32", TN_SET(TN_F32)), AVG_POOL(OP, stem ".bf16", TN_SET(TN_BF16))
/* Of these, those of a convolution heed its activation. */
#define FORWARD(OP, name) CONV(OP, name, forward, NOTE_forward, NOTE_bf16)
#define ACTIVATED_AS(OP, op, name, set, text)                                                      \
  ROW(OP, name, ONLY(set), conv_run, conv_supports, .user = &forward, .note = text,                \
      .attrs_size = sizeof(tn_##op##_attrs))
#define ACTIVATED_BF16(OP, op, name) ACTIVATED_AS(OP, op, name ".bf16", TN_SET(TN_BF16), NOTE_bf16)
#define ACTIVATED(OP, op, name)                                                                    \
  ACTIVATED_AS(OP, op, name ".f32", TN_SET(TN_F32), NOTE_forward), ACTIVATED_BF16(OP, op, name)
/* Images of two axes in f32, which are also taken as they lie with channels last. */
#define CONV2D_F32(OP, op_name)                                                                    \
  {                                                                                                \
    .struct_size = sizeof(tn_kernel), .op = TN_OP_##OP, .device_type = "cpu",                      \
    .name = "onednn." #op_name ".f32", .priority = PRIORITY,                                       \
    .flags = TN_KERNEL_STRIDED | TN_KERNEL_DETERMINISTIC | TN_KERNEL_CHANNELS_LAST,                \
    .types = {TN_SET(TN_F32)}, .run = conv_run, .supports = conv_supports, .user = &forward,       \
    .note = NOTE_last, .attrs_size = sizeof(tn_##op_name##_attrs)                                  \
  }
#define BACKWARD(OP, name) CONV(OP, name, backward, NOTE_backward, NOTE_bf16)
#define WEIGHTS(OP, name, role) CONV(OP, name, role, NOTE_weights, NOTE_weights_bf16)
/* Three axes in bf16 have no row: oneDNN 2.6 is wrong there with AMX and without, where windows
 * reach past an image, and past its own buffers too. 3.2 mended some of it. */
#define WEIGHTS_F32(OP, name, role)                                                                \
  CONV_F32(OP, name, role, NOTE_weights "; not with stride and padding along the depth")

static const tn_kernel kernels[] = {
    ROW(MATMUL, "matmul.f32", ONLY(TN_SET(TN_F32)), matmul_run, matmul_supports,
        .note =
            NOTE_THIN "with a side of 2 to 128 or a depth up to that, and a side below 8, a "
                      "depth above 384 or a result of 2^19 elements; of sums of 512 terms along "
                      "which both are dense, those of 2 or 3 rows or columns, or of 25 to 64 "
                      "columns"),
    ROW(MATMUL, "matmul.bf16", ONLY(TN_SET(TN_BF16)), matmul_run, matmul_supports,
        .note = NOTE_THIN "with a side up to 32; of even depth, of 32 with AMX"),
    ROW(MATMUL_INTEGER, "matmul_integer", ONLY(0, TN_SET(TN_I8)), matmul_integer_run,
        matmul_integer_supports,
        .note =
            "faster than ours with AMX for products of 10^5 terms or more, with AVX-512 VNNI for "
            "those of one row or of depth up to 64"),
    /* Of f32 and one axis oneDNN has plain loops alone, which take 4 to 9 times as long as ours. */
    AVG_POOL(AVG_POOL1D, "avg_pool1d.bf16", TN_SET(TN_BF16)),
    AVG_POOLS(AVG_POOL2D, "avg_pool2d"),
    AVG_POOLS(AVG_POOL3D, "avg_pool3d"),
    ACTIVATED(CONV1D, conv1d, "conv1d"),
    BACKWARD(CONV1D_GRAD_INPUT, "conv1d_grad_input"),
    WEIGHTS(CONV1D_GRAD_WEIGHT, "conv1d_grad_weight", weights),
    CONV2D_F32(CONV2D, conv2d),
    CONV2D_F32(CONV2D_ADD, conv2d_add),
    ACTIVATED_BF16(CONV2D, conv2d, "conv2d"),
    BACKWARD(CONV2D_GRAD_INPUT, "conv2d_grad_input"),
    WEIGHTS(CONV2D_GRAD_WEIGHT, "conv2d_grad_weight", weights),
    ACTIVATED(CONV3D, conv3d, "conv3d"),
    BACKWARD(CONV3D_GRAD_INPUT, "conv3d_grad_input"),
    WEIGHTS_F32(CONV3D_GRAD_WEIGHT, "conv3d_grad_weight", weights),
    BACKWARD(CONV_TRANSPOSE1D, "conv_transpose1d"),
    FORWARD(CONV_TRANSPOSE1D_GRAD_INPUT, "conv_transpose1d_grad_input"),
    WEIGHTS(CONV_TRANSPOSE1D_GRAD_WEIGHT, "conv_transpose1d_grad_weight", transpose_weights),
    BACKWARD(CONV_TRANSPOSE2D, "conv_transpose2d"),
    FORWARD(CONV_TRANSPOSE2D_GRAD_INPUT, "conv_transpose2d_grad_input"),
    WEIGHTS(CONV_TRANSPOSE2D_GRAD_WEIGHT, "conv_transpose2d_grad_weight", transpose_weights),
    BACKWARD(CONV_TRANSPOSE3D, "conv_transpose3d"),
    FORWARD(CONV_TRANSPOSE3D_GRAD_INPUT, "conv_transpose3d_grad_input"),
    WEIGHTS_F32(CONV_TRANSPOSE3D_GRAD_WEIGHT, "conv_transpose3d_grad_weight", transpose_weights),
};

static const tn_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_min = TN_ABI_VERSION_MIN,
    .abi_max = TN_ABI_VERSION,
    .name = "onednn",
    .version = TN_VERSION_STRING,
    .description = "Kernels of oneDNN for the cpu device, where they are faster",
    .kernels = kernels,
    .num_kernels = sizeof kernels / sizeof *kernels,
    .open = plans_open,
    .close = plans_close,
};

TN_PLUGIN_BRINGS("kernels:cpu");

TN_PLUGIN_DEFINE("onednn") {
  if (!TN_HAS_FIELD(host, tn_host, plugin_context)) {
    host->fail(TN_ERR_UNSUPPORTED, "it needs a newer Tenon: this one has no plugin_context");
    return NULL;
  }
  return &plugin;
}
