// SPDX-License-Identifier: Apache-2.0
// qr_adapter: what the inputs of a graph that adapters fill are filled with. Immutable; shared by sessions.
#pragma once

#include "quarry/adapter.h"
#include "runtime/session/session.h"

namespace quarry {

class Adapter : public Counted<Adapter> {
 public:
  // `from` was checked by the edge.
  static Result<Ref<Adapter>> open(const SessionCore &core, const qr_model_source &from,
                                   const qr_adapter_options &options, const CallWatch &watch, bool is_list = false);
  // An input of a model that adapters fill (prepare/low_rank.h), of a size that is known.
  static bool fills(const qrm::TensorInfo &input) noexcept;

  // Zeros. All inputs have the same where nothing is to be written to them.
  enum class Zeros : std::uint8_t { Shared, Own };
  Adapter(const SessionCore &core, Zeros zeros);
  ~Adapter() { free_block(block_); }

  Runtime &runtime() const noexcept { return *runtime_; }
  // One for each number in StatePlan::adapters.
  const Vector<qr_tensor> &tensors() const noexcept { return tensors_; }
  bool fits(const Adapter &other) const noexcept { return signature_ == other.signature_; }
  std::uint64_t weights() const noexcept { return weights_; }  // that it changes

 private:
  Ref<Runtime> runtime_;
  Vector<qr_tensor> tensors_;
  char *block_ = nullptr;
  std::uint64_t signature_ = 0;  // of names, types and shapes
  std::uint64_t weights_ = 0;
};

}  // namespace quarry
