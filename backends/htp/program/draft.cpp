// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/program/draft.h"

#include <algorithm>

namespace quarry::htp {

using qnn::DataType;

std::size_t element_bytes(DataType dtype) noexcept {
  switch (dtype) {
    case DataType::I8:
    case DataType::U8:
    case DataType::SQ8:
    case DataType::UQ8:
    case DataType::Bool8: return 1;
    case DataType::I16:
    case DataType::U16:
    case DataType::F16:
    case DataType::BF16:
    case DataType::SQ16:
    case DataType::UQ16: return 2;
    case DataType::I32:
    case DataType::U32:
    case DataType::F32:
    case DataType::SQ32:
    case DataType::UQ32: return 4;
    case DataType::I64:
    case DataType::U64:
    case DataType::F64: return 8;
    default: return 0;
  }
}

std::uint64_t tensor_bytes(const DraftTensor &tensor) noexcept {
  std::uint64_t count = element_bytes(tensor.dtype);
  for (const std::uint32_t extent : tensor.dims) count *= extent;
  return count;
}

std::uint64_t weight_bytes(const Draft &draft) noexcept {
  std::uint64_t bytes = 0;
  for (const DraftTensor &tensor : draft.tensors)
    if (tensor.type == qnn::TensorType::Static) bytes += tensor.data.size;
  return bytes;
}

void refuse_without_inputs(const Draft &draft, Vector<Status> &refused) {
  if (std::ranges::any_of(draft.inputs, [](const IoBinding &input) { return input.tensor >= 0; })) return;
  for (const DraftNode &node : draft.nodes) {
    const auto source = index_of(node.source);
    if (node.source < 0 || source >= refused.size() || !refused[source].ok()) continue;
    refused[source] = Status::error(
        ErrorId::backend_limit,
        "its graph: found operands that are all constants, expected an input of the model that the device reads",
        "run such a model once on another backend, and keep its results as constants");
  }
}

void refuse_what_is_too_large(const Draft &draft, Vector<Status> &refused) {
  constexpr std::uint64_t kMost = (std::uint64_t{15} << 30) / 4;
  if (weight_bytes(draft) <= kMost) return;
  Vector<bool> counted(draft.tensors.size());
  std::uint64_t bytes = 0;
  for (const DraftNode &node : draft.nodes) {
    for (const std::int32_t id : node.inputs) {
      const auto at = index_of(id);
      if (draft.tensors[at].type != qnn::TensorType::Static || counted[at]) continue;
      counted[at] = true;
      bytes += draft.tensors[at].data.size;
    }
    const auto source = index_of(node.source);
    if (bytes <= kMost || node.source < 0 || source >= refused.size() || !refused[source].ok()) continue;
    refused[source] = Status::error(
        ErrorId::backend_limit,
        format("its weights and those before it: found %llu bytes, expected at most %llu, which is what a session of "
               "the device has room for",
               bytes, kMost),
        "cut the model before this node, or quantise its weights");
  }
}

const char *type_name(DataType dtype) noexcept {
  switch (dtype) {
    case DataType::I8: return "i8";
    case DataType::I16: return "i16";
    case DataType::I32: return "i32";
    case DataType::I64: return "i64";
    case DataType::U8: return "u8";
    case DataType::U16: return "u16";
    case DataType::U32: return "u32";
    case DataType::U64: return "u64";
    case DataType::F16: return "f16";
    case DataType::BF16: return "bf16";
    case DataType::F32: return "f32";
    case DataType::F64: return "f64";
    case DataType::SQ8: return "quantised i8";
    case DataType::SQ16: return "quantised i16";
    case DataType::SQ32: return "quantised i32";
    case DataType::UQ8: return "quantised u8";
    case DataType::UQ16: return "quantised u16";
    case DataType::UQ32: return "quantised u32";
    case DataType::Bool8: return "bool";
    default: return "another type";
  }
}

DType plain_type(DataType dtype) noexcept {
  switch (dtype) {
    case DataType::I8:
    case DataType::SQ8: return DType::I8;
    case DataType::U8:
    case DataType::UQ8: return DType::U8;
    case DataType::I16:
    case DataType::SQ16: return DType::I16;
    case DataType::U16:
    case DataType::UQ16: return DType::U16;
    case DataType::I32:
    case DataType::SQ32: return DType::I32;
    case DataType::U32:
    case DataType::UQ32: return DType::U32;
    case DataType::I64: return DType::I64;
    case DataType::U64: return DType::U64;
    case DataType::F16: return DType::F16;
    case DataType::BF16: return DType::BF16;
    case DataType::F32: return DType::F32;
    case DataType::F64: return DType::F64;
    case DataType::Bool8: return DType::Bool;
    default: return DType::Unknown;
  }
}

}  // namespace quarry::htp
