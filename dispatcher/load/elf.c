/*
 * ELF headers, the Tenon note and the dynamic section, read with pread. A file that was
 * cut short would kill the process with SIGBUS when mapped, so everything that ld.so
 * would touch is held against the file's size here, before ld.so sees it.
 */
#include "dispatcher/load/elf.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define REFUSED TN_ERR_PLUGIN_REFUSED

/* Bounds what one file can make us read. */
enum { MAX_NOTES = 256 };

/* Whether [offset, offset + bytes) lies in [0, size). */
static bool inside(uint64_t offset, uint64_t bytes, uint64_t size) {
  return bytes <= size && offset <= size - bytes;
}

static tn_status read_at(const elf_file *elf, uint64_t offset, void *buffer, size_t bytes) {
  if (!inside(offset, bytes, elf->size))
    return fail(REFUSED, "is malformed: it points outside the file");
  size_t done = 0;
  while (done < bytes) {
    ssize_t n = pread(elf->fd, (char *)buffer + done, bytes - done, (off_t)(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return fail(REFUSED, "could not be read to its end");
    done += (size_t)n;
  }
  return TN_OK;
}

/* ------------------------------------------------------------- the headers --- */

static const char *machine_name(uint16_t machine) {
  switch (machine) {
  case EM_386:
    return "x86";
  case EM_X86_64:
    return "x86-64";
  case EM_ARM:
    return "arm";
  case EM_AARCH64:
    return "aarch64";
  case EM_RISCV:
    return "riscv";
  case EM_PPC64:
    return "ppc64";
  case EM_S390:
    return "s390";
  default:
    return "another machine";
  }
}

/* The ELF header that this very code was loaded with (defined by the linker). */
extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden")));

static tn_status check_header(const Elf64_Ehdr *h) {
  uint16_t host_machine = __ehdr_start.e_machine;
  if (h->e_ident[EI_CLASS] != ELFCLASS64)
    return fail(REFUSED, "is not a 64-bit ELF file, and this host is a 64-bit program");
  if (h->e_ident[EI_DATA] != ELFDATA2LSB) return fail(REFUSED, "is not a little-endian ELF file");
  if (h->e_ident[EI_VERSION] != EV_CURRENT || h->e_version != EV_CURRENT)
    return fail(REFUSED, "has an unknown ELF version");
  if (h->e_machine != host_machine)
    return fail(REFUSED, "is built for %s (ELF machine %u), this host is %s (%u)",
                machine_name(h->e_machine), h->e_machine, machine_name(host_machine), host_machine);
  if (h->e_type != ET_DYN) return fail(REFUSED, "is no shared object (ELF type %u)", h->e_type);
  if (h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phnum == 0 || h->e_phnum > ELF_MAX_SEGMENTS)
    return fail(REFUSED, "is malformed: %u program headers of %u bytes", h->e_phnum,
                h->e_phentsize);
  return TN_OK;
}

static tn_status cut_short(const char *what, uint64_t offset, uint64_t bytes, uint64_t size) {
  uint64_t end;
  if (__builtin_add_overflow(offset, bytes, &end)) end = UINT64_MAX;
  return fail(REFUSED, "file is cut short: %s needs %llu bytes, file has %llu", what,
              (unsigned long long)end, (unsigned long long)size);
}

/* Linkers put the section headers last, so they tell a cut that spares the segments. */
static tn_status check_sections(const Elf64_Ehdr *h, uint64_t size) {
  if (h->e_shoff == 0) return TN_OK;
  uint64_t bytes = (uint64_t)(h->e_shnum ? h->e_shnum : 1) * h->e_shentsize;
  return inside(h->e_shoff, bytes, size) ? TN_OK
                                         : cut_short("section table", h->e_shoff, bytes, size);
}

/* pre: `last_end` is where the segment before ended in memory. */
static tn_status check_load(const Elf64_Phdr *s, uint64_t *last_end) {
  uint64_t end, align = s->p_align > 1 ? s->p_align : 1;
  bool sound = s->p_filesz <= s->p_memsz && s->p_vaddr >= *last_end &&
               !__builtin_add_overflow(s->p_vaddr, s->p_memsz, &end) &&
               (align & (align - 1)) == 0 && (s->p_vaddr - s->p_offset) % align == 0;
  if (!sound) return fail(REFUSED, "is malformed: a segment's addresses make no sense");
  *last_end = end;
  return TN_OK;
}

static tn_status check_segments(const elf_file *elf) {
  uint64_t last_end = 0;
  bool loads = false, plain_stack = false;
  for (uint32_t i = 0; i < elf->num_segments; i++) {
    const Elf64_Phdr *s = &elf->segments[i];
    if (s->p_type == PT_NULL) continue;
    if (!inside(s->p_offset, s->p_filesz, elf->size))
      return cut_short("segment", s->p_offset, s->p_filesz, elf->size);
    if (s->p_type == PT_GNU_STACK) plain_stack = !(s->p_flags & PF_X);
    if (s->p_type != PT_LOAD) continue;
    loads = true;
    tn_status status = check_load(s, &last_end);
    if (status) return status;
  }
  if (!loads) return fail(REFUSED, "is malformed: it has no segment to load");
  /* ld.so takes a file without the header for one that wants an executable stack, and
   * makes the whole process's stack so. */
  if (!plain_stack)
    return fail(REFUSED, "asks for an executable stack (link with -Wl,-z,noexecstack)");
  return TN_OK;
}

/* Tells a short ELF file from something else. */
static tn_status too_small(const elf_file *elf) {
  char magic[SELFMAG] = {0};
  size_t bytes = elf->size < sizeof magic ? (size_t)elf->size : sizeof magic;
  if (bytes == 0) return fail(REFUSED, "file is empty");
  tn_status status = read_at(elf, 0, magic, bytes);
  if (status) return status;
  if (memcmp(magic, ELFMAG, bytes) != 0) return fail(REFUSED, "is not an ELF file");
  return cut_short("ELF header", 0, sizeof(Elf64_Ehdr), elf->size);
}

tn_status elf_open(int fd, uint64_t size, elf_file *elf) {
  Elf64_Ehdr header;
  *elf = (elf_file){.fd = fd, .size = size};
  if (size < sizeof header) return too_small(elf);
  tn_status status = read_at(elf, 0, &header, sizeof header);
  if (status) return status;
  if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return fail(REFUSED, "is not an ELF file");
  status = check_header(&header);
  if (status) return status;
  size_t bytes = header.e_phnum * sizeof(Elf64_Phdr);
  if (!inside(header.e_phoff, bytes, size))
    return cut_short("program header table", header.e_phoff, bytes, size);
  elf->num_segments = header.e_phnum;
  status = read_at(elf, header.e_phoff, elf->segments, bytes);
  if (!status) status = check_segments(elf);
  if (!status) status = check_sections(&header, size);
  return status;
}

/* ---------------------------------------------------------------- the note --- */

/* Bytes of a note that version 1 has. */
#define NOTE_SIZE_1 (offsetof(tn_plugin_note, name) + sizeof((tn_plugin_note *)0)->name)

static tn_status check_note(const tn_plugin_note *note) {
  size_t length = strnlen(note->name, sizeof note->name);
  static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
  if (length == 0 || length == sizeof note->name || strspn(note->name, letters) != length ||
      *note->name == '-')
    return fail(REFUSED,
                "its Tenon note has a malformed name: 1 to %zu of a-z, 0-9, _ and - "
                "are allowed",
                sizeof note->name - 1);
  if (note->abi_min > note->abi_max)
    return fail(REFUSED, "its Tenon note has an empty ABI range, %u..%u", note->abi_min,
                note->abi_max);
  return TN_OK;
}

static tn_status take_note(const elf_file *elf, uint64_t offset, uint64_t size,
                           tn_plugin_note *note) {
  if (size < NOTE_SIZE_1)
    return fail(REFUSED, "its Tenon note has %llu bytes, version 1 has %zu",
                (unsigned long long)size, NOTE_SIZE_1);
  memset(note, 0, sizeof *note);
  tn_status status = read_at(elf, offset, note, size < sizeof *note ? (size_t)size : sizeof *note);
  if (!status) status = check_note(note);
  if (status) memset(note, 0, sizeof *note);
  return status;
}

static uint64_t round_up(uint64_t value, uint64_t align) {
  return (value + align - 1) & ~(align - 1);
}

/* Which note is looked for, and where it lies in the file once it is found. */
typedef struct note_search {
  const char *owner;
  uint32_t type;
  bool found;
  uint64_t offset, size;
} note_search;

static bool is_wanted(const elf_file *elf, uint64_t offset, const Elf64_Nhdr *header,
                      const note_search *search) {
  char owner[16];
  size_t bytes = strlen(search->owner) + 1;
  return header->n_type == search->type && header->n_namesz == bytes && bytes <= sizeof owner &&
         read_at(elf, offset, owner, bytes) == TN_OK && memcmp(owner, search->owner, bytes) == 0;
}

/* Looks through one PT_NOTE segment. Sums cannot overflow: segments lie in the file,
 * whose size fits an off_t, and a note's own sizes have 32 bits. */
static tn_status search_segment(const elf_file *elf, const Elf64_Phdr *s, note_search *search) {
  uint64_t align = s->p_align == 8 ? 8 : 4, at = 0;
  for (int i = 0; i < MAX_NOTES && inside(at, sizeof(Elf64_Nhdr), s->p_filesz); i++) {
    Elf64_Nhdr header;
    tn_status status = read_at(elf, s->p_offset + at, &header, sizeof header);
    if (status) return status;
    uint64_t desc = round_up(at + sizeof header + header.n_namesz, align);
    if (!inside(desc, header.n_descsz, s->p_filesz)) break;
    search->found = is_wanted(elf, s->p_offset + at + sizeof header, &header, search);
    search->offset = s->p_offset + desc;
    search->size = header.n_descsz;
    if (search->found) return TN_OK;
    at = round_up(desc + header.n_descsz, align);
  }
  return TN_OK;
}

static tn_status search_notes(const elf_file *elf, note_search *search) {
  tn_status status = TN_OK;
  for (uint32_t i = 0; i < elf->num_segments && !status && !search->found; i++)
    if (elf->segments[i].p_type == PT_NOTE) status = search_segment(elf, &elf->segments[i], search);
  return status;
}

tn_status elf_read_note(const elf_file *elf, tn_plugin_note *note) {
  note_search search = {.owner = TN_NOTE_OWNER, .type = TN_NOTE_TYPE};
  memset(note, 0, sizeof *note);
  tn_status status = search_notes(elf, &search);
  if (status) return status;
  if (!search.found) return fail(REFUSED, "is no Tenon plugin: it has no Tenon note");
  return take_note(elf, search.offset, search.size, note);
}

bool elf_read_brings(const elf_file *elf, char *words, size_t size) {
  note_search search = {.owner = TN_NOTE_OWNER, .type = TN_NOTE_TYPE_BRINGS};
  memset(words, 0, size);
  if (search_notes(elf, &search) || !search.found) return false;
  size_t bytes = search.size < size - 1 ? (size_t)search.size : size - 1;
  return read_at(elf, search.offset, words, bytes) == TN_OK;
}

size_t elf_read_build_id(const elf_file *elf, uint8_t *id, size_t size) {
  note_search search = {.owner = ELF_NOTE_GNU, .type = NT_GNU_BUILD_ID};
  if (search_notes(elf, &search) || !search.found) return 0;
  size_t bytes = search.size < size ? (size_t)search.size : size;
  return read_at(elf, search.offset, id, bytes) ? 0 : bytes;
}

/* --------------------------------------------------- the dynamic section --- */

/* Whether [address, address + bytes) lies in one segment; *offset (may be NULL) is
 * where it lies in the file, which must have all of it then. */
static bool find_address(const elf_file *elf, uint64_t address, uint64_t bytes, uint64_t *offset) {
  for (uint32_t i = 0; i < elf->num_segments; i++) {
    const Elf64_Phdr *s = &elf->segments[i];
    if (s->p_type != PT_LOAD || address < s->p_vaddr) continue;
    if (!inside(address - s->p_vaddr, bytes, offset ? s->p_filesz : s->p_memsz)) continue;
    if (offset) *offset = s->p_offset + (address - s->p_vaddr);
    return true;
  }
  return false;
}

/* The value of the last entry with this tag; false if there is none. */
static bool find_entry(const elf_dynamic *d, int64_t tag, uint64_t *value) {
  for (uint32_t i = d->count; i-- > 0;) {
    if (d->entries[i].d_tag != tag) continue;
    *value = d->entries[i].d_un.d_val;
    return true;
  }
  return false;
}

/* The tables that ld.so follows blindly, with the tags of their sizes (0 = not told). */
static const struct table {
  int64_t address, size;
} relocations = {DT_RELA, DT_RELASZ}, plt_relocations = {DT_JMPREL, DT_PLTRELSZ},
  tables[] = {
      {DT_HASH, 0},         {DT_GNU_HASH, 0},
      {DT_SYMTAB, 0},       {DT_STRTAB, DT_STRSZ},
      {DT_RELA, DT_RELASZ}, {DT_JMPREL, DT_PLTRELSZ},
      {DT_INIT, 0},         {DT_INIT_ARRAY, DT_INIT_ARRAYSZ},
      {DT_FINI, 0},         {DT_FINI_ARRAY, DT_FINI_ARRAYSZ},
      {DT_VERSYM, 0},       {DT_VERNEED, 0},
      {DT_VERDEF, 0},       {DT_PLTGOT, 0},
};

static tn_status check_tables(const elf_file *elf, const elf_dynamic *d) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    uint64_t address, bytes = 1;
    if (!find_entry(d, tables[i].address, &address)) continue;
    if (tables[i].size && !find_entry(d, tables[i].size, &bytes)) bytes = 1;
    if (!find_address(elf, address, bytes, NULL))
      return fail(REFUSED, "is malformed: its dynamic section points outside its segments");
  }
  return TN_OK;
}

