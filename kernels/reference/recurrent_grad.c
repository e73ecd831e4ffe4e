/* Gradients of recurrent networks, step by step from the last to the first; see recurrent.h. */
#include <math.h>
#include <string.h>

#include "kernels.h"
#include "recurrent.h"

/* What goes from a step to the one before it: gradients by h and c. */
typedef struct carried {
  double *dh, *dc, *next; /* [h] each; `next` is room */
} carried;

/* Turns dh and dc, by what the step gave, into those by what it read. `row` is of the reserve, `dr`
 * of its gradient or NULL, `dz` of dgates. */
typedef void (*back_fn)(const sequence *s, const double *row, const double *dr, double *dz,
                        const carried *k);

/* next[j] += what gate rows of r from `first` on pass back of d. */
static void pass_back(const sequence *s, const double *d, int64_t first, int64_t gates,
                      double *next) {
  const network *n = s->n;
  int64_t size = n->hidden;
  const double *r = n->r + (s->direction * n->gates + first) * size * size;
  for (int64_t g = 0; g < gates * size; ++g)
    for (int64_t j = 0; j < size; ++j) next[j] += d[g] * r[g * size + j];
}

static double plus(const double *dr, int64_t at) { return dr ? dr[at] : 0; }

static void rnn_back(const sequence *s, const double *row, const double *dr, double *dz,
                     const carried *k) {
  const tn_rnn_grad_attrs *attrs = s->n->attrs;
  int64_t size = s->n->hidden;
  for (int64_t j = 0; j < size; ++j) {
    dz[j] = k->dh[j] * network_slope(s->n, attrs->hidden, row[j]) + plus(dr, j);
    k->next[j] = plus(dr, size + j);
  }
  pass_back(s, dz, 0, 1, k->next);
}

static void gru_back(const sequence *s, const double *row, const double *dr, double *dz,
                     const carried *k) {
  const network *n = s->n;
  const tn_gru_grad_attrs *attrs = n->attrs;
  const bool linear = attrs->linear_before_reset;
  int64_t size = n->hidden;
  const double *before = row + 3 * size, *q = row + 4 * size;
  double *update = dz, *reset = dz + size, *gate = dz + 2 * size, *dq = dz + 3 * size;
  for (int64_t j = 0; j < size; ++j) {
    double z = network_activate(n, attrs->gate, row[j]);
    double r = network_activate(n, attrs->gate, row[size + j]);
    double g = network_activate(n, attrs->hidden, row[2 * size + j]);
    update[j] = k->dh[j] * (before[j] - g) * network_slope(n, attrs->gate, row[j]) + plus(dr, j);
    gate[j] = k->dh[j] * (1 - z) * network_slope(n, attrs->hidden, row[2 * size + j]) +
              plus(dr, 2 * size + j);
    k->next[j] = k->dh[j] * z + plus(dr, 3 * size + j);
    k->dc[j] = plus(dr, 4 * size + j); /* by q */
    dq[j] = linear ? gate[j] * r + k->dc[j] : gate[j];
  }
  if (!linear) pass_back(s, gate, 2, 1, k->dc);
  for (int64_t j = 0; j < size; ++j) {
    double r = network_activate(n, attrs->gate, row[size + j]);
    double by_reset = linear ? gate[j] * q[j] : k->dc[j] * before[j];
    reset[j] = by_reset * network_slope(n, attrs->gate, row[size + j]) + plus(dr, size + j);
    if (!linear) k->next[j] += k->dc[j] * r;
  }
  pass_back(s, dz, 0, 2, k->next);
  if (linear) pass_back(s, dq, 2, 1, k->next);
}

static void lstm_back(const sequence *s, const double *row, const double *dr, double *dz,
                      const carried *k) {
  const network *n = s->n;
  const tn_lstm_grad_attrs *attrs = n->attrs;
  int64_t size = n->hidden;
  const double *p = n->p ? n->p + s->direction * 3 * size : NULL;
  for (int64_t j = 0; j < size; ++j) {
    double zi = row[j], zo = row[size + j], zf = row[2 * size + j], zc = row[3 * size + j];
    double before = row[4 * size + j];
    double i = network_activate(n, attrs->gate, zi), o = network_activate(n, attrs->gate, zo);
    double f = attrs->input_forget ? 1 - i : network_activate(n, attrs->gate, zf);
    double g = network_activate(n, attrs->cell, zc), c = f * before + i * g;
    double dh = k->dh[j];
    dz[size + j] = dh * network_activate(n, attrs->state, c) * network_slope(n, attrs->gate, zo) +
                   plus(dr, size + j);
    double dc = k->dc[j] + dh * o * network_slope(n, attrs->state, c);
    if (p) dc += dz[size + j] * p[size + j];
    double di = dc * g - (attrs->input_forget ? dc * before : 0);
    double df = attrs->input_forget ? 0 : dc * before;
    dz[j] = di * network_slope(n, attrs->gate, zi) + plus(dr, j);
    dz[2 * size + j] = df * network_slope(n, attrs->gate, zf) + plus(dr, 2 * size + j);
    dz[3 * size + j] = dc * i * network_slope(n, attrs->cell, zc) + plus(dr, 3 * size + j);
    k->dc[j] = dc * f + plus(dr, 4 * size + j);
    if (p) k->dc[j] += dz[j] * p[j] + dz[2 * size + j] * p[2 * size + j];
    k->next[j] = plus(dr, 5 * size + j);
  }
  pass_back(s, dz, 0, 4, k->next);
}

