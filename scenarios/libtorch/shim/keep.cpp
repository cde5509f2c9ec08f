// In which form blocks keep what backward needs: as it is, shorter, or in the host's memory.
//
// Forward: what autograd saves within a block goes through hooks. Storages are copied to pinned
// memory as they are saved, once whatever views of them are saved, and are let go two blocks later,
// when the copies had a block's time. Backward: the first tensor that a block asks for has the
// storages of the block before it come back. Nothing comes back of the last block, whose backward
// follows at once, and of the one before it, which was not let go yet.
//
// Weights stay where they are: their storages are known, and autocast's copies of them are those
// that views and casts alone lie between and a leaf.
#include "mover.h"
#include "saved_hooks.h"
#include "values_key.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <limits>
#include <typeinfo>
#include <unordered_set>

namespace {

using torch::autograd::SavedVariableHooks;
using torchgauge::guarded;
using torchgauge::Mover;
using Key = torchgauge::ValuesKey;

// As in `keep.rs`.
enum Form : int32_t { kPlain = 0, kBf16 = 1, kInt8 = 2 };

struct Keeper {
  std::shared_ptr<Mover> mover;
  Form form;
  // Of parameters and buffers.
  std::unordered_set<const c10::StorageImpl*> weights;
};

// Fewer values are not worth a shorter form.
constexpr int64_t kLeastShortened = 1024;
// A scale for fewer values costs as much as it saves.
constexpr int64_t kLeastRow = 32;

// A storage that lies on the host for a while.
class Slot {
 public:
  Slot(std::shared_ptr<Mover> mover, const c10::Storage& storage)
      : mover_(std::move(mover)), host_(mover_->borrow(storage.nbytes())) {
    device_ = at::empty({0}, at::TensorOptions(at::kByte).device(storage.device()));
    device_.set_(storage, 0, {host_.numel()}, {1});
    copied_ = mover_->copy(host_, device_);
  }
  ~Slot() {
    try {
      mover_->follow(copied_);
      mover_->give_back(std::move(host_));
    } catch (const std::exception&) {
      // A device that is lost copies nothing any more.
    }
  }
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;

  void let_go() {
    mover_->follow(copied_);
    device_.reset();
  }
  void fetch() {
    if (!device_.defined()) {
      device_ = at::empty({host_.numel()}, at::TensorOptions(at::kByte).device(mover_->device()));
      copied_ = mover_->copy(device_, host_);
    }
  }
  c10::Storage storage() {
    fetch();
    mover_->follow(copied_);
    return device_.storage();
  }

 private:
  std::shared_ptr<Mover> mover_;
  at::Tensor host_;
  // Undefined while the storage lies on the host alone.
  at::Tensor device_;
  Mover::Copied copied_;
};

// A tensor that is kept bit for bit, on the device or in a slot.
struct Kept {
  explicit Kept(const at::Tensor& tensor, std::shared_ptr<Slot> slot = nullptr)
      : slot(std::move(slot)) {
    if (!this->slot) {
      // Of an output, the tensor itself would keep the node that keeps it.
      plain = tensor.detach();
      return;
    }
    options = at::TensorOptions(tensor.scalar_type()).device(tensor.device());
    sizes = tensor.sizes().vec();
    strides = tensor.strides().vec();
    offset = tensor.storage_offset();
  }
  at::Tensor get() const {
    if (!slot) {
      return plain;
    }
    at::Tensor result = at::empty({0}, options);
    result.set_(slot->storage(), offset, sizes, strides);
    return result;
  }

  std::shared_ptr<Slot> slot;
  at::Tensor plain;
  at::TensorOptions options;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

// A tensor that is kept in a shorter form; without a scale in bfloat16.
struct Shortened {
  Kept codes;
  at::Tensor scale;
  c10::ScalarType type;

