/* Whose file a plugin is: owners, groups, modes and links on the way from the root to it. */
#include "inspect.h"

START_TEST(writable_by_all) {
  const char *path = copy_fixture(FIXTURE("good"), "libtenon-w.so");
  inspect_accepts(path, "good");
  chmod(path, 0666);
  inspect_refuses(path, "file can be written to by every user");
  chmod(path, 0644);
  chmod(scratch, 0777);
  inspect_refuses(path, "its folder");
  message_has(scratch);
  chmod(scratch, 01777);
  inspect_accepts(path, "good");
  chmod(scratch, 0700);
}
END_TEST

START_TEST(of_another_user) {
  const char *path = copy_fixture(FIXTURE("good"), "libtenon-o.so");
  if (geteuid() != 0) return; /* only root can give files away */
  ck_assert_int_eq(chown(path, 12345, 12345), 0);
  inspect_refuses(path, "belongs to user 12345");
  ck_assert_int_eq(chown(path, 0, 12345), 0);
  inspect_accepts(path, "good");
}
END_TEST

START_TEST(links_are_followed) {
  const char *path = copy_fixture(FIXTURE("good"), "file"), *link = scratch_path("libtenon-l.so");
  ck_assert_int_eq(symlink(path, link), 0);
  inspect_accepts(link, "good");
  const char *folder = scratch_path("open");
  ck_assert_int_eq(mkdir(folder, 0700), 0);
  ck_assert_int_eq(rename(path, scratch_path("open/file")), 0);
  ck_assert_int_eq(remove(link), 0);
  ck_assert_int_eq(symlink(scratch_path("open/file"), link), 0);
  inspect_accepts(link, "good");
  chmod(folder, 0777);
  inspect_refuses(link, "its folder");
  ck_assert_int_eq(symlink("loop", scratch_path("loop")), 0);
  inspect_refuses(scratch_path("loop"), "symbolic links");
  ck_assert_int_eq(symlink("/nowhere/at/all", scratch_path("dangling")), 0);
  inspect_refuses(scratch_path("dangling"), "No such file");
  ck_assert_int_eq(mkfifo(scratch_path("pipe"), 0644), 0);
  inspect_refuses(scratch_path("pipe"), "no regular file");
}
END_TEST

/* A plugin three folders down, and the folders' names. */
typedef struct tree {
  char top[256], middle[256], bottom[256], file[256];
} tree;

static tree make_tree(void) {
  tree t;
  snprintf(t.top, sizeof t.top, "%s/a", scratch);
  snprintf(t.middle, sizeof t.middle, "%s/a/b", scratch);
  snprintf(t.bottom, sizeof t.bottom, "%s/a/b/c", scratch);
  ck_assert_int_eq(mkdir(t.top, 0755), 0);
  ck_assert_int_eq(mkdir(t.middle, 0755), 0);
  ck_assert_int_eq(mkdir(t.bottom, 0755), 0);
  snprintf(t.file, sizeof t.file, "%s", copy_fixture(FIXTURE("good"), "a/b/c/libtenon-t.so"));
  inspect_accepts(t.file, "good");
  return t;
}

START_TEST(folders_above_that_all_may_write_to) {
  tree t = make_tree();
  const char *folders[] = {t.top, t.middle, t.bottom};
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(chmod(folders[i], 0757), 0);
    inspect_refuses(t.file, "can be written to by every user");
    message_has(folders[i]);
    ck_assert_int_eq(chmod(folders[i], 01757), 0);
    inspect_accepts(t.file, "good");
    ck_assert_int_eq(chmod(folders[i], 0755), 0);
  }
}
END_TEST

START_TEST(folders_above_of_another_user) {
  if (geteuid() != 0) return; /* only root can give folders away */
  tree t = make_tree();
  const char *folders[] = {t.top, t.middle, t.bottom};
  for (int i = 0; i < 3; i++) {
    ck_assert_int_eq(chown(folders[i], 12345, 0), 0);
    inspect_refuses(t.file, "belongs to user 12345");
    message_has(folders[i]);
    ck_assert_int_eq(chown(folders[i], 0, 0), 0);
  }
  /* Opened through a link that somebody else may move away, though the file is root's. */
  const char *link = scratch_path("a/libtenon-l.so");
  ck_assert_int_eq(symlink(t.file, link), 0);
  inspect_accepts(link, "good");
  ck_assert_int_eq(lchown(link, 12345, 0), 0);
  inspect_accepts(link, "good");
  ck_assert_int_eq(chmod(t.top, 01777), 0);
  inspect_refuses(link, "a symbolic link to it belongs to user 12345");
  inspect_accepts(t.file, "good");
}
END_TEST

/* A group with the user's number is the user's alone; any other has members. */
START_TEST(groups_that_may_write) {
  if (geteuid() != 0) return; /* others are in few groups */
  tree t = make_tree();
  ck_assert_int_eq(chmod(t.file, 0664), 0);
  ck_assert_int_eq(chmod(t.middle, 0775), 0);
  inspect_accepts(t.file, "good");
  ck_assert_int_eq(chown(t.middle, 0, 12345), 0);
  inspect_refuses(t.file, "can be written to by group 12345");
  message_has(t.middle);
  ck_assert_int_eq(chmod(t.middle, 01775), 0);
  inspect_accepts(t.file, "good");
  ck_assert_int_eq(chmod(t.middle, 0755), 0);
  ck_assert_int_eq(chown(t.file, 0, 12345), 0);
  inspect_refuses(t.file, "file can be written to by group 12345");
  /* With that user's own eyes. */
  ck_assert_int_eq(chown(scratch, 12345, 12345), 0);
  ck_assert_int_eq(chown(t.top, 12345, 12345), 0);
  ck_assert_int_eq(chmod(t.top, 0775), 0);
  ck_assert_int_eq(seteuid(12345), 0);
  inspect_accepts(t.file, "good");
  ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

START_TEST(links_in_the_middle) {
  tree t = make_tree();
  char path[600];
  ck_assert_int_eq(symlink("../a/./b", scratch_path("a/way")), 0);
  ck_assert_int_eq(symlink(t.top, scratch_path("top")), 0);
  snprintf(path, sizeof path, "%s/top/way/../b//c/libtenon-t.so", scratch);
  inspect_accepts(path, "good");
  ck_assert_int_eq(chmod(t.middle, 0777), 0);
  inspect_refuses(path, "its folder");
  message_has(t.middle);
}
END_TEST

START_TEST(endless_paths) {
  char *path = malloc(20000);
  memset(path, 'a', 19999);
  path[0] = '/', path[19999] = '\0';
  inspect_refuses(path, "cannot be opened");
  free(path);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, scratch_make, scratch_remove);
  tcase_add_test(tc, writable_by_all);
  tcase_add_test(tc, of_another_user);
  tcase_add_test(tc, links_are_followed);
  tcase_add_test(tc, folders_above_that_all_may_write_to);
  tcase_add_test(tc, folders_above_of_another_user);
  tcase_add_test(tc, groups_that_may_write);
  tcase_add_test(tc, links_in_the_middle);
  tcase_add_test(tc, endless_paths);
}

int main(void) { return run_suite("trust", add_tests); }
