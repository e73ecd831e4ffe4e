/*
 * Runs while Tenon is built: prints C that holds the files named on the command line, by their
 * last names, so that no path of the building machine gets into the program.
 *
 * usage: embed NAME FILE...
 */
#include <stdio.h>
#include <string.h>

static const char *last_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Numbers, not a string: compilers may refuse long ones. Returns the count, -1 on failure. */
static long print_bytes(const char *path) {
  FILE *in = fopen(path, "rb");
  long count = 0;
  if (!in) return perror(path), -1;
  for (int c; (c = getc(in)) != EOF; count++) printf(count % 24 ? "%d," : "\n%d,", c);
  if (ferror(in)) perror(path), count = -1;
  fclose(in);
  return count;
}

int main(int argc, char **argv) {
  if (argc < 3) return fputs("usage: embed NAME FILE...\n", stderr), 2;
  puts("/* Printed by embed.c. */\n#include \"newplugin.h\"\n");
  for (int i = 2; i < argc; i++) {
    printf("static const unsigned char file_%d[] = {", i);
    if (print_bytes(argv[i]) <= 0) return 1;
    puts("};");
  }
  puts("static const embedded_file files[] = {");
  for (int i = 2; i < argc; i++)
    printf("    {\"%s\", file_%d, sizeof file_%d},\n", last_name(argv[i]), i, i);
  printf("};\nconst skeleton skeleton_%s = {files, %d};\n", argv[1], argc - 2);
  return fflush(stdout) || ferror(stdout);
}
