/* Most of each kind that one runtime has room for. */
#ifndef TENON_DISPATCHER_LIMITS_H
#define TENON_DISPATCHER_LIMITS_H

enum {
  OPS_MAX = 1024,         /* operator numbers below this */
  OPS_PLUGIN_FIRST = 512, /* numbers from here on are given to plugins' operators */
  DEVICE_TYPES_MAX = 16,
  DEVICES_MAX = 64,
  ATTRS_MAX = 256, /* bytes of an attribute struct */
};

#endif
