/* A C file with the functions of tenon/ops.h, for the dispatcher. */
#include "opgen.h"

/* Prints the names of the arguments whose kind is in `kinds`; returns how many. */
static int print_names(int i, const char *kinds) {
  int count = 0;
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (strchr(kinds, a->kind)) printf("%s%s", count++ ? ", " : "", a->name);
  if (count == 0) printf("NULL");
  return count;
}

static int count_args(int i, const char *kinds) {
  int count = 0;
  for (const arg *a = lists[i].args; a->kind; ++a) count += strchr(kinds, a->kind) != NULL;
  return count;
}

static void print_list_body(int i) {
  int inputs = count_args(i, "ip"), inouts = count_args(i, "u"), results = count_args(i, "oq");
  printf(" {\n  const list_arg args[] = {");
  for (const arg *a = lists[i].args; a->kind; ++a)
    if (is_list(a))
      printf("{\"%s\", NULL, (const tn_tensor *const *)%s, true}, ", a->name, a->name);
    else if (!is_output(a->kind))
      printf("{\"%s\", %s, NULL, false}, ", a->name, a->name);
  printf("};\n  tn_tensor **const results[] = {");
  print_names(i, "oq");
  printf(
      "};\n  const tn_call call = {.struct_size = sizeof call, .op = TN_OP_%s, .stream = stream,\n"
      "    .attrs = %s, .num_in = %d, .num_out = %d};\n"
      "  return call_operator_of_lists(&call, \"%s\", args, %d, count, results);\n}\n",
      rows[i].NAME, lists[i].attrs->name ? "attrs" : "NULL", inputs, inouts + results, rows[i].name,
      inouts);
}

void print_bodies(void) {
  printf("%s#define TN_LISTS_ARE_POINTERS\n#include \"dispatcher/call/ops_call.h\"\n", banner);
  for (int i = 0; i < num_rows; ++i) {
    puts("");
    print_signature(i);
    if (last_list(i)) {
      print_list_body(i);
      continue;
    }
    printf(" {\n  const tn_tensor *const in[] = {");
    int inputs = print_names(i, "ip");
    printf("};\n  tn_tensor *out[TN_MAX_ARGS] = {");
    int inouts = print_names(i, "u");
    printf("};\n  tn_tensor **const results[] = {");
    int results = print_names(i, "oq");
    printf("};\n  return call_operator(TN_OP_%s, stream, in, %d, out, %d, results, %d, %s);\n}\n",
           rows[i].NAME, inputs, inouts, results, lists[i].attrs->name ? "attrs" : "NULL");
  }
}
