#include "model.h"

#include <math.h>
#include <stdio.h>

#include "../pass.h"

/* GPT-2's smallest has a table of 50,257 rows; as many as a multiple of 64 makes products faster.
 * Bytes leave most of them idle, but time and memory are those of the model known by its size. */
static const model_size sizes[] = {{"tiny", 4, 128, 4, 64, BYTES},
                                   {"124M", 12, 768, 12, 1024, 50304}};

const model_size *model_size_at(size_t index) {
  return index < sizeof sizes / sizeof *sizes ? &sizes[index] : NULL;
}

/* ------------------------------------------------------------------ weights --- */

int model_weights(const model_size *size) { return BLOCKS + (int)size->layers * BLOCK_WEIGHTS; }

/* Widths in units of the model's; the starts are GPT-2's. */
typedef struct layout {
  const char *name;
  int32_t rank;
  int rows, columns;
  bool ones, residual;
} layout;

static const layout block_layout[BLOCK_WEIGHTS] = {
    [NORM1_GAMMA] = {"norm1.weight", 1, .columns = 1, .ones = true},
    [NORM1_BETA] = {"norm1.bias", 1, .columns = 1},
    [QUERY_W] = {"attention.query.weight", 2, 1, 1},
    [QUERY_B] = {"attention.query.bias", 1, .columns = 1},
    [KEY_W] = {"attention.key.weight", 2, 1, 1},
    [KEY_B] = {"attention.key.bias", 1, .columns = 1},
    [VALUE_W] = {"attention.value.weight", 2, 1, 1},
    [VALUE_B] = {"attention.value.bias", 1, .columns = 1},
    [JOIN_W] = {"attention.join.weight", 2, 1, 1, .residual = true},
    [JOIN_B] = {"attention.join.bias", 1, .columns = 1},
    [NORM2_GAMMA] = {"norm2.weight", 1, .columns = 1, .ones = true},
    [NORM2_BETA] = {"norm2.bias", 1, .columns = 1},
    [UP_W] = {"mlp.up.weight", 2, 1, 4},
    [UP_B] = {"mlp.up.bias", 1, .columns = 4},
    [DOWN_W] = {"mlp.down.weight", 2, 4, 1, .residual = true},
    [DOWN_B] = {"mlp.down.bias", 1, .columns = 1},
};

static void describe_table(const model_size *size, int i, weight *w) {
  static const char *const names[BLOCKS] = {"tokens", "positions", "norm.weight", "norm.bias"};
  snprintf(w->name, sizeof w->name, "%s", names[i]);
  w->rank = i <= POSITIONS ? 2 : 1;
  w->shape[0] = i == TOKENS ? size->vocabulary : i == POSITIONS ? size->context : size->width;
  w->shape[1] = size->width;
  w->start = i == LAST_GAMMA;
  w->std = i <= POSITIONS ? 0.02 : 0;
}

void model_describe(const model_size *size, int i, weight *w) {
  *w = (weight){0};
  if (i < BLOCKS) {
    describe_table(size, i, w);
    return;
  }
  int block = (i - BLOCKS) / BLOCK_WEIGHTS;
  const layout *l = &block_layout[(i - BLOCKS) % BLOCK_WEIGHTS];
  snprintf(w->name, sizeof w->name, "block.%d.%s", block, l->name);
  w->rank = l->rank;
  w->shape[0] = size->width * (l->rank == 2 ? l->rows : l->columns);
  w->shape[1] = size->width * l->columns;
  w->start = l->ones;
  /* What adds to the residual stream starts smaller, the more blocks add to it. */
  if (l->rank == 2) w->std = l->residual ? 0.02 / sqrt(2.0 * (double)size->layers) : 0.02;
}

int64_t model_parameters(const model_size *size) {
  int64_t count = 0;
  for (int i = 0; i < model_weights(size); i++) {
    weight w;
    model_describe(size, i, &w);
    count += w.rank == 2 ? w.shape[0] * w.shape[1] : w.shape[0];
  }
  return count;
}

static tn_status draw(tn_generator *generator, const weight *w, tn_tensor *value) {
  tn_normal_attrs attrs = TN_NORMAL_DEFAULTS;
  attrs.std = w->std;
  tn_status s = tn_generator_next(generator, TN_OP_NORMAL, value, &attrs);
  return s ? s : tn_normal(NULL, value, &attrs);
}

