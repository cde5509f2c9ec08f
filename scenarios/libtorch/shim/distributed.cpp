// Ranks that work together: a TCP store through which they meet, a process group of Gloo on the
// CPU or of NCCL on GPUs, its collectives, and c10d's Reducer, which `DistributedDataParallel` has
// its gradients averaged by.
#define USE_C10D_GLOO
#include "border.h"
#include "distributed.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <torch/version.h>

#include <unistd.h>

#include <limits>
#include <type_traits>
#include <unordered_map>

// `_allgather_base` and `_reduce_scatter_base` have other names from 2.15 on, and are there still.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

using c10::intrusive_ptr;
using torchgauge::guarded;
using torchgauge::list;

extern "C" {

struct ProcessGroup {
  intrusive_ptr<c10d::Store> store;
  intrusive_ptr<c10d::ProcessGroup> group;
};

struct CollectiveWork {
  intrusive_ptr<c10d::Work> work;
};

struct GradientReducer {
  std::shared_ptr<c10d::Reducer> reducer;
};

enum TorchgaugeCollective : int32_t {
  kAllReduce = 0,
  kAllGather = 1,
  kReduceScatter = 2,
  kBroadcast = 3,
  kSend = 4,
  kReceive = 5,
};
}

namespace {

// 2.5 has the backend's name in options, and later versions have it said afterwards.
template <typename Group>
intrusive_ptr<Group> make_group(
    const intrusive_ptr<c10d::Store>& store, int rank, int world, const std::string& backend) {
  if constexpr (std::is_constructible_v<Group, intrusive_ptr<c10d::Store>, int, int>) {
    auto group = c10::make_intrusive<Group>(store, rank, world);
    group->setDefaultBackend(backend);
    return group;
  } else {
    return c10::make_intrusive<Group>(
        store, rank, world, c10::make_intrusive<typename Group::Options>(backend));
  }
}

using Buckets = std::vector<std::vector<size_t>>;
using Names = std::unordered_map<size_t, std::string>;

// The same arguments as Python's DistributedDataParallel gives by default. Versions differ in
// which there are: per-bucket limits were dropped after 2.6, and others came at the end.
template <typename Reducer>
std::shared_ptr<Reducer> make_reducer(
    const std::vector<at::Tensor>& parameters,
    const Buckets& buckets,
    const std::vector<size_t>& limits,
    const intrusive_ptr<c10d::ProcessGroup>& group) {
  using Tensors = std::vector<at::Tensor>;
  using Group = intrusive_ptr<c10d::ProcessGroup>;
  using Flags = std::vector<bool>;
  using Caps = std::vector<int64_t>;
  const Flags sparse(parameters.size(), false);
  const int64_t cap = c10d::kDefaultBucketBytesCap;
  const int64_t first = c10d::kDefaultFirstBucketBytes;
  if constexpr (std::is_constructible_v<
                    Reducer, Tensors, Buckets, Group, Flags, int64_t, bool, bool, Names, int64_t,
                    bool, bool, Caps>) {
    return std::make_shared<Reducer>(
        parameters, buckets, group, sparse, cap, false, false, Names(), first, false, false,
        Caps());
  } else if constexpr (std::is_constructible_v<
                           Reducer, Tensors, Buckets, Group, Flags, int64_t, bool, bool, Names,
                           int64_t, bool, bool>) {
    return std::make_shared<Reducer>(
        parameters, buckets, group, sparse, cap, false, false, Names(), first, false, false);
  } else if constexpr (std::is_constructible_v<
                           Reducer, Tensors, Buckets, Group, Flags, int64_t, bool, bool, Names,
                           int64_t>) {
    return std::make_shared<Reducer>(
        parameters, buckets, group, sparse, cap, false, false, Names(), first);
  } else {
    return std::make_shared<Reducer>(
        parameters, buckets, limits, group, sparse, cap, false, false, Names(), first);
  }
}

// As Python's collectives with `async_op=False`: where a version knows it, NCCL then works on the
// stream that waits, without a way to another stream and back.
template <typename Options>
auto wait_at_once(Options& options, int) -> decltype(options.asyncOp, void()) {
  options.asyncOp = false;
}
template <typename Options>
void wait_at_once(Options&, long) {}

template <typename Options>
Options options_of(bool is_waited_for) {
  Options options;
  if (is_waited_for) {
    wait_at_once(options, 0);
  }
  return options;
}

intrusive_ptr<c10d::Work> start(
    c10d::ProcessGroup& group,
    int32_t kind,
    at::Tensor output,
    at::Tensor input,
    int peer,
    bool is_waited_for) {
  std::vector<at::Tensor> one{output};
  switch (kind) {
    case kAllReduce:
      return group.allreduce(one, options_of<c10d::AllreduceOptions>(is_waited_for));
    case kAllGather:
      return group._allgather_base(
          output, input, options_of<c10d::AllgatherOptions>(is_waited_for));
    case kReduceScatter:
      return group._reduce_scatter_base(
          output, input, options_of<c10d::ReduceScatterOptions>(is_waited_for));
    case kBroadcast: {
      auto options = options_of<c10d::BroadcastOptions>(is_waited_for);
      options.rootRank = peer;
      return group.broadcast(one, options);
    }
    case kSend:
      return group.send(one, peer, 0);
    default:
      return group.recv(one, peer, 0);
  }
}

using GradientVisit = void (*)(void* body, Failure*);
using BodyDrop = void (*)(void* body);

// A Rust body that hears when a gradient is there, given back with the graph.
class GradientBody {
 public:
  GradientBody(void* body, GradientVisit call, BodyDrop drop)
      : body_(body), call_(call), drop_(drop) {}
  ~GradientBody() {
    drop_(body_);
  }
  GradientBody(const GradientBody&) = delete;
  GradientBody& operator=(const GradientBody&) = delete;

