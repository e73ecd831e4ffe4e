/*
 * OpenCL's error codes as Tenon's statuses, with the code's name in the message.
 */
#include "opencl.h"

#define NAME(code)                                                                                 \
  case code:                                                                                       \
    return #code

const char *ocl_error_name(cl_int error) {
  switch (error) {
    NAME(CL_SUCCESS);
    NAME(CL_DEVICE_NOT_FOUND);
    NAME(CL_DEVICE_NOT_AVAILABLE);
    NAME(CL_COMPILER_NOT_AVAILABLE);
    NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE);
    NAME(CL_OUT_OF_RESOURCES);
    NAME(CL_OUT_OF_HOST_MEMORY);
    NAME(CL_PROFILING_INFO_NOT_AVAILABLE);
    NAME(CL_MEM_COPY_OVERLAP);
    NAME(CL_BUILD_PROGRAM_FAILURE);
    NAME(CL_MAP_FAILURE);
    NAME(CL_MISALIGNED_SUB_BUFFER_OFFSET);
    NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
    NAME(CL_LINK_PROGRAM_FAILURE);
    NAME(CL_INVALID_VALUE);
    NAME(CL_INVALID_PLATFORM);
    NAME(CL_INVALID_DEVICE);
    NAME(CL_INVALID_CONTEXT);
    NAME(CL_INVALID_QUEUE_PROPERTIES);
    NAME(CL_INVALID_COMMAND_QUEUE);
    NAME(CL_INVALID_MEM_OBJECT);
    NAME(CL_INVALID_BINARY);
    NAME(CL_INVALID_BUILD_OPTIONS);
    NAME(CL_INVALID_PROGRAM);
    NAME(CL_INVALID_PROGRAM_EXECUTABLE);
    NAME(CL_INVALID_KERNEL_NAME);
    NAME(CL_INVALID_KERNEL);
    NAME(CL_INVALID_ARG_INDEX);
    NAME(CL_INVALID_ARG_VALUE);
    NAME(CL_INVALID_ARG_SIZE);
    NAME(CL_INVALID_KERNEL_ARGS);
    NAME(CL_INVALID_WORK_DIMENSION);
    NAME(CL_INVALID_WORK_GROUP_SIZE);
    NAME(CL_INVALID_WORK_ITEM_SIZE);
    NAME(CL_INVALID_GLOBAL_OFFSET);
    NAME(CL_INVALID_EVENT_WAIT_LIST);
    NAME(CL_INVALID_EVENT);
    NAME(CL_INVALID_OPERATION);
    NAME(CL_INVALID_BUFFER_SIZE);
    NAME(CL_INVALID_GLOBAL_WORK_SIZE);
    NAME(CL_INVALID_PROPERTY);
  case -1001: /* cl_khr_icd */
    return "CL_PLATFORM_NOT_FOUND_KHR";
  default:
    return "unknown error";
  }
}

static tn_status status_of(cl_int error) {
  switch (error) {
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
  case CL_INVALID_BUFFER_SIZE: /* larger than the device takes */
    return TN_ERR_DEVICE_OUT_OF_MEMORY;
  case CL_OUT_OF_HOST_MEMORY:
    return TN_ERR_OUT_OF_MEMORY;
  case CL_DEVICE_NOT_AVAILABLE:
  case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: /* work before this ended abnormally */
    return TN_ERR_DEVICE_LOST;
  default:
    return TN_ERR_BACKEND;
  }
}

tn_status ocl_status(const tn_host *host, cl_int error, const char *call) {
  if (error == CL_SUCCESS) return TN_OK;
  return host->fail(status_of(error), "%s: %s (%d)", call, ocl_error_name(error), (int)error);
}
