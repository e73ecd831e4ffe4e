/* The least of a host: adds on whatever device it is given and prints that device. */
#include <stdio.h>
#include <tenon/tenon.h>

static int failed(void) {
  fprintf(stderr, "%s\n", tn_last_error());
  return 1;
}

int main(void) {
  const float ones[3] = {1, 2, 3};
  float sum[3];
  tn_runtime *runtime;
  tn_tensor *x, *y = NULL;
  tn_device_info info = {.struct_size = sizeof info};
  if (tn_runtime_open(NULL, &runtime)) return failed();
  tn_device *device = tn_runtime_device(runtime);
  if (tn_device_get_info(device, &info)) return failed();
  if (tn_tensor_from_host(device, TN_F32, 1, (int64_t[]){3}, ones, &x)) return failed();
  if (tn_add(NULL, x, x, &y)) return failed();
  if (tn_tensor_to_host(y, sum, sizeof sum)) return failed();
  printf("%s: %g %g %g\n", info.id, sum[0], sum[1], sum[2]);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
  return 0;
}
