// Settings of the whole process: version, threads, seeds.
#include "border.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/version.h>

#include <cstdlib>

using torchgauge::guarded;

extern "C" {

const char* torchgauge_version() noexcept {
  return TORCH_VERSION;
}

void torchgauge_free_message(char* message) noexcept {
  std::free(message);
}

void torchgauge_set_threads(int32_t threads, Failure* failure) noexcept {
  guarded(failure, [&] { at::set_num_threads(threads); });
}

void torchgauge_seed(uint64_t seed, Failure* failure) noexcept {
  guarded(failure, [&] { at::manual_seed(seed); });
}

void torchgauge_set_deterministic(bool on, Failure* failure) noexcept {
  guarded(failure, [&] {
    at::globalContext().setDeterministicCuDNN(on);
    at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false);
  });
}

void torchgauge_set_attention(bool flash, bool efficient, bool cudnn, bool math,
                              Failure* failure) noexcept {
  guarded(failure, [&] {
    at::globalContext().setSDPUseFlash(flash);
    at::globalContext().setSDPUseMemEfficient(efficient);
    at::globalContext().setSDPUseCuDNN(cudnn);
    at::globalContext().setSDPUseMath(math);
  });
}

void torchgauge_exit_now(int32_t code) noexcept {
  std::_Exit(code);
}
}
