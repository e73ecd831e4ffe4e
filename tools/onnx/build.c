/* Evaluating a model: once on symbolic tensors, for a program, or on a run's own. */
#include "build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tenon/ops.h"

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool may_be_special(const given_input *in) {
  int64_t elements = 1;
  for (int32_t i = 0; i < in->rank; i++) elements *= in->shape[i];
  return in->rank <= 1 && elements <= MAX_SPECIAL && (TN_SET(in->dtype) & TN_SET_BITS) &&
         in->tensor && !tn_tensor_graph(in->tensor);
}

static tn_status evaluation_begin(evaluation *e, tn_onnx *m) {
  *e = (evaluation){.model = m, .host = m->host};
  e->weights = calloc(m->num_weights + 1, sizeof(value *));
  return e->weights ? TN_OK : onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory for a model's values");
}

static void evaluation_end(evaluation *e) {
  for (uint64_t i = 0; e->weights && i < e->model->num_weights; i++) value_release(e->weights[i]);
  free(e->weights);
  tn_graph_destroy(e->sizes);
}

/* The model's inputs in a graph; with their numbers, where programs are made for those. */
static tn_status graph_inputs(evaluation *e, const given_input *in, value **values) {
  tn_onnx *m = e->model;
  for (size_t i = 0; i < m->num_in; i++) {
    tn_tensor *tensor = NULL;
    tn_status status =
        tn_graph_input(e->graph, m->in[i].name, in[i].dtype, in[i].rank, in[i].shape, &tensor);
    if (status) return onnx_fail_by(status, "input %s", m->in[i].name);
    values[i] = value_of_tensor(e, tensor);
    if (!values[i]) return e->status;
    if (!m->special || !may_be_special(&in[i])) continue;
    size_t bytes = tn_tensor_bytes(in[i].tensor);
    values[i]->owned = true;
    values[i]->host.data = calloc(bytes + 1, 1);
    if (!values[i]->host.data) return onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory");
    status = tn_tensor_to_host(in[i].tensor, values[i]->host.data, bytes);
    if (status) return onnx_fail_by(status, "input %s", m->in[i].name);
  }
  return TN_OK;
}

/* The output's name; a file may list a value twice, a graph has each name once. */
static const char *output_name(const tn_onnx *m, size_t index, char *room, size_t size) {
  for (size_t i = 0; i < index; i++)
    if (!strcmp(m->out[i].name, m->out[index].name)) {
      snprintf(room, size, "output %zu: %.200s", index, m->out[index].name);
      return room;
    }
  return m->out[index].name;
}

/* What a node did not make (an input, a constant) becomes an output by a copy. */
static tn_status graph_outputs(evaluation *e, value *const *out) {
  tn_onnx *m = e->model;
  char name[240];
  e->at = NULL;
  for (size_t i = 0; i < m->num_out; i++) {
    tn_tensor *tensor = value_tensor(e, out[i]), *copy = NULL;
    if (!tensor) return e->status;
    tn_status status = tn_copy(NULL, tensor, &copy);
    if (!status) status = tn_graph_output(e->graph, output_name(m, i, name, sizeof name), copy);
    tn_tensor_release(copy);
    if (status) return onnx_fail_by(status, "output %s", m->out[i].name);
  }
  return TN_OK;
}

static void release_all(value **values, size_t count) {
  for (size_t i = 0; values && i < count; i++) value_release(values[i]);
  free(values);
}

/* Records the model's graph. *wants_run: it failed since numbers of a run decide. */
static tn_status record(tn_onnx *m, const given_input *in, tn_graph *graph, built_program *p,
                        bool *wants_run) {
  evaluation e;
  tn_status status = evaluation_begin(&e, m);
  value **ins = calloc(m->num_in + 1, sizeof *ins), **outs = calloc(m->num_out + 1, sizeof *outs);
  if (!status && (!ins || !outs)) status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory");
  e.graph = graph;
  e.device = tn_graph_device(graph);
  if (!status) status = graph_inputs(&e, in, ins);
  if (!status) status = eval_graph(&e, m->main, NULL, NULL, ins, outs);
  if (!status) status = graph_outputs(&e, outs);
  *wants_run = status && e.wants_run;
  p->folded = e.folded;
  release_all(ins, m->num_in);
  release_all(outs, m->num_out);
  evaluation_end(&e);
  return status;
}

