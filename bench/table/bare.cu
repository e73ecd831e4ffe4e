/*
 * The bare libraries' side of bench/table: cuBLASLt with what its heuristics put first, copies, and
 * a launch. Commands and answers as in serve.c:
 *
 *   gemm TYPE M N K BATCH TRANS_A TRANS_B   TYPE: f32 tf32 f16 bf16 i8; row-major, as Tenon's
 * matmul copy BYTES | between BYTES | launch BYTES time MS | host | drop
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cublasLt.h>
#include <cuda_runtime.h>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

cudaStream_t stream;
cublasLtHandle_t blas;
std::function<void()> call;
std::vector<void *> memory; /* of this device */
void *beyond = nullptr;     /* of the next */
long calls = 0;             /* in about a millisecond */

void must(cudaError_t error, const char *what) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

void must(cublasStatus_t status, const char *what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(what) + ": " + cublasLtGetStatusString(status));
}

double now_ns() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::nano>(clock::now().time_since_epoch()).count();
}

__device__ unsigned mixed(long long i) {
  unsigned x = (unsigned)i * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  return x ^ x >> 13;
}

/* Numbers in -1..1 of each type, whole ones in -100..100. */
__global__ void scramble(void *to, long long n, cudaDataType_t type) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < n; i += gridDim.x * 256ll) {
    const unsigned x = mixed(i);
    const float y = (float)(x >> 8) * 0x1p-23f - 1;
    if (type == CUDA_R_32F) ((float *)to)[i] = y;
    if (type == CUDA_R_8I) ((signed char *)to)[i] = (signed char)(y * 100);
    if (type == CUDA_R_16BF) ((unsigned short *)to)[i] = (unsigned short)(__float_as_uint(y) >> 16);
    /* sign, an exponent of 2^-4 to 2^-1, and a mantissa */
    if (type == CUDA_R_16F)
      ((unsigned short *)to)[i] = (unsigned short)((x & 0x83ff) | (11 + (x >> 16) % 4) << 10);
  }
}

/* What operators' kernels have as parameters counts in a launch. */
template <int BYTES> struct parameters { int v[BYTES / 4]; };
template <int BYTES> __global__ void nothing(const __grid_constant__ parameters<BYTES>) {}

template <int BYTES> void launch() {
  static const parameters<BYTES> none = {};
  nothing<BYTES><<<1, 256, 0, stream>>>(none);
}

size_t size_of(cudaDataType_t type) {
  return type == CUDA_R_8I ? 1 : type == CUDA_R_32F || type == CUDA_R_32I ? 4 : 2;
}

void *take(size_t bytes) {
  void *p = nullptr;
  must(cudaMalloc(&p, bytes), "cudaMalloc");
  memory.push_back(p);
  return p;
}

void *take_random(long long n, cudaDataType_t type) {
  void *p = take((size_t)n * size_of(type));
  scramble<<<4096, 256, 0, stream>>>(p, n, type);
  must(cudaGetLastError(), "scramble");
  return p;
}

void drop() {
  (void)cudaDeviceSynchronize();
  for (void *p : memory) (void)cudaFree(p);
  if (beyond) (void)cudaFree(beyond);
  memory.clear();
  beyond = nullptr;
  call = nullptr;
  calls = 0;
}

cublasLtMatrixLayout_t layout_of(cudaDataType_t type, long rows, long columns, long batch) {
  cublasLtMatrixLayout_t l;
  const int count = (int)batch;
  const long long stride = (long long)rows * columns;
  must(cublasLtMatrixLayoutCreate(&l, type, (uint64_t)rows, (uint64_t)columns, rows), "layout");
  must(
      cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
      "batch");
  must(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                        sizeof stride),
       "stride");
  return l;
}

/* In columns, as cuBLASLt counts: the transposed result of the swapped operands. */
void make_gemm(const std::string &name, long m, long n, long k, long batch, bool trans_a,
               bool trans_b) {
  const bool whole = name == "i8";
  const cudaDataType_t type = whole            ? CUDA_R_8I
                              : name == "f16"  ? CUDA_R_16F
                              : name == "bf16" ? CUDA_R_16BF
                                               : CUDA_R_32F;
  const cudaDataType_t out = whole ? CUDA_R_32I : type;
  const cublasComputeType_t compute = whole            ? CUBLAS_COMPUTE_32I
                                      : name == "tf32" ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                       : CUBLAS_COMPUTE_32F;
  const size_t room = 32u << 20;
  cublasLtMatmulDesc_t desc;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  void *a = take_random(batch * m * k, type), *b = take_random(batch * k * n, type);
  void *y = take((size_t)(batch * m * n) * size_of(out)), *workspace = take(room);
  must(cublasLtMatmulDescCreate(&desc, compute, whole ? CUDA_R_32I : CUDA_R_32F), "descriptor");
  const cublasOperation_t left = trans_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t right = trans_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  must(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left),
       "left");
  must(cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right),
       "right");
  auto l = trans_b ? layout_of(type, k, n, batch) : layout_of(type, n, k, batch);
  auto r = trans_a ? layout_of(type, m, k, batch) : layout_of(type, k, m, batch);
  auto c = layout_of(out, n, m, batch);
  must(cublasLtMatmulPreferenceCreate(&preference), "preference");
  must(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                            &room, sizeof room),
       "workspace");
  must(cublasLtMatmulAlgoGetHeuristic(blas, desc, l, r, c, c, preference, 1, &found, &count),
       "heuristic");
  if (!count) throw std::runtime_error("cuBLASLt has no algorithm");
  (void)cublasLtMatmulPreferenceDestroy(preference);
  call = [=] { /* descriptors stay for the process: they are few */
               static const float one = 1, zero = 0;
               static const int whole_one = 1, whole_zero = 0;
               const void *alpha = whole ? (const void *)&whole_one : &one;
               const void *beta = whole ? (const void *)&whole_zero : &zero;
               must(cublasLtMatmul(blas, desc, alpha, b, l, a, r, beta, y, c, y, c, &found.algo,
                                   workspace, room, stream),
                    "cublasLtMatmul");
  };
}

