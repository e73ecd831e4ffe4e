/*
 * Trains a transformer on a text and has it write some, on whatever device there is. Everything
 * particular to a device is Tenon's business: these files include its headers and name none.
 *
 * The host draws the batches of some steps (feed.c), queues them (trainer.c) and looks at losses
 * only when they are shown, so a device is never kept waiting.
 */
#include <err.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../interrupt.h"
#include "../json.h"
#include "../memory_line.h"
#include "../output.h"
#include "../program_line.h"
#include "../progress.h"
#include "curve.h"
#include "feed.h"
#include "options.h"
#include "run_file.h"
#include "sample.h"
#include "text.h"
#include "trainer.h"

/* Batches of the text held out that a test takes, and tests in a run. */
enum { TEST_BATCHES = 8, TESTS = 10 };

/* Steps at the start that are not timed: caches and queues fill. */
enum { WARM_UP_STEPS = 10 };

typedef struct session {
  options opt;
  FILE *out; /* for people */
  tn_runtime *runtime;
  tn_device *device;
  tn_device_info info;
  text text;
  uint64_t seed;
  trainer trainer;
  feed train, test;
  curve curve;
  /* Steps queued since losses were fetched last. */
  int waiting;
  tn_tensor *losses[FEED_STEPS], *norms[FEED_STEPS];
  double bytes_before;                        /* in use on the device before the first step */
  double timed_from_s, ms_per_step, held_out; /* NaN where there is none */
} session;

static bool ok(tn_status status) {
  if (status != TN_OK) warnx("%s", tn_last_error());
  return status == TN_OK;
}

/* ----------------------------------------------------------------------- steps --- */

/* Fetches what the device has measured since the last time; this waits for it. */
static tn_status collect(session *s) {
  const recipe *r = &s->opt.recipe;
  tn_status status = TN_OK;
  for (int i = 0; i < s->waiting; i++) {
    curve_point *p = curve_add(&s->curve);
    *p = (curve_point){.held_out = NAN};
    p->rate = trainer_rate(r, s->curve.first + (int64_t)s->curve.count - 1);
    if (!status) status = tn_tensor_to_host(s->losses[i], &p->loss, sizeof p->loss);
    if (!status) status = tn_tensor_to_host(s->norms[i], &p->norm, sizeof p->norm);
    tn_tensor_release(s->losses[i]);
    tn_tensor_release(s->norms[i]);
    s->losses[i] = s->norms[i] = NULL;
  }
  s->waiting = 0;
  return status;
}

/* Queues the next step, with new batches when those uploaded are used up. */
static tn_status train_step(session *s, int64_t index) {
  tn_tensor *tokens = NULL, *targets = NULL;
  int64_t place = index % FEED_STEPS;
  tn_status status = TN_OK;
  if (place == 0 || s->waiting == FEED_STEPS) status = collect(s);
  if (!status && place == 0) status = tn_device_synchronize(s->device);
  if (!status && place == 0) status = feed_steps(&s->train, s->seed, s->trainer.steps);
  if (!status) status = feed_batch(&s->train, place, &tokens, &targets);
  if (!status)
    status =
        trainer_step(&s->trainer, tokens, targets, &s->losses[s->waiting], &s->norms[s->waiting]);
  if (!status) s->waiting++;
  tn_tensor_release(tokens);
  tn_tensor_release(targets);
  return status;
}

/* The mean loss over the text held out. */
static tn_status test(session *s) {
  double sum = 0;
  tn_status status = TN_OK;
  for (int i = 0; i < TEST_BATCHES && !status; i++) {
    float loss = NAN;
    tn_tensor *tokens = NULL, *targets = NULL, *result = NULL;
    status = feed_batch(&s->test, i, &tokens, &targets);
    if (!status) status = trainer_test(&s->trainer, tokens, targets, &result);
    if (!status) status = tn_tensor_to_host(result, &loss, sizeof loss);
    tn_tensor_release(tokens);
    tn_tensor_release(targets);
    tn_tensor_release(result);
    sum += (double)loss;
  }
  s->held_out = sum / TEST_BATCHES;
  return status;
}

