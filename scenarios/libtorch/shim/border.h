// What every function of the shim shares: how an error crosses from C++ to Rust.
//
// Every function is `extern "C"`, takes a `Failure*` last and never throws. Rust
// reads `code` first: with `kFine` the other fields mean nothing.
#pragma once

#include <c10/util/Exception.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

extern "C" {

enum TorchgaugeCode : int32_t {
  kFine = 0,
  kLibtorch = 1,
  kOutOfMemory = 2,
  kNotBuiltWithCuda = 3,
  // A Rust body that libtorch called panicked or returned an error.
  kBody = 4,
};

// `message` is owned by the receiver, who gives it to `torchgauge_free_message`.
struct Failure {
  int32_t code;
  char* message;
};
}

namespace torchgauge {

// An error that came out of a Rust body, on its way through libtorch back to Rust.
struct BodyFailed : std::runtime_error {
  BodyFailed(int32_t code, const std::string& message)
      : std::runtime_error(message), code(code) {}
  int32_t code;
};

// Thrown by every CUDA function of a build without CUDA.
struct NotBuiltWithCuda : std::exception {
  const char* what() const noexcept override {
    return "not built with CUDA";
  }
};

inline void fill(Failure* failure, int32_t code, const char* message) noexcept {
  failure->code = code;
  const size_t length = std::strlen(message) + 1;
  failure->message = static_cast<char*>(std::malloc(length));
  if (failure->message != nullptr) {
    std::memcpy(failure->message, message, length);
  }
}

// Runs `body`; whatever it throws ends here.
template <typename Body>
void guarded(Failure* failure, Body&& body) noexcept {
  failure->code = kFine;
  failure->message = nullptr;
  try {
    body();
  } catch (const BodyFailed& error) {
    fill(failure, error.code, error.what());
  } catch (const NotBuiltWithCuda& error) {
    fill(failure, kNotBuiltWithCuda, error.what());
  } catch (const c10::OutOfMemoryError& error) {
    fill(failure, kOutOfMemory, error.what_without_backtrace());
  } catch (const c10::Error& error) {
    fill(failure, kLibtorch, error.what_without_backtrace());
  } catch (const std::bad_alloc& error) {
    fill(failure, kOutOfMemory, error.what());
  } catch (const std::exception& error) {
    fill(failure, kLibtorch, error.what());
  } catch (...) {
    fill(failure, kLibtorch, "an exception of unknown type");
  }
}

// The `n` tensors behind an array of pointers, as libtorch wants lists.
inline std::vector<at::Tensor> list(const at::Tensor* const* tensors, size_t n) {
  std::vector<at::Tensor> result;
  result.reserve(n);
  for (size_t i = 0; i < n; ++i) {
    result.push_back(*tensors[i]);
  }
  return result;
}

} // namespace torchgauge
