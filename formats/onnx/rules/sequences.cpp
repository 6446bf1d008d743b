// SPDX-License-Identifier: Apache-2.0
// Sequences of tensors: lists that are known when a model is imported. The graph has none: what is taken out of one, or
// made of one, is made of the tensors in it.
#include <algorithm>

#include "formats/onnx/rules/rules.h"

namespace quarry::onnx_import::rules {

using qir::Op;

namespace {

const Sequence *sequence_in(const Rewriter &node, std::size_t i) { return node.importer.sequence(node.in(i)); }

Result<const Sequence *> need_sequence(const Rewriter &node, std::size_t i) {
  if (const Sequence *found = sequence_in(node, i)) return found;
  return node.error(ErrorId::onnx_type, "input %zu is a tensor, expected a sequence", i);
}

Status need_tensor(const Rewriter &node, std::size_t i) {
  if (node.has(i) && !sequence_in(node, i)) return {};
  return node.error(ErrorId::onnx_type, "input %zu is %s, expected a tensor", i,
                    node.has(i) ? "a sequence" : "missing");
}

// The constant of an input that says a place, counted back from `count` where it is negative.
Result<std::size_t> need_place(const Rewriter &node, std::size_t i, std::size_t count, std::size_t places) {
  QR_RETURN_IF_ERROR(need_tensor(node, i));
  const auto given = node.builder.ints(node.in(i));
  if (!given || given->size() != 1)
    return node.error(ErrorId::onnx_unsupported,
                      "the position is known only at run time, expected one that follows from constants and shapes: a "
                      "sequence is made when the model is imported");
  const std::int64_t place = (*given)[0] < 0 ? (*given)[0] + static_cast<std::int64_t>(count) : (*given)[0];
  if (place < 0 || place >= static_cast<std::int64_t>(places))
    return node.error(ErrorId::onnx_invalid, "the position is %lld, and the sequence holds %zu tensors", (*given)[0],
                      count);
  return index_of(place);
}

Status need_type(const Rewriter &node, DType expected, DType found) {
  if (expected == found) return {};
  return node.error(ErrorId::onnx_type, "found a tensor of %s in a sequence of %s", dtype_name(found),
                    dtype_name(expected));
}

}  // namespace

Status sequence_empty(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const DType dtype,
                      element_type(static_cast<std::int32_t>(node.get_int("dtype", 1)), node.where()));
  node.bind(0, node.importer.add_sequence({dtype, {}}));
  return {};
}

Status sequence_construct(Rewriter &node) {
  QR_RETURN_IF_ERROR(need_tensor(node, 0));
  Sequence made{node.tensor(0).dtype, {}};
  for (std::size_t i = 0; i < node.input_count(); ++i) {
    QR_RETURN_IF_ERROR(need_tensor(node, i));
    QR_RETURN_IF_ERROR(need_type(node, made.dtype, node.tensor(i).dtype));
    made.elements.push_back(node.in(i));
  }
  node.bind(0, node.importer.add_sequence(std::move(made)));
  return {};
}

Status sequence_insert(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const Sequence *from, need_sequence(node, 0));
  QR_RETURN_IF_ERROR(need_tensor(node, 1));
  Sequence made = *from;
  QR_RETURN_IF_ERROR(need_type(node, made.dtype, node.tensor(1).dtype));
  std::size_t place = made.elements.size();
  if (node.has(2)) {
    QR_ASSIGN_OR_RETURN(place, need_place(node, 2, made.elements.size(), made.elements.size() + 1));
  }
  made.elements.insert(made.elements.begin() + static_cast<std::ptrdiff_t>(place), node.in(1));
  node.importer.spend(1 + made.elements.size() / 64);
  node.bind(0, node.importer.add_sequence(std::move(made)));
  return {};
}

Status sequence_erase(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const Sequence *from, need_sequence(node, 0));
  Sequence made = *from;
  if (made.elements.empty()) return node.error(ErrorId::onnx_invalid, "takes from a sequence that is empty");
  std::size_t place = made.elements.size() - 1;
  if (node.has(1)) {
    QR_ASSIGN_OR_RETURN(place, need_place(node, 1, made.elements.size(), made.elements.size()));
  }
  made.elements.erase(made.elements.begin() + static_cast<std::ptrdiff_t>(place));
  node.bind(0, node.importer.add_sequence(std::move(made)));
  return {};
}

namespace {

// The tensors of a sequence one behind the other along an axis of their own, or joined along one that they have.
Result<qir::Node> joined(Rewriter &node, const Sequence &from, std::int64_t axis, bool new_axis) {
  if (from.elements.empty()) return node.error(ErrorId::onnx_invalid, "joins a sequence that is empty");
  Vector<std::int32_t> parts = from.elements;
  if (new_axis) {
    const std::int32_t axes = node.ints("axis", {{axis}});
    for (std::size_t i = 0; i < parts.size(); ++i) {
      QR_ASSIGN_OR_RETURN(parts[i], node.step(Op::Unsqueeze, {parts[i], axes}, format("part%zu", i)));
    }
  }
  qir::Node made = node.make(Op::Concat, std::move(parts), "");
  made.set("axis", axis);
  return made;
}

}  // namespace

