// SPDX-License-Identifier: Apache-2.0
// What the readers and writers of our two FlatBuffers (QIR and the container's metadata) share. Only .cpp files of
// formats include this.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include <flatbuffers/flatbuffers.h>

#include "base/alloc.h"

namespace quarry::flat {

// FlatBuffers' working memory from the allocator in scope.
class BuilderMemory final : public flatbuffers::Allocator {
 public:
  std::uint8_t *allocate(std::size_t size) override { return static_cast<std::uint8_t *>(allocate_block(size, 16)); }
  void deallocate(std::uint8_t *ptr, std::size_t) override { free_block(ptr); }
};

inline flatbuffers::Offset<flatbuffers::String> text(flatbuffers::FlatBufferBuilder &builder, std::string_view value) {
  return builder.CreateString(value.data(), value.size());
}
// An empty string or vector is left out; readers take an absent one as empty.
inline flatbuffers::Offset<flatbuffers::String> optional_text(flatbuffers::FlatBufferBuilder &builder,
                                                              std::string_view value) {
  return value.empty() ? flatbuffers::Offset<flatbuffers::String>() : text(builder, value);
}
template <class T>
flatbuffers::Offset<flatbuffers::Vector<T>> optional_vector(flatbuffers::FlatBufferBuilder &builder,
                                                            const Vector<T> &values) {
  return values.empty() ? flatbuffers::Offset<flatbuffers::Vector<T>>()
                        : builder.CreateVector(values.data(), values.size());
}

// The verifier of a buffer whose size is already known to be under flatbuffers' own maximum (its constructor only
// asserts that). The number of tables is bounded by the bytes there are: each takes at least 4, and one more for the
// offset that leads to it.
template <class Root>
bool verify(const void *data, std::uint64_t size, const char *identifier, std::uint32_t max_depth) {
  flatbuffers::Verifier::Options options;
  options.max_depth = max_depth;
  options.max_tables = static_cast<flatbuffers::uoffset_t>(size / 8 + 1);
  flatbuffers::Verifier verifier(static_cast<const std::uint8_t *>(data), static_cast<std::size_t>(size), options);
  return verifier.VerifyBuffer<Root>(identifier);
}

// Copies strings and vectors out of a verified buffer. The verifier lets any number of tables share one string, so a
// small file could ask for terabytes; our writers never share, so what is copied may not exceed the buffer's size.
class Copier {
 public:
  explicit Copier(std::uint64_t buffer_size) : left_(buffer_size) {}

  // False from the first copy on that went over the budget; everything after it comes out empty.
  bool within_budget() const noexcept { return within_; }

  std::string_view view(const flatbuffers::String *from) {
    return from && take(from->size()) ? std::string_view(from->c_str(), from->size()) : std::string_view();
  }
  String text(const flatbuffers::String *from) { return String(view(from)); }
  template <class T>
  Vector<T> vector(const flatbuffers::Vector<T> *from) {
    Vector<T> out;
    if (from && take(std::uint64_t{from->size()} * sizeof(T)) && from->size()) {
      out.resize(from->size());
      std::memcpy(out.data(), from->Data(), out.size() * sizeof(T));
    }
    return out;
  }
  // How many tables (or strings) of a vector may be visited: 0 once over the budget.
  template <class T>
  std::uint32_t count(const flatbuffers::Vector<flatbuffers::Offset<T>> *from) {
    return from && take(std::uint64_t{from->size()} * sizeof(flatbuffers::uoffset_t)) ? from->size() : 0;
  }

 private:
  bool take(std::uint64_t bytes) noexcept {
    if (bytes > left_) within_ = false;
    if (!within_) return false;
    left_ -= bytes;
    return true;
  }
  std::uint64_t left_;
  bool within_ = true;
};

}  // namespace quarry::flat
