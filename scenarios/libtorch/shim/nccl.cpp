// NCCL between GPUs, where NCCL's header lies beside CUDA's.
#include "border.h"
#include "distributed.h"

#if __has_include(<nccl.h>)
#define TORCHGAUGE_HAS_NCCL
#define USE_C10D_NCCL
// nccl.h includes the headers of CUDA's short floats and names no type of theirs. They want CCCL's,
// which no wheel that torch requires has, so they count as included.
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
#define __CUDA_FP8_H__
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace torchgauge {

c10::intrusive_ptr<c10d::Backend> nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int world,
    int device,
    std::chrono::milliseconds timeout) {
#ifdef TORCHGAUGE_HAS_NCCL
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, world, options);
#else
  (void)store, (void)rank, (void)world, (void)device, (void)timeout;
  TORCH_CHECK(
      false,
      "built without NCCL, because nccl.h was missing; unpack the nvidia-nccl wheel's headers "
      "beside CUDA's and build again");
#endif
}

} // namespace torchgauge