static tn_status build_once(tn_onnx *m, const given_input *in, built_program *p, bool *wants_run) {
  tn_graph *graph = NULL;
  const char *name = m->proto->graph->name;
  uint64_t begin = now_ns();
  *wants_run = false;
  tn_status status = tn_graph_create(m->runtime, name && *name ? name : "model", &graph);
  if (status) return onnx_fail_by(status, "a graph");
  status = record(m, in, graph, p, wants_run);
  uint64_t recorded = now_ns();
  if (!status) {
    status = tn_graph_compile(graph, m->device, &m->compile, &p->program);
    if (status) onnx_fail_by(status, "compiling the model");
  }
  p->build_ns = recorded - begin;
  p->compile_ns = now_ns() - recorded;
  tn_graph_destroy(graph);
  return status;
}

tn_status program_build(tn_onnx *m, size_t num_in, const given_input *in, built_program *p,
                        bool *again) {
  bool wants_run = false, possible = false;
  *again = false;
  if (m->options.flags & TN_ONNX_BY_NODE) {
    snprintf(p->reason, sizeof p->reason, "TN_ONNX_BY_NODE asks for it");
    return TN_OK;
  }
  tn_status status = build_once(m, in, p, &wants_run);
  if (!wants_run) return status;
  snprintf(p->reason, sizeof p->reason, "%.290s", tn_onnx_last_error());
  for (size_t i = 0; i < num_in; i++) possible = possible || may_be_special(&in[i]);
  if (!m->special && possible) {
    m->special = *again = true;
    return TN_OK;
  }
  return TN_OK;
}

/* --- node by node --- */

/* Outputs are the caller's alone: a view, a weight or an input is copied. */
static tn_status give_output(evaluation *e, value *v, const char *name, tn_tensor **out) {
  tn_tensor *tensor = value_tensor(e, v);
  if (!tensor) return e->status;
  tn_status status = tn_copy(e->stream, tensor, out);
  return status ? onnx_fail_by(status, "output %s", name) : TN_OK;
}

tn_status run_by_node(tn_onnx *m, tn_stream *stream, const tn_tensor *const *in, tn_tensor **out) {
  evaluation e;
  tn_status status = evaluation_begin(&e, m);
  value **ins = calloc(m->num_in + 1, sizeof *ins), **outs = calloc(m->num_out + 1, sizeof *outs);
  tn_tensor **made = calloc(m->num_out + 1, sizeof *made);
  if (!status && (!ins || !outs || !made)) status = onnx_fail(TN_ERR_OUT_OF_MEMORY, "no memory");
  e.device = m->device;
  e.stream = stream;
  for (size_t i = 0; i < m->num_in && !status; i++) {
    tn_tensor *tensor = (tn_tensor *)(uintptr_t)in[i];
    tn_tensor_retain(tensor);
    ins[i] = value_of_tensor(&e, tensor);
    status = e.status;
  }
  if (!status) status = eval_graph(&e, m->main, NULL, NULL, ins, outs);
  e.at = NULL;
  for (size_t i = 0; i < m->num_out && !status; i++) {
    made[i] = out[i];
    status = give_output(&e, outs[i], m->out[i].name, &made[i]);
  }
  for (size_t i = 0; made && i < m->num_out; i++)
    if (!status)
      out[i] = made[i];
    else if (made[i] != out[i])
      tn_tensor_release(made[i]);
  free(made);
  release_all(ins, m->num_in);
  release_all(outs, m->num_out);
  evaluation_end(&e);
  return status;
}