tn_status model_create(tn_device *device, const model_size *size, uint64_t seed,
                       tn_tensor *weights[]) {
  tn_generator *generator;
  tn_status s = tn_generator_create(tn_device_runtime(device), seed, &generator);
  if (s) return s;
  for (int i = 0; i < model_weights(size) && !s; i++) {
    weight w;
    model_describe(size, i, &w);
    s = tn_full(device, NULL, TN_F32, w.rank, w.shape, w.start, &weights[i]);
    if (!s && w.std > 0) s = draw(generator, &w, weights[i]);
  }
  tn_generator_destroy(generator);
  return s;
}

/* -------------------------------------------------------------------- cache --- */

tn_status model_cache_create(tn_device *device, const model_size *size, model_cache *cache) {
  const int64_t shape[] = {1, size->heads, size->context, size->width / size->heads};
  tn_status s = TN_OK;
  *cache = (model_cache){0};
  for (int i = 0; i < size->layers && !s; i++) {
    s = tn_tensor_empty(device, TN_F32, 4, shape, &cache->keys[i]);
    if (!s) s = tn_tensor_empty(device, TN_F32, 4, shape, &cache->values[i]);
  }
  if (s) model_cache_destroy(cache);
  return s;
}

void model_cache_destroy(model_cache *cache) {
  for (int i = 0; i < MODEL_MAX_LAYERS; i++) {
    tn_tensor_release(cache->keys[i]);
    tn_tensor_release(cache->values[i]);
  }
  *cache = (model_cache){0};
}

/* ------------------------------------------------------------- the forward pass --- */

/* A pass over so many windows of such a length. */
typedef struct reading {
  pass pass;
  const model_size *size;
  int64_t batch, length;
  model_cache *cache;
  char site[32]; /* what layers and graphs call the place we are at */
} reading;

static void at(reading *r, const char *part, int block) {
  snprintf(r->site, sizeof r->site, block < 0 ? "%s" : "%s %d", part, block);
  tn_call_site(r->site);
}

static tn_tensor *norm(pass *p, const tn_tensor *x, tn_tensor *const w[2]) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_layer_norm(NULL, x, w[0], w[1], NULL, y, NULL, NULL);
  return *y;
}

static tn_tensor *linear(pass *p, const tn_tensor *x, tn_tensor *const w[2]) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_matmul(NULL, x, w[0], w[1], NULL, y);
  return *y;
}

static tn_tensor *add(pass *p, const tn_tensor *a, const tn_tensor *b) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_add(NULL, a, b, y);
  return *y;
}

static tn_tensor *reshape(pass *p, const tn_tensor *x, int32_t rank, const int64_t *shape) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_tensor_reshape(x, rank, shape, y);
  return *y;
}

/* [batch, a, b, rest] as [batch, b, a, rest]. */
static tn_tensor *swap(pass *p, const tn_tensor *x) {
  tn_tensor **y = pass_result(p);
  if (!p->status) p->status = tn_tensor_permute(x, (const int32_t[]){0, 2, 1, 3}, y);
  return *y;
}

/* [batch * length, width] as [batch, heads, length, width / heads]. */
static tn_tensor *split_heads(reading *r, const tn_tensor *x) {
  int64_t heads = r->size->heads;
  return swap(&r->pass, reshape(&r->pass, x, 4,
                                (int64_t[]){r->batch, r->length, heads, r->size->width / heads}));
}

static tn_tensor *join_heads(reading *r, const tn_tensor *x) {
  tn_tensor *swapped = swap(&r->pass, x), **whole = pass_result(&r->pass);
  if (!r->pass.status) r->pass.status = tn_tensor_contiguous(NULL, swapped, whole);
  return reshape(&r->pass, *whole, 2, (int64_t[]){r->batch * r->length, r->size->width});
}

/* Puts x behind what is kept, and gives all of it. */
static tn_tensor *remember(reading *r, tn_tensor *kept, tn_tensor *x) {
  int64_t from = r->cache->length, to = from + r->length;
  tn_tensor **fresh = pass_result(&r->pass), **all = pass_result(&r->pass);
  if (!r->pass.status) r->pass.status = tn_tensor_slice(kept, 2, from, to, 1, fresh);
  if (!r->pass.status) r->pass.status = tn_copy(NULL, x, fresh);
  if (!r->pass.status) r->pass.status = tn_tensor_slice(kept, 2, 0, to, 1, all);
  return *all;
}

