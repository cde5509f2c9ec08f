// What says whether a tensor still has the values that something was made of.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace torchgauge {

// The values of a tensor, as long as its storage lives and nothing writes to it.
struct ValuesKey {
  // Tensors of inference mode count none.
  static uint32_t version_of(const at::Tensor& tensor) {
    return tensor.is_inference() ? 0 : static_cast<uint32_t>(tensor._version());
  }
  explicit ValuesKey(const at::Tensor& tensor)
      : storage(tensor.storage().getWeakStorageImpl()),
        version(version_of(tensor)),
        type(tensor.scalar_type()),
        offset(tensor.storage_offset()),
        sizes(tensor.sizes().vec()),
        strides(tensor.strides().vec()) {}
  bool has_storage_of(const at::Tensor& tensor) const {
    return !storage.expired() &&
        storage._unsafe_get_target() == tensor.storage().unsafeGetStorageImpl() &&
        version == version_of(tensor);
  }
  bool is_of(const at::Tensor& tensor) const {
    return has_storage_of(tensor) && type == tensor.scalar_type() &&
        offset == tensor.storage_offset() && tensor.sizes() == c10::IntArrayRef(sizes) &&
        tensor.strides() == c10::IntArrayRef(strides);
  }

  c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  uint32_t version;
  c10::ScalarType type;
  int64_t offset;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
};

} // namespace torchgauge
