/* What rows there are, and which of them some case ran. */
#include "rows.h"

#include <stdio.h>
#include <string.h>

static bool is_wanted(const row_choice *choice, const tn_kernel_info *kernel) {
  if (*choice->only) return !strcmp(kernel->plugin, choice->only);
  return strcmp(kernel->plugin, choice->except) != 0;
}

static bool is_row(const row_use *r, const tn_kernel_info *kernel) {
  return r->priority == kernel->priority && !strcmp(r->plugin, kernel->plugin) &&
         !strncmp(r->name, kernel->name, sizeof r->name - 1);
}

static row_use *find(row_table *table, const tn_kernel_info *kernel) {
  for (uint32_t i = 0; i < table->count; i++)
    if (is_row(&table->row[i], kernel)) return &table->row[i];
  return NULL;
}

static row_use *enter(row_table *table, const tn_kernel_info *kernel) {
  row_use *r = find(table, kernel);
  if (r) return r;
  if (table->count == ROWS_MOST) return table->left_out++, NULL;
  r = &table->row[table->count++];
  snprintf(r->name, sizeof r->name, "%s", kernel->name);
  snprintf(r->plugin, sizeof r->plugin, "%s", kernel->plugin);
  r->priority = kernel->priority;
  r->some_calls = kernel->some_calls != 0;
  return r;
}

void rows_list(tn_device *device, uint32_t op, tn_dtype dtype, const row_choice *choice,
               row_table *table, row_list *list) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  *list = (row_list){.table = table, .choice = choice, .dtype = dtype};
  for (; tn_kernel_find(device, op, dtype, list->ranks, &kernel) == TN_OK; list->ranks++) {
    const bool wanted = is_wanted(choice, &kernel);
    row_use *r = wanted ? enter(table, &kernel) : NULL;
    if (r) r->types |= TN_SET(dtype);
    if (list->ranks == 0) list->plain = wanted && !kernel.some_calls;
    list->wanted += wanted;
  }
  list->plain = list->plain && list->wanted == 1;
}

row_use *rows_find(const row_list *list, const tn_kernel_info *kernel) {
  return is_wanted(list->choice, kernel) ? find(list->table, kernel) : NULL;
}

void rows_ran(const row_list *list, const tn_kernel_info *kernel) {
  row_use *r = rows_find(list, kernel);
  if (r) r->ran |= TN_SET(list->dtype);
}

void rows_ran_first(const row_list *list, tn_device *device, uint32_t op) {
  tn_kernel_info kernel = {.struct_size = sizeof kernel};
  if (list->plain && tn_kernel_find(device, op, list->dtype, 0, &kernel) == TN_OK)
    rows_ran(list, &kernel);
}

bool rows_all_ran(const row_list *list) {
  for (uint32_t i = 0; i < list->table->count; i++) {
    const row_use *r = &list->table->row[i];
    if (r->types & ~r->ran & TN_SET(list->dtype)) return false;
  }
  return true;
}
