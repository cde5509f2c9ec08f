// What happens within one step, in order: modules entered and left, nodes of backward, and tensors
// allocated and freed.
//
// Allocators report to whoever stands in the thread's debug information, which backward carries to
// its own threads: both libtorch's for GPUs, with the sizes that its statistics count, and the one
// that counts on the CPU. Which module a node of backward belongs to follows from its number, which
// is that of the operation in forward. Nothing is put into the graph or between operations but, on
// a GPU, events that time.
#include "border.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>

extern "C" {
// As in `attribution.rs`, which says what the numbers are.
enum Kind : int32_t { kEnter = 0, kLeave = 1, kNode = 2, kMark = 3, kAllocate = 4, kFree = 5 };

struct Entry {
  Kind kind;
  uint64_t what;
  uint64_t amount;
  uint64_t total;
  uint64_t nanoseconds;
};

using EntriesVisit = void (*)(void* into, const Entry* entries, size_t n);
}

namespace {

uint64_t now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

class Log {
 public:
  explicit Log(c10::Device device) : device_(device) {}

  void add_memory(void* address, int64_t bytes, uint64_t total, c10::Device device) {
    if (device.type() != device_.type()) {
      return;
    }
    const Kind kind = bytes < 0 ? kFree : kAllocate;
    const auto size = static_cast<uint64_t>(bytes < 0 ? -bytes : bytes);
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back({kind, reinterpret_cast<uint64_t>(address), size, total, 0});
  }

  void add(Kind kind, uint64_t what, uint64_t amount) {
    const std::lock_guard<std::mutex> lock(mutex_);
    entries_.push_back({kind, what, amount, 0, now()});
    if (device_.is_cuda()) {
      c10::Event event(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
      event.record(c10::impl::VirtualGuardImpl(device_.type()).getStream(device_));
      events_.emplace_back(entries_.size() - 1, std::move(event));
    }
  }

  // The device has to be idle. Times of a GPU count from the first.
  void finish() {
    for (const auto& [place, event] : events_) {
      const double milliseconds = events_.front().second.elapsedTime(event);
      entries_[place].nanoseconds = static_cast<uint64_t>(std::max(milliseconds, 0.0) * 1e6);
    }
  }

  const std::vector<Entry>& entries() const {
    return entries_;
  }

 private:
  c10::Device device_;
  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::vector<std::pair<size_t, c10::Event>> events_;
};

// Written by the thread that takes the step, while no backward runs; read by those of backward.
std::shared_ptr<Log> current_log;
std::atomic<bool> is_recording{false};
at::CallbackHandle callback = 0;

struct Reporter : c10::MemoryReportingInfoBase {
  explicit Reporter(std::shared_ptr<Log> log) : log(std::move(log)) {}
  void reportMemoryUsage(
      void* address, int64_t bytes, size_t total, size_t, c10::Device device) override {
    log->add_memory(address, bytes, total, device);
  }
  // So that the CPU allocator below the counting one reports nothing besides.
  bool memoryProfilingEnabled() const override {
    return false;
  }
  std::shared_ptr<Log> log;
};

std::unique_ptr<at::ObserverContext> node_begins(const at::RecordFunction& function) {
  // Those that gather gradients have no number, and belong to the node before.
  if (is_recording.load(std::memory_order_acquire) && function.seqNr() >= 0) {
    current_log->add(kNode, static_cast<uint64_t>(function.seqNr()), 0);
  }
  return nullptr;
}

} // namespace

extern "C" {

// Ended by the same thread.
void torchgauge_attribution_begin(bool cuda, int32_t index, Failure* failure) noexcept {
  torchgauge::guarded(failure, [&] {
    TORCH_CHECK(!is_recording.load(), "a step is being attributed already");
    const auto type = cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
    const auto place = static_cast<c10::DeviceIndex>(cuda ? index : -1);
    current_log = std::make_shared<Log>(c10::Device(type, place));
    callback = at::addGlobalCallback(
        at::RecordFunctionCallback(node_begins).scopes({at::RecordScope::BACKWARD_FUNCTION}));
    c10::ThreadLocalDebugInfo::_push(
        c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Reporter>(current_log));
    is_recording.store(true, std::memory_order_release);
  });
}

// Gives all that happened, in order. The device has to be idle where it went well.
void torchgauge_attribution_end(void* into, EntriesVisit visit, Failure* failure) noexcept {
  torchgauge::guarded(failure, [&] {
    if (!is_recording.exchange(false)) {
      return;
    }
    c10::ThreadLocalDebugInfo::_pop(c10::DebugInfoKind::PROFILER_STATE);
    at::removeCallback(callback);
    const auto log = std::move(current_log);
    if (visit == nullptr) {
      return;
    }
    log->finish();
    visit(into, log->entries().data(), log->entries().size());
  });
}

// `kind`: a module entered or left, or a mark. Whether it is recorded.
bool torchgauge_attribution_add(int32_t kind, uint64_t what, Failure* failure) noexcept {
  failure->code = kFine;
  failure->message = nullptr;
  if (!is_recording.load(std::memory_order_relaxed)) {
    return false;
  }
  torchgauge::guarded(failure, [&] {
    current_log->add(static_cast<Kind>(kind), what, at::sequence_number::peek());
  });
  return true;
}
}
