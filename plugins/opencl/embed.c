/*
 * Prints OpenCL source files, one after the other, as a C array, so that the plugin carries its
 * kernels' text.
 *
 * usage: embed NAME FILE... > NAME.c
 */
#include <stdio.h>
#include <stdlib.h>

static int print_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (!file) {
    (void)fprintf(stderr, "embed: %s cannot be read\n", path);
    return EXIT_FAILURE;
  }
  int c, column = 0;
  while ((c = getc(file)) != EOF) {
    if (c > 127) {
      (void)fprintf(stderr, "embed: %s is not ASCII\n", path);
      (void)fclose(file);
      return EXIT_FAILURE;
    }
    (void)printf("%s%d,", column++ % 20 ? "" : "\n", c);
  }
  int bad = ferror(file);
  return fclose(file) || bad ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    (void)fprintf(stderr, "usage: embed NAME FILE...\n");
    return EXIT_FAILURE;
  }
  (void)printf("#include \"opencl.h\"\n\nstatic const char text[] = {");
  for (int i = 2; i < argc; i++)
    if (print_file(argv[i])) return EXIT_FAILURE;
  (void)printf("0};\nextern const ocl_source ocl_source_%s;\n", argv[1]);
  (void)printf("const ocl_source ocl_source_%s = {\"%s\", text};\n", argv[1], argv[1]);
  return fflush(stdout) || ferror(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
