// SPDX-License-Identifier: Apache-2.0
// qr_state: the values of the pairs that a session keeps (docs/guide.md, "State"). A run borrows them and gives the
// next ones when it has ended well; nothing is changed before that.
#pragma once

#include "base/target_writer.h"
#include "quarry/state.h"
#include "runtime/session/session.h"

namespace quarry {

class State : public Counted<State> {
 public:
  explicit State(SessionCore &core);
  ~State();
  Result<Ref<State>> fork() const;
  SessionCore &core() const noexcept { return *core_; }
  Runtime &runtime() const noexcept { return core_->runtime(); }
  ExclusiveUse &use() const noexcept { return use_; }

  std::uint64_t length() const noexcept;
  std::uint64_t dropped() const noexcept { return dropped_; }  // entries, by the option state.window
  std::uint64_t bytes() const noexcept;                        // of memory that is held
  std::size_t count() const noexcept { return values_.size(); }
  qr_state_info info(std::size_t index) const noexcept;
  void reset() noexcept;
  Status rewind(std::uint64_t length);
  Status read(std::size_t index, qr_tensor &out) const;
  Status write(std::size_t index, const qr_tensor &tensor);

  Status save(TargetWriter &to) const;
  Status load(const void *from, std::uint64_t size);

  // Of a run: puts its tensors beside those of the caller, in lists of all that the model takes and gives.
  Status lend(const qr_tensor **inputs, qr_tensor **outputs);
  // Whether what the run made can be the next values; and that they are.
  // `fresh`: entries that it added where programs have the capacity.
  Status check(const Vector<qr_io_buffer> &outputs, std::uint64_t fresh) const;
  void take(const Vector<qr_io_buffer> &outputs, std::uint64_t fresh) noexcept;

 private:
  // What grows has room for the capacity: `outer` parts of `entries` entries each. The next part lies behind the
  // entries that there are, or, where the device appends, behind those that there is room for: there an entry never
  // moves.
  struct Value {
    qr_tensor input = QR_TENSOR_INIT, output = QR_TENSOR_INIT;  // as a run gets them; `input` has the value
    qr_tensor whole = QR_TENSOR_INIT;                           // instead of `input`, where programs take all room
    bool is_known = false;   // else there is none yet: it is empty or zeros, as large as the next run says
    void *block = nullptr;   // the value, and beside it, where it does not stay, where a run writes the next one
    std::uint64_t room = 0;  // of each of the two
    std::uint64_t held = 0;  // of the block
  };
  struct Extent {
    std::uint64_t outer = 1, entries = 1, entry = 0;  // bytes of an entry; what does not grow is one
    std::uint64_t bytes() const noexcept { return outer * entries * entry; }
  };
  const StatePair &pair_of(const Value &value) const noexcept {
    return core_->state().pairs[index_of(&value - values_.data())];
  }
  const String &name_of(const Value &value) const noexcept { return core_->inputs()[pair_of(value).input].name; }
  bool grows(const Value &value) const noexcept { return pair_of(value).axis >= 0; }
  bool is_fixed(const Value &value) const noexcept { return pair_of(value).is_fixed; }
  bool stays(const Value &value) const noexcept { return pair_of(value).stays || is_fixed(value); }
  std::uint64_t length_of(const Value &value) const noexcept {
    return static_cast<std::uint64_t>(value.input.dims[pair_of(value).axis]);
  }
  Extent extent_of(const Value &value) const noexcept;
  std::uint64_t pitch_of(const Value &value, const Extent &extent) const noexcept {
    return stays(value) ? core_->state().capacity : extent.entries;
  }
  Status full(const Value &value, const std::int64_t *dims) const;
  Status other_shape(const Value &value, const std::int64_t *dims, std::uint32_t rank) const;
  Status resolve(Value &value, const qr_tensor *const *inputs);
  Status make_room(Value &value, const std::int64_t *dims);
  bool fits(const Value &value, const std::int64_t *dims, std::uint32_t rank,
            const std::int64_t *expected) const noexcept;
  Status put(Value &value, const std::int64_t *dims, const void *dense, std::uint64_t size);
  Status write_values(FileSink &to) const;
  void forget(Value &value) noexcept;
  void append(Value &value, const qr_io_buffer &made, std::uint64_t fresh) noexcept;
  void drop_old() noexcept;

  Ref<SessionCore> core_;
  Vector<Value> values_;
  std::uint64_t dropped_ = 0;
  mutable ExclusiveUse use_;
};

}  // namespace quarry
