/*
 * What an ELF file says of itself, read without mapping or running it. Nothing in the
 * file is believed: every offset and size is held against the file's size before it is
 * used, and only buffers of fixed size are filled.
 */
#ifndef TENON_DISPATCHER_ELF_H
#define TENON_DISPATCHER_ELF_H

#include <elf.h>

#include "dispatcher/base/error.h"
#include "tenon/plugin.h"

#define ELF_MAX_SEGMENTS 64
#define ELF_MAX_DYNAMIC 256

/* An open file whose headers were found sound. */
typedef struct elf_file {
  int fd; /* the caller's */
  uint64_t size;
  uint32_t num_segments;
  Elf64_Phdr segments[ELF_MAX_SEGMENTS];
} elf_file;

/* Reads and checks the headers of an open regular file of `size` bytes: a 64-bit shared
 * object for this machine, whole, without an executable stack. Errors:
 * TN_ERR_PLUGIN_REFUSED with the reason. */
tn_status elf_open(int fd, uint64_t size, elf_file *elf);

/* Finds the Tenon note. A longer note from a later version is cut to the part known
 * here. Errors: TN_ERR_PLUGIN_REFUSED if there is none, or it is too short or malformed. */
tn_status elf_read_note(const elf_file *elf, tn_plugin_note *note);

/* The words of TN_PLUGIN_BRINGS, cut to `size` bytes with the zero at their end; false if the
 * file has none. */
bool elf_read_brings(const elf_file *elf, char *words, size_t size);

/* The linker's build id, cut to `size` bytes; the number of bytes, 0 if there is none. */
size_t elf_read_build_id(const elf_file *elf, uint8_t *id, size_t size);

/* The dynamic section up to its end, and its strings. */
typedef struct elf_dynamic {
  uint32_t count;
  Elf64_Dyn entries[ELF_MAX_DYNAMIC];
  uint64_t strings, strings_size; /* offset in the file, bytes */
  char runpath[4096];             /* DT_RUNPATH, else DT_RPATH, as written; "" = none */
} elf_dynamic;

/* Finds the dynamic section and checks that what it points at lies in the file. */
tn_status elf_open_dynamic(const elf_file *elf, elf_dynamic *dynamic);

/* The next DT_NEEDED name from entry *at on, which starts as 0. *found is false after
 * the last. name holds 256 bytes. */
tn_status elf_next_needed(const elf_file *elf, const elf_dynamic *dynamic, uint32_t *at,
                          char name[256], bool *found);

#endif