  at::Tensor get() const {
    const at::Tensor values = codes.get();
    return (scale.defined() ? values * scale : values).to(type);
  }
};

bool is_autocast_copy(const at::Tensor& tensor) {
  const torch::autograd::Node* node = tensor.grad_fn().get();
  while (node != nullptr && node->num_outputs() == 1) {
    const char* name = typeid(*node).name();
    const auto is = [name](const char* part) { return std::strstr(name, part) != nullptr; };
    if (!is("ToCopyBackward") && !is("10TBackward0") && !is("TransposeBackward") &&
        !is("ViewBackward")) {
      return false;
    }
    node = node->next_edge(0).function.get();
    if (dynamic_cast<const torch::autograd::AccumulateGrad*>(node) != nullptr) {
      return true;
    }
  }
  return false;
}

// One forward through the blocks of a model, and its backward.
class Pass : public torchgauge::HookSource, public std::enable_shared_from_this<Pass> {
 public:
  explicit Pass(std::shared_ptr<const Keeper> keeper) : keeper_(std::move(keeper)) {}

  // Whether what the block saves goes through hooks.
  bool enter(bool is_last) {
    blocks_.emplace_back();
    if (blocks_.size() > 2) {
      for (const auto& slot : blocks_[blocks_.size() - 3]) {
        if (const auto alive = slot.lock()) {
          alive->let_go();
        }
      }
    }
    const auto is_gone = [](const auto& known) { return known.first.storage.expired(); };
    slots_.erase(std::remove_if(slots_.begin(), slots_.end(), is_gone), slots_.end());
    short_.erase(std::remove_if(short_.begin(), short_.end(), is_gone), short_.end());
    offloads_ = keeper_->mover != nullptr && !is_last;
    return offloads_ || keeper_->form != kPlain;
  }

  size_t block() const {
    return blocks_.size() - 1;
  }

  std::unique_ptr<SavedVariableHooks> hooks() override;

  bool is_weight(const at::Tensor& tensor) const {
    return !tensor.has_storage() || !tensor.storage() ||
        keeper_->weights.count(tensor.storage().unsafeGetStorageImpl()) > 0 ||
        is_autocast_copy(tensor);
  }

  // `nullptr` where the tensor is to be kept bit for bit. What has no gradient, such as the sums of
  // an attention and the statistics of a norm, is little and asks for all of its bits.
  std::shared_ptr<const Shortened> shorten(const at::Tensor& tensor) {
    const auto type = tensor.scalar_type();
    const bool is_float = type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
    if (keeper_->form == kPlain || !is_float || !tensor.requires_grad() ||
        tensor.numel() < kLeastShortened) {
      return nullptr;
    }
    for (const auto& [key, known] : short_) {
      const auto alive = key.is_of(tensor) ? known.lock() : nullptr;
      if (alive) {
        return alive;
      }
    }
    const auto made = make_short(tensor.detach());
    if (made) {
      short_.emplace_back(Key(tensor), made);
    }
    return made;
  }

  Kept keep(const at::Tensor& tensor) {
    if (!offloads_ || tensor.device() != keeper_->mover->device() ||
        tensor.storage().nbytes() < keeper_->mover->least()) {
      return Kept(tensor);
    }
    for (const auto& [key, known] : slots_) {
      const auto alive = key.has_storage_of(tensor) ? known.lock() : nullptr;
      if (alive) {
        return Kept(tensor, alive);
      }
    }
    const auto slot = std::make_shared<Slot>(keeper_->mover, tensor.storage());
    slots_.emplace_back(Key(tensor), slot);
    blocks_.back().push_back(slot);
    return Kept(tensor, slot);
  }

  // A tensor of this block is asked for, so those of the block before it are next.
  void is_asked(size_t block) {
    if (block == 0 || block >= asked_) {
      return;
    }
    asked_ = block;
    const auto& before = blocks_[block - 1];
    for (auto slot = before.rbegin(); slot != before.rend(); ++slot) {
      if (const auto alive = slot->lock()) {
        alive->fetch();
      }
    }
  }

