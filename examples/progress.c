#include "progress.h"

#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

double progress_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Whether lines on out can be redrawn. */
static bool is_terminal(FILE *out) {
  const char *term = getenv("TERM");
  return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

static int columns(FILE *out) {
  struct winsize size;
  return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

void progress_begin(progress *p, FILE *out, const char *label, const char *unit, int64_t first,
                    int64_t total) {
  double now = progress_now();
  *p = (progress){.out = out, .unit = unit, .first = first, .done = first, .total = total};
  p->began_s = now;
  p->terminal = is_terminal(out);
  p->unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  p->drawn_s = now;
  snprintf(p->label, sizeof p->label, "%s", label);
}

bool progress_due(const progress *p, int64_t done) {
  if (p->terminal) return progress_now() - p->drawn_s >= 0.1;
  return done * 10 / p->total > p->done * 10 / p->total && done < p->total;
}

/* `cells` characters, of which `share` are full, in eighths where the terminal can. */
static void draw_bar(const progress *p, double share, int cells) {
  static const char *const eighth[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};
  int filled = (int)(share * cells * 8 + 0.5);
  fputs(p->unicode ? "▕" : "[", p->out);
  for (int i = 0; i < cells; i++, filled -= 8) {
    int part = filled < 0 ? 0 : filled > 8 ? 8 : filled;
    fputs(p->unicode ? eighth[part] : part > 4 ? "#" : ".", p->out);
  }
  fputs(p->unicode ? "▏" : "]", p->out);
}

void progress_draw(progress *p, int64_t done, double loss) {
  double now = progress_now(), seconds = now - p->began_s;
  double rate = seconds > 0 ? (double)(done - p->first) / seconds : 0;
  double share = (double)done / (double)p->total;
  int left = rate > 0 ? (int)((double)(p->total - done) / rate + 0.5) : 0;
  char text[96];
  int length = snprintf(text, sizeof text, "%3d %%  loss %.4f  %.0f %s/s  %d:%02d left",
                        (int)(share * 100), loss, rate, p->unit, left / 60, left % 60);
  if (p->terminal) {
    int cells = columns(p->out) - (int)strlen(p->label) - length - 8;
    fprintf(p->out, "\r%s  ", p->label);
    if (cells >= 4) draw_bar(p, share, cells < 40 ? cells : 40);
    fprintf(p->out, " %s\033[K", text);
  } else {
    fprintf(p->out, "%s  %s\n", p->label, text);
  }
  fflush(p->out);
  p->done = done;
  p->drawn_s = now;
}

void progress_end(progress *p) {
  if (!p->terminal) return;
  fputs("\r\033[K", p->out);
  fflush(p->out);
}
