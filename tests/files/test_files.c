/* Files of tensors: what was saved comes back on every device, in place where it may, and saving
 * never leaves half a file. */
#include <signal.h>
#include <sys/resource.h>

#include "tests/files/support.h"

/* --- there and back --- */

static tn_device *device_named(const char *id) {
  tn_device *found = NULL;
  ok(tn_device_find(rt, id, &found));
  return found;
}

static tn_device *const *devices(void) {
  static tn_device *all[4];
  ok(tn_runtime_load_plugin(rt, SIM_PLUGIN));
  all[0] = device_named("cpu:0");
  all[1] = device_named("reference:0");
  all[2] = device_named("sim:0");
  return all;
}

START_TEST(every_type_comes_back) {
  static const tn_dtype types[] = {TN_BOOL, TN_U8,  TN_I8,   TN_I16, TN_I32,
                                   TN_I64,  TN_F16, TN_BF16, TN_F32, TN_F64};
  enum { TYPES = sizeof types / sizeof *types };
  tn_device *const *all = devices();
  for (int d = 0; all[d]; ++d) {
    const char *names[TYPES], *path = scratch_path("types");
    tn_tensor *made[TYPES];
    unsigned char data[TYPES][6 * 8], back[6 * 8];
    for (int i = 0; i < TYPES; ++i) {
      for (size_t k = 0; k < sizeof data[0]; ++k)
        data[i][k] = (unsigned char)(types[i] == TN_BOOL ? k % 2 : 37 * k + (unsigned)i);
      names[i] = tn_dtype_name(types[i]);
      ok(tn_tensor_from_host(all[d], types[i], 2, SHAPE(2, 3), data[i], &made[i]));
    }
    const tn_tensors_metadata said = {"by", "\"a\\test\"\n\x7f"};
    ok(tn_tensors_save(path, TYPES, names, (const tn_tensor *const *)made, 1, &said));
    tn_tensors *file = NULL;
    ok(tn_tensors_open(path, &file));
    ck_assert_uint_eq(tn_tensors_count(file), TYPES);
    tn_tensors_metadata pair;
    ok(tn_tensors_metadata_at(file, 0, &pair));
    ck_assert(strcmp(pair.key, said.key) == 0 && strcmp(pair.value, said.value) == 0);
    for (int to = 0; all[to]; ++to)
      for (int i = 0; i < TYPES; ++i) {
        tn_tensor *t = load(file, names[i], all[to]);
        ck_assert(tn_tensor_dtype(t) == types[i] && tn_tensor_rank(t) == 2);
        ck_assert(tn_tensor_shape(t)[0] == 2 && tn_tensor_shape(t)[1] == 3);
        ok(tn_tensor_to_host(t, back, tn_tensor_bytes(t)));
        ck_assert_mem_eq(back, data[i], tn_tensor_bytes(t));
        tn_tensor_release(t);
      }
    tn_tensors_close(file);
    for (int i = 0; i < TYPES; ++i) tn_tensor_release(made[i]);
  }
}
END_TEST

