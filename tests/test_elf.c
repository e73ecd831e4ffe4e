/* What the loader reads of a file before it runs a line of it, and files made to hurt. */
#include "inspect.h"

#include <elf.h>
#include <fcntl.h>

#include "dispatcher/load/elf.h"
#include "dispatcher/load/libraries.h"

/* A copy of the sound fixture, to be damaged. */
static unsigned char *image;
static size_t image_size;

static void setup(void) {
  scratch_make();
  image = read_file(FIXTURE("good"), &image_size);
}

static void teardown(void) {
  free(image);
  scratch_remove();
}

static Elf64_Ehdr *header(void) { return (Elf64_Ehdr *)image; }

/* The first program header of a type. */
static Elf64_Phdr *segment(uint32_t type) {
  Elf64_Phdr *s = (Elf64_Phdr *)(image + header()->e_phoff);
  for (int i = 0; i < header()->e_phnum; i++)
    if (s[i].p_type == type) return &s[i];
  ck_abort_msg("no segment of type %u", type);
  return NULL;
}

static Elf64_Dyn *dynamic(int64_t tag) {
  Elf64_Dyn *d = (Elf64_Dyn *)(image + segment(PT_DYNAMIC)->p_offset);
  while (d->d_tag != tag) ck_assert_int_ne((d++)->d_tag, DT_NULL);
  return d;
}

static tn_plugin_note_image *note(void) {
  for (size_t i = 0; i + sizeof(tn_plugin_note_image) <= image_size; i += 4) {
    tn_plugin_note_image *n = (tn_plugin_note_image *)(image + i);
    if (n->owner_size == sizeof TN_NOTE_OWNER && strcmp(n->owner, TN_NOTE_OWNER) == 0) return n;
  }
  ck_abort_msg("no note");
  return NULL;
}

static void refuses(const char *reason) {
  inspect_refuses(write_file("x.so", image, image_size), reason);
}

START_TEST(sound) { inspect_accepts(write_file("x.so", image, image_size), "good"); }
END_TEST

START_TEST(not_elf) {
  inspect_refuses(write_file("empty", "", 0), "file is empty");
  inspect_refuses(write_file("short", "hi", 2), "not an ELF file");
  inspect_refuses(write_file("stub", "\177EL", 3), "cut short");
  char text[4096];
  memset(text, 'a', sizeof text);
  inspect_refuses(write_file("text", text, sizeof text), "not an ELF file");
  memset(text, 0, sizeof text);
  inspect_refuses(write_file("zeros", text, sizeof text), "not an ELF file");
}
END_TEST

START_TEST(foreign) {
  uint16_t machine = header()->e_machine;
  header()->e_machine = machine == EM_AARCH64 ? EM_X86_64 : EM_AARCH64;
  refuses(machine == EM_AARCH64 ? "is built for x86-64" : "is built for aarch64");
  header()->e_machine = 0xfffe;
  refuses("another machine");
  header()->e_machine = machine;
  header()->e_ident[EI_CLASS] = ELFCLASS32;
  refuses("not a 64-bit ELF file");
  header()->e_ident[EI_CLASS] = ELFCLASS64;
  header()->e_ident[EI_DATA] = ELFDATA2MSB;
  refuses("little-endian");
  header()->e_ident[EI_DATA] = ELFDATA2LSB;
  header()->e_type = ET_EXEC;
  refuses("no shared object");
  header()->e_type = ET_DYN;
  header()->e_ident[EI_VERSION] = 9;
  refuses("ELF version");
}
END_TEST

START_TEST(bad_tables) {
  Elf64_Ehdr good = *header();
  header()->e_phnum = 0;
  refuses("program headers");
  header()->e_phnum = 0xffff;
  refuses("program headers");
  *header() = good;
  header()->e_phentsize = 1;
  refuses("program headers");
  *header() = good;
  header()->e_phoff = UINT64_MAX - 8;
  refuses("cut short");
  header()->e_phoff = image_size - 8;
  refuses("cut short");
  *header() = good;
  header()->e_shoff = UINT64_MAX - 1;
  refuses("section table");
  *header() = good;
  header()->e_shoff = 0; /* section headers may be stripped */
  inspect_accepts(write_file("x.so", image, image_size), "good");
}
END_TEST

