// The border's CUDA functions: cuda.cpp implements them, and no_cuda.cpp in a build
// without CUDA.
#pragma once

#include "border.h"

namespace c10 {
struct Event;
}

extern "C" {

// A stream of its own, current for the thread as long as this lives.
struct SideStream;

// A stream of its own for copies to a GPU.
struct Copier;

// A graph and what it takes to clean up after a capture that failed.
struct CudaGraph;

struct CudaFacts {
  char name[256];
  uint8_t uuid[16];
  int32_t major;
  int32_t minor;
  int32_t multiprocessors;
  uint64_t total_memory_bytes;
  int32_t runtime_version;
  int32_t driver_version;
  // Negative where there is no cuDNN.
  int64_t cudnn_version;
  // 0 where there is no NCCL.
  int32_t nccl_version;
};

struct DeviceStats {
  int64_t allocated_bytes;
  int64_t peak_allocated_bytes;
  int64_t reserved_bytes;
  int64_t peak_reserved_bytes;
  int64_t retries;
  int64_t out_of_memory;
  int64_t device_allocations;
  int64_t device_frees;
  int64_t requested_bytes;
  int64_t peak_requested_bytes;
  int64_t active_bytes;
  int64_t peak_active_bytes;
  int64_t inactive_split_bytes;
  int64_t peak_inactive_split_bytes;
  int64_t segments;
  int64_t peak_segments;
  // Whether the driver's allocations and everything below them are counted at all.
  bool counts_blocks;
};

// An allocation that failed, and what the allocator held at that moment.
struct Shortage {
  uint64_t requested_bytes;
  uint64_t free_bytes;
  // Of the GPU, or of the share of it that this process may take.
  uint64_t capacity_bytes;
  uint64_t allocated_bytes;
  uint64_t reserved_bytes;
};

struct AllocatorSettings {
  char backend[64];
  bool expandable_segments;
  // The largest `uint64_t` where there is no limit.
  uint64_t max_split_size_bytes;
  double garbage_collection_threshold;
  uint64_t roundup_power2_divisions[16];
  uint64_t roundup_power2_divisions_length;
};

bool torchgauge_cuda_built() noexcept;

// 0 where there is no GPU or no driver, too.
void torchgauge_cuda_device_count(int32_t* count, Failure* failure) noexcept;

void torchgauge_cuda_facts(int32_t index, CudaFacts* facts, Failure* failure) noexcept;

// Makes the GPU current and its context real.
void torchgauge_cuda_start(int32_t index, Failure* failure) noexcept;

void torchgauge_cuda_synchronize(Failure* failure) noexcept;

void torchgauge_cuda_memory_info(
    int32_t index, uint64_t* free_bytes, uint64_t* total_bytes, Failure* failure) noexcept;

void torchgauge_cuda_set_tf32(bool matmul, bool cudnn, Failure* failure) noexcept;

void torchgauge_cuda_tf32(bool* matmul, bool* cudnn, Failure* failure) noexcept;

void torchgauge_cuda_set_cudnn_benchmark(bool on, Failure* failure) noexcept;

void torchgauge_cuda_empty_cache(Failure* failure) noexcept;

void torchgauge_cuda_set_memory_fraction(int32_t index, double fraction, Failure* failure) noexcept;

// Whether the allocator's segments can be unified memory, which takes a binary that exports
// `cudaMalloc`.
bool torchgauge_cuda_can_manage() noexcept;

// From now on they are, up to so many bytes.
void torchgauge_cuda_manage(int32_t index, uint64_t bytes, Failure* failure) noexcept;

void torchgauge_cuda_device_stats(int32_t index, DeviceStats* stats, Failure* failure) noexcept;

// From now on the last allocation that fails is remembered; once for a process. The `cudaMallocAsync`
// backend tells nobody of them.
void torchgauge_cuda_watch_shortages(int32_t index, Failure* failure) noexcept;

// False where none has failed yet.
bool torchgauge_cuda_last_shortage(Shortage* shortage) noexcept;

void torchgauge_cuda_reset_peak(int32_t index, Failure* failure) noexcept;

// Of the native allocator alone; 0 where it holds none.
void torchgauge_cuda_largest_free_block(int32_t index, uint64_t* bytes, Failure* failure) noexcept;

// From now on the last `entries` events of the allocators are known, with who asked for them.
void torchgauge_cuda_record_history(uint64_t entries, Failure* failure) noexcept;

// Keeps what is known now, in place of what was kept before; when an allocation fails this happens
// by itself.
void torchgauge_cuda_keep_snapshot(Failure* failure) noexcept;

// Writes what was kept; nothing where nothing was.
void torchgauge_cuda_write_snapshot(const char* path, Failure* failure) noexcept;

void torchgauge_cuda_allocator(AllocatorSettings* settings, Failure* failure) noexcept;

void torchgauge_cuda_event_new(c10::Event** event, Failure* failure) noexcept;

void torchgauge_cuda_event_free(c10::Event* event, Failure* failure) noexcept;

void torchgauge_cuda_event_record(c10::Event* event, Failure* failure) noexcept;

// Waits for both.
void torchgauge_cuda_event_elapsed(
    const c10::Event* earlier,
    const c10::Event* later,
    double* milliseconds,
    Failure* failure) noexcept;

// On the current GPU.
void torchgauge_cuda_copier_new(Copier** copier, Failure* failure) noexcept;

void torchgauge_cuda_copier_free(Copier* copier) noexcept;

// Copies to pinned memory, then queues the copy from there, between two marks.
void torchgauge_cuda_copier_copy(
    const Copier* copier,
    const at::Tensor* tensor,
    c10::Event* began,
    c10::Event* ended,
    at::Tensor** there,
    Failure* failure) noexcept;

// What is queued on the current stream from now on waits for the copy; the copy's memory waits for
// what is queued until it is freed.
void torchgauge_cuda_receive(
    const at::Tensor* tensor, const c10::Event* ended, Failure* failure) noexcept;

void torchgauge_cuda_graph_new(CudaGraph** graph, Failure* failure) noexcept;

void torchgauge_cuda_graph_free(CudaGraph* graph, Failure* failure) noexcept;

// Waits for all work of the GPU, then makes another stream current.
void torchgauge_cuda_side_stream_enter(SideStream** stream, Failure* failure) noexcept;

void torchgauge_cuda_side_stream_leave(SideStream* stream, Failure* failure) noexcept;

void torchgauge_cuda_graph_begin(CudaGraph* graph, Failure* failure) noexcept;

// Also after work that failed; then this fails too, and leaves the GPU usable.
void torchgauge_cuda_graph_end(CudaGraph* graph, Failure* failure) noexcept;

void torchgauge_cuda_graph_replay(CudaGraph* graph, Failure* failure) noexcept;
}
