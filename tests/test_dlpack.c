/* DLPack both ways, both structs; the layout against the distribution's header. */
#include "tests/support.h"

static tn_runtime *rt;
static tn_device *dev;
static void setup(void) { rt = open_host_runtime(), dev = tn_runtime_device(rt); }
static void teardown(void) { tn_runtime_close(rt); }

_Static_assert(offsetof(DLTensor, byte_offset) == 40 && sizeof(DLTensor) == 48, "DLPack 1.x ABI");
_Static_assert(offsetof(DLManagedTensorVersioned, flags) == 24, "DLPack 1.x ABI");
_Static_assert(offsetof(DLManagedTensorVersioned, dl_tensor) == 32, "DLPack 1.x ABI");

static int deleted;
static void count_deletion(DLManagedTensorVersioned *self) { (void)self, ++deleted; }
static void count_deletion_old(DLManagedTensor *self) { (void)self, ++deleted; }

/* Of every kind, width and number of lanes that the struct can say. */
START_TEST(twelve_types_of_all_are_element_types) {
  tn_dtype_set seen = 0;
  for (unsigned code = 0; code < 256; code++)
    for (unsigned bits = 0; bits < 256; bits++)
      for (uint16_t lanes = 0; lanes < 3; lanes++) {
        tn_dtype d = tn_dtype_of((DLDataType){(uint8_t)code, (uint8_t)bits, lanes});
        if (!d) continue;
        ck_assert_uint_eq(lanes, 1);
        ck_assert_uint_eq(bits, 8 * tn_dtype_size(d));
        ck_assert_int_eq(code == kDLFloat || code == kDLBfloat, (TN_SET_FLOAT >> d & 1));
        ck_assert_int_eq(code == kDLBfloat, d == TN_BF16);
        ck_assert_int_eq(code == kDLFloat8_e4m3fn, d == TN_F8_E4M3);
        ck_assert_int_eq(code == kDLFloat8_e5m2, d == TN_F8_E5M2);
        ck_assert_int_eq(code == kDLBool, d == TN_BOOL);
        ck_assert_int_eq(code == kDLUInt, d == TN_U8);
        ck_assert_uint_eq(seen >> d & 1, 0);
        seen |= TN_SET(d);
      }
  ck_assert_uint_eq(seen, TN_SET_STORED);
}
END_TEST

START_TEST(out_and_in_again) {
  tn_tensor *x = counting(dev, 6), *t = NULL, *p = NULL, *y = NULL;
  DLManagedTensorVersioned *given = NULL;
  ok(tn_tensor_reshape(x, 2, SHAPE(2, 3), &t));
  ok(tn_tensor_permute(t, (int32_t[]){1, 0}, &p));
  ok(tn_tensor_to_dlpack(p, &given));
  ck_assert_uint_eq(given->version.major, 1);
  ck_assert_int_eq(given->dl_tensor.strides[0], 1);
  tn_tensor_release(x);
  tn_tensor_release(t);
  tn_tensor_release(p);
  ok(tn_tensor_from_dlpack(rt, given, &y));
  float got[6];
  ok(tn_tensor_to_host(y, got, sizeof got));
  const float want[6] = {1, 4, 2, 5, 3, 6};
  ck_assert_mem_eq(got, want, sizeof want);
  tn_tensor_release(y);
}
END_TEST

START_TEST(foreign_memory_is_used_in_place) {
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t shape[1] = {3}, strides[1] = {-2};
  DLManagedTensorVersioned m = {.version = {1, 9},
                                .deleter = count_deletion,
                                .dl_tensor = {.data = data,
                                              .device = {kDLCPU, 0},
                                              .ndim = 1,
                                              .dtype = {kDLFloat, 32, 1},
                                              .shape = shape,
                                              .strides = strides,
                                              .byte_offset = 20}};
  tn_tensor *x = NULL, *y = NULL, *v = NULL;
  deleted = 0;
  ok(tn_tensor_from_dlpack(rt, &m, &x));
  ok(tn_neg(NULL, x, &y)); /* negative strides */
  float got[3];
  ok(tn_tensor_to_host(y, got, sizeof got));
  ck_assert(got[0] == -6 && got[1] == -4 && got[2] == -2);
  ok(tn_tensor_slice(x, 0, 0, 1, 1, &v));
  tn_tensor_release(x);
  ck_assert_int_eq(deleted, 0);
  tn_tensor_release(v);
  ck_assert_int_eq(deleted, 1);
  tn_tensor_release(y);
}
END_TEST

static tn_status import_strides(int64_t *shape, int64_t *strides, tn_tensor **x) {
  static float data[4] = {1, 2, 3, 4};
  static DLManagedTensorVersioned m;
  m = (DLManagedTensorVersioned){.version = {1, 0},
                                 .dl_tensor = {.data = data,
                                               .device = {kDLCPU, 0},
                                               .ndim = 2,
                                               .dtype = {kDLFloat, 32, 1},
                                               .shape = shape,
                                               .strides = strides}};
  return tn_tensor_from_dlpack(rt, &m, x);
}

