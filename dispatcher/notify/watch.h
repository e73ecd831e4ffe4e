/*
 * Watching calls: whoever records what a thread calls (a tape), or changes what calls on a graph's
 * tensors become (autocast), gets them in place of their run. Devices of which calls may be
 * watched have DEVICE_WATCHED, at which calls leave the usual way at a branch that is there
 * anyhow; all others pay nothing.
 */
#ifndef TENON_DISPATCHER_WATCH_H
#define TENON_DISPATCHER_WATCH_H

#include "dispatcher/objects/device.h"

typedef struct call_watcher call_watcher;
struct call_watcher {
  /* Takes a call that is not validated yet, and gives what tn_invoke returns. The struct can be
   * read, and one tensor at least is there. Calls that it makes itself are not watched. */
  tn_status (*call)(call_watcher *w, const tn_call *call);
  /* The host is about to write to a tensor (tn_tensor_write), which passed all checks. Where this
   * fails, nothing is written. NULL: it need not be told. */
  tn_status (*written)(call_watcher *w, const tn_tensor *tensor);
  /* Of a thread's watcher: on whose devices it watches. */
  tn_runtime *runtime;
  /* Calls go the usual way, as if nobody watched. The watching thread's alone. */
  bool paused;
  /* What overwrites tensors while it guards them; NULL op: the host. Called with a lock held: it
   * makes no calls. */
  void (*overwritten)(call_watcher *w, const tn_operator *op, const tn_tensor *tensor);
  /* Its own, while it guards: */
  const void *guarded_thread;
  call_watcher *next_guard;
};

/* The calling thread's watcher, NULL for none: of its calls on the runtime's devices that compute.
 * A thread has one, until it says otherwise, and must before it ends: the watcher keeps its
 * runtime whole. The setter returns the one before. pre: w->runtime is open. */
call_watcher *thread_watcher(void);
call_watcher *thread_watcher_set(call_watcher *w);

/* One watcher or guard of the runtime's devices more, or less. */
void watch_count(tn_runtime *r, bool more);

/* Pauses the thread's watcher, if it has one, or ends that; gives what was before. Around work
 * whose own calls are no part of what the thread does, as the compiling of a graph. */
bool thread_watcher_pause(bool paused);

/* From here on the watcher is told what the calling thread overwrites: by calls that run, prepared
 * calls, programs and tn_tensor_write. A thread may have any number of them, beside its watcher;
 * guard_end is any thread's to call. pre: it does not guard, or, of the other, it does. */
void guard_begin(call_watcher *w);
void guard_end(call_watcher *w);
/* Guards of all threads: there is none for the most part. */
extern _Atomic uint32_t num_guards;
/* Whether the thread has guards that are told what happens on the device. */
bool guard_listens(const tn_device *device);
/* Tells them, where it has any, what a call wrote to, or is about to. */
void guard_tell(const tn_device *device, const tn_operator *op, const tn_tensor *tensor);
/* The thread's guards are told nothing, or that ends; gives what was before. */
bool guard_hush(bool hushed);

/* The watcher of calls on a device that records, from whichever thread; NULL for none. */
void device_watcher_set(tn_device *device, call_watcher *w);

/* Whether a call of this thread on the device goes to a watcher or guards first. It is asked for
 * only where the device is not ordinary. */
__attribute__((cold)) bool is_watched(const tn_device *device);
/* Hands a call on the device over to the watcher; false where there is none. */
__attribute__((cold)) bool watcher_call(const tn_device *device, const tn_call *call,
                                        tn_status *status);
/* The host writes to a tensor of a device that is not ordinary. */
__attribute__((cold)) tn_status watch_written(const tn_tensor *tensor);
/* What runs without a call, as prepared calls and programs do, would be missed: refused while the
 * thread's calls are watched. pre: the device is fine. */
__attribute__((cold)) tn_status watch_refuse(const tn_device *device, const char *function);

#endif
