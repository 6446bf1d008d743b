// SPDX-License-Identifier: Apache-2.0
// Runs that are smaller than a program of fixed shapes: the option shape.pad, and state that grows in such a program,
// of whose capacity a mask says what counts (docs/guide.md, "Shapes that change", "State").
#pragma once

#include <array>

#include "formats/qrm/qrm.h"
#include "loader/plugin.h"
#include "quarry/session.h"

namespace quarry {

class JsonWriter;
struct SessionBucket;
struct StatePlan;

// One run in a bucket that is larger. Used again and again.
struct Fit {
  static constexpr std::size_t kMost = 4;
  using Sizes = std::array<std::int64_t, kMost>;  // by the numbers of Padding::symbols()
  bool is_on = false;
  Sizes sizes = {}, rooms = {};                   // of the run, and of the bucket
  std::uint64_t past = 0, fresh = 0;              // entries of state: before the run, and those that it adds
  const loader::GraphTensors *program = nullptr;  // of the bucket
  loader::GraphTensors tensors;                   // the same, as large as the run
  Vector<void *> targets;                         // of outputs that are cut; null: the backend writes there
  bool pads() const noexcept { return sizes != rooms; }
};

class Padding : public HeapObject {
 public:
  // Null where nothing is padded. Refuses what cannot be undone in what a run gives.
  static Result<Unique<Padding>> make(std::string_view wanted, const StatePlan &state,
                                      const Vector<qrm::TensorInfo> &inputs, const Vector<qrm::TensorInfo> &outputs,
                                      const Vector<SessionBucket> &buckets);

  // The smallest bucket that has room for the tensors, whose ranks may be others; false: none.
  bool fit(const Vector<SessionBucket> &buckets, const qr_tensor *const *inputs, std::uint64_t past, Fit &out,
           std::size_t *out_bucket) const;
  // Why there is none.
  Status no_fit(const qr_tensor *const *inputs, std::uint64_t past, const Vector<SessionBucket> &buckets) const;
  // An input into the bucket's room for it; an output out of it.
  void lay(std::size_t input, void *to, const void *from, const Fit &fit) const noexcept;
  void cut(std::size_t output, void *to, const void *from, const Fit &fit) const noexcept;

  // The model's, open along what is padded.
  const Vector<qrm::TensorInfo> &inputs() const noexcept { return inputs_; }
  const Vector<qrm::TensorInfo> &outputs() const noexcept { return outputs_; }
  bool has_state() const noexcept { return capacity_ > 0; }
  // "seq: 37 of 64, 42 % padding".
  String describe(const Fit::Sizes &sizes, const Fit::Sizes &rooms) const;
  void write(JsonWriter &json, const Fit::Sizes &sizes, const Fit::Sizes &rooms) const;
  // Whether an axis of an input is as long as all entries of state, of which a run has none yet.
  bool counts_entries(std::size_t input, std::uint32_t axis) const noexcept {
    return input_axes_[input].by[axis] == kEntries;
  }

 private:
  static constexpr std::int8_t kNot = -1, kEntries = -2;
  // For each axis: the number of its symbol, or one of those above.
  struct Axes {
    std::array<std::int8_t, QR_MAX_RANK> by;
    std::uint8_t fill[8] = {};  // an element of what is padded
    std::uint32_t element = 0;
  };
  struct Symbol {
    String name;
    std::uint32_t input, axis;  // where buckets say it
  };
  class Planner;

  Vector<Symbol> symbols_;
  Vector<Axes> input_axes_, output_axes_;
  std::uint64_t capacity_ = 0;  // of state that grows
  Vector<qrm::TensorInfo> inputs_, outputs_;
};

}  // namespace quarry
