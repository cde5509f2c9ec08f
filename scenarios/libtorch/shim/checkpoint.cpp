// Activation checkpointing: forward keeps the inputs only, and the first tensor that backward
// asks for has the body run again, with the random state and the autocast state of forward.
//
// This is Python's `torch.utils.checkpoint(..., use_reentrant=False)`: the graph is the plain
// one, but what its nodes save goes through hooks. In forward a hook keeps a place in a list and
// drops the tensor; in the second computation, hooks put the tensors into these places, and end
// it once the last place is filled, because whatever comes after it nobody asks for.
//
// The body is Rust. It is called through `call`, must not unwind, and is given back through
// `drop` when the last node that may ask for it dies, on whichever thread that happens.
#include "autocast_scope.h"
#include "border.h"
#include "saved_hooks.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <memory>
#include <mutex>

extern "C" {
// Writes a new tensor to `output`, or fills `failure`.
using BodyCall =
    void (*)(void* body, const at::Tensor* const* inputs, size_t n, at::Tensor** output, Failure*);
using BodyDrop = void (*)(void* body);
}

namespace {

using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;
using torchgauge::HookEngine;
using torchgauge::HookScope;
using torchgauge::HookSource;
using TensorList = std::vector<at::Tensor>;

// One generator and where it stood. Both sides live in host memory, also for a GPU.
struct GeneratorState {
  at::Generator generator;
  at::Tensor state;

  static GeneratorState read(const at::Generator& generator) {
    GeneratorState result{generator, {}};
    const std::lock_guard<std::mutex> lock(result.generator.mutex());
    result.state = result.generator.get_state();
    return result;
  }

  void write() {
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(state);
  }
};

using RandomState = std::vector<GeneratorState>;

// The CPU's generator and those of the GPUs that the inputs lie on.
RandomState read_random_state(const TensorList& inputs) {
  RandomState result;
  result.push_back(GeneratorState::read(at::globalContext().defaultGenerator(at::kCPU)));
  std::vector<c10::Device> seen;
  for (const auto& input : inputs) {
    const c10::Device device = input.device();
    if (device.is_cuda() && std::find(seen.begin(), seen.end(), device) == seen.end()) {
      seen.push_back(device);
      result.push_back(GeneratorState::read(at::globalContext().defaultGenerator(device)));
    }
  }
  return result;
}

// Goes back to a random state for a while.
class RandomScope {
 public:
  explicit RandomScope(RandomState state) {
    before_.reserve(state.size());
    for (const auto& entry : state) {
      before_.push_back(GeneratorState::read(entry.generator));
    }
    for (auto& entry : state) {
      entry.write();
    }
  }
  ~RandomScope() {
    for (auto& entry : before_) {
      // Setting a state that the same generator gave does not fail.
      entry.write();
    }
  }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RandomState before_;
};

// The Rust body.
class Body {
 public:
  Body(void* body, BodyCall call, BodyDrop drop) : body_(body), call_(call), drop_(drop) {}
  ~Body() {
    drop_(body_);
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  at::Tensor run(const TensorList& inputs) const {
    std::vector<const at::Tensor*> pointers;
    pointers.reserve(inputs.size());
    for (const auto& input : inputs) {
      pointers.push_back(&input);
    }
    at::Tensor* output = nullptr;
    Failure failure{kFine, nullptr};
    call_(body_, pointers.data(), pointers.size(), &output, &failure);
    const std::unique_ptr<at::Tensor> owned(output);
    if (failure.code != kFine) {
      const std::string message(failure.message == nullptr ? "" : failure.message);
      std::free(failure.message);
      throw torchgauge::BodyFailed(failure.code, message);
    }
    TORCH_CHECK(
        owned && owned->defined(), "the body of a checkpoint returned an undefined tensor");
    return *owned;
  }

 private:
  void* body_;
  BodyCall call_;
  BodyDrop drop_;
};

class Frame;

// The place of one tensor that a node of the graph saved.
struct Place {
  explicit Place(std::shared_ptr<Frame> frame) : frame(std::move(frame)) {}
  std::shared_ptr<Frame> frame;
  // What forward saw here, which the second computation must see again.
  std::vector<int64_t> sizes;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  // There between the second computation and its use.
  at::Tensor tensor;
};

// Ends the second computation. It passes through libtorch and the Rust body.
struct LastPlaceFilled : std::exception {
  const char* what() const noexcept override {
    return "the checkpoint has all that it needs";
  }
};

// One call of a body: what forward kept of it.
class Frame : public std::enable_shared_from_this<Frame> {
 public:
  Frame(std::shared_ptr<Body> body, const TensorList& inputs)
      : body_(std::move(body)),
        random_(read_random_state(inputs)),
        autocast_(torchgauge::AutocastState::read()) {
    // Saved as a node would: inside another checkpoint, that one's hooks take them.
    for (const auto& input : inputs) {
      inputs_.emplace_back(input, /*is_output=*/false);
    }
  }

  at::Tensor forward(const TensorList& inputs) {
    Recorder recorder(*this);
    const HookScope hooks(recorder);
    return body_->run(inputs);
  }

