/*
 * The scalars of value 1 that stand for inputs which callers leave out (TN_ARG_OR_ONE): one per
 * device and element type, made when first wanted and kept until the runtime closes, so that a
 * call holds nothing that it must give back.
 */
#include "dispatcher/tensor/ones.h"

#include <string.h>

#include "dispatcher/device/stream.h"
#include "dispatcher/objects/device.h"

/* 1 as an element of the type, in the first bytes. */
static uint64_t one_bits(tn_dtype dtype) {
  const double f64 = 1;
  const float f32 = 1;
  uint64_t bits = 1;
  if (dtype == TN_F16) bits = 0x3c00;
  if (dtype == TN_BF16) bits = 0x3f80;
  if (dtype == TN_F8_E4M3) bits = 0x38;
  if (dtype == TN_F8_E5M2) bits = 0x3c;
  if (dtype == TN_F32) memcpy(&bits, &f32, sizeof f32);
  if (dtype == TN_F64) memcpy(&bits, &f64, sizeof f64);
  return bits;
}

/* Written before any stream can read it. */
static tn_status make_one(tn_device *device, tn_dtype dtype, tn_tensor **one) {
  const uint64_t bits = one_bits(dtype);
  tn_status status = tn_tensor_from_host(device, dtype, 0, NULL, &bits, one);
  if (status) return status;
  status = stream_wait(device->default_stream);
  if (status) tn_tensor_release(*one);
  return status;
}

tn_status device_one(tn_device *device, tn_dtype dtype, const tn_tensor **one) {
  _Atomic(tn_tensor *) *kept = &device->ones[dtype];
  tn_tensor *made, *other = NULL;
  if ((*one = atomic_load_explicit(kept, memory_order_acquire))) return TN_OK;
  tn_status status = make_one(device, dtype, &made);
  if (status) return status;
  *one = made;
  if (atomic_compare_exchange_strong(kept, &other, made)) return TN_OK;
  *one = other; /* another thread's */
  tn_tensor_release(made);
  return TN_OK;
}

void device_release_ones(tn_device *device) {
  for (size_t i = 0; i < sizeof device->ones / sizeof *device->ones; ++i)
    tn_tensor_release(atomic_exchange(&device->ones[i], NULL));
}
