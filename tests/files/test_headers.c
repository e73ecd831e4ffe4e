/* Headers of files of tensors: what is listed, a table of files that are not as the format has
 * them, each with what is said of it, and a thousand mutations of a right one. */
#include "tests/files/support.h"

START_TEST(lists_what_is_there) {
  tn_tensors *file =
      open_made("{ \"__metadata__\" : {\"b\\u00e9\":\"\\ud83d\\ude00\",\"a\":\"\"},\r\n\t"
                "\"w\\\"\\\\\\/\":{\"shape\":[2,3],\"data_offsets\":[4, 16],\"dtype\":\"I16\"},"
                "\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[3,4]},"
                "\"none\":{\"dtype\":\"F32\",\"shape\":[7,0,9],\"data_offsets\":[4,4]},"
                "\"f8\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]},"
                "\"f4\":{\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[16,18]},"
                "\"new\":{\"dtype\":\"X99\",\"shape\":[5],\"data_offsets\":[18,20]}}   ",
                20);
  static const char *const names[] = {"", "f4", "f8", "new", "none", "w\"\\/"};
  tn_tensors_metadata pair;
  size_t index = 99;
  ck_assert_uint_eq(tn_tensors_count(file), 6);
  for (size_t i = 0; i < 6; ++i) {
    ck_assert_str_eq(entry_of(file, i).name, names[i]);
    ok(tn_tensors_find(file, names[i], &index));
    ck_assert_uint_eq(index, i);
  }
  tn_tensors_entry w = entry_of(file, 5);
  ck_assert(w.dtype == TN_I16 && w.rank == 2 && w.shape[0] == 2 && w.shape[1] == 3);
  ck_assert(w.bytes == 12 && strcmp(w.type, "I16") == 0);
  ck_assert(entry_of(file, 1).dtype == TN_DTYPE_NONE);
  ck_assert(entry_of(file, 2).dtype == TN_F8_E4M3);
  ck_assert_str_eq(entry_of(file, 2).type, "F8_E4M3");
  ck_assert(entry_of(file, 4).bytes == 0 && entry_of(file, 4).rank == 3);
  ok(tn_tensors_metadata_at(file, 0, &pair));
  ck_assert(strcmp(pair.key, "a") == 0 && strcmp(pair.value, "") == 0);
  ok(tn_tensors_metadata_at(file, 1, &pair));
  ck_assert(strcmp(pair.key, "b\xc3\xa9") == 0 && strcmp(pair.value, "\xf0\x9f\x98\x80") == 0);
  refused(tn_tensors_metadata_at(file, 2, &pair), TN_ERR_NOT_FOUND, "2 pairs");
  refused(tn_tensors_find(file, "w", &index), TN_ERR_NOT_FOUND, "no tensor 'w'");
  refused(tn_tensors_at(file, 6, &w), TN_ERR_NOT_FOUND, "6 tensors");
  tn_tensors_close(file);
}
END_TEST

START_TEST(types_that_we_lack_are_refused_when_loaded) {
  tn_tensors *file =
      open_made("{\"a\":{\"dtype\":\"F8_E8M0\",\"shape\":[4],\"data_offsets\":[0,4]},"
                "\"b\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[4,8]},"
                "\"c\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[8,10]},"
                "\"d\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[10,12]}}",
                12);
  tn_tensor *t = NULL;
  refused(tn_tensors_load(file, 0, dev, &t), TN_ERR_UNSUPPORTED,
          "tensor 'a': Tenon has no element type F8_E8M0");
  refused(tn_tensors_load(file, 1, dev, &t), TN_ERR_UNSUPPORTED, "rank 9; at most 8");
  refused(tn_tensors_load(file, 2, dev, &t), TN_ERR_IO, "a BOOL of value 8");
  refused(tn_tensors_load(file, 4, dev, &t), TN_ERR_NOT_FOUND, "4 tensors");
  refused(tn_tensors_load(file, 0, NULL, &t), TN_ERR_INVALID_ARGUMENT, "NULL");
  ck_assert_ptr_null(t);
  tn_tensors_close(file);
}
END_TEST

