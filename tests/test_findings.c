/*
 * The layer validate: tensors that were never written, indexes out of range, and what a process
 * that leaked ends with.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "validate_support.h"

static tn_tensor *empty(tn_device *device, tn_dtype dtype, int64_t size) {
  tn_tensor *t;
  ok(tn_tensor_empty(device, dtype, 1, &size, &t));
  return t;
}

static tn_tensor *indexes(tn_device *device, int64_t rows, int64_t columns, const int64_t *values) {
  tn_tensor *t;
  ok(tn_tensor_from_host(device, TN_I64, 2, SHAPE(rows, columns), values, &t));
  return t;
}

/* On a device of host memory, and on one of its own memory that works beside the host. */
static const char *const devices[] = {"reference:0", "sim:0"};
enum { DEVICES = sizeof devices / sizeof *devices };

/* --- never written --- */

static void read_unwritten(tn_device *device) {
  float values[4];
  tn_tensor *x = empty(device, TN_F32, 4), *y = NULL, *part;
  tn_call_site("model.c:3");
  ok(tn_add(NULL, x, x, &y));
  SAID("unwritten: add at model.c:3 reads a (");
  said.count = 0;
  ok(tn_tensor_to_host(x, values, sizeof values));
  SAID("unwritten: a copy to the host at model.c:3 reads a tensor (");
  said.count = 0;
  ok(tn_tensor_slice(y, 0, 1, 3, 1, &part)); /* a view of what was written */
  ok(tn_tensor_to_host(part, values, 8));
  tn_tensor_release(part);
  tn_tensor_release(x);
  x = empty(device, TN_F32, 4); /* memory that was written for another tensor */
  tn_tensor *z = NULL;
  tn_call_site("model.c:9");
  ok(tn_mul(NULL, y, x, &z));
  SAID("unwritten: mul at model.c:9 reads b (");
  tn_call_site(NULL);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_tensor_release(z);
}

START_TEST(unwritten_tensors_are_reported) {
  for (int i = 0; i < DEVICES; ++i) {
    tn_runtime *runtime = open_validated(devices[i], "unwritten");
    read_unwritten(tn_runtime_device(runtime));
    tn_runtime_close(runtime);
  }
}
END_TEST

/* Every way of writing. */
static void write_and_read(tn_device *device) {
  float values[8] = {0};
  tn_tensor *x[7], *view = NULL, *sum = NULL;
  for (int i = 0; i < 7; ++i) x[i] = empty(device, TN_F32, 8);
  ok(tn_tensor_write(NULL, x[0], values, sizeof values));
  ok(tn_fill(NULL, x[1], &(tn_fill_attrs)TN_FILL_DEFAULTS));
  ok(tn_copy(NULL, x[0], &x[2]));
  ok(tn_uniform(NULL, x[3], &(tn_uniform_attrs)TN_UNIFORM_DEFAULTS));
  DLManagedTensorVersioned *managed;
  ok(tn_tensor_to_dlpack(x[4], &managed)); /* whoever has it may write */
  managed->deleter(managed);
  (void)tn_tensor_data(x[5]);
  ok(tn_tensor_slice(x[6], 0, 0, 8, 2, &view)); /* every other element, by a strided view */
  ok(tn_tensor_write(NULL, view, values, 16));
  tn_tensor_release(view);
  for (int i = 0; i < 7; ++i) {
    ok(tn_add(NULL, x[0], x[i], &sum));
    tn_tensor_release(sum);
    sum = NULL;
  }
  for (int i = 0; i < 7; ++i) tn_tensor_release(x[i]);
}

START_TEST(written_tensors_are_not) {
  for (int i = 0; i < DEVICES; ++i) {
    tn_runtime *runtime = open_validated(devices[i], "unwritten");
    write_and_read(tn_runtime_device(runtime));
    tn_runtime_close(runtime);
    ck_assert_msg(times_said("nothing to report") == 1, "%s:%s", devices[i], all_said());
  }
}
END_TEST

/* Beyond as many runs as are kept, the nearest count as one: nothing is made up. */
START_TEST(many_pieces_make_nothing_up) {
  enum { PIECES = 40 };
  tn_runtime *runtime = open_validated("reference:0", "unwritten");
  tn_tensor *x = empty(tn_runtime_device(runtime), TN_F32, 4 * PIECES), *piece;
  float values[2] = {1, 2};
  for (int pass = 0; pass < 2; ++pass)
    for (int i = 0; i < PIECES; ++i) {
      int64_t at = 4 * (i * 17 % PIECES);
      ok(tn_tensor_slice(x, 0, at, at + 2, 1, &piece));
      if (pass)
        ok(tn_tensor_to_host(piece, values, sizeof values));
      else
        ok(tn_tensor_write(NULL, piece, values, sizeof values));
      tn_tensor_release(piece);
    }
  tn_tensor_release(x);
  tn_runtime_close(runtime);
  ck_assert_msg(times_said("nothing to report") == 1, "%s", all_said());
}
END_TEST

