/*
 * What no runtime on CUDA can beat: a loop of bare launches of a tiny add, the same
 * through a graph, a loop of launches of a graph of one, a large add and a large copy. JSON lines,
 * to be read beside the figures of bench/dispatch and `tenon bench` from the same run.
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

namespace {

constexpr int rounds = 41, calls = 1000;

void must(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "cuda_floor: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

double now_ns() {
  using clock = std::chrono::steady_clock;
  return std::chrono::duration<double, std::nano>(clock::now().time_since_epoch()).count();
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

void row(const char *what, const char *unit, const std::vector<double> &numbers) {
  double best = *std::min_element(numbers.begin(), numbers.end());
  double worst = *std::max_element(numbers.begin(), numbers.end());
  printf("{\"bench\":\"cuda_floor\",\"what\":\"%s\",\"%s\":%.6g,\"least\":%.6g,\"most\":%.6g}\n",
         what, unit, median(numbers), best, worst);
}

__global__ void add_small(float *y, const float *a, const float *b, long long n) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}

__global__ void add_large(float4 *y, const float4 *a, const float4 *b, long long n) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i >= n) return;
  float4 u = a[i], v = b[i];
  y[i] = make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
}

/* Neither zeros, which are faster than real data, nor anything that repeats in a line. */
__global__ void scramble(float *y, long long n) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  unsigned x = (unsigned)i * 2654435761u;
  x ^= x >> 15;
  if (i < n) y[i] = (float)(x * 2246822519u >> 8) * 0x1p-24f - 0.5f;
}

void launch_small(cudaStream_t stream, float *y, const float *a, const float *b) {
  long long n = 1;
  void *list[] = {&y, &a, &b, &n};
  must(cudaLaunchKernel((const void *)add_small, dim3(1), dim3(256), list, 0, stream), "launch");
}

void measure_launches(cudaStream_t stream, float *y, const float *a, const float *b) {
  std::vector<double> finished, submitted;
  for (int r = 0; r <= rounds; r++) {
    must(cudaStreamSynchronize(stream), "synchronize");
    double begin = now_ns();
    for (int i = 0; i < calls; i++) launch_small(stream, y, a, b);
    double queued = now_ns();
    must(cudaStreamSynchronize(stream), "synchronize");
    if (r == 0) continue; /* the first round loads code */
    submitted.push_back((queued - begin) / calls);
    finished.push_back((now_ns() - begin) / calls);
  }
  row("bare launch loop, one wait at its end", "time_ns", finished);
  row("bare launch loop, submission alone", "time_ns", submitted);
}

cudaGraphExec_t graph_of(int launches, cudaStream_t stream, float *y, const float *a,
                         const float *b) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "begin capture");
  for (int i = 0; i < launches; i++) launch_small(stream, y, a, b);
  must(cudaStreamEndCapture(stream, &graph), "end capture");
  must(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  must(cudaGraphDestroy(graph), "destroy graph");
  return exec;
}

/* What a run of a program of one node is beside. */
void measure_graph_launches(cudaStream_t stream, float *y, const float *a, const float *b) {
  cudaGraphExec_t exec = graph_of(1, stream, y, a, b);
  std::vector<double> finished;
  for (int r = 0; r <= rounds; r++) {
    must(cudaStreamSynchronize(stream), "synchronize");
    double begin = now_ns();
    for (int i = 0; i < calls; i++) must(cudaGraphLaunch(exec, stream), "graph launch");
    must(cudaStreamSynchronize(stream), "synchronize");
    if (r > 0) finished.push_back((now_ns() - begin) / calls);
  }
  row("graph of one bare launch, loop with one wait at its end", "time_ns", finished);
  must(cudaGraphExecDestroy(exec), "destroy graph");
}

void measure_graph(cudaStream_t stream, float *y, const float *a, const float *b) {
  cudaGraphExec_t exec = graph_of(calls, stream, y, a, b);
  std::vector<double> nodes;
  for (int r = 0; r <= rounds; r++) {
    must(cudaStreamSynchronize(stream), "synchronize");
    double begin = now_ns();
    must(cudaGraphLaunch(exec, stream), "graph launch");
    must(cudaStreamSynchronize(stream), "synchronize");
    if (r > 0) nodes.push_back((now_ns() - begin) / calls);
  }
  row("graph of bare launches, per node", "time_ns", nodes);
  must(cudaGraphExecDestroy(exec), "destroy graph");
}

/* `body` moves `bytes` bytes. */
template <class Body>
void measure_bandwidth(cudaStream_t stream, const char *what, double bytes, Body body) {
  cudaEvent_t begin, end;
  must(cudaEventCreate(&begin), "event");
  must(cudaEventCreate(&end), "event");
  std::vector<double> rates;
  for (int r = 0; r <= rounds; r++) {
    float ms = 0;
    must(cudaEventRecord(begin, stream), "record");
    body();
    must(cudaEventRecord(end, stream), "record");
    must(cudaEventSynchronize(end), "wait");
    must(cudaEventElapsedTime(&ms, begin, end), "elapsed");
    if (r > 0) rates.push_back(bytes / (ms * 1e6));
  }
  row(what, "GB_per_s", rates);
  must(cudaEventDestroy(begin), "event");
  must(cudaEventDestroy(end), "event");
}

} // namespace

int main() {
  const long long n = 1ll << 28; /* 1 GiB of float32: far beyond any cache */
  const unsigned blocks = (unsigned)(n / 4 / 256);
  cudaStream_t stream;
  float *a, *b, *y;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  for (float **p : {&a, &b, &y}) {
    must(cudaMalloc(p, n * sizeof(float)), "malloc");
    scramble<<<(unsigned)(n / 256), 256, 0, stream>>>(*p, n);
    must(cudaGetLastError(), "scramble");
  }
  measure_launches(stream, y, a, b);
  measure_graph(stream, y, a, b);
  measure_graph_launches(stream, y, a, b);
  measure_bandwidth(stream, "float32 add, 1 GiB each", 3.0 * n * sizeof(float), [&] {
    add_large<<<blocks, 256, 0, stream>>>((float4 *)y, (const float4 *)a, (const float4 *)b, n / 4);
    must(cudaGetLastError(), "add");
  });
  measure_bandwidth(stream, "device copy, 1 GiB", 2.0 * n * sizeof(float), [&] {
    must(cudaMemcpyAsync(y, a, n * sizeof(float), cudaMemcpyDeviceToDevice, stream), "copy");
  });
  for (float *p : {a, b, y}) must(cudaFree(p), "free");
  must(cudaStreamDestroy(stream), "stream");
}
