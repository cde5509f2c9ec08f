// Activation checkpointing: forward keeps the inputs only, backward runs the body
// again with the random state and the autocast state that forward had.
//
// The body is Rust. It is called through `call`, must not unwind, and is given back
// through `drop` when the autograd node dies, on whichever thread that happens.
#include "autocast_scope.h"
#include "border.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <mutex>

extern "C" {
// Writes a new tensor to `output`, or fills `failure`.
using BodyCall =
    void (*)(void* body, const at::Tensor* const* inputs, size_t n, at::Tensor** output, Failure*);
using BodyDrop = void (*)(void* body);
}

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// One generator and where it stood. Both sides live in host memory, also for a card.
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

// The processor's generator and those of the cards that the inputs lie on.
RandomState read_random_state(const variable_list& inputs) {
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

// The Rust body, and what forward saw around it.
struct Body : torch::CustomClassHolder {
  Body(void* body, BodyCall call, BodyDrop drop) : body(body), call(call), drop(drop) {}
  ~Body() override {
    drop(body);
  }
  Body(const Body&) = delete;
  Body& operator=(const Body&) = delete;

  at::Tensor run(const variable_list& inputs) const {
    std::vector<const at::Tensor*> pointers;
    pointers.reserve(inputs.size());
    for (const auto& input : inputs) {
      pointers.push_back(&input);
    }
    at::Tensor* output = nullptr;
    Failure failure{kFine, nullptr};
    call(body, pointers.data(), pointers.size(), &output, &failure);
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

  void* body;
  BodyCall call;
  BodyDrop drop;
  RandomState random;
  torchgauge::AutocastState autocast{};
};

struct Checkpoint : torch::autograd::Function<Checkpoint> {
  // libtorch calls this with gradients off. `tie` requires a gradient, so that the
  // output does even where only parameters inside the body do.
  static at::Tensor forward(
      AutogradContext* context,
      at::TensorList inputs,
      const at::Tensor& /*tie*/,
      const c10::intrusive_ptr<Body>& body) {
    const variable_list kept = inputs.vec();
    body->random = read_random_state(kept);
    body->autocast = torchgauge::AutocastState::read();
    context->saved_data["body"] = c10::IValue::make_capsule(body);
    context->save_for_backward(kept);
    return body->run(kept);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const auto body =
        c10::static_intrusive_pointer_cast<Body>(context->saved_data["body"].toCapsule());
    const variable_list inputs = context->get_saved_variables();
    // One for each input, then the tie, then the body itself.
    variable_list result(inputs.size() + 2);
    if (!gradients[0].defined()) {
      return result;
    }

    variable_list detached;
    detached.reserve(inputs.size());
    for (const auto& input : inputs) {
      detached.push_back(input.detach().requires_grad_(input.requires_grad()));
    }
    at::Tensor output;
    {
      const at::AutoGradMode with_gradients(true);
      const RandomScope random(body->random);
      const torchgauge::AutocastScope autocast(body->autocast);
      output = body->run(detached);
    }
    if (output.requires_grad()) {
      torch::autograd::backward({output}, {gradients[0]});
    }
    for (size_t i = 0; i < detached.size(); ++i) {
      result[i] = detached[i].grad();
    }
    return result;
  }
};

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
    const auto owned = c10::make_intrusive<Body>(body, call, drop);
    const variable_list tensors = torchgauge::list(inputs, n);
    if (!at::GradMode::is_enabled()) {
      *output = new at::Tensor(owned->run(tensors));
      return;
    }
    const at::Tensor tie = at::empty({0}).requires_grad_();
    *output = new at::Tensor(Checkpoint::apply(at::TensorList(tensors), tie, owned));
  });
}
}
