/* tenon run: what is printed of a model and of what it gave. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"
#include "plain.h"
#include "run.h"
#include "tenon/plugin.h"

static void print_value(const char *what, const tn_onnx_value *v) {
  printf("%-7s %s: %s [", what, plain(v->name), v->dtype ? tn_dtype_name(v->dtype) : "?");
  for (int32_t i = 0; i < v->rank; i++) {
    if (i) fputs(", ", stdout);
    if (v->shape[i] != TN_SIZE_OPEN)
      printf("%lld", (long long)v->shape[i]);
    else
      fputs(v->symbols[i] ? plain(v->symbols[i]) : "?", stdout);
  }
  fputs(v->rank == TN_RANK_OPEN ? "...]" : "]", stdout);
  if (v->unserved) printf(", %s", v->unserved);
  putchar('\n');
}

int run_list(tn_onnx *model) {
  tn_onnx_info info = {.struct_size = sizeof info};
  tn_onnx_value v = {.struct_size = sizeof v};
  tn_onnx_node n = {.struct_size = sizeof n};
  size_t unserved = 0, odd = 0;
  if (tn_onnx_report(model, &info)) return EXIT_FAILED;
  printf("%u nodes, opset %lld, %llu weights of %.1f MB%s%s\n", info.nodes, (long long)info.opset,
         (unsigned long long)info.weights, (double)info.weight_bytes / 1e6,
         *info.producer ? ", written by " : "", plain(info.producer));
  for (size_t i = 0; !tn_onnx_input_at(model, i, &v); i++)
    print_value("input", &v), odd += v.unserved != NULL;
  for (size_t i = 0; !tn_onnx_output_at(model, i, &v); i++)
    print_value("output", &v), odd += v.unserved != NULL;
  const char *key, *text;
  for (size_t i = 0; !tn_onnx_metadata_at(model, i, &key, &text); i++) {
    size_t length = strlen(text), lines = 1;
    for (const char *c = text; (c = strchr(c, '\n')); c++) lines++;
    if (lines > 1 || length > 80)
      printf("says    %s: %zu lines, %zu bytes\n", plain(key), lines, length);
    else
      printf("says    %s: %s\n", plain(key), plain(text));
  }
  for (; !tn_onnx_unserved_at(model, unserved, &n); unserved++)
    printf("not served: node %s: %s of opset %lld%s%s: %s\n", *n.name ? plain(n.name) : "(no name)",
           plain(n.op), (long long)n.opset, *n.domain ? ", domain " : "", plain(n.domain),
           n.reason);
  if (!unserved) puts("all operators are served");
  return unserved || odd ? EXIT_FAILED : EXIT_OK;
}

int run_list_operators(void) {
  tn_onnx_operator op = {.struct_size = sizeof op};
  puts("| operator | opsets | domain |\n| --- | --- | --- |");
  for (size_t i = 0; !tn_onnx_operator_at(i, &op); i++) {
    tn_onnx_operator next = {.struct_size = sizeof next};
    int64_t since = op.since;
    while (!tn_onnx_operator_at(i + 1, &next) && !strcmp(next.name, op.name) &&
           !strcmp(next.domain, op.domain))
      i++, op = next;
    printf("| %s | %lld to %lld | %s |\n", op.name, (long long)since, (long long)op.until,
           *op.domain ? op.domain : "ai.onnx");
  }
  return EXIT_OK;
}

void run_print_shape(const tn_tensor *tensor) {
  printf("%s [", tn_dtype_name(tn_tensor_dtype(tensor)));
  for (int32_t i = 0; i < tn_tensor_rank(tensor); i++)
    printf(i ? ", %lld" : "%lld", (long long)tn_tensor_shape(tensor)[i]);
  putchar(']');
}

/* Line `index` of a file of names. */
void run_print_label(const char *path, int64_t index) {
  char line[300];
  FILE *file = path ? fopen(path, "r") : NULL;
  for (int64_t i = 0; file && fgets(line, sizeof line, file); i++)
    if (i == index) {
      line[strcspn(line, "\r\n")] = 0;
      printf("  %s", plain(line));
      break;
    }
  if (file) fclose(file);
}

