#include "program_line.h"

void program_line(FILE *out, const char *name, tn_program *program) {
  tn_program_info info = {.struct_size = sizeof info};
  if (!program || tn_program_report(program, &info) || info.runs < 2) return;
  fprintf(out, "%s: %u nodes, %.1f MB, ", name, info.nodes, (double)info.planned_bytes * 1e-6);
  if (info.replays)
    fprintf(out, "%llu of %llu runs as one launch\n", (unsigned long long)info.replays,
            (unsigned long long)info.runs);
  else if (*info.capture_reason)
    fprintf(out, "call by call: %s\n", info.capture_reason);
  else
    fprintf(out, "call by call\n");
}
