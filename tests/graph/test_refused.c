/*
 * What graphs and programs refuse, and how long they and what belongs to them live, in several
 * threads too.
 */
#include <pthread.h>

#include "tests/graph/graphs.h"

/* --- bad input --- */

START_TEST(what_is_refused_while_building) {
  tn_graph *g = make_graph(), *other = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = input(other, "y", 2, 2), *z = NULL;
  tn_tensor *real = numbers(device, 2, 2, 1);
  float value[4];
  refused(tn_add(NULL, x, real, &z), TN_ERR_INVALID_ARGUMENT, "tn_graph_constant");
  refused(tn_add(NULL, real, x, &z), TN_ERR_INVALID_ARGUMENT, "graph \"test\"");
  refused(tn_add(NULL, x, y, &z), TN_ERR_INVALID_ARGUMENT, "its own symbolic tensors");
  refused(tn_tensor_to_host(x, value, sizeof value), TN_ERR_UNSUPPORTED, "no numbers");
  refused(tn_graph_input(g, "x", TN_F32, 0, NULL, &z), TN_ERR_INVALID_ARGUMENT, "already");
  refused(tn_graph_input(g, "", TN_F32, 0, NULL, &z), TN_ERR_INVALID_ARGUMENT, "name");
  refused(tn_graph_input(g, "n", (tn_dtype)99, 0, NULL, &z), TN_ERR_INVALID_ARGUMENT, "type");
  refused(tn_graph_output(g, "o", real), TN_ERR_INVALID_ARGUMENT, "graph \"test\"");
  refused(tn_graph_parameter(g, "p", x, &z), TN_ERR_INVALID_ARGUMENT, "symbolic");
  /* Shapes that do not fit are refused as ever, and leave no node. */
  tn_tensor *wide = input(g, "wide", 2, 5);
  refused(tn_matmul(NULL, x, wide, NULL, NULL, &z), TN_OK, "");
  tn_tensor_release(z);
  z = NULL;
  refused(tn_matmul(NULL, wide, x, NULL, NULL, &z), TN_ERR_INVALID_ARGUMENT, "tn_matmul");
  ck_assert_uint_eq(tn_graph_num_nodes(g), 1);
  tn_exp(NULL, x, &x); /* an input is read-only */
  ck_assert_uint_eq(tn_graph_num_nodes(g), 1);
  const tn_tensor *in[1] = {x};
  tn_tensor *out[1] = {NULL};
  tn_prepared *prepared = NULL;
  const tn_call call = {
      .struct_size = sizeof call, .op = TN_OP_EXP, .in = in, .out = out, .num_in = 1, .num_out = 1};
  refused(tn_prepare(&call, &prepared), TN_ERR_UNSUPPORTED, "compile");
  RELEASE(x, y, real, wide);
  tn_graph_destroy(g);
  tn_graph_destroy(other);
}
END_TEST

START_TEST(what_is_refused_when_compiling) {
  tn_graph *g = make_graph();
  tn_program *p = NULL;
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL, *empty = NULL, *z = NULL;
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(2, 2), &empty));
  ok(tn_add(NULL, x, empty, &y));
  ok(tn_graph_output(g, "y", y));
  refused(tn_graph_compile(g, device, NULL, &p), TN_ERR_INVALID_ARGUMENT,
          "node 0 (tn_add) reads input 1");
  refused(tn_graph_compile(g, tn_graph_device(g), NULL, &p), TN_ERR_INVALID_ARGUMENT, "no device");
  tn_graph_destroy(g);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(empty);
  g = make_graph();
  x = input(g, "x", 2, 2);
  y = NULL;
  ok(tn_exp(NULL, x, &z));
  ok(tn_graph_output(g, "z", z));
  ok(tn_neg(NULL, z, &z));
  refused(tn_graph_compile(g, device, NULL, &p), TN_ERR_INVALID_ARGUMENT, "after it was declared");
  tn_tensor_release(x);
  tn_tensor_release(z);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(what_is_refused_when_running) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL;
  ok(tn_exp(NULL, x, &y));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  tn_tensor *in = numbers(device, 2, 2, 1), *wide = numbers(device, 2, 3, 1), *out = NULL;
  refused(tn_program_run(p, NULL, 0, NULL, 1, &out), TN_ERR_INVALID_ARGUMENT, "it has 1 and 1");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){wide}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "the graph has f32 [2, 2] there");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){x}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "is for device");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){NULL}, 1, &out), TN_ERR_INVALID_ARGUMENT,
          "NULL");
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &wide), TN_ERR_INVALID_ARGUMENT,
          "output \"y\"");
  ck_assert_ptr_null(out);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(in);
  tn_tensor_release(wide);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* Exports go where nobody can tell that there is nothing behind them. */
START_TEST(what_is_not_given_out) {
  const char *why =
      "a symbolic tensor has no memory to give: compile its graph and run the program";
  tn_graph *g = make_graph();
  tn_tensor *x = NULL;
  DLManagedTensorVersioned *managed = NULL;
  DLManagedTensor *plain = NULL;
  DLTensor view = {.ndim = -1};
  ok(tn_tensor_empty(tn_graph_device(g), TN_F32, 2, SHAPE(2, 2), &x)); /* which is not read-only */
  refused(tn_tensor_to_dlpack(x, &managed), TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_to_dlpack_unversioned(x, &plain), TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_to_dlpack_stream(x, NULL, TN_DLPACK_STREAM_UNORDERED, &managed),
          TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_to_dlpack_stream_unversioned(x, NULL, TN_DLPACK_STREAM_NONE, &plain),
          TN_ERR_UNSUPPORTED, why);
  refused(tn_tensor_dlpack_view(x, &view), TN_ERR_UNSUPPORTED, why);
  ck_assert(!managed && !plain && view.ndim == -1);
  tn_tensor_release(x);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(inputs_apart_from_what_is_updated) {
  tn_graph *g = make_graph();
  tn_tensor *real = numbers(device, 2, 2, 1), *x = input(g, "x", 2, 2), *w = NULL, *y = NULL;
  ok(tn_graph_parameter(g, "w", real, &w));
  ok(tn_cumsum(NULL, x, NULL, &w));
  tn_program *p = compiled(g);
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){real}, 0, NULL), TN_ERR_INVALID_ARGUMENT,
          "a parameter that the program updates");
  RELEASE(real, x, w, y);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

