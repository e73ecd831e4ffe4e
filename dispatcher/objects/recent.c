/* See recent.h. */
#include "dispatcher/objects/recent.h"

#include <stdio.h>

void recent_text(const recent_calls *calls, const tn_device *device, char *text, size_t size) {
  uint32_t next = atomic_load(&calls->next), told = 0;
  size_t used = 0;
  text[0] = 0;
  for (uint32_t i = 1; i <= RECENT_CALLS && told < RECENT_TOLD && used < size; ++i) {
    uint32_t at = (next - i) % RECENT_CALLS;
    if (atomic_load(&calls->call[at].device) != device) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s", told++ ? ", " : "",
                             atomic_load(&calls->call[at].op));
  }
}
