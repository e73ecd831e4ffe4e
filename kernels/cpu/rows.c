/*
 * The table of kernels that this build of the folder exports.
 */
#include "kernels/cpu/cpu.h"

#if TN_ISA_LEVEL == 2
#define PRIORITY 210
#elif TN_ISA_LEVEL == 1
#define PRIORITY 200
#else
#define PRIORITY 100
#endif
#define PRIORITY_BLAS 300
/* Above vendors' kernels, which get copies of images that lie so. */
#define PRIORITY_LAST (PRIORITY + 220)

/* The element types of a row: its own of the first type variable, the operator's of all others. */
#define LIST(...) __VA_ARGS__
#define REST_OF(first, ...) __VA_ARGS__
#define REST(...) REST_OF(__VA_ARGS__, 0)
#define ROW_TYPES(op, DTYPE) (TN_SET(TN_##DTYPE), REST(TN_TYPES_##op))

#define ROW_AS(stem, d, types_, kernel_flags, rank, suffix, ...)                                   \
  {.struct_size = sizeof(tn_kernel),                                                               \
   .op = TN_OP_##stem,                                                                             \
   .device_type = "cpu",                                                                           \
   .name = "cpu." #stem "." #d "." suffix,                                                         \
   .priority = rank,                                                                               \
   .flags = (kernel_flags) | TN_KERNEL_DETERMINISTIC,                                              \
   .types = {LIST types_},                                                                         \
   .run = ISA(stem##_##d),                                                                         \
   __VA_ARGS__},
#define ROW(op, flags, d, DTYPE)                                                                   \
  ROW_AS(op, d, ROW_TYPES(op, DTYPE), flags, PRIORITY, CPU_STRING(TN_ISA), )
#define ROW_HEEDS(op, flags, d, DTYPE)                                                             \
  ROW_AS(op, d, ROW_TYPES(op, DTYPE), flags, PRIORITY, CPU_STRING(TN_ISA),                         \
         .attrs_size = sizeof(tn_##op##_attrs))
#define ROW_ANY_HEEDS(op, flags)                                                                   \
  ROW_AS(op, any, (TN_TYPES_##op), flags, PRIORITY, CPU_STRING(TN_ISA),                            \
         .attrs_size = sizeof(tn_##op##_attrs))
#define ROW_ANY(op, flags) ROW_AS(op, any, (TN_TYPES_##op), flags, PRIORITY, CPU_STRING(TN_ISA), )
#define ROW_LAST_AS(op_name, d, types_, kernel_flags)                                              \
  {.struct_size = sizeof(tn_kernel),                                                               \
   .op = TN_OP_##op_name,                                                                          \
   .device_type = "cpu",                                                                           \
   .name = "cpu." #op_name "_last." #d "." CPU_STRING(TN_ISA),                                     \
   .priority = PRIORITY_LAST,                                                                      \
   .flags = (kernel_flags) | TN_KERNEL_DETERMINISTIC,                                              \
   .types = {LIST types_},                                                                         \
   .run = ISA(op_name##_last_##d),                                                                 \
   .supports = ISA(last_supports),                                                                 \
   .note = "images with channels last"},
#define ROW_LAST(op, flags, d, DTYPE) ROW_LAST_AS(op, d, ROW_TYPES(op, DTYPE), flags)
#define ROW_ANY_LAST(op, flags) ROW_LAST_AS(op, any, (TN_TYPES_##op), flags)
#define ROW_MULTI(op)                                                                              \
  ROW_AS(op, any, (TN_TYPES_##op), 0, PRIORITY, CPU_STRING(TN_ISA),                                \
         .supports = ISA(multi_supports), .attrs_size = sizeof(tn_##op##_attrs),                   \
         .note = "state of the type that goes with the parameters")
#define ROW_BLAS(op, flags, d, DTYPE)                                                              \
  ROW_AS(op, d, ROW_TYPES(op, DTYPE), flags, PRIORITY_BLAS, "openblas",                            \
         .supports = ISA(matmul_supports), .note = "extents and strides below 2^30")

const tn_kernel ISA(cpu_kernels)[] = {
#include "kernels/cpu/rows.def"
};

const uint32_t ISA(cpu_kernels_count) = sizeof ISA(cpu_kernels) / sizeof ISA(cpu_kernels)[0];