/* Whether eight bytes at an address are data of the segment, which may be written to. */
static bool is_written(const Elf64_Phdr *s, uint64_t address) {
  return s->p_type == PT_LOAD && (s->p_flags & PF_W) && address >= s->p_vaddr &&
         inside(address - s->p_vaddr, 8, s->p_memsz);
}

/* What the row before was found by, since most are alike: a library has them by the 100,000. */
typedef struct row_before {
  const Elf64_Phdr *written; /* the segment, or NULL */
  uint64_t symbol;           /* one that there is, or what no row can name */
} row_before;

static bool is_writable(const elf_file *elf, uint64_t address, row_before *b) {
  if (b->written && is_written(b->written, address)) return true;
  for (uint32_t i = 0; i < elf->num_segments; i++) {
    if (!is_written(&elf->segments[i], address)) continue;
    b->written = &elf->segments[i];
    return true;
  }
  return false;
}

static bool has_symbol(const elf_file *elf, uint64_t symbols, uint64_t symbol, row_before *b) {
  uint64_t offset;
  if (symbol == b->symbol) return true;
  if (!find_address(elf, symbols + symbol * sizeof(Elf64_Sym), sizeof(Elf64_Sym), &offset))
    return false;
  b->symbol = symbol;
  return true;
}

/* ld.so writes where a relocation says, and reads the symbol that it names. */
static bool is_sound(const elf_file *elf, const Elf64_Rela *r, uint64_t symbols, row_before *b) {
  if (r->r_info == 0) return true; /* type 0 does nothing on every machine */
  return is_writable(elf, r->r_offset, b) && has_symbol(elf, symbols, ELF64_R_SYM(r->r_info), b);
}

