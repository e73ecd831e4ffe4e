/*
 * The rows of one operator on one device: every kernel that a call may get, best or not, and
 * whether some case ran it. Names are copied, since the table outlives the process that ran them.
 */
#ifndef TENON_CHECK_ROWS_H
#define TENON_CHECK_ROWS_H

#include "tenon/plugin.h"
#include "tenon/tenon.h"

enum { ROWS_MOST = 128 };

typedef struct row_use {
  char name[96], plugin[64];
  int32_t priority;
  bool some_calls;
  tn_dtype_set types; /* of type variable T: for which it stands among the kernels */
  tn_dtype_set ran;   /* for which a case ran it */
} row_use;

typedef struct row_table {
  uint32_t count;
  uint64_t left_out; /* rows beyond ROWS_MOST */
  row_use row[ROWS_MOST];
} row_table;

/* Which rows are to be checked: those of one plugin, or of all but the judge's. */
typedef struct row_choice {
  const char *only;   /* a plugin's name, or "" */
  const char *except; /* the plugin of the reference, or "" where that is what is checked */
} row_choice;

/* The kernels of one element type, in the order in which they are tried. */
typedef struct row_list {
  row_table *table;
  const row_choice *choice;
  tn_dtype dtype;
  uint32_t ranks;  /* kernels in all */
  uint32_t wanted; /* of them to be checked */
  bool plain;      /* the first gets every call, and no other is to be checked */
} row_list;

/* Lists the kernels and enters those that are to be checked in the table. */
void rows_list(tn_device *device, uint32_t op, tn_dtype dtype, const row_choice *choice,
               row_table *table, row_list *list);
/* The kernel's row; NULL where it is not to be checked. */
row_use *rows_find(const row_list *list, const tn_kernel_info *kernel);
/* A case ran it. */
void rows_ran(const row_list *list, const tn_kernel_info *kernel);
/* Cases of the type ran by tn_invoke: enough to know which kernel did where `plain`. */
void rows_ran_first(const row_list *list, tn_device *device, uint32_t op);
/* Whether every row to be checked has run for the list's type. */
bool rows_all_ran(const row_list *list);

#endif
