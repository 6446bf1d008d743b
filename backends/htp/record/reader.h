// SPDX-License-Identifier: Apache-2.0
// A record as it is read: its entries are found and their sums checked before anything is made of them. Nothing is
// copied: the file stays mapped.
#pragma once

#include "backends/htp/record/format.h"
#include "base/open_fd.h"
#include "base/status.h"

namespace quarry::record {

struct Span {
  const std::uint8_t *data = nullptr;
  std::uint64_t size = 0;
};

class Reader {
 public:
  static Result<Unique<Reader>> open(std::string_view path);
  Reader() = default;  // by open() alone
  ~Reader();
  Reader(const Reader &) = delete;
  Reader &operator=(const Reader &) = delete;

  struct Kept {
    std::uint64_t size, sum;
    const std::uint8_t *data;  // nullptr: left out
  };
  struct Entry {
    EntryKind kind;
    CallHead head;
    Span content;
  };
  const Head &head() const noexcept { return head_; }
  bool keeps_weights() const noexcept { return head_.flags & kKeepsWeights; }
  // From 1; nullptr: there is none.
  const Kept *bytes(std::uint64_t number) const noexcept {
    return number > 0 && number <= kept_.size() ? &kept_[number - 1] : nullptr;
  }
  const Vector<Entry> &entries() const noexcept { return entries_; }  // but for Bytes
  std::uint64_t left_out() const noexcept { return left_out_; }       // bytes of weights
  // Where the file ends inside an entry, 0: it ends behind one.
  std::uint64_t cut_at() const noexcept { return cut_at_; }

 private:
  Status read(std::string_view path);
  Status add(std::string_view path, std::uint64_t at, const EntryHead &entry, Span content);

  void *base_ = nullptr;
  std::uint64_t size_ = 0, left_out_ = 0, cut_at_ = 0;
  Head head_ = {};
  Vector<Kept> kept_;
  Vector<Entry> entries_;
};

}  // namespace quarry::record
