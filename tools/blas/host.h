/* The BLAS of the CPU, which computes whatever does not go to a device. */
#ifndef TENON_BLAS_HOST_H
#define TENON_BLAS_HOST_H

/* Finds it and fills `hosts`; ends the process with a message where there is none. Returns its
 * handle. */
void *host_open(void);
/* Its file. */
const char *host_path(void);

#endif
