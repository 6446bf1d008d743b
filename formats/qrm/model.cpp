// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>

#include "base/checked.h"
#include "base/hash.h"
#include "base/stop.h"
#include "base/zeros.h"
#include "formats/qrm/limits.h"
#include "formats/qrm/metadata.h"
#include "formats/qrm/prologue.h"

namespace quarry::qrm {
namespace {

// Where segments have to lie: each begins at the first multiple of its alignment after the one before, what is between
// is zero, and nothing follows the last. So a byte of the file is either summed, or known to be zero.
Status check_layout(Bytes file, Bytes metadata, const Vector<SegmentInfo> &segments) {
  const char *base = static_cast<const char *>(file.data);
  std::uint64_t end = static_cast<std::uint64_t>(static_cast<const char *>(metadata.data) - base) + metadata.size;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const SegmentInfo &segment = segments[i];
    if (segment.align < kMinSegmentAlign || segment.align > kMaxSegmentAlign ||
        (segment.align & (segment.align - 1)) != 0)
      return Status::errorf(ErrorId::qrm_bad_segment,
                            "segment %zu: found alignment %u, expected a power of two from %u to %u", i, segment.align,
                            kMinSegmentAlign, kMaxSegmentAlign);
    std::uint64_t expected = 0;
    if (!checked_align_up(end, segment.align, &expected) || segment.offset != expected)
      return Status::errorf(ErrorId::qrm_bad_segment,
                            "segment %zu: found offset %" PRIu64 ", expected %" PRIu64
                            ", right behind what is before it",
                            i, segment.offset, expected);
    if (!range_fits(segment.offset, segment.size, file.size))
      return Status::errorf(ErrorId::qrm_bad_segment,
                            "segment %zu: found %" PRIu64 " bytes at %" PRIu64
                            ", expected them within the file's %" PRIu64,
                            i, segment.size, segment.offset, file.size);
    if (!is_zero(base + end, segment.offset - end))
      return Status::errorf(ErrorId::qrm_bad_segment,
                            "container: found bytes in the padding from %" PRIu64 " to %" PRIu64
                            ", before segment %zu, expected zeros",
                            end, segment.offset, i);
    end = segment.offset + segment.size;
  }
  if (end != file.size)
    return Status::errorf(ErrorId::qrm_bad_segment,
                          "container: found %" PRIu64 " bytes behind the last segment, expected none", file.size - end);
  return {};
}

// The graph takes and gives what the container says of it.
Status check_signature(const Metadata &metadata, const GraphInfo &info, const qir::Outline &graph) {
  const auto check = [&](const char *role, const Vector<qir::Tensor> &given, const Vector<TensorInfo> &tensors,
                         const Vector<qir::Shape> &shapes) -> Status {
    if (given.size() != tensors.size())
      return Status::errorf(ErrorId::qrm_bad_metadata, "graph '%s': found %zu %s in its QIR, expected %zu",
                            printable(info.name), given.size(), role, tensors.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const qir::Tensor &found = given[i];
      if (found.dtype != tensors[i].dtype || found.shape != shapes[i] || found.quant != tensors[i].quant)
        return Status::errorf(ErrorId::qrm_bad_metadata, "graph '%s': found '%s' as %s%s in its QIR, expected %s%s",
                              printable(info.name), printable(tensors[i].name), dtype_name(found.dtype),
                              shape_text(found.shape.data(), found.shape.size()), dtype_name(tensors[i].dtype),
                              shape_text(shapes[i].data(), shapes[i].size()));
    }
    return {};
  };
  QR_RETURN_IF_ERROR(check("inputs", graph.inputs(), metadata.inputs, info.input_dims));
  return check("outputs", graph.outputs(), metadata.outputs, info.output_dims);
}

Status read_network(Bytes bytes, const Vector<SegmentInfo> &segments, Metadata &out) {
  QR_RETURN_IF_ERROR(verify_metadata(bytes));
  out = {};
  Vector<SegmentInfo> none;
  QR_RETURN_IF_ERROR(read_metadata(bytes, out, none));
  if (out.graphs.empty()) return Status::error(ErrorId::qrm_bad_metadata, "network: found no graph");
  return check_metadata(out, segments);
}

}  // namespace

std::optional<SumCheck> sum_check_from_name(std::string_view name) noexcept {
  if (name == "program") return SumCheck::Program;
  if (name == "lazy") return SumCheck::Lazy;
  if (name == "eager") return SumCheck::Eager;
  if (name == "off") return SumCheck::Off;
  return std::nullopt;
}

Result<ValidatedModel> ValidatedModel::open(RawFile file, SumCheck sums, std::string_view network) {
  QR_ASSIGN_OR_RETURN(VerifiedFile verified, VerifiedFile::verify(std::move(file)));
  auto model = validate(std::move(verified), sums);
  // A container of one network has a graph.
  if (model.ok() && network != kWholeFile && (!network.empty() || model->metadata_.graphs.empty()))
    QR_RETURN_IF_ERROR(model->choose(network));
  return model;
}

Status ValidatedModel::choose(std::string_view network) {
  String names;
  for (std::uint32_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i].kind != SegmentKind::Network) continue;
    if (segments_[i].name == network) {
      QR_ASSIGN_OR_RETURN(const Bytes bytes, segment(i));
      return read_network(bytes, segments_, metadata_);
    }
    names += " " + segments_[i].name;
  }
  return Status::errorf(ErrorId::bad_option_value, "option model: found \"%s\", expected one of the networks:%s",
                        printable(network), printable(names, 2000));
}

