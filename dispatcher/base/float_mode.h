/*
 * The modes of a thread's floating-point unit that change results: the direction of rounding,
 * and whether subnormal numbers are flushed to zero or read as zero (which programs linked with
 * -ffast-math switch on for their main thread). Masks and flags of exceptions are not looked at.
 * Looking takes one instruction, and setting is done only where modes differ.
 */
#ifndef TENON_DISPATCHER_FLOAT_MODE_H
#define TENON_DISPATCHER_FLOAT_MODE_H

#include <fenv.h>
#include <stdint.h>

typedef uint64_t float_mode;

#if defined(__x86_64__)
enum { FLOAT_MODE_BITS = 0xe040, FLOAT_MODE_DEFAULT = 0 }; /* of MXCSR: FTZ, rounding, DAZ */
/* The calling thread's, among other bits. */
static inline float_mode float_mode_get(void) {
  uint32_t word;
  __asm__ volatile("stmxcsr %0" : "=m"(word));
  return word;
}
static inline void float_mode_put(float_mode mode) {
  uint32_t word = (uint32_t)mode;
  __asm__ volatile("ldmxcsr %0" : : "m"(word) : "memory");
}
#elif defined(__aarch64__)
enum {
  FLOAT_MODE_BITS = 0x5c80003,
  FLOAT_MODE_DEFAULT = 0
}; /* of FPCR: AHP, FZ, RMode, FZ16, AH, FIZ */
static inline float_mode float_mode_get(void) {
  float_mode word;
  __asm__ volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
static inline void float_mode_put(float_mode mode) {
  __asm__ volatile("msr fpcr, %0" : : "r"(mode) : "memory");
}
#else
enum { FLOAT_MODE_BITS = -1, FLOAT_MODE_DEFAULT = FE_TONEAREST };
static inline float_mode float_mode_get(void) { return (float_mode)fegetround(); }
static inline void float_mode_put(float_mode mode) { (void)fesetround((int)mode); }
#endif

/* Makes the calling thread's mode `mode`. Returns what float_mode_leave wants. */
static inline float_mode float_mode_enter(float_mode mode) {
  const float_mode bits = (float_mode)FLOAT_MODE_BITS, before = float_mode_get();
  const float_mode changed = (before ^ mode) & bits;
  if (changed) float_mode_put(before ^ changed);
  return changed;
}

/* Puts the thread's mode back, which nobody has changed since. */
static inline void float_mode_leave(float_mode changed) {
  if (changed) float_mode_put(float_mode_get() ^ changed);
}

#endif
