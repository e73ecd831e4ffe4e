/*
 * Prints the table environment.def: for people at a terminal, and while Tenon is built for the
 * manual. Its texts have `code` between backquotes, as Markdown does.
 */
#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "help.h"

/* A row without values begins a group. */
typedef struct variable {
  const char *name, *values, *fallback, *reader, *text;
} variable;

static const variable variables[] = {
#define GROUP(title) {title, NULL, NULL, NULL, NULL},
#define ENV(name, values, fallback, reader, text) {name, values, fallback, reader, text},
#include "environment.def"
#undef GROUP
#undef ENV
};
enum { ROWS = sizeof variables / sizeof *variables };

static const char *const intro[] = {
    "What a program does not say itself, its user may say by an environment variable. Options "
    "passed to `tn_runtime_open` beat variables. An empty variable counts as unset.",
    "`libtenon` reads its variables once, when a runtime opens, and a plugin its own when it is "
    "loaded or its device or layer is opened; what is changed later has no effect on that runtime. "
    "A value that a variable of `libtenon`, or of a layer that is on, does not take fails "
    "`tn_runtime_open` with a message that lists what it takes; of other plugins it does nothing. "
    "Places and names of plugins that are not there are a warning.",
    "Programs that run with raised privileges (set-user-id, set-group-id, file capabilities) "
    "ignore all of them: everything that a program loads reads them with `secure_getenv`.",
};
enum { PARAGRAPHS = sizeof intro / sizeof *intro };

/* --- text --- */

enum { COLUMNS = 79 };

typedef struct wrap {
  int indent, width;
  bool quotes; /* keeps the backquotes */
} wrap;

/* Characters shown of the next word. */
static int word_width(const char *word, bool quotes) {
  int width = 0;
  for (; *word && *word != ' '; ++word) width += quotes || *word != '`';
  return width;
}

/* A text in lines; the cursor stands at `column`. */
static void print_wrapped(FILE *out, const wrap *w, const char *text, int column) {
  for (bool first = true; *text; first = false) {
    int width = word_width(text, w->quotes);
    if (!first && column + 1 + width > w->width)
      column = fprintf(out, "\n%*s", w->indent, "") - 1;
    else if (!first)
      column += fprintf(out, " ");
    for (; *text && *text != ' '; ++text)
      if (w->quotes || *text != '`') putc(*text, out);
    column += width;
    text += *text == ' ';
  }
  putc('\n', out);
}

static void print_text_row(FILE *out, const variable *v) {
  if (!v->values) {
    fprintf(out, "\n%s\n", v->name);
    return;
  }
  static const wrap w = {6, COLUMNS, false};
  fputs("\n", out);
  print_wrapped(out, &w, v->values, fprintf(out, "  %s  ", v->name));
  print_wrapped(out, &w, v->text, fprintf(out, "      "));
  print_wrapped(out, &w, v->fallback, fprintf(out, "      Default: "));
  fprintf(out, "      Read by: %s\n", v->reader);
}

void environment_print_text(FILE *out) {
  static const wrap w = {0, COLUMNS, false};
  for (int i = 0; i < PARAGRAPHS; ++i) {
    if (i) putc('\n', out);
    print_wrapped(out, &w, intro[i], 0);
  }
  for (int i = 0; i < ROWS; ++i) print_text_row(out, &variables[i]);
}

/* --- the page --- */

static void print_page_row(FILE *out, const variable *v) {
  if (!v->values)
    fprintf(out, "\n## %s\n\n| variable | values | default | what it does | read by |\n%s\n",
            v->name, "| --- | --- | --- | --- | --- |");
  else
    fprintf(out, "| <a id=\"%s\"></a>`%s` | %s | %s | %s | %s |\n", v->name, v->name, v->values,
            v->fallback, v->text, v->reader);
}

void environment_print_page(FILE *out) {
  fputs("# Environment variables\n\n"
        "Printed from `tools/environment.def`, as are `tenon help env` and tenon-environment(7);\n"
        "`./dev docs` prints it anew.\n",
        out);
  static const wrap w = {0, 100, true};
  for (int i = 0; i < PARAGRAPHS; ++i) {
    putc('\n', out);
    print_wrapped(out, &w, intro[i], 0);
  }
  for (int i = 0; i < ROWS; ++i) print_page_row(out, &variables[i]);
}

/* --- the man page --- */

/* Code in bold; what troff would read as its own is escaped; lines of a moderate length, none of
 * which begins with a full stop, since no word does. */
static void print_man_text(FILE *out, const char *text) {
  bool bold = false;
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (int column = 0; *text; ++text, ++column) {
    if (*text == '`')
      fputs((bold = !bold) ? "\\fB" : "\\fR", out);
    else if (*text == '-' || *text == '~')
      fputs(*text == '-' ? "\\-" : "\\(ti", out);
    else if (*text == ' ' && column + word_width(text + 1, true) > 60)
      column = fputs("\n", out) < 0 ? 0 : -1;
    else
      putc(*text, out);
  }
  putc('\n', out);
}

static void print_man_row(FILE *out, const variable *v) {
  if (!v->values) {
    fputs(".SH ", out);
    for (const char *at = v->name; *at; ++at) putc(toupper((unsigned char)*at), out);
    putc('\n', out);
    return;
  }
  fprintf(out, ".TP\n.B %s\n", v->name);
  print_man_text(out, v->text);
  fputs(".br\nValues:\n", out);
  print_man_text(out, v->values);
  fputs(".br\nDefault:\n", out);
  print_man_text(out, v->fallback);
  fprintf(out, ".br\nRead by: %s\n", v->reader);
}

void environment_print_man(FILE *out) {
  fputs(".SH DESCRIPTION\n", out);
  for (int i = 0; i < PARAGRAPHS; ++i) {
    if (i) fputs(".PP\n", out);
    print_man_text(out, intro[i]);
  }
  for (int i = 0; i < ROWS; ++i) print_man_row(out, &variables[i]);
}