static tn_tensor *attention(reading *r, const tn_tensor *x, tn_tensor *const w[], int block) {
  tn_scaled_dot_product_attention_attrs causal = TN_SCALED_DOT_PRODUCT_ATTENTION_DEFAULTS;
  causal.causal = 1; /* the last query sees all keys, those of a cache among them */
  tn_tensor *q = split_heads(r, linear(&r->pass, x, &w[QUERY_W]));
  tn_tensor *k = split_heads(r, linear(&r->pass, x, &w[KEY_W]));
  tn_tensor *v = split_heads(r, linear(&r->pass, x, &w[VALUE_W]));
  if (r->cache) k = remember(r, r->cache->keys[block], k);
  if (r->cache) v = remember(r, r->cache->values[block], v);
  tn_tensor **y = pass_result(&r->pass);
  if (!r->pass.status)
    r->pass.status = tn_scaled_dot_product_attention(NULL, q, k, v, NULL, NULL, &causal, y, NULL);
  return linear(&r->pass, join_heads(r, *y), &w[JOIN_W]);
}

static tn_tensor *mlp(reading *r, const tn_tensor *x, tn_tensor *const w[]) {
  tn_tensor *h = linear(&r->pass, x, &w[UP_W]), **y = pass_result(&r->pass);
  if (!r->pass.status) r->pass.status = tn_gelu(NULL, h, NULL, y);
  return linear(&r->pass, *y, &w[DOWN_W]);
}

/* [batch * length, width] */
static tn_tensor *embed(reading *r, tn_tensor *const w[], const tn_tensor *tokens,
                        const tn_tensor *positions) {
  tn_tensor **token = pass_result(&r->pass), **position = pass_result(&r->pass);
  if (!r->pass.status) r->pass.status = tn_embedding(NULL, w[TOKENS], tokens, token);
  if (!r->pass.status) r->pass.status = tn_embedding(NULL, w[POSITIONS], positions, position);
  tn_tensor *x = add(&r->pass, *token, *position);
  return reshape(&r->pass, x, 2, (int64_t[]){r->batch * r->length, r->size->width});
}

static void forward(reading *r, tn_tensor *const weights[], const tn_tensor *tokens,
                    const tn_tensor *positions, tn_tensor **logits) {
  tn_matmul_attrs tied = TN_MATMUL_DEFAULTS;
  tied.trans_b = 1;
  at(r, "embedding", -1);
  tn_tensor *x = embed(r, weights, tokens, positions);
  for (int i = 0; i < r->size->layers; i++) {
    tn_tensor *const *w = &weights[BLOCKS + i * BLOCK_WEIGHTS];
    at(r, "attention", i);
    x = add(&r->pass, x, attention(r, norm(&r->pass, x, &w[NORM1_GAMMA]), w, i));
    at(r, "mlp", i);
    x = add(&r->pass, x, mlp(r, norm(&r->pass, x, &w[NORM2_GAMMA]), w));
  }
  at(r, "head", -1);
  x = norm(&r->pass, x, &weights[LAST_GAMMA]);
  if (!r->pass.status) r->pass.status = tn_matmul(NULL, x, weights[TOKENS], NULL, &tied, logits);
}

tn_status model_forward(const model_size *size, tn_tensor *const weights[], const tn_tensor *tokens,
                        const tn_tensor *positions, model_cache *cache, tn_tensor **logits) {
  const int64_t *shape = tn_tensor_shape(tokens);
  const char *before = tn_call_site(NULL);
  reading r = {.size = size, .batch = shape[0], .length = shape[1], .cache = cache};
  forward(&r, weights, tokens, positions, logits);
  tn_call_site(before);
  if (!r.pass.status && cache) cache->length += r.length;
  return pass_end(&r.pass);
}

tn_status model_loss(const model_size *size, tn_tensor *const weights[], const tn_tensor *tokens,
                     const tn_tensor *positions, const tn_tensor *targets, tn_tensor **loss) {
  tn_tensor *logits = NULL;
  const char *before = tn_call_site(NULL);
  tn_status s = model_forward(size, weights, tokens, positions, NULL, &logits);
  tn_call_site("loss");
  if (!s) s = tn_cross_entropy(NULL, logits, targets, NULL, loss);
  tn_call_site(before);
  tn_tensor_release(logits);
  return s;
}
