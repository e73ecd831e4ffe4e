#include "models.h"

#include <ctype.h>
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tn_runtime *runtime_open(void) {
  tn_runtime *runtime;
  if (tn_runtime_open(NULL, &runtime)) errx(EXIT_FAILURE, "%s", tn_last_error());
  return runtime;
}

tn_onnx *model_open(tn_runtime *runtime, const char *folder, const char *name) {
  char path[4096];
  tn_onnx *model = NULL;
  snprintf(path, sizeof path, "%s%s%s", folder, *name ? "/" : "", name);
  tn_status status = tn_onnx_load(runtime, NULL, path, NULL, &model);
  if (status == TN_ERR_IO) errx(EXIT_FAILURE, "%s", tn_onnx_last_error());
  if (status) errx(EXIT_FAILURE, "%s: %s", path, tn_onnx_last_error());
  return model;
}

tn_tensor *tensor_make(tn_runtime *runtime, tn_dtype dtype, int32_t rank, const int64_t *shape,
                       const void *numbers) {
  tn_tensor *tensor = NULL;
  if (tn_tensor_from_host(tn_runtime_device(runtime), dtype, rank, shape, numbers, &tensor))
    errx(EXIT_FAILURE, "%s", tn_last_error());
  return tensor;
}

void model_run(tn_onnx *model, size_t num_in, tn_tensor **in, size_t num_out, model_output *out) {
  tn_tensor *got[8] = {0};
  if (tn_onnx_run(model, NULL, num_in, (const tn_tensor *const *)in, num_out, got))
    errx(EXIT_FAILURE, "%s", tn_onnx_last_error());
  for (size_t i = 0; i < num_out; i++) {
    if (tn_tensor_dtype(got[i]) != TN_F32) errx(EXIT_FAILURE, "output %zu is not of floats", i);
    out[i].rank = tn_tensor_rank(got[i]);
    memcpy(out[i].shape, tn_tensor_shape(got[i]), (size_t)out[i].rank * sizeof *out[i].shape);
    out[i].numbers = memory(1, tn_tensor_bytes(got[i]));
    if (tn_tensor_to_host(got[i], out[i].numbers, tn_tensor_bytes(got[i])))
      errx(EXIT_FAILURE, "%s", tn_last_error());
    tn_tensor_release(got[i]);
  }
  for (size_t i = 0; i < num_in; i++) tn_tensor_release(in[i]);
}

void *memory(size_t count, size_t size) {
  void *block = calloc(count + 1, size + 1);
  if (!block) errx(EXIT_FAILURE, "not enough memory");
  return block;
}

char *text_read(const char *path) {
  FILE *file = fopen(path, "rb");
  char *text = NULL;
  size_t length = 0, got = 1;
  if (!file) err(EXIT_FAILURE, "%s", path);
  while (got) {
    text = realloc(text, length + (1 << 16) + 1);
    if (!text) errx(EXIT_FAILURE, "not enough memory");
    length += got = fread(text + length, 1, 1 << 16, file);
    text[length] = 0;
  }
  if (ferror(file)) err(EXIT_FAILURE, "%s", path);
  fclose(file);
  return text;
}

static const char *skip(const char *at, const char *signs) {
  while (*at && (isspace((unsigned char)*at) || strchr(signs, *at))) at++;
  return at;
}

const char *json_value(const char *text, const char *key) {
  size_t length = strlen(key);
  while ((text = strchr(text, '"'))) {
    text++;
    if (strncmp(text, key, length) != 0 || text[length] != '"') continue;
    const char *behind = skip(text + length + 1, "");
    if (*behind == ':') return skip(behind + 1, "");
  }
  return NULL;
}

/* A character up to U+FFFF in UTF-8. */
static size_t put_utf8(unsigned code, char *to) {
  if (code < 0x80) return to[0] = (char)code, 1;
  if (code < 0x800) return to[0] = (char)(0xC0 | code >> 6), to[1] = (char)(0x80 | (code & 63)), 2;
  to[0] = (char)(0xE0 | code >> 12);
  to[1] = (char)(0x80 | (code >> 6 & 63));
  to[2] = (char)(0x80 | (code & 63));
  return 3;
}

const char *json_string(const char *text, char *to, size_t room) {
  size_t length = 0;
  unsigned code;
  text = skip(text, "[{,");
  if (*text++ != '"') return NULL;
  for (; *text && *text != '"' && length + 4 < room; text++) {
    if (*text != '\\') {
      to[length++] = *text;
    } else if (*++text == 'u' && sscanf(text + 1, "%4x", &code) == 1) {
      length += put_utf8(code, to + length);
      text += strnlen(text, 4);
    } else if (*text) {
      to[length++] = *text;
    }
  }
  to[length] = 0;
  return *text == '"' ? skip(text + 1, ":,") : NULL;
}
