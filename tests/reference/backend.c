/* The backend's table and its device. */
#include <string.h>

#include "harness.h"

const tn_plugin *tn_plugin_query(const tn_host *host);

START_TEST(one_row_per_operator) {
  static const uint32_t ids[] = {
#define OP(ID, name, NAME, ...) ID,
#include "ops.def"
  };
  const tn_plugin *p = tn_plugin_query(test_host());
  ck_assert_ptr_nonnull(p);
  ck_assert_uint_eq(p->num_kernels, sizeof ids / sizeof *ids);
  for (uint32_t i = 0; i < p->num_kernels; ++i) {
    const tn_kernel *k = &p->kernels[i];
    ck_assert_uint_eq(k->op, ids[i]);
    ck_assert_str_eq(k->device_type, "*host");
    ck_assert(k->run && k->priority == 0 && strncmp(k->name, "reference.", 10) == 0);
    ck_assert_uint_eq(k->flags, TN_KERNEL_STRIDED | TN_KERNEL_DETERMINISTIC);
  }
}
END_TEST

START_TEST(device) {
  const tn_backend *b = tn_plugin_query(test_host())->backends[0];
  const tn_host *host = test_host();
  tn_device_props props = {sizeof props};
  uint32_t count = 0;
  uint64_t free_bytes = 0, total = 0;
  void *handle, *memory;
  char text[8] = "abcdefg";
  ck_assert_int_eq(b->count(host, NULL, &count), TN_OK);
  ck_assert_uint_eq(count, 1);
  ck_assert_int_eq(b->describe(host, NULL, 0, &props), TN_OK);
  ck_assert_int_eq(props.dl_device_type, kDLCPU);
  ck_assert_int_eq(props.score, 1);
  ck_assert_int_eq(b->open(host, NULL, 0, &handle), TN_OK);
  ck_assert_int_eq(b->memory_info(handle, &free_bytes, &total), TN_OK);
  ck_assert(total == props.memory_bytes && total > 0 && free_bytes <= total);
  ck_assert_int_eq(b->alloc(handle, TN_MEMORY_DEVICE, 100, &memory), TN_OK);
  ck_assert_uint_eq((uintptr_t)memory % 64, 0);
  ck_assert_int_eq(b->copy(handle, NULL, TN_COPY_TO_DEVICE, memory, 4, text, 0, 8), TN_OK);
  ck_assert_int_eq(b->copy(handle, NULL, TN_COPY_TO_HOST, text, 1, memory, 6, 3), TN_OK);
  ck_assert_str_eq(text, "acdeefg");
  ck_assert_int_eq(b->copy(handle, NULL, TN_COPY_ON_DEVICE, NULL, 0, NULL, 0, 0), TN_OK);
  b->free(handle, TN_MEMORY_DEVICE, memory);
  ck_assert_int_eq(b->alloc(handle, TN_MEMORY_DEVICE, 0, &memory), TN_OK);
  b->free(handle, TN_MEMORY_DEVICE, memory);
  b->close(handle);
}
END_TEST

/* Refuses what no machine has. */
static void *no_memory(const tn_host *host, size_t bytes, size_t align) {
  return bytes > 1 << 20 ? NULL : test_host()->alloc(host, bytes, align);
}

START_TEST(memory_runs_out) {
  tn_host host = *test_host();
  const tn_backend *b = tn_plugin_query(&host)->backends[0];
  void *handle, *memory;
  host.alloc = no_memory;
  ck_assert_int_eq(b->open(&host, NULL, 0, &handle), TN_OK);
  ck_assert_int_eq(b->alloc(handle, TN_MEMORY_DEVICE, (size_t)1 << 30, &memory),
                   TN_ERR_DEVICE_OUT_OF_MEMORY);
  b->close(handle);
}
END_TEST

Suite *backend_suite(void) {
  Suite *s = suite_create("backend");
  TCase *c = add_case(s, "backend");
  tcase_add_test(c, one_row_per_operator);
  tcase_add_test(c, device);
  tcase_add_test(c, memory_runs_out);
  return s;
}
