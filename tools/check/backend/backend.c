/* The list of the checks of slots, in the order in which they run. */
#include "backend.h"

#include "memory.h"

const slot_check slot_checks[] = {
    {"device", false, NULL, "count, describe, open, close"},
    {"memory.blocks", false, check_memory_blocks, "aligned, apart, kept"},
    {"memory.limits", false, check_memory_limits, "more than there is"},
    {"memory.info", false, check_memory_info, "free and total"},
    {"memory.copies", false, check_memory_copies, "offsets, sizes, directions"},
    {"memory.order", false, check_memory_order, "pageable memory, order of copies"},
    {"memory.pinned", false, check_memory_pinned, "pinned memory, order of copies"},
    {"queues", true, check_queues, "order in a queue, queue_wait"},
    {"events", true, check_events, "event_record, event_query, event_wait"},
    {"elapsed", true, check_elapsed, "event_elapsed against the host's clock"},
    {"waits", true, check_waits, "queue_wait_event between queues"},
    {"threads", true, check_threads, "several threads on one queue, and on several"},
    {"many", true, check_many, "many events and queues, at once and in turn"},
    {"program", true, check_program, "random copies and waits over several queues"},
    {"streams", true, check_streams, "operators on several streams and threads"},
    {"wrap", true, check_wrap, "queue_wrap: two queues around one handle"},
    {"capture", true, check_capture, "capture_begin to graph_destroy"},
    {"memory.leaks", false, check_memory_leaks, "what calls leave behind"},
    {"memory.reopen", false, check_memory_reopen, "what open and close leave behind"},
};
const uint32_t num_slot_checks = sizeof slot_checks / sizeof *slot_checks;
