// Autocast as Rust uses it: enter, leave, read.
#include "autocast_scope.h"
#include "border.h"

using torchgauge::AutocastScope;
using torchgauge::AutocastState;
using torchgauge::guarded;

namespace {

c10::DeviceType device_type(bool cuda) {
  return cuda ? c10::DeviceType::CUDA : c10::DeviceType::CPU;
}

} // namespace

extern "C" {

// `dtype`: libtorch's number of a scalar type; negative switches autocast off.
void torchgauge_autocast_enter(
    bool cuda,
    int32_t dtype,
    bool cache_enabled,
    AutocastScope** scope,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    AutocastState state = AutocastState::read();
    auto& device = cuda ? state.cuda : state.cpu;
    device.enabled = dtype >= 0;
    if (dtype >= 0) {
      device.dtype = static_cast<c10::ScalarType>(dtype);
    }
    state.cache_enabled = cache_enabled;
    *scope = new AutocastScope(state);
  });
}

void torchgauge_autocast_leave(AutocastScope* scope, Failure* failure) noexcept {
  guarded(failure, [&] { delete scope; });
}

// `dtype` is negative where autocast is off.
void torchgauge_autocast_read(
    bool cuda, int32_t* dtype, bool* cache_enabled, Failure* failure) noexcept {
  guarded(failure, [&] {
    *dtype = at::autocast::is_autocast_enabled(device_type(cuda))
        ? static_cast<int32_t>(at::autocast::get_autocast_dtype(device_type(cuda)))
        : -1;
    *cache_enabled = at::autocast::is_autocast_cache_enabled();
  });
}
}