START_TEST(mapped_tensors_outlive_their_file_and_are_not_written) {
  tn_tensors *file = open_made(ONE("I32", "[2]", "0", "8") "      ", 8);
  tn_tensor *t = load(file, "w", dev), *again = load(file, "w", dev), *y = NULL, *view = NULL;
  DLManagedTensorVersioned *managed = NULL;
  tn_tensors_close(file);
  ck_assert_ptr_eq(tn_tensor_data(t), tn_tensor_data(again)); /* the file's own bytes */
  tn_tensor_release(again);
  const int32_t want[2] = {0x03020100, 0x07060504};
  ck_assert_mem_eq(tn_tensor_data(t), want, sizeof want);
  refused(tn_add(NULL, t, t, &t), TN_ERR_INVALID_ARGUMENT, "read-only");
  refused(tn_tensor_write(NULL, t, want, sizeof want), TN_ERR_INVALID_ARGUMENT, "read-only");
  ok(tn_tensor_slice(t, 0, 1, 2, 1, &view));
  ok(tn_tensor_to_dlpack(view, &managed));
  ck_assert(managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
  ok(tn_copy(NULL, t, &y));
  tn_tensor_release(t);
  ok(tn_add(NULL, y, y, &y));
  ok(tn_add(NULL, y, view, &y));
  tn_tensor_release(view);
  ck_assert_int_eq(*(const int32_t *)managed->dl_tensor.data, want[1]);
  managed->deleter(managed);
  ck_assert_int_eq(((const int32_t *)tn_tensor_data(y))[0], 2 * want[0] + want[1]);
  tn_tensor_release(y);
}
END_TEST

START_TEST(mapped_tensors_may_outlive_the_runtime) {
  tn_runtime *own = open_host_runtime();
  tn_tensors *file = open_made(ONE("U8", "[2]", "0", "2"), 2);
  tn_tensor *t = load(file, "w", tn_runtime_device(own)), *none = NULL;
  tn_runtime_close(own);
  refused(tn_tensors_load(file, 0, dev, &none) == TN_OK ? tn_add(NULL, t, none, &t) : TN_OK,
          TN_ERR_CLOSED, "closed");
  tn_tensors_close(file);
  tn_tensor_release(t);
  tn_tensor_release(none);
}
END_TEST

/* A header that leaves its tensors at odd addresses: they are copied. */
START_TEST(unaligned_tensors_are_copied) {
  const char *header =
      "{" ENTRY("a", "U8", "[1]", "0", "1") "," ENTRY("b", "F64", "[1]", "1", "9") "}";
  tn_tensors *file = open_made(header, 9);
  tn_tensor *b = load(file, "b", dev);
  ck_assert_uint_eq((uintptr_t)tn_tensor_data(b) % 8, 0);
  const unsigned char want[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  ck_assert_mem_eq(tn_tensor_data(b), want, sizeof want);
  ok(tn_tensor_write(NULL, b, want, sizeof want)); /* a copy may be written */
  tn_tensor_release(b);
  tn_tensors_close(file);
}
END_TEST

START_TEST(a_file_that_changes_its_length_is_told) {
  const char *header = ONE("U8", "[8]", "0", "8");
  const char *path = make_file(header, strlen(header), 8);
  tn_tensors *file = NULL;
  tn_tensor *t = NULL;
  ok(tn_tensors_open(path, &file));
  ck_assert_int_eq(truncate(path, (off_t)strlen(header) + 12), 0);
  refused(tn_tensors_load(file, 0, dev, &t), TN_ERR_IO, "bytes when it was opened");
  tn_tensors_close(file);
}
END_TEST

/* Strides, nothing at all, and what is larger than one piece, whole and strided. */
START_TEST(shapes_and_strides_are_saved_row_major) {
  enum { ROWS = 1500, COLS = 1400 }; /* 8.4 MB */
  tn_device *const *all = devices();
  float *values = malloc(sizeof(float) * ROWS * COLS), *back = malloc(sizeof(float) * ROWS * COLS);
  for (int i = 0; i < ROWS * COLS; ++i) values[i] = (float)i;
  for (int d = 0; all[d]; ++d) {
    tn_tensor *big = NULL, *turned = NULL, *row = NULL, *same = NULL, *none = NULL, *one = NULL;
    ok(tn_tensor_from_host(all[d], TN_F32, 2, SHAPE(ROWS, COLS), values, &big));
    ok(tn_tensor_permute(big, (int32_t[]){1, 0}, &turned));
    ok(tn_tensor_slice(big, 0, 1, 2, 1, &row));
    ok(tn_tensor_expand(row, 3, SHAPE(1, 1200, COLS), &same)); /* 6.7 MB, of stride 0 */
    none = shaped(all[d], TN_F16, 3, SHAPE(0, 5, 0));
    ok(tn_tensor_from_host(all[d], TN_F32, 0, NULL, values + 7, &one));
    const char *names[] = {"big", "turned", "same", "none", "one"};
    const tn_tensor *given[] = {big, turned, same, none, one};
    ok(tn_tensors_save(scratch_path("shapes"), 5, names, given, 0, NULL));
    tn_tensors *file = NULL;
    ok(tn_tensors_open(scratch_path("shapes"), &file));
    for (int to = 0; all[to]; ++to) {
      tn_tensor *t = load(file, "big", all[to]);
      ok(tn_tensor_to_host(t, back, sizeof(float) * ROWS * COLS));
      ck_assert_mem_eq(back, values, sizeof(float) * ROWS * COLS);
      tn_tensor_release(t);
      t = load(file, "turned", all[to]);
      ck_assert(tn_tensor_shape(t)[0] == COLS && tn_tensor_is_contiguous(t));
      ok(tn_tensor_to_host(t, back, sizeof(float) * ROWS * COLS));
      int wrong = 0;
      for (int i = 0; i < ROWS * COLS; ++i) wrong += back[i] != values[i % ROWS * COLS + i / ROWS];
      tn_tensor_release(t);
      t = load(file, "same", all[to]);
      ok(tn_tensor_to_host(t, back, sizeof(float) * 1200 * COLS));
      for (int i = 0; i < 1200 * COLS; ++i) wrong += back[i] != values[COLS + i % COLS];
      ck_assert_int_eq(wrong, 0);
      tn_tensor_release(t);
      t = load(file, "none", all[to]);
      ck_assert(tn_tensor_rank(t) == 3 && tn_tensor_elements(t) == 0 && tn_tensor_shape(t)[1] == 5);
      tn_tensor_release(t);
      t = load(file, "one", all[to]);
      ok(tn_tensor_to_host(t, back, sizeof *back));
      ck_assert(tn_tensor_rank(t) == 0 && back[0] == 7);
      tn_tensor_release(t);
    }
    tn_tensors_close(file);
    for (int i = 0; i < 5; ++i) tn_tensor_release((tn_tensor *)(uintptr_t)given[i]);
    tn_tensor_release(row);
  }
  free(values);
  free(back);
}
END_TEST

/* --- saving --- */

/* How many files the scratch folder has. */
static int files_there(void) {
  char command[160], count[16] = "";
  snprintf(command, sizeof command, "ls '%s' | wc -l", scratch);
  FILE *pipe = popen(command, "r");
  ck_assert_ptr_nonnull(fgets(count, sizeof count, pipe));
  pclose(pipe);
  return atoi(count);
}

START_TEST(what_cannot_be_saved_leaves_the_old_file) {
  tn_tensor *x = counting(dev, 3);
  const tn_tensor *given[2] = {x, x};
  const char *path = scratch_path("kept");
  const char *w[] = {"w", "w"}, *odd[] = {"\xff"}, *kept[] = {"__metadata__"}, *none[] = {NULL};
  ok(tn_tensors_save(path, 1, w, given, 0, NULL));
  const tn_tensors_metadata twice[] = {{"k", "1"}, {"k", "2"}}, half = {"k", NULL};
  refused(tn_tensors_save(path, 2, w, given, 0, NULL), TN_ERR_INVALID_ARGUMENT,
          "two tensors are called 'w'");
  refused(tn_tensors_save(path, 1, odd, given, 0, NULL), TN_ERR_INVALID_ARGUMENT, "not UTF-8");
  refused(tn_tensors_save(path, 1, kept, given, 0, NULL), TN_ERR_INVALID_ARGUMENT,
          "kept for the metadata");
  refused(tn_tensors_save(path, 1, none, given, 0, NULL), TN_ERR_INVALID_ARGUMENT,
          "name 0 is NULL");
  refused(tn_tensors_save(path, 1, w, (const tn_tensor *[]){NULL}, 0, NULL),
          TN_ERR_INVALID_ARGUMENT, "tensor 0 is NULL");
  refused(tn_tensors_save(path, 1, w, given, 2, twice), TN_ERR_INVALID_ARGUMENT, "have one key");
  refused(tn_tensors_save(path, 1, w, given, 1, &half), TN_ERR_INVALID_ARGUMENT, "is NULL or not");
  refused(tn_tensors_save(path, 1, w, given, 1, NULL), TN_ERR_INVALID_ARGUMENT, "metadata is NULL");
  refused(tn_tensors_save(path, 1, NULL, given, 0, NULL), TN_ERR_INVALID_ARGUMENT, "names");
  refused(tn_tensors_save(NULL, 0, NULL, NULL, 0, NULL), TN_ERR_INVALID_ARGUMENT, "path");
  refused(tn_tensors_save(scratch, 1, w, given, 0, NULL), TN_ERR_IO, "something else");
  refused(tn_tensors_save(scratch_path("no/such"), 1, w, given, 0, NULL), TN_ERR_IO, "folder");
  tn_runtime *own = open_host_runtime();
  const tn_tensor *dead[1] = {counting(tn_runtime_device(own), 3)};
  tn_runtime_close(own);
  refused(tn_tensors_save(path, 1, w, dead, 0, NULL), TN_ERR_CLOSED, "tensor 'w'");
  tn_tensors *file = NULL;
  ok(tn_tensors_open(path, &file));
  ck_assert_uint_eq(tn_tensors_count(file), 1);
  tn_tensors_close(file);
  ck_assert_int_eq(files_there(), 1); /* and nothing half-written */
  tn_tensor_release((tn_tensor *)(uintptr_t)dead[0]);
  tn_tensor_release(x);
}
END_TEST

/* A disk that takes no more. */
START_TEST(a_full_disk_leaves_the_old_file) {
  tn_tensor *x = counting(dev, 1 << 18);
  const char *path = scratch_path("full"), *w[] = {"w"};
  const tn_tensor *given[1] = {x};
  struct rlimit before, small = {1 << 16, 0};
  ok(tn_tensors_save(path, 0, NULL, NULL, 0, NULL));
  ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
  small.rlim_max = before.rlim_max;
  signal(SIGXFSZ, SIG_IGN);
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
  refused(tn_tensors_save(path, 1, w, given, 0, NULL), TN_ERR_IO, "it cannot be written");
  ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
  tn_tensors *file = NULL;
  ok(tn_tensors_open(path, &file));
  ck_assert_uint_eq(tn_tensors_count(file), 0);
  tn_tensors_close(file);
  ck_assert_int_eq(files_there(), 1);
  tn_tensor_release(x);
}
END_TEST

/* A tensor that lies in the file is saved over it; links are followed; the mode is a new file's. */
START_TEST(a_file_may_be_saved_over_itself) {
  tn_tensor *x = counting(dev, 5), *y = NULL;
  const tn_tensor *given[1] = {x};
  const char *path = scratch_path("self"), *link = scratch_path("link"), *w[] = {"w"};
  ok(tn_tensors_save(path, 1, w, given, 0, NULL));
  ck_assert_int_eq(symlink(path, link), 0);
  tn_tensors *file = NULL;
  ok(tn_tensors_open(link, &file));
  tn_tensor *mapped = load(file, "w", dev);
  tn_tensors_close(file);
  ok(tn_add(NULL, mapped, x, &y));
  const char *names[] = {"mapped", "sum"};
  ck_assert_int_eq(chmod(path, 0604), 0);
  ok(tn_tensors_save(link, 2, names, (const tn_tensor *[]){mapped, y}, 0, NULL));
  struct stat s;
  ck_assert_int_eq(lstat(link, &s), 0);
  ck_assert(S_ISLNK(s.st_mode));
  ck_assert_int_eq(stat(path, &s), 0);
  ck_assert_uint_eq(s.st_mode & 0777, 0604); /* the mode that it had */
  ok(tn_tensors_open(path, &file));
  tn_tensor *sum = load(file, "sum", dev);
  ck_assert(((const float *)tn_tensor_data(sum))[4] == 10);
  ck_assert(((const float *)tn_tensor_data(mapped))[4] == 5); /* of the file that was */
  tn_tensor_release(sum);
  tn_tensors_close(file);
  tn_tensor_release(mapped);
  tn_tensor_release(x);
  tn_tensor_release(y);
}
END_TEST

START_TEST(modes_and_links) {
  tn_tensor *x = counting(dev, 5);
  const tn_tensor *given[1] = {x};
  const char *path = scratch_path("new"), *nowhere = scratch_path("nowhere"), *w[] = {"w"};
  struct stat s;
  umask(027);
  ok(tn_tensors_save(path, 1, w, given, 0, NULL));
  ck_assert_int_eq(stat(path, &s), 0);
  ck_assert_uint_eq(s.st_mode & 0777, 0640);
  ck_assert_int_eq(symlink("/no/such/file", nowhere), 0);
  refused(tn_tensors_save(nowhere, 1, w, given, 0, NULL), TN_ERR_IO, "leads nowhere");
  ck_assert_int_eq(lstat(nowhere, &s), 0);
  ck_assert(S_ISLNK(s.st_mode));
  tn_tensor_release(x);
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, files_setup, files_teardown);
  tcase_add_test(t, every_type_comes_back);
  tcase_add_test(t, mapped_tensors_outlive_their_file_and_are_not_written);
  tcase_add_test(t, mapped_tensors_may_outlive_the_runtime);
  tcase_add_test(t, unaligned_tensors_are_copied);
  tcase_add_test(t, a_file_that_changes_its_length_is_told);
  tcase_add_test(t, shapes_and_strides_are_saved_row_major);
  tcase_add_test(t, what_cannot_be_saved_leaves_the_old_file);
  tcase_add_test(t, a_full_disk_leaves_the_old_file);
  tcase_add_test(t, a_file_may_be_saved_over_itself);
  tcase_add_test(t, modes_and_links);
}

int main(void) { return run_suite("files", add_tests); }