static tn_status check_relocations(const elf_file *elf, const elf_dynamic *d,
                                   const struct table *table) {
  enum { CHUNK = 128 };
  Elf64_Rela rows[CHUNK];
  uint64_t address, bytes, symbols, offset;
  row_before before = {NULL, UINT64_MAX};
  if (!find_entry(d, table->address, &address) || !find_entry(d, table->size, &bytes) ||
      !find_entry(d, DT_SYMTAB, &symbols))
    return TN_OK;
  if (bytes % sizeof *rows || !find_address(elf, address, bytes, &offset))
    return fail(REFUSED, "is malformed: its relocations are not in the file");
  for (uint64_t at = 0, n; at < bytes; at += n) {
    n = bytes - at < sizeof rows ? bytes - at : sizeof rows;
    tn_status status = read_at(elf, offset + at, rows, (size_t)n);
    if (status) return status;
    for (uint64_t i = 0; i < n / sizeof *rows; i++)
      if (!is_sound(elf, &rows[i], symbols, &before))
        return fail(REFUSED, "is malformed: a relocation points outside its data");
  }
  return TN_OK;
}

/* Reads the entries up to DT_NULL. */
static tn_status read_entries(const elf_file *elf, const Elf64_Phdr *s, elf_dynamic *d) {
  uint64_t room = s->p_filesz / sizeof *d->entries;
  if (room > ELF_MAX_DYNAMIC) room = ELF_MAX_DYNAMIC;
  tn_status status = read_at(elf, s->p_offset, d->entries, (size_t)room * sizeof *d->entries);
  if (status) return status;
  for (d->count = 0; d->count < room; d->count++)
    if (d->entries[d->count].d_tag == DT_NULL) return TN_OK;
  return fail(REFUSED, "is malformed: its dynamic section has no end within %d entries",
              ELF_MAX_DYNAMIC);
}

