// The CUDA functions of a build without CUDA: each says so.
#include "cuda.h"
#include "distributed.h"
#include "fp8.h"
#include "mover.h"

namespace {

void refuse(Failure* failure) {
  torchgauge::fill(failure, kNotBuiltWithCuda, "not built with CUDA");
}

} // namespace

c10::intrusive_ptr<c10d::Backend> torchgauge::nccl_backend(
    const c10::intrusive_ptr<c10d::Store>&, int, int, int, std::chrono::milliseconds) {
  throw NotBuiltWithCuda();
}

void torchgauge::pin(void*, size_t) {
  throw NotBuiltWithCuda();
}

void torchgauge::unpin(void*) noexcept {}

torchgauge::fp8::Cast torchgauge::fp8::cast_on_gpu(
    const at::Tensor&, const at::Tensor&, const at::Tensor&, double, at::ScalarType, Wanted) {
  throw NotBuiltWithCuda();
}

extern "C" {

bool torchgauge_cuda_built() noexcept {
  return false;
}

void torchgauge_cuda_device_count(int32_t*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_facts(int32_t, CudaFacts*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_nccl_explain(const char*, bool*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_start(int32_t, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_synchronize(Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_memory_info(int32_t, uint64_t*, uint64_t*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_set_tf32(bool, bool, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_tf32(bool*, bool*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_set_cudnn_benchmark(bool, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_empty_cache(Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_set_memory_fraction(int32_t, double, Failure* failure) noexcept {
  refuse(failure);
}

bool torchgauge_cuda_can_manage() noexcept {
  return false;
}

void torchgauge_cuda_manage(int32_t, uint64_t, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_device_stats(int32_t, DeviceStats*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_watch_shortages(int32_t, Failure* failure) noexcept {
  refuse(failure);
}

bool torchgauge_cuda_last_shortage(Shortage*) noexcept {
  return false;
}

void torchgauge_cuda_reset_peak(int32_t, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_largest_free_block(int32_t, uint64_t*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_record_history(uint64_t, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_keep_snapshot(Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_write_snapshot(const char*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_allocator(AllocatorSettings*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_event_new(c10::Event**, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_event_free(c10::Event*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_event_record(c10::Event*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_event_elapsed(const c10::Event*, const c10::Event*, double*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_copier_new(Copier**, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_copier_free(Copier*) noexcept {}

void torchgauge_cuda_copier_copy(
    const Copier*, const at::Tensor*, c10::Event*, c10::Event*, at::Tensor**, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_receive(const at::Tensor*, const c10::Event*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_graph_new(CudaGraph**, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_graph_free(CudaGraph*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_side_stream_enter(SideStream**, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_side_stream_leave(SideStream*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_graph_begin(CudaGraph*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_graph_end(CudaGraph*, Failure* failure) noexcept {
  refuse(failure);
}

void torchgauge_cuda_graph_replay(CudaGraph*, Failure* failure) noexcept {
  refuse(failure);
}
}
