// What runs in some steps, by libtorch's own profiler: kernels of a GPU, operators of a CPU.
#include "border.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>

using torchgauge::guarded;

namespace {

namespace impl = torch::profiler::impl;
namespace kineto = torch::autograd::profiler;

} // namespace

extern "C" {

// A name that lives as long as the call; nanoseconds of one clock.
using ProfiledVisit = void (*)(void* into, const char* name, size_t length, uint64_t thread,
                               uint64_t began, uint64_t took, bool on_gpu);

void torchgauge_profiler_begin(bool cuda, Failure* failure) noexcept {
  guarded(failure, [&] {
    const impl::ProfilerConfig config(impl::ProfilerState::KINETO);
    // To follow the CPU's operators as well would cost the GPU's steps time and tell nothing.
    const std::set<impl::ActivityType> activities{
        cuda ? impl::ActivityType::CUDA : impl::ActivityType::CPU};
    kineto::prepareProfiler(config, activities);
    kineto::enableProfiler(config, activities);
  });
}

void torchgauge_profiler_end(void* into, ProfiledVisit visit, Failure* failure) noexcept {
  guarded(failure, [&] {
    const auto result = kineto::disableProfiler();
    for (const auto& event : result->events()) {
      const std::string name = event.name();
      visit(into, name.data(), name.size(), event.startThreadId(), event.startNs(),
            event.durationNs(), event.deviceType() == c10::DeviceType::CUDA);
    }
  });
}
}