typedef struct backward {
  const network *n;
  back_fn back;
  double *rooms; /* of each unit: dh, dc, next */
} backward;

static void copy_or_zero(double *to, const double *from, int64_t at, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from ? from[at + i] : 0;
}

static void run_back(const backward *b, int64_t unit) {
  const network *n = b->n;
  sequence s = sequence_of(n, unit);
  int64_t size = n->hidden, width = n->reserved * size, state = row_of_state(&s) * size;
  double *room = b->rooms + unit * 3 * size;
  carried k = {room, room + size, room + 2 * size};
  copy_or_zero(k.dh, n->dy_h, state, size);
  copy_or_zero(k.dc, n->dy_c, state, size);
  for (int64_t step = s.length - 1; step >= 0; --step) {
    int64_t t = step_at(&s, step), row = row_of_gates(&s, t);
    for (int64_t j = 0; j < size && n->dy; ++j) k.dh[j] += n->dy[row_of_y(&s, t) * size + j];
    b->back(&s, n->reserve_in + row * width, n->dreserve ? n->dreserve + row * width : NULL,
            n->dgates + row * n->grad_gates * size, &k);
    double *dh = k.dh;
    k.dh = k.next;
    k.next = dh;
  }
  memcpy(n->dh0 + state, k.dh, (size_t)size * sizeof(double));
  if (n->dc0) memcpy(n->dc0 + state, k.dc, (size_t)size * sizeof(double));
}

static tn_status back_range(void *context, int64_t begin, int64_t end) {
  for (int64_t unit = begin; unit < end; ++unit) run_back(context, unit);
  return TN_OK;
}

/* dp = the gates' gradients times what peepholes looked at, in the order of the sequences. */
static void sum_peepholes(const network *n) {
  const tn_lstm_grad_attrs *attrs = n->attrs;
  int64_t size = n->hidden;
  for (int64_t unit = 0; unit < n->directions * n->sequences; ++unit) {
    sequence s = sequence_of(n, unit);
    double *dp = n->dp + s.direction * 3 * size;
    for (int64_t t = 0; t < s.length; ++t) {
      const double *row = n->reserve_in + row_of_gates(&s, t) * 6 * size;
      const double *dz = n->dgates + row_of_gates(&s, t) * 4 * size;
      for (int64_t j = 0; j < size; ++j) {
        double before = row[4 * size + j], i = network_activate(n, attrs->gate, row[j]);
        double f =
            attrs->input_forget ? 1 - i : network_activate(n, attrs->gate, row[2 * size + j]);
        double c = f * before + i * network_activate(n, attrs->cell, row[3 * size + j]);
        dp[j] += dz[j] * before;
        dp[size + j] += dz[size + j] * c;
        dp[2 * size + j] += dz[2 * size + j] * before;
      }
    }
  }
}

static network network_of(const tn_kernel_args *args, int64_t gates, int64_t grad_gates,
                          int64_t reserved) {
  const tn_rnn_grad_attrs *attrs = args->attrs; /* all begin with it */
  const DLTensor *r = args->in[0], *reserve = args->in[1];
  network n = {.host = args->host,
               .attrs = attrs,
               .steps = reserve->shape[0],
               .sequences = reserve->shape[1],
               .directions = r->shape[0],
               .hidden = r->shape[2],
               .gates = gates,
               .grad_gates = grad_gates,
               .reserved = reserved,
               .direction = attrs->direction,
               .clip = attrs->clip > 0 ? attrs->clip : INFINITY,
               .lengths = args->in[2]};
  n.r = network_input(&n, r);
  n.reserve_in = network_input(&n, reserve);
  n.dy = network_input(&n, args->in[3]);
  n.dy_h = network_input(&n, args->in[4]);
  n.dreserve = network_input(&n, args->in[5]);
  n.dgates = network_output(&n, args->out[0]);
  n.dh0 = network_output(&n, args->out[1]);
  return n;
}

static tn_status network_run(network *n, const tn_kernel_args *args, back_fn back) {
  int64_t units = n->directions * n->sequences;
  backward b = {n, back, network_room(n, units * 3 * n->hidden)};
  tn_status status = TN_OK;
  if (!n->failed && units) status = n->host->parallel_for(n->host, units, 1, back_range, &b);
  if (!status) {
    network_store(n, args->out[0], n->dgates);
    network_store(n, args->out[1], n->dh0);
  }
  return status;
}

tn_status reference_lstm_grad(const tn_kernel_args *args) {
  network n = network_of(args, 4, 4, 6);
  n.dy_c = network_input(&n, args->in[6]);
  n.p = network_input(&n, args->in[7]);
  n.dc0 = network_output(&n, args->out[2]);
  n.dp = network_output(&n, args->out[3]);
  tn_status status = network_run(&n, args, lstm_back);
  if (!status && !n.failed) sum_peepholes(&n);
  if (!status) {
    network_store(&n, args->out[2], n.dc0);
    network_store(&n, args->out[3], n.dp);
  }
  return network_end(&n, status);
}

tn_status reference_gru_grad(const tn_kernel_args *args) {
  network n = network_of(args, 3, 4, 5);
  return network_end(&n, network_run(&n, args, gru_back));
}

tn_status reference_rnn_grad(const tn_kernel_args *args) {
  network n = network_of(args, 1, 1, 2);
  return network_end(&n, network_run(&n, args, rnn_back));
}
