/*
 * Prints an OpenCL source file as a C array, so that the plugin carries its kernels' text.
 *
 * usage: embed NAME FILE > NAME.c
 */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
  FILE *file = argc == 3 ? fopen(argv[2], "rb") : NULL;
  if (!file) {
    (void)fprintf(stderr, "usage: embed NAME FILE\n");
    return EXIT_FAILURE;
  }
  (void)printf("#include \"opencl.h\"\n\nstatic const char text[] = {");
  int c, column = 0;
  while ((c = getc(file)) != EOF) {
    if (c > 127) {
      (void)fprintf(stderr, "embed: %s is not ASCII\n", argv[2]);
      return EXIT_FAILURE;
    }
    (void)printf("%s%d,", column++ % 20 ? "" : "\n", c);
  }
  (void)printf("0};\nextern const ocl_source ocl_source_%s;\n", argv[1]);
  (void)printf("const ocl_source ocl_source_%s = {\"%s\", text};\n", argv[1], argv[1]);
  return ferror(file) || fclose(file) || fflush(stdout) || ferror(stdout) ? EXIT_FAILURE
                                                                          : EXIT_SUCCESS;
}
