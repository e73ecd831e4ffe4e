/* What the commands say of themselves. */
#include "help.h"

#include <stddef.h>

const char help_info[] =
    "usage: tenon info [-v|--verbose] [--op GLOB] [--device D] [--plugin NAME] [--json]\n"
    "       tenon info --kernels | --missing\n"
    "  -v             which kernels serve each operator and element type, in the order in\n"
    "                 which they are tried, and why\n"
    "  --op GLOB      only operators of this name, with their kernels: add, 'conv*'\n"
    "  --device D     only these devices: a type (cuda), one device (cuda:1), a glob\n"
    "  --plugin NAME  only this plugin, its devices and what it has kernels for; a glob\n"
    "  --json         for programs\n"
    "  --kernels      a table of what runs natively on which type of device,\n"
    "                 present or not\n"
    "  --missing      the operators and element types for which one has no kernel\n";

const char help_check[] =
    "usage: tenon check [PLUGIN.so] [OPTIONS]\n"
    "\n"
    "Runs the operators of a device in cases made from their schemas and compares them with\n"
    "the reference: results, untouched inputs and surroundings, calls that must fail, and the\n"
    "same bits twice in deterministic mode. Before them, the slots of its backend: queues,\n"
    "events, memory. Without options: every usable device. With a\n"
    "plugin: its devices, or the operators it has kernels for on others.\n"
    "\n"
    "  --device D     only this device: a type (cuda) or one device (cuda:1)\n"
    "  --op GLOB      only operators of this name: add, 'conv*'\n"
    "  --dtype T      only these element types: f32, 'i*'; f32,i64 for two type variables\n"
    "  --slots GLOB   only checks of the backend's slots of this name: events, '*'. They come\n"
    "                 first in every run but those that --op, --dtype or --case narrows\n"
    "  --seed N       draws other numbers (default 0)\n"
    "  --case N       only the Nth case of each operator and choice of types\n"
    "  --every N      only every Nth case of each operator and choice of types, and typical ones\n"
    "  --large        adds cases of more than 2^31 elements, where there is memory\n"
    "  --no-thresholds  leaves out cases on either side of the sizes from which on a kernel takes\n"
    "                 a call or leaves it to the next\n"
    "  --list         prints what would run: checks of slots, operators, element types, how many\n"
    "                 cases, and the kernels that are tried for them; runs none; with --json, too\n"
    "  --all          names every operator that the device has no kernel for\n"
    "  --minutes N    in place of the cases random ones, for so long: shapes, attributes, views "
    "and\n"
    "                 sequences of calls, from --seed, which is drawn and printed if not given\n"
    "  --fuzz-step N  the Nth of those alone\n"
    "  --sequence S   such a call, or sequence of calls, as a failure prints it\n"
    "  --complete     says what operators lack before they can be checked: a reference kernel\n"
    "                 for every element type, cases, a size for the bench, documentation\n"
    "  --expect FILE  expected failures: lines 'operator element-type reason', and for kernels\n"
    "                 that no case runs 'row:kernel element-type reason'; where a plugin\n"
    "                 has a file beside it that ends in .expect for .so, it is read anyway\n"
    "  --junit FILE   writes the result as JUnit XML\n"
    "  --json         JSON lines in place of text\n"
    "  -j, --jobs N   processes (default: the processors, 8 at the most, 4 where the\n"
    "                 device is not the processor)\n"
    "  --timeout S    seconds that one run may take (default 120)\n"
    "  --no-fork      all in one process, for debuggers and sanitizers: a crash ends it\n"
    "\n"
    "Exit status: 0 all passed, 1 something failed, 2 used wrongly, 3 nothing to check.\n";

