// SPDX-License-Identifier: Apache-2.0
#include "graph/io/well_formed.h"

#include <cinttypes>

#include "base/checked.h"
#include "graph/limits.h"

namespace quarry::qir {
namespace {

// Model, then Graph and Node per level, then a leaf. One level more than is allowed passes, so that validate_graph can
// name the limit.
constexpr std::uint32_t kMaxTableDepth = 2 * (kMaxSubgraphDepth + 1) + 8;

}  // namespace

Result<const fb::Model *> well_formed_model(Bytes qir, Vector<std::uint8_t> &aligned) {
  if (qir.size > kMaxGraphBytes)
    return Status::errorf(ErrorId::qir_limit, "graph: found %" PRIu64 " bytes, expected at most %" PRIu64, qir.size,
                          kMaxGraphBytes);
  // The verifier checks alignment relative to the beginning.
  if (qir.size && reinterpret_cast<std::uintptr_t>(qir.data) % 8 != 0) {
    const auto *bytes = static_cast<const std::uint8_t *>(qir.data);
    aligned.assign(bytes, bytes + qir.size);
    qir.data = aligned.data();
  }
  if (!flat::verify<fb::Model>(qir.data, qir.size, fb::ModelIdentifier(), kMaxTableDepth))
    return Status::errorf(ErrorId::qir_bad, "graph: its %" PRIu64 " bytes are no well-formed QIR", qir.size);
  const fb::Model *const model = fb::GetModel(qir.data);
  if (model->normal_opset() < 1 || model->normal_opset() > kNormalOpset)
    return Status::errorf(ErrorId::qir_too_new, "graph: found normal form of opset %u, expected at most %" PRId64,
                          model->normal_opset(), kNormalOpset);
  if (!model->graph()) return Status::error(ErrorId::qir_bad, "graph: found a model without a graph");
  return model;
}

Status check_place(const fb::Constant &data, std::string_view name, const Bytes *segments,
                   std::uint64_t segment_count) {
  if (data.segment() >= segment_count)
    return Status::errorf(ErrorId::qir_bad, "tensor '%s': found its data in segment %u, expected one under %" PRIu64,
                          printable(name), data.segment(), segment_count);
  const Bytes &segment = segments[data.segment()];
  if (range_fits(data.offset_bytes(), data.size_bytes(), segment.size)) return {};
  return Status::errorf(ErrorId::qir_bad,
                        "tensor '%s': found its data at %" PRIu64 " + %" PRIu64
                        " bytes, expected them within the segment's %" PRIu64,
                        printable(name), data.offset_bytes(), data.size_bytes(), segment.size);
}

Status read_type(flat::Copier &copy, const fb::Tensor &from, Tensor &out) {
  out.name = copy.text(from.name());
  const std::optional<DType> dtype = dtype_from_number(from.dtype());
  if (!dtype)
    return Status::errorf(ErrorId::qir_type,
                          "tensor '%s': found type number %u, expected one of ONNX's that Quarry knows",
                          printable(out.name), from.dtype());
  out.dtype = *dtype;
  out.shape = copy.vector(from.shape());
  if (const fb::Quantization *quant = from.quantization()) {
    out.quant.emplace();
    out.quant->scales = copy.vector(quant->scales());
    out.quant->zero_points = copy.vector(quant->zero_points());
    out.quant->axis = quant->axis();
    out.quant->block_size = quant->block_size();
  }
  return {};
}

}  // namespace quarry::qir
