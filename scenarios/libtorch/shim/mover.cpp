// Copies between a device and pinned host memory, and the gradients that take this way.
#include "mover.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <sys/mman.h>

#include <algorithm>
#include <memory>

namespace torchgauge {

namespace {

// Gradients that wait for their copies at most; what comes later waits for the first of them.
constexpr size_t kUnderWay = size_t{256} << 20;

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

} // namespace

Mover::Mover(c10::Device device, uint64_t limit, size_t least)
    : device_(device), limit_(limit), least_(least) {
  if (device.is_cuda()) {
    stream_ = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  }
}

at::Tensor Mover::host(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
  size_t bytes = c10::elementSize(type);
  for (const int64_t size : sizes) {
    bytes *= static_cast<size_t>(size);
  }
  const uint64_t before = pinned_.fetch_add(bytes);
  if (before + bytes > limit_) {
    pinned_ -= bytes;
    // `error.rs` has these words.
    TORCH_CHECK(
        false, "pinned host memory ran out: tried to pin ", bytes, " bytes more than the ", before,
        " that are pinned, of ", limit_, " that the host has for this run");
  }
  void* address = mmap(
      nullptr, std::max<size_t>(bytes, 1), PROT_READ | PROT_WRITE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  TORCH_CHECK(
      address != MAP_FAILED, "pinned host memory ran out: the kernel gave no ", bytes,
      " bytes beside the ", before, " that are pinned");
  const bool cuda = device_.is_cuda();
  if (cuda) {
    try {
      pin(address, bytes);
    } catch (const c10::Error& error) {
      munmap(address, std::max<size_t>(bytes, 1));
      TORCH_CHECK(
          false, "pinned host memory ran out: cannot pin ", bytes, " bytes beside the ", before,
          " that are pinned: ", error.what_without_backtrace());
    }
  }
  const auto free = [cuda, bytes](void* address) {
    if (cuda) {
      unpin(address);
    }
    munmap(address, std::max<size_t>(bytes, 1));
  };
  return at::from_blob(address, sizes, strides, free, at::TensorOptions(type));
}

at::Tensor Mover::borrow(size_t bytes) {
  const auto size = static_cast<int64_t>(bytes);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto fits = [size](const at::Tensor& one) { return one.numel() == size; };
    const auto found = std::find_if(spare_.begin(), spare_.end(), fits);
    if (found != spare_.end()) {
      at::Tensor result = std::move(*found);
      *found = std::move(spare_.back());
      spare_.pop_back();
      return result;
    }
  }
  return host({size}, {1}, at::kByte);
}

void Mover::give_back(at::Tensor bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  spare_.push_back(std::move(bytes));
}

Mover::Copied Mover::copy(const at::Tensor& to, const at::Tensor& from) {
  const at::NoGradGuard no_grad;
  moved_ += from.nbytes();
  if (!stream_) {
    to.copy_(from);
    return std::nullopt;
  }
  c10::Event ready(device_.type());
  ready.record(current_stream(device_));
  ready.block(*stream_);
  const c10::StreamGuard guard(*stream_);
  to.copy_(from, /*non_blocking=*/true);
  Copied copied(std::in_place, device_.type());
  copied->record(*stream_);
  return copied;
}

void Mover::follow(const Copied& copied) const {
  if (copied) {
    copied->block(current_stream(device_));
  }
}

void Mover::send(const at::Tensor& to, at::Tensor& gradient, size_t place) {
  Copied copied = copy(to, gradient);
  const std::lock_guard<std::mutex> lock(mutex_);
  sent_.resize(std::max(sent_.size(), place + 1));
  sent_[place] = true;
  bytes_under_way_ += gradient.nbytes();
  under_way_.emplace_back(std::move(gradient), std::move(copied));
  gradient = at::Tensor();
  while (bytes_under_way_ > kUnderWay) {
    follow(under_way_.front().second);
    bytes_under_way_ -= under_way_.front().first.nbytes();
    under_way_.pop_front();
  }
}

std::vector<bool> Mover::finish_sending() {
  const std::lock_guard<std::mutex> lock(mutex_);
  // Copies are done in the order in which they began.
  if (!under_way_.empty() && under_way_.back().second) {
    under_way_.back().second->synchronize();
  }
  under_way_.clear();
  bytes_under_way_ = 0;
  return std::exchange(sent_, {});
}

} // namespace torchgauge

namespace {

using torchgauge::guarded;
using torchgauge::Mover;
using Handle = std::shared_ptr<Mover>;

struct Sender : torch::autograd::PostAccumulateGradHook {
  Sender(Handle mover, at::Tensor host, size_t place)
      : mover(std::move(mover)), host(std::move(host)), place(place) {}
  void operator()(const at::Tensor& parameter) override {
    if (mover->sends) {
      mover->send(host, parameter.mutable_grad(), place);
    }
  }
  Handle mover;
  at::Tensor host;
  size_t place;
};

} // namespace

extern "C" {

// `gpu` is negative for the CPU.
void torchgauge_mover_new(
    int32_t gpu, uint64_t limit, uint64_t least, Handle** mover, Failure* failure) noexcept {
  guarded(failure, [&] {
    const bool cuda = gpu >= 0;
    const c10::Device device(
        cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU,
        static_cast<c10::DeviceIndex>(cuda ? gpu : -1));
    *mover = new Handle(std::make_shared<Mover>(device, limit, least));
  });
}

void torchgauge_mover_free(Handle* mover, Failure* failure) noexcept {
  guarded(failure, [&] { delete mover; });
}

void torchgauge_mover_counts(const Handle* mover, uint64_t* moved, uint64_t* pinned) noexcept {
  *moved = (*mover)->moved();
  *pinned = (*mover)->pinned();
}

// A tensor on the host of the same form and values. Waits for the device.
void torchgauge_mover_host_like(
    const Handle* mover, const at::Tensor* tensor, at::Tensor** host, Failure* failure) noexcept {
  guarded(failure, [&] {
    TORCH_CHECK(tensor->is_non_overlapping_and_dense(), "a tensor with gaps cannot be offloaded");
    const at::NoGradGuard no_grad;
    at::Tensor made = (*mover)->host(tensor->sizes(), tensor->strides(), tensor->scalar_type());
    made.copy_(*tensor);
    *host = new at::Tensor(std::move(made));
  });
}

// From now on gradients go to their places on the host as they are made, while `sends` is on.
void torchgauge_mover_watch(
    const Handle* mover,
    const at::Tensor* const* parameters,
    const at::Tensor* const* hosts,
    size_t n,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    for (size_t i = 0; i < n; ++i) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          *parameters[i], std::make_unique<Sender>(*mover, *hosts[i], i));
    }
  });
}

void torchgauge_mover_send(const Handle* mover, bool on) noexcept {
  (*mover)->sends = on;
}

// Waits for the gradients that were sent, and says of which parameters there were any.
void torchgauge_mover_finish(
    const Handle* mover, bool* sent, size_t n, Failure* failure) noexcept {
  guarded(failure, [&] {
    std::vector<bool> all = (*mover)->finish_sending();
    all.resize(n);
    std::copy(all.begin(), all.end(), sent);
  });
}

// Copies the parameters back from the host. What the current stream does next waits for them.
void torchgauge_mover_return(
    const Handle* mover,
    const at::Tensor* const* parameters,
    const at::Tensor* const* hosts,
    size_t n,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    for (size_t i = 0; i < n; ++i) {
      (*mover)->follow((*mover)->copy(*parameters[i], *hosts[i]));
    }
  });
}
}
