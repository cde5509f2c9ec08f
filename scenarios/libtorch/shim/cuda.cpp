// The GPU: facts, context, settings, events, memory statistics, graphs.
//
// Uses libtorch's functions wherever there is one, so that a build needs no CUDA
// library. The questions that only the CUDA runtime answers are asked through
// `dlsym`: whichever runtime libtorch brought along has been loaded by then.
#include "cuda.h"
#include "mover.h"

// The wheels for Linux are built with this; without it the allocator's header says
// that expandable segments are off, whatever the allocator does.
#ifndef PYTORCH_C10_DRIVER_API_SUPPORTED
#define PYTORCH_C10_DRIVER_API_SUPPORTED
#endif

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/empty.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/csrc/cuda/memory_snapshot.h>
#include <torch/version.h>

#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

using torchgauge::guarded;

namespace at::cuda {
// Declared in ATen/cuda/CUDAContextLight.h, which also wants the headers of cuBLAS,
// cuSPARSE and cuSOLVER.
TORCH_CUDA_CPP_API cudaDeviceProp* getDeviceProperties(c10::DeviceIndex device);
} // namespace at::cuda

namespace allocator = c10::cuda::CUDACachingAllocator;

// The settings moved to the allocators' common base in 2.10.
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 10
using AllocatorConfig = c10::CachingAllocator::AcceleratorAllocatorConfig;
#else
using AllocatorConfig = allocator::CUDAAllocatorConfig;
#endif

struct SideStream {
  explicit SideStream(c10::Stream stream) : guard(stream) {}
  c10::StreamGuard guard;
};

struct Copier {
  c10::Stream stream;
};

