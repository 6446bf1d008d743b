// SPDX-License-Identifier: Apache-2.0
// Containers that no Writer would write: any metadata, any segment table, any prologue, with sums that fit.
#pragma once

#include <functional>

#include "formats/qrm/metadata.h"
#include "formats/qrm/prologue.h"
#include "sample_container.h"

namespace quarry::test {

struct Crafted {
  qrm::Metadata metadata;
  Vector<qrm::SegmentInfo> segments;  // where they lie: not worked out again
  Vector<std::uint8_t> bytes;         // of the whole file; metadata and prologue are written over it

  // From the sample's container.
  Crafted() : bytes(SampleContainer().bytes()) {
    Result<qrm::RawFile> file = qrm::RawFile::from_memory(bytes.data(), bytes.size());
    Result<qrm::ValidatedModel> model = qrm::ValidatedModel::open(std::move(*file));
    metadata = model->metadata();
    segments = model->segments();
  }

  // The file; `change` gets the prologue before its own sum is taken.
  Vector<std::uint8_t> build(const std::function<void(qrm::Prologue &)> &change = {}) const {
    Result<Vector<std::uint8_t>> table = qrm::write_metadata(metadata, segments);
    if (!table.ok()) std::abort();
    Vector<std::uint8_t> out = bytes;
    if (64 + table->size() > out.size()) out.resize(64 + table->size());
    if (!segments.empty() && 64 + table->size() <= segments[0].offset)
      std::fill(out.begin() + 64,
                out.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(segments[0].offset, out.size())), 0);
    std::memcpy(out.data() + 64, table->data(), table->size());
    qrm::Prologue prologue;
    std::memcpy(&prologue, out.data(), sizeof prologue);
    prologue.file_size = out.size();
    prologue.metadata_size = table->size();
    prologue.metadata_sum = hash64(table->data(), table->size());
    if (change) change(prologue);
    prologue.sum = prologue.own_sum();
    std::memcpy(out.data(), &prologue, sizeof prologue);
    return out;
  }
};

inline std::string open_error(const Vector<std::uint8_t> &bytes) {
  AlignedBytes aligned(bytes.data(), bytes.size());
  Result<qrm::RawFile> file = qrm::RawFile::from_memory(aligned.data(), aligned.size());
  Result<qrm::ValidatedModel> model = qrm::ValidatedModel::open(std::move(*file));
  Status status = model.ok() ? model->verify() : model.take_status();
  return status.ok() ? "accepted" : std::string(status.id()) + " " + std::string(status.message());
}

}  // namespace quarry::test
