// A CPU allocator that counts.
//
// libtorch's allocators come in two kinds: those whose data pointer is its own
// context, which also serve `raw_allocate`, and those with a context of their own.
// The default one is of the first kind, so this one must be as well: it takes
// `kHeader` bytes more from the allocator below, writes the size there, and hands
// out what follows. The header is as long as libtorch's alignment, so the data stay
// aligned.
#include "border.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/alignment.h>

#include <atomic>
#include <mutex>

namespace {

constexpr size_t kHeader = c10::gAlignment;
static_assert(kHeader >= sizeof(size_t));

std::atomic<int64_t> live{0};
std::atomic<int64_t> peak{0};
c10::DeleterFnPtr release_below = nullptr;

// Relaxed throughout: the counters order nothing, and each is exact by itself.
int64_t count(int64_t bytes) {
  const int64_t now = live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t seen = peak.load(std::memory_order_relaxed);
  while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
  }
  return now;
}

// To whoever listens, as libtorch's allocators do.
void report(void* data, int64_t bytes, int64_t total) {
  c10::reportMemoryUsageToProfiler(
      data, bytes, static_cast<size_t>(total), 0, c10::Device(c10::DeviceType::CPU));
}

void release(void* data) {
  if (data == nullptr) {
    return;
  }
  char* block = static_cast<char*>(data) - kHeader;
  size_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  const auto size = static_cast<int64_t>(bytes);
  report(data, -size, live.fetch_sub(size, std::memory_order_relaxed) - size);
  release_below(block);
}

struct CountingAllocator final : c10::Allocator {
  explicit CountingAllocator(c10::Allocator* below) : below(below) {}

  c10::DataPtr allocate(size_t bytes) override {
    // Nothing to count; or so much that the allocator below must refuse it, in its words.
    if (bytes == 0 || bytes > static_cast<size_t>(PTRDIFF_MAX) - kHeader) {
      c10::DataPtr pointer = below->allocate(bytes);
      if (pointer.get() == nullptr) {
        return {nullptr, nullptr, &release, c10::Device(c10::DeviceType::CPU)};
      }
      return pointer;
    }
    c10::DataPtr pointer = below->allocate(bytes + kHeader);
    char* block = static_cast<char*>(pointer.release_context());
    std::memcpy(block, &bytes, sizeof(bytes));
    void* data = block + kHeader;
    report(data, static_cast<int64_t>(bytes), count(static_cast<int64_t>(bytes)));
    return {data, data, &release, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }

  void copy_data(void* destination, const void* source, size_t bytes) const override {
    below->copy_data(destination, source, bytes);
  }

  c10::Allocator* below;
};

std::mutex installing;
bool installed = false;

} // namespace

extern "C" {

void torchgauge_host_memory_install(Failure* failure) noexcept {
  torchgauge::guarded(failure, [&] {
    const std::lock_guard<std::mutex> lock(installing);
    if (installed) {
      return;
    }
    c10::Allocator* below = c10::GetCPUAllocator();
    release_below = below->raw_deleter();
    TORCH_CHECK(
        release_below != nullptr,
        "the CPU allocator in place keeps a context of its own; "
        "install the counting allocator before any other one");
    // Lives as long as the process: tensors may be freed in static destructors.
    static auto* counting = new CountingAllocator(below);
    // 255: whatever priority the one in place has, this one replaces it.
    c10::SetCPUAllocator(counting, 255);
    TORCH_CHECK(
        c10::GetCPUAllocator() == counting, "libtorch did not take the counting allocator");
    installed = true;
  });
}

int64_t torchgauge_host_memory_live() noexcept {
  return live.load(std::memory_order_relaxed);
}

int64_t torchgauge_host_memory_peak() noexcept {
  return peak.load(std::memory_order_relaxed);
}

void torchgauge_host_memory_reset_peak() noexcept {
  peak.store(live.load(std::memory_order_relaxed), std::memory_order_relaxed);
}
}