struct CudaGraph {
  CudaGraph() : device(c10::cuda::current_device()), pool(at::cuda::graph_pool_handle()) {}
  ~CudaGraph() {
    if (failed) {
      // The allocators may still ask this graph whether a stream belongs to it.
      (void)graph.release();
    }
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;

  // Undoes what `capture_begin` began and `capture_end` left undone by throwing: the
  // allocator's filter for the graph's pool, and the generator's waiting for the end.
  void give_up() noexcept {
    failed = true;
    try {
      allocator::endAllocateToPool(device, pool);
      allocator::releasePool(device, pool);
    } catch (const std::exception&) {
      // It had ended already.
    }
    try {
      at::Generator generator = at::globalContext().defaultGenerator(
          c10::Device(c10::DeviceType::CUDA, device));
      const std::lock_guard<std::mutex> lock(generator.mutex());
      generator.graphsafe_set_state(generator.clone());
    } catch (const std::exception&) {
      // The first failure is the one to report.
    }
  }

  std::unique_ptr<at::cuda::CUDAGraph> graph = std::make_unique<at::cuda::CUDAGraph>();
  c10::DeviceIndex device;
  decltype(at::cuda::graph_pool_handle()) pool;
  bool failed = false;
};

namespace {

bool expandable_segments() {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 10
  return AllocatorConfig::use_expandable_segments();
#else
  return AllocatorConfig::expandable_segments();
#endif
}

// A function of the CUDA runtime that libtorch loaded.
template <typename Function>
Function* runtime(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  TORCH_CHECK(found != nullptr, "the CUDA runtime that libtorch loaded has no ", name);
  return reinterpret_cast<Function*>(found);
}

void check(cudaError_t result, const char* name) {
  if (result != cudaSuccess) {
    const char* words = runtime<const char*(cudaError_t)>("cudaGetErrorString")(result);
    // Read, so that it does not turn up in a later, innocent call.
    runtime<cudaError_t()>("cudaGetLastError")();
    TORCH_CHECK(false, "CUDA error: ", words, " (", name, ")");
  }
}

int version(const char* name) {
  int result = 0;
  check(runtime<cudaError_t(int*)>(name)(&result), name);
  return result;
}

// The GPU's index, once libtorch is ready to work on it.
c10::DeviceIndex gpu(int32_t index) {
  const int32_t count = c10::cuda::device_count();
  TORCH_CHECK(
      index >= 0 && index < count, "no CUDA device ", index, ": libtorch sees ", count, " of them");
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return static_cast<c10::DeviceIndex>(index);
}

std::mutex shortage_guard;
std::optional<Shortage> last_shortage;

std::mutex history_guard;
bool has_history = false;
std::string snapshot;

void keep_snapshot() {
  const std::lock_guard<std::mutex> lock(history_guard);
  if (has_history) {
    snapshot = torch::cuda::_memory_snapshot_pickled();
  }
}

void remember_shortage(
    c10::DeviceIndex device, size_t requested, size_t capacity, size_t free) noexcept {
  try {
    // The allocator calls this without its lock.
    const auto stats = allocator::getDeviceStats(device);
    constexpr size_t all = 0;
    const std::lock_guard<std::mutex> lock(shortage_guard);
    last_shortage = Shortage{
        requested,
        free,
        capacity,
        static_cast<uint64_t>(stats.allocated_bytes[all].current),
        static_cast<uint64_t>(stats.reserved_bytes[all].current)};
    keep_snapshot();
  } catch (const std::exception&) {
    // The allocation fails all the same, and its message says most of it.
  }
}

template <size_t N>
void copy_text(const std::string& text, char (&target)[N]) {
  const size_t length = std::min(text.size(), N - 1);
  std::memcpy(target, text.data(), length);
  target[length] = '\0';
}

} // namespace

void torchgauge::pin(void* address, size_t bytes) {
  const auto pin = runtime<cudaError_t(void*, size_t, unsigned)>("cudaHostRegister");
  check(pin(address, bytes, /*flags=*/0), "cudaHostRegister");
}

void torchgauge::unpin(void* address) noexcept {
  // Nobody can act upon a failure; the process ends with its memory.
  if (void* found = dlsym(RTLD_DEFAULT, "cudaHostUnregister")) {
    reinterpret_cast<cudaError_t (*)(void*)>(found)(address);
  }
}

extern "C" {

bool torchgauge_cuda_built() noexcept {
  return true;
}

void torchgauge_cuda_device_count(int32_t* count, Failure* failure) noexcept {
  guarded(failure, [&] { *count = c10::cuda::device_count(); });
}

void torchgauge_cuda_facts(int32_t index, CudaFacts* facts, Failure* failure) noexcept {
  guarded(failure, [&] {
    const cudaDeviceProp* properties = at::cuda::getDeviceProperties(gpu(index));
    copy_text(properties->name, facts->name);
    static_assert(sizeof(properties->uuid.bytes) == sizeof(facts->uuid));
    std::memcpy(facts->uuid, properties->uuid.bytes, sizeof(facts->uuid));
    facts->major = properties->major;
    facts->minor = properties->minor;
    facts->multiprocessors = properties->multiProcessorCount;
    facts->total_memory_bytes = properties->totalGlobalMem;
    facts->runtime_version = version("cudaRuntimeGetVersion");
    facts->driver_version = version("cudaDriverGetVersion");
    const auto& hooks = at::detail::getCUDAHooks();
    facts->cudnn_version = hooks.hasCuDNN() ? static_cast<int64_t>(hooks.versionCuDNN()) : -1;
    // By its name: libtorch may be built without NCCL.
    void* nccl = dlsym(RTLD_DEFAULT, "ncclGetVersion");
    facts->nccl_version = 0;
    if (nccl != nullptr) {
      reinterpret_cast<int (*)(int*)>(nccl)(&facts->nccl_version);
    }
  });
}

// From here on NCCL writes to a file what it chooses for each collective. Its debug level is read
// once, when it starts, and again after this call, which newer versions have (2.28 has, 2.21 not).
void torchgauge_nccl_explain(const char* file, bool* explains, Failure* failure) noexcept {
  guarded(failure, [&] {
    void* reset = dlsym(RTLD_DEFAULT, "ncclResetDebugInit");
    *explains = reset != nullptr;
    if (*explains) {
      setenv("NCCL_DEBUG", "INFO", 1);
      setenv("NCCL_DEBUG_SUBSYS", "TUNING", 1);
      setenv("NCCL_DEBUG_FILE", file, 1);
      reinterpret_cast<void (*)()>(reset)();
    }
  });
}

void torchgauge_cuda_start(int32_t index, Failure* failure) noexcept {
  guarded(failure, [&] {
    c10::cuda::set_device(gpu(index));
    // The first call that needs the context makes it.
    c10::cuda::device_synchronize();
  });
}

void torchgauge_cuda_synchronize(Failure* failure) noexcept {
  guarded(failure, [&] { c10::cuda::device_synchronize(); });
}

void torchgauge_cuda_memory_info(
    int32_t index, uint64_t* free_bytes, uint64_t* total_bytes, Failure* failure) noexcept {
  guarded(failure, [&] {
    const c10::DeviceGuard guard(c10::Device(c10::DeviceType::CUDA, gpu(index)));
    size_t free = 0;
    size_t total = 0;
    check(
        runtime<cudaError_t(size_t*, size_t*)>("cudaMemGetInfo")(&free, &total), "cudaMemGetInfo");
    *free_bytes = free;
    *total_bytes = total;
  });
}

void torchgauge_cuda_set_tf32(bool matmul, bool cudnn, Failure* failure) noexcept {
  guarded(failure, [&] {
    at::globalContext().setAllowTF32CuBLAS(matmul);
    at::globalContext().setAllowTF32CuDNN(cudnn);
  });
}

void torchgauge_cuda_tf32(bool* matmul, bool* cudnn, Failure* failure) noexcept {
  guarded(failure, [&] {
    *matmul = at::globalContext().allowTF32CuBLAS();
    *cudnn = at::globalContext().allowTF32CuDNN();
  });
}

void torchgauge_cuda_set_cudnn_benchmark(bool on, Failure* failure) noexcept {
  guarded(failure, [&] { at::globalContext().setBenchmarkCuDNN(on); });
}

void torchgauge_cuda_empty_cache(Failure* failure) noexcept {
  guarded(failure, [&] { allocator::emptyCache(); });
}

void torchgauge_cuda_set_memory_fraction(
    int32_t index, double fraction, Failure* failure) noexcept {
  guarded(failure, [&] { allocator::setMemoryFraction(fraction, gpu(index)); });
}

void torchgauge_cuda_device_stats(int32_t index, DeviceStats* stats, Failure* failure) noexcept {
  guarded(failure, [&] {
    const auto read = allocator::getDeviceStats(gpu(index));
    // Every statistic has one entry over all pools, then one for each pool.
    constexpr size_t all = 0;
    stats->allocated_bytes = read.allocated_bytes[all].current;
    stats->peak_allocated_bytes = read.allocated_bytes[all].peak;
    stats->reserved_bytes = read.reserved_bytes[all].current;
    stats->peak_reserved_bytes = read.reserved_bytes[all].peak;
    stats->retries = read.num_alloc_retries;
    stats->out_of_memory = read.num_ooms;
    stats->device_allocations = read.num_device_alloc;
    stats->device_frees = read.num_device_free;
    stats->requested_bytes = read.requested_bytes[all].current;
    stats->peak_requested_bytes = read.requested_bytes[all].peak;
    stats->active_bytes = read.active_bytes[all].current;
    stats->peak_active_bytes = read.active_bytes[all].peak;
    stats->inactive_split_bytes = read.inactive_split_bytes[all].current;
    stats->peak_inactive_split_bytes = read.inactive_split_bytes[all].peak;
    stats->segments = read.segment[all].current;
    stats->peak_segments = read.segment[all].peak;
    stats->counts_blocks = allocator::name() == "native";
  });
}

void torchgauge_cuda_watch_shortages(int32_t index, Failure* failure) noexcept {
  guarded(failure, [&] {
    // The allocators of all GPUs are there once the first one is ready.
    gpu(index);
    static std::once_flag once;
    if (allocator::name() != "native") {
      return;
    }
    std::call_once(once, [] {
      allocator::attachOutOfMemoryObserver(
          [](int64_t device, size_t requested, size_t capacity, size_t free) {
            remember_shortage(static_cast<c10::DeviceIndex>(device), requested, capacity, free);
          });
    });
  });
}

bool torchgauge_cuda_last_shortage(Shortage* shortage) noexcept {
  const std::lock_guard<std::mutex> lock(shortage_guard);
  if (!last_shortage) {
    return false;
  }
  *shortage = *last_shortage;
  return true;
}

void torchgauge_cuda_reset_peak(int32_t index, Failure* failure) noexcept {
  guarded(failure, [&] { allocator::resetPeakStats(gpu(index)); });
}

void torchgauge_cuda_largest_free_block(
    int32_t index, uint64_t* bytes, Failure* failure) noexcept {
  guarded(failure, [&] {
    // From 0 on the allocator would begin with what the GPU has free.
    size_t largest = 1;
    allocator::cacheInfo(gpu(index), &largest);
    *bytes = largest > 1 ? largest : 0;
  });
}

void torchgauge_cuda_record_history(uint64_t entries, Failure* failure) noexcept {
  guarded(failure, [&] {
    // Names of functions out of the libraries alone: images have no addr2line.
    setenv("TORCH_SYMBOLIZE_MODE", "dladdr", 0);
    const std::optional<std::string> all = "all";
    torch::cuda::_record_memory_history(all, all, "all", entries);
    const std::lock_guard<std::mutex> lock(history_guard);
    has_history = true;
  });
}

void torchgauge_cuda_keep_snapshot(Failure* failure) noexcept {
  guarded(failure, [&] { keep_snapshot(); });
}

void torchgauge_cuda_write_snapshot(const char* path, Failure* failure) noexcept {
  guarded(failure, [&] {
    const std::lock_guard<std::mutex> lock(history_guard);
    if (snapshot.empty()) {
      return;
    }
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file.write(snapshot.data(), static_cast<std::streamsize>(snapshot.size()));
    file.close();
    TORCH_CHECK(file.good(), "cannot write ", path);
  });
}

void torchgauge_cuda_allocator(AllocatorSettings* settings, Failure* failure) noexcept {
  guarded(failure, [&] {
    copy_text(allocator::name(), settings->backend);
    settings->expandable_segments = expandable_segments();
    static_assert(sizeof(size_t) == sizeof(uint64_t), "the largest size_t means no limit");
    settings->max_split_size_bytes = AllocatorConfig::max_split_size();
    settings->garbage_collection_threshold = AllocatorConfig::garbage_collection_threshold();
    const std::vector<size_t> divisions = AllocatorConfig::roundup_power2_divisions();
    constexpr size_t most = std::size(AllocatorSettings{}.roundup_power2_divisions);
    settings->roundup_power2_divisions_length = std::min(divisions.size(), most);
    std::copy_n(
        divisions.begin(),
        settings->roundup_power2_divisions_length,
        settings->roundup_power2_divisions);
  });
}

void torchgauge_cuda_event_new(c10::Event** event, Failure* failure) noexcept {
  guarded(failure, [&] {
    // Of the flags, the one whose events carry times.
    *event = new c10::Event(c10::DeviceType::CUDA, c10::EventFlag::BACKEND_DEFAULT);
  });
}

void torchgauge_cuda_event_free(c10::Event* event, Failure* failure) noexcept {
  guarded(failure, [&] { delete event; });
}

void torchgauge_cuda_event_record(c10::Event* event, Failure* failure) noexcept {
  guarded(failure, [&] { event->record(c10::cuda::getCurrentCUDAStream().unwrap()); });
}

void torchgauge_cuda_event_elapsed(
    const c10::Event* earlier,
    const c10::Event* later,
    double* milliseconds,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    TORCH_CHECK(
        earlier->was_marked_for_recording() && later->was_marked_for_recording(),
        "an event that was never recorded has no time");
    earlier->synchronize();
    later->synchronize();
    *milliseconds = earlier->elapsedTime(*later);
  });
}

