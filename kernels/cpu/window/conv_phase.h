/*
 * Gradients of x with strides, over one or two axes, without patches. Elements of x whose places
 * have the same remainders by the strides, a phase, see the same places of the kernel, each at one
 * element of dy: a phase is a convolution of dy with strides of 1, by some of the kernel's places,
 * and is summed in tiles as those are (conv_direct.h). All phases read the same lines of dy.
 */
#ifndef TENON_CPU_CONV_PHASE_H
#define TENON_CPU_CONV_PHASE_H

/* Phases and places of a kernel at the most. */
#define PHASES_MOST 16
#define PHASE_WINDOW_MOST 64

/* The elements at[d], at[d] + stride... of x; of the kernel's places in their order by phases,
 * `taps` from `first` on. */
typedef struct conv_phase {
  int64_t at[2], first, taps;
} conv_phase;

typedef struct conv_phases {
  int64_t count;
  conv_phase of[PHASES_MOST];
  int64_t tap[PHASE_WINDOW_MOST]; /* places of the kernel, by phases */
  int64_t before[2], behind[2];   /* elements of dy around an element's own that taps read */
  int64_t size[2];                /* elements of x in the largest phase */
} conv_phases;

/* How far from its own element of dy a tap reads of elements at, at + stride...; false: nothing. */
static inline bool conv_phase_reach(const conv_call *call, int d, int64_t at, int64_t tap,
                                    int64_t *reach) {
  const int64_t from = at + call->at.padding[d] - tap * call->at.dilation[d];
  *reach = from / call->at.stride[d];
  return from % call->at.stride[d] == 0;
}

static void conv_phase_taps(const conv_call *call, conv_phases *p, conv_phase *phase) {
  for (int64_t t = 0; t < call->window; t++) {
    const int64_t tap[2] = {t / call->kernel[2], t % call->kernel[2]};
    int64_t reach[2];
    if (!conv_phase_reach(call, 1, phase->at[0], tap[0], &reach[0]) ||
        !conv_phase_reach(call, 2, phase->at[1], tap[1], &reach[1]))
      continue;
    for (int d = 0; d < 2; d++) {
      p->before[d] = cpu_max(p->before[d], -reach[d]);
      p->behind[d] = cpu_max(p->behind[d], reach[d]);
    }
    p->tap[phase->first + phase->taps++] = t;
  }
}

static conv_lines conv_phase_lines(const conv_call *call, const conv_phases *p, int64_t rows,
                                   int64_t lanes) {
  conv_lines l = {.flat = true, .tiled = true, .rows = rows, .runs = 1};
  l.line = l.phase = p->before[1] + cpu_max(call->out[2], p->size[1] + p->behind[1]);
  l.lines = rows + p->before[0] + p->behind[0];
  l.run = (rows - 1) * l.line + p->size[1];
  l.room = call->k * l.lines * l.line + lanes;
  return l;
}

/* Whether x's gradient is computed so, and then by what phases and lines. */
static bool conv_is_phased(const conv_call *call, size_t element, conv_phases *p, conv_lines *l) {
  const window_conv *at = &call->at;
  const int64_t lanes = DIRECT_SUMS * DIRECT_VECTOR / (int64_t)element;
  const int64_t phases = at->stride[1] * at->stride[2];
  if (element != sizeof(float) || call->in[0] != 1 || call->out[0] != 1 || call->kernel[0] != 1 ||
      at->padding[0] != 0 || call->c < TILED_CHANNELS || call->k < TILED_CHANNELS || phases < 2 ||
      phases > PHASES_MOST || call->window == 1 || call->window > PHASE_WINDOW_MOST)
    return false;
  *p = (conv_phases){
      .size = {cpu_ceil_div(call->in[1], at->stride[1]), cpu_ceil_div(call->in[2], at->stride[2])}};
  for (int64_t i = 0, first = 0; i < phases; i++) {
    conv_phase *phase = &p->of[p->count++];
    *phase = (conv_phase){{i / at->stride[2], i % at->stride[2]}, first, 0};
    conv_phase_taps(call, p, phase);
    first += phase->taps;
  }
  *l = conv_phase_lines(call, p, 1, lanes);
  if (16 * p->size[1] < TILED_WANTED * l->line) return false;
  const int64_t bytes = cpu_min(call->k * DIRECT_BYTES, TILED_BYTES);
  int64_t rows = 1;
  while (rows < p->size[0] &&
         conv_phase_lines(call, p, rows + 1, lanes).room * (int64_t)element <= bytes)
    rows++;
  rows = cpu_ceil_div(p->size[0], cpu_ceil_div(p->size[0], rows));
  *l = conv_phase_lines(call, p, rows, lanes);
  return l->room * (int64_t)element <= DIRECT_BYTES_MOST;
}

/* dy as the lines are loaded from: x of a convolution with strides of 1. */
static conv_call conv_phase_source(const conv_call *call, const conv_phases *p,
                                   const conv_lines *l) {
  conv_call from = *call;
  from.lines = *l;
  from.c = call->k;
  from.plane = call->image;
  for (int d = 0; d < 3; d++) {
    from.in[d] = call->out[d];
    from.at.stride[d] = 1;
    from.at.padding[d] = d ? p->before[d - 1] : 0;
  }
  return from;
}

#endif
