/* Chains as lines of text: chain.c says how they read. */
#include "chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool chain_is_text(const char *text) { return !strncmp(text, "chain ", 6); }

void chain_write(const chain *c, char *text, size_t size) {
  size_t used =
      (size_t)snprintf(text, size, "chain %s seed=%" PRIu64, tn_dtype_name(c->dtype), c->seed);
  for (uint32_t i = 0; i < c->count && used < size; i++) {
    const chain_line *l = &c->line[i];
    char on[40] = "";
    if (chain_calls[l->what].kind == KIND_NEW)
      snprintf(on, sizeof on, l->rank == 2 ? " [%" PRId64 ",%" PRId64 "]" : " [%" PRId64 "]",
               l->shape[0], l->shape[1]);
    else if (chain_inputs(chain_calls[l->what].kind) == 2)
      snprintf(on, sizeof on, " %d %d", l->in[0], l->in[1]);
    else
      snprintf(on, sizeof on, " %d", l->in[0]);
    used += (size_t)snprintf(text + used, size - used, "; %" PRIu32 " = %s%s", i,
                             chain_calls[l->what].name, on);
    if (l->stream && used < size)
      used += (size_t)snprintf(text + used, size - used, " @%u", l->stream);
    if (l->way && used < size)
      used += (size_t)snprintf(text + used, size - used, " %s", chain_ways[l->way]);
  }
}

/* A word behind the name: an input, a shape, a stream, a way. */
static bool read_word(const char *word, chain_line *l, uint32_t *inputs) {
  char *end;
  if (*word == '@') {
    l->stream = (uint8_t)strtoul(word + 1, &end, 10);
    return !*end && l->stream < STREAMS;
  }
  if (*word == '[') {
    for (word++; l->rank < 2; word = end + 1) {
      l->shape[l->rank++] = strtoll(word, &end, 10);
      if (end == word || l->shape[l->rank - 1] < 0 || l->shape[l->rank - 1] > 1 << 20) return false;
      if (*end != ',') break;
    }
    return !strcmp(end, "]");
  }
  for (uint8_t way = 1; way < WAYS; way++)
    if (!strcmp(word, chain_ways[way])) return l->way = way, true;
  long input = strtol(word, &end, 10);
  if (*inputs == 2 || end == word || *end || input < 0 || input >= CHAIN_STEPS) return false;
  l->in[(*inputs)++] = (int8_t)input;
  return true;
}

static bool read_line(char *text, chain_line *l) {
  char *rest, *word = strtok_r(text, " ", &rest); /* its number, which is its place */
  uint32_t inputs = 0;
  *l = (chain_line){.what = CHAIN_CALLS, .in = {-1, -1}};
  if (!word || !(word = strtok_r(NULL, " ", &rest)) || strcmp(word, "=") != 0) return false;
  if (!(word = strtok_r(NULL, " ", &rest))) return false;
  for (uint8_t i = 0; i < CHAIN_CALLS; i++)
    if (!strcmp(chain_calls[i].name, word)) l->what = i;
  while (l->what < CHAIN_CALLS && (word = strtok_r(NULL, " ", &rest)))
    if (!read_word(word, l, &inputs)) return false;
  return l->what < CHAIN_CALLS && inputs == chain_inputs(chain_calls[l->what].kind);
}

bool chain_read(const char *text, chain *c, char *why, size_t size) {
  char copy[FUZZ_TEXT], type[20] = "", *rest;
  snprintf(copy, sizeof copy, "%s", text);
  *c = (chain){0};
  char *line = strtok_r(copy, ";", &rest);
  if (line) sscanf(line, "chain %19s seed=%" SCNu64, type, &c->seed);
  for (int t = 1; t < TN_DTYPE_SLOTS; t++)
    if (!strcmp(tn_dtype_name((tn_dtype)t), type)) c->dtype = (tn_dtype)t;
  bool ok = c->dtype != TN_DTYPE_NONE;
  while (ok && (line = strtok_r(NULL, ";", &rest)))
    ok = c->count < CHAIN_STEPS && read_line(line, &c->line[c->count++]);
  ok = ok && chain_is_sound(c);
  if (!ok) snprintf(why, size, "no chain that makes sense: line %" PRIu32, c->count);
  return ok;
}