START_TEST(bad_segments) {
  Elf64_Phdr *load = segment(PT_LOAD), good = *load;
  load->p_filesz = load->p_memsz = image_size + 1;
  refuses("cut short");
  load->p_filesz = UINT64_MAX;
  refuses("cut short");
  *load = good, load->p_offset = UINT64_MAX - 4;
  refuses("cut short");
  *load = good, load->p_memsz = load->p_filesz - 1;
  refuses("addresses make no sense");
  *load = good, load->p_memsz = UINT64_MAX;
  refuses("make no sense");
  *load = good, load->p_align = 3;
  refuses("make no sense");
  *load = good, load->p_vaddr += 1;
  refuses("make no sense");
  *load = good;
  for (Elf64_Phdr *s = load; s < load + 16; s++)
    if (s->p_type == PT_LOAD) s->p_type = PT_NULL;
  refuses("no segment to load");
}
END_TEST

START_TEST(executable_stack) {
  segment(PT_GNU_STACK)->p_flags |= PF_X;
  refuses("executable stack");
  segment(PT_GNU_STACK)->p_type = PT_NULL;
  refuses("executable stack");
  inspect_refuses(FIXTURE("stack"), "executable stack");
}
END_TEST

START_TEST(bad_notes) {
  static const char *const names[] = {"", "Good", "go od", "-good", "g/d", "g\xff", "good.so"};
  tn_plugin_note_image *n = note(), good = *n;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    strcpy(n->desc.name, names[i]);
    refuses("malformed name");
  }
  memset(n->desc.name, 'a', sizeof n->desc.name);
  refuses("malformed name");
  n->desc.name[sizeof n->desc.name - 1] = '\0';
  inspect_accepts(write_file("x.so", image, image_size), n->desc.name);
  *n = good, n->desc_size = sizeof(tn_plugin_note) - 4;
  refuses("version 1 has 64");
  n->desc_size = UINT32_MAX;
  refuses("no Tenon note");
  *n = good, n->owner_size = UINT32_MAX;
  refuses("no Tenon note");
  *n = good, n->type = 2;
  refuses("no Tenon note");
  *n = good, n->desc.abi_min = 2, n->desc.abi_max = 1;
  refuses("empty ABI range");
  *n = good, n->desc.abi_min = n->desc.abi_max = 0;
  refuses("built for ABI 0..0, this host serves 1..1");
  *n = good, n->desc.flavour = 0x80;
  refuses("a flavour unknown here");
}
END_TEST

static size_t build_id(const char *path, uint8_t id[64]) {
  elf_file elf;
  struct stat s;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ck_assert(fd >= 0 && fstat(fd, &s) == 0);
  ck_assert_msg(elf_open(fd, (uint64_t)s.st_size, &elf) == TN_OK, "%s", tn_last_error());
  size_t bytes = elf_read_build_id(&elf, id, 64);
  close(fd);
  return bytes;
}

START_TEST(build_ids) {
  uint8_t good[64], again[64], twin[64];
  size_t bytes = build_id(FIXTURE("good"), good);
  if (bytes == 0) return; /* the linker was told to write none */
  ck_assert_uint_ge(bytes, 8);
  ck_assert_uint_eq(build_id(write_file("x.so", image, image_size), again), bytes);
  ck_assert_mem_eq(good, again, bytes);
  ck_assert_uint_eq(build_id(FIXTURE("twin"), twin), bytes);
  ck_assert_mem_ne(good, twin, bytes);
  for (int i = 0; i < header()->e_phnum; i++) {
    Elf64_Phdr *s = (Elf64_Phdr *)(image + header()->e_phoff) + i;
    if (s->p_type == PT_NOTE) s->p_type = PT_NULL;
  }
  ck_assert_uint_eq(build_id(write_file("x.so", image, image_size), again), 0);
}
END_TEST

START_TEST(bad_dynamic) {
  Elf64_Phdr *s = segment(PT_DYNAMIC), good = *s;
  s->p_type = PT_NULL;
  refuses("no dynamic section");
  *s = good, s->p_vaddr = 0;
  refuses("lies in no segment");
  *s = good, s->p_filesz = 64;
  refuses("has no end");
  *s = good;
  static const int64_t tags[] = {DT_SYMTAB, DT_STRTAB, DT_RELA, DT_GNU_HASH, DT_INIT_ARRAY};
  for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
    Elf64_Dyn *d = dynamic(tags[i]), was = *d;
    d->d_un.d_val = (uint64_t)1 << 40;
    refuses("points outside its segments");
    *d = was;
  }
  Elf64_Dyn *d = dynamic(DT_STRSZ), was = *d;
  d->d_un.d_val = UINT64_MAX;
  refuses("points outside its segments");
  *d = was;
  dynamic(DT_NEEDED)->d_un.d_val = was.d_un.d_val;
  refuses("has no end");
  dynamic(DT_NEEDED)->d_un.d_val = UINT64_MAX;
  refuses("has no end");
}
END_TEST