  at::Tensor take(Place& place) {
    const std::lock_guard<std::recursive_mutex> lock(mutex_);
    if (!place.tensor.defined()) {
      compute_again();
    }
    TORCH_CHECK(
        place.tensor.defined(),
        "the second computation of a checkpoint did not yield a tensor that the first one saved");
    return std::move(place.tensor);
  }

 private:
  // Forward: a new place for each saved tensor.
  struct Recorder : HookSource {
    explicit Recorder(Frame& frame) : frame(frame) {}
    std::unique_ptr<SavedVariableHooks> hooks() override;
    Frame& frame;
  };

  // The second computation: the places in the same order.
  struct Filler : HookSource {
    explicit Filler(Frame& frame) : frame(frame) {}
    std::unique_ptr<SavedVariableHooks> hooks() override;

    void fill(const at::Tensor& tensor) {
      TORCH_CHECK(
          next < frame.places_.size(),
          "the second computation of a checkpoint saves more tensors than the ",
          frame.places_.size(),
          " of the first: the body does not compute the same thing again");
      if (const auto place = frame.places_[next].lock()) {
        TORCH_CHECK(
            tensor.sizes() == c10::IntArrayRef(place->sizes) &&
                tensor.scalar_type() == place->dtype,
            "the second computation of a checkpoint saves a ",
            tensor.scalar_type(),
            tensor.sizes(),
            " where the first saved a ",
            place->dtype,
            c10::IntArrayRef(place->sizes),
            ": the body does not compute the same thing again");
        place->tensor = tensor.detach();
      }
      next += 1;
      if (next == frame.places_.size()) {
        done = true;
        throw LastPlaceFilled();
      }
    }

    Frame& frame;
    size_t next = 0;
    bool done = false;
  };

  struct RecorderHooks : SavedVariableHooks {
    explicit RecorderHooks(std::shared_ptr<Place> place) : place(std::move(place)) {}
    void call_pack_hook(const at::Tensor& tensor) override {
      place->sizes = tensor.sizes().vec();
      place->dtype = tensor.scalar_type();
    }
    at::Tensor call_unpack_hook() override {
      return place->frame->take(*place);
    }
    std::shared_ptr<Place> place;
  };

  struct FillerHooks : SavedVariableHooks {
    explicit FillerHooks(Filler& filler) : filler(filler) {}
    void call_pack_hook(const at::Tensor& tensor) override {
      filler.fill(tensor);
    }
    at::Tensor call_unpack_hook() override {
      TORCH_CHECK(false, "backward through the second computation of a checkpoint");
    }
    // Outlived by nothing that could ask: the graph of the second computation dies within it.
    Filler& filler;
  };

  void compute_again() {
    TensorList inputs;
    inputs.reserve(inputs_.size());
    for (const auto& input : inputs_) {
      // Not detached, as in PyTorch: autocast would keep its cast of a leaf, and share it between uses
      // that forward cast one by one.
      inputs.push_back(input.unpack());
    }
    const at::AutoGradMode with_gradients(true);
    const RandomScope random(random_);
    const torchgauge::AutocastScope autocast(autocast_);
    Filler filler(*this);
    const HookScope hooks(filler);
    try {
      body_->run(inputs);
    } catch (const std::exception&) {
      // As an error of the body, for that is the way it took.
      if (!filler.done) {
        throw;
      }
    }
    TORCH_CHECK(
        filler.done,
        "the second computation of a checkpoint saves ",
        filler.next,
        " tensors where the first saved ",
        places_.size(),
        ": the body does not compute the same thing again");
  }

  std::shared_ptr<Body> body_;
  RandomState random_;
  torchgauge::AutocastState autocast_;
  std::vector<SavedVariable> inputs_;
  std::vector<std::weak_ptr<Place>> places_;
  std::recursive_mutex mutex_;
};

std::unique_ptr<SavedVariableHooks> Frame::Recorder::hooks() {
  auto place = std::make_shared<Place>(frame.shared_from_this());
  frame.places_.push_back(place);
  return std::make_unique<RecorderHooks>(std::move(place));
}

std::unique_ptr<SavedVariableHooks> Frame::Filler::hooks() {
  return std::make_unique<FillerHooks>(*this);
}

} // namespace

extern "C" {

// For the Rust side of `call`.
void torchgauge_fill_failure(Failure* failure, int32_t code, const char* message) noexcept {
  torchgauge::fill(failure, code, message);
}

// Takes `body` over, whatever happens.
void torchgauge_checkpoint(
    const at::Tensor* const* inputs,
    size_t n,
    void* body,
    BodyCall call,
    BodyDrop drop,
    at::Tensor** output,
    Failure* failure) noexcept {
  torchgauge::guarded(failure, [&] {
    auto owned = std::make_shared<Body>(body, call, drop);
    const TensorList tensors = torchgauge::list(inputs, n);
    if (!at::GradMode::is_enabled()) {
      *output = new at::Tensor(owned->run(tensors));
      return;
    }
    HookEngine::install();
    const auto frame = std::make_shared<Frame>(std::move(owned), tensors);
    *output = new at::Tensor(frame->forward(tensors));
  });
}
}
