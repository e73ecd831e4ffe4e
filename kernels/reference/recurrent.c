/* Forward operators of recurrent networks, and what their gradients share; see recurrent.h. */
#include "recurrent.h"

#include <math.h>
#include <string.h>

#include "kernels.h"

/* --- arrays --- */

double *network_room(network *n, int64_t count) {
  double *memory = n->failed ? NULL : scratch_alloc(n->host, count + 1);
  n->failed = !memory;
  if (!memory) return NULL;
  memset(memory, 0, (size_t)(count + 1) * sizeof *memory);
  return n->memory[n->used++] = memory;
}

const double *network_input(network *n, const DLTensor *t) {
  if (!t) return NULL;
  view v = view_of(t);
  double *to = network_room(n, view_count(&v));
  if (to) gather(v, to);
  return to;
}

double *network_output(network *n, const DLTensor *t) {
  if (!t) return NULL;
  view v = view_of(t);
  return network_room(n, view_count(&v));
}

void network_store(const network *n, const DLTensor *t, const double *from) {
  if (t && !n->failed) scatter(view_of(t), from);
}

tn_status network_end(network *n, tn_status status) {
  while (n->used) n->host->free(n->host, n->memory[--n->used]);
  return n->failed ? TN_ERR_OUT_OF_MEMORY : status;
}

/* --- sequences --- */

sequence sequence_of(const network *n, int64_t unit) {
  sequence s = {.n = n, .direction = unit / n->sequences, .number = unit % n->sequences};
  s.reversed = n->direction == 1 || s.direction == 1;
  s.length = n->steps;
  if (n->lengths) {
    view v = view_of(n->lengths);
    load_i64(v.dtype, view_at(&v, s.number * v.stride[0]), 1, 1, &s.length);
    s.length = s.length < 0 ? 0 : s.length > n->steps ? n->steps : s.length;
  }
  return s;
}

static double clipped(const network *n, double x) {
  return x > n->clip ? n->clip : x < -n->clip ? -n->clip : x;
}

