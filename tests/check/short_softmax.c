/*
 * The template's kernels, whose softmax asks for one number of workspace less than it uses: in the
 * memory of a device that is not the host's, where no page traps. They are compiled with their own
 * function under another name, which this one takes.
 */
#include "tenon/plugin.h"

tn_status whole_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status sim_softmax_workspace(const tn_kernel_args *args, size_t *bytes);
tn_status sim_softmax_workspace(const tn_kernel_args *args, size_t *bytes) {
  tn_status status = whole_workspace(args, bytes);
  *bytes -= *bytes > sizeof(double) ? sizeof(double) : 0;
  return status;
}
