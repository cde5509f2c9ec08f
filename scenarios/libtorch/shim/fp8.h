// Matrices in FP8, each with a second copy that is transposed: FP8 units multiply rows by rows alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace torchgauge::fp8 {

// One side of a product: a row for each row of what comes of it, over what is summed.
struct Operand {
  at::Tensor values;
  // What the values are multiplied by: one number, or one for each row, `[rows, 1]`.
  at::Tensor scale;
};

// A matrix as it may stand in products. What nobody asked for is undefined.
struct Cast {
  Operand rows;
  // Transposed.
  Operand columns;
};

struct Wanted {
  bool rows;
  bool columns;
};

// The least that a largest magnitude counts as.
constexpr double kLeast = 1e-12;

// FP8 units sum over multiples of this.
constexpr int64_t kMultiple = 16;

// One kernel that reads the matrix once. `largest` are the magnitudes that become the type's largest
// value, `limit`: of all values, or of each row and of each column. Rows are filled up with zeros to
// a multiple of `kMultiple`.
Cast cast_on_gpu(
    const at::Tensor& matrix,
    const at::Tensor& largest_of_rows,
    const at::Tensor& largest_of_columns,
    double limit,
    at::ScalarType type,
    Wanted wanted);

} // namespace torchgauge::fp8