Result<ValidatedModel> ValidatedModel::validate(VerifiedFile file, SumCheck sums) {
  ValidatedModel model(std::move(file));
  QR_RETURN_IF_ERROR(read_metadata(model.file_.metadata(), model.metadata_, model.segments_));
  QR_RETURN_IF_ERROR(check_metadata(model.metadata_, model.segments_));
  QR_RETURN_IF_ERROR(check_layout(model.file_.bytes(), model.file_.metadata(), model.segments_));
  model.sum_checked_ = Vector<std::atomic<bool>>(model.segments_.size());
  model.sums_ = sums;
  if (sums == SumCheck::Eager)
    for (std::uint32_t i = 0; i < model.segments_.size(); ++i) QR_RETURN_IF_ERROR(model.check_sum(i));
  return model;
}

Status ValidatedModel::check_sum(std::uint32_t index) const {
  const SegmentInfo &segment = segments_[index];
  Hasher64 hasher;
  for (std::uint64_t at = 0; at < segment.size; at += kPieceBytes) {
    QR_RETURN_IF_ERROR(stop_status("reading the container"));
    hasher.add(static_cast<const char *>(file_.bytes().data) + segment.offset + at,
               static_cast<std::size_t>(std::min(segment.size - at, kPieceBytes)));
  }
  const std::uint64_t sum = hasher.sum();
  if (sum != segment.sum)
    return Status::errorf(
        ErrorId::qrm_bad_sum,
        "segment %u '%s' (%s, %" PRIu64 " bytes at %" PRIu64 "): found sum %016" PRIx64 ", expected %016" PRIx64, index,
        printable(segment.name), segment_kind_name(segment.kind), segment.size, segment.offset, sum, segment.sum);
  sum_checked_[index].store(true, std::memory_order_relaxed);
  return {};
}

Result<Bytes> ValidatedModel::segment(std::uint32_t index) const {
  if (index >= segments_.size())
    return Status::errorf(ErrorId::index_out_of_range, "container: found segment number %u, expected one under %zu",
                          index, segments_.size());
  // Two threads may both check: the bytes do not change, so both find the same.
  if (sums_ != SumCheck::Off && !sum_checked_[index].load(std::memory_order_relaxed))
    QR_RETURN_IF_ERROR(check_sum(index));
  return Bytes{static_cast<const char *>(file_.bytes().data) + segments_[index].offset, segments_[index].size};
}

Result<Vector<Bytes>> ValidatedModel::segments(const Vector<std::uint32_t> &indices) const {
  Vector<Bytes> all;
  all.reserve(indices.size());
  for (const std::uint32_t index : indices) {
    QR_ASSIGN_OR_RETURN(Bytes bytes, segment(index));
    all.push_back(bytes);
  }
  return all;
}

Result<Vector<Bytes>> ValidatedModel::mapped_segments(const Vector<std::uint32_t> &indices) const {
  if (sums_ != SumCheck::Program) return segments(indices);
  Vector<Bytes> all;
  all.reserve(indices.size());
  for (const std::uint32_t index : indices) {
    if (index < segments_.size() && segments_[index].kind == SegmentKind::Weights) {
      all.push_back({static_cast<const char *>(file_.bytes().data) + segments_[index].offset, segments_[index].size});
      continue;
    }
    QR_ASSIGN_OR_RETURN(Bytes bytes, segment(index));
    all.push_back(bytes);
  }
  return all;
}

SegmentFile ValidatedModel::segment_file(std::uint32_t index) const noexcept {
  const SegmentInfo &segment = segments_[index];
  const RawFile &file = file_.file();
  // Within the file, as the layout's rules say, and the file is where open_fd found it: no overflow.
  return {file.fd(), file.fd() < 0 ? 0 : file.offset() + segment.offset, segment.size, segment.sum};
}

Result<qir::Outline> ValidatedModel::outline(std::uint32_t index) const {
  if (index >= metadata_.graphs.size())
    return Status::errorf(ErrorId::index_out_of_range, "container: found graph number %u, expected one under %zu",
                          index, metadata_.graphs.size());
  const GraphInfo &info = metadata_.graphs[index];
  if (!info.qir_segment)
    return Status::errorf(ErrorId::qrm_no_graph, "graph '%s': found that it was not kept in the container",
                          printable(info.name));
  QR_ASSIGN_OR_RETURN(Bytes bytes, segment(*info.qir_segment));
  QR_ASSIGN_OR_RETURN(const Vector<Bytes> constants, mapped_segments(info.segments));  // weights are not read
  QR_ASSIGN_OR_RETURN(qir::Outline graph, qir::Outline::read(bytes, constants));
  QR_RETURN_IF_ERROR(check_signature(metadata_, info, graph));
  return graph;
}

const ContextInfo *ValidatedModel::find_context(std::string_view backend) const noexcept {
  for (const ContextInfo &context : metadata_.contexts)
    if (context.backend == backend) return &context;
  return nullptr;
}

Status ValidatedModel::verify(std::uint32_t part) const {
  if (part < segments_.size()) {
    QR_RETURN_IF_ERROR(check_sum(part));
    if (segments_[part].kind != SegmentKind::Network) return {};
    Metadata network;
    QR_ASSIGN_OR_RETURN(const Bytes bytes, segment(part));
    return read_network(bytes, segments_, network);
  }
  const std::uint32_t graph = part - static_cast<std::uint32_t>(segments_.size());
  return metadata_.graphs[graph].qir_segment ? outline(graph).take_status() : Status();
}

Status ValidatedModel::verify() const {
  for (std::uint32_t part = 0; part < part_count(); ++part) QR_RETURN_IF_ERROR(verify(part));
  return {};
}

}  // namespace quarry::qrm