static tn_status read_dynamic(const elf_file *elf, elf_dynamic *d) {
  for (uint32_t i = 0; i < elf->num_segments; i++) {
    const Elf64_Phdr *s = &elf->segments[i];
    if (s->p_type != PT_DYNAMIC) continue;
    uint64_t offset;
    if (!find_address(elf, s->p_vaddr, s->p_filesz, &offset) || offset != s->p_offset)
      return fail(REFUSED, "is malformed: its dynamic section lies in no segment");
    return read_entries(elf, s, d);
  }
  return fail(REFUSED, "is malformed: it has no dynamic section");
}

static tn_status read_string(const elf_file *elf, const elf_dynamic *d, uint64_t index, char *text,
                             size_t size) {
  uint64_t room = index < d->strings_size ? d->strings_size - index : 0;
  size_t bytes = room < size ? (size_t)room : size;
  tn_status status = read_at(elf, d->strings + (bytes ? index : 0), text, bytes);
  if (status) return status;
  return memchr(text, '\0', bytes)
             ? TN_OK
             : fail(REFUSED, "is malformed: a string of its dynamic section has no end");
}

tn_status elf_open_dynamic(const elf_file *elf, elf_dynamic *d) {
  d->count = 0;
  *d->runpath = '\0';
  tn_status status = read_dynamic(elf, d);
  if (!status) status = check_tables(elf, d);
  if (!status) status = check_relocations(elf, d, &relocations);
  if (!status) status = check_relocations(elf, d, &plt_relocations);
  if (status) return status;
  uint64_t address, index;
  if (!find_entry(d, DT_STRTAB, &address) || !find_entry(d, DT_STRSZ, &d->strings_size) ||
      !find_address(elf, address, d->strings_size, &d->strings))
    return fail(REFUSED, "is malformed: its dynamic strings are not in the file");
  if (find_entry(d, DT_RUNPATH, &index) || find_entry(d, DT_RPATH, &index))
    return read_string(elf, d, index, d->runpath, sizeof d->runpath);
  return TN_OK;
}

tn_status elf_next_needed(const elf_file *elf, const elf_dynamic *d, uint32_t *at, char name[256],
                          bool *found) {
  while (*at < d->count && d->entries[*at].d_tag != DT_NEEDED) (*at)++;
  *found = *at < d->count;
  return *found ? read_string(elf, d, d->entries[(*at)++].d_un.d_val, name, 256) : TN_OK;
}
