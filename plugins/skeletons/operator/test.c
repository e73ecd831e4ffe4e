/*
 * Numbers worked out by hand, since `tenon check` cannot know whether the maths is meant as it is
 * written; and how a program calls the operator: by name, and nothing of the plugin is linked.
 */
#include <stdio.h>
#include <tenon/graph.h>
#include <tenon/tenon.h>

#include "operator.h"

static int failed(const char *what) {
  return fprintf(stderr, "%s: %s\n", what, tn_last_error()), 1;
}

static int call(tn_runtime *runtime, uint32_t op, const template_scale_shift_attrs *attrs,
                const float expected[3]) {
  const float numbers[3] = {1, -2, 0.5F};
  float got[3] = {0};
  const int64_t shape[1] = {3};
  tn_tensor *x = NULL, *y = NULL;
  if (tn_tensor_from_host(tn_runtime_device(runtime), TN_F32, 1, shape, numbers, &x))
    return failed("x");
  const tn_tensor *const in[] = {x};
  const tn_call what = {.struct_size = sizeof what,
                        .op = op,
                        .in = in,
                        .out = &y,
                        .attrs = attrs,
                        .num_in = 1,
                        .num_out = 1};
  int wrong = tn_invoke(&what) || tn_tensor_to_host(y, got, sizeof got) ? failed("the call") : 0;
  for (int i = 0; i < 3 && !wrong; i++)
    if (got[i] != expected[i])
      wrong = 1, fprintf(stderr, "y[%d] is %g, not %g\n", i, (double)got[i], (double)expected[i]);
  tn_tensor_release(y);
  tn_tensor_release(x);
  return wrong;
}

/* dy / dx of the sum of all y is the scale. */
static int gradient(tn_runtime *runtime, uint32_t op, const template_scale_shift_attrs *attrs) {
  const int64_t shape[1] = {3};
  float got[3] = {0};
  tn_graph *graph = NULL;
  tn_program *program = NULL;
  tn_tensor *x = NULL, *y = NULL, *sum = NULL, *dx = NULL, *result = NULL;
  int wrong = tn_graph_create(runtime, "gradient", &graph) ||
              tn_graph_input(graph, "x", TN_F32, 1, shape, &x);
  const tn_tensor *const in[] = {x};
  const tn_call what = {.struct_size = sizeof what,
                        .op = op,
                        .in = in,
                        .out = &y,
                        .attrs = attrs,
                        .num_in = 1,
                        .num_out = 1};
  const tn_tensor *numbers = NULL;
  tn_tensor *zeros = NULL;
  wrong = wrong || tn_invoke(&what) || tn_sum(NULL, y, NULL, &sum) ||
          tn_graph_gradient(graph, sum, 1, &x, &dx) || tn_graph_output(graph, "dx", dx) ||
          tn_graph_compile(graph, tn_runtime_device(runtime), NULL, &program) ||
          tn_zeros(tn_runtime_device(runtime), NULL, TN_F32, 1, shape, &zeros);
  numbers = zeros;
  wrong = wrong || tn_program_run(program, NULL, 1, &numbers, 1, &result) ||
          tn_tensor_to_host(result, got, sizeof got);
  if (wrong) failed("the gradient");
  for (int i = 0; i < 3 && !wrong; i++)
    if (got[i] != (float)attrs->scale)
      wrong = 1, fprintf(stderr, "the gradient is %g, not %g\n", (double)got[i], attrs->scale);
  tn_tensor *all[] = {x, y, sum, dx, zeros, result};
  for (int i = 0; i < 6; i++) tn_tensor_release(all[i]);
  tn_program_destroy(program);
  tn_graph_destroy(graph);
  return wrong;
}

int main(void) {
  const template_scale_shift_attrs attrs = {sizeof attrs, 2, 3};
  const float by_default[3] = {1, -2, 0.5F}, expected[3] = {5, -1, 4};
  tn_runtime *runtime;
  uint32_t op;
  if (tn_runtime_open(NULL, &runtime)) return failed("no runtime");
  int wrong = tn_op_find(runtime, TEMPLATE_SCALE_SHIFT, &op)
                  ? failed(TEMPLATE_SCALE_SHIFT)
                  : call(runtime, op, &attrs, expected) || call(runtime, op, NULL, by_default) ||
                        gradient(runtime, op, &attrs);
  tn_runtime_close(runtime);
  if (!wrong) puts("right");
  return wrong;
}