 private:
  std::shared_ptr<const Shortened> make_short(const at::Tensor& tensor) {
    const auto type = tensor.scalar_type();
    if (keeper_->form == kBf16) {
      if (type != at::kFloat) {
        return nullptr;
      }
      return std::make_shared<Shortened>(Shortened{keep(tensor.to(at::kBFloat16)), {}, type});
    }
    std::vector<int64_t> row{-1};
    if (tensor.dim() > 1 && tensor.size(-1) < kLeastRow) {
      row.push_back(-2);
    }
    int64_t length = 1;
    for (const int64_t dimension : row) {
      length *= tensor.dim() > 0 ? tensor.size(dimension) : 1;
    }
    if (length < kLeastRow) {
      return nullptr;
    }
    constexpr double infinity = std::numeric_limits<double>::infinity();
    // A row of zeros has the scale of the smallest numbers.
    const at::Tensor scale = at::linalg_vector_norm(tensor, infinity, row, /*keepdim=*/true)
                                 .to(at::kFloat)
                                 .div_(127)
                                 .clamp_min_(std::numeric_limits<float>::min());
    const at::Tensor codes = (tensor / scale).round_().to(at::kChar);
    return std::make_shared<Shortened>(Shortened{keep(codes), scale, type});
  }

  std::shared_ptr<const Keeper> keeper_;
  bool offloads_ = false;
  // The slots of each block, in the order in which they were filled.
  std::vector<std::vector<std::weak_ptr<Slot>>> blocks_;
  std::vector<std::pair<Key, std::weak_ptr<Slot>>> slots_;
  std::vector<std::pair<Key, std::weak_ptr<const Shortened>>> short_;
  size_t asked_ = std::numeric_limits<size_t>::max();
};

struct KeptHooks : SavedVariableHooks {
  explicit KeptHooks(std::shared_ptr<Pass> pass) : pass(std::move(pass)) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    block = pass->block();
    if (pass->is_weight(tensor)) {
      kept.emplace(tensor);
    } else if (!(shortened = pass->shorten(tensor))) {
      kept.emplace(pass->keep(tensor));
    }
  }
  at::Tensor call_unpack_hook() override {
    const at::NoGradGuard no_grad;
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    at::Tensor result = shortened ? shortened->get() : kept->get();
    pass->is_asked(block);
    return result;
  }
  std::shared_ptr<Pass> pass;
  size_t block = 0;
  std::optional<Kept> kept;
  std::shared_ptr<const Shortened> shortened;
};

std::unique_ptr<SavedVariableHooks> Pass::hooks() {
  return std::make_unique<KeptHooks>(shared_from_this());
}

thread_local std::shared_ptr<Pass> current_pass;

} // namespace

extern "C" {

// `mover` is null where everything stays on the device.
void torchgauge_keep_new(
    const std::shared_ptr<Mover>* mover,
    int32_t form,
    const at::Tensor* const* weights,
    size_t n,
    std::shared_ptr<Keeper>** keeper,
    Failure* failure) noexcept {
  guarded(failure, [&] {
    torchgauge::HookEngine::install();
    auto made = std::make_shared<Keeper>();
    made->mover = mover == nullptr ? nullptr : *mover;
    made->form = static_cast<Form>(form);
    for (const at::Tensor& weight : torchgauge::list(weights, n)) {
      made->weights.insert(weight.storage().unsafeGetStorageImpl());
    }
    *keeper = new std::shared_ptr<Keeper>(std::move(made));
  });
}

void torchgauge_keep_free(std::shared_ptr<Keeper>* keeper, Failure* failure) noexcept {
  guarded(failure, [&] { delete keeper; });
}

// The thread's next blocks are those of one forward.
void torchgauge_keep_begin(const std::shared_ptr<Keeper>* keeper, Failure* failure) noexcept {
  guarded(failure, [&] { current_pass = std::make_shared<Pass>(*keeper); });
}

void torchgauge_keep_end() noexcept {
  current_pass.reset();
}

// Whether what the block saves goes through hooks until it is left.
bool torchgauge_keep_enter(bool is_last, Failure* failure) noexcept {
  bool is_hooked = false;
  guarded(failure, [&] {
    if (current_pass && at::GradMode::is_enabled() && current_pass->enter(is_last)) {
      torchgauge::hook_sources.push_back(current_pass.get());
      is_hooked = true;
    }
  });
  return is_hooked;
}

void torchgauge_keep_leave() noexcept {
  torchgauge::hook_sources.pop_back();
}
}
