#include "plot.h"

#include <math.h>
#include <stdio.h>

#include "../output.h"

/* The sheet, and the rectangle in it that the axes span. */
enum { WIDTH = 960, HEIGHT = 540, LEFT = 72, RIGHT = 876, TOP = 92, BOTTOM = 476 };

/* Points that a curve is drawn with at most; more would not be seen. */
enum { MOST_POINTS = 1600 };

/* One scale from values to pixels, linear or logarithmic. */
typedef struct axis {
  double low, high; /* log10 of them where logarithmic */
  double from, to;  /* pixels */
  bool logarithmic;
} axis;

typedef struct plot {
  FILE *file;
  const history *h;
  axis x, loss, accuracy;
} plot;

static double place(const axis *a, double value) {
  double v = a->logarithmic ? log10(value) : value;
  return a->from + (v - a->low) / (a->high - a->low) * (a->to - a->from);
}

/* The largest of 1, 2, 5 times a power of ten that is not above x, or the next one. */
static double nice_step(double x) {
  double power = pow(10, floor(log10(x))), lead = x / power;
  return power * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
}

/* ------------------------------------------------------------------- scales --- */

/* An exponential mean over a hundredth of the run, corrected for its start at 0. */
typedef struct smoother {
  double keep, sum, weight;
} smoother;

static smoother smoother_over(size_t steps) {
  double window = fmin(fmax(10, (double)steps / 100), 100);
  return (smoother){.keep = 1 - 1 / window};
}

static double smooth(smoother *s, double value) {
  s->sum = s->keep * s->sum + (1 - s->keep) * value;
  s->weight = s->keep * s->weight + (1 - s->keep);
  return s->sum / s->weight;
}

static bool drawable(double loss) { return isfinite(loss) && loss > 0; }

/* From the least smoothed loss, rounded down, to the greatest of all, rounded up. */
static axis loss_axis(const history *h) {
  double low = INFINITY, high = 0;
  smoother s = smoother_over(h->steps);
  for (size_t i = 0; i < h->steps; i++) {
    double loss = (double)h->loss[i];
    if (!drawable(loss)) continue;
    low = fmin(low, smooth(&s, loss));
    high = fmax(high, loss);
  }
  if (high == 0) low = high = 1;
  return (axis){floor(log10(low * 0.6) * 4) / 4, ceil(log10(high * 1.1) * 4) / 4, BOTTOM, TOP,
                true};
}

static axis accuracy_axis(const history *h) {
  double low = 100, high = 0;
  for (size_t i = 0; i < h->tests; i++) {
    low = fmin(low, 100 * h->test[i].accuracy);
    high = fmax(high, 100 * h->test[i].accuracy);
  }
  if (high < low) low = 0, high = 100;
  double margin = fmax(1, (high - low) / 2);
  double step = nice_step((high - low + 2 * margin) / 6);
  low = fmax(0, floor((low - margin) / step) * step);
  high = fmin(100, ceil((high + margin) / step) * step);
  return (axis){low, high, BOTTOM, TOP, false};
}

/* -------------------------------------------------------------- paper, axes --- */

static void escape(FILE *file, const char *text) {
  for (; *text; text++) {
    if (*text == '&')
      fputs("&amp;", file);
    else if (*text == '<')
      fputs("&lt;", file);
    else if ((unsigned char)*text < ' ')
      fputc(' ', file);
    else
      fputc(*text, file);
  }
}

static void draw_paper(plot *p, const char *title, const char *subtitle) {
  fprintf(p->file,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
          "viewBox=\"0 0 %d %d\" font-family=\"system-ui, 'DejaVu Sans', sans-serif\" "
          "font-size=\"13\" fill=\"#4b5563\">\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
          "<clipPath id=\"area\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n",
          WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP);
  fprintf(p->file,
          "<text x=\"%d\" y=\"38\" font-size=\"20\" font-weight=\"600\" "
          "fill=\"#111827\">",
          LEFT);
  escape(p->file, title);
  fprintf(p->file, "</text>\n<text x=\"%d\" y=\"60\" fill=\"#6b7280\">", LEFT);
  escape(p->file, subtitle);
  fputs("</text>\n", p->file);
}

static void draw_line(plot *p, double x1, double y1, double x2, double y2, const char *colour) {
  fprintf(p->file, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>\n", x1,
          y1, x2, y2, colour);
}

static void draw_tick_text(plot *p, double x, double y, const char *anchor, double value,
                           const char *unit) {
  fprintf(p->file, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%.10g%s</text>\n", x, y, anchor,
          value, unit);
}

static void draw_loss_ticks(plot *p) {
  static const double lead[] = {1, 2, 5};
  for (int power = (int)floor(p->loss.low) - 1; power <= p->loss.high; power++)
    for (int i = 0; i < 3; i++) {
      double value = lead[i] * pow(10, power), y = place(&p->loss, value);
      if (y > BOTTOM + 0.5 || y < TOP - 0.5) continue;
      draw_line(p, LEFT, y, RIGHT, y, "#e5e7eb");
      draw_tick_text(p, LEFT - 10, y + 4.5, "end", value, "");
    }
}

static void draw_accuracy_ticks(plot *p) {
  double step = nice_step((p->accuracy.high - p->accuracy.low) / 6);
  if (!p->h->tests) return;
  for (int i = 0; p->accuracy.low + i * step < p->accuracy.high + step / 2; i++) {
    double value = p->accuracy.low + i * step, y = place(&p->accuracy, value);
    draw_line(p, RIGHT, y, RIGHT + 5, y, "#9ca3af");
    draw_tick_text(p, RIGHT + 10, y + 4.5, "start", value, " %");
  }
}

