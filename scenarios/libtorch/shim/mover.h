// Tensors on their way between a device and the host's memory.
#pragma once

#include "border.h"

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace torchgauge {

// Makes host memory known to the GPU, so that copies need nobody to wait for them.
void pin(void* address, size_t bytes);
void unpin(void* address) noexcept;

// Copies on a stream of its own, between a GPU and pinned memory. Where the device is the CPU, as in
// tests, a copy is done when it returns, and the host's memory is any that libtorch does not count.
class Mover {
 public:
  using Copied = std::optional<c10::Event>;

  // Pins at most `limit` bytes; tensors of less than `least` are not worth a copy.
  Mover(c10::Device device, uint64_t limit, size_t least);

  // Dense host memory of this form.
  at::Tensor host(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

  // So many bytes of host memory, used before where there are any, until they are given back. A copy
  // to them waits for those from them.
  at::Tensor borrow(size_t bytes);
  void give_back(at::Tensor bytes);

  // Copies once all is done that the current stream has to do by now. Who called keeps both alive
  // until the current stream follows.
  Copied copy(const at::Tensor& to, const at::Tensor& from);
  // What the current stream does from now on waits for the copy.
  void follow(const Copied& copied) const;

  // Keeps a gradient until it is copied to its place on the host, and drops it from its parameter.
  void send(const at::Tensor& to, at::Tensor& gradient, size_t place);
  // Waits for all that was sent since it was asked before, and says from which places it was.
  std::vector<bool> finish_sending();

  c10::Device device() const {
    return device_;
  }
  size_t least() const {
    return least_;
  }
  uint64_t moved() const {
    return moved_.load();
  }
  uint64_t pinned() const {
    return pinned_.load();
  }

  // Whether gradients go over as they are made.
  std::atomic<bool> sends{false};

 private:
  c10::Device device_;
  uint64_t limit_;
  size_t least_;
  std::optional<c10::Stream> stream_;
  std::atomic<uint64_t> moved_{0};
  std::atomic<uint64_t> pinned_{0};
  std::mutex mutex_;
  // Host memory that nobody uses, by size.
  std::vector<at::Tensor> spare_;
  // Gradients that are being copied, and their bytes.
  std::deque<std::pair<at::Tensor, Copied>> under_way_;
  size_t bytes_under_way_ = 0;
  std::vector<bool> sent_;
};

} // namespace torchgauge
