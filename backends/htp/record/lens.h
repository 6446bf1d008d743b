// SPDX-License-Identifier: Apache-2.0
// Reads what a call was given and gave, as walk.h has it in order, into memory of its own. Every size is checked
// against what is left of the entry; after a failure all that is read is zero.
#pragma once

#include <cstring>

#include "backends/htp/record/reader.h"
#include "backends/htp/record/walk.h"

namespace quarry::record {

// What the record's names of things are in this process. Nobody's: a record is read, and nothing is run.
class Names {
 public:
  virtual bool handle(Kind kind, std::uint64_t recorded, qnn::Handle *out) const = 0;
  virtual std::uint32_t tensor(std::uint64_t graph, std::uint32_t recorded) const = 0;
  virtual bool event(std::uint64_t recorded, std::uint64_t *out) const = 0;
  virtual std::uint32_t power(std::uint32_t recorded) const = 0;
  virtual bool is_wide() const = 0;
  // Whether calls are made of what is read; else nobody needs room for what they give.
  virtual bool runs() const = 0;

 protected:
  ~Names() = default;
};

class Lens {
 public:
  static constexpr bool kReads = true;
  Lens(const Reader &reader, const Names &names, Span content) : reader_(reader), names_(names), rest_(content) {}
  ~Lens() {
    for (void *const block : blocks_) free_block(block);
  }
  Lens(const Lens &) = delete;
  Lens &operator=(const Lens &) = delete;

  template <class T>
  void number(T &value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    if constexpr (std::is_same_v<T, bool>) {
      std::uint8_t byte = 0;
      number(byte);
      value = byte != 0;
    } else {
      value = T{};
      if (const void *const from = take(sizeof value)) std::memcpy(&value, from, sizeof value);
    }
  }
  void text(const char *&out);
  void handle(Kind kind, qnn::Handle &out);
  void event(std::uint64_t &out);
  void power_id(std::uint32_t &out) {
    number(out);
    out = names_.power(out);
  }
  void tensor_id(std::uint32_t &out) {
    number(out);
    out = names_.tensor(graph_, out);
  }
  void bytes(const void *&data, std::uint64_t &size, bool);
  void bytes(qnn::Buf &buf, bool);
  void room(qnn::Buf &buf);
  void registered(qnn::TensorV1 &v, Content content) {
    v.mem = qnn::TensorMem::Raw;  // here it lies in the replay's own memory
    if (content == Content::Room) room(v.buf);
    else bytes(v.buf, false);
  }
  static bool may_be_weight(const qnn::TensorV1 &) { return false; }
  template <class T, class F>
  void some(T *&list, std::uint64_t count, F each) {
    std::uint8_t is_there = 0;
    number(is_there);
    list = is_there ? several<T>(count) : nullptr;
    for (std::uint64_t i = 0; list && i < count; ++i) each(list[i]);
  }
  template <class T, class F>
  void list(const T **&list, F each) {
    std::uint8_t is_there = 0;
    std::uint32_t count = 0;
    number(is_there), number(count);
    list = is_there ? several<const T *>(count, 1) : nullptr;
    T *const made = is_there ? several<T>(count) : nullptr;
    for (std::uint32_t i = 0; list && made && i < count; ++i) {
      list[i] = made + i;
      each(made[i]);
    }
  }
  void names(const char *const *&out) {
    std::uint8_t is_there = 0;
    std::uint32_t count = 0;
    number(is_there), number(count);
    const char **const list = is_there ? several<const char *>(count, 1) : nullptr;
    for (std::uint32_t i = 0; list && i < count; ++i) text(list[i]);
    out = list;
  }
  void fail(const char *why) {
    if (!why_) why_ = why;
    rest_ = {};
  }

  // Zeros, as many as an entry can have described: each takes a byte of it at least.
  template <class T>
  T *several(std::uint64_t count, std::uint64_t more = 0) {
    if (count > rest_.size) return fail("a list that is longer than its entry"), nullptr;
    return static_cast<T *>(zeros((count + more) * sizeof(T)));
  }
  template <class T>
  T *one() {
    return static_cast<T *>(zeros(sizeof(T)));
  }
  void *zeros(std::uint64_t size);

  bool is_wide() const { return names_.is_wide(); }
  // Why it could not be read; nullptr: it could.
  const char *why() const noexcept { return why_; }
  bool lacks_weights() const noexcept { return lacks_weights_; }
  // A handle or an event that no call before it made.
  bool is_stranger() const noexcept { return is_stranger_; }
  // The graph that the call is of, as the record names it; 0: of none.
  std::uint64_t graph() const noexcept { return graph_; }

 private:
  const void *take(std::uint64_t size) {
    if (size > rest_.size) return fail("an entry that ends too early"), nullptr;
    const void *const from = rest_.data;
    rest_.data += size, rest_.size -= size;
    return from;
  }

  const Reader &reader_;
  const Names &names_;
  Span rest_;
  const char *why_ = nullptr;
  std::uint64_t graph_ = 0, room_ = 0;
  bool lacks_weights_ = false, is_stranger_ = false;
  Vector<void *> blocks_;
};

}  // namespace quarry::record