/* The first segment's addresses are offsets in the file. */
START_TEST(bad_relocations) {
  Elf64_Rela *first = (Elf64_Rela *)(image + dynamic(DT_RELA)->d_un.d_ptr), *r = first, good;
  for (int i = 0; i < 2; i++) { /* the second behind a good one */
    r = first + i, good = *r;
    r->r_offset = 0;
    refuses("a relocation points outside its data");
    r->r_offset = UINT64_MAX - 3;
    refuses("a relocation points outside its data");
    *r = good, r->r_info |= UINT64_C(0xffffffff) << 32;
    refuses("a relocation points outside its data");
    *r = good;
  }
  *r = (Elf64_Rela){0, 0, 0};
  inspect_accepts(write_file("x.so", image, image_size), "good");
  dynamic(DT_RELASZ)->d_un.d_val -= 1;
  refuses("its relocations are not in the file");
}
END_TEST

/* Writes a name over the first DT_NEEDED, which must be at least as long. The strings lie
 * in the first segment, where addresses are offsets in the file. */
static void rename_needed(const char *name) {
  uint64_t strings = dynamic(DT_STRTAB)->d_un.d_ptr;
  char *needed = (char *)image + strings + dynamic(DT_NEEDED)->d_un.d_val;
  ck_assert_uint_ge(strlen(needed), strlen(name));
  strcpy(needed, name);
}

START_TEST(missing_library) {
  free(image);
  image = read_file(FIXTURE("needs_absent"), &image_size);
  refuses("needs libtenon-absent.so.7, not found");
  rename_needed("./libq.so");
  refuses("needs ./libq.so, a path relative to the working folder");
  rename_needed("/libq.so");
  refuses("needs /libq.so, not found");
}
END_TEST

START_TEST(truncated) {
  for (size_t i = 0; i < 64; i++) {
    tn_plugin_note n;
    file_identity f;
    const char *path = write_file("x.so", image, image_size * i / 64);
    ck_assert_msg(loader_inspect(path, &f, &n) == TN_ERR_PLUGIN_REFUSED,
                  "%zu of %zu bytes accepted", image_size * i / 64, image_size);
  }
  write_file("x.so", image, image_size - 1);
  inspect_refuses(scratch_path("x.so"), "cut short");
}
END_TEST

/* Small and repeatable: xorshift (Marsaglia 2003). */
static uint32_t next_random(uint32_t *state) {
  *state ^= *state << 13, *state ^= *state >> 17;
  return *state ^= *state << 5;
}

/* Damages 1 to 8 bytes below `limit` and inspects; whatever it says, it must come back.
 * The headers and the dynamic section are what the loader follows. */
static void mutate(size_t begin, size_t limit, int rounds) {
  uint32_t state = 12345;
  unsigned char *good = malloc(image_size);
  memcpy(good, image, image_size);
  for (int i = 0; i < rounds; i++) {
    memcpy(image, good, image_size);
    for (uint32_t n = 1 + next_random(&state) % 8; n; n--)
      image[begin + next_random(&state) % (limit - begin)] = (unsigned char)next_random(&state);
    tn_plugin_note n;
    file_identity f;
    tn_status status = loader_inspect(write_file("x.so", image, image_size), &f, &n);
    ck_assert(status == TN_OK || status == TN_ERR_PLUGIN_REFUSED);
    ck_assert_uint_lt(strnlen(n.name, sizeof n.name), sizeof n.name);
  }
  free(good);
}

START_TEST(mutated) {
  size_t headers = header()->e_phoff + header()->e_phnum * sizeof(Elf64_Phdr);
  size_t dynamics = segment(PT_DYNAMIC)->p_offset;
  size_t dynamics_end = dynamics + segment(PT_DYNAMIC)->p_filesz;
  unsigned char *good = malloc(image_size);
  memcpy(good, image, image_size);
  mutate(0, headers, 400);
  memcpy(image, good, image_size);
  mutate(0, image_size < 4096 ? image_size : 4096, 400);
  memcpy(image, good, image_size);
  mutate(dynamics, dynamics_end, 400);
  free(good);
}
END_TEST

