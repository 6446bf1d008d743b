// SPDX-License-Identifier: Apache-2.0
// A QNN graph in our own words, before any library has seen it: what lowering makes, the library's validation is asked
// about, and compiling writes into a context.
#pragma once

#include <variant>

#include "backends/htp/qnn/abi.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quarry::htp {

// real = (stored - zero_point) * scale; the library wants the zero point with the other sign.
struct Encoding {
  Vector<float> scales;              // none: not quantised; one: of the tensor; several: along `axis`
  Vector<std::int32_t> zero_points;  // as many
  std::int32_t axis = 0;
  std::uint32_t bits = 0;  // of each stored value, where fewer than its type has (4-bit weights in bytes); 0: all
  // Dimensions of a block along each axis: scales and zero points are those of blocks, all of an output channel's
  // together.
  Vector<std::uint32_t> block;
  // Scales for blocks as multiples of the `scales` along `axis`, as many for each of these.
  Vector<std::uint8_t> multipliers;
};

struct DraftTensor {
  String name;
  qnn::TensorType type = qnn::TensorType::Native;
  qnn::DataType dtype = qnn::DataType::Undef;
  Vector<std::uint32_t> dims;
  Encoding encoding;
  qir::Bytes data;  // of a static tensor; lies in the draft's store or in a segment of the model
};

struct DraftParam {
  const char *name;
  // A static tensor of the draft is Ref.
  struct Ref {
    std::int32_t tensor;
  };
  struct Text {
    const char *text;  // the model's
  };
  std::variant<std::uint32_t, std::int32_t, float, bool, Ref, Text> value;
};

struct DraftNode {
  String name;
  const char *type;  // of the package qti.aisw, or of that which `custom` names
  Vector<std::int32_t> inputs, outputs;
  Vector<DraftParam> params;
  std::int32_t source = qir::kNoSource;  // the node of the model that it was made for
  std::shared_ptr<const qir::CustomOp> custom = nullptr;
  const char *package() const noexcept { return custom ? custom->domain.c_str() : "qti.aisw"; }
};

// An input or output of the session: what the model says it is, and the tensor that the library gets or gives. An input
// that nobody reads and an output that is a constant have none: the library knows neither.
struct IoBinding {
  String name;
  DType dtype = DType::Unknown;
  qir::Shape shape;
  std::int32_t tensor = -1;
  qir::Bytes constant = {};  // of such an output
  float scale = 0;           // the host converts between f32 and the tensor's integers; 0: it does not
  std::int32_t zero_point = 0;
  bool may_saturate = false;  // an output of 64-bit integers that are computed with in the device's 32 bits
};

struct Draft {
  String name;
  Vector<DraftTensor> tensors;
  Vector<DraftNode> nodes;  // in an order in which they can run
  Vector<IoBinding> inputs, outputs;
  std::uint32_t layout_copies = 0;  // Transposes that no node of the model asked for
};

// A device maps a context whole, into an address space of which 3.75 GB are usable: nodes whose weights do not fit it
// beside those before them are refused, so that the model can be cut there.
void refuse_what_is_too_large(const Draft &draft, Vector<Status> &refused);
// The library reads no binary of a graph without inputs: where all operands are constants, every node is refused.
void refuse_without_inputs(const Draft &draft, Vector<Status> &refused);
std::uint64_t weight_bytes(const Draft &draft) noexcept;

// Bytes of one stored element; 0: it has no size of its own.
std::size_t element_bytes(qnn::DataType dtype) noexcept;
std::uint64_t tensor_bytes(const DraftTensor &tensor) noexcept;
const char *type_name(qnn::DataType dtype) noexcept;  // "quantised u8"
// What a program has of a tensor of the library's; Unknown: it has no such type.
DType plain_type(qnn::DataType dtype) noexcept;

}  // namespace quarry::htp