  void run() const {
    Failure failure{kFine, nullptr};
    call_(body_, &failure);
    if (failure.code != kFine) {
      const std::string message(failure.message == nullptr ? "" : failure.message);
      std::free(failure.message);
      throw torchgauge::BodyFailed(failure.code, message);
    }
  }

 private:
  void* body_;
  GradientVisit call_;
  BodyDrop drop_;
};

using LastWords = void (*)(const char* message);
LastWords last_words = nullptr;

} // namespace

extern "C" {

void torchgauge_group_new(
    const char* host,
    uint16_t port,
    int32_t rank,
    int32_t world,
    int32_t device,
    uint64_t timeout_ms,
    ProcessGroup** made,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const std::chrono::milliseconds timeout(timeout_ms);
    c10d::TCPStoreOptions options;
    options.port = port;
    options.isServer = rank == 0;
    options.numWorkers = static_cast<size_t>(world);
    options.timeout = timeout;
    intrusive_ptr<c10d::Store> store = c10::make_intrusive<c10d::TCPStore>(host, options);
    auto group =
        make_group<c10d::ProcessGroup>(store, rank, world, device < 0 ? "gloo" : "nccl");
    if (device < 0) {
      auto gloo = c10d::ProcessGroupGloo::Options::create(timeout);
      // By its interface: a container without a network has no host name to look up.
      gloo->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface("lo"));
      gloo->threads = 2;
      intrusive_ptr<c10d::Backend> backend =
          c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, world, gloo);
      group->setBackend(
          c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, backend);
    } else {
      group->setBackend(
          c10::DeviceType::CUDA,
          c10d::ProcessGroup::BackendType::NCCL,
          torchgauge::nccl_backend(store, rank, world, device, timeout));
    }
    *made = new ProcessGroup{store, group};
  });
}

// Writes to `output`, out of `input` where that is another tensor. Returns before it is done, also
// where the caller waits for it at once.
void torchgauge_collective(
    ProcessGroup* group,
    int32_t kind,
    const at::Tensor* output,
    const at::Tensor* input,
    int32_t peer,
    bool is_waited_for,
    CollectiveWork** work,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const at::NoGradGuard no_grad;
    const at::Tensor other = input == nullptr ? at::Tensor() : *input;
    *work =
        new CollectiveWork{start(*group->group, kind, *output, other, peer, is_waited_for)};
  });
}