/* --- lifetimes and threads --- */

/* Memory of streams that are gone is given back when the program runs on another. */
START_TEST(streams_come_and_go) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL, *in = numbers(device, 2, 2, 1);
  ok(tn_neg(NULL, x, &y));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  for (int i = 0; i < 300; ++i) {
    tn_stream *stream = NULL;
    tn_tensor *out = NULL;
    ok(tn_stream_create(device, &stream));
    ok(tn_program_run(p, stream, 1, (const tn_tensor *[]){in}, 1, &out));
    ok(tn_stream_synchronize(stream));
    tn_tensor_release(out);
    tn_stream_destroy(stream);
  }
  ck_assert_uint_le(report(p).instances, 2);
  RELEASE(x, y, in);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

START_TEST(a_graph_outlives_its_runtime) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL;
  ok(tn_neg(NULL, x, &y));
  tn_runtime_close(rt);
  tn_graph_destroy(g);
  ck_assert_ptr_null(tn_tensor_graph(y));
  tn_tensor_release(x);
  tn_tensor_release(y);
  rt = open_host_runtime();
}
END_TEST

START_TEST(given_back_in_any_order) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL, *late = NULL;
  ok(tn_exp(NULL, x, &y));
  ok(tn_graph_output(g, "y", y));
  tn_program *p = compiled(g);
  tn_graph_destroy(g);
  ck_assert_ptr_null(tn_tensor_graph(x));
  refused(tn_neg(NULL, x, &late), TN_ERR_INVALID_ARGUMENT, "is gone");
  /* Another graph does not take over the device while tensors of the first are there. */
  tn_graph *next = make_graph();
  refused(tn_neg(NULL, x, &late), TN_ERR_INVALID_ARGUMENT, "is gone");
  tn_graph_destroy(next);
  tn_runtime_close(rt);
  tn_tensor *in = NULL, *out = NULL;
  refused(tn_program_run(p, NULL, 1, (const tn_tensor *[]){in}, 1, &out), TN_ERR_CLOSED, "");
  tn_tensor_release(y);
  tn_program_destroy(p);
  tn_tensor_release(x);
  rt = open_host_runtime();
}
END_TEST

typedef struct work {
  tn_program *program;
  float first;
  tn_status status;
} work;

static void *run_often(void *ctx) {
  work *w = ctx;
  tn_stream *stream = NULL;
  w->status = tn_stream_create(device, &stream);
  for (int i = 0; i < 50 && !w->status; ++i) {
    float value = w->first + (float)i, got[4];
    const float values[4] = {value, -value, value, value};
    tn_tensor *in = NULL, *out = NULL;
    w->status = tn_tensor_from_host(device, TN_F32, 2, SHAPE(2, 2), values, &in);
    if (!w->status)
      w->status = tn_program_run(w->program, stream, 1, (const tn_tensor *[]){in}, 1, &out);
    if (!w->status) w->status = tn_stream_synchronize(stream);
    if (!w->status) w->status = tn_tensor_to_host(out, got, sizeof got);
    if (!w->status && (got[0] != -value || got[1] != value)) w->status = TN_ERR_INTERNAL;
    tn_tensor_release(in);
    tn_tensor_release(out);
  }
  tn_stream_destroy(stream);
  return NULL;
}

START_TEST(several_threads_run_one_program) {
  tn_graph *g = make_graph();
  tn_tensor *x = input(g, "x", 2, 2), *y = NULL, *z = NULL, *w = NULL;
  ok(tn_neg(NULL, x, &y));
  ok(tn_neg(NULL, y, &z));
  ok(tn_neg(NULL, z, &w));
  ok(tn_graph_output(g, "w", w));
  tn_program *p = compiled(g);
  pthread_t threads[4];
  work works[4];
  for (int i = 0; i < 4; ++i) {
    works[i] = (work){p, (float)(100 * i + 1), TN_OK};
    pthread_create(&threads[i], NULL, run_often, &works[i]);
  }
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  for (int i = 0; i < 4; ++i) ck_assert_int_eq(works[i].status, TN_OK);
  RELEASE(x, y, z, w);
  tn_program_destroy(p);
  tn_graph_destroy(g);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_checked_fixture(tcase, setup, teardown);
  tcase_add_test(tcase, what_is_refused_while_building);
  tcase_add_test(tcase, what_is_refused_when_compiling);
  tcase_add_test(tcase, what_is_refused_when_running);
  tcase_add_test(tcase, what_is_not_given_out);
  tcase_add_test(tcase, inputs_apart_from_what_is_updated);
  tcase_add_test(tcase, streams_come_and_go);
  tcase_add_test(tcase, a_graph_outlives_its_runtime);
  tcase_add_test(tcase, given_back_in_any_order);
  tcase_add_test(tcase, several_threads_run_one_program);
}

int main(void) { return run_suite("graph_refused", add_tests); }
