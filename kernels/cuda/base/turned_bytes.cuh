/* Bytes that turn in registers. */
#ifndef KERNELS_CUDA_TURNED_BYTES_CUH
#define KERNELS_CUDA_TURNED_BYTES_CUH

namespace {

/* Four rows of four bytes become four columns. */
__device__ __forceinline__ void turn_bytes(const unsigned *row, unsigned *column) {
  const unsigned a = __byte_perm(row[0], row[1], 0x5140), b = __byte_perm(row[2], row[3], 0x5140);
  const unsigned c = __byte_perm(row[0], row[1], 0x7362), d = __byte_perm(row[2], row[3], 0x7362);
  column[0] = __byte_perm(a, b, 0x5410);
  column[1] = __byte_perm(a, b, 0x7632);
  column[2] = __byte_perm(c, d, 0x5410);
  column[3] = __byte_perm(c, d, 0x7632);
}

} // namespace

#endif /* KERNELS_CUDA_TURNED_BYTES_CUH */