static double sigmoid(double x) {
  double e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

double network_activate(const network *n, int64_t code, double x) {
  x = clipped(n, x);
  return code == 0 ? sigmoid(x) : code == 1 ? tanh(x) : x <= 0 ? 0 : x;
}

/* NaN passes through all of them, also through the clipping. */
double network_slope(const network *n, int64_t code, double x) {
  if (x > n->clip || x < -n->clip) return 0;
  if (code == 0) return sigmoid(x) * sigmoid(-x);
  if (code == 1) return (1 - tanh(x)) * (1 + tanh(x));
  return x <= 0 ? 0 : 1;
}

/* --- forward --- */

static double dot(const double *a, const double *b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/* What the input and the first half of the bias give gate row g. */
static double from_input(const sequence *s, int64_t t, int64_t g) {
  const network *n = s->n;
  int64_t rows = n->gates * n->hidden;
  double z = dot(n->x + (t * n->sequences + s->number) * n->inputs,
                 n->w + (s->direction * rows + g) * n->inputs, n->inputs);
  return n->bias ? z + n->bias[s->direction * 2 * rows + g] : z;
}

/* What a state and the second half of the bias give it. */
static double from_state(const sequence *s, const double *h, int64_t g) {
  const network *n = s->n;
  int64_t rows = n->gates * n->hidden;
  double z = dot(h, n->r + (s->direction * rows + g) * n->hidden, n->hidden);
  return n->bias ? z + n->bias[s->direction * 2 * rows + rows + g] : z;
}

/* A step fills its row of the reserve from h and c, and gives both their next values. */
typedef void (*step_fn)(const sequence *s, int64_t t, double *h, double *c, double *row);

static void rnn_step(const sequence *s, int64_t t, double *h, double *c, double *row) {
  const tn_rnn_attrs *attrs = s->n->attrs;
  int64_t size = s->n->hidden;
  (void)c;
  for (int64_t j = 0; j < size; ++j) row[j] = from_input(s, t, j) + from_state(s, h, j);
  memcpy(row + size, h, (size_t)size * sizeof *h);
  for (int64_t j = 0; j < size; ++j) h[j] = network_activate(s->n, attrs->hidden, row[j]);
}

static void gru_step(const sequence *s, int64_t t, double *h, double *c, double *row) {
  const tn_gru_attrs *attrs = s->n->attrs;
  const network *n = s->n;
  int64_t size = n->hidden;
  double *before = row + 3 * size, *q = row + 4 * size;
  (void)c;
  for (int64_t g = 0; g < 2 * size; ++g) row[g] = from_input(s, t, g) + from_state(s, h, g);
  memcpy(before, h, (size_t)size * sizeof *h);
  for (int64_t j = 0; j < size; ++j) {
    double reset = network_activate(n, attrs->gate, row[size + j]);
    q[j] = attrs->linear_before_reset ? from_state(s, before, 2 * size + j) : reset * before[j];
  }
  for (int64_t j = 0; j < size; ++j) {
    double reset = network_activate(n, attrs->gate, row[size + j]);
    row[2 * size + j] =
        from_input(s, t, 2 * size + j) +
        (attrs->linear_before_reset ? reset * q[j] : from_state(s, q, 2 * size + j));
  }
  for (int64_t j = 0; j < size; ++j) {
    double update = network_activate(n, attrs->gate, row[j]);
    h[j] =
        (1 - update) * network_activate(n, attrs->hidden, row[2 * size + j]) + update * before[j];
  }
}

static void lstm_step(const sequence *s, int64_t t, double *h, double *c, double *row) {
  const tn_lstm_attrs *attrs = s->n->attrs;
  const network *n = s->n;
  int64_t size = n->hidden;
  const double *p = n->p ? n->p + s->direction * 3 * size : NULL;
  for (int64_t g = 0; g < 4 * size; ++g) row[g] = from_input(s, t, g) + from_state(s, h, g);
  memcpy(row + 4 * size, c, (size_t)size * sizeof *c);
  memcpy(row + 5 * size, h, (size_t)size * sizeof *h);
  for (int64_t j = 0; j < size; ++j) {
    double *i = &row[j], *o = &row[size + j], *f = &row[2 * size + j];
    if (p) *i += p[j] * c[j], *f += p[2 * size + j] * c[j];
    double in = network_activate(n, attrs->gate, *i);
    double keep = attrs->input_forget ? 1 - in : network_activate(n, attrs->gate, *f);
    c[j] = keep * c[j] + in * network_activate(n, attrs->cell, row[3 * size + j]);
    if (p) *o += p[size + j] * c[j];
    h[j] = network_activate(n, attrs->gate, *o) * network_activate(n, attrs->state, c[j]);
  }
}

typedef struct forward {
  const network *n;
  step_fn step;
  double *rooms; /* of each unit: h, c and a row that is reserved */
} forward;

static void run_sequence(const forward *f, int64_t unit) {
  const network *n = f->n;
  sequence s = sequence_of(n, unit);
  int64_t size = n->hidden, width = n->reserved * size, state = row_of_state(&s) * size;
  size_t bytes = (size_t)size * sizeof(double);
  double *h = f->rooms + unit * (2 * size + width), *c = h + size, *row = c + size;
  if (n->h0) memcpy(h, n->h0 + state, bytes);
  if (n->c0) memcpy(c, n->c0 + state, bytes);
  for (int64_t k = 0; k < s.length; ++k) {
    int64_t t = step_at(&s, k);
    f->step(&s, t, h, c, row);
    memcpy(n->y + row_of_y(&s, t) * size, h, bytes);
    if (n->reserve)
      memcpy(n->reserve + row_of_gates(&s, t) * width, row, (size_t)width * sizeof(double));
  }
  if (n->y_h) memcpy(n->y_h + state, h, bytes);
  if (n->y_c) memcpy(n->y_c + state, c, bytes);
}

static tn_status sequence_range(void *context, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; ++unit) run_sequence(context, unit);
  return TN_OK;
}

static network network_of(const tn_kernel_args *args) {
  const tn_rnn_attrs *attrs = args->attrs; /* all begin with it */
  const DLTensor *x = args->in[0], *r = args->in[2];
  network n = {.host = args->host,
               .attrs = attrs,
               .steps = x->shape[0],
               .sequences = x->shape[1],
               .inputs = x->shape[2],
               .directions = r->shape[0],
               .hidden = r->shape[2],
               .direction = attrs->direction,
               .clip = attrs->clip > 0 ? attrs->clip : INFINITY,
               .lengths = args->in[4]};
  n.x = network_input(&n, x);
  n.w = network_input(&n, args->in[1]);
  n.r = network_input(&n, r);
  n.bias = network_input(&n, args->in[3]);
  n.h0 = network_input(&n, args->in[5]);
  n.y = network_output(&n, args->out[0]);
  n.y_h = network_output(&n, args->out[1]);
  return n;
}

static tn_status network_run(network *n, const tn_kernel_args *args, int reserve, step_fn step) {
  int64_t units = n->directions * n->sequences;
  n->reserve = network_output(n, args->out[reserve]);
  forward f = {n, step, network_room(n, units * (2 + n->reserved) * n->hidden)};
  tn_status status = TN_OK;
  if (!n->failed && units) status = n->host->parallel_for(n->host, units, 1, sequence_range, &f);
  if (!status) {
    network_store(n, args->out[0], n->y);
    network_store(n, args->out[1], n->y_h);
    network_store(n, args->out[reserve], n->reserve);
  }
  return status;
}

tn_status reference_lstm(const tn_kernel_args *args) {
  network n = network_of(args);
  n.gates = 4;
  n.reserved = 6;
  n.c0 = network_input(&n, args->in[6]);
  n.p = network_input(&n, args->in[7]);
  n.y_c = network_output(&n, args->out[2]);
  tn_status status = network_run(&n, args, 3, lstm_step);
  if (!status) network_store(&n, args->out[2], n.y_c);
  return network_end(&n, status);
}

tn_status reference_gru(const tn_kernel_args *args) {
  network n = network_of(args);
  n.gates = 3;
  n.reserved = 5;
  return network_end(&n, network_run(&n, args, 2, gru_step));
}

tn_status reference_rnn(const tn_kernel_args *args) {
  network n = network_of(args);
  n.gates = 1;
  n.reserved = 2;
  return network_end(&n, network_run(&n, args, 2, rnn_step));
}
