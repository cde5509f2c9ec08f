// Writes down what PyTorch's CUDA caching allocator is asked for and what it takes from the GPU:
// why two programs with the same tensors hold different amounts of reserved memory. `replay.py`
// reads it.
//
//     g++ -shared -fPIC -O1 -std=c++17 -o record_allocator.so scenarios/parity/record_allocator.cpp
//         -I LIBTORCH/include -L LIBTORCH/lib -lc10_cuda -lc10 -ldl
//     ALLOCATOR_LOG=FILE LD_PRELOAD=./record_allocator.so PROGRAM…
//
// LIBTORCH is a libtorch for CUDA with CUDA's headers, of the version that PROGRAM runs with, and
// LD_LIBRARY_PATH leads to its libraries. A line each: `alloc`, `free`, `segment_alloc` or
// `segment_free`, address, bytes, and of the blocks of 8 MiB and more the functions that asked
// for them, innermost first, as far as they have a name in a symbol table.
//
// The allocator is there once CUDA has been started, which a program cannot be told to say. So this
// waits for the first segment that it takes from the CUDA runtime; the request behind it is in the
// record as well, because the allocator tells of it afterwards.
#include <c10/cuda/CUDACachingAllocator.h>

#include <dlfcn.h>
#include <execinfo.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace {

using c10::cuda::CUDACachingAllocator::TraceEntry;

constexpr size_t kLargeBytes = size_t{8} << 20;
constexpr int kFramesMax = 64;

FILE* record = nullptr;

const char* name_of(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return "alloc";
    case TraceEntry::FREE_COMPLETED:
      return "free";
    case TraceEntry::SEGMENT_ALLOC:
      return "segment_alloc";
    case TraceEntry::SEGMENT_FREE:
      return "segment_free";
    default:
      return nullptr;
  }
}

void write_entry(const TraceEntry& entry) {
  const char* name = name_of(entry.action_);
  if (name == nullptr) {
    return;
  }
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::fprintf(record, "%s %zx %zu", name, entry.addr_, entry.size_);
  if (entry.action_ == TraceEntry::ALLOC && entry.size_ >= kLargeBytes) {
    void* frames[kFramesMax];
    const int count = backtrace(frames, kFramesMax);
    for (int i = 0; i < count; ++i) {
      Dl_info symbol;
      if (dladdr(frames[i], &symbol) != 0 && symbol.dli_sname != nullptr) {
        std::fprintf(record, " %s", symbol.dli_sname);
      }
    }
  }
  std::fputc('\n', record);
}

// Whether PyTorch's allocator is among the callers: others take memory before it does.
bool called_by_allocator() {
  void* frames[kFramesMax];
  const int count = backtrace(frames, kFramesMax);
  for (int i = 0; i < count; ++i) {
    Dl_info symbol;
    if (dladdr(frames[i], &symbol) != 0 && symbol.dli_fname != nullptr &&
        std::strstr(symbol.dli_fname, "libc10_cuda") != nullptr) {
      return true;
    }
  }
  return false;
}

} // namespace

extern "C" cudaError_t cudaMalloc(void** block, size_t bytes) {
  static const auto real =
      reinterpret_cast<cudaError_t (*)(void**, size_t)>(dlsym(RTLD_NEXT, "cudaMalloc"));
  if (real == nullptr) {
    std::fprintf(
        stderr, "record_allocator: the CUDA runtime is not a shared library here\n");
    std::abort();
  }
  static bool attached = false;
  if (!attached && called_by_allocator()) {
    attached = true;
    const char* path = std::getenv("ALLOCATOR_LOG");
    if (path == nullptr || (record = std::fopen(path, "w")) == nullptr) {
      std::fprintf(
          stderr, "record_allocator: ALLOCATOR_LOG has to name a file that can be written\n");
      std::abort();
    }
    // A program may leave without flushing.
    std::setvbuf(record, nullptr, _IOLBF, 0);
    // The allocator holds its lock here, which the same thread may take again.
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(write_entry);
  }
  return real(block, bytes);
}
