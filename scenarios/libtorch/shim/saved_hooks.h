// Who decides in which form autograd keeps a tensor.
//
// libtorch asks its engine for the hooks of a new saved tensor, and only Python's engine has
// any. So there is an engine here that asks a stack of the thread.
#pragma once

#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <memory>
#include <vector>

namespace torchgauge {

// Makes the hooks of each tensor that is saved while it is on top of the thread's stack.
class HookSource {
 public:
  virtual ~HookSource() = default;
  virtual std::unique_ptr<torch::autograd::SavedVariableHooks> hooks() = 0;
};

inline thread_local std::vector<HookSource*> hook_sources;

class HookScope {
 public:
  explicit HookScope(HookSource& source) {
    hook_sources.push_back(&source);
  }
  ~HookScope() {
    hook_sources.pop_back();
  }
  HookScope(const HookScope&) = delete;
  HookScope& operator=(const HookScope&) = delete;
};

struct HookEngine : torch::autograd::Engine {
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    return hook_sources.empty() ? nullptr : hook_sources.back()->hooks();
  }

  static torch::autograd::Engine& get() {
    static HookEngine engine;
    return engine;
  }

  // Before the first backward of a process that has hooks, so that one engine does all.
  static void install() {
    static const bool installed = (torch::autograd::set_default_engine_stub(get), true);
    (void)installed;
  }
};

} // namespace torchgauge