const char help_bench[] =
    "usage: tenon bench [--device D] [--op GLOB] [--dtype T] [--case GLOB] [--once | --json]\n"
    "                   [--compare FILE]\n"
    "       tenon bench --compare OLD NEW\n"
    "       tenon bench memory [--device D] [--tensors N] [--seed S] [--svg FILE] [--json]\n"
    "\n"
    "Times the operators of a device: the least, median and greatest time of a call, GB/s of\n"
    "what it must read and write, GFLOP/s where it multiplies, and what part that is of the\n"
    "device's copy and of its large matrix product, which are measured first; and the kernel\n"
    "that ran. Inputs are random. In place of a part of the copy stands 'cache' where little\n"
    "data is faster than the memory, and '>copy' where reading alone outruns a copy.\n"
    "\n"
    "  --device D  a type (cuda) or one device (cuda:1); else as TENON_DEVICE says\n"
    "  --op GLOB   only operators of this name\n"
    "  --dtype T   these element types, a glob: f16, '*f*' (default: f32, or the operator's\n"
    "              first where it does not take that)\n"
    "  --case GLOB only calls that are printed so, as in 'add f32 *x768*'\n"
    "  --json      JSON lines in place of columns\n"
    "  --once      one call of each, between the lines 'begin' with what it is and 'end', after\n"
    "              one to warm up, and times nothing: for profilers\n"
    "  --compare FILE  says afterwards what became slower and faster since the run whose JSON\n"
    "              lines the file holds, and what is missing; with a second file compares\n"
    "              those two and times nothing\n"
    "  --threshold P  percent that a median must differ by to count (default 10); the\n"
    "              fastest round now must be slower than the median then, too\n"
    "\n"
    "memory: the device's caching allocator. The time of a tensor made and released; for N "
    "tensors\n"
    "of random sizes (default 20000), a thousand at a time, what they hold at most and what is\n"
    "taken from the device for them, with a timeline, as a picture in --svg FILE; and N / 2\n"
    "requests under a limit for which cached memory must be given back.\n"
    "\n"
    "Exit status: 0 timed, 1 some call failed or became slower, 2 used wrongly, 3 nothing to\n"
    "time or to compare.\n";

const char help_run[] =
    "usage: tenon run MODEL.onnx [OPTIONS]\n"
    "       tenon run --list-operators\n"
    "\n"
    "Runs a model in the ONNX format, opsets up to 21, on inputs from files or on random ones, "
    "and\n"
    "prints what loading, building, compiling and running took, and what the outputs are.\n"
    "\n"
    "  -i, --input [NAME=]FILE  the next input, or this one: .npy, .pb (as ONNX's test data is),\n"
    "                  .png, .jpg. Inputs without one are random; bfloat16 and 8-bit\n"
    "                  floats come from float32\n"
    "      --shape [NAME=]SIZES  of a random input: 1x3x224x224; open sizes are 1 otherwise\n"
    "  -o, --output-dir DIR  writes the outputs there: NAME.npy and output_N.pb\n"
    "  -d, --device D  a type (cuda) or one device (cuda:1); else as TENON_DEVICE says\n"
    "      --math M    as TENON_MATH: ieee, tf32 or fast\n"
    "      --repeat N  runs N times more, for the median, the 99th percentile and the fastest\n"
    "      --profile FILE  a trace of all calls for https://ui.perfetto.dev, and a table of times\n"
    "                  by operator\n"
    "      --compare DIR  compares outputs with NAME.npy, output_N.npy or output_N.pb in there\n"
    "      --tolerance T  the greatest difference there, by the greatest number (default 1e-3)\n"
    "      --top K     prints the K largest numbers of the first output\n"
    "      --labels FILE  with names for them, one in each line\n"
    "      --list      prints inputs, outputs and all nodes that are not served; runs nothing\n"
    "      --by-node   runs node by node in place of one program\n"
    "      --row-major  images between convolutions lie so, and not with channels last\n"
    "                  where the device is faster that way\n"
    "      --draw KIND=FILE.png  draws what an output says over the picture that went in:\n"
    "                  boxes    rows of x0, y0, x1, y1, a score and a class, in pixels of the\n"
    "                           model's input or parts of its sides; or around the places of a\n"
    "                           map that are over the threshold\n"
    "                  mask     those places, or each place's class where a map has several "
    "planes\n"
    "                  heat     a map's numbers, from its least to its greatest, as colours\n"
    "                  picture  the output itself, brought back from mean, std and scale\n"
    "                  A map without a picture is drawn on black\n"
    "      --draw-output NAME  that output; default: the first that can be drawn so\n"
    "      --threshold T  of boxes and masks, in the output's numbers (default 0.5)\n"
    "      --list-operators  prints ONNX's operators that are served\n"
    "\n"
    "Pictures become (pixel * scale - mean) / std, pixels being 0 to 255:\n"
    "      --scale S   default 1/255\n"
    "      --mean M[,M,M], --std S[,S,S]  of red, green and blue; default 0 and 1\n"
    "      --resize WxH  default: the model's size, else the picture's own\n"
    "      --bgr       blue comes first\n"
    "\n"
    "Exit status: 0 done, 1 something failed or differs, 2 used wrongly.\n";