void torchgauge_cuda_side_stream_enter(SideStream** stream, Failure* failure) noexcept {
  guarded(failure, [&] {
    c10::cuda::device_synchronize();
    *stream = new SideStream(c10::cuda::getStreamFromPool().unwrap());
  });
}

void torchgauge_cuda_side_stream_leave(SideStream* stream, Failure* failure) noexcept {
  guarded(failure, [&] {
    const std::unique_ptr<SideStream> owned(stream);
    c10::cuda::device_synchronize();
  });
}

void torchgauge_cuda_copier_new(Copier** copier, Failure* failure) noexcept {
  guarded(failure, [&] { *copier = new Copier{c10::cuda::getStreamFromPool().unwrap()}; });
}

void torchgauge_cuda_copier_free(Copier* copier) noexcept {
  delete copier;
}

void torchgauge_cuda_copier_copy(
    const Copier* copier,
    const at::Tensor* tensor,
    c10::Event* began,
    c10::Event* ended,
    at::Tensor** there,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    // Makes the stream's GPU current too: the thread may be a new one.
    const c10::StreamGuard guard(copier->stream);
    at::Tensor pinned = at::empty(tensor->sizes(), tensor->options().pinned_memory(true));
    pinned.copy_(*tensor);
    began->record(copier->stream);
    at::Tensor copy = pinned.to(tensor->options().device(copier->stream.device()), true);
    ended->record(copier->stream);
    // The allocator of pinned memory waits for the copy before it gives the memory to another.
    *there = new at::Tensor(std::move(copy));
  });
}