Status sequence_at(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const Sequence *from, need_sequence(node, 0));
  QR_RETURN_IF_ERROR(need_tensor(node, 1));
  const bool known = node.builder.is_constant(node.in(1));
  const bool alike = !from->elements.empty() && std::ranges::all_of(from->elements, [&](std::int32_t id) {
    return node.builder.is_static(id) && node.builder.tensor(id).shape == node.builder.tensor(from->elements[0]).shape;
  });
  if (!known && alike && node.tensor(1).shape.empty() &&
      node.builder.tensor(from->elements[0]).shape.size() < qir::kMaxRank) {
    QR_ASSIGN_OR_RETURN(qir::Node all, joined(node, *from, 0, true));
    all.name += "/all";
    QR_ASSIGN_OR_RETURN(const std::int32_t stacked, node.step(std::move(all)));
    qir::Node taken = node.make(Op::Gather, {stacked, node.in(1)}, "");
    taken.set("axis", std::int64_t{0});
    return node.finish(std::move(taken));
  }
  QR_ASSIGN_OR_RETURN(const std::size_t place, need_place(node, 1, from->elements.size(), from->elements.size()));
  node.bind(0, from->elements[place]);
  return {};
}

Status sequence_length(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const Sequence *from, need_sequence(node, 0));
  node.bind(0, node.builder.add_int(node.name, static_cast<std::int64_t>(from->elements.size())));
  return {};
}

Status concat_from_sequence(Rewriter &node) {
  QR_ASSIGN_OR_RETURN(const Sequence *from, need_sequence(node, 0));
  if (!node.attribute("axis")) return node.error(ErrorId::onnx_invalid, "has no attribute axis");
  QR_ASSIGN_OR_RETURN(qir::Node made, joined(node, *from, node.get_int("axis", 0), node.get_int("new_axis", 0) != 0));
  return node.finish(std::move(made));
}

namespace {

// How long the parts of SplitToSequence are.
Result<Vector<std::int64_t>> parts_of(const Rewriter &node, std::int64_t extent) {
  Vector<std::int64_t> parts;
  std::int64_t each = 1;
  if (node.has(1)) {
    QR_RETURN_IF_ERROR(need_tensor(node, 1));
    const auto given = node.builder.ints(node.in(1));
    if (!given) return node.error(ErrorId::onnx_unsupported, "split is known only at run time, expected a constant");
    if (!node.tensor(1).shape.empty()) return *given;  // Split says whether they fit
    each = given->size() == 1 ? (*given)[0] : 0;
    if (each < 1) return node.error(ErrorId::onnx_invalid, "splits into parts of %lld, expected 1 or more", each);
  }
  constexpr std::int64_t most = std::int64_t{1} << 16;
  if (extent / each >= most) return node.error(ErrorId::qir_limit, "makes a sequence of more than %lld tensors", most);
  for (std::int64_t left = extent; left > 0; left -= each) parts.push_back(std::min(each, left));
  return parts;
}

}  // namespace

Status split_to_sequence(Rewriter &node) {
  QR_RETURN_IF_ERROR(need_tensor(node, 0));
  const qir::Shape shape = node.tensor(0).shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t given = node.get_int("axis", 0), axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis >= rank)
    return node.error(ErrorId::onnx_invalid, "axis is %lld, the input has %lld dimensions", given, rank);
  const std::int64_t extent = shape[index_of(axis)];
  if (extent < 0)
    return node.error(ErrorId::onnx_unsupported,
                      "splits along axis %lld, whose size is known only at run time, and a sequence is made when the "
                      "model is imported",
                      axis);
  QR_ASSIGN_OR_RETURN(const Vector<std::int64_t> parts, parts_of(node, extent));
  Sequence made{node.tensor(0).dtype, {}};
  node.importer.spend(1 + parts.size() / 4);
  if (!parts.empty()) {
    qir::Node split = node.make(Op::Split, {node.in(0), node.ints("split", parts)}, "");
    split.set("axis", axis);
    Vector<String> names;
    for (std::size_t i = 0; i < parts.size(); ++i) names.push_back(format("%s/%zu", node.name, i));
    QR_RETURN_IF_ERROR(node.builder.emit(std::move(split), names, &made.elements));
  }
  if (!node.has(1) && node.get_int("keepdims", 1) == 0) {
    const std::int32_t axes = node.ints("axis", {{axis}});
    for (std::size_t i = 0; i < made.elements.size(); ++i) {
      QR_ASSIGN_OR_RETURN(made.elements[i], node.step(Op::Squeeze, {made.elements[i], axes}, format("squeezed%zu", i)));
    }
  }
  node.bind(0, node.importer.add_sequence(std::move(made)));
  return {};
}

}  // namespace quarry::onnx_import::rules
