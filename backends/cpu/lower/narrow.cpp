// SPDX-License-Identifier: Apache-2.0
// What is kept of state in fewer bits than the f32 it stands for (option state.type): it stays as it lies until a step
// needs reals, and attention reads it so.
#include "backends/cpu/lower/rules.h"

namespace quarry::cpu {

using kernels::Kernel;
using qir::Op;

namespace {

constexpr float kByteZero = 128;  // prepare/state_type.cpp

bool is_full_row(const qir::Shape &scales, const qir::Shape &rows) {
  return scales.size() == rows.size() && !rows.empty() && scales.back() == 1 &&
         std::equal(scales.begin(), scales.end() - 1, rows.begin());
}

}  // namespace

const Narrow *Lowering::narrow(std::int32_t id) const {
  if (narrow_.empty() || !forms(id).empty()) return nullptr;
  const auto found = narrow_.find(id);
  return found == narrow_.end() ? nullptr : &found->second;
}

// Casts of a block that is appended to, and for bytes the two nodes behind it.
bool Lowering::stays_narrow(const qir::Node &node) {
  if (blocks_.empty() || node.outputs.size() != 1 || node.inputs.empty() || node.inputs[0] == qir::kAbsent)
    return false;
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  if (!is_f32(yi) || tensor(xi).shape != tensor(yi).shape) return false;
  if (node.op == Op::Cast) {
    const DType dtype = tensor(xi).dtype;
    if (tensor(xi).quant || (dtype != DType::F16 && dtype != DType::BF16 && dtype != DType::U8)) return false;
    const View lies = peek(xi);
    if (lies.value == kNoValue) return false;
    const Value &value = plan_.values[index_of(lies.value)];
    if (value.storage != StorageKind::Output || value.offset != kNoPlace) return false;
    narrow_[yi] = {dtype == DType::F16 ? Narrow::F16 : dtype == DType::BF16 ? Narrow::BF16 : Narrow::Bytes, lies, {}};
    return true;
  }
  const Narrow *const from = node.op == Op::Sub || node.op == Op::Mul ? narrow(xi) : nullptr;
  if (!from) return false;
  if (node.op == Op::Sub && from->as == Narrow::Bytes && scalar(node.inputs[1]) == kByteZero) {
    narrow_[yi] = {Narrow::Centred, View(from->codes), {}};
    return true;
  }
  if (node.op != Op::Mul || from->as != Narrow::Centred || !is_f32(node.inputs[1]) ||
      !is_full_row(tensor(node.inputs[1]).shape, tensor(xi).shape))
    return false;
  narrow_[yi] = {Narrow::Rows, View(from->codes), broadcast(any(node.inputs[1]), tensor(xi).shape)};
  return true;
}

// A step needs the reals.
void Lowering::widen(std::int32_t id, const Narrow &from) {
  const bool halves = from.as == Narrow::F16 || from.as == Narrow::BF16;
  const std::uint64_t each = halves ? 2 : 1;
  View codes = from.codes;
  if (!is_row_major(codes)) {
    const View dense = new_row_major(codes.dims, each);
    copy(codes, dense, each, id);
    codes = dense;
  }
  View y = new_row_major(codes.dims, 4);
  kernels::Cast p;
  p.from = static_cast<std::uint32_t>(from.as == Narrow::F16 ? DType::F16 : halves ? DType::BF16 : DType::U8);
  p.to = static_cast<std::uint32_t>(DType::F32);
  p.count = count_of(codes.dims);
  Status status = emit_step(Kernel::Cast, p, {arg(codes, each), arg(y)});
  const auto with = [&](kernels::BinaryOp op, const View &other) {
    if (!status.ok()) return;
    const View made = new_row_major(y.dims, 4);
    status = emit_binary(*this, op, y, other, made);
    y = made;
  };
  if (from.as == Narrow::Centred || from.as == Narrow::Rows)
    with(kernels::BinaryOp::Sub, broadcast(constant_floats({kByteZero}, {}), y.dims));
  if (from.as == Narrow::Rows) with(kernels::BinaryOp::Mul, from.scales);
  if (!status.ok() && failed_.ok()) failed_ = std::move(status);
  define(id, y);
}

}  // namespace quarry::cpu
