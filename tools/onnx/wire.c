/*
 * A walk over a message before it is unpacked. protobuf-c holds lengths to the bytes that are left,
 * but goes as deep as the file says, and a few bytes of a file can be a struct of hundreds.
 */
#include <protobuf-c/protobuf-c.h>

#include "lib.h"

typedef struct walk {
  uint64_t memory, limit; /* that unpacking takes, and may take */
  const char *wrong;
} walk;

typedef struct span {
  const uint8_t *at, *end;
} span;

static bool refuse(walk *w, const char *why) {
  if (!w->wrong) w->wrong = why;
  return false;
}

static bool take_varint(walk *w, span *s, uint64_t *number) {
  *number = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (s->at == s->end) return refuse(w, "it ends inside a number");
    uint8_t byte = *s->at++;
    if (shift < 64) *number |= (uint64_t)(byte & 127) << shift;
    if (!(byte & 128)) return true;
  }
  return refuse(w, "a number of more than ten bytes");
}

static bool skip_bytes(walk *w, span *s, uint64_t bytes) {
  if (bytes > (uint64_t)(s->end - s->at)) return refuse(w, "a length beyond the end");
  s->at += bytes;
  return true;
}

/* What a field of scalars takes: packed ones are a byte each at the least. */
static uint64_t packed_memory(const ProtobufCFieldDescriptor *field, uint64_t bytes) {
  switch (field->type) {
  case PROTOBUF_C_TYPE_INT64:
  case PROTOBUF_C_TYPE_UINT64:
    return 8 * bytes;
  case PROTOBUF_C_TYPE_INT32:
    return 4 * bytes;
  default:
    return bytes;
  }
}

static bool message_walk(walk *w, const ProtobufCMessageDescriptor *type, span s, int depth);

static bool field_walk(walk *w, const ProtobufCMessageDescriptor *type, span *s, int depth) {
  uint64_t tag, number;
  if (!take_varint(w, s, &tag)) return false;
  if (tag >> 3 == 0 || tag >> 3 > 536870911) return refuse(w, "a field without a number");
  const ProtobufCFieldDescriptor *field =
      protobuf_c_message_descriptor_get_field(type, (unsigned)(tag >> 3));
  w->memory += field ? 8 : 48;
  switch (tag & 7) {
  case 0:
    return take_varint(w, s, &number);
  case 1:
    return skip_bytes(w, s, 8);
  case 5:
    return skip_bytes(w, s, 4);
  case 2:
    break;
  default:
    return refuse(w, "a field of no known kind");
  }
  if (!take_varint(w, s, &number)) return false;
  span inside = {s->at, s->at};
  if (!skip_bytes(w, s, number)) return false;
  inside.end = s->at;
  if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
    return message_walk(w, field->descriptor, inside, depth + 1);
  w->memory += field ? packed_memory(field, number) : number;
  return true;
}

static bool message_walk(walk *w, const ProtobufCMessageDescriptor *type, span s, int depth) {
  /* A graph inside a graph is three messages deeper. */
  if (depth > 4 * MAX_DEPTH) return refuse(w, "messages inside messages without end");
  w->memory += type->sizeof_message;
  while (s.at < s.end) {
    if (!field_walk(w, type, &s, depth)) return false;
    if (w->memory > w->limit) return refuse(w, "more parts than a file of its size has");
  }
  return true;
}

tn_status wire_check(const uint8_t *data, size_t bytes) {
  walk w = {.limit = 4 * (uint64_t)bytes + (16 << 20)};
  span all = {data, data + bytes};
  if (message_walk(&w, &onnx__model__descriptor, all, 0)) return TN_OK;
  return onnx_fail(TN_ERR_INVALID_ARGUMENT, "this is no ONNX model, or a damaged one: %s", w.wrong);
}
