/* The device behind the products, and what of them it is given. */
#include "device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"
#include "settings.h"

enum { UNKNOWN, OPEN, ABSENT };

/* Below this many multiplications no device pays: until it is known what does, such products do not
 * have it opened either. */
#define LEAST_OF_ALL (96.0 * 96 * 96)

_Atomic int64_t product_floors[NUM_ELEMENTS];

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int state = UNKNOWN;
static device the_device;
static atomic_flag said = ATOMIC_FLAG_INIT;
/* The thread that measures has the device already; the others wait until it is measured. */
static _Thread_local bool measuring;

static void set_floors(int64_t floor) {
  for (int i = 0; i < NUM_ELEMENTS; ++i)
    atomic_store_explicit(&product_floors[i], floor, memory_order_relaxed);
}

/* Of a number of multiplications, which may be infinite. */
static int64_t floor_of(double count) { return count < 0x1p62 ? (int64_t)ceil(count) : NEVER; }

void device_begin(void) {
  if (!settings.device)
    set_floors(NEVER);
  else
    set_floors(floor_of(settings.min >= 0 ? pow(settings.min, 3) : LEAST_OF_ALL));
}

/* The first failure is told once, the others to whoever wants to know. */
static void tell_failure(const char *what, const char *why) {
  say(atomic_flag_test_and_set(&said) ? 2 : 1, "%s: %s; the host BLAS computes", what, why);
}

/* ------------------------------------------------------------------ the model --- */

/* All that the numbers depend on: the device, its driver as far as its features say, this library,
 * the host BLAS's file, and the processors that may be used. */
static void make_key(const tn_device_info *info, char *key, size_t size) {
  struct stat host = {0};
  (void)stat(host_path(), &host);
  snprintf(key, size,
           "tenon %s device %s %s plugin %s features %s host %s %lld %lld processors %ld",
           tn_version(), info->id, info->name, info->plugin, info->features, host_path(),
           (long long)host.st_size, (long long)host.st_mtime, sysconf(_SC_NPROCESSORS_ONLN));
  for (char *c = key; *c; ++c)
    if (*c == '\n') *c = ' ';
}

static void use_model(const model *m) {
  for (element e = 0; e < NUM_ELEMENTS; ++e) {
    double floor = model_floor(m, e);
    atomic_store_explicit(&product_floors[e], floor_of(floor), memory_order_relaxed);
    if (e < ELEMENT_C)
      say(2, "%s pays from n = %.0f on in %s", the_device.id, cbrt(floor),
          tn_dtype_name(element_dtype(e)));
  }
}

/* In memory of its own a device has to be worth the copies; one in the host's computes with the
 * host's processor, and nothing is to be had from it unless it is asked for. */
static tn_status set_model(const tn_device_info *info) {
  char key[4096];
  if (settings.min >= 0) return TN_OK;
  if (the_device.host_memory) {
    set_floors(NEVER);
    blas_forward_all();
    say(2, "%s computes in the host's memory; TENON_BLAS_MIN sends products there", info->id);
    return TN_OK;
  }
  make_key(info, key, sizeof key);
  if (!model_load(key, &the_device.model)) {
    say(2, "measuring %s", info->id);
    tn_status status = model_measure(&the_device.model);
    if (status) return status;
    if (!model_is_sound(&the_device.model)) return TN_ERR_INTERNAL;
    model_store(key, &the_device.model);
  }
  use_model(&the_device.model);
  return TN_OK;
}

/* ------------------------------------------------------------------ opening --- */

static tn_status open_device(tn_device_info *info) {
  tn_runtime_options options = {.struct_size = sizeof options, .fallback = TN_FALLBACK_ERROR};
  tn_status status = tn_runtime_open(&options, &the_device.runtime);
  if (status) return status;
  the_device.handle = tn_runtime_device(the_device.runtime);
  status = tn_device_get_info(the_device.handle, info);
  if (status) return status;
  the_device.id = info->id;
  the_device.host_memory = info->host_memory;
  the_device.dl_device = info->dl_device;
  the_device.room = 0.8 * (double)info->memory_bytes;
  return TN_OK;
}

/* Under the lock. */
static void open_and_measure(void) {
  tn_device_info info = {.struct_size = sizeof info};
  tn_status status = open_device(&info);
  measuring = true;
  if (!status) status = set_model(&info);
  measuring = false;
  if (status) {
    set_floors(NEVER);
    blas_forward_all();
    tell_failure("the device cannot be used", tn_last_error());
  }
  atomic_store_explicit(&state, status ? ABSENT : OPEN, memory_order_release);
}

/* A runtime does not survive a fork: the child opens its own, if its device's driver can. Threads
 * that held the locks are not there any more. */
static void in_child(void) {
  static const device none = {.crew.lock = PTHREAD_MUTEX_INITIALIZER};
  static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
  the_device = none;
  opening = unlocked;
  atomic_store(&state, UNKNOWN);
  device_begin();
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, in_child); }

device *device_get(void) {
  static pthread_once_t watched = PTHREAD_ONCE_INIT;
  if (measuring) return &the_device;
  int now = atomic_load_explicit(&state, memory_order_acquire);
  if (now == UNKNOWN) {
    pthread_once(&watched, watch_forks);
    pthread_mutex_lock(&opening);
    if (atomic_load(&state) == UNKNOWN) {
      pthread_mutex_init(&the_device.crew.lock, NULL);
      open_and_measure();
    }
    pthread_mutex_unlock(&opening);
    now = atomic_load(&state);
  }
  return now == OPEN ? &the_device : NULL;
}

const char *device_id(void) {
  return atomic_load(&state) == OPEN && the_device.id ? the_device.id : "no device";
}

/* ------------------------------------------------------------------ deciding --- */

bool device_pays(element type, int64_t m, int64_t n, int64_t k) {
  device *d = device_get();
  if (!d) return false;
  int64_t floor = atomic_load_explicit(&product_floors[type], memory_order_relaxed);
  if (floor == NEVER || (double)m * (double)n * (double)k < (double)floor) return false;
  return settings.min >= 0 || model_pays(&d->model, type, m, n, k);
}

/* Of a device in the host's memory the results alone take any. */
bool device_has_room(element type, int64_t m, int64_t n, int64_t k) {
  device *d = device_get();
  return d && (d->room == 0 || product_bytes(type, m, n, k) <= d->room);
}

void device_failed(element type, tn_status status, const char *why) {
  tell_failure(device_id(), why);
  if (status == TN_ERR_DEVICE_OUT_OF_MEMORY || status == TN_ERR_OUT_OF_MEMORY) return;
  if (status == TN_ERR_UNSUPPORTED)
    for (element e = type & 1; e < NUM_ELEMENTS; e += 2)
      atomic_store_explicit(&product_floors[e], NEVER, memory_order_relaxed);
  else
    set_floors(NEVER);
}