/* ------------------------------------------------------------ libraries --- */

START_TEST(libraries_found) {
  ck_assert_int_eq(library_find("libc.so.6", "", "/"), LIBRARY_FOUND);
  ck_assert_int_eq(library_find("libtenon-nowhere.so.9", "", "/"), LIBRARY_MISSING);
  copy_fixture(FIXTURE("good"), "libhere.so.1");
  const char *name = "libhere.so.1";
  ck_assert_int_eq(library_find(name, "", scratch), LIBRARY_MISSING);
  ck_assert_int_eq(library_find(name, scratch, "/"), LIBRARY_FOUND);
  ck_assert_int_eq(library_find(name, "/nowhere:$ORIGIN", scratch), LIBRARY_FOUND);
  ck_assert_int_eq(library_find(name, "${ORIGIN}/", scratch), LIBRARY_FOUND);
  ck_assert_int_eq(library_find(name, "$ORIGIN/..", scratch), LIBRARY_MISSING);
  ck_assert_int_eq(library_find(name, "$LIB/x", scratch), LIBRARY_UNSURE);
  ck_assert_int_eq(library_find(name, "relative", scratch), LIBRARY_UNSURE);
  ck_assert_int_eq(library_find(name, "::", scratch), LIBRARY_UNSURE);
  ck_assert_int_eq(library_find(scratch_path(name), "", "/"), LIBRARY_FOUND);
  char *full = malloc(8192);
  memset(full, '/', 8191), full[8191] = '\0';
  ck_assert_int_eq(library_find(name, full, scratch), LIBRARY_UNSURE);
  free(full);
  ck_assert_int_eq(mkdir(scratch_path("glibc-hwcaps"), 0755), 0);
  ck_assert_int_eq(library_find("libother.so", scratch, "/"), LIBRARY_UNSURE);
}
END_TEST

START_TEST(cache_of_anything) {
  size_t size;
  /* Under an emulator it is the cache of another machine. */
  if (access("/etc/ld.so.cache", R_OK) != 0 || getenv("MESON_EXE_WRAPPER")) return;
  unsigned char *cache = read_file("/etc/ld.so.cache", &size);
  ck_assert_int_eq(library_find_in_cache(cache, size, "libc.so.6"), LIBRARY_FOUND);
  ck_assert_int_eq(library_find_in_cache(cache, size, "libq.so"), LIBRARY_MISSING);
  ck_assert_int_eq(library_find_in_cache(cache, 0, "libq.so"), LIBRARY_UNSURE);
  /* Copies of exact size let the sanitizers see every byte read too far. */
  for (size_t n = 0; n < 64; n++) {
    unsigned char *part = malloc(size * n / 64 + 1);
    memcpy(part, cache, size * n / 64);
    ck_assert_int_ne(library_find_in_cache(part, size * n / 64, "libq.so"), LIBRARY_FOUND);
    free(part);
  }
  uint32_t state = 99;
  unsigned char *damaged = malloc(size);
  for (int i = 0; i < 100; i++) {
    memcpy(damaged, cache, size);
    for (int n = 0; n < 8; n++)
      damaged[next_random(&state) % (i & 1 ? size : 256)] = (unsigned char)next_random(&state);
    ck_assert_int_ne(library_find_in_cache(damaged, size, "libq.so"), LIBRARY_FOUND);
  }
  free(damaged);
  free(cache);
}
END_TEST

static void add_tests(TCase *tc) {
  tcase_add_checked_fixture(tc, setup, teardown);
  tcase_add_test(tc, sound);
  tcase_add_test(tc, not_elf);
  tcase_add_test(tc, foreign);
  tcase_add_test(tc, bad_tables);
  tcase_add_test(tc, bad_segments);
  tcase_add_test(tc, executable_stack);
  tcase_add_test(tc, bad_notes);
  tcase_add_test(tc, build_ids);
  tcase_add_test(tc, bad_dynamic);
  tcase_add_test(tc, bad_relocations);
  tcase_add_test(tc, missing_library);
  tcase_add_test(tc, truncated);
  tcase_add_test(tc, mutated);
  tcase_add_test(tc, libraries_found);
  tcase_add_test(tc, cache_of_anything);
}

int main(void) { return run_suite("elf", add_tests); }