START_TEST(strides_that_overflow_are_refused) {
  const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, INT64_MAX, INT64_MAX / 2, INT64_MIN / 4};
  tn_tensor *x = NULL, *y = NULL;
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    refused(import_strides(SHAPE(2, 2), SHAPE(ends[i], 1), &x), TN_ERR_INVALID_ARGUMENT,
            "strides overflow");
    refused(import_strides(SHAPE(3, 3), SHAPE(INT64_MAX / 16, ends[i]), &x),
            TN_ERR_INVALID_ARGUMENT, "strides overflow");
    /* One step or none: the stride means nothing. */
    ok(import_strides(SHAPE(1, 4), SHAPE(ends[i], 1), &x));
    ok(tn_neg(NULL, x, &y));
    float got[4];
    ok(tn_tensor_to_host(y, got, sizeof got));
    ck_assert(got[0] == -1 && got[3] == -4);
    tn_tensor_release(x), tn_tensor_release(y);
    y = NULL;
    ok(import_strides(SHAPE(0, 4), SHAPE(ends[i], ends[i]), &x));
    ok(tn_neg(NULL, x, &y));
    tn_tensor_release(x), tn_tensor_release(y);
    y = NULL;
  }
}
END_TEST

START_TEST(read_only_memory_is_not_written) {
  float data[3] = {1, 2, 3};
  int64_t shape[1] = {3};
  DLManagedTensorVersioned m = {.version = {1, 0},
                                .deleter = count_deletion,
                                .flags = DLPACK_FLAG_BITMASK_READ_ONLY,
                                .dl_tensor = {.data = data,
                                              .device = {kDLCPU, 0},
                                              .ndim = 1,
                                              .dtype = {kDLFloat, 32, 1},
                                              .shape = shape}};
  tn_tensor *x = NULL, *view = NULL;
  DLManagedTensor *old = NULL;
  ok(tn_tensor_from_dlpack(rt, &m, &x));
  ok(tn_tensor_slice(x, 0, 0, 3, 1, &view));
  refused(tn_add(NULL, x, x, &view), TN_ERR_INVALID_ARGUMENT, "read-only");
  refused(tn_tensor_write(NULL, x, data, sizeof data), TN_ERR_INVALID_ARGUMENT, "read-only");
  refused(tn_tensor_to_dlpack_unversioned(x, &old), TN_ERR_UNSUPPORTED, "read-only");
  ck_assert(data[0] == 1);
  tn_tensor_release(view);
  tn_tensor_release(x);
}
END_TEST

START_TEST(nonsense_is_refused_and_kept) {
  float data[3] = {0};
  int64_t shape[1] = {3};
  const DLManagedTensorVersioned good = {.version = {1, 0},
                                         .deleter = count_deletion,
                                         .dl_tensor = {.data = data,
                                                       .device = {kDLCPU, 0},
                                                       .ndim = 1,
                                                       .dtype = {kDLFloat, 32, 1},
                                                       .shape = shape}};
  DLManagedTensorVersioned m = good;
  tn_tensor *x = NULL;
  deleted = 0;
  m.version.major = 2;
  refused(tn_tensor_from_dlpack(rt, &m, &x), TN_ERR_UNSUPPORTED, "DLPack 2.0");
  m = good, m.dl_tensor.dtype.lanes = 4;
  refused(tn_tensor_from_dlpack(rt, &m, &x), TN_ERR_UNSUPPORTED, "lanes");
  m = good, m.dl_tensor.device.device_type = kDLMAIA;
  refused(tn_tensor_from_dlpack(rt, &m, &x), TN_ERR_UNSUPPORTED, "no device");
  m = good, m.dl_tensor.ndim = 9;
  refused(tn_tensor_from_dlpack(rt, &m, &x), TN_ERR_UNSUPPORTED, "rank 9");
  m = good, m.dl_tensor.data = NULL;
  refused(tn_tensor_from_dlpack(rt, &m, &x), TN_ERR_INVALID_ARGUMENT, "data is NULL");
  m = good, m.dl_tensor.byte_offset = 2;
  refused(tn_tensor_from_dlpack(rt, &m, &x), TN_ERR_UNSUPPORTED, "aligned");
  shape[0] = -3;
  refused(tn_tensor_from_dlpack(rt, (DLManagedTensorVersioned *)&good, &x), TN_ERR_INVALID_ARGUMENT,
          "negative");
  refused(tn_tensor_from_dlpack(rt, NULL, &x), TN_ERR_INVALID_ARGUMENT, "NULL");
  ck_assert_int_eq(deleted, 0);
}
END_TEST

START_TEST(the_old_struct_works_too) {
  tn_tensor *x = counting(dev, 3), *y = NULL;
  DLManagedTensor *given = NULL;
  ok(tn_tensor_to_dlpack_unversioned(x, &given));
  tn_tensor_release(x);
  ck_assert(((float *)given->dl_tensor.data)[2] == 3);
  given->deleter(given);
  int8_t data[2] = {5, 6};
  int64_t shape[1] = {2};
  DLManagedTensor m = {.dl_tensor = {.data = data,
                                     .device = {kDLCPU, 0},
                                     .ndim = 1,
                                     .dtype = {kDLInt, 8, 1},
                                     .shape = shape},
                       .deleter = count_deletion_old};
  deleted = 0;
  ok(tn_tensor_from_dlpack_unversioned(rt, &m, &y));
  ck_assert_int_eq(tn_tensor_dtype(y), TN_I8);
  tn_tensor_release(y);
  ck_assert_int_eq(deleted, 1);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, twelve_types_of_all_are_element_types);
  tcase_add_test(t, out_and_in_again);
  tcase_add_test(t, foreign_memory_is_used_in_place);
  tcase_add_test(t, strides_that_overflow_are_refused);
  tcase_add_test(t, read_only_memory_is_not_written);
  tcase_add_test(t, nonsense_is_refused_and_kept);
  tcase_add_test(t, the_old_struct_works_too);
}

int main(void) { return run_suite("dlpack", add_tests); }
