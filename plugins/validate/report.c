/* Reports: counted by what they are about, said once, summed up at the end. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "validate.h"

static const char *const kind_names[REPORT_KINDS] = {
    [REPORT_NONFINITE] = "non-finite", [REPORT_PASSED_ON] = "passed on", [REPORT_ALIAS] = "alias",
    [REPORT_LIFETIME] = "lifetime",    [REPORT_RACE] = "race",           [REPORT_LEAK] = "leak",
    [REPORT_UNWRITTEN] = "unwritten",  [REPORT_INDEX] = "index",
};

/* --- sites --- */

static uint64_t hash_text(const char *text, size_t length) {
  uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
  for (size_t i = 0; i < length; ++i) h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
  return h;
}

const char *site_keep(validate *v, const char *site) {
  if (!site || !*site) return NULL;
  size_t length = strnlen(site, SITE_BYTES - 1);
  uint64_t hash = hash_text(site, length);
  char *known = map_get(&v->sites, NULL, hash);
  for (; known && (strncmp(known, site, length) != 0 || known[length]);
       known = map_get(&v->sites, NULL, hash))
    ++hash; /* another text has this hash */
  if (known) return known;
  if (v->sites.count >= SITES_MAX) return "elsewhere";
  char *kept = v->host->alloc(v->host, length + 1, 1);
  if (!kept) return "elsewhere";
  memcpy(kept, site, length);
  kept[length] = 0;
  if (map_put(&v->sites, NULL, hash, kept)) return kept;
  v->host->free(v->host, kept);
  return "elsewhere";
}

/* --- findings --- */

static report *report_of(validate *v, const report *like) {
  for (uint32_t i = 0; i < v->num_reports; ++i) {
    report *r = &v->reports[i];
    if (r->kind == like->kind && r->op == like->op && r->site == like->site &&
        r->other_op == like->other_op && r->other_site == like->other_site)
      return r;
  }
  if (v->num_reports == REPORTS_MAX) return NULL;
  v->reports[v->num_reports] = *like;
  return &v->reports[v->num_reports++];
}

void find(validate *v, findings *f, report_kind kind, const char *op, const char *site,
          const char *other_op, const char *other_site, const char *format, ...) {
  report like = {kind, op, site, other_op, other_site, 0};
  report *r = report_of(v, &like);
  ++v->totals[kind];
  if (!r) ++v->more_reports;
  bool fresh = r && r->count++ == 0;
  if (f->count == FINDINGS_MAX || (!fresh && !v->fail)) return;
  f->item[f->count].fresh = fresh;
  va_list args;
  va_start(args, format);
  vsnprintf(f->item[f->count].text, TEXT_BYTES, format, args);
  va_end(args);
  ++f->count;
}

tn_status settle(validate *v, const findings *f) {
  for (uint32_t i = 0; i < f->count; ++i)
    if (f->item[i].fresh) v->host->log(v->host, TN_LOG_WARN, "validate: %s", f->item[i].text);
  if (!v->fail || f->count == 0) return TN_OK;
  return v->host->fail(TN_ERR_INVALID_ARGUMENT, "validate: %s", f->item[0].text);
}

static void summarise_report(validate *v, const report *r) {
  char here[SITE_BYTES + 8], there[SITE_BYTES + 8];
  v->host->log(v->host, TN_LOG_WARN, "validate:   %" PRIu64 " x %s: %s%s%s%s%s", r->count,
               kind_names[r->kind], r->op ? r->op : "?", at_site(here, sizeof here, r->site),
               r->other_op ? ", " : "", r->other_op ? r->other_op : "",
               at_site(there, sizeof there, r->other_site));
}

void report_summary(validate *v) {
  uint64_t total = 0;
  for (int k = 0; k < REPORT_KINDS; ++k) total += v->totals[k];
  if (v->undecided || v->forgotten || v->unread)
    v->host->log(v->host, TN_LOG_WARN,
                 "validate: left unchecked: %" PRIu64 " pairs of odd strides, %" PRIu64
                 " accesses beyond the most that are kept, %" PRIu64 " tensors not read back",
                 v->undecided, v->forgotten, v->unread);
  if (total == 0) {
    v->host->log(v->host, TN_LOG_INFO, "validate: nothing to report");
    return;
  }
  uint32_t sorts = v->num_reports + v->num_leak_sorts;
  v->host->log(v->host, TN_LOG_WARN, "validate: %" PRIu64 " finding%s in all, of %u sort%s%s",
               total, total == 1 ? "" : "s", sorts, sorts == 1 ? "" : "s",
               v->num_reports ? ":" : "");
  for (uint32_t i = 0; i < v->num_reports; ++i) summarise_report(v, &v->reports[i]);
  if (v->more_reports)
    v->host->log(v->host, TN_LOG_WARN, "validate:   %" PRIu64 " findings of further sorts",
                 v->more_reports);
}

/* --- words --- */

const char *at_site(char *text, size_t size, const char *site) {
  snprintf(text, size, "%s%s", site ? " at " : "", site ? site : "");
  return text;
}

const char *tensor_text(char *text, size_t size, DLDataType dtype, int32_t rank,
                        const int64_t *shape) {
  static const char *const words[] = {[kDLInt] = "i",
                                      [kDLUInt] = "u",
                                      [kDLFloat] = "f",
                                      [kDLBfloat] = "bf",
                                      [kDLBool] = "bool",
                                      [kDLFloat8_e4m3fn] = "f8_e4m3",
                                      [kDLFloat8_e5m2] = "f8_e5m2"};
  const char *word = dtype.code < sizeof words / sizeof *words ? words[dtype.code] : NULL;
  size_t used = (size_t)snprintf(text, size, word && dtype.code >= kDLBool ? "%s [" : "%s%u [",
                                 word ? word : "?", dtype.bits);
  for (int32_t i = 0; i < rank && used < size; ++i)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i ? ", " : "", shape[i]);
  if (used < size) snprintf(text + used, size - used, "]");
  return text;
}
