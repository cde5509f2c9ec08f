// Backward and gradients.
#include "border.h"

#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

using torchgauge::guarded;

extern "C" {

// Without a gradient of what it begins at, that is a single value.
void torchgauge_backward(
    const at::Tensor* loss, const at::Tensor* gradient, Failure* failure) noexcept {
  guarded(failure, [&] {
    std::vector<at::Tensor> gradients;
    if (gradient != nullptr) {
      gradients.push_back(*gradient);
    }
    torch::autograd::backward({*loss}, gradients);
  });
}

void torchgauge_inference_enter(c10::InferenceMode** guard, Failure* failure) noexcept {
  guarded(failure, [&] { *guard = new c10::InferenceMode(); });
}

void torchgauge_inference_leave(c10::InferenceMode* guard) noexcept {
  delete guard;
}

void torchgauge_zero_grad(const at::Tensor* const* tensors, size_t n, Failure* failure) noexcept {
  guarded(failure, [&] {
    for (size_t i = 0; i < n; ++i) {
      tensors[i]->mutable_grad() = at::Tensor();
    }
  });
}

// A new handle on the gradient, or null where there is none.
void torchgauge_gradient(
    const at::Tensor* tensor, at::Tensor** gradient, Failure* failure) noexcept {
  guarded(failure, [&] {
    const at::Tensor& grad = tensor->grad();
    *gradient = grad.defined() ? new at::Tensor(grad) : nullptr;
  });
}
}