void torchgauge_cuda_receive(
    const at::Tensor* tensor, const c10::Event* ended, Failure* failure) noexcept {
  guarded(failure, [&] {
    const c10::Stream current = c10::cuda::getCurrentCUDAStream().unwrap();
    ended->block(current);
    tensor->record_stream(current);
  });
}

void torchgauge_cuda_graph_new(CudaGraph** graph, Failure* failure) noexcept {
  guarded(failure, [&] { *graph = new CudaGraph(); });
}

void torchgauge_cuda_graph_free(CudaGraph* graph, Failure* failure) noexcept {
  guarded(failure, [&] { delete graph; });
}

void torchgauge_cuda_graph_begin(CudaGraph* graph, Failure* failure) noexcept {
  guarded(failure, [&] {
    try {
      graph->graph->capture_begin(graph->pool);
    } catch (...) {
      graph->give_up();
      throw;
    }
  });
}

void torchgauge_cuda_graph_end(CudaGraph* graph, Failure* failure) noexcept {
  guarded(failure, [&] {
    try {
      graph->graph->capture_end();
    } catch (...) {
      graph->give_up();
      throw;
    }
  });
}

void torchgauge_cuda_graph_replay(CudaGraph* graph, Failure* failure) noexcept {
  guarded(failure, [&] { graph->graph->replay(); });
}
}
