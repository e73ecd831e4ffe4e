/*
 * Whose file a plugin is: whether anyone but root and this program's user could put another
 * in its place.
 */
#ifndef TENON_DISPATCHER_TRUST_H
#define TENON_DISPATCHER_TRUST_H

#include <sys/stat.h>

#include "dispatcher/base/error.h"

/* Judges the file that was opened at an absolute path and every folder on the way there,
 * through symbolic links too: each belongs to root or to this program's user, and nobody else
 * may write to it. Passed by are folders that this library itself lies in or below, and the
 * owner of a file beside it where the folder is the same user's: they can replace the library.
 * Errors: TN_ERR_PLUGIN_REFUSED with the reason. */
tn_status trust_check(const char *path, const struct stat *file);

#endif
