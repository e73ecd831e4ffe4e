/* The list of the checks of slots, in the order in which they run. */
#include "backend.h"

const slot_check slot_checks[] = {
    {"device", false, NULL, "count, describe, open, close"},
    {"queues", true, check_queues, "order in a queue, queue_wait"},
    {"events", true, check_events, "event_record, event_query, event_wait"},
    {"elapsed", true, check_elapsed, "event_elapsed against the host's clock"},
    {"waits", true, check_waits, "queue_wait_event between queues"},
    {"threads", true, check_threads, "several threads on one queue, and on several"},
    {"many", true, check_many, "many events and queues, at once and in turn"},
    {"program", true, check_program, "random copies and waits over several queues"},
    {"wrap", true, check_wrap, "queue_wrap: two queues around one handle"},
    {"capture", true, check_capture, "capture_begin to graph_destroy"},
};
const uint32_t num_slot_checks = sizeof slot_checks / sizeof *slot_checks;
