/* Most of each kind that one runtime has room for. */
#ifndef TENON_DISPATCHER_LIMITS_H
#define TENON_DISPATCHER_LIMITS_H

enum {
  OPS_MAX = 1024,         /* operator numbers below this */
  OPS_PLUGIN_FIRST = 512, /* numbers from here on are given to plugins' operators */
  DEVICE_TYPES_MAX = 16,
  DEVICES_OF_TYPE_MAX = 64, /* told in plugin.h, as are the types */
  DEVICES_MAX = DEVICE_TYPES_MAX * DEVICES_OF_TYPE_MAX,
  ATTRS_MAX = 256, /* bytes of an attribute struct */
};

#endif
