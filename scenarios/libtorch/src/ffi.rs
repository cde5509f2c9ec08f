//! The border, as `shim/*.h` and `shim/*.cpp` define it.

use std::ffi::{c_char, c_void};

use protocol::Shortage;
use torch_sys::C_tensor;

use crate::{
    Result,
    attribution::Happened,
    optim::{AdamW, Sgd},
};

pub(crate) const CODE_FINE: i32 = 0;
pub(crate) const CODE_LIBTORCH: i32 = 1;
pub(crate) const CODE_OUT_OF_MEMORY: i32 = 2;
pub(crate) const CODE_NOT_BUILT_WITH_CUDA: i32 = 3;
pub(crate) const CODE_PANIC: i32 = 4;

/// The out-parameter of every function that can fail.
#[repr(C)]
pub(crate) struct Failure {
    pub(crate) code: i32,
    pub(crate) message: *mut c_char,
}

/// A type that only C++ knows the inside of.
macro_rules! opaque {
    ($($name:ident)*) => {$(
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque!(
    AutocastScope CollectiveWork Copier CudaEvent CudaGraph GradientReducer Inference Keeper Mover
    ProcessGroup SideStream
);

#[repr(C)]
pub(crate) struct CudaFacts {
    pub(crate) name: [c_char; 256],
    pub(crate) uuid: [u8; 16],
    pub(crate) major: i32,
    pub(crate) minor: i32,
    pub(crate) multiprocessors: i32,
    pub(crate) total_memory_bytes: u64,
    pub(crate) runtime_version: i32,
    pub(crate) driver_version: i32,
    pub(crate) cudnn_version: i64,
    pub(crate) nccl_version: i32,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct DeviceStats {
    pub(crate) allocated_bytes: i64,
    pub(crate) peak_allocated_bytes: i64,
    pub(crate) reserved_bytes: i64,
    pub(crate) peak_reserved_bytes: i64,
    pub(crate) retries: i64,
    pub(crate) out_of_memory: i64,
    pub(crate) device_allocations: i64,
    pub(crate) device_frees: i64,
    pub(crate) requested_bytes: i64,
    pub(crate) peak_requested_bytes: i64,
    pub(crate) active_bytes: i64,
    pub(crate) peak_active_bytes: i64,
    pub(crate) inactive_split_bytes: i64,
    pub(crate) peak_inactive_split_bytes: i64,
    pub(crate) segments: i64,
    pub(crate) peak_segments: i64,
    pub(crate) counts_blocks: bool,
}

#[repr(C)]
pub(crate) struct AllocatorSettings {
    pub(crate) backend: [c_char; 64],
    pub(crate) expandable_segments: bool,
    pub(crate) max_split_size_bytes: u64,
    pub(crate) garbage_collection_threshold: f64,
    pub(crate) roundup_power2_divisions: [u64; 16],
    pub(crate) roundup_power2_divisions_length: u64,
}

/// How libtorch calls a Rust body.
pub(crate) type BodyCall = unsafe extern "C" fn(
    body: *mut c_void,
    inputs: *const *mut C_tensor,
    n: usize,
    output: *mut *mut C_tensor,
    failure: *mut Failure,
);

/// How libtorch gives a Rust body back.
pub(crate) type BodyDrop = unsafe extern "C" fn(body: *mut c_void);

/// How the shim gives an event of the profiler.
pub(crate) type ProfiledVisit = unsafe extern "C" fn(
    into: *mut c_void,
    name: *const u8,
    length: usize,
    thread: u64,
    began: u64,
    took: u64,
    is_on_gpu: bool,
);

/// How the shim gives a tensor that backward has come to; a failure ends backward.
pub(crate) type GradientVisit = unsafe extern "C" fn(body: *mut c_void, failure: *mut Failure);

/// How the shim says why the process ends.
pub(crate) type LastWords = unsafe extern "C" fn(message: *const c_char);

/// How the shim gives what happened within a step.
pub(crate) type HappenedVisit =
    unsafe extern "C" fn(into: *mut c_void, all: *const Happened, n: usize);

/// What the shim does with parameters and their tensors on the host.
pub(crate) type MoverPairs = unsafe fn(*const Mover, Tensors, Tensors, usize) -> Result<()>;

/// A list of tensors.
type Tensors = *const *const C_tensor;

unsafe extern "C" {
    pub(crate) fn torchgauge_free_message(message: *mut c_char);
    pub(crate) fn torchgauge_fill_failure(failure: *mut Failure, code: i32, message: *const c_char);
    pub(crate) fn torchgauge_version() -> *const c_char;
    pub(crate) fn torchgauge_exit_now(code: i32) -> !;
    pub(crate) fn torchgauge_attribution_add(kind: i32, what: u64, failure: *mut Failure) -> bool;
    pub(crate) fn torchgauge_host_memory_live() -> i64;
    pub(crate) fn torchgauge_host_memory_peak() -> i64;
    pub(crate) fn torchgauge_host_memory_reset_peak();
    pub(crate) fn torchgauge_inference_leave(guard: *mut Inference);
    pub(crate) fn torchgauge_fp8_casts() -> u64;
    pub(crate) fn torchgauge_collective_free(work: *mut CollectiveWork);
    pub(crate) fn torchgauge_reducer_free(reducer: *mut GradientReducer);
    pub(crate) fn torchgauge_on_terminate(told: LastWords);
    pub(crate) fn torchgauge_cuda_built() -> bool;
    pub(crate) fn torchgauge_cuda_can_manage() -> bool;
    pub(crate) fn torchgauge_cuda_last_shortage(shortage: *mut Shortage) -> bool;
    pub(crate) fn torchgauge_mover_counts(mover: *const Mover, moved: *mut u64, pinned: *mut u64);
    pub(crate) fn torchgauge_mover_send(mover: *const Mover, on: bool);
    pub(crate) fn torchgauge_keep_end();
    pub(crate) fn torchgauge_keep_enter(is_last: bool, failure: *mut Failure) -> bool;
    pub(crate) fn torchgauge_keep_leave();
    pub(crate) fn torchgauge_cuda_copier_free(copier: *mut Copier);
}

/// Declares what can fail: functions of the shim that take a [`Failure`] behind these arguments, each
/// with a face that gives it back as an error and leaves `torchgauge_` out of its name.
macro_rules! fallible {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {
        mod raw {
            use super::*;

            unsafe extern "C" {
                $(
                    #[link_name = concat!("torchgauge_", stringify!($name))]
                    pub(super) fn $name($($argument: $type,)* failure: *mut Failure);
                )*
            }
        }
        $(
            /// # Safety
            /// Pointers are valid for the call, and lists as long as is said.
            #[allow(clippy::too_many_arguments, reason = "as many as C++ takes")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> Result<()> {
                // SAFETY: by this function's contract; `failure` is valid.
                crate::error::call(|failure| unsafe { raw::$name($($argument,)* failure) })
            }
        )*
    };
}

fallible! {
    fn set_threads(threads: i32);
    fn seed(seed: u64);
    fn set_deterministic(on: bool);
    fn set_attention(flash: bool, efficient: bool, cudnn: bool, math: bool);
    fn profiler_begin(cuda: bool);
    fn profiler_end(into: *mut c_void, visit: ProfiledVisit);
    fn attribution_begin(cuda: bool, index: i32);
    fn attribution_end(into: *mut c_void, visit: Option<HappenedVisit>);
    fn host_memory_install();
    fn autocast_enter(cuda: bool, dtype: i32, cache_enabled: bool, scope: *mut *mut AutocastScope);
    fn autocast_leave(scope: *mut AutocastScope);
    fn autocast_read(cuda: bool, dtype: *mut i32, cache_enabled: *mut bool);
    fn inference_enter(guard: *mut *mut Inference);
    fn backward(loss: *const C_tensor, gradient: *const C_tensor);
    fn zero_grad(tensors: Tensors, n: usize);
    fn gradient(tensor: *const C_tensor, gradient: *mut *mut C_tensor);
    fn fp8_linear(
        input: *const C_tensor, weight: *const C_tensor, bias: *const C_tensor, each: bool,
        output: *mut *mut C_tensor
    );
    fn checkpoint(
        inputs: Tensors, n: usize, body: *mut c_void, call: BodyCall, drop: BodyDrop,
        output: *mut *mut C_tensor
    );
    fn group_new(
        host: *const c_char, port: u16, rank: i32, world: i32, device: i32, timeout_ms: u64,
        group: *mut *mut ProcessGroup
    );
    fn collective(
        group: *mut ProcessGroup, kind: i32, output: *const C_tensor, input: *const C_tensor,
        peer: i32, is_waited_for: bool, work: *mut *mut CollectiveWork
    );
    fn collective_wait(work: *mut CollectiveWork);
    fn nccl_explain(file: *const c_char, explains: *mut bool);
    fn group_broadcast(group: *mut ProcessGroup, tensors: Tensors, n: usize);
    fn reducer_new(
        group: *mut ProcessGroup, tensors: Tensors, n: usize, reducer: *mut *mut GradientReducer
    );
    fn reducer_before_forward(reducer: *mut GradientReducer, exchanges: bool);
    fn reducer_before_backward(reducer: *mut GradientReducer);
    fn resize_storage(tensor: *const C_tensor, bytes: usize);
    fn on_gradient(tensor: *const C_tensor, body: *mut c_void, call: GradientVisit, drop: BodyDrop);
    fn fused_sgd(
        parameters: Tensors, gradients: Tensors, momentum_buffers: Tensors, n: usize,
        options: *const Sgd, found_inf: *const C_tensor
    );
    fn fused_adamw(
        parameters: Tensors, gradients: Tensors, exp_avgs: Tensors, exp_avg_sqs: Tensors,
        steps: Tensors, n: usize, options: *const AdamW, found_inf: *const C_tensor
    );
    fn unscale(
        gradients: Tensors, n: usize, found_inf: *const C_tensor, inverse_scale: *const C_tensor
    );
    fn update_scale(
        scale: *const C_tensor, growth_tracker: *const C_tensor, found_inf: *const C_tensor,
        growth_factor: f64, backoff_factor: f64, growth_interval: i64
    );
    fn cuda_device_count(count: *mut i32);
    fn cuda_facts(index: i32, facts: *mut CudaFacts);
    fn cuda_start(index: i32);
    fn cuda_synchronize();
    fn cuda_memory_info(index: i32, free_bytes: *mut u64, total_bytes: *mut u64);
    fn cuda_set_tf32(matmul: bool, cudnn: bool);
    fn cuda_tf32(matmul: *mut bool, cudnn: *mut bool);
    fn cuda_set_cudnn_benchmark(on: bool);
    fn cuda_empty_cache();
    fn cuda_set_memory_fraction(index: i32, fraction: f64);
    fn cuda_manage(index: i32, bytes: u64);
    fn cuda_device_stats(index: i32, stats: *mut DeviceStats);
    fn cuda_watch_shortages(index: i32);
    fn cuda_reset_peak(index: i32);
    fn cuda_largest_free_block(index: i32, bytes: *mut u64);
    fn cuda_record_history(entries: u64);
    fn cuda_keep_snapshot();
    fn cuda_write_snapshot(path: *const c_char);
    fn cuda_allocator(settings: *mut AllocatorSettings);
    fn cuda_event_new(event: *mut *mut CudaEvent);
    fn cuda_event_free(event: *mut CudaEvent);
    fn cuda_event_record(event: *mut CudaEvent);
    fn cuda_event_elapsed(
        earlier: *const CudaEvent, later: *const CudaEvent, milliseconds: *mut f64
    );
    fn mover_new(gpu: i32, limit: u64, least: u64, mover: *mut *mut Mover);
    fn mover_free(mover: *mut Mover);
    fn mover_host_like(mover: *const Mover, tensor: *const C_tensor, host: *mut *mut C_tensor);
    fn mover_watch(mover: *const Mover, parameters: Tensors, hosts: Tensors, n: usize);
    fn mover_finish(mover: *const Mover, sent: *mut bool, n: usize);
    fn mover_return(mover: *const Mover, parameters: Tensors, hosts: Tensors, n: usize);
    fn keep_new(
        mover: *const Mover, form: i32, weights: Tensors, n: usize, keeper: *mut *mut Keeper
    );
    fn keep_free(keeper: *mut Keeper);
    fn keep_begin(keeper: *const Keeper);
    fn cuda_copier_new(copier: *mut *mut Copier);
    fn cuda_copier_copy(
        copier: *const Copier, tensor: *const C_tensor, began: *mut CudaEvent,
        ended: *mut CudaEvent, there: *mut *mut C_tensor
    );
    fn cuda_receive(tensor: *const C_tensor, ended: *const CudaEvent);
    fn cuda_side_stream_enter(stream: *mut *mut SideStream);
    fn cuda_side_stream_leave(stream: *mut SideStream);
    fn cuda_graph_new(graph: *mut *mut CudaGraph);
    fn cuda_graph_free(graph: *mut CudaGraph);
    fn cuda_graph_begin(graph: *mut CudaGraph);
    fn cuda_graph_end(graph: *mut CudaGraph);
    fn cuda_graph_replay(graph: *mut CudaGraph);
}
