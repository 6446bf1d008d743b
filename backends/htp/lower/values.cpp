// SPDX-License-Identifier: Apache-2.0
// Values of the graph as the library has them: their types and layouts, constants, and in which layouts a value is
// there.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "backends/htp/lower/block_weights.h"
#include "backends/htp/lower/lowering.h"
#include "base/checked.h"
#include "base/float16.h"
#include "base/small_sort.h"
#include "graph/ops/quantization.h"

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

// A product, or a sum of products: a Tanh of one is 0.004 off, as of a convolution.
bool Lowering::is_of_product(std::int32_t draft_id, int sums) {
  const DraftNode *const node = maker_of(draft_id);
  if (!node) return false;
  const std::string_view type = node->type;
  if (type == "MatMul" || type == "FullyConnected") return true;
  if (type != "ElementWiseAdd" || sums == 0) return false;
  const std::int32_t a = node->inputs[0], b = node->inputs[1];
  return is_of_product(a, sums - 1) || is_of_product(b, sums - 1);
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
    return out.size() == 4 && out[1] * out[2] == 1 && std::min(in[1], in[2]) == 1 && std::max(in[1], in[2]) == out[3];
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
    small_sort(wide);
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

}  // namespace quarry::htp