/* What it takes is no part of the steps' time. */
static tn_status test_and_tell(session *s, progress *bar) {
  tn_status status = collect(s);
  if (!status) status = tn_device_synchronize(s->device);
  double began_s = progress_now();
  if (!status) status = test(s);
  s->timed_from_s += progress_now() - began_s;
  if (status) return status;
  s->curve.points[s->curve.count - 1].held_out = s->held_out;
  progress_end(bar);
  fprintf(s->out, "step %lld  loss %.4f  held out %.4f\n", (long long)s->trainer.steps,
          curve_recent(&s->curve, 20), s->held_out);
  fflush(s->out);
  return TN_OK;
}

static tn_status show_progress(session *s, progress *bar, int64_t bytes) {
  if (!bar->terminal || !progress_due(bar, s->trainer.steps * bytes)) return TN_OK;
  tn_status status = collect(s);
  if (!status) progress_draw(bar, s->trainer.steps * bytes, curve_recent(&s->curve, 20));
  return status;
}

static bool save_now_and_then(const session *s) {
  if (!s->opt.save_every || s->trainer.steps % s->opt.save_every) return true;
  return run_file_save(s->opt.save, &s->trainer, s->seed);
}

/* Steps up to number `last`. */
static bool train_to(session *s, int64_t last, progress *bar) {
  int64_t bytes = s->opt.recipe.batch * s->opt.recipe.length, every = (last + TESTS - 1) / TESTS;
  tn_status status = TN_OK;
  for (int64_t i = 0; s->trainer.steps < last && !interrupted(); i++) {
    if (i == WARM_UP_STEPS) {
      if (!ok(tn_device_synchronize(s->device))) return false;
      s->timed_from_s = progress_now();
    }
    status = train_step(s, i);
    if (!status) status = show_progress(s, bar, bytes);
    bool due = s->trainer.steps % every == 0 || s->trainer.steps == last;
    if (!status && due) status = test_and_tell(s, bar);
    if (!ok(status) || !save_now_and_then(s)) return false;
  }
  return ok(collect(s)) && ok(tn_device_synchronize(s->device));
}

static bool train(session *s) {
  const options *o = &s->opt;
  progress bar;
  int64_t last = o->stop && o->stop < o->recipe.steps ? o->stop : o->recipe.steps;
  int64_t first = s->trainer.steps, bytes = o->recipe.batch * o->recipe.length;
  if (first >= last) return true;
  s->curve.first = first + 1;
  if (!curve_reserve(&s->curve, (size_t)(last - first))) err(EXIT_FAILURE, "losses");
  if (!ok(trainer_prepare(&s->trainer)) || !ok(feed_held_out(&s->test, TEST_BATCHES))) return false;
  progress_begin(&bar, s->out, "training", "bytes", first * bytes, last * bytes);
  bool done = train_to(s, last, &bar);
  int64_t timed = s->trainer.steps - first - WARM_UP_STEPS;
  if (timed > 0) s->ms_per_step = (progress_now() - s->timed_from_s) * 1e3 / (double)timed;
  progress_end(&bar);
  if (done) curve_draw(&s->curve, s->out);
  return done;
}

/* -------------------------------------------------------------- what is written --- */

static bool sample(session *s) {
  sampler how = s->opt.sample;
  output o = {.file = NULL};
  if (!how.bytes || interrupted()) return true;
  if (s->opt.logprobs && !output_open(&o, s->opt.logprobs)) return false;
  how.seed = s->seed;
  how.logprobs = o.file;
  fputc('\n', s->out);
  bool done = ok(sample_text(s->device, s->opt.size, s->trainer.own.weights, &how, s->out));
  if (s->opt.logprobs && done) return output_commit(&o);
  output_discard(&o);
  return done;
}

static void print_json(const session *s) {
  const options *o = &s->opt;
  double bytes = (double)(o->recipe.batch * o->recipe.length);
  putchar('{');
  json_string("device", s->info.id, ", ");
  json_string("device_name", s->info.name, ", ");
  json_string("text", s->text.path, ", ");
  json_string("size", o->size->name, ", ");
  json_number("parameters", (double)model_parameters(o->size), ", ");
  json_number("batch", (double)o->recipe.batch, ", ");
  json_number("length", (double)o->recipe.length, ", ");
  json_number("steps", (double)s->trainer.steps, ", ");
  json_number("ms_per_step", s->ms_per_step, ", ");
  json_number("bytes_per_s", bytes * 1e3 / s->ms_per_step, ", ");
  json_number("loss", curve_recent(&s->curve, 20), ", ");
  json_number("held_out_loss", s->held_out, ", ");
  json_number("peak_bytes", memory_peak(s->device), "}\n");
}

