/* The commands of `tenon`: each takes its own arguments, argv[0] being its name, and
 * returns the exit status: 0 done, 1 failed, 2 used wrongly, 3 nothing there to check or time.
 * Messages of failure go to standard error; results alone go to standard output. */
#ifndef TENON_TOOLS_COMMAND_H
#define TENON_TOOLS_COMMAND_H

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_NOTHING = 3 };

int command_info(int argc, char **argv);
int command_check(int argc, char **argv);
int command_bench(int argc, char **argv);
int command_run(int argc, char **argv);
int command_trace(int argc, char **argv);
int command_blas(int argc, char **argv);
int command_scan(int argc, char **argv);
int command_new_plugin(int argc, char **argv);

#endif