static void draw_step_ticks(plot *p) {
  double step = fmax(1, nice_step(p->x.high / 7));
  for (double value = 0; value <= p->x.high + step * 1e-6; value += step) {
    double x = place(&p->x, value);
    draw_line(p, x, BOTTOM, x, BOTTOM + 5, "#9ca3af");
    draw_tick_text(p, x, BOTTOM + 21, "middle", value, "");
  }
}

static void draw_axes(plot *p) {
  draw_loss_ticks(p);
  draw_accuracy_ticks(p);
  draw_step_ticks(p);
  draw_line(p, LEFT, BOTTOM, RIGHT, BOTTOM, "#9ca3af");
  fprintf(p->file, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">training step</text>\n",
          (LEFT + RIGHT) / 2, BOTTOM + 44);
  fprintf(p->file,
          "<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">training "
          "loss</text>\n",
          (TOP + BOTTOM) / 2);
  if (p->h->tests)
    fprintf(p->file,
            "<text transform=\"translate(%d %d) rotate(90)\" text-anchor=\"middle\">test "
            "accuracy</text>\n",
            WIDTH - 12, (TOP + BOTTOM) / 2);
}

/* ------------------------------------------------------------------- curves --- */

static void begin_curve(plot *p, const char *style) {
  fprintf(p->file,
          "<polyline clip-path=\"url(#area)\" fill=\"none\" stroke-linejoin=\"round\" "
          "%s points=\"",
          style);
}

static void add_point(plot *p, double step, double loss) {
  fprintf(p->file, "%.1f,%.1f ", place(&p->x, step), place(&p->loss, loss));
}

static void end_curve(plot *p) { fputs("\"/>\n", p->file); }

/* Every loss; of very many the least and greatest in each small stretch. */
static void draw_raw_loss(plot *p) {
  const history *h = p->h;
  size_t stretch = h->steps / (MOST_POINTS / 2) + 1;
  begin_curve(p, "stroke=\"#93c5fd\" stroke-opacity=\"0.55\"");
  for (size_t begin = 0; begin < h->steps; begin += stretch) {
    double low = INFINITY, high = 0;
    for (size_t i = begin; i < begin + stretch && i < h->steps; i++) {
      if (!drawable((double)h->loss[i])) continue;
      low = fmin(low, (double)h->loss[i]);
      high = fmax(high, (double)h->loss[i]);
    }
    if (high > 0) add_point(p, (double)begin + 1, low);
    if (high > low) add_point(p, (double)begin + 1, high);
  }
  end_curve(p);
}

static void draw_smooth_loss(plot *p) {
  const history *h = p->h;
  size_t stretch = h->steps / MOST_POINTS + 1;
  smoother s = smoother_over(h->steps);
  begin_curve(p, "stroke=\"#2563eb\" stroke-width=\"2.2\"");
  for (size_t i = 0; i < h->steps; i++) {
    if (!drawable((double)h->loss[i])) continue;
    double loss = smooth(&s, (double)h->loss[i]);
    if (i % stretch == 0 || i + 1 == h->steps) add_point(p, (double)i + 1, loss);
  }
  end_curve(p);
}

static void draw_accuracy(plot *p) {
  const history *h = p->h;
  size_t labelled = h->tests / 10 + 1; /* every one of a few, some of many */
  begin_curve(p, "stroke=\"#ea580c\" stroke-width=\"2.2\"");
  for (size_t i = 0; i < h->tests; i++)
    fprintf(p->file, "%.1f,%.1f ", place(&p->x, (double)h->test[i].step),
            place(&p->accuracy, 100 * h->test[i].accuracy));
  end_curve(p);
  for (size_t i = 0; i < h->tests; i++) {
    double x = place(&p->x, (double)h->test[i].step);
    double y = place(&p->accuracy, 100 * h->test[i].accuracy);
    fprintf(p->file,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"#ea580c\" stroke=\"#ffffff\" "
            "stroke-width=\"1.5\"/>\n",
            x, y);
    if ((h->tests - 1 - i) % labelled == 0)
      fprintf(p->file,
              "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\" font-weight=\"600\" "
              "fill=\"#c2410c\" stroke=\"#ffffff\" stroke-width=\"4\" "
              "paint-order=\"stroke\">%.2f %%</text>\n",
              x + 2, y - 11, 100 * h->test[i].accuracy);
  }
}

static void draw_key(plot *p, int x, const char *colour, const char *text) {
  fprintf(p->file,
          "<rect x=\"%d\" y=\"54\" width=\"18\" height=\"3\" rx=\"1.5\" fill=\"%s\"/>"
          "<text x=\"%d\" y=\"60\">%s</text>\n",
          x, colour, x + 25, text);
}

static void draw_legend(plot *p) {
  draw_key(p, RIGHT - 340, "#93c5fd", "loss");
  draw_key(p, RIGHT - 270, "#2563eb", "loss, smoothed");
  if (p->h->tests) draw_key(p, RIGHT - 124, "#ea580c", "test accuracy");
}

bool plot_write(const history *h, const char *title, const char *subtitle, const char *path) {
  output o;
  if (!output_open(&o, path)) return false;
  plot p = {.file = o.file, .h = h, .loss = loss_axis(h), .accuracy = accuracy_axis(h)};
  p.x = (axis){0, h->steps ? (double)h->steps : 1, LEFT, RIGHT, false};
  draw_paper(&p, title, subtitle);
  draw_axes(&p);
  draw_raw_loss(&p);
  draw_smooth_loss(&p);
  draw_accuracy(&p);
  draw_legend(&p);
  fputs("</svg>\n", p.file);
  return output_commit(&o);
}
