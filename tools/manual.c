/*
 * Runs while Tenon is built: prints the pages of the manual that follow from the sources of the
 * `tenon` command.
 *
 *   manual command              docs/command.md
 *   manual environment          docs/environment.md
 *   manual tenon.1              the man page of the command, from what its --help prints
 *   manual tenon.3              the entry to the library
 *   manual tenon-environment.7  the environment variables
 *
 * The version comes from the build, as TENON_VERSION.
 */
#include <ctype.h>
#include <string.h>

#include "help.h"

static void print_head(const char *name, const char *section, const char *summary) {
  printf(".\\\" Printed by manual.c while Tenon was built.\n.TH ");
  for (const char *at = name; *at; ++at) putchar(toupper((unsigned char)*at));
  printf(" %s \"\" \"Tenon " TENON_VERSION "\" \"Tenon\"\n.SH NAME\n%s \\- %s\n", section, name,
         summary);
}

/* A text as it is, in lines. */
static void print_literal(const char *text) {
  puts(".nf");
  for (const char *at = text; *at; ++at) {
    if ((at == text || at[-1] == '\n') && (*at == '.' || *at == '\'')) fputs("\\&", stdout);
    if (*at == '-')
      fputs("\\-", stdout);
    else if (*at == '\\')
      fputs("\\e", stdout);
    else
      putchar(*at);
  }
  puts(".fi");
}

static void print_commands(void) {
  for (int i = 0; i < num_command_texts; ++i) {
    const command_text *c = &command_texts[i];
    printf(".SS tenon %s\n%c%s.\n", c->name, toupper((unsigned char)*c->summary), c->summary + 1);
    if (!c->help) continue;
    puts(".PP");
    print_literal(c->help);
  }
}

static void print_tenon_1(void) {
  print_head("tenon", "1", "looks at, checks, times and traces compute backends");
  puts(".SH SYNOPSIS\n.B tenon\n.I COMMAND\n.RI [ OPTIONS ]\n"
       ".SH DESCRIPTION\n"
       "Tenon is a library that finds compute backends at run time and sends every\n"
       "operator call to the best kernel for its device and element type.\n"
       "This command is a program of that library like any other:\n"
       "it sees the plugins and devices that others see.\n"
       ".SH COMMANDS");
  print_commands();
  puts(".SH EXIT STATUS\n0 done, 1 failed, 2 used wrongly, 3 nothing there to check or time.\n"
       "\\fBtenon trace\\fR exits as its program does.\n"
       ".SH ENVIRONMENT\n\\fBTENON_DEVICE\\fR, \\fBTENON_PLUGIN_PATH\\fR and others:\n"
       ".BR tenon\\-environment (7).\n"
       ".SH SEE ALSO\n.BR tenon (3),\n.BR tenon\\-environment (7)");
}

static void print_tenon_3(void) {
  print_head("tenon", "3", "one program, any compute device");
  puts(".SH SYNOPSIS\n.nf\n.B #include <tenon/tenon.h>\n\n"
       "cc program.c $(pkg\\-config \\-\\-cflags \\-\\-libs tenon)\n.fi\n"
       ".SH DESCRIPTION\n"
       "The header \\fItenon/tenon.h\\fR states the rules at its top (errors, ownership,\n"
       "threads, streams) and documents each function; \\fItenon/ops.h\\fR, which it\n"
       "includes, has the operators, and \\fItenon/plugin.h\\fR is for plugins.\n"
       "The manual is installed as Markdown in the folder \\fIdoc/tenon\\fR of the\n"
       "system's data: begin with \\fIindex.md\\fR;\n"
       "\\fIembedding.md\\fR is the guide for programs that use the library.\n"
       ".SH EXAMPLE");
  print_literal(
      "tn_runtime *rt;\n"
      "tn_tensor *x, *y = NULL;\n"
      "if (tn_runtime_open(NULL, &rt)) return puts(tn_last_error()), 1;\n"
      "tn_tensor_from_host(tn_runtime_device(rt), TN_F32, 1, (int64_t[]){3}, values, &x);\n"
      "tn_add(NULL, x, x, &y);\n"
      "tn_tensor_to_host(y, result, sizeof result);\n"
      "tn_tensor_release(x);\n"
      "tn_tensor_release(y);\n"
      "tn_runtime_close(rt);\n");
  puts(".SH RETURN VALUE\n"
       "Functions that can fail return a \\fBtn_status\\fR, \\fBTN_OK\\fR being 0.\n"
       "After anything else \\fBtn_last_error\\fR() has a message for the calling thread.\n"
       ".SH SEE ALSO\n.BR tenon (1),\n.BR tenon\\-environment (7)");
}

/* The command's texts as a page; they are written for 100 columns and stay as they are. */
static void print_command_page(void) {
  puts("# The command tenon\n\n"
       "Printed from `tools/help.c`, as are `tenon COMMAND --help` and tenon(1); `./dev docs` "
       "prints it\n"
       "anew. The command is a program of the library like any other: it sees the plugins and "
       "devices\n"
       "that others see, and heeds the same [environment variables](environment.md). Its exit "
       "status is\n"
       "0 for done, 1 for failed, 2 for used wrongly, 3 where there was nothing to check or time;\n"
       "`tenon trace` exits as its program does.");
  for (int i = 0; i < num_command_texts; ++i) {
    const command_text *c = &command_texts[i];
    printf("\n## tenon %s\n\n%c%s.\n", c->name, toupper((unsigned char)*c->summary),
           c->summary + 1);
    if (c->help) printf("\n```text\n%s```\n", c->help);
  }
}

static void print_environment_7(void) {
  print_head("tenon-environment", "7", "environment variables of Tenon");
  environment_print_man(stdout);
  puts(".SH SEE ALSO\n.BR tenon (1),\n.BR tenon (3)");
}

static void print_environment_page(void) { environment_print_page(stdout); }

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*print)(void);
  } pages[] = {{"command", print_command_page},
               {"environment", print_environment_page},
               {"tenon.1", print_tenon_1},
               {"tenon.3", print_tenon_3},
               {"tenon-environment.7", print_environment_7}};
  for (size_t i = 0; argc == 2 && i < sizeof pages / sizeof *pages; ++i) {
    if (strcmp(argv[1], pages[i].name) != 0) continue;
    pages[i].print();
    return fflush(stdout) != 0 || ferror(stdout);
  }
  fputs("usage: manual command|environment|tenon.1|tenon.3|tenon-environment.7\n", stderr);
  return 2;
}
