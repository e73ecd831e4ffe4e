/* Writes a file of tensors of every type, or reads one and prints what is in it, for exchange.sh.
 *
 * usage: exchange write FILE | exchange read FILE
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tenon/tenon.h"

static void check(tn_status status) {
  if (status == TN_OK) return;
  fprintf(stderr, "exchange: %s\n", tn_last_error());
  exit(1);
}

static void write_types(tn_device *device, const char *path) {
  unsigned char data[48];
  const char *names[TN_F8_E5M2];
  tn_tensor *made[TN_F8_E5M2];
  for (tn_dtype d = TN_BOOL; d <= TN_F8_E5M2; ++d) {
    for (size_t i = 0; i < sizeof data; ++i) data[i] = (unsigned char)(d == TN_BOOL ? i % 2 : i);
    names[d - 1] = tn_dtype_name(d);
    check(tn_tensor_from_host(device, d, 2, (int64_t[]){2, 3}, data, &made[d - 1]));
  }
  const tn_tensors_metadata said[] = {{"format", "pt"}, {"odd \"\\\n", "\xc3\xa9"}};
  check(tn_tensors_save(path, TN_F8_E5M2, names, (const tn_tensor *const *)made, 2, said));
  for (int i = 0; i < TN_F8_E5M2; ++i) tn_tensor_release(made[i]);
}

/* A line per text and tensor: name, type, shape and bytes. */
static void print_file(tn_device *device, const char *path) {
  tn_tensors *file;
  tn_tensors_metadata pair;
  check(tn_tensors_open(path, &file));
  for (size_t i = 0; tn_tensors_metadata_at(file, i, &pair) == TN_OK; ++i)
    printf("%s: %s\n", pair.key, pair.value);
  for (size_t i = 0; i < tn_tensors_count(file); ++i) {
    tn_tensors_entry e = {.struct_size = sizeof e};
    check(tn_tensors_at(file, i, &e));
    printf("%s %s [", e.name, e.type);
    for (int32_t k = 0; k < e.rank; ++k) printf("%s%" PRId64, k ? ", " : "", e.shape[k]);
    printf("]");
    tn_tensor *t = NULL;
    if (e.dtype) {
      unsigned char *bytes = calloc(e.bytes + 1, 1);
      check(tn_tensors_load(file, i, device, &t));
      check(tn_tensor_to_host(t, bytes, e.bytes));
      printf(" ");
      for (uint64_t k = 0; k < e.bytes; ++k) printf("%02x", bytes[k]);
      free(bytes);
    }
    printf("\n");
    tn_tensor_release(t);
  }
  tn_tensors_close(file);
}

int main(int argc, char **argv) {
  tn_runtime *runtime;
  if (argc != 3) return 2;
  check(tn_runtime_open(NULL, &runtime));
  tn_device *device = tn_runtime_device(runtime);
  if (strcmp(argv[1], "write") == 0)
    write_types(device, argv[2]);
  else
    print_file(device, argv[2]);
  tn_runtime_close(runtime);
  return fflush(stdout) != 0;
}
