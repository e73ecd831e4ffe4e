/* A graph as text, and in the language of Graphviz. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "dispatcher/shape/shape.h"
#include "graph/objects.h"

/* "f32 [2, 3]" */
static const char *type_text(const record_value *v, char *text, size_t size) {
  char shape[128];
  snprintf(text, size, "%s %s", tn_dtype_name(v->dtype),
           shape_text(shape, sizeof shape, v->rank, v->shape));
  return text;
}

/* "x", "%12", "12:1" of a second version. */
static void value_text(const record *r, uint32_t value, char *text, size_t size) {
  if (value == TN_GRAPH_NONE) {
    snprintf(text, size, "-");
    return;
  }
  const record_value *v = &r->values[value];
  const record_buffer *b = &r->buffers[v->buffer];
  if (b->name && v->version)
    snprintf(text, size, "%.80s.%" PRIu32, b->name, v->version);
  else if (b->name)
    snprintf(text, size, "%.80s", b->name);
  else
    snprintf(text, size, "%%%" PRIu32, value);
}

static void print_attr(FILE *file, const tn_attr *a, const void *attrs) {
  const char *at = (const char *)attrs + a->offset;
  const int64_t *whole = (const void *)at;
  int32_t small;
  memcpy(&small, at, sizeof small);
  fprintf(file, " %s=", a->name);
  switch (a->type) {
  case TN_ATTR_I64:
    fprintf(file, "%" PRId64, *whole);
    break;
  case TN_ATTR_U64:
    fprintf(file, "%" PRIu64, (uint64_t)*whole);
    break;
  case TN_ATTR_F64:
    fprintf(file, "%g", *(const double *)(const void *)at);
    break;
  case TN_ATTR_DTYPE:
  case TN_ATTR_RESULT:
    fprintf(file, "%s", small ? tn_dtype_name((tn_dtype)small) : "-");
    break;
  case TN_ATTR_PAIR:
    fprintf(file, "%" PRId64 ",%" PRId64, whole[0], whole[1]);
    break;
  case TN_ATTR_TRIPLE:
    fprintf(file, "%" PRId64 ",%" PRId64 ",%" PRId64, whole[0], whole[1], whole[2]);
    break;
  case TN_ATTR_AXES: {
    const tn_axes *axes = (const void *)at;
    for (int32_t i = 0; i < axes->count; ++i) fprintf(file, "%s%d", i ? "," : "", axes->axis[i]);
    break;
  }
  case TN_ATTR_DIMS: {
    const tn_dims *dims = (const void *)at;
    for (int32_t i = 0; i < dims->count; ++i)
      fprintf(file, "%s%" PRId64, i ? "," : "", dims->dim[i]);
    break;
  }
  default:
    fprintf(file, "%d", small);
  }
}

/* Those whose numbers are values of the graph come last, if they were given. */
static void print_attrs(FILE *file, const record *r, const record_node *n) {
  char text[128];
  uint32_t plain = n->op->num_attrs;
  while (plain && tn_operator_attr(n->op, plain - 1)->type == TN_ATTR_TENSOR) --plain;
  for (uint32_t i = 0; n->attrs && i < plain; ++i)
    print_attr(file, tn_operator_attr(n->op, i), n->attrs);
  for (uint32_t i = 0; i < n->num_from; ++i) {
    uint32_t value = n->in[record_inputs(n) + i];
    if (value == TN_GRAPH_NONE) continue;
    value_text(r, value, text, sizeof text);
    fprintf(file, " %s=%s", tn_operator_attr(n->op, plain + i)->name, text);
  }
}

static const char *kind_text(uint32_t kind) {
  static const char *const texts[] = {"unwritten", "input", "parameter", "constant"};
  return texts[kind];
}

/* --- text --- */

static void print_sources(FILE *file, const record *r) {
  char shape[128];
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    const record_buffer *b = &r->buffers[i];
    if (!b->name) continue;
    fprintf(file, "%s %s: %s %s\n", kind_text(b->kind), b->name, tn_dtype_name(b->dtype),
            shape_text(shape, sizeof shape, b->rank, b->shape));
  }
}

