/* Products on the device, in place where it has the host's memory and by copies elsewhere. */
#include "product.h"

#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "report.h"

_Thread_local unsigned products_done;

/* Inside a product of this thread: a backend that calls BLAS itself gets the host's. */
static _Thread_local bool inside;
/* What the last failure of this thread said. */
static _Thread_local char why[256];

double product_flops(element type, int64_t m, int64_t n, int64_t k) {
  return (element_is_complex(type) ? 8.0 : 2.0) * (double)m * (double)n * (double)k;
}

double product_bytes(element type, int64_t m, int64_t n, int64_t k) {
  bool is_complex = element_is_complex(type);
  double part = element_dtype(type) == TN_F64 ? sizeof(double) : sizeof(float);
  double a = (double)m * (double)k * (is_complex ? 4 : 1);
  double b_and_c = (double)n * ((double)k + (double)m) * (is_complex ? 2 : 1);
  return part * (a + b_and_c);
}

static tn_status multiply(const product *p, tn_tensor *const factors[2], tn_tensor **y) {
  tn_matmul_attrs attrs = TN_MATMUL_DEFAULTS;
  if (!element_is_complex(p->type)) attrs.trans_a = p->tb != 'N', attrs.trans_b = p->ta != 'N';
  return tn_matmul(NULL, factors[0], factors[1], NULL, &attrs, y);
}

/* ------------------------------------------------------------------ in place --- */

/* A factor's memory as a tensor: DLPack's struct with what it points to. */
typedef struct lent {
  DLManagedTensorVersioned managed;
  int64_t shape[2], strides[2];
} lent;

static void take_back(DLManagedTensorVersioned *managed) { free(managed->manager_ctx); }

static tn_status lend(device *d, const operand *o, tn_tensor **tensor) {
  lent *l = calloc(1, sizeof *l);
  if (!l) return TN_ERR_OUT_OF_MEMORY;
  *l = (lent){.shape = {o->rows, o->columns}, .strides = {o->stride, 1}};
  l->managed.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  l->managed.manager_ctx = l;
  l->managed.deleter = take_back;
  l->managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  l->managed.dl_tensor = (DLTensor){.data = (void *)o->data,
                                    .device = d->dl_device,
                                    .ndim = 2,
                                    .dtype = tn_dtype_to_dlpack(o->dtype),
                                    .shape = l->shape,
                                    .strides = l->strides};
  tn_status status = tn_tensor_from_dlpack(d->runtime, &l->managed, tensor);
  if (status) free(l);
  return status;
}

static tn_status expand(device *d, const operand *o, tn_tensor **tensor) {
  int64_t shape[2] = {o->rows, o->columns};
  tn_status status = tn_tensor_empty(d->handle, o->dtype, 2, shape, tensor);
  if (status) return status;
  operand_pack(o, (piece){0, o->rows, 0, o->columns}, tn_tensor_data(*tensor));
  return TN_OK;
}

static tn_status run_in_place(device *d, const product *p) {
  operand operands[2];
  tn_tensor *factors[2] = {NULL, NULL}, *y = NULL;
  tn_status status = TN_OK;
  operands_of(p, operands);
  for (int i = 0; !status && i < 2; ++i)
    status = (operands[i].packing == PACK_AS_IT_IS ? lend : expand)(d, &operands[i], &factors[i]);
  if (!status) status = multiply(p, factors, &y);
  const void *data = status ? NULL : tn_tensor_data(y);
  if (!status && !data) status = TN_ERR_BACKEND;
  if (!status) {
    const int64_t *shape = tn_tensor_shape(y);
    product_merge(p, (piece){0, shape[0], 0, shape[1]}, data);
  }
  tn_tensor_release(y);
  tn_tensor_release(factors[1]);
  tn_tensor_release(factors[0]);
  if (status) snprintf(why, sizeof why, "%s", tn_last_error());
  return status;
}

/* ------------------------------------------------------------------ by copies --- */

/* Everything that the product takes is there before the first byte is copied. */
static tn_status make_tensors(device *d, const product *p, const operand operands[2],
                              tn_tensor *tensors[3]) {
  int64_t y_shape[2] = {p->n, element_is_complex(p->type) ? 2 * p->m : p->m};
  tn_status status = TN_OK;
  for (int i = 0; !status && i < 2; ++i) {
    int64_t shape[2] = {operands[i].rows, operands[i].columns};
    status = tn_tensor_empty(d->handle, operands[i].dtype, 2, shape, &tensors[i]);
  }
  return status ? status : tn_tensor_empty(d->handle, operands[0].dtype, 2, y_shape, &tensors[2]);
}

static tn_status run_copied_locked(device *d, const product *p) {
  operand operands[2];
  d->crew.why[0] = '\0';
  tn_tensor *tensors[3] = {NULL, NULL, NULL};
  operands_of(p, operands);
  tn_status status = crew_make(&d->crew, d->handle);
  if (!status) status = make_tensors(d, p, operands, tensors);
  if (!status) status = crew_upload(&d->crew, 2, operands, tensors);
  if (!status) status = multiply(p, tensors, &tensors[2]);
  if (!status) status = tn_stream_synchronize(tn_device_default_stream(d->handle));
  if (!status) status = crew_download(&d->crew, tensors[2], p);
  for (int i = 0; i < 3; ++i) tn_tensor_release(tensors[i]);
  return status;
}

static tn_status run_copied(device *d, const product *p) {
  pthread_mutex_lock(&d->crew.lock);
  tn_status status = run_copied_locked(d, p);
  if (status) snprintf(why, sizeof why, "%s", *d->crew.why ? d->crew.why : tn_last_error());
  pthread_mutex_unlock(&d->crew.lock);
  return status;
}

/* ------------------------------------------------------------------ either --- */

tn_status product_try(const product *p) {
  device *d = device_get();
  if (!d) return TN_ERR_NOT_FOUND;
  inside = true;
  tn_status status = d->host_memory ? run_in_place(d, p) : run_copied(d, p);
  inside = false;
  return status;
}

bool product_run(const product *p) {
  if (inside) return false;
  tn_status status = product_try(p);
  if (status) {
    device_failed(p->type, status, why);
    return false;
  }
  ++products_done;
  double copied = device_get()->host_memory ? 0 : product_bytes(p->type, p->m, p->n, p->k);
  report_device(product_flops(p->type, p->m, p->n, p->k), (uint64_t)copied);
  return true;
}