void run_print_top(const tn_tensor *output, const char *labels, int top) {
  int64_t n = tn_tensor_elements(output);
  double *numbers = run_numbers(output);
  for (int k = 0; numbers && k < top && k < n; k++) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
      if (!isnan(numbers[i]) && (best < 0 || numbers[i] > numbers[best])) best = i;
    if (best < 0) break;
    printf("%4d. class %lld: %.5g", k + 1, (long long)best, numbers[best]);
    run_print_label(labels, best);
    putchar('\n');
    numbers[best] = (double)NAN;
  }
  free(numbers);
}

/* --- comparing --- */

/* The file of an expected output: NAME.npy, output_N.npy or output_N.pb. */
static bool expected_path(const char *folder, const char *name, size_t i, char *path, size_t room) {
  snprintf(path, room, "%s/%s.npy", folder, name);
  if (!strchr(name, '/') && !access(path, R_OK)) return true;
  snprintf(path, room, "%s/output_%zu.npy", folder, i);
  if (!access(path, R_OK)) return true;
  snprintf(path, room, "%s/output_%zu.pb", folder, i);
  return !access(path, R_OK);
}

/* The greatest distance of two tensors, and that by the greatest number expected. */
static bool compare_one(const char *name, const tn_tensor *got, const tn_tensor *want,
                        double tolerance) {
  bool same = tn_tensor_rank(got) == tn_tensor_rank(want);
  for (int32_t d = 0; same && d < tn_tensor_rank(got); d++)
    same = tn_tensor_shape(got)[d] == tn_tensor_shape(want)[d];
  if (!same) {
    printf("differs: output %s is of shape ", plain(name));
    run_print_shape(got), fputs(" and should be of ", stdout), run_print_shape(want);
    putchar('\n');
    return false;
  }
  double *a = run_numbers(got), *b = run_numbers(want), far = 0, large = 0;
  int64_t odd = 0;
  for (int64_t i = 0; a && b && i < tn_tensor_elements(got); i++) {
    if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) continue;
    if (!isfinite(a[i]) || !isfinite(b[i]))
      odd++;
    else if (fabs(a[i] - b[i]) > far)
      far = fabs(a[i] - b[i]);
  }
  for (int64_t i = 0; b && i < tn_tensor_elements(got); i++)
    if (isfinite(b[i]) && fabs(b[i]) > large) large = fabs(b[i]);
  bool ok = a && b && !odd && far <= tolerance * (large > 0 ? large : 1);
  printf("%s: output %s: greatest difference %.3g, of numbers up to %.3g",
         ok ? "agrees" : "differs", plain(name), far, large);
  if (odd) printf(", %lld of them finite on one side alone", (long long)odd);
  putchar('\n');
  free(a), free(b);
  return ok;
}

bool run_compare(tn_onnx *model, tn_tensor *const *out, const char *folder, double tolerance) {
  bool ok = true;
  char path[4096];
  tn_onnx_value v = {.struct_size = sizeof v};
  for (size_t i = 0; !tn_onnx_output_at(model, i, &v); i++) {
    if (!expected_path(folder, v.name, i, path, sizeof path)) {
      printf("differs: %s has no file for output %zu, %s\n", plain(folder), i, plain(v.name));
      ok = false;
      continue;
    }
    tn_tensor *want = run_load(tn_tensor_device(out[i]), path);
    ok = want && compare_one(v.name, out[i], want, tolerance) && ok;
    tn_tensor_release(want);
  }
  return ok;
}

void run_print_fallbacks(tn_runtime *runtime, tn_device *device) {
  tn_fallback_stats all = {.struct_size = sizeof all};
  if (tn_fallback_get_stats(device, 0, &all) || !all.calls) return;
  printf("fell back to the host: %llu calls, %.1f MB copied:", (unsigned long long)all.calls,
         (double)all.bytes / 1e6);
  for (size_t i = 0; i < tn_op_count(runtime); i++) {
    const tn_operator *op = tn_op_at(runtime, i);
    tn_fallback_stats s = {.struct_size = sizeof s};
    if (!tn_fallback_get_stats(device, op->id, &s) && s.calls)
      printf(" %s %llu", op->name, (unsigned long long)s.calls);
  }
  putchar('\n');
}
