// Autocast's thread-local state, and a scope that sets and restores it.
#pragma once

#include <ATen/autocast_mode.h>

namespace torchgauge {

// The state of one device type.
struct DeviceAutocast {
  c10::DeviceType device;
  bool enabled;
  c10::ScalarType dtype;

  static DeviceAutocast read(c10::DeviceType device) {
    return {
        device,
        at::autocast::is_autocast_enabled(device),
        at::autocast::get_autocast_dtype(device)};
  }

  void write() const {
    at::autocast::set_autocast_enabled(device, enabled);
    at::autocast::set_autocast_dtype(device, dtype);
  }
};

// All of it that this project uses: CPU, GPU, weight cache.
struct AutocastState {
  DeviceAutocast cpu;
  DeviceAutocast cuda;
  bool cache_enabled;

  static AutocastState read() {
    return {
        DeviceAutocast::read(c10::DeviceType::CPU),
        DeviceAutocast::read(c10::DeviceType::CUDA),
        at::autocast::is_autocast_cache_enabled()};
  }

  void write() const {
    cpu.write();
    cuda.write();
    at::autocast::set_autocast_cache_enabled(cache_enabled);
  }
};

// Enters a state; restores the one before on the way out, and drops the cached
// half-precision weights when the outermost scope of the thread ends.
class AutocastScope {
 public:
  explicit AutocastScope(const AutocastState& state) : before_(AutocastState::read()) {
    at::autocast::increment_nesting();
    state.write();
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    before_.write();
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_;
};

} // namespace torchgauge
