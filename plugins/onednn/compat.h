/*
 * What differs between oneDNN 2 and 3, said once. In 2 a memory descriptor is a struct and
 * an operation is described before its primitive is; in 3 descriptors are handles and both
 * steps are one. Only the threading runtimes that can be held to the calling thread serve.
 */
#ifndef TENON_ONEDNN_COMPAT_H
#define TENON_ONEDNN_COMPAT_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stddef.h>

#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
/* The calling thread's own setting: regions it begins have one thread, which is itself, so
 * none is made. Given back because the thread is the host program's. */
static inline int threads_hold(void) {
  int before = omp_get_max_threads();
  if (before != 1) omp_set_num_threads(1);
  return before;
}
static inline void threads_release(int before) {
  if (before != 1) omp_set_num_threads(before);
}
#elif DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_SEQ
static inline int threads_hold(void) { return 1; }
static inline void threads_release(int before) { (void)before; }
#else
#error "this oneDNN brings threads of its own: build it with OMP or SEQ as CPU runtime"
#endif

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t layout_ref;
static inline layout_ref layout_of(const layout *l) { return *l; }
static inline void layout_free(layout *l) {
  if (*l) (void)dnnl_memory_desc_destroy(*l);
  *l = NULL;
}
static inline dnnl_status_t layout_copy(layout *l, layout_ref of) {
  return dnnl_memory_desc_clone(l, of);
}
#else
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_ref;
static inline layout_ref layout_of(const layout *l) { return l; }
static inline void layout_free(layout *l) { (void)l; }
static inline dnnl_status_t layout_copy(layout *l, layout_ref of) { return *l = *of, dnnl_success; }
#endif

/* strides NULL: whatever the primitive likes best. */
static inline dnnl_status_t layout_make(layout *l, int rank, const int64_t *size,
                                        dnnl_data_type_t type, const int64_t *strides) {
  dnnl_dims_t dims = {0}, steps = {0}; /* oneDNN reads whole arrays of its own length */
  for (int d = 0; d < rank; d++) dims[d] = size[d], steps[d] = strides ? strides[d] : 0;
#if DNNL_VERSION_MAJOR >= 3
  if (!strides) return dnnl_memory_desc_create_with_tag(l, rank, dims, type, dnnl_format_tag_any);
  return dnnl_memory_desc_create_with_strides(l, rank, dims, type, steps);
#else
  if (!strides) return dnnl_memory_desc_init_by_tag(l, rank, dims, type, dnnl_format_tag_any);
  return dnnl_memory_desc_init_by_strides(l, rank, dims, type, steps);
#endif
}

typedef enum conv_role { CONV_FORWARD, CONV_BACKWARD_DATA, CONV_BACKWARD_WEIGHTS } conv_role;

/* A convolution's layouts and window; bias may be NULL. */
typedef struct conv_desc {
  conv_role role;
  layout_ref src, weights, bias, dst;
  const int64_t *strides, *dilates, *padding_l, *padding_r;
} conv_desc;

/* A mean over windows. */
typedef struct pool_desc {
  dnnl_alg_kind_t kind;
  layout_ref src, dst;
  const int64_t *strides, *kernel, *padding;
} pool_desc;

#if DNNL_VERSION_MAJOR >= 3
static inline dnnl_status_t pool_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                          const pool_desc *p, dnnl_primitive_attr_t attr) {
  const dnnl_dims_t dense = {0};
  return dnnl_pooling_forward_primitive_desc_create(pd, engine, dnnl_forward_inference, p->kind,
                                                    p->src, p->dst, p->strides, p->kernel, dense,
                                                    p->padding, p->padding, attr);
}

static inline dnnl_status_t conv_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                          const conv_desc *c, dnnl_primitive_desc_t forward,
                                          dnnl_primitive_attr_t attr) {
  if (c->role == CONV_FORWARD)
    return dnnl_convolution_forward_primitive_desc_create(
        pd, engine, dnnl_forward_training, dnnl_convolution_direct, c->src, c->weights, c->bias,
        c->dst, c->strides, c->dilates, c->padding_l, c->padding_r, attr);
  if (c->role == CONV_BACKWARD_DATA)
    return dnnl_convolution_backward_data_primitive_desc_create(
        pd, engine, dnnl_convolution_direct, c->src, c->weights, c->dst, c->strides, c->dilates,
        c->padding_l, c->padding_r, forward, attr);
  return dnnl_convolution_backward_weights_primitive_desc_create(
      pd, engine, dnnl_convolution_direct, c->src, c->weights, NULL, c->dst, c->strides, c->dilates,
      c->padding_l, c->padding_r, forward, attr);
}

static inline dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                            layout_ref a, layout_ref b, layout_ref bias,
                                            layout_ref y, dnnl_primitive_attr_t attr) {
  return dnnl_matmul_primitive_desc_create(pd, engine, a, b, bias, y, attr);
}

static inline dnnl_status_t attr_zero_point(dnnl_primitive_attr_t attr, int arg) {
  return dnnl_primitive_attr_set_zero_points_mask(attr, arg, 0);
}
#else
static inline dnnl_status_t pool_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                          const pool_desc *p, dnnl_primitive_attr_t attr) {
  dnnl_pooling_desc_t op;
  dnnl_status_t status =
      dnnl_pooling_forward_desc_init(&op, dnnl_forward_inference, p->kind, p->src, p->dst,
                                     p->strides, p->kernel, p->padding, p->padding);
  return status ? status : dnnl_primitive_desc_create(pd, &op, attr, engine, NULL);
}

static inline dnnl_status_t conv_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                          const conv_desc *c, dnnl_primitive_desc_t forward,
                                          dnnl_primitive_attr_t attr) {
  dnnl_convolution_desc_t op;
  dnnl_status_t status;
  if (c->role == CONV_FORWARD)
    status = dnnl_dilated_convolution_forward_desc_init(
        &op, dnnl_forward_training, dnnl_convolution_direct, c->src, c->weights, c->bias, c->dst,
        c->strides, c->dilates, c->padding_l, c->padding_r);
  else if (c->role == CONV_BACKWARD_DATA)
    status = dnnl_dilated_convolution_backward_data_desc_init(
        &op, dnnl_convolution_direct, c->src, c->weights, c->dst, c->strides, c->dilates,
        c->padding_l, c->padding_r);
  else
    status = dnnl_dilated_convolution_backward_weights_desc_init(
        &op, dnnl_convolution_direct, c->src, c->weights, NULL, c->dst, c->strides, c->dilates,
        c->padding_l, c->padding_r);
  return status ? status : dnnl_primitive_desc_create(pd, &op, attr, engine, forward);
}

static inline dnnl_status_t matmul_describe(dnnl_primitive_desc_t *pd, dnnl_engine_t engine,
                                            layout_ref a, layout_ref b, layout_ref bias,
                                            layout_ref y, dnnl_primitive_attr_t attr) {
  dnnl_matmul_desc_t op;
  dnnl_status_t status = dnnl_matmul_desc_init(&op, a, b, bias, y);
  return status ? status : dnnl_primitive_desc_create(pd, &op, attr, engine, NULL);
}

static inline dnnl_status_t attr_zero_point(dnnl_primitive_attr_t attr, int arg) {
  const int32_t later = DNNL_RUNTIME_S32_VAL;
  return dnnl_primitive_attr_set_zero_points(attr, arg, 1, 0, &later);
}
#endif

#endif
