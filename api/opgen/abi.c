/* The ABI list: a line per operator, argument and attribute, with attributes' places. */
#include "opgen.h"

static const char *shape_name(int number) {
  for (int i = 0; i < num_shapes; ++i)
    if (shapes[i].number == number) return shapes[i].name;
  return "?";
}

/* Bytes and alignment of an attribute's field. */
int attr_size(const attr *a, int *align) {
  static const struct {
    const char *kind;
    int size, align;
  } fields[] = {{"i64", 8, 8},     {"u64", 8, 8},    {"f64", 8, 8},   {"flag", 4, 4},
                {"dtype", 4, 4},   {"pair", 16, 8},  {"axes", 36, 4}, {"dims", 72, 8},
                {"triple", 24, 8}, {"result", 4, 4}, {"tensor", 8, 8}};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; ++i)
    if (strcmp(fields[i].kind, a->kind) == 0) return *align = fields[i].align, fields[i].size;
  return *align = 1, 0;
}

/* Where it lies in its struct: behind the struct's size and the attributes before it. */
int attr_offset(const attr *attrs, const attr *a) {
  int end = 4, align;
  for (;; ++attrs) {
    int size = attr_size(attrs, &align);
    end = (end + align - 1) / align * align;
    if (attrs == a) return end;
    end += size;
  }
}

int attrs_known(const attr *attrs) {
  int end = 4, widest = 4, align;
  for (const attr *a = attrs; a->name && !a->appended; ++a) {
    end = attr_offset(attrs, a) + attr_size(a, &align);
    if (align > widest) widest = align;
  }
  for (const attr *a = attrs; a->name; ++a)
    if (a->appended) return (end + widest - 1) / widest * widest;
  return 0;
}

void print_abi(void) {
  int align;
  for (int i = 0; i < num_rows; ++i) {
    printf("%d %s since %d shape %s\n", rows[i].id, rows[i].name, rows[i].since,
           shape_name(rows[i].shape));
    for (const arg *a = lists[i].args; a->kind; ++a)
      printf("%d %s arg %c %s %s%s\n", rows[i].id, rows[i].name, a->kind, a->type, a->name,
             a->flags & TN_ARG_LIST ? " list" : "");
    for (const attr *a = lists[i].attrs; a->name; ++a)
      printf("%d %s attr %s %s at %d size %d = %s%s\n", rows[i].id, rows[i].name, a->kind,
             a->was ? a->was : a->name, attr_offset(lists[i].attrs, a), attr_size(a, &align),
             a->value, a->appended ? " appended" : "");
    /* Lists of their own, so that attributes can still be appended above. */
    for (const arg *a = lists[i].args; a->kind; ++a)
      if (a->flags & TN_ARG_OR_ONE)
        printf("%d.or_one %s %s may be left out: 1\n", rows[i].id, rows[i].name, a->name);
    for (const attr *a = lists[i].attrs; a->name; ++a)
      if (a->was)
        printf("%d.renamed %s attr %s is called %s\n", rows[i].id, rows[i].name, a->was, a->name);
  }
}
