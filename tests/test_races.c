/*
 * The layer validate finds races and nothing else: programs with one race planted in each,
 * which it must report, and programs that order the same work, which it must not. They run
 * on the simulated device, whose streams have no order but what the program gives them; the
 * device itself works at once, so that the verdict does not depend on time.
 */
#include "ordered_programs.h"
#include "race_programs.h"

START_TEST(planted_races_are_reported) {
  for (size_t i = 0; i < RACY; ++i) {
    world w = world_open("sim:0");
    racy[i].run(&w);
    ck_assert_msg(times_said("race: ") > 0, "%s: not a word", racy[i].name);
    world_close(&w);
  }
}
END_TEST

START_TEST(ordered_programs_are_not) {
  for (size_t i = 0; i < ORDERED; ++i) {
    world w = world_open("sim:0");
    ordered[i].run(&w);
    ck_assert_msg(times_said("race: ") == 0, "%s:%s", ordered[i].name, all_said());
    world_close(&w);
    ck_assert_msg(times_said("nothing to report") == 1, "%s:%s", ordered[i].name, all_said());
  }
}
END_TEST

/* What is about the memory or the kernels of sim. */
static bool is_of_sim(void (*run)(world *w)) {
  return run == memory_of_a_released_tensor || run == kernels_with_workspace ||
         run == falls_back_without_waiting;
}

/* A device that computes in its caller orders everything by chance: the program is as wrong. */
START_TEST(synchronous_devices_find_the_same) {
  for (size_t i = 0; i < RACY; ++i) {
    if (is_of_sim(racy[i].run)) continue;
    world w = world_open("reference:0");
    racy[i].run(&w);
    ck_assert_msg(times_said("race: ") > 0, "%s: not a word", racy[i].name);
    world_close(&w);
  }
  for (size_t i = 0; i < ORDERED; ++i) {
    world w = world_open("reference:0");
    ordered[i].run(&w);
    world_close(&w);
    ck_assert_msg(times_said("nothing to report") == 1, "%s:%s", ordered[i].name, all_said());
  }
}
END_TEST

START_TEST(both_sides_are_named_once) {
  world w = world_open("sim:0");
  for (int i = 0; i < 3; ++i) {
    tn_call_site("writer.c:1");
    add(w.a, w.x, w.x, w.z);
    tn_call_site("reader.c:2");
    add(w.b, w.z, w.x, w.y);
    tn_call_site(NULL);
    ok(tn_device_synchronize(w.device));
  }
  ck_assert_uint_eq(times_said("race: "), 1);
  SAID("race: add at reader.c:2 reads a (sim:0 f32 [8]) on stream 3 while add at writer.c:1, which "
       "writes it on stream 2, may not be done");
  world_close(&w);
  SAID("3 x race: add at reader.c:2, add at writer.c:1");
}
END_TEST

START_TEST(error_refuses_the_call) {
  tn_runtime *runtime = open_validated("sim:0", "races,error");
  tn_device *device = tn_runtime_device(runtime);
  tn_tensor *x = counting(device, 8), *z = NULL;
  tn_stream *a;
  ok(tn_stream_create(device, &a));
  refused(tn_add(a, x, x, &z), TN_ERR_INVALID_ARGUMENT, "race: add reads");
  ck_assert_ptr_null(z);
  tn_tensor_release(x);
  tn_stream_destroy(a);
  tn_runtime_close(runtime);
}
END_TEST

static void add_tests(TCase *tcase) {
  tcase_add_test(tcase, planted_races_are_reported);
  tcase_add_test(tcase, ordered_programs_are_not);
  tcase_add_test(tcase, synchronous_devices_find_the_same);
  tcase_add_test(tcase, both_sides_are_named_once);
  tcase_add_test(tcase, error_refuses_the_call);
}

int main(void) { return run_suite("races", add_tests); }
