/*
 * Trains a small convolutional network on MNIST-like images, on whatever device
 * there is. Everything particular to a device is Tenon's business: these files
 * include tenon.h and name none.
 *
 * The host prepares an epoch (feed.c), queues steps (model.c) and looks at the
 * results only when they are shown (progress.c), so a device is never kept waiting.
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
#include "feed.h"
#include "history.h"
#include "idx.h"
#include "model.h"
#include "options.h"
#include "plot.h"
#include "run_file.h"

enum { TEST_BATCH = 1000 };

/* Steps at the start of an epoch that are not timed: caches and queues fill. */
enum { WARM_UP_STEPS = 10 };

typedef struct session {
  options opt;
  FILE *out; /* for people */
  tn_runtime *runtime;
  tn_device *device;
  tn_device_info info;
  idx_set train_set, test_set;
  feed train, test;
  model net;
  run_position at;
  history past;
  double bytes_before; /* in use on the device before the first step */
  double ms_per_step;  /* of the last epoch; NaN if it was too short to tell */
  double loss;         /* mean of the last epoch */
  double accuracy;     /* of the last test, 0..1; NaN before */
} session;

static bool ok(tn_status status) {
  if (status != TN_OK) warnx("%s", tn_last_error());
  return status == TN_OK;
}

/* The folder's last name, for people: "fashion-mnist". */
static void data_name(const char *folder, char name[64]) {
  size_t end = strlen(folder);
  while (end > 1 && folder[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && folder[begin - 1] != '/') begin--;
  snprintf(name, 64, "%.*s", (int)(end - begin), folder + begin);
}

/* ---------------------------------------------------------------- one epoch --- */

/* One epoch's steps and their losses, which stay on the device until they are shown. */
typedef struct epoch {
  int64_t steps, done, shown;
  tn_tensor *losses; /* f32 [steps] */
  progress bar;
  double timed_from_s;
} epoch;

/* Fetches the losses since the last time; this waits for the device. */
static tn_status collect_losses(session *s, epoch *e) {
  tn_tensor *fresh = NULL;
  size_t count = (size_t)(e->done - e->shown);
  if (!count) return TN_OK;
  tn_status status = tn_tensor_slice(e->losses, 0, e->shown, e->done, 1, &fresh);
  if (!status)
    status = tn_tensor_to_host(fresh, history_extend(&s->past, count), count * sizeof(float));
  tn_tensor_release(fresh);
  e->shown = e->done;
  return status;
}

/* Queues one step. */
static tn_status train_batch(session *s, epoch *e) {
  int64_t left = s->at.images - s->at.position;
  int64_t size = left < s->opt.batch ? left : s->opt.batch;
  tn_tensor *images = NULL, *labels = NULL, *element = NULL, *loss = NULL;
  tn_status status = feed_slice(&s->train, s->at.position, size, &images, &labels);
  if (!status) status = tn_tensor_slice(e->losses, 0, e->done, e->done + 1, 1, &element);
  if (!status) status = tn_tensor_reshape(element, 0, NULL, &loss);
  if (!status) status = model_step(&s->net, images, labels, loss);
  tn_tensor_release(images);
  tn_tensor_release(labels);
  tn_tensor_release(element);
  tn_tensor_release(loss);
  s->at.position += size;
  e->done++;
  return status;
}

static tn_status show_progress(session *s, epoch *e) {
  if (!progress_due(&e->bar, s->at.position)) return TN_OK;
  tn_status status = collect_losses(s, e);
  if (!status) progress_draw(&e->bar, s->at.position, history_recent_loss(&s->past, 100));
  return status;
}

static tn_status train_batches(session *s, epoch *e) {
  tn_status status = TN_OK;
  while (!status && e->done < e->steps && !interrupted()) {
    if (e->done == WARM_UP_STEPS) {
      status = tn_device_synchronize(s->device);
      e->timed_from_s = progress_now();
    }
    if (!status) status = train_batch(s, e);
    if (!status) status = show_progress(s, e);
  }
  return status ? status : tn_device_synchronize(s->device);
}

static tn_status begin_epoch(session *s, epoch *e, int64_t last_epoch) {
  char label[48];
  int64_t left = s->at.images - s->at.position, batch = s->opt.batch;
  *e = (epoch){.steps = (left + batch - 1) / batch, .timed_from_s = NAN};
  if (s->opt.steps && e->steps > s->opt.steps - (int64_t)s->past.steps)
    e->steps = s->opt.steps - (int64_t)s->past.steps;
  if (!history_reserve(&s->past, (size_t)e->steps)) err(EXIT_FAILURE, "losses");
  snprintf(label, sizeof label, "epoch %lld/%lld", (long long)s->at.epoch + 1,
           (long long)last_epoch);
  tn_status status = feed_shuffle(&s->train, s->net.seed, (uint64_t)s->at.epoch);
  if (!status) status = tn_tensor_empty(s->device, TN_F32, 1, &e->steps, &e->losses);
  progress_begin(&e->bar, s->out, label, "images", s->at.position, s->at.images);
  return status;
}

static void take_measures(session *s, const epoch *e) {
  int64_t timed = e->done - WARM_UP_STEPS;
  s->ms_per_step = timed > 0 ? (progress_now() - e->timed_from_s) * 1e3 / (double)timed : NAN;
}

/* Trains to the end of the epoch, or as far as --steps and Ctrl-C let it. */
static tn_status train_epoch(session *s, int64_t last_epoch) {
  epoch e;
  double began_s = progress_now();
  tn_status status = begin_epoch(s, &e, last_epoch);
  if (!status) status = train_batches(s, &e);
  if (!status) take_measures(s, &e);
  if (!status) status = collect_losses(s, &e);
  tn_tensor_release(e.losses);
  progress_end(&e.bar);
  if (status) return status;
  s->loss = history_recent_loss(&s->past, (size_t)e.done);
  fprintf(s->out, "%s  loss %.4f  %.1f s", e.bar.label, s->loss, progress_now() - began_s);
  if (isfinite(s->ms_per_step)) fprintf(s->out, "  %.2f ms/step", s->ms_per_step);
  fflush(s->out);
  if (s->at.position == s->at.images) s->at.epoch++, s->at.position = 0;
  return TN_OK;
}

/* -------------------------------------------------------------------- tests --- */

static tn_status count_batch(session *s, int64_t begin, tn_tensor *correct) {
  int64_t left = s->test.count - begin;
  tn_tensor *images = NULL, *labels = NULL;
  tn_status status =
      feed_slice(&s->test, begin, left < TEST_BATCH ? left : TEST_BATCH, &images, &labels);
  if (!status) status = model_count_correct(&s->net, images, labels, correct);
  tn_tensor_release(images);
  tn_tensor_release(labels);
  return status;
}

/* Finds the accuracy over the whole test set. */
static tn_status test(session *s) {
  int64_t right = 0;
  tn_tensor *correct = NULL;
  tn_status status = tn_zeros(s->device, NULL, TN_I64, 0, NULL, &correct);
  for (int64_t i = 0; i < s->test.count && !status; i += TEST_BATCH)
    status = count_batch(s, i, correct);
  if (!status) status = tn_tensor_to_host(correct, &right, sizeof right);
  tn_tensor_release(correct);
  if (status) return status;
  s->accuracy = (double)right / (double)s->test.count;
  if (!history_add_test(&s->past, s->accuracy)) err(EXIT_FAILURE, "accuracy");
  return TN_OK;
}

/* ------------------------------------------------------------------ the run --- */

static bool finished(const session *s) {
  return interrupted() || (s->opt.steps && (int64_t)s->past.steps >= s->opt.steps);
}

static tn_status run(session *s) {
  int64_t last_epoch = s->at.epoch + s->opt.epochs;
  tn_status status = TN_OK;
  if (s->opt.epochs == 0) return test(s);
  for (int64_t i = 0; i < s->opt.epochs && !status && !finished(s); i++) {
    status = train_epoch(s, last_epoch);
    bool tested = !status && !finished(s);
    if (tested) status = test(s);
    if (tested && !status) fprintf(s->out, "  test accuracy %.2f %%", 100 * s->accuracy);
    fputc('\n', s->out);
  }
  return status;
}

static bool write_plot(const session *s) {
  char data[64], title[256], subtitle[128];
  data_name(s->opt.data, data);
  snprintf(title, sizeof title, "%s on %s", data, s->info.name);
  int length = snprintf(subtitle, sizeof subtitle, "batch %lld, Adam %g, seed %llu",
                        (long long)s->opt.batch, s->opt.lr, (unsigned long long)s->net.seed);
  if (isfinite(s->ms_per_step))
    snprintf(subtitle + length, sizeof subtitle - (size_t)length, ", %.2f ms per step",
             s->ms_per_step);
  return plot_write(&s->past, title, subtitle, s->opt.plot);
}

/* Everything asked for is written, even if one file fails. */
static bool write_outputs(const session *s) {
  const options *o = &s->opt;
  bool whole = true;
  if (o->save) whole &= run_file_save(o->save, &s->net, &s->at);
  if (o->losses) whole &= history_write_losses(&s->past, o->losses);
  if (o->plot) whole &= write_plot(s);
  return whole;
}

/* ------------------------------------------------------------------- report --- */

static void print_json(const session *s) {
  char data[64];
  data_name(s->opt.data, data);
  putchar('{');
  json_string("device", s->info.id, ", ");
  json_string("device_name", s->info.name, ", ");
  json_string("data", data, ", ");
  json_number("epochs", (double)s->at.epoch, ", ");
  json_number("steps", (double)s->past.steps, ", ");
  json_number("batch", (double)s->opt.batch, ", ");
  json_number("ms_per_step", s->ms_per_step, ", ");
  json_number("loss", s->loss, ", ");
  json_number("accuracy", s->accuracy, ", ");
  json_number("peak_bytes", memory_peak(s->device), "}\n");
}

static void report(const session *s) {
  if (interrupted()) fprintf(s->out, "stopped by Ctrl-C\n");
  program_story story = s->net.story;
  program_remember(&story, s->net.program);
  program_line(s->out, "step", &story);
  memory_line(s->out, s->device, s->bytes_before);
  if (isfinite(s->accuracy)) fprintf(s->out, "test accuracy %.2f %%\n", 100 * s->accuracy);
  if (s->opt.json) print_json(s);
}

/* -------------------------------------------------------------- start, end --- */

static bool outputs_possible(const options *o) {
  return output_possible(o->save) && output_possible(o->plot) && output_possible(o->losses);
}

/* A checkpoint from the middle of an epoch fits only data of the same length. */
static bool position_fits(session *s) {
  if (s->at.position && s->at.images != s->train.count) {
    warnx("%s: stands in the middle of an epoch of %lld images, %s has %lld", s->opt.load,
          (long long)s->at.images, s->opt.data, (long long)s->train.count);
    return false;
  }
  s->at.images = s->train.count;
  return true;
}

static bool open_device(session *s) {
  s->info.struct_size = sizeof s->info;
  if (!ok(tn_runtime_open(NULL, &s->runtime))) return false;
  s->device = tn_runtime_device(s->runtime);
  return ok(tn_device_get_info(s->device, &s->info));
}

static bool load_data(session *s) {
  char name[64];
  if (!idx_load(s->opt.data, "train", &s->train_set)) return false;
  if (!idx_load(s->opt.data, "t10k", &s->test_set)) return false;
  data_name(s->opt.data, name);
  fprintf(s->out, "%s: %lld images to learn from, %lld to test with\n", name,
          (long long)s->train_set.count, (long long)s->test_set.count);
  fprintf(s->out, "device %s: %s\n", s->info.id, s->info.name);
  fflush(s->out);
  return true;
}

static bool create_model(session *s) {
  if (!ok(feed_create(&s->train, s->device, &s->train_set)) ||
      !ok(feed_create(&s->test, s->device, &s->test_set)) ||
      !ok(model_create(&s->net, s->device, s->opt.seed, s->opt.lr, s->opt.eager, s->opt.products)))
    return false;
  s->bytes_before = memory_now(s->device);
  s->at.images = s->train.count;
  if (s->opt.load && !run_file_load(s->opt.load, &s->net, &s->at)) return false;
  return position_fits(s);
}

static void close_session(session *s) {
  model_destroy(&s->net);
  feed_destroy(&s->train);
  feed_destroy(&s->test);
  idx_free(&s->train_set);
  idx_free(&s->test_set);
  history_free(&s->past);
  if (s->runtime) tn_runtime_close(s->runtime);
}

/* The status to exit with. */
static int train(session *s) {
  s->out = s->opt.json ? stderr : stdout;
  s->ms_per_step = s->loss = s->accuracy = NAN;
  if (!outputs_possible(&s->opt) || !open_device(s) || !load_data(s)) return EXIT_FAILURE;
  if (s->opt.batch > s->train_set.count) {
    warnx("--batch: %lld is more than the %lld training images", (long long)s->opt.batch,
          (long long)s->train_set.count);
    return 2;
  }
  if (!create_model(s) || !ok(run(s)) || !write_outputs(s)) return EXIT_FAILURE;
  report(s);
  return interrupted() ? 128 + SIGINT : EXIT_SUCCESS;
}

int main(int argc, char **argv) {
  session s = {0};
  setlocale(LC_CTYPE, "");
  int status = options_parse(&s.opt, argc, argv);
  if (status >= 0) return output_finish(status);
  interrupt_watch();
  status = train(&s);
  close_session(&s);
  return output_finish(status);
}
