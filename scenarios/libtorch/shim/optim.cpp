// Fused optimizer steps and what a loss scaler needs.
#include "border.h"

#include <c10/core/GradMode.h>

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>

using torchgauge::guarded;
using torchgauge::list;

namespace {

using Tensors = std::vector<at::Tensor>;

// The fused kernels walk raw memory, on the CPU without looking whether the lists
// fit together. So that is looked at here.

Tensors parameter_list(const at::Tensor* const* tensors, size_t n) {
  Tensors result = list(tensors, n);
  for (size_t i = 0; i < n; ++i) {
    TORCH_CHECK(
        result[i].defined() && at::isFloatingType(result[i].scalar_type()),
        "parameter ", i, " is not a floating point tensor");
    TORCH_CHECK(
        result[i].device() == result[0].device(),
        "parameter ", i, " is on ", result[i].device(), ", parameter 0 on ", result[0].device());
    TORCH_CHECK(
        result[i].is_non_overlapping_and_dense(), "parameter ", i, " has gaps or overlaps in memory");
  }
  return result;
}

// Dimensions of size 1 have no stride worth comparing.
bool same_strides(const at::Tensor& left, const at::Tensor& right) {
  for (int64_t i = 0; i < left.dim(); ++i) {
    if (left.size(i) != 1 && left.stride(i) != right.stride(i)) {
      return false;
    }
  }
  return true;
}

// Tensors shaped, typed and laid out as their parameters.
Tensors companion_list(
    const char* what, const at::Tensor* const* tensors, const Tensors& parameters) {
  Tensors result = list(tensors, parameters.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const at::Tensor& parameter = parameters[i];
    TORCH_CHECK(result[i].defined(), what, " ", i, " is undefined");
    TORCH_CHECK(
        result[i].sizes() == parameter.sizes(),
        what, " ", i, " has shape ", result[i].sizes(), ", its parameter ", parameter.sizes());
    TORCH_CHECK(
        result[i].scalar_type() == parameter.scalar_type(),
        what, " ", i, " is of type ", result[i].scalar_type(), ", its parameter of ",
        parameter.scalar_type());
    TORCH_CHECK(
        result[i].device() == parameter.device(),
        what, " ", i, " is on ", result[i].device(), ", its parameter on ", parameter.device());
    TORCH_CHECK(
        same_strides(result[i], parameter),
        what, " ", i, " has strides ", result[i].strides(), ", its parameter ",
        parameter.strides());
    if (result[i].strides() != parameter.strides()) {
      // The same memory in the same order; the kernels for GPUs compare strides as they are.
      result[i] = result[i].as_strided(parameter.sizes(), parameter.strides());
    }
  }
  return result;
}

void check_single(const char* what, const at::Tensor& tensor, const Tensors& parameters) {
  TORCH_CHECK(
      tensor.defined() && tensor.numel() == 1 && tensor.scalar_type() == at::kFloat,
      what, " must be a single float");
  TORCH_CHECK(
      parameters.empty() || tensor.device() == parameters[0].device(),
      what, " is on ", tensor.device(), ", the parameters on ", parameters[0].device());
}

std::optional<at::Tensor> optional_single(
    const char* what, const at::Tensor* tensor, const Tensors& parameters) {
  if (tensor == nullptr) {
    return std::nullopt;
  }
  check_single(what, *tensor, parameters);
  return *tensor;
}

} // namespace

extern "C" {

struct SgdOptions {
  double learning_rate;
  double momentum;
  double weight_decay;
};

struct AdamWOptions {
  double learning_rate;
  double beta1;
  double beta2;
  double epsilon;
  double weight_decay;
};

// `momentum_buffers` is null or has one entry for each of the `n` parameters.
void torchgauge_fused_sgd(
    const at::Tensor* const* parameters,
    const at::Tensor* const* gradients,
    const at::Tensor* const* momentum_buffers,
    size_t n,
    const SgdOptions* options,
    const at::Tensor* found_inf,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const at::NoGradGuard no_grad;
    const Tensors all = parameter_list(parameters, n);
    if (n == 0) {
      return;
    }
    at::_fused_sgd_(
        all,
        companion_list("gradient", gradients, all),
        momentum_buffers == nullptr ? Tensors()
                                    : companion_list("momentum buffer", momentum_buffers, all),
        options->weight_decay,
        options->momentum,
        options->learning_rate,
        /*dampening=*/0.0,
        /*nesterov=*/false,
        /*maximize=*/false,
        /*is_first_step=*/false,
        /*grad_scale=*/std::nullopt,
        optional_single("found_inf", found_inf, all));
  });
}

// Counts the step as PyTorch's optimizer does: one more for each parameter, taken
// back where the gradients were not finite and the kernel did nothing.
void torchgauge_fused_adamw(
    const at::Tensor* const* parameters,
    const at::Tensor* const* gradients,
    const at::Tensor* const* exp_avgs,
    const at::Tensor* const* exp_avg_sqs,
    const at::Tensor* const* steps,
    size_t n,
    const AdamWOptions* options,
    const at::Tensor* found_inf,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const at::NoGradGuard no_grad;
    const Tensors all = parameter_list(parameters, n);
    const Tensors grads = companion_list("gradient", gradients, all);
    const Tensors means = companion_list("first moment", exp_avgs, all);
    const Tensors squares = companion_list("second moment", exp_avg_sqs, all);
    const Tensors counters = list(steps, n);
    for (const auto& counter : counters) {
      check_single("a step counter", counter, all);
    }
    const auto found = optional_single("found_inf", found_inf, all);
    if (n == 0) {
      return;
    }
    at::_foreach_add_(counters, 1);
    at::_fused_adamw_(
        all,
        grads,
        means,
        squares,
        /*max_exp_avg_sqs=*/{},
        counters,
        options->learning_rate,
        options->beta1,
        options->beta2,
        options->weight_decay,
        options->epsilon,
        /*amsgrad=*/false,
        /*maximize=*/false,
        /*grad_scale=*/std::nullopt,
        found);
    if (found) {
      at::_foreach_sub_(counters, Tensors(n, *found));
    }
  });
}

void torchgauge_unscale(
    const at::Tensor* const* gradients,
    size_t n,
    const at::Tensor* found_inf,
    const at::Tensor* inverse_scale,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const at::NoGradGuard no_grad;
    if (n == 0) {
      return;
    }
    at::Tensor found = *found_inf;
    at::_amp_foreach_non_finite_check_and_unscale_(list(gradients, n), found, *inverse_scale);
  });
}

void torchgauge_update_scale(
    const at::Tensor* scale,
    const at::Tensor* growth_tracker,
    const at::Tensor* found_inf,
    double growth_factor,
    double backoff_factor,
    int64_t growth_interval,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const at::NoGradGuard no_grad;
    at::Tensor current = *scale;
    at::Tensor tracker = *growth_tracker;
    at::_amp_update_scale_(
        current, tracker, *found_inf, growth_factor, backoff_factor, growth_interval);
  });
}
}
