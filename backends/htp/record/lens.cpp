// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/record/lens.h"

namespace quarry::record {

void *Lens::zeros(std::uint64_t size) {
  if (size == 0) size = 1;
  if (size > PTRDIFF_MAX) throw std::bad_alloc();
  blocks_.reserve(blocks_.size() + 1);
  void *const made = allocate_block(static_cast<std::size_t>(size), 64);
  blocks_.push_back(made);
  return std::memset(made, 0, static_cast<std::size_t>(size));
}

void Lens::text(const char *&out) {
  std::uint64_t size = 0;
  out = nullptr;
  number(size);
  if (size == 0) return;
  const void *const from = take(size - 1);
  if (!from) return;
  char *const made = static_cast<char *>(zeros(size));
  std::memcpy(made, from, static_cast<std::size_t>(size - 1));
  out = made;
}

void Lens::handle(Kind kind, qnn::Handle &out) {
  std::uint64_t recorded = 0;
  number(recorded);
  out = nullptr;
  if (kind == Kind::Graph) graph_ = recorded;
  if (recorded != 0 && !names_.handle(kind, recorded, &out)) is_stranger_ = true;
}

void Lens::event(std::uint64_t &out) {
  std::uint64_t recorded = 0;
  number(recorded);
  out = 0;
  if (!names_.event(recorded, &out)) is_stranger_ = true;
}

void Lens::bytes(const void *&data, std::uint64_t &size, bool) {
  std::uint64_t which = 0;
  number(which), number(size);
  data = nullptr;
  if (which == 0) return;
  const Reader::Kept *const kept = reader_.bytes(which);
  if (!kept || kept->size != size) return fail("bytes that the record has not");
  if (kept->data) data = kept->data;
  else lacks_weights_ = true;
}

void Lens::bytes(qnn::Buf &buf, bool) {
  const void *data = nullptr;
  std::uint64_t size = 0;
  bytes(data, size, false);
  if (size > UINT32_MAX) return fail("a tensor that is too large");
  // The library reads it alone.
  buf = {const_cast<void *>(data), static_cast<std::uint32_t>(size)};
}

void Lens::room(qnn::Buf &buf) {
  std::uint32_t size = 0;
  std::uint8_t is_there = 0;
  number(size), number(is_there);
  constexpr std::uint64_t kMost = std::uint64_t{4} << 30;  // of one call
  if (size > kMost - room_) return fail("outputs that are larger than 4 GB");
  room_ += size;
  buf = {is_there && names_.runs() ? zeros(size) : nullptr, size};
}

}  // namespace quarry::record