/* What is updated in place is read too; what only fills a tensor does not read it. */
START_TEST(in_place_reads) {
  tn_runtime *runtime = open_validated("reference:0", "unwritten,error");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *y = empty(device, TN_F32, 4), *updates = counting(device, 2);
  tn_tensor *index = indexes(device, 1, 2, (int64_t[]){1, 2}), *flat;
  ok(tn_tensor_reshape(index, 1, SHAPE(2), &flat));
  tn_index_add_attrs attrs = TN_INDEX_ADD_DEFAULTS;
  refused(tn_index_add(NULL, updates, flat, y, &attrs), TN_ERR_INVALID_ARGUMENT,
          "unwritten: index_add reads y (reference:0 f32 [4])");
  ok(tn_fill(NULL, y, &(tn_fill_attrs)TN_FILL_DEFAULTS));
  ok(tn_index_add(NULL, updates, flat, y, &attrs));
  tn_tensor_release(y);
  tn_tensor_release(updates);
  tn_tensor_release(index);
  tn_tensor_release(flat);
  tn_runtime_close(runtime);
}
END_TEST

/* --- indexes --- */

typedef struct set {
  tn_tensor *x, *index, *rows, *target, *updates, *y;
} set;

static void gather_wrong(const set *s) {
  tn_gather_attrs attrs = TN_GATHER_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.axis = -1;
  ok(tn_gather(NULL, s->x, s->index, &attrs, &y));
  tn_tensor_release(y);
}

static void take_wrong(const set *s) {
  tn_take_along_axis_attrs attrs = TN_TAKE_ALONG_AXIS_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.axis = 1;
  ok(tn_take_along_axis(NULL, s->x, s->index, &attrs, &y));
  tn_tensor_release(y);
}

static void scatter_wrong(const set *s) {
  tn_scatter_add_attrs attrs = TN_SCATTER_ADD_DEFAULTS;
  attrs.axis = 1;
  ok(tn_scatter_add(NULL, s->updates, s->index, s->y, &attrs));
}

static void select_wrong(const set *s) {
  tn_index_select_attrs attrs = TN_INDEX_SELECT_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.axis = 1;
  ok(tn_index_select(NULL, s->x, s->rows, &attrs, &y));
  tn_tensor_release(y);
}

static void one_hot_wrong(const set *s) {
  tn_one_hot_attrs attrs = TN_ONE_HOT_DEFAULTS;
  tn_tensor *y = NULL;
  attrs.classes = 3;
  ok(tn_one_hot(NULL, s->index, &attrs, &y));
  tn_tensor_release(y);
}

static void embedding_wrong(const set *s) {
  tn_tensor *table, *y = NULL;
  ok(tn_tensor_permute(s->x, (int32_t[]){1, 0}, &table));
  ok(tn_embedding(NULL, table, s->index, &y));
  tn_tensor_release(table);
  tn_tensor_release(y);
}

static void embedding_grad_wrong(const set *s) {
  tn_embedding_grad_attrs attrs = TN_EMBEDDING_GRAD_DEFAULTS;
  tn_tensor *dtable = NULL;
  attrs.rows = 3;
  ok(tn_embedding_grad(NULL, s->updates, s->rows, &attrs, &dtable));
  tn_tensor_release(dtable);
}

static void embedding_grad_from_end_wrong(const set *s) {
  tn_embedding_grad_attrs attrs = TN_EMBEDDING_GRAD_DEFAULTS;
  tn_tensor *dtable = NULL;
  attrs.rows = 3;
  attrs.from_end = 1;
  ok(tn_embedding_grad(NULL, s->updates, s->rows, &attrs, &dtable));
  tn_tensor_release(dtable);
}

static void loss_wrong(const set *s) {
  tn_cross_entropy_attrs attrs = TN_CROSS_ENTROPY_DEFAULTS;
  tn_tensor *y = NULL;
  ok(tn_cross_entropy(NULL, s->x, s->target, &attrs, &y));
  tn_tensor_release(y);
  y = NULL;
  attrs.ignore_index = 3; /* a label that does not count */
  said.count = 0;
  ok(tn_cross_entropy(NULL, s->x, s->target, &attrs, &y));
  SILENT("index: ");
  tn_tensor_release(y);
  y = NULL;
  ok(tn_nll_loss(NULL, s->x, s->target, NULL, &y));
  tn_tensor_release(y);
}

/* x, y: [2, 3]; index [2, 2]; each has one number that is too large. */
static set make_set(tn_device *device) {
  set s;
  int64_t two = 2;
  s.x = shaped(device, TN_F32, 2, SHAPE(2, 3));
  s.y = shaped(device, TN_F32, 2, SHAPE(2, 3));
  s.updates = shaped(device, TN_F32, 2, SHAPE(2, 2));
  s.index = indexes(device, 2, 2, (int64_t[]){0, 2, 3, 1});
  ok(tn_tensor_from_host(device, TN_I64, 1, &two, (int64_t[]){2, 5}, &s.rows));
  ok(tn_tensor_from_host(device, TN_I32, 1, &two, (int32_t[]){2, 3}, &s.target));
  return s;
}

