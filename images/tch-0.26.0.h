// Functions that torch 2.14 has removed and that tch 0.26 still wraps. Put before every source that
// is compiled with this tch; nothing of the workload calls them.
#pragma once
#include <torch/version.h>

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 14)
#include <ATen/ops/linalg_cholesky.h>
#include <ATen/ops/linalg_qr.h>
#include <tuple>

namespace torch {

inline at::Tensor cholesky(const at::Tensor &self, bool upper = false) {
  return at::linalg_cholesky(self, upper);
}

inline at::Tensor &cholesky_out(at::Tensor &out, const at::Tensor &self, bool upper = false) {
  return at::linalg_cholesky_out(out, self, upper);
}

inline std::tuple<at::Tensor, at::Tensor> qr(const at::Tensor &self, bool some = true) {
  return at::linalg_qr(self, some ? "reduced" : "complete");
}

inline std::tuple<at::Tensor &, at::Tensor &> qr_out(
    at::Tensor &q, at::Tensor &r, const at::Tensor &self, bool some = true) {
  return at::linalg_qr_out(q, r, self, some ? "reduced" : "complete");
}

} // namespace torch
#endif
