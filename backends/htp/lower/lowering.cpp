// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/lowering.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "backends/htp/lower/block_weights.h"
#include "base/checked.h"
#include "base/float16.h"
#include "graph/ops/quantization.h"
#include "passes/passes.h"
#include "passes/shapes/cut.h"

namespace quarry::htp {

using qnn::DataType;
using qnn::TensorType;

Order natural_order(std::size_t rank) {
  Order order(rank);
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  return order;
}

Order channels_last(std::size_t rank) {
  Order order = natural_order(rank);
  if (rank > 2) std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

bool is_natural(const Order &order) noexcept { return std::is_sorted(order.begin(), order.end()); }

std::uint32_t place_of(const Order &order, std::size_t axis) noexcept {
  return static_cast<std::uint32_t>(std::find(order.begin(), order.end(), axis) - order.begin());
}

Status refuse(ErrorId id, String reason, std::string_view hint) { return Status::error(id, reason, hint); }

Lowering::Lowering(const qir::Graph &graph, const Soc &soc, qir::Store &store, Draft &draft)
    : graph_(graph),
      soc_(soc),
      store_(store),
      draft_(draft),
      users_(graph.tensors.size()),
      is_border_(graph.tensors.size()),
      is_output_(graph.tensors.size()),
      values_(graph.tensors.size()) {
  for (const qir::Node &node : graph.nodes)
    for (const std::int32_t id : node.inputs)
      if (id != qir::kAbsent) ++users_[index_of(id)];
  for (const std::int32_t id : graph.inputs) is_border_[index_of(id)] = true;
  for (const std::int32_t id : graph.outputs)
    ++users_[index_of(id)], is_border_[index_of(id)] = true, is_output_[index_of(id)] = true;
}

bool is_plain_small(const qir::Tensor &tensor) noexcept {
  return !tensor.quant && (tensor.dtype == DType::U8 || tensor.dtype == DType::I8 || tensor.dtype == DType::U16 ||
                           tensor.dtype == DType::I16);
}

namespace {

constexpr std::string_view kConvolutions[] = {"Conv2d", "Conv3d", "DepthWiseConv2d", "TransposeConv2d",
                                              "TransposeConv3d"};
constexpr std::string_view kPutIntoConvolutions[] = {
    "Batchnorm",           "ElementWiseAdd", "ElementWiseDivide", "ElementWiseMultiply",
    "ElementWiseSubtract", "Reshape",        "Transpose"};

}  // namespace

Result<DataType> Lowering::type_of(const qir::Tensor &tensor) {
  if (tensor.quant) {
    switch (tensor.dtype) {
      case DType::U8: return DataType::UQ8;
      case DType::I8: return DataType::SQ8;
      case DType::U16: return DataType::UQ16;
      case DType::I16: return DataType::SQ16;
      case DType::I32: return DataType::SQ32;
      case DType::I4: return DataType::SQ8;
      default: break;
    }
  } else {
    switch (tensor.dtype) {
      case DType::F32: return DataType::F32;
      case DType::F16: return DataType::F16;
      case DType::BF16: return DataType::BF16;
      // Plain integers are counted with a scale of 1: the library has most operators on those alone, and its Cast of
      // plain u8 to floats gives 1 for all that is not 0.
      case DType::U8: return DataType::UQ8;
      case DType::I8: return DataType::SQ8;
      case DType::U16: return DataType::UQ16;
      case DType::I16: return DataType::SQ16;
      case DType::I64:  // the device has no arithmetic on 64 bits
      case DType::I32: return DataType::I32;
      case DType::U64:
      case DType::U32: return DataType::U32;
      case DType::Bool: return DataType::Bool8;
      default: break;
    }
  }
  return refuse(ErrorId::backend_type,
                format("tensor %s: found %s%s, which the device has no type for", printable(tensor.name),
                       dtype_name(tensor.dtype), tensor.quant ? " with a quantisation" : ""));
}

Encoding Lowering::encoding_of(const qir::Tensor &tensor, const Order &order) {
  Encoding encoding;
  if (!tensor.quant) {
    if (is_plain_small(tensor)) encoding.scales = {1}, encoding.zero_points = {0};
    return encoding;
  }
  encoding.scales = tensor.quant->scales;
  encoding.zero_points = tensor.quant->zero_points;
  if (!tensor.quant->per_tensor())
    encoding.axis = static_cast<std::int32_t>(place_of(order, static_cast<std::size_t>(tensor.quant->axis)));
  if (tensor.dtype == DType::I4) encoding.bits = 4;
  return encoding;
}

Vector<std::uint32_t> Lowering::dims_of(const qir::Shape &shape, const Order &order) {
  Vector<std::uint32_t> dims;
  for (const std::uint8_t axis : order) dims.push_back(static_cast<std::uint32_t>(shape[axis]));
  if (dims.empty()) dims.push_back(1);
  return dims;
}

String Lowering::unique(std::string_view name) {
  String wanted(name.empty() ? std::string_view("value") : name);
  while (true) {
    std::uint32_t &used = names_[wanted];
    taken_.push_back(&used);
    if (used++ == 0) return wanted;
    wanted = format("%s#%u", String(name), used);
  }
}

std::int32_t Lowering::add(DraftTensor tensor) {
  tensor.name = unique(tensor.name);
  draft_.tensors.push_back(std::move(tensor));
  return static_cast<std::int32_t>(draft_.tensors.size() - 1);
}

std::int32_t Lowering::between(std::string_view name, DataType dtype, Vector<std::uint32_t> dims, Encoding encoding) {
  return add({String(name), TensorType::Native, dtype, std::move(dims), std::move(encoding), {}});
}

std::int32_t Lowering::between(std::int32_t like, const char *suffix, Vector<std::uint32_t> dims) {
  const qir::Tensor &tensor = this->tensor(like);
  const Result<DataType> dtype = type_of(tensor);
  return between(tensor.name + suffix, dtype.ok() ? dtype.value() : DataType::F32, std::move(dims),
                 encoding_of(tensor, natural_order(tensor.shape.size())));
}

std::int32_t Lowering::constant(std::string_view name, DataType dtype, Vector<std::uint32_t> dims, qir::Bytes data,
                                Encoding encoding) {
  return add({String(name), TensorType::Static, dtype, std::move(dims), std::move(encoding), data});
}

std::int32_t Lowering::reshaped(std::int32_t draft_id, Vector<std::uint32_t> dims) {
  const DraftTensor from = drafted(draft_id);
  if (from.dims == dims) return draft_id;
  if (from.type == TensorType::Static)
    return constant(from.name, from.dtype, std::move(dims), from.data, from.encoding);
  const std::int32_t made = between(from.name, from.dtype, std::move(dims), from.encoding);
  node("Reshape", {draft_id}, {made});
  return made;
}

// ---- constants ----------------------------------------------------------------------------------

namespace {

// Elements of `size` bytes, put into another order of the axes.
void reorder(const std::uint8_t *from, std::uint8_t *to, const qir::Shape &shape, const Order &order,
             std::size_t size) {
  const std::size_t rank = shape.size();
  Vector<std::uint64_t> strides(rank, size);
  for (std::size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * static_cast<std::uint64_t>(shape[i]);
  Vector<std::int64_t> at(rank, 0);
  const std::uint64_t count = static_cast<std::uint64_t>(*element_count(shape.data(), rank));
  for (std::uint64_t n = 0; n < count; ++n, to += size) {
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < rank; ++i) offset += strides[order[i]] * static_cast<std::uint64_t>(at[i]);
    std::memcpy(to, from + offset, size);
    for (std::size_t i = rank; i-- > 0;) {
      if (++at[i] < shape[order[i]]) break;
      at[i] = 0;
    }
  }
}

}  // namespace

// f32 constants on a device that computes with f16: what is past its numbers (masks of minus infinity or -3.4e38,
// limits that limit nothing) is its largest number. An infinity would make NaN of 0 * mask and of a row that is masked
// wholly, and the library gives garbage for some.
qir::Bytes Lowering::within_half(const qir::Tensor &tensor, qir::Bytes data, std::uint64_t count) {
  if (tensor.dtype != DType::F32 || tensor.quant || soc_.arch < 69) return data;
  const float *const values = static_cast<const float *>(data.data);
  if (std::none_of(values, values + count, [](float v) { return std::fabs(v) > kLargestF16; })) return data;
  float *const made = static_cast<float *>(store_.allocate(count * 4));
  std::transform(values, values + count, made,
                 [](float v) { return std::isnan(v) ? v : std::clamp(v, -kLargestF16, kLargestF16); });
  return {made, count * 4};
}

// The bytes as the device has them: 4 bits in bytes of their own, 64-bit integers in 32 bits.
std::int32_t Lowering::constant_in(std::int32_t id, const qir::Shape &shape, const Order &order) {
  const qir::Tensor &tensor = this->tensor(id);
  const DataType dtype = type_of(tensor).ok() ? type_of(tensor).value() : DataType::F32;
  const std::size_t size = element_bytes(dtype);
  const std::uint64_t count = static_cast<std::uint64_t>(*element_count(shape.data(), shape.size()));
  qir::Bytes data = within_half(tensor, tensor.data, count);
  bool is_clamped = false;
  if (tensor.dtype == DType::I64 || tensor.dtype == DType::U64) {
    std::int32_t *const narrow = static_cast<std::int32_t *>(store_.allocate(count * 4));
    for (std::uint64_t i = 0; i < count; ++i) {
      std::int64_t wide;
      std::memcpy(&wide, static_cast<const std::uint8_t *>(data.data) + 8 * i, 8);
      if (tensor.dtype == DType::I64) {
        narrow[i] = static_cast<std::int32_t>(std::clamp<std::int64_t>(wide, std::numeric_limits<std::int32_t>::min(),
                                                                       std::numeric_limits<std::int32_t>::max()));
        is_clamped |= narrow[i] != wide;
      } else {
        const auto low = static_cast<std::uint32_t>(
            std::min<std::uint64_t>(static_cast<std::uint64_t>(wide), std::numeric_limits<std::uint32_t>::max()));
        narrow[i] = static_cast<std::int32_t>(low);
        is_clamped |= low != static_cast<std::uint64_t>(wide);
      }
    }
    data = {narrow, count * 4};
  } else if (tensor.dtype == DType::I4) {
    std::int8_t *const bytes = static_cast<std::int8_t *>(store_.allocate(count));
    for (std::uint64_t i = 0; i < count; ++i)
      bytes[i] = static_cast<std::int8_t>(qir::stored_integer(tensor.dtype, data.data, i));
    data = {bytes, count};
  }
  if (!is_natural(order) && count > 0) {
    void *const place = store_.allocate(count * size);
    reorder(static_cast<const std::uint8_t *>(data.data), static_cast<std::uint8_t *>(place), shape, order, size);
    data = {place, count * size};
  }
  const std::int32_t made = constant(tensor.name, dtype, dims_of(shape, order), data, encoding_of(tensor, order));
  if (is_clamped) clamped_.insert(made), past_32_bits_ = id;
  return made;
}

const qir::Tensor *Lowering::block_source(const void *reals) const noexcept {
  return block_sources_ ? block_sources_->find(reals) : nullptr;
}

std::size_t Lowering::users(std::int32_t id) const { return users_[index_of(id)]; }

const DraftNode *Lowering::maker_of(std::int32_t draft_id) {
  draft_makers_.resize(draft_.tensors.size(), -1);
  for (; draft_nodes_met_ < draft_.nodes.size(); ++draft_nodes_met_)
    for (const std::int32_t id : draft_.nodes[draft_nodes_met_].outputs)
      draft_makers_[index_of(id)] = static_cast<std::int32_t>(draft_nodes_met_);
  const std::int32_t maker = draft_id < 0 ? -1 : draft_makers_[index_of(draft_id)];
  return maker < 0 ? nullptr : &draft_.nodes[index_of(maker)];
}

bool Lowering::is_of_convolution(std::int32_t draft_id) {
  while (const DraftNode *const node = maker_of(draft_id)) {
    const std::string_view type = node->type;
    if (std::ranges::find(kConvolutions, type) != std::end(kConvolutions)) return true;
    if (std::ranges::find(kPutIntoConvolutions, type) == std::end(kPutIntoConvolutions)) return false;
    std::int32_t from = -1;
    for (const std::int32_t input : node->inputs) {
      if (draft_.tensors[index_of(input)].type == qnn::TensorType::Static) continue;
      if (from >= 0 && from != input) return false;
      from = input;
    }
    draft_id = from;
  }
  return false;
}

// Where a convolution takes a row or column of images to one position with as many channels as there were elements in
// it, a Reshape that reads it reads other elements; a Transpose does not.
bool Lowering::is_row_in_one(std::int32_t draft_id) {
  if (drafted(draft_id).dims.size() < 3) return false;
  for (const DraftNode *node = maker_of(draft_id); node; node = maker_of(draft_id)) {
    const std::string_view type = node->type;
    if (node->custom) return false;
    if (type == "Convert" || type == "Reshape") {
      draft_id = node->inputs[0];
      continue;
    }
    if (std::ranges::find(kConvolutions, type) == std::end(kConvolutions)) return false;
    const Vector<std::uint32_t> &in = drafted(node->inputs[0]).dims, &out = drafted(draft_id).dims;
    return out.size() == 4 && out[0] * out[1] * out[2] == 1 && std::min(in[1], in[2]) == 1 &&
           std::max(in[1], in[2]) == out[3];
  }
  return false;
}

// ---- values -------------------------------------------------------------------------------------

Order Lowering::order(std::int32_t id) const {
  const Value &value = values_[index_of(id)];
  return value.tensor < 0 ? natural_order(rank(id)) : value.order;
}

// With axes of 1 the library cannot always prepare a Transpose, above all behind an Lrn: without those, then. But of a
// column that a convolution made a Reshape reads other elements.
bool Lowering::is_turned_flat(std::int32_t draft_id) {
  const DraftTensor &from = drafted(draft_id);
  if (from.dims.size() < 4 || from.encoding.scales.size() > 1) return false;
  if (const DraftNode *const maker = maker_of(draft_id); maker && std::string_view(maker->type) == "Lrn") return true;
  const bool is_column = from.dims[1] != 1 && from.dims[2] == 1;
  return std::find(from.dims.begin() + 1, from.dims.end(), 1u) != from.dims.end() &&
         (!is_column || from.type == TensorType::AppWrite);
}

void Lowering::move(const Value &value, const Order &order, std::int32_t to) {
  Vector<std::uint32_t> perm, wide;
  for (const std::uint8_t axis : order) {
    perm.push_back(place_of(value.order, axis));
    // Moving dimensions of 1 about moves nothing.
    if (drafted(value.tensor).dims[perm.back()] != 1) wide.push_back(perm.back());
  }
  if (is_row_in_one(value.tensor)) {
    param(node("Transpose", {value.tensor}, {to}), "perm", perm);
  } else if (std::is_sorted(wide.begin(), wide.end())) {
    node("Reshape", {value.tensor}, {to});
  } else if (wide.size() < perm.size() && is_turned_flat(value.tensor)) {
    const DraftTensor from = drafted(value.tensor);
    const Vector<std::uint32_t> places = wide;
    std::ranges::sort(wide);
    Vector<std::uint32_t> flat, turned;
    for (const std::uint32_t axis : wide) flat.push_back(from.dims[axis]);
    perm.resize(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      perm[i] = static_cast<std::uint32_t>(std::ranges::find(wide, places[i]) - wide.begin());
      turned.push_back(from.dims[places[i]]);
    }
    const std::int32_t before = reshaped(value.tensor, flat);
    const std::int32_t behind = between(from.name, from.dtype, turned, from.encoding);
    param(node("Transpose", {before}, {behind}), "perm", perm);
    node("Reshape", {behind}, {to});
    ++draft_.layout_copies;
  } else {
    param(node("Transpose", {value.tensor}, {to}), "perm", perm);
    ++draft_.layout_copies;
  }
}

std::int32_t Lowering::copy_of(std::int32_t id, const Order &order) {
  const auto found = copies_.find(std::make_pair(id, order));
  if (found == copies_.end()) return -1;
  if (clamped_.contains(found->second)) past_32_bits_ = id;
  return found->second;
}

std::int32_t Lowering::stored(std::int32_t id, const Order &order) {
  const Value &value = values_[index_of(id)];
  if (value.tensor >= 0 && value.order == order) return value.tensor;
  if (const std::int32_t copy = copy_of(id, order); copy >= 0) return copy;
  std::int32_t made;
  if (tensor(id).is_constant) {
    made = constant_in(id, tensor(id).shape, order);
  } else {
    const DraftTensor from = drafted(value.tensor);
    made = between(tensor(id).name, from.dtype, dims_of(tensor(id).shape, order), encoding_of(tensor(id), order));
    move(value, order, made);
  }
  copies_.emplace(std::make_pair(id, order), made);
  return made;
}

std::int32_t Lowering::broadcast(std::int32_t id, const Order &order) {
  const qir::Tensor &given = tensor(id);
  const std::size_t rank = order.size(), own = given.shape.size();
  if (own == rank) return stored(id, order);
  if (const std::int32_t copy = copy_of(id, order); copy >= 0) return copy;
  qir::Shape shape(rank - own, 1);
  shape.insert(shape.end(), given.shape.begin(), given.shape.end());
  std::int32_t made;
  if (given.is_constant) {
    made = constant_in(id, shape, order);
  } else {
    const std::int32_t from = natural(id);
    const DataType dtype = drafted(from).dtype;
    const Encoding encoding = drafted(from).encoding;
    const bool moves =
        !is_natural(order) && std::count_if(shape.begin(), shape.end(), [](std::int64_t d) { return d != 1; }) > 1;
    made = between(given.name, dtype, dims_of(shape, moves ? natural_order(rank) : order), encoding);
    node("Reshape", {from}, {made});
    if (moves) {
      const std::int32_t moved = between(given.name, dtype, dims_of(shape, order), encoding);
      const Vector<std::uint32_t> perm(order.begin(), order.end());
      param(node("Transpose", {made}, {moved}), "perm", perm);
      ++draft_.layout_copies;
      made = moved;
    }
  }
  copies_.emplace(std::make_pair(id, order), made);
  return made;
}

std::int32_t Lowering::result(std::int32_t id, const Order &order) {
  const qir::Tensor &tensor = this->tensor(id);
  const bool is_output = is_output_[index_of(id)];
  const Result<DataType> dtype = type_of(tensor);
  const std::int32_t made = add({tensor.name,
                                 is_output && is_natural(order) ? TensorType::AppRead : TensorType::Native,
                                 dtype.ok() ? dtype.value() : DataType::F32,
                                 dims_of(tensor.shape, order),
                                 encoding_of(tensor, order),
                                 {}});
  values_[index_of(id)] = {made, order, qir::kAbsent};
  return made;
}

void Lowering::same_as(std::int32_t id, std::int32_t draft_id, Order order) {
  // The same numbers in another quantisation are other integers.
  if (tensor(id).quant) {
    const Encoding wanted = encoding_of(tensor(id), order);
    const Encoding &given = drafted(draft_id).encoding;
    if (given.scales.size() == 1 && wanted.scales.size() == 1 &&
        (given.scales != wanted.scales || given.zero_points != wanted.zero_points)) {
      node("Convert", {draft_id}, {result(id, order)});
      return;
    }
  }
  values_[index_of(id)] = {draft_id, std::move(order), qir::kAbsent};
}

DraftNode &Lowering::node(const char *type, std::initializer_list<std::int32_t> inputs,
                          std::initializer_list<std::int32_t> outputs) {
  DraftNode made;
  made.name = at_ ? at_->name : String(type);
  made.type = type;
  for (const std::int32_t input : inputs)
    if (input >= 0) made.inputs.push_back(input);
  made.outputs = outputs;
  made.source = at_ ? at_->source : qir::kNoSource;
  return draft_.nodes.emplace_back(std::move(made));
}

void Lowering::param(DraftNode &node, const char *name, std::span<const std::uint32_t> values,
                     Vector<std::uint32_t> dims) {
  if (dims.empty()) dims = {static_cast<std::uint32_t>(values.size())};
  const std::int32_t made =
      constant(node.name + "." + name, DataType::U32, std::move(dims), values.data(), values.size_bytes());
  node.params.push_back({name, DraftParam::Ref{made}});
}
void Lowering::param(DraftNode &node, const char *name, std::span<const std::int32_t> values,
                     Vector<std::uint32_t> dims) {
  if (dims.empty()) dims = {static_cast<std::uint32_t>(values.size())};
  const std::int32_t made =
      constant(node.name + "." + name, DataType::I32, std::move(dims), values.data(), values.size_bytes());
  node.params.push_back({name, DraftParam::Ref{made}});
}

// ---- the graph ----------------------------------------------------------------------------------

// An input or output is copied byte for byte, or from 64 to 32 bits.
Status Lowering::check_border(std::int32_t id) const {
  const qir::Tensor &tensor = this->tensor(id);
  QR_ASSIGN_OR_RETURN(const DataType dtype, type_of(tensor));
  const bool narrows = tensor.dtype == DType::I64 || tensor.dtype == DType::U64;
  if (narrows || dtype_bits(tensor.dtype) == 8 * element_bytes(dtype)) return {};
  return refuse(ErrorId::backend_type,
                format("tensor %s: found %s as an input or output of the model, expected whole bytes",
                       printable(tensor.name), dtype_name(tensor.dtype)));
}

Status check_scales(std::string_view name, std::span<const float> scales) {
  const auto found = std::ranges::find_if(scales, [](float scale) { return !std::isnormal(scale); });
  if (found == scales.end()) return {};
  return refuse(ErrorId::backend_limit,
                format("tensor %s: found a scale of %g, expected at least 1.2e-38: the library has no smaller one",
                       printable(name), static_cast<double>(*found)),
                "quantise numbers of a common size, or leave that part of the model in floats");
}

Status Lowering::check_types(const qir::Node &node) const {
  for (const auto *list : {&node.inputs, &node.outputs}) {
    for (const std::int32_t id : *list) {
      if (id == qir::kAbsent) continue;
      const qir::Tensor &tensor = this->tensor(id);
      QR_RETURN_IF_ERROR(type_of(tensor).take_status());
      if (is_border_[index_of(id)]) QR_RETURN_IF_ERROR(check_border(id));
      if (tensor.quant && !tensor.is_constant) QR_RETURN_IF_ERROR(check_scales(tensor.name, tensor.quant->scales));
      // Concat leaves out what holds nothing (the cache of a first run), and axes may be none.
      const bool may_be_empty = list == &node.inputs && (node.op == qir::Op::Concat || id != node.inputs[0]);
      for (const std::int64_t extent : tensor.shape) {
        if (extent == 0 && may_be_empty) continue;
        if (extent < 0)
          return refuse(
              ErrorId::backend_limit,
              format("tensor %s: found shape %s, expected one that is known before the run", printable(tensor.name),
                     shape_text(tensor.shape.data(), tensor.shape.size())),
              "bind symbolic dimensions by the option shape; option htp.tail=host has the host run what depends on "
              "data-dependent shapes");
        if (extent == 0 || extent > std::numeric_limits<std::uint32_t>::max())
          return refuse(ErrorId::backend_limit,
                        format("tensor %s: found shape %s, expected dimensions of at least 1", printable(tensor.name),
                               shape_text(tensor.shape.data(), tensor.shape.size())));
      }
    }
  }
  return {};
}

Status Lowering::lower_node(const qir::Node &node) {
  const bool is_custom = node.op == qir::Op::Custom;
  if (is_custom && std::ranges::any_of(packages_, [&](const OpPackage &p) { return p.op == node.custom->type; })) {
    QR_RETURN_IF_ERROR(check_types(node));
    return apply(lower_custom, node);
  }
  const OperatorRow *row = is_custom ? nullptr : find_operator(node.op);
  if (is_custom)
    return refuse(ErrorId::backend_op,
                  format("custom operator %s version %lld: this backend has no package for it", qir::op_text(node),
                         node.custom->version),
                  "name the package by the option op_packages");
  if (!row) {
    const bool is_open = passes::is_control_flow(node) || std::ranges::any_of(node.outputs, [&](std::int32_t id) {
                           return id != qir::kAbsent && !passes::known(tensor(id).shape);
                         });
    return refuse(ErrorId::backend_op, format("operator %s has no form on this device", qir::op_text(node)),
                  is_open ? "option htp.tail=host has the host run it, and what depends on it"
                          : "docs/htp.md says what is taken; cut the model before and behind this node and run it on "
                            "another backend");
  }
  QR_RETURN_IF_ERROR(check_types(node));
  QR_RETURN_IF_ERROR(check_operand_types(graph_, node, *row));
  return apply(row->rule, node);
}

struct Lowering::Mark {
  std::size_t nodes, tensors;
  std::uint32_t layout_copies;
};

Lowering::Mark Lowering::mark() {
  taken_.clear();
  past_32_bits_ = qir::kAbsent;
  return {draft_.nodes.size(), draft_.tensors.size(), draft_.layout_copies};
}

void Lowering::undo(const Mark &mark, const qir::Node &node) {
  const auto is_new = [&](const auto &entry) { return entry.second >= static_cast<std::int32_t>(mark.tensors); };
  std::erase_if(copies_, is_new);
  std::erase_if(encoded_, is_new);
  std::erase_if(clamped_, [&](std::int32_t made) { return made >= static_cast<std::int32_t>(mark.tensors); });
  for (const std::int32_t id : node.outputs)
    if (id != qir::kAbsent) values_[index_of(id)] = {}, encoded_.erase(id);
  for (std::uint32_t *const used : taken_) --*used;
  draft_makers_.resize(std::min(draft_makers_.size(), mark.tensors));
  draft_nodes_met_ = std::min(draft_nodes_met_, mark.nodes);
  draft_.nodes.erase(draft_.nodes.begin() + static_cast<std::ptrdiff_t>(mark.nodes), draft_.nodes.end());
  draft_.tensors.erase(draft_.tensors.begin() + static_cast<std::ptrdiff_t>(mark.tensors), draft_.tensors.end());
  draft_.layout_copies = mark.layout_copies;
}

namespace {

// Whether a constant past 32 bits means the same when it is the nearest number of 32 bits: it is a limit, and the
// device's data are not past it either.
bool takes_limits(qir::Op op) {
  using qir::Op;
  switch (op) {
    case Op::Clip:
    case Op::Greater:
    case Op::GreaterOrEqual:
    case Op::Less:
    case Op::LessOrEqual:
    case Op::Max:
    case Op::Min: return true;
    default: return false;
  }
}

}  // namespace

Status Lowering::apply(Rule rule, const qir::Node &node) {
  const qir::Node *const outer = std::exchange(at_, &node);
  const Mark before = mark();
  Status status = rule(*this, node);
  if (status.ok() && past_32_bits_ != qir::kAbsent && !takes_limits(node.op))
    status = refuse(ErrorId::backend_limit,
                    format("constant %s: found a value past 32 bits, expected at most 32: the device has no more",
                           printable(tensor(past_32_bits_).name)),
                    "use smaller numbers, or cut the model before and behind this node");
  if (!status.ok()) undo(before, node);
  at_ = outer;
  return status;
}

void Lowering::border(std::int32_t id, bool output) {
  const qir::Tensor &tensor = this->tensor(id);
  IoBinding made{tensor.name, tensor.dtype, tensor.shape, -1, {}};
  Value &value = values_[index_of(id)];
  if (!output) {
    if (element_count(tensor.shape.data(), tensor.shape.size()).value_or(1) == 0) {
      draft_.inputs.push_back(std::move(made));
      return;
    }
    const Result<DataType> dtype = type_of(tensor);
    const Order order = natural_order(tensor.shape.size());
    made.tensor = add({tensor.name,
                       TensorType::AppWrite,
                       dtype.ok() ? dtype.value() : DataType::F32,
                       dims_of(tensor.shape, order),
                       encoding_of(tensor, order),
                       {}});
    value = {made.tensor, order, qir::kAbsent};
    draft_.inputs.push_back(std::move(made));
    return;
  }
  const std::int32_t constant = tensor.is_constant ? id : value.constant;
  if (constant != qir::kAbsent) {
    made.constant = this->tensor(constant).data;
    draft_.outputs.push_back(std::move(made));
    return;
  }
  const bool taken = given_.contains(value.tensor);
  if (value.tensor >= 0 && is_natural(value.order) && drafted(value.tensor).type == TensorType::AppRead && !taken) {
    made.tensor = value.tensor;
    given_.insert(value.tensor);
  } else {
    const DraftTensor &like = drafted(value.tensor);
    const Order order = natural_order(tensor.shape.size());
    made.tensor = add({tensor.name,
                       TensorType::AppRead,
                       like.dtype,
                       dims_of(tensor.shape, order),
                       like.encoding.scales.size() > 1 ? encoding_of(tensor, order) : like.encoding,
                       {}});
    move(value, order, made.tensor);
  }
  draft_.outputs.push_back(std::move(made));
}

Status Lowering::run(Vector<Status> &refused) {
  draft_.name = graph_.name.empty() ? String("graph") : graph_.name;
  for (const std::int32_t id : graph_.inputs) border(id, false);
  for (const qir::Node &node : graph_.nodes) {
    Status status = lower_node(node);
    const bool failed = !status.ok();
    const auto source = index_of(node.source);
    if (node.source >= 0 && source < refused.size() && refused[source].ok()) refused[source] = std::move(status);
    if (!failed) continue;
    for (const std::int32_t id : node.outputs) {
      if (id == qir::kAbsent) continue;
      for (const std::int64_t extent : tensor(id).shape)
        if (extent < 0) return {};  // nothing behind it can be checked
      result(id);
    }
  }
  for (const std::int32_t id : graph_.outputs) border(id, true);
  // The library takes out an input that nobody reads, and then wants to hear nothing of it.
  Vector<bool> read(draft_.tensors.size());
  for (const DraftNode &node : draft_.nodes)
    for (const std::int32_t id : node.inputs) read[index_of(id)] = true;
  for (IoBinding &input : draft_.inputs) {
    if (input.tensor < 0 || read[index_of(input.tensor)]) continue;
    drafted(input.tensor).type = TensorType::Null;
    input.tensor = -1;
  }
  return {};
}

Result<Vector<std::int64_t>> constant_ints(const Lowering &lowering, const qir::Node &node, std::size_t input,
                                           const char *what) {
  const std::int32_t id = node.inputs[input];
  Vector<std::int64_t> values;
  if (id == qir::kAbsent) return values;
  const qir::Tensor &tensor = lowering.tensor(id);
  if (element_count(tensor.shape.data(), tensor.shape.size()).value_or(1) == 0) return values;
  if (!tensor.is_constant || (tensor.dtype != DType::I64 && tensor.dtype != DType::I32))
    return refuse(ErrorId::backend_limit,
                  format("%s (input %zu) is known only at run time, expected a constant", what, input),
                  "export the model with fixed shapes");
  const std::size_t count = static_cast<std::size_t>(*element_count(tensor.shape.data(), tensor.shape.size()));
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor.dtype == DType::I64) {
      std::int64_t value;
      std::memcpy(&value, static_cast<const std::uint8_t *>(tensor.data.data) + 8 * i, 8);
      values.push_back(value);
    } else {
      std::int32_t value;
      std::memcpy(&value, static_cast<const std::uint8_t *>(tensor.data.data) + 4 * i, 4);
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace quarry::htp
