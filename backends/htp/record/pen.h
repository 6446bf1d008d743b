// SPDX-License-Identifier: Apache-2.0
// Writes what a call is given and gives, as walk.h has it in order.
#pragma once

#include "backends/htp/record/file.h"
#include "backends/htp/record/walk.h"

namespace quarry::record {

class Pen {
 public:
  static constexpr bool kReads = false;
  // `registered`: what the library knows a memory by, and where it lies here.
  Pen(RecordFile &file, const HashMap<qnn::Handle, Mapped> &registered, bool is_wide)
      : file_(file), registered_(registered), is_wide_(is_wide) {}

  template <class T>
  void number(const T &value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    put(&value, sizeof value);
  }
  void text(const char *text) {
    const std::uint64_t size = text ? std::char_traits<char>::length(text) + 1 : 0;
    number(size);
    if (size > 1) put(text, size - 1);
  }
  void handle(Kind, qnn::Handle value) { number(reinterpret_cast<std::uint64_t>(value)); }
  void event(std::uint64_t id) { number(id); }
  void power_id(std::uint32_t id) { number(id); }
  void tensor_id(std::uint32_t id) { number(id); }
  void bytes(const void *data, std::uint64_t size, bool is_weight) {
    number(data ? file_.keep(data, size, is_weight) : std::uint64_t{0});
    number(size);
  }
  void bytes(const qnn::Buf &buf, bool is_weight) { bytes(buf.data, buf.bytes, is_weight); }
  void room(const qnn::Buf &buf) { number(buf.bytes), number(std::uint8_t{buf.data != nullptr}); }
  void registered(const qnn::TensorV1 &v, Content content) {
    const auto found = registered_.find(v.mem_handle);
    if (found == registered_.end()) return fail("a tensor in memory that nobody registered");
    const qnn::Buf buf{found->second.data, static_cast<std::uint32_t>(found->second.bytes)};
    if (content == Content::Room) room(buf);
    else bytes(buf, false);
  }
  // What a run has written.
  void written(const qnn::Tensor &tensor) {
    const qnn::TensorV1 &v = tensor.v1;
    qnn::Buf buf = v.buf;
    if (v.mem == qnn::TensorMem::Registered) {
      const auto found = registered_.find(v.mem_handle);
      buf = found == registered_.end() ? qnn::Buf{}
                                       : qnn::Buf{found->second.data, static_cast<std::uint32_t>(found->second.bytes)};
    }
    number(v.id);
    bytes(buf, false);
  }
  // What operations are given (strides, axes) is no secret, and without it nothing can be run.
  static bool may_be_weight(const qnn::TensorV1 &v) {
    constexpr std::uint32_t kMostOfParameter = 256;
    const bool is_plain = v.dtype == qnn::DataType::U32 || v.dtype == qnn::DataType::I32;
    return !is_plain || v.q.defined == qnn::Defined::Yes || v.buf.bytes > kMostOfParameter;
  }
  template <class T, class F>
  void some(T *list, std::uint64_t count, F each) {
    number(std::uint8_t{list != nullptr});
    for (std::uint64_t i = 0; list && i < count; ++i) each(list[i]);
  }
  template <class T, class F>
  void list(const T **list, F each) {
    std::uint32_t count = 0;
    while (list && list[count]) ++count;
    number(std::uint8_t{list != nullptr}), number(count);
    for (std::uint32_t i = 0; i < count; ++i) each(const_cast<T &>(*list[i]));
  }
  void names(const char *const *names) {
    std::uint32_t count = 0;
    while (names && names[count]) ++count;
    number(std::uint8_t{names != nullptr}), number(count);
    for (std::uint32_t i = 0; i < count; ++i) text(names[i]);
  }
  void fail(const char *) { is_whole_ = false; }

  bool is_wide() const noexcept { return is_wide_; }
  bool is_whole() const noexcept { return is_whole_; }
  const Vector<std::uint8_t> &content() const noexcept { return content_; }

 private:
  void put(const void *data, std::uint64_t size) {
    const auto *const from = static_cast<const std::uint8_t *>(data);
    content_.insert(content_.end(), from, from + size);
  }

  RecordFile &file_;
  const HashMap<qnn::Handle, Mapped> &registered_;
  const bool is_wide_;
  bool is_whole_ = true;
  Vector<std::uint8_t> content_;
};

}  // namespace quarry::record
