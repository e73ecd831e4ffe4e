/*
 * What the processor is called and which instruction sets it has. x86's name stands in
 * /proc/cpuinfo; aarch64 has numbers for maker and part in MIDR_EL1, which Linux lets programs read
 * (Documentation/arm64/cpu-feature-registers.rst), and which an emulator answers as itself.
 */
#include "processor.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

static void add_word(char *words, size_t size, const char *word) {
  const size_t used = strlen(words);
  snprintf(words + used, size - used, "%s%s", used ? " " : "", word);
}

#if defined(__aarch64__)
#define PART(maker, part) ((uint32_t)(maker) << 12 | (part))

static const struct {
  uint32_t id;
  const char *name;
} parts[] = {
    {PART(0x41, 0xd03), "Arm Cortex-A53"},   {PART(0x41, 0xd05), "Arm Cortex-A55"},
    {PART(0x41, 0xd07), "Arm Cortex-A57"},   {PART(0x41, 0xd08), "Arm Cortex-A72"},
    {PART(0x41, 0xd09), "Arm Cortex-A73"},   {PART(0x41, 0xd0a), "Arm Cortex-A75"},
    {PART(0x41, 0xd0b), "Arm Cortex-A76"},   {PART(0x41, 0xd0d), "Arm Cortex-A77"},
    {PART(0x41, 0xd41), "Arm Cortex-A78"},   {PART(0x41, 0xd44), "Arm Cortex-X1"},
    {PART(0x41, 0xd0c), "Arm Neoverse N1"},  {PART(0x41, 0xd49), "Arm Neoverse N2"},
    {PART(0x41, 0xd40), "Arm Neoverse V1"},  {PART(0x41, 0xd4f), "Arm Neoverse V2"},
    {PART(0x46, 0x001), "Fujitsu A64FX"},    {PART(0x48, 0xd01), "HiSilicon Kunpeng 920"},
    {PART(0xc0, 0xac3), "Ampere AmpereOne"},
};

void processor_name(char *name, size_t size) {
  uint64_t midr = 0;
  if (getauxval(AT_HWCAP) & HWCAP_CPUID) __asm__("mrs %0, midr_el1" : "=r"(midr));
  const uint32_t maker = midr >> 24 & 0xff, part = midr >> 4 & 0xfff;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (parts[i].id == PART(maker, part)) {
      snprintf(name, size, "%s", parts[i].name);
      return;
    }
  if (midr)
    snprintf(name, size, "AArch64 processor (implementer 0x%02x, part 0x%03x)", maker, part);
  else
    snprintf(name, size, "AArch64 processor");
}

void processor_features(char *words, size_t size) {
  static const struct {
    unsigned long bit;
    const char *word;
  } first[] = {{HWCAP_ATOMICS, "lse"},
               {HWCAP_ASIMDHP, "fp16"},
               {HWCAP_ASIMDDP, "dotprod"},
               {HWCAP_SVE, "sve"}},
    second[] = {{HWCAP2_SVE2, "sve2"}, {HWCAP2_I8MM, "i8mm"}, {HWCAP2_BF16, "bf16"}};
  const unsigned long has = getauxval(AT_HWCAP), has2 = getauxval(AT_HWCAP2);
  words[0] = '\0';
  add_word(words, size, "aarch64");
  for (size_t i = 0; i < sizeof first / sizeof *first; i++)
    if (has & first[i].bit) add_word(words, size, first[i].word);
  for (size_t i = 0; i < sizeof second / sizeof *second; i++)
    if (has2 & second[i].bit) add_word(words, size, second[i].word);
}

#else

/* As the kernel prints it; "CPU" where it does not. */
void processor_name(char *name, size_t size) {
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "re");
  snprintf(name, size, "CPU");
  while (file && fgets(line, sizeof line, file)) {
    const char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
    colon += 1 + strspn(colon + 1, " \t");
    snprintf(name, size, "%.*s", (int)strcspn(colon, "\n"), colon);
    break;
  }
  if (file) fclose(file);
}

#if defined(__x86_64__)
/* Tiles, and products of what a bit of leaf 7, EDX, says. */
enum { AMX_BF16 = 22, AMX_TILE = 24, AMX_INT8 = 25 };
static bool has_amx(int bit) {
  unsigned a, b, c, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> AMX_TILE & 1) && (d >> bit & 1);
}
#endif

void processor_features(char *words, size_t size) {
  words[0] = '\0';
#if defined(__x86_64__)
  add_word(words, size, "x86-64");
  if (__builtin_cpu_supports("avx2")) add_word(words, size, "avx2");
  if (__builtin_cpu_supports("fma")) add_word(words, size, "fma");
  if (__builtin_cpu_supports("avx512f")) add_word(words, size, "avx512f");
  if (__builtin_cpu_supports("avx512bw")) add_word(words, size, "avx512bw");
  if (__builtin_cpu_supports("avx512vl")) add_word(words, size, "avx512vl");
  if (__builtin_cpu_supports("avx512dq")) add_word(words, size, "avx512dq");
  if (__builtin_cpu_supports("avx512vnni")) add_word(words, size, "avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) add_word(words, size, "avx512bf16");
  if (has_amx(AMX_BF16)) add_word(words, size, "amx-bf16");
  if (has_amx(AMX_INT8)) add_word(words, size, "amx-int8");
#else
  (void)size;
#endif
}
#endif
