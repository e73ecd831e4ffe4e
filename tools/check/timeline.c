#include "timeline.h"

#include <string.h>

void timeline_begin(timeline *t, uint64_t total) { *t = (timeline){.total = total}; }

void timeline_add(timeline *t, double live, double reserved) {
  uint64_t at = t->total ? t->points * TIMELINE_COLUMNS / t->total : 0;
  if (at >= TIMELINE_COLUMNS) at = TIMELINE_COLUMNS - 1;
  if (live > t->live[at]) t->live[at] = live;
  if (reserved > t->reserved[at]) t->reserved[at] = reserved;
  ++t->points;
}

static double most(const timeline *t) {
  double bytes = 1;
  for (int i = 0; i < TIMELINE_COLUMNS; i++)
    if (t->reserved[i] > bytes) bytes = t->reserved[i];
  return bytes;
}

static void print_curve(const char *name, const double *curve, double top, FILE *out) {
  static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  enum { ROWS = 4, STEPS = 8 };
  for (int row = ROWS - 1; row >= 0; row--) {
    fprintf(out, "%-9s|", row == ROWS - 1 ? name : "");
    for (int i = 0; i < TIMELINE_COLUMNS; i++) {
      double above = curve[i] / top * (ROWS * STEPS) - row * STEPS + 0.5;
      fputs(blocks[above < 0 ? 0 : above > STEPS ? STEPS : (int)above], out);
    }
    fputc('\n', out);
  }
}

void timeline_print(const timeline *t, FILE *out) {
  const double top = most(t);
  print_curve("reserved", t->reserved, top, out);
  print_curve("live", t->live, top, out);
}

enum { WIDTH = 720, HEIGHT = 240, LEFT = 70, TOP = 30, BOTTOM = 30 };

static void draw_area(const double *curve, double top, const char *colour, FILE *out) {
  const double column = (double)WIDTH / TIMELINE_COLUMNS, floor = TOP + HEIGHT;
  fprintf(out, "<path fill='%s' d='M%d %.0f", colour, LEFT, floor);
  for (int i = 0; i < TIMELINE_COLUMNS; i++)
    fprintf(out, " V%.1f H%.1f", floor - HEIGHT * curve[i] / top, LEFT + (i + 1) * column);
  fprintf(out, " V%.0f Z'/>\n", floor);
}

static void draw_text(const char *title, FILE *out) {
  for (const char *c = title; *c; c++)
    *c == '&' || *c == '<' ? (void)fprintf(out, "&#%d;", *c) : (void)fputc(*c, out);
}

void timeline_draw(const timeline *t, const char *title, FILE *out) {
  const double top = most(t);
  fprintf(out,
          "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 %d %d' font-family='sans-serif' "
          "font-size='13'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
          LEFT + WIDTH + 20, TOP + HEIGHT + BOTTOM);
  draw_area(t->reserved, top, "#f0a04b", out);
  draw_area(t->live, top, "#2d6cb5", out);
  fprintf(out, "<text x='%d' y='20'>", LEFT);
  draw_text(title, out);
  fprintf(out,
          ": <tspan fill='#c06a10'>reserved</tspan> and <tspan fill='#2d6cb5'>live</tspan> memory "
          "over %llu tensors</text>\n<text x='%d' y='%d' text-anchor='end'>%.0f MB</text>\n"
          "<text x='%d' y='%d' text-anchor='end'>0</text>\n</svg>\n",
          (unsigned long long)t->points, LEFT - 6, TOP + 10, top / 1e6, LEFT - 6, TOP + HEIGHT);
}
