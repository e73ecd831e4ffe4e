#include "program_line.h"

void program_remember(program_story *story, tn_program *program) {
  tn_program_info info = {.struct_size = sizeof info};
  if (!program || tn_program_report(program, &info) || info.runs <= story->info.runs) return;
  story->info = info;
  snprintf(story->reason, sizeof story->reason, "%s", info.capture_reason);
}

void program_line(FILE *out, const char *name, const program_story *story) {
  const tn_program_info *info = &story->info;
  if (info->runs < 2) return;
  fprintf(out, "%s: %u nodes, %.1f MB", name, info->nodes, (double)info->planned_bytes * 1e-6);
  if (info->workspace_bytes)
    fprintf(out, " and %.1f MB of workspace", (double)info->workspace_bytes * 1e-6);
  fprintf(out, ", ");
  if (info->replays)
    fprintf(out, "%llu of %llu runs as one launch\n", (unsigned long long)info->replays,
            (unsigned long long)info->runs);
  else if (*story->reason)
    fprintf(out, "call by call: %s\n", story->reason);
  else
    fprintf(out, "call by call\n");
}
