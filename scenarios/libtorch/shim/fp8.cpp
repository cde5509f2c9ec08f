// Linear layers whose products are in FP8: e4m3 forward, e5m2 for gradients, with scales that are
// found anew in every product (Micikevicius et al., «FP8 Formats for Deep Learning», 2022).
//
// Forward casts the input and the weight, backward the output's gradient; what backward needs of the
// first two is kept in FP8. On a GPU the products are `_scaled_mm`'s. On a CPU the same casts are
// made, and products are taken of what the FP8 values stand for, in single precision.
#include "fp8.h"
#include "border.h"
#include "values_key.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/_unsafe_view.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/matmul.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <optional>

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torchgauge::guarded;
using namespace torchgauge::fp8;

namespace {

std::atomic<uint64_t> casts{0};

double limit_of(at::ScalarType type) {
  return type == at::kFloat8_e4m3fn ? 448.0 : 57344.0;
}

// The largest magnitude of all values, or over a dimension, which is kept.
at::Tensor largest(const at::Tensor& matrix, bool each, int64_t over) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const std::vector<int64_t> dimensions = each ? std::vector<int64_t>{over} : std::vector<int64_t>{0, 1};
  return at::linalg_vector_norm(matrix, infinity, dimensions, /*keepdim=*/each, at::kFloat);
}

Operand quantised(const at::Tensor& matrix, at::Tensor largest, at::ScalarType type) {
  const double limit = limit_of(type);
  const at::Tensor scale = largest.clamp_min(kLeast).div(limit);
  return {matrix.div(scale).clamp_(-limit, limit).to(type), scale};
}

Cast cast(const at::Tensor& matrix, at::ScalarType type, bool each, Wanted wanted) {
  casts.fetch_add(1, std::memory_order_relaxed);
  at::Tensor of_rows, of_columns;
  if (!each) {
    of_rows = of_columns = largest(matrix, each, 0);
  } else {
    of_rows = wanted.rows ? largest(matrix, each, 1) : of_rows;
    of_columns = wanted.columns ? largest(matrix, each, 0) : of_columns;
  }
  if (matrix.is_cuda()) {
    return cast_on_gpu(matrix, of_rows, of_columns, limit_of(type), type, wanted);
  }
  const at::Tensor single = matrix.to(at::kFloat);
  Cast made;
  if (wanted.rows) {
    made.rows = quantised(single, of_rows, type);
  }
  if (wanted.columns) {
    made.columns = quantised(single.t(), of_columns.t(), type);
  }
  return made;
}

// What was cast last, for layers that read the same input one after the other.
struct Last {
  torchgauge::ValuesKey key;
  bool each;
  Cast cast;
};

// Backward, which forgets it, has threads of its own. Never destroyed: when the process ends, the GPU
// may be gone.
struct Memory {
  std::mutex mutex;
  std::optional<Last> last;
};

Memory& memory() {
  static auto* const all = new Memory;
  return *all;
}

Cast cast_input(const at::Tensor& matrix, bool each, Wanted wanted) {
  const auto has = [](bool wanted, const Operand& operand) {
    return !wanted || operand.values.defined();
  };
  const std::lock_guard<std::mutex> lock(memory().mutex);
  auto& last = memory().last;
  if (!last || last->each != each || !last->key.is_of(matrix) || !has(wanted.rows, last->cast.rows) ||
      !has(wanted.columns, last->cast.columns)) {
    last.reset();
    last.emplace(
        Last{torchgauge::ValuesKey(matrix), each, cast(matrix, at::kFloat8_e4m3fn, each, wanted)});
  }
  return last->cast;
}

void forget_input() {
  const std::lock_guard<std::mutex> lock(memory().mutex);
  memory().last.reset();
}

// Without the rows that fill it up.
at::Tensor shaped(const at::Tensor& matrix, int64_t rows, c10::IntArrayRef sizes) {
  return at::_unsafe_view(rows == matrix.size(0) ? matrix : matrix.narrow(0, 0, rows), sizes);
}

