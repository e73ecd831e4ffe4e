/* tenon run: tensors from files and to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plain.h"
#include "run.h"
#include "tenon/ops.h"

static bool wrong(const char *path, const char *why) {
  fprintf(stderr, "tenon run: %s: %s\n", plain(path), why);
  return false;
}

/* --- NumPy's format, versions 1 to 3 --- */

typedef struct npy_header {
  tn_dtype dtype;
  int32_t rank;
  int64_t shape[TN_MAX_RANK];
  size_t elements;
} npy_header;

static const struct {
  const char *text;
  tn_dtype dtype;
} kinds[] = {{"|b1", TN_BOOL}, {"|u1", TN_U8},  {"|i1", TN_I8},  {"<i2", TN_I16}, {"<i4", TN_I32},
             {"<i8", TN_I64},  {"<f2", TN_F16}, {"<f4", TN_F32}, {"<f8", TN_F64}};
enum { NUM_KINDS = sizeof kinds / sizeof *kinds };

/* The dictionary of a header, as NumPy writes it. */
static const char *npy_parse(const char *text, npy_header *h) {
  const char *kind = strstr(text, "'descr'"), *order = strstr(text, "'fortran_order'"),
             *shape = strstr(text, "'shape'");
  char type[4] = "";
  if (!kind || !order || !shape || sscanf(kind, "'descr' : '%3[^']'", type) != 1)
    return "the header of this .npy is not NumPy's";
  for (int i = 0; i < NUM_KINDS; i++)
    if (!strcmp(kinds[i].text, type)) h->dtype = kinds[i].dtype;
  if (!h->dtype) return "Tenon has no such element type, or not in this byte order";
  if (strncmp(order + strlen("'fortran_order'"), ": False", 7)) return "columns come first here";
  shape = strchr(shape, '(');
  h->elements = 1;
  for (char *at = (char *)(uintptr_t)shape; at && *++at && *at != ')';) {
    int64_t size = strtoll(at, &at, 10);
    if (h->rank == TN_MAX_RANK) return "more axes than Tenon's tensors have";
    if (size < 0 || __builtin_mul_overflow(h->elements, (size_t)size, &h->elements) ||
        h->elements > (size_t)1 << 40)
      return "a size that cannot be";
    h->shape[h->rank++] = size;
    at += strspn(at, " ");
    if (*at != ',' && *at != ')') return "the shape of this .npy is not NumPy's";
    if (*at == ',') at += strspn(at + 1, " ");
    if (*at == ')') break;
    if (at[1] == ')') break;
  }
  return NULL;
}

static tn_tensor *npy_read(FILE *file, tn_device *device, const char *path) {
  unsigned char start[12];
  char text[4096];
  npy_header h = {0};
  tn_tensor *tensor = NULL;
  bool whole = fread(start, 1, 8, file) == 8 && !memcmp(start, "\x93NUMPY", 6);
  size_t wide = whole && start[6] > 1 ? 4 : 2;
  if (!whole || fread(start + 8, 1, wide, file) != wide)
    return wrong(path, "this is no .npy file"), NULL;
  size_t length = start[8] + 256u * start[9] + (wide == 4 ? 65536u * start[10] : 0);
  if (length >= sizeof text || fread(text, 1, length, file) != length)
    return wrong(path, "the header of this .npy is not whole"), NULL;
  text[length] = 0;
  const char *why = npy_parse(text, &h);
  if (why) return wrong(path, why), NULL;
  size_t bytes = h.elements * tn_dtype_size(h.dtype);
  long at = ftell(file);
  if (fseek(file, 0, SEEK_END) || (size_t)(ftell(file) - at) < bytes || fseek(file, at, SEEK_SET))
    return wrong(path, "it ends before its last number"), NULL;
  unsigned char *data = malloc(bytes + 1);
  if (!data || fread(data, 1, bytes, file) != bytes)
    wrong(path, "it cannot be read");
  else {
    for (size_t i = 0; h.dtype == TN_BOOL && i < bytes; i++) data[i] = data[i] != 0;
    if (tn_tensor_from_host(device, h.dtype, h.rank, h.shape, data, &tensor))
      wrong(path, tn_last_error());
  }
  free(data);
  return tensor;
}

tn_tensor *run_load(tn_device *device, const char *path) {
  const char *dot = strrchr(path, '.');
  tn_tensor *tensor = NULL;
  if (dot && !strcmp(dot, ".pb")) {
    if (tn_onnx_tensor_load(device, path, &tensor))
      fprintf(stderr, "tenon run: %s\n", plain(tn_onnx_last_error()));
    return tensor;
  }
  FILE *file = fopen(path, "rb");
  if (!file) return perror(path), NULL;
  tensor = npy_read(file, device, path);
  fclose(file);
  return tensor;
}

bool run_save_npy(const tn_tensor *tensor, const char *path) {
  char shape[200] = "", header[400];
  tn_tensor *wide = NULL;
  const char *kind = NULL;
  if (TN_SET(tn_tensor_dtype(tensor)) & (TN_SET(TN_BF16) | TN_SET_F8)) { /* NumPy has none */
    if (tn_cast(NULL, tensor,
                &(tn_cast_attrs){.struct_size = sizeof(tn_cast_attrs), .dtype = TN_F32}, &wide))
      return wrong(path, tn_last_error());
    tensor = wide;
  }
  for (int i = 0; i < NUM_KINDS; i++)
    if (kinds[i].dtype == tn_tensor_dtype(tensor)) kind = kinds[i].text;
  for (int32_t i = 0, at = 0; i < tn_tensor_rank(tensor); i++)
    at += snprintf(shape + at, sizeof shape - (size_t)at, "%lld, ",
                   (long long)tn_tensor_shape(tensor)[i]);
  int used = snprintf(header, sizeof header,
                      "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, shape);
  size_t length = ((size_t)used + 1 + 10 + 63) / 64 * 64 - 10, bytes = tn_tensor_bytes(tensor);
  unsigned char start[10] = {0x93, 'N', 'U', 'M',          'P',
                             'Y',  1,   0,   length & 255, (unsigned char)(length >> 8)};
  void *data = malloc(bytes + 1);
  bool whole = data && !tn_tensor_to_host(tensor, data, bytes);
  FILE *file = whole ? fopen(path, "wb") : NULL;
  whole = whole && file && fwrite(start, 1, 10, file) == 10 &&
          fprintf(file, "%-*s\n", (int)length - 1, header) == (int)length &&
          fwrite(data, 1, bytes, file) == bytes;
  if (file && fclose(file)) whole = false;
  free(data);
  tn_tensor_release(wide);
  return whole || wrong(path, "it cannot be written");
}

double *run_numbers(const tn_tensor *tensor) {
  tn_tensor *wide = NULL;
  double *numbers = malloc(((size_t)tn_tensor_elements(tensor) + 1) * sizeof *numbers);
  tn_cast_attrs attrs = {.struct_size = sizeof attrs, .dtype = TN_F64};
  if (!numbers || tn_cast(NULL, tensor, &attrs, &wide) ||
      tn_tensor_to_host(wide, numbers, tn_tensor_bytes(wide))) {
    fprintf(stderr, "tenon run: %s\n", plain(tn_last_error()));
    free(numbers);
    numbers = NULL;
  }
  tn_tensor_release(wide);
  return numbers;
}
