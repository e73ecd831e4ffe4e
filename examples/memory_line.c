#include "memory_line.h"

#include <math.h>
#include <stdbool.h>

static bool read_stats(tn_device *device, tn_memory_stats *stats) {
  *stats = (tn_memory_stats){.struct_size = sizeof *stats};
  return device && !tn_device_memory_stats(device, stats);
}

double memory_now(tn_device *device) {
  tn_memory_stats stats;
  return read_stats(device, &stats) ? (double)stats.in_use : NAN;
}

double memory_peak(tn_device *device) {
  tn_memory_stats stats;
  return read_stats(device, &stats) ? (double)stats.peak_reserved : NAN;
}

void memory_line(FILE *out, tn_device *device, double before) {
  double peak = memory_peak(device);
  if (isfinite(peak) && isfinite(before))
    fprintf(out, "memory: %.1f MB at most, %.1f before the first step\n", peak * 1e-6,
            before * 1e-6);
}
