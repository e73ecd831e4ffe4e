/* Adds two vectors on the device that TENON_DEVICE names, or else on the best one. */
#include <stdio.h>
#include <stdlib.h>

#include "tenon/tenon.h"

/* Every call returns a tn_status; after anything but TN_OK, tn_last_error() says why. */
static void check(tn_status status) {
  if (status == TN_OK) return;
  fprintf(stderr, "hello: %s\n", tn_last_error());
  exit(EXIT_FAILURE);
}

int main(void) {
  const float ones[] = {1, 2, 3, 4}, tens[] = {10, 20, 30, 40};
  float result[4];

  tn_runtime *runtime;
  check(tn_runtime_open(NULL, &runtime));
  tn_device *device = tn_runtime_device(runtime);
  tn_device_info info = {.struct_size = sizeof info};
  check(tn_device_get_info(device, &info));

  tn_tensor *a, *b, *sum = NULL; /* NULL: tn_add makes the tensor */
  check(tn_tensor_from_host(device, TN_F32, 1, (int64_t[]){4}, ones, &a));
  check(tn_tensor_from_host(device, TN_F32, 1, (int64_t[]){4}, tens, &b));
  check(tn_add(NULL, a, b, &sum));
  check(tn_tensor_to_host(sum, result, sizeof result));
  printf("Hello from %s: %g %g %g %g\n", info.name, result[0], result[1], result[2], result[3]);

  tn_tensor_release(sum);
  tn_tensor_release(b);
  tn_tensor_release(a);
  tn_runtime_close(runtime);
  return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