void make_copy(long long bytes) {
  void *from = take_random(bytes / 4, CUDA_R_32F), *to = take((size_t)bytes);
  call = [=] {
    must(cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  };
}

void make_between(long long bytes) {
  int count = 0, can = 0;
  must(cudaGetDeviceCount(&count), "devices");
  if (count < 2) throw std::runtime_error("there is one GPU");
  void *from = take_random(bytes / 4, CUDA_R_32F);
  must(cudaDeviceCanAccessPeer(&can, 0, 1), "peer");
  if (can) (void)cudaDeviceEnablePeerAccess(1, 0);
  must(cudaSetDevice(1), "device 1");
  const cudaError_t made = cudaMalloc(&beyond, (size_t)bytes);
  if (can) (void)cudaDeviceEnablePeerAccess(0, 0);
  must(cudaSetDevice(0), "device 0");
  (void)cudaGetLastError(); /* access was there already */
  must(made, "cudaMalloc on device 1");
  void *to = beyond;
  call = [=] { must(cudaMemcpyPeerAsync(to, 1, from, 0, (size_t)bytes, stream), "copy"); };
}

/* Of a kernel that does nothing, with that many bytes of parameters or the next of these numbers.
 */
void make_launch(long long bytes) {
  call = bytes <= 4     ? launch<4>
         : bytes <= 48  ? launch<48>
         : bytes <= 128 ? launch<128>
         : bytes <= 352 ? launch<352>
                        : launch<832>;
}

double round_ns(long count) {
  const double begin = now_ns();
  for (long i = 0; i < count; i++) call();
  must(cudaStreamSynchronize(stream), "synchronize");
  return (now_ns() - begin) / (double)count;
}

/* The least of some tries, as in serve.c. */
double about_ns() {
  constexpr int tries = 4;
  constexpr double long_ns = 5e7;
  double least = round_ns(1);
  for (int i = 0; i < tries && least < long_ns; i++)
    least = std::min(least, round_ns(least < 1e6 ? 20 : 1));
  return least;
}

double timed(double ms) {
  if (!call) throw std::runtime_error("nothing was made");
  if (!calls) calls = (long)(1e6 / about_ns()) + 1;
  const long count = calls > 1 ? (long)((double)calls * ms) + 1 : 1 + (ms > 10);
  if (calls > 1) (void)round_ns(count / 4 + 1);
  return round_ns(count);
}

double submitted() {
  enum { BATCHES = 15, CALLS = 60, FIRST = 10 };
  std::vector<double> ns;
  if (!call) throw std::runtime_error("nothing was made");
  for (int b = 0; b < BATCHES; b++) {
    (void)round_ns(FIRST);
    const double begin = now_ns();
    for (int i = 0; i < CALLS; i++) call();
    ns.push_back((now_ns() - begin) / CALLS);
    must(cudaStreamSynchronize(stream), "synchronize");
  }
  std::nth_element(ns.begin(), ns.begin() + BATCHES / 2, ns.end());
  return ns[BATCHES / 2];
}

void warm_up() {
  call();
  call();
  must(cudaStreamSynchronize(stream), "synchronize");
  puts("ok");
}

void obey(const char *line) {
  char type[8] = "";
  long m, n, k, batch;
  int trans_a, trans_b;
  long long bytes;
  double ms;
  if (!strncmp(line, "time", 4) && sscanf(line, "time %lf", &ms) == 1) {
    printf("ok %.6g\n", timed(ms));
  } else if (!strncmp(line, "host", 4)) {
    printf("ok %.6g\n", submitted());
  } else {
    drop();
    if (sscanf(line, "gemm %7s %ld %ld %ld %ld %d %d", type, &m, &n, &k, &batch, &trans_a,
               &trans_b) == 7)
      make_gemm(type, m, n, k, batch, trans_a, trans_b);
    else if (sscanf(line, "copy %lld", &bytes) == 1)
      make_copy(bytes);
    else if (sscanf(line, "between %lld", &bytes) == 1)
      make_between(bytes);
    else if (sscanf(line, "launch %lld", &bytes) == 1)
      make_launch(bytes);
    else if (!strncmp(line, "drop", 4))
      return (void)puts("ok");
    else
      throw std::runtime_error("no such command");
    warm_up();
  }
}

} // namespace

int main() {
  char line[512];
  try {
    must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    must(cublasLtCreate(&blas), "cublasLtCreate");
  } catch (const std::exception &e) {
    fprintf(stderr, "bare: %s\n", e.what());
    return 1;
  }
  while (fgets(line, sizeof line, stdin)) {
    try {
      obey(line);
    } catch (const std::exception &e) {
      printf("error %s\n", e.what());
      drop();
    }
    fflush(stdout);
  }
  drop();
}