// `left` times `right` transposed. Gradients are summed exactly, but with a scale for each row, whose
// kernels know the fast sum alone.
at::Tensor product(
    const Operand& left,
    const Operand& right,
    const std::optional<at::Tensor>& bias,
    at::ScalarType type,
    bool is_fast) {
  if (left.values.is_cuda()) {
    return at::_scaled_mm(
        left.values, right.values.t(), left.scale,
        right.scale.dim() == 0 ? right.scale : right.scale.t(), bias, std::nullopt, type, is_fast);
  }
  const auto opened = [](const Operand& operand) {
    return operand.values.to(at::kFloat).mul_(operand.scale);
  };
  const at::Tensor result = at::matmul(opened(left), opened(right).t());
  return (bias ? result + *bias : result).to(type);
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(
      AutogradContext* ctx,
      const at::Tensor& input,
      const at::Tensor& weight,
      const std::optional<at::Tensor>& bias,
      at::ScalarType type,
      bool each,
      bool is_tracked) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const bool of_input = is_tracked && input.requires_grad();
    const bool of_weight = is_tracked && weight.requires_grad();
    const at::Tensor matrix = input.reshape({-1, input.size(-1)}).contiguous();
    const Cast read = cast_input(matrix, each, {true, of_weight});
    const Cast by = cast(weight.contiguous(), at::kFloat8_e4m3fn, each, {true, of_input});
    const auto short_bias = bias ? std::optional(bias->to(type)) : std::nullopt;
    const at::Tensor output = product(read.rows, by.rows, short_bias, type, true);
    const auto& x = of_weight ? read.columns : Operand();
    ctx->save_for_backward({by.columns.values, by.columns.scale, x.values, x.scale});
    ctx->saved_data["each"] = each;
    ctx->saved_data["sizes"] = input.sizes().vec();
    ctx->saved_data["bias"] = is_tracked && bias && bias->requires_grad();
    auto sizes = input.sizes().vec();
    sizes.back() = weight.size(0);
    return shaped(output, matrix.size(0), sizes);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    forget_input();
    const bool each = ctx->saved_data["each"].toBool();
    const auto sizes = ctx->saved_data["sizes"].toIntVector();
    const auto saved = ctx->get_saved_variables();
    const Operand weight{saved[0], saved[1]}, input{saved[2], saved[3]};
    const at::Tensor& output = gradients[0];
    const at::Tensor matrix = output.reshape({-1, output.size(-1)}).contiguous();
    const auto type = output.scalar_type();
    const Wanted wanted{weight.values.defined(), input.values.defined()};
    const Cast read = wanted.rows || wanted.columns
        ? cast(matrix, at::kFloat8_e5m2, each, wanted)
        : Cast();
    at::Tensor of_input, of_weight, of_bias;
    if (wanted.rows) {
      const at::Tensor filled = product(read.rows, weight, std::nullopt, type, each);
      of_input = shaped(filled, matrix.size(0), sizes);
    }
    if (wanted.columns) {
      of_weight = product(read.columns, input, std::nullopt, type, each);
    }
    if (ctx->saved_data["bias"].toBool()) {
      of_bias = matrix.sum(0);
    }
    return {of_input, of_weight, of_bias, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

// As autocast has linear layers give it.
at::ScalarType output_type(const at::Tensor& input) {
  const auto device = input.device().type();
  return at::autocast::is_autocast_enabled(device) ? at::autocast::get_autocast_dtype(device)
                                                   : input.scalar_type();
}

} // namespace

extern "C" {

// `bias` may be null; `each`: a scale for each row.
void torchgauge_fp8_linear(
    const at::Tensor* input,
    const at::Tensor* weight,
    const at::Tensor* bias,
    bool each,
    at::Tensor** output,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    TORCH_CHECK(
        weight->size(0) % kMultiple == 0 && weight->size(1) % kMultiple == 0,
        "FP8 products want multiples of ", kMultiple, ", got a weight of ", weight->sizes());
    const auto has = bias == nullptr ? std::optional<at::Tensor>() : *bias;
    *output = new at::Tensor(
        Linear::apply(*input, *weight, has, output_type(*input), each, at::GradMode::is_enabled()));
  });
}

// How many matrices were cast so far.
uint64_t torchgauge_fp8_casts() noexcept {
  return casts.load(std::memory_order_relaxed);
}
}