/* Everything asked for is written, even if one file fails. */
static bool write_outputs(const session *s) {
  bool whole = true;
  if (s->opt.save) whole &= run_file_save(s->opt.save, &s->trainer, s->seed);
  if (s->opt.losses) whole &= curve_write(&s->curve, s->opt.losses);
  return whole;
}

static void report(const session *s) {
  if (interrupted()) fprintf(s->out, "stopped by Ctrl-C\n");
  program_story story = {0};
  program_remember(&story, s->trainer.step);
  program_line(s->out, "step", &story);
  memory_line(s->out, s->device, s->bytes_before);
  if (isfinite(s->ms_per_step))
    fprintf(s->out, "%.1f ms/step, %.0f bytes/s\n", s->ms_per_step,
            (double)(s->opt.recipe.batch * s->opt.recipe.length) * 1e3 / s->ms_per_step);
  if (s->opt.json) print_json(s);
}

/* -------------------------------------------------------------- start, end --- */

static bool outputs_possible(const options *o) {
  return output_possible(o->save) && output_possible(o->losses) && output_possible(o->logprobs);
}

static bool open_device(session *s) {
  s->info.struct_size = sizeof s->info;
  if (!ok(tn_runtime_open(NULL, &s->runtime))) return false;
  s->device = tn_runtime_device(s->runtime);
  return ok(tn_device_get_info(s->device, &s->info));
}

/* The model, from --load or newly drawn. */
static bool create_trainer(session *s) {
  options *o = &s->opt;
  run_file file = {.size = o->size, .seed = o->seed};
  if (o->load && !run_file_open(&file, o->load)) return false;
  s->seed = file.seed;
  bool done = options_complete(o, file.size, file.length) &&
              ok(trainer_create(&s->trainer, s->device, o->size, &o->recipe, s->seed)) &&
              (!o->load || run_file_take(&file, &s->trainer));
  if (o->load) run_file_close(&file);
  s->bytes_before = memory_now(s->device);
  return done;
}

static bool load_text(session *s) {
  const recipe *r = &s->opt.recipe;
  if (!text_load(&s->text, s->opt.text, r->length)) return false;
  fprintf(s->out, "%s: %lld bytes to learn from, %lld held out\n", s->text.path,
          (long long)s->text.learnt, (long long)(s->text.count - s->text.learnt));
  return ok(feed_create(&s->train, s->device, &s->text, r->batch, r->length)) &&
         ok(feed_create(&s->test, s->device, &s->text, r->batch, r->length));
}

static void tell_model(const session *s) {
  const model_size *size = s->opt.size;
  fprintf(s->out, "device %s: %s\n", s->info.id, s->info.name);
  fprintf(s->out, "%s: %lld blocks of width %lld, %lld heads, context %lld, %.2f M parameters\n",
          size->name, (long long)size->layers, (long long)size->width, (long long)size->heads,
          (long long)size->context, (double)model_parameters(size) * 1e-6);
  if (s->trainer.steps) fprintf(s->out, "%lld steps taken\n", (long long)s->trainer.steps);
  fflush(s->out);
}

static void close_session(session *s) {
  for (int i = 0; i < FEED_STEPS; i++) {
    tn_tensor_release(s->losses[i]);
    tn_tensor_release(s->norms[i]);
  }
  trainer_destroy(&s->trainer);
  feed_destroy(&s->train);
  feed_destroy(&s->test);
  text_free(&s->text);
  curve_free(&s->curve);
  if (s->runtime) tn_runtime_close(s->runtime);
}

/* The status to exit with. */
static int run(session *s) {
  s->out = s->opt.json ? stderr : stdout;
  s->ms_per_step = s->held_out = NAN;
  if (!outputs_possible(&s->opt) || !open_device(s) || !create_trainer(s)) return EXIT_FAILURE;
  if (s->opt.recipe.steps && !load_text(s)) return EXIT_FAILURE;
  tell_model(s);
  if (!train(s) || !write_outputs(s) || !sample(s)) return EXIT_FAILURE;
  report(s);
  return interrupted() ? 128 + SIGINT : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  session s = {0};
  setlocale(LC_CTYPE, "");
  int status = options_parse(&s.opt, argc, argv);
  if (status >= 0) return output_finish(status);
  interrupt_watch();
  status = run(&s);
  close_session(&s);
  return output_finish(status);
}