/* --- what is refused --- */

static const struct malformed {
  const char *header;
  size_t data_bytes;
  const char *message;
} malformed[] = {
    {"", 0, "does not begin with '{'"},
    {" {}", 0, "does not begin with '{'"},
    {"[]", 0, "does not begin with '{'"},
    {"{", 0, "at its byte 1: expected a string"},
    {"{}x", 0, "at its byte 2: more text behind its end"},
    {"{}", 3, "the last 3 bytes of the file belong to no tensor"},
    {"{\"w\"}", 0, "expected ':'"},
    {"{\"w\":1}", 0,
     "tensor 'w': the header is not as it should be at its byte 5: expected an "
     "object"},
    {"{\"w\":{\"a\":{\"b\":{}}}}", 0, "the key 'a' is none of dtype, shape and data_offsets"},
    {"{\"w\":{}}", 0, "tensor 'w': it has no dtype"},
    {"{\"w\":{\"dtype\":\"U8\"}}", 0, "tensor 'w': it has no shape"},
    {"{\"w\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, "tensor 'w': it has no data_offsets"},
    {"{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "tensor 'w': dtype stands twice"},
    {"{\"w\":{\"shape\":[1,]}}", 0, "expected a whole number from 0 on"},
    {"{\"w\":{\"shape\":[-1]}}", 0, "expected a whole number from 0 on"},
    {"{\"w\":{\"shape\":[1.0]}}", 0, "a number that is not whole"},
    {"{\"w\":{\"shape\":[1e1]}}", 0, "a number that is not whole"},
    {"{\"w\":{\"shape\":[01]}}", 0, "a number that begins with 0"},
    {"{\"w\":{\"shape\":[9223372036854775808]}}", 0, "a number of more than 63 bits"},
    {"{\"w\":{\"shape\":[1 2]}}", 0, "expected ',' or ']'"},
    {"{\"w\":{\"shape\":[[1]]}}", 0, "expected a whole number from 0 on"},
    {"{\"w\":{\"shape\":null}}", 0, "expected an array"},
    {"{\"w\":{\"data_offsets\":[0]}}", 0, "data_offsets must be two numbers"},
    {"{\"w\":{\"data_offsets\":[0,1,2]}}", 0, "data_offsets must be two numbers"},
    {"{\"w\":{\"dtype\":3}}", 0, "expected a string"},
    {ONE("F32", "[9223372036854775807,2]", "0", "8"), 8, "the product of its shape is too large"},
    {ONE("F32", "[4294967296,4294967296,0]", "0", "0"), 0, "the product of its shape is too large"},
    {ONE("F32", "[288230376151711744]", "0", "8"), 8, "the product of its shape is too large"},
    {ONE("F32", "[2]", "0", "9"), 8, "data_offsets 0 to 9 are outside the 8 bytes"},
    {ONE("F32", "[2]", "8", "0"), 8, "data_offsets 8 to 0 are outside"},
    {ONE("F32", "[2]", "9223372036854775807", "9223372036854775807"), 8, "are outside the 8 bytes"},
    {ONE("F32", "[2]", "0", "4"), 4, "its shape in F32 takes 8 bytes, its data_offsets 4"},
    {ONE("F64", "[]", "0", "4"), 4, "its shape in F64 takes 8 bytes, its data_offsets 4"},
    {ONE("F4", "[3]", "0", "2"), 2, "its elements end inside a byte"},
    {ONE("U8", "[2]", "1", "3"), 3, "the bytes 0 to 1 before it belong to no tensor"},
    {ONE("U8", "[2]", "0", "2"), 3, "the last 1 bytes of the file belong to no tensor"},
    {"{" ENTRY("a", "U8", "[2]", "0", "2") "," ENTRY("b", "U8", "[2]", "1", "3") "}", 3,
     "tensor 'b': its bytes from 1 on belong to another tensor too"},
    {"{" ENTRY("a", "U8", "[2]", "0", "2") "," ENTRY("b", "U8", "[0]", "1", "1") "}", 2,
     "tensor 'b': its bytes from 1 on belong to another tensor too"},
    {"{" ENTRY("a", "U8", "[2]", "0", "2") "," ENTRY("b", "U8", "[2]", "4", "6") "}", 6,
     "tensor 'b': the bytes 2 to 4 before it belong to no tensor"},
    {"{" ENTRY("a", "U8", "[2]", "0", "2") "," ENTRY("a", "U8", "[2]", "2", "4") "}", 4,
     "tensor 'a': the name stands twice"},
    {"{" ENTRY("a", "U8", "[0]", "0", "0") "," ENTRY("\\u0061", "U8", "[0]", "0", "0") "}", 0,
     "tensor 'a': the name stands twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ stands twice"},
    {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "the key 'k' stands twice"},
    {"{\"__metadata__\":{\"k\":1}}", 0, "expected a string"},
    {"{\"__metadata__\":null}", 0, "expected an object"},
    {"{\"w", 0, "a string that does not end"},
    {"{\"w\\", 0, "a string that does not end"},
    {"{\"w\\u12", 0, "a string that does not end"},
    {"{\"\\u12g4\":{}}", 0, "\\u without four hexadecimal digits"},
    {"{\"\\u0000\":{}}", 0, "\\u0000"},
    {"{\"\\q\":{}}", 0, "an escape that JSON does not have"},
    {"{\"\\ud800\":{}}", 0, "half of a surrogate pair"},
    {"{\"\\ud800\\u0041\":{}}", 0, "half of a surrogate pair"},
    {"{\"\\udc00\":{}}", 0, "half of a surrogate pair"},
    {"{\"a\nb\":{}}", 0, "a control character in a string"},
    {"{\"\xff\":{}}", 0, "a string that is not UTF-8"},
    {"{\"\xc0\x80\":{}}", 0, "a string that is not UTF-8"},
    {"{\"\xed\xa0\x80\":{}}", 0, "a string that is not UTF-8"},
    {"{\"\xf4\x90\x80\x80\":{}}", 0, "a string that is not UTF-8"},
    {"{\"\xe2\x82\":{}}", 0, "a string that is not UTF-8"},
};

START_TEST(malformed_files_are_refused) {
  const struct malformed *m = &malformed[_i];
  tn_tensors *file = NULL;
  const char *path = make_file(m->header, strlen(m->header), m->data_bytes);
  refused(tn_tensors_open(path, &file), TN_ERR_IO, m->message);
  ck_assert_ptr_null(file);
  ck_assert_ptr_nonnull(strstr(tn_last_error(), path)); /* the file is named */
}
END_TEST

START_TEST(lengths_are_held_against_the_file) {
  tn_tensors *file = NULL;
  const uint64_t wrong[] = {3, 4, 100, 1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i)
    refused(tn_tensors_open(make_file("{}", wrong[i], 0), &file), TN_ERR_IO, "it states a header");
  for (size_t size = 0; size < 8; ++size)
    refused(tn_tensors_open(write_file("short", "\2\0\0\0\0\0\0", size), &file), TN_ERR_IO,
            "at least 8 bytes");
  refused(tn_tensors_open(make_file("{}", 1, 0), &file), TN_ERR_IO, "expected a string");
  /* A header larger than is taken, in a file that has as many bytes. */
  const char *path = make_file("{}", 100000001, 0);
  ck_assert_int_eq(truncate(path, 100000001 + 8), 0);
  refused(tn_tensors_open(path, &file), TN_ERR_IO, "at most 100000000");
  refused(tn_tensors_open(scratch, &file), TN_ERR_IO, "not a regular file");
  ck_assert_int_eq(mkfifo(scratch_path("fifo"), 0600), 0);
  refused(tn_tensors_open(scratch_path("fifo"), &file), TN_ERR_IO, "not a regular file");
  refused(tn_tensors_open(scratch_path("absent"), &file), TN_ERR_NOT_FOUND, "cannot be opened");
  refused(tn_tensors_open(NULL, &file), TN_ERR_INVALID_ARGUMENT, "NULL");
  refused(tn_tensors_open("x", NULL), TN_ERR_INVALID_ARGUMENT, "NULL");
  ck_assert_ptr_null(file);
}
END_TEST

/* --- a thousand mutations --- */

static uint32_t random_state;
static uint32_t draw(uint32_t below) {
  random_state = random_state * 1664525u + 1013904223u;
  return (random_state >> 8) % below;
}

/* Changes a header in one to four places; what came to be there is of the kind that headers hold.
 */
static size_t mutate(unsigned char *bytes, size_t size) {
  static const char pieces[] = "{}[]:,\"\\0123456789-eE.u \xff\xc3\x80\x01";
  for (uint32_t n = draw(4) + 1; n > 0; --n) {
    size_t at = draw((uint32_t)size), other = draw((uint32_t)size);
    switch (draw(5)) {
    case 0:
      bytes[at] = (unsigned char)pieces[draw(sizeof pieces)];
      break;
    case 1:
      bytes[at] ^= (unsigned char)(1u << draw(8));
      break;
    case 2:
      if (at < other) memmove(bytes + at, bytes + other, size - other), size -= other - at;
      break;
    case 3:
      if (size - at > 16) memmove(bytes + at + 8, bytes + at, size - at - 8);
      break;
    default:
      bytes[at] = bytes[other];
    }
    if (size < 16) break;
  }
  return size;
}

START_TEST(mutated_headers_do_no_harm) {
  static const char header[] = "{\"__metadata__\":{\"made\":\"by h\\u0061nd\"}," ENTRY(
      "layer.0.weight", "F32", "[2,3]", "0",
      "24") "," ENTRY("b", "BOOL", "[3,2]", "24", "30") "," ENTRY("t\\n", "I64", "[]", "30",
                                                                  "38") "}";
  unsigned char bytes[8 + sizeof header + 64];
  int taken = 0;
  random_state = 20260101;
  for (int round = 0; round < 1000; ++round) {
    tn_tensors *file = NULL;
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes + 8, header, sizeof header - 1);
    size_t size = round % 10 == 0 ? sizeof header - 1 : mutate(bytes + 8, sizeof header - 1);
    for (int i = 0; i < 8; ++i) bytes[i] = (unsigned char)(size >> 8 * i);
    if (round % 10 == 1) bytes[draw(8)] ^= (unsigned char)(1u << draw(8));
    const char *path = write_file("mutated", bytes, 8 + size + 38);
    if (tn_tensors_open(path, &file)) {
      ck_assert_ptr_nonnull(strstr(tn_last_error(), "mutated"));
      continue;
    }
    ++taken;
    for (size_t i = 0; i < tn_tensors_count(file); ++i) {
      tn_tensor *t = NULL;
      tn_tensors_entry e = entry_of(file, i);
      if (tn_tensors_load(file, i, dev, &t)) continue;
      unsigned char back[64];
      ck_assert_uint_eq(tn_tensor_bytes(t), e.bytes);
      ok(tn_tensor_to_host(t, back, e.bytes));
      tn_tensor_release(t);
    }
    tn_tensors_close(file);
  }
  ck_assert_int_ge(taken, 100);
  ck_assert_int_lt(taken, 600); /* and most of them are refused */
}
END_TEST

static void add_tests(TCase *t) {
  tcase_add_checked_fixture(t, files_setup, files_teardown);
  tcase_add_test(t, lists_what_is_there);
  tcase_add_test(t, types_that_we_lack_are_refused_when_loaded);
  tcase_add_loop_test(t, malformed_files_are_refused, 0, sizeof malformed / sizeof *malformed);
  tcase_add_test(t, lengths_are_held_against_the_file);
  tcase_add_test(t, mutated_headers_do_no_harm);
}

int main(void) { return run_suite("file_headers", add_tests); }
