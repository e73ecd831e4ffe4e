/*
 * Speaks a sentence, given in phonemes, with a voice of Piper's (VITS).
 *
 *     speak [-s] VOICE.onnx PHONEMES OUT.wav
 *
 * PHONEMES are the letters of IPA that espeak-ng -q --ipa prints: 'həlˈoʊ wˈɜːld.' Their numbers,
 * the sampling rate and how lively the voice is are in VOICE.onnx.json. -s: steadily, without
 * the noise that makes each time sound different.
 */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../output.h"
#include "models.h"

enum { MOST_IDS = 4000 };

/* Bytes of the UTF-8 character at s. */
static size_t character_bytes(const char *s) {
  size_t count = 1;
  while ((s[count] & 0xC0) == 0x80) count++;
  return count;
}

/* The number of a phoneme, -1: the voice does not have it. */
static int64_t phoneme_id(const char *map, const char *phoneme, size_t length) {
  char key[64];
  for (const char *at = map; (at = json_string(at, key, sizeof key));) {
    if (strlen(key) == length && !strncmp(key, phoneme, length) && *at == '[') return atoll(at + 1);
    at = strchr(at, ']');
    if (!at) break;
    at += strcspn(at, ",}");
    if (*at == '}') break;
  }
  return -1;
}

static int64_t push(int64_t *ids, int64_t count, int64_t id) {
  if (count == MOST_IDS) errx(EXIT_FAILURE, "the sentence has more than %d phonemes", MOST_IDS / 2);
  ids[count] = id;
  return count + 1;
}

/* "^", each phoneme, "$", and "_" behind all but the last. */
static int64_t sentence(const char *config, const char *phonemes, int64_t *ids) {
  const char *map = json_value(config, "phoneme_id_map");
  if (!map) errx(EXIT_FAILURE, "the voice has no phoneme_id_map");
  int64_t gap = phoneme_id(map, "_", 1), count = push(ids, 0, phoneme_id(map, "^", 1));
  count = push(ids, count, gap);
  for (size_t length; *phonemes; phonemes += length) {
    length = character_bytes(phonemes);
    int64_t id = phoneme_id(map, phonemes, length);
    if (id < 0) {
      warnx("the voice does not have the phoneme '%.*s'", (int)length, phonemes);
      continue;
    }
    count = push(ids, push(ids, count, id), gap);
  }
  return push(ids, count, phoneme_id(map, "$", 1));
}

static double setting(const char *config, const char *key, double otherwise) {
  const char *at = json_value(config, key);
  return at ? atof(at) : otherwise;
}

static void put(FILE *file, uint32_t number, int bytes) {
  for (int i = 0; i < bytes; i++) putc((int)(number >> 8 * i & 255), file);
}

/* One channel of 16 bits, as loud as goes. */
static void wav_write(const char *path, const float *samples, int64_t count, uint32_t rate) {
  output o;
  float loudest = 0.01F;
  for (int64_t i = 0; i < count; i++) loudest = fmaxf(loudest, fabsf(samples[i]));
  if (!output_open(&o, path)) exit(EXIT_FAILURE);
  fputs("RIFF", o.file), put(o.file, (uint32_t)(36 + 2 * count), 4), fputs("WAVEfmt ", o.file);
  put(o.file, 16, 4), put(o.file, 1, 2), put(o.file, 1, 2), put(o.file, rate, 4);
  put(o.file, 2 * rate, 4), put(o.file, 2, 2), put(o.file, 16, 2);
  fputs("data", o.file), put(o.file, (uint32_t)(2 * count), 4);
  for (int64_t i = 0; i < count; i++)
    put(o.file, (uint32_t)(int32_t)lrintf(samples[i] / loudest * 32767), 2);
  if (!output_commit(&o)) exit(EXIT_FAILURE);
}

int main(int argc, char **argv) {
  bool steady = argc == 5 && !strcmp(argv[1], "-s");
  if (argc != 4 && !steady)
    return fputs("usage: speak [-s] VOICE.onnx PHONEMES OUT.wav\n", stderr), 2;
  argv += steady;
  if (!output_possible(argv[3])) return EXIT_FAILURE;
  static int64_t ids[MOST_IDS];
  char path[4096];
  snprintf(path, sizeof path, "%s.json", argv[1]);
  char *config = text_read(path);
  int64_t count = sentence(config, argv[2], ids);
  const float scales[3] = {steady ? 0 : (float)setting(config, "noise_scale", 0.667),
                           (float)setting(config, "length_scale", 1),
                           steady ? 0 : (float)setting(config, "noise_w", 0.8)};
  uint32_t rate = (uint32_t)setting(config, "sample_rate", 22050);

  tn_runtime *runtime = runtime_open();
  tn_onnx *voice = model_open(runtime, argv[1], "");
  tn_tensor *in[] = {tensor_make(runtime, TN_I64, 2, (int64_t[]){1, count}, ids),
                     tensor_make(runtime, TN_I64, 1, (int64_t[]){1}, &count),
                     tensor_make(runtime, TN_F32, 1, (int64_t[]){3}, scales)};
  model_output speech;
  model_run(voice, 3, in, 1, &speech);
  int64_t samples = 1;
  for (int32_t i = 0; i < speech.rank; i++) samples *= speech.shape[i];
  wav_write(argv[3], speech.numbers, samples, rate);
  printf("%lld phonemes, %.2f s at %u Hz\n", (long long)(count - 3) / 2, (double)samples / rate,
         rate);
  free(speech.numbers), free(config);
  tn_onnx_close(voice);
  tn_runtime_close(runtime);
  return output_finish(EXIT_SUCCESS);
}
