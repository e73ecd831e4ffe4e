# shellcheck shell=sh
# The rooms of the dispatcher, lowest first, each with the rooms below that it may include from
# and call. Sourced by includes.sh and calls.sh; docs/architecture.md draws it.
dispatcher_rooms='
base:
memory:   base
registry: base
shape:    base
load:     base
scanner:  base load
objects:  base registry
notify:   base registry objects
device:   base memory registry load objects notify
plugins:  base memory registry load scanner objects notify device
tensor:   base memory registry shape objects notify device plugins
files:    base objects device tensor
layers:   base registry objects notify device plugins tensor
call:     base memory registry shape objects notify device plugins tensor
composite: base objects tensor call
runtime:  base memory registry load objects notify device plugins tensor layers call
'

# The rooms below dispatcher room $1, where it is one.
rooms_below() {
  echo "$dispatcher_rooms" | sed -n "s/^$1: *//p"
}

# What is wrong with the list itself: a room that names one which does not stand before it.
misplaced_rooms() {
  echo "$dispatcher_rooms" | awk '
    NF { room = substr($1, 1, length($1) - 1)
         for (i = 2; i <= NF; i++)
           if (!($i in before)) print "rooms.sh: " room " names " $i ", which is not below it"
         before[room] = 1 }'
}