static void print_node(FILE *file, const record *r, const record_node *n) {
  char text[128], type[192];
  for (uint32_t i = 0; i < n->num_out; ++i) {
    value_text(r, n->out[i], text, sizeof text);
    fprintf(file, "%s%s", i ? ", " : "", text);
    if (n->out[i] != TN_GRAPH_NONE)
      fprintf(file, ": %s", type_text(&r->values[n->out[i]], type, sizeof type));
  }
  fprintf(file, " = %s(", n->op->name);
  bool follows = false;
  for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i) {
    if (i >= record_inputs(n) && i < n->num_in) continue; /* attributes */
    value_text(r, n->in[i], text, sizeof text);
    fprintf(file, "%s%s", follows ? ", " : "", text);
    follows = true;
  }
  fputs(")", file);
  print_attrs(file, r, n);
  if (n->site) fprintf(file, "  # %s", n->site);
  fputs("\n", file);
}

static void print_text(FILE *file, const tn_graph *g) {
  const record *r = &g->record;
  char text[128];
  fprintf(file, "graph %s: %" PRIu32 " nodes\n", g->name, r->num_nodes);
  print_sources(file, r);
  for (uint32_t i = 0; i < r->num_nodes; ++i) print_node(file, r, &r->nodes[i]);
  for (uint32_t i = 0; i < r->num_outputs; ++i) {
    value_text(r, r->outputs[i].value, text, sizeof text);
    fprintf(file, "output %s = %s\n", r->outputs[i].name, text);
  }
}

/* --- DOT --- */

/* Within double quotes. */
static void print_quoted(FILE *file, const char *text) {
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') fputc('\\', file);
    fputc((unsigned char)*text < ' ' ? ' ' : *text, file);
  }
}

/* Where a value comes from: the node that wrote it, or its buffer. */
static void print_origin(FILE *file, const record_value *v) {
  if (v->node == TN_GRAPH_NONE)
    fprintf(file, "b%" PRIu32, v->buffer);
  else
    fprintf(file, "n%" PRIu32, v->node);
}

static void print_edges(FILE *file, const record *r, const record_node *n, uint32_t index) {
  char type[192];
  for (uint32_t i = 0; i < n->num_in + n->num_inout; ++i) {
    if (n->in[i] == TN_GRAPH_NONE) continue;
    const record_value *v = &r->values[n->in[i]];
    fputs("  ", file);
    print_origin(file, v);
    fprintf(file, " -> n%" PRIu32 " [label=\"%s\"];\n", index, type_text(v, type, sizeof type));
  }
}

static void print_dot(FILE *file, const tn_graph *g) {
  const record *r = &g->record;
  fputs("digraph \"", file);
  print_quoted(file, g->name);
  fputs("\" {\n  node [shape=box];\n", file);
  for (uint32_t i = 0; i < r->num_buffers; ++i) {
    if (r->buffers[i].kind == TN_GRAPH_MADE) continue;
    fprintf(file, "  b%" PRIu32 " [shape=ellipse, label=\"", i);
    print_quoted(file, r->buffers[i].name ? r->buffers[i].name : kind_text(r->buffers[i].kind));
    fputs("\"];\n", file);
  }
  for (uint32_t i = 0; i < r->num_nodes; ++i) {
    fprintf(file, "  n%" PRIu32 " [label=\"%s", i, r->nodes[i].op->name);
    if (r->nodes[i].site) fputs("\\n", file), print_quoted(file, r->nodes[i].site);
    fputs("\"];\n", file);
    print_edges(file, r, &r->nodes[i], i);
  }
  for (uint32_t i = 0; i < r->num_outputs; ++i) {
    fprintf(file, "  o%" PRIu32 " [shape=ellipse, label=\"", i);
    print_quoted(file, r->outputs[i].name);
    fputs("\"];\n  ", file);
    print_origin(file, &r->values[r->outputs[i].value]);
    fprintf(file, " -> o%" PRIu32 ";\n", i);
  }
  fputs("}\n", file);
}

tn_status tn_graph_print(const tn_graph *graph, tn_graph_format format, FILE *file) {
  if (!graph) return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_print: graph is NULL");
  if (format != TN_GRAPH_TEXT && format != TN_GRAPH_DOT)
    return fail(TN_ERR_INVALID_ARGUMENT, "tn_graph_print: %d is no format", (int)format);
  FILE *to = file ? file : stdout;
  (format == TN_GRAPH_DOT ? print_dot : print_text)(to, graph);
  if (fflush(to) || ferror(to)) return fail(TN_ERR_IO, "tn_graph_print: %s", strerror(errno));
  return TN_OK;
}
