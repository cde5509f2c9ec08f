// Unified memory under libtorch's caching allocator.
//
// libtorch's own way to another source of memory is an allocator in place of its own, which counts
// and caches nothing. So the source alone is exchanged: the libraries that a binary loads find its
// own `cudaMalloc` and `cudaFree` before those of the CUDA runtime, which serve unless unified
// memory is asked for. Libraries that contain a CUDA runtime (cuBLAS, cuDNN, NCCL) keep theirs.
#include "cuda.h"

#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <dlfcn.h>

#include <atomic>
#include <mutex>
#include <unordered_map>

using torchgauge::guarded;

namespace {

std::atomic<bool> is_managed{false};
std::mutex guard;
// Most bytes to hold, those that are held, and how many each segment has.
uint64_t limit = 0;
uint64_t held = 0;
// Never destroyed: what outlives it at the process's end may still be freed.
auto& segments = *new std::unordered_map<void*, size_t>();

// The CUDA runtime's own.
template <typename Function>
Function* behind(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  static const auto usual = behind<cudaError_t(void**, size_t)>("cudaMalloc");
  if (!is_managed) {
    return usual ? usual(pointer, bytes) : cudaErrorInitializationError;
  }
  static const auto managed =
      behind<cudaError_t(void**, size_t, unsigned int)>("cudaMallocManaged");
  const std::lock_guard<std::mutex> lock(guard);
  if (!managed || bytes > limit - held) {
    return cudaErrorMemoryAllocation;
  }
  const cudaError_t result = managed(pointer, bytes, cudaMemAttachGlobal);
  if (result == cudaSuccess) {
    held += bytes;
    segments.emplace(*pointer, bytes);
  }
  return result;
}

cudaError_t cudaFree(void* pointer) {
  static const auto usual = behind<cudaError_t(void*)>("cudaFree");
  if (is_managed) {
    const std::lock_guard<std::mutex> lock(guard);
    if (const auto segment = segments.find(pointer); segment != segments.end()) {
      held -= segment->second;
      segments.erase(segment);
    }
  }
  return usual ? usual(pointer) : cudaErrorInitializationError;
}

bool torchgauge_cuda_can_manage() noexcept {
  return dlsym(RTLD_DEFAULT, "cudaMalloc") == reinterpret_cast<void*>(&cudaMalloc);
}

void torchgauge_cuda_manage(int32_t index, uint64_t bytes, Failure* failure) noexcept {
  guarded(failure, [&] {
    const auto attribute =
        behind<cudaError_t(int*, cudaDeviceAttr, int)>("cudaDeviceGetAttribute");
    int is_concurrent = 0;
    TORCH_CHECK(
        attribute &&
            attribute(&is_concurrent, cudaDevAttrConcurrentManagedAccess, index) == cudaSuccess &&
            is_concurrent != 0,
        "the driver gives CPU and GPU no access to unified memory at the same time");
    const std::lock_guard<std::mutex> lock(guard);
    limit = bytes;
    is_managed = true;
  });
}

} // extern "C"
