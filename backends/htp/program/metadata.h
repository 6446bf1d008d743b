// SPDX-License-Identifier: Apache-2.0
// What a context binary says of itself: its graphs, and the ids, types and shapes of their inputs and outputs.
#pragma once

#include <span>

#include "backends/htp/program/blob.h"
#include "backends/htp/qnn/library.h"

namespace quarry::htp {

// That bytes are a context binary of the library's, by the first of them.
bool is_raw_binary(std::span<const std::uint8_t> bytes) noexcept;

class Metadata {
 public:
  // The binary must be whole: its hash was found right, or it was just made. Borrowed for as long as the object lives.
  static Result<Unique<Metadata>> read(const qnn::Library &library, std::span<const std::uint8_t> binary);
  explicit Metadata(const qnn::Library &library) : library_(library) {}  // by read() alone
  ~Metadata();
  Metadata(const Metadata &) = delete;
  Metadata &operator=(const Metadata &) = delete;

  const qnn::GraphInfo *find(std::string_view name) const noexcept;  // nullptr: there is none

  std::span<const qnn::GraphInfo> graphs() const noexcept;
  // SoC, architecture, versions and build of who made it; 0 and empty what it does not say.
  void maker(Blob &out) const;
  // What a graph takes of the device, into the fields of `out` that say so.
  void figures(std::string_view graph, BlobGraph &out) const noexcept;
  // Bytes of weights that several graphs share; 0: none, or it does not say.
  std::uint64_t shared_weights() const noexcept;
  // The blob says of each input and output what the binary does: the library takes buffers without a look at their
  // size.
  Status check(const BlobGraph &graph) const;

 private:
  const qnn::Library &library_;
  qnn::Handle handle_ = nullptr;
  const qnn::BinInfo *info_ = nullptr;
};

}  // namespace quarry::htp
