/*
 * The way to a plugin's file, one folder at a time from the root. A folder is judged before
 * anything is looked up in it, so that what was judged cannot be replaced by others later
 * on: they would have to write to a folder that was found closed to them.
 *
 * A folder with the sticky bit (/tmp) may be open: what is in it can be renamed and removed
 * by its owner alone, so there the owner of each entry counts. Write permission for a group is
 * taken for what it is where users have groups of their own (number of the group = number of
 * the user, umask 002): permission for that user. Any other group has members.
 */
#include "dispatcher/load/trust.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dispatcher/load/loader.h"

#define REFUSED TN_ERR_PLUGIN_REFUSED

/* As many symbolic links as the kernel follows in one path. */
enum { MAX_LINKS = 40 };

static tn_status unresolved(int error) {
  char text[128];
  return fail(REFUSED, "its path cannot be resolved: %s", strerror_r(error, text, sizeof text));
}

/* ------------------------------------------------------------- users and groups --- */

static bool is_ours(uid_t user) { return user == 0 || user == geteuid(); }

static bool has_other_members(gid_t group) { return group != 0 && group != geteuid(); }

/* In a user namespace with few users (a sandbox), root's folders show as the overflow user's,
 * as all do whose owner has no number here. Whether that number has another meaning. */
static bool is_mapped(uid_t user) {
  FILE *map = fopen("/proc/self/uid_map", "re");
  unsigned long first, outside, count;
  bool found = !map;
  while (map && !found && fscanf(map, "%lu %lu %lu", &first, &outside, &count) == 3)
    found = user >= first && user - first < count;
  if (map) fclose(map);
  return found;
}

static bool may_own_folder(uid_t user) {
  static const uid_t overflow_user = 65534;
  return is_ours(user) || (user == overflow_user && !is_mapped(user));
}

static bool is_open_to_others(const struct stat *s) {
  return (s->st_mode & S_IWOTH) || ((s->st_mode & S_IWGRP) && has_other_members(s->st_gid));
}

static tn_status open_to(const char *what, const struct stat *s) {
  if (s->st_mode & S_IWOTH) return fail(REFUSED, "%s can be written to by every user", what);
  return fail(REFUSED, "%s can be written to by group %u", what, (unsigned)s->st_gid);
}

static tn_status belongs_to(const char *what, uid_t user) {
  return fail(REFUSED, "%s belongs to user %u, who is neither root nor this program's user %u",
              what, (unsigned)user, (unsigned)geteuid());
}

/* ------------------------------------------------------------------------ the walk --- */

typedef struct walk {
  char here[PATH_MAX]; /* a folder without symbolic links in it; "" is the root */
  char rest[PATH_MAX]; /* what is left of the path */
  char own[PATH_MAX];  /* this library's folder, "" if it is not known */
  bool shared;         /* `here` is open to others, and its sticky bit is set */
  int links;
} walk;

/* Whether this library lies in the folder or below. */
static bool is_above_own(const walk *w) {
  size_t length = strlen(w->here);
  return *w->own && strncmp(w->own, w->here, length) == 0 &&
         (w->own[length] == '/' || w->own[length] == '\0');
}

static tn_status check_folder(walk *w) {
  char what[PATH_MAX + 16];
  struct stat s;
  w->shared = false;
  if (is_above_own(w)) return TN_OK;
  if (lstat(*w->here ? w->here : "/", &s)) return unresolved(errno);
  if (!S_ISDIR(s.st_mode)) return unresolved(ENOTDIR);
  snprintf(what, sizeof what, "its folder %s", *w->here ? w->here : "/");
  if (!may_own_folder(s.st_uid)) return belongs_to(what, s.st_uid);
  bool open = is_open_to_others(&s);
  w->shared = open && (s.st_mode & S_ISVTX);
  return open && !w->shared ? open_to(what, &s) : TN_OK;
}

/* Takes the next name off the rest; false at the end. */
static bool next_name(walk *w, char name[NAME_MAX + 1]) {
  const char *begin = w->rest + strspn(w->rest, "/");
  size_t length = strcspn(begin, "/");
  if (length == 0 || length > NAME_MAX) return false;
  memcpy(name, begin, length);
  name[length] = '\0';
  memmove(w->rest, begin + length, strlen(begin + length) + 1);
  return true;
}

/* Puts what a link says in front of the rest. */
static tn_status follow(walk *w, const char *link) {
  char target[PATH_MAX], joined[PATH_MAX];
  ssize_t length = readlink(link, target, sizeof target - 1);
  if (length < 0) return unresolved(errno);
  if (++w->links > MAX_LINKS) return unresolved(ELOOP);
  target[length] = '\0';
  int used = snprintf(joined, sizeof joined, "%s/%s", target, w->rest);
  if (used < 0 || (size_t)used >= sizeof joined) return unresolved(ENAMETOOLONG);
  memcpy(w->rest, joined, (size_t)used + 1);
  if (*target == '/') *w->here = '\0';
  return check_folder(w);
}

static tn_status step(walk *w, const char *name, struct stat *s) {
  char path[PATH_MAX];
  if (strcmp(name, ".") == 0) return TN_OK;
  if (strcmp(name, "..") == 0) {
    char *slash = strrchr(w->here, '/');
    if (slash) *slash = '\0';
    return check_folder(w);
  }
  int used = snprintf(path, sizeof path, "%s/%s", w->here, name);
  if (used < 0 || (size_t)used >= sizeof path) return unresolved(ENAMETOOLONG);
  if (lstat(path, s)) return unresolved(errno);
  if (S_ISLNK(s->st_mode))
    return w->shared && !is_ours(s->st_uid) ? belongs_to("a symbolic link to it", s->st_uid)
                                            : follow(w, path);
  if (!S_ISDIR(s->st_mode)) return TN_OK;
  memcpy(w->here, path, (size_t)used + 1);
  return check_folder(w);
}

/* A plugin beside this library or in tenon/ there, of the user who owns that folder, is what the
 * library is: in a sandbox neither may seem to be root's. */
static bool is_the_librarys(const walk *w, const struct stat *file) {
  struct stat own;
  size_t length = strlen(w->own);
  if (length == 0 || strncmp(w->here, w->own, length) != 0) return false;
  if (w->here[length] && strcmp(w->here + length, "/tenon") != 0) return false;
  return stat(w->own, &own) == 0 && own.st_uid == file->st_uid;
}

tn_status trust_check(const char *path, const struct stat *file) {
  walk w = {.shared = false};
  char name[NAME_MAX + 1];
  struct stat last = {0};
  if (!loader_own_folder(w.own)) *w.own = '\0';
  snprintf(w.rest, sizeof w.rest, "%s", path);
  tn_status status = check_folder(&w);
  while (!status && next_name(&w, name)) status = step(&w, name, &last);
  if (status) return status;
  if (last.st_dev != file->st_dev || last.st_ino != file->st_ino)
    return fail(REFUSED, "its file was replaced while it was looked at");
  if (!is_ours(file->st_uid) && !is_the_librarys(&w, file)) return belongs_to("file", file->st_uid);
  return is_open_to_others(file) ? open_to("file", file) : TN_OK;
}
