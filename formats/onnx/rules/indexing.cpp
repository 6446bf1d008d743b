// SPDX-License-Identifier: Apache-2.0
// Elements by index.
#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

Status top_k(Rewriter &node) {
  QR_RETURN_IF_ERROR(node.need_inputs(1));
  Vector<std::int32_t> inputs = node.inputs();
  if (node.opset < 10) {
    const std::int64_t k = node.get_int("k", -1);
    if (k < 0) return node.error(ErrorId::onnx_invalid, "has no attribute k");
    inputs = {node.in(0), node.ints("k", {&k, 1})};
  }
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::TopK, std::move(inputs), {"k"}));
  return node.finish(std::move(made));
}

Status scatter(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(qir::Node made, node.copy(Op::ScatterElements, node.inputs()));
  return node.finish(std::move(made));
}

namespace {

// data, indices, scales, zero_points?: rows of a table whose rows are blocks of `block` integers, each block with a
// scale and a zero point. Bytes may hold two integers of 4 bits, the first one in the low half.
class BlockRows {
 public:
  explicit BlockRows(Rewriter &node) : node_(node) {}

  Status run() {
    QR_RETURN_IF_ERROR(read());
    QR_ASSIGN_OR_RETURN(std::int32_t id, rows(0, width_, "data"));
    std::int32_t zero = node_.number("zero", DType::F32, none_);
    if (node_.has(3)) {
      QR_ASSIGN_OR_RETURN(zero, of_columns(3, "zeros"));
    }
    QR_ASSIGN_OR_RETURN(id, node_.step(Op::Sub, {id, zero}, "centred"));
    QR_ASSIGN_OR_RETURN(const std::int32_t scale, of_columns(2, "scales"));
    if (real_ == DType::F32) return node_.finish(Op::Mul, {id, scale});
    QR_ASSIGN_OR_RETURN(id, node_.step(Op::Mul, {id, scale}, "scaled"));
    qir::Node made = node_.make(Op::Cast, {id}, "");
    made.set("to", static_cast<std::int64_t>(real_));
    return node_.finish(std::move(made));
  }

 private:
  Status read() {
    QR_RETURN_IF_ERROR(node_.need_inputs(3));
    const qir::Tensor &data = node_.tensor(0);
    const std::int64_t gathered = node_.get_int("gather_axis", 0), quantized = node_.get_int("quantize_axis", 1),
                       bits = node_.get_int("bits", 4);
    if (data.shape.size() != 2 || data.shape[1] < 1 || (gathered != 0 && gathered != -2) ||
        (quantized != 1 && quantized != -1))
      return node_.error(ErrorId::onnx_attribute,
                         "gathers along axis %lld of data of rank %zu whose blocks lie along axis %lld, expected rows "
                         "(axis 0) of a table of rank 2 and of a known width, with blocks along axis 1",
                         gathered, data.shape.size(), quantized);
    const bool is_byte = data.dtype == DType::U8;
    is_packed_ = is_byte && bits == 4;
    width_ = data.shape[1] * (is_packed_ ? 2 : 1);
    none_ = is_byte ? is_packed_ ? 8 : 128 : 0;
    block_ = node_.get_int("block_size", 128);
    constexpr std::int64_t kMostColumns = 1 << 20;
    if (block_ < 1 || width_ > kMostColumns || (!is_byte && data.dtype != DType::U4 && data.dtype != DType::I4))
      return node_.error(
          ErrorId::onnx_attribute,
          "has rows of %lld %s in blocks of %lld, expected at most %lld of u8, u4 or i4 in blocks of 1 or "
          "more",
          width_, dtype_name(data.dtype), block_, kMostColumns);
    rank_ = node_.tensor(1).shape.size();
    real_ = node_.tensor(2).dtype;
    return {};
  }
  // The rows of an input that are asked for, [indices..., count], as f32.
  Result<std::int32_t> rows(std::size_t input, std::int64_t count, const char *name) {
    std::int32_t id = node_.in(input);
    const DType dtype = node_.tensor(input).dtype;
    if (dtype_bits(dtype) < 8) {  // (elements are gathered as whole bytes)
      qir::Node wide = node_.make(Op::Cast, {id}, String(name) + "/bytes");
      wide.set("to", static_cast<std::int64_t>(dtype == DType::I4 ? DType::I8 : DType::U8));
      QR_ASSIGN_OR_RETURN(id, node_.step(std::move(wide)));
    }
    qir::Node taken = node_.make(Op::Gather, {id, node_.in(1)}, String(name) + "/rows");
    taken.set("axis", std::int64_t{0});
    QR_ASSIGN_OR_RETURN(id, node_.step(std::move(taken)));
    if (dtype == DType::U8 && is_packed_) {
      QR_ASSIGN_OR_RETURN(id, unpacked(id, count, name));
    }
    return dtype == DType::F32 ? Result<std::int32_t>(id) : to_real(node_, id, String(name) + "/real");
  }
  // What the blocks have, one for each column.
  Result<std::int32_t> of_columns(std::size_t input, const char *name) {
    QR_ASSIGN_OR_RETURN(const std::int32_t blocks, rows(input, (width_ + block_ - 1) / block_, name));
    Vector<std::int64_t> places;
    for (std::int64_t column = 0; column < width_; ++column) places.push_back(column / block_);
    qir::Node made = node_.make(Op::Gather, {blocks, node_.ints(String(name) + "/columns", places)}, name);
    made.set("axis", static_cast<std::int64_t>(rank_));
    return node_.step(std::move(made));
  }
  Result<std::int32_t> unpacked(std::int32_t id, std::int64_t count, const char *name) {
    const auto last = static_cast<std::int64_t>(rank_ + 1);
    const auto at = [&](const char *what) { return String(name) + what; };
    QR_ASSIGN_OR_RETURN(std::int32_t low,
                        node_.step(Op::BitwiseAnd, {id, node_.number(at("/mask"), DType::U8, 15)}, at("/low")));
    QR_ASSIGN_OR_RETURN(low, unsqueeze(node_, low, {last}, at("/low/shaped")));
    qir::Node shifted = node_.make(Op::BitShift, {id, node_.number(at("/shift"), DType::U8, 4)}, at("/high"));
    shifted.set("direction", std::string_view("RIGHT"));
    QR_ASSIGN_OR_RETURN(std::int32_t high, node_.step(std::move(shifted)));
    QR_ASSIGN_OR_RETURN(high, unsqueeze(node_, high, {last}, at("/high/shaped")));
    qir::Node both = node_.make(Op::Concat, {low, high}, at("/both"));
    both.set("axis", last);
    QR_ASSIGN_OR_RETURN(id, node_.step(std::move(both)));
    Vector<std::int64_t> shape(rank_, 0);
    const std::int64_t all = (count + 1) / 2 * 2;
    shape.push_back(all);
    QR_ASSIGN_OR_RETURN(id, node_.step(Op::Reshape, {id, node_.ints(at("/shape"), shape)}, at("/halves")));
    return all == count ? Result<std::int32_t>(id)
                        : slice(node_, id, static_cast<std::int64_t>(rank_), 0, count, at("/counted"));
  }

  Rewriter &node_;
  std::size_t rank_ = 0;  // of the indices
  std::int64_t width_ = 0, block_ = 0;
  double none_ = 0;  // the zero point where none is given
  bool is_packed_ = false;
  DType real_ = DType::F32;
};

}  // namespace

Status gather_block_quantized(Rewriter &node) { return BlockRows(node).run(); }

}  // namespace quarry::onnx_import::rules