static void free_set(const set *s) {
  tn_tensor_release(s->x);
  tn_tensor_release(s->y);
  tn_tensor_release(s->updates);
  tn_tensor_release(s->index);
  tn_tensor_release(s->rows);
  tn_tensor_release(s->target);
}

static const struct {
  void (*run)(const set *s);
  const char *words[3];
} wrong[] = {
    {gather_wrong, {"index: gather at here by ", "index[1, 0] is 3, outside -3..2; 1 of them is"}},
    {take_wrong, {"index: take_along_axis at here by ", "index[1, 0] is 3, outside -3..2"}},
    {scatter_wrong, {"index: scatter_add at here by ", "index[1, 0] is 3, outside -3..2"}},
    {select_wrong, {"index: index_select at here by ", "index[1] is 5, outside -3..2"}},
    {one_hot_wrong, {"index: one_hot at here by ", "index[1, 0] is 3, outside -3..2"}},
    {embedding_wrong, {"index: embedding at here by ", "index[1, 0] is 3, outside 0..2"}},
    {embedding_grad_wrong, {"index: embedding_grad at here by ", "index[1] is 5, outside 0..2"}},
    {embedding_grad_from_end_wrong,
     {"index: embedding_grad at here by ", "index[1] is 5, outside -3..2"}},
    {loss_wrong, {"index: nll_loss at here by ", "target[1] is 3, outside 0..2"}},
};

START_TEST(indexes_out_of_range_are_reported) {
  for (int d = 0; d < DEVICES; ++d)
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
      tn_runtime *runtime = open_validated(devices[d], "index");
      set s = make_set(tn_runtime_device(runtime));
      tn_call_site("here");
      wrong[i].run(&s);
      tn_call_site(NULL);
      for (int w = 0; wrong[i].words[w]; ++w) SAID(wrong[i].words[w]);
      free_set(&s);
      tn_runtime_close(runtime);
    }
}
END_TEST

/* From the end, strided, the whole range: nothing to say; -1 is no row of a table. */
START_TEST(indexes_inside_are_not) {
  tn_runtime *runtime = open_validated("reference:0", "index");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = shaped(device, TN_F32, 2, SHAPE(2, 3)), *y = NULL, *turned;
  tn_tensor *index = indexes(device, 3, 2, (int64_t[]){-3, 0, -2, 1, -1, 2});
  ok(tn_tensor_permute(index, (int32_t[]){1, 0}, &turned));
  tn_gather_attrs attrs = TN_GATHER_DEFAULTS;
  attrs.axis = 1;
  ok(tn_gather(NULL, x, turned, &attrs, &y));
  SILENT("index: ");
  tn_tensor_release(y);
  y = NULL;
  tn_tensor *table;
  ok(tn_tensor_permute(x, (int32_t[]){1, 0}, &table));
  ok(tn_embedding(NULL, table, turned, &y));
  SAID("index[0, 0] is -3, outside 0..2; 3 of them are outside");
  tn_tensor_release(table);
  tn_tensor_release(turned);
  tn_tensor_release(index);
  tn_tensor_release(x);
  tn_tensor_release(y);
  tn_runtime_close(runtime);
}
END_TEST

/* --- the exit status --- */

static int status_of(const char *checks, bool leaks, int ends_with) {
  pid_t child = fork();
  if (child == 0) {
    tn_runtime *runtime = open_validated("reference:0", checks);
    tn_tensor *x = counting(tn_runtime_device(runtime), 2);
    if (!leaks) tn_tensor_release(x);
    tn_runtime_close(runtime);
    exit(ends_with);
  }
  int status = -1;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  return WEXITSTATUS(status);
}

START_TEST(a_leak_is_no_success_where_errors_count) {
  ck_assert_int_eq(status_of("leaks,error", true, 0), 1);
  ck_assert_int_eq(status_of("leaks,error", true, 7), 7);
  ck_assert_int_eq(status_of("leaks,error", false, 0), 0);
  ck_assert_int_eq(status_of("leaks", true, 0), 0);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, unwritten_tensors_are_reported);
  tcase_add_test(tcase, written_tensors_are_not);
  tcase_add_test(tcase, many_pieces_make_nothing_up);
  tcase_add_test(tcase, in_place_reads);
  tcase_add_test(tcase, indexes_out_of_range_are_reported);
  tcase_add_test(tcase, indexes_inside_are_not);
  tcase_add_test(tcase, a_leak_is_no_success_where_errors_count);
}

int main(void) { return run_suite("findings", add_tests); }