const char help_trace[] =
    "usage: tenon trace [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Runs a program that uses Tenon and writes what it computes, when and for how long to a\n"
    "file for chrome://tracing or https://ui.perfetto.dev, and a table of times at its end.\n"
    "\n"
    "  -o, --output FILE     the trace; default tenon-trace-PID.json in this folder\n"
    "      --limit SIZE      bytes that one process may write: 300M, 2G, 0 for any number;\n"
    "                        default 1G\n"
    "      --keep WHAT       which part is kept there: first (the default) or last\n"
    "      --summary[=FILE]  the table: to standard error, as is the default, or to a file\n"
    "      --no-summary      no table\n"
    "      --layers NAMES    further layers, behind trace\n"
    "  -h, --help            this text\n";

const char help_blas[] =
    "usage: tenon blas [OPTIONS] [--] PROGRAM [ARGUMENTS]\n"
    "\n"
    "Runs a program that calls BLAS, unmodified, with products of matrices that are large enough\n"
    "computed by the device that TENON_DEVICE names. All else is computed by the BLAS that the\n"
    "program has anyway, and so is everything where no device is named.\n"
    "\n"
    "      --device D   as TENON_DEVICE: cuda, cuda:1, or a list\n"
    "      --min N      sends products of at least N x N x N there, 0 all of them; without it,\n"
    "                   those for which that was measured to be faster (TENON_BLAS_MIN)\n"
    "      --host LIB   the BLAS that computes the rest (TENON_BLAS_HOST)\n"
    "      --by-path    puts the library on the search path under the names libblas.so.3 and\n"
    "                   libcblas.so.3 in place of preloading it\n"
    "  -r, --report     says at the end how many calls went where (TENON_BLAS_REPORT)\n"
    "  -v, --verbose    says what is found and measured, and each failure (TENON_BLAS_VERBOSE)\n"
    "  -h, --help       this text\n";

const char help_scan[] =
    "usage: tenon scan PLUGIN.so\n"
    "\n"
    "Says whether a plugin may be loaded, and why not: what its file says of itself, the verdict\n"
    "of a scan that is made now, whatever is remembered, and what it brings: devices,\n"
    "kernels by type of device, operators, layers, and what is odd about them. The scan loads the\n"
    "plugin in a process of its own, opens it there, and lets it look for devices and open one.\n"
    "Verdicts are kept in tenon/scan below $XDG_CACHE_HOME or ~/.cache until the file changes;\n"
    "harm that may have been a driver's is for an hour, what may have been the machine's is not.\n"
    "\n"
    "Exit status: 0 accepted, 1 refused, 2 used wrongly.\n";

const char help_new_plugin[] =
    "usage: tenon new-plugin NAME [--kind KIND] [--build SYSTEM] [--dir DIR] [--device TYPE]\n"
    "\n"
    "Writes the sources of a new plugin, a project that builds and passes its own tests as it\n"
    "is, to be replaced by yours piece by piece. What is there already is left alone.\n"
    "\n"
    "  NAME            of the plugin, as in libtenon-NAME.so: a-z, 0-9 and _\n"
    "  --kind KIND     backend (the default), for a simulated accelerator; kernels for a device\n"
    "                  that exists; operator, one of its own, NAME.scale_shift; layer\n"
    "  --build SYSTEM  meson (the default) or cmake\n"
    "  --dir DIR       the folder to make (default NAME)\n"
    "  --device TYPE   of a backend, what TENON_DEVICE shall call the device (default NAME); of\n"
    "                  kernels, the device that they are for (default cpu)\n";

const char help_help[] = "usage: tenon help [COMMAND | env]\n"
                         "\n"
                         "Lists the commands, or prints what COMMAND --help does.\n"
                         "\n"
                         "  env  the environment variables: values, defaults, and who reads them\n";

const command_text command_texts[] = {
    {"info", "info [-v] [--op GLOB] [...]", "plugins, devices, and which backend serves what",
     help_info},
    {"check", "check [PLUGIN.so] [...]", "holds a device's operators against the reference",
     help_check},
    {"bench", "bench [...]", "times a device's operators", help_bench},
    {"run", "run MODEL.onnx [...]", "runs an ONNX model and says what it takes and gives",
     help_run},
    {"trace", "trace [-o FILE] -- PROGRAM [...]", "runs a program and writes when it computes what",
     help_trace},
    {"blas", "blas [OPTIONS] -- PROGRAM [...]",
     "runs a program with its matrix products on a device", help_blas},
    {"scan", "scan PLUGIN.so", "whether a plugin may be loaded, and what it brings", help_scan},
    {"new-plugin", "new-plugin NAME [...]", "writes the sources of a new plugin", help_new_plugin},
    {"help", "help [COMMAND | env]", "this text, a command's, or the environment variables",
     help_help},
    {"version", "version", "the library's version", NULL},
};
const int num_command_texts = sizeof command_texts / sizeof *command_texts;
