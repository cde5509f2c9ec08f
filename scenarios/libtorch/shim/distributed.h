// Process groups of c10d: distributed.cpp has them, and the half for GPUs is in nccl.cpp.
#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>

namespace torchgauge {

// NCCL between GPUs, of which this rank has number `device`. Throws where the build has none.
c10::intrusive_ptr<c10d::Backend> nccl_backend(
    const c10::intrusive_ptr<c10d::Store>& store,
    int rank,
    int world,
    int device,
    std::chrono::milliseconds timeout);

} // namespace torchgauge