// On the CPU until it is done; on a GPU what is launched from now on runs after it. NCCL gives none to
// wait for where it works on the stream that waits.
void torchgauge_collective_wait(CollectiveWork* work, Failure* failure) noexcept {
  guarded(failure, [&] {
    if (work->work) {
      work->work->wait();
    }
  });
}

void torchgauge_collective_free(CollectiveWork* work) noexcept {
  delete work;
}

// As DistributedDataParallel begins, and before each forward with what is no parameter: rank 0's
// values, in pieces of 250 MiB.
void torchgauge_group_broadcast(
    ProcessGroup* group, const at::Tensor* const* tensors, size_t n, Failure* failure) noexcept {
  guarded(failure, [&] {
    const at::NoGradGuard no_grad;
    c10d::broadcast_coalesced(group->group, list(tensors, n), size_t{250} << 20, 0);
  });
}

void torchgauge_reducer_new(
    ProcessGroup* group,
    const at::Tensor* const* tensors,
    size_t n,
    GradientReducer** made,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const auto parameters = list(tensors, n);
    c10d::verify_params_across_processes(group->group, parameters, std::nullopt);
    // All in one until the first backward has told the order in which gradients come.
    auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
        parameters, {static_cast<size_t>(std::numeric_limits<int64_t>::max())});
    *made = new GradientReducer{make_reducer<c10d::Reducer>(
        parameters,
        Buckets(buckets.rbegin(), buckets.rend()),
        std::vector<size_t>(limits.rbegin(), limits.rend()),
        group->group)};
  });
}

void torchgauge_reducer_free(GradientReducer* reducer) noexcept {
  try {
    delete reducer;
  } catch (...) {
    // Its destructor may throw, and nobody could do anything about it.
  }
}

void torchgauge_reducer_before_forward(
    GradientReducer* reducer, bool exchanges, Failure* failure) noexcept {
  guarded(failure, [&] {
    if (exchanges) {
      reducer->reducer->prepare_for_forward();
    }
    reducer->reducer->rebuild_buckets();
  });
}

// The next backward exchanges gradients. One before which this is not called adds to them alone.
void torchgauge_reducer_before_backward(GradientReducer* reducer, Failure* failure) noexcept {
  guarded(failure, [&] { reducer->reducer->prepare_for_backward({}); });
}

// Gives a tensor's memory back, or takes it anew: views of it stay views of it.
void torchgauge_resize_storage(const at::Tensor* tensor, size_t bytes, Failure* failure) noexcept {
  guarded(failure, [&] {
    c10::StorageImpl* storage = tensor->storage().unsafeGetStorageImpl();
    TORCH_CHECK(storage->allocator() != nullptr, "a storage without an allocator");
    if (storage->nbytes() != bytes) {
      storage->set_data_ptr(bytes == 0 ? at::DataPtr(nullptr, storage->device())
                                       : storage->allocator()->allocate(bytes));
      storage->set_nbytes(bytes);
    }
  });
}

// Runs the body when backward has the whole gradient of `tensor`, which is no leaf, and before it
// goes on to what `tensor` was made of.
void torchgauge_on_gradient(
    const at::Tensor* tensor,
    void* body,
    GradientVisit call,
    BodyDrop drop,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    const auto owned = std::make_shared<GradientBody>(body, call, drop);
    tensor->register_hook([owned](const at::Tensor&) { owned->run(); });
  });
}

// What a thread of NCCL's throws, such as that a collective took too long, ends the process; this
// is told before, and the process then ends with code 1.
void torchgauge_on_terminate(LastWords told) noexcept {
  last_words = told;
  std::set_terminate([] {
    try {
      if (const auto thrown = std::current_exception()) {
        std::rethrow_exception(thrown);
      }
      last_words("std::terminate was called");
    } catch (const std::exception& error) {
      last_words(error.what());
    } catch (...) {
      last_words("an exception of unknown type");
    }
    _exit(1);
  });
}
}
