// SPDX-License-Identifier: Apache-2.0
// Composite operators as what they are made of, for backends that have no kernel of their own for them.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/stop.h"
#include "graph/infer/infer.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::at;
using qir::kAbsent;
using qir::Op;

namespace {

qir::Dims dims(const qir::Graph &graph, std::int32_t id) {
  if (id == kAbsent) return {};
  const qir::Shape &shape = at(graph, id).shape;
  return {shape.data(), shape.size()};
}

// ---- Attention ----------------------------------------------------------------------------------

// What forbids a position. Three of them on one score still fit into half precision, and exp() of one is zero.
constexpr float kForbidden = -20000;

class ExpandedAttention : private Arithmetic {
 public:
  ExpandedAttention(Rewriting &to, const qir::Node &node, const qir::AttentionGeometry &g, DType dtype)
      : Arithmetic(to, node, dtype), g_(g), group_(g.q_heads / g.kv_heads) {}

  // Several query heads read one key head: they are rows of one product then, so that nothing is repeated.
  void run() {
    const qir::Attribute *const given = node_.find("scale");
    const float scale = given ? given->f : 1 / std::sqrt(static_cast<float>(g_.head_size));
    const std::int32_t k = present(1, 4, 1, g_.head_size), v = present(2, 5, 2, g_.v_head_size);
    // Scaled before the product, which has more room then.
    std::int32_t q = op(Op::Mul, heads_first(node_.inputs[0], g_.q_heads, g_.q_length, g_.head_size), number(scale));
    q = reshape(q, {g_.batch, g_.kv_heads, group_ * g_.q_length, g_.head_size});
    const qir::Shape scores_shape = {g_.batch, g_.q_heads, g_.q_length, g_.total_length};
    std::int32_t scores = reshape(matmul(q, transpose(k, {0, 1, 3, 2})), scores_shape);
    show(0, scores);
    if (const float cap = node_.get_float("softcap", 0); cap > 0)
      scores = op(Op::Mul, op(Op::Tanh, op(Op::Mul, scores, number(1 / cap))), number(cap));
    show(1, scores);
    const std::int32_t bias = bias_of_scores();
    if (bias != kAbsent) scores = op(Op::Add, scores, bias);
    std::int32_t shares = op(Op::Softmax, scores);
    to_.graph.nodes.back().set("axis", std::int64_t{-1});
    if (bias != kAbsent && !at(to_.graph, bias).is_constant) seeing_ = any_allowed(bias);
    if (seeing_ != kAbsent) shares = op(Op::Mul, shares, seeing_);
    show(3, shares);
    if (!wants(0)) return;
    shares = reshape(shares, {g_.batch, g_.kv_heads, group_ * g_.q_length, g_.total_length});
    std::int32_t y = reshape(matmul(shares, v), {g_.batch, g_.q_heads, g_.q_length, g_.v_head_size});
    if (g_.packed) y = reshape(transpose(y, {0, 2, 1, 3}), {g_.batch, g_.q_length, g_.q_heads * g_.v_head_size});
    give(0, y);
  }

  // As one node, on heads.
  void run_on_heads() {
    const std::int32_t k = present(1, 4, 1, g_.head_size), v = present(2, 5, 2, g_.v_head_size),
                       q = heads_first(node_.inputs[0], g_.q_heads, g_.q_length, g_.head_size);
    std::int32_t mask = node_.inputs[3], valid = node_.inputs[6];
    if (mask != kAbsent && at(to_.graph, mask).dtype == DType::Bool)
      mask = where(mask, number(0), number(-std::numeric_limits<float>::infinity()));
    if (g_.past_length > 0) {
      const Vector<std::int64_t> all(index_of(g_.batch), g_.total_length);
      valid = constant({g_.batch}, all.data(), all.size() * sizeof all[0], DType::I64);
    }
    std::int32_t y = op(Op::Attention, {q, k, v, mask, kAbsent, kAbsent, valid},
                        {g_.batch, g_.q_heads, g_.q_length, g_.v_head_size});
    qir::Node &made = to_.graph.nodes.back();
    for (const qir::Attribute &attribute : node_.attributes)
      if (attribute.name != "q_num_heads" && attribute.name != "kv_num_heads") made.attributes.push_back(attribute);
    if (g_.packed) y = reshape(transpose(y, {0, 2, 1, 3}), {g_.batch, g_.q_length, g_.q_heads * g_.v_head_size});
    give(0, y);
  }

 private:
  // As [batch, heads, length, size].
  std::int32_t heads_first(std::int32_t id, std::int64_t heads, std::int64_t length, std::int64_t size) {
    if (!g_.packed) return id;
    return transpose(reshape(id, {g_.batch, length, heads, size}), {0, 2, 1, 3});
  }
  // The past keys or values and those of this call.
  std::int32_t present(std::size_t input, std::size_t past, std::size_t output, std::int64_t size) {
    std::int32_t id = heads_first(node_.inputs[input], g_.kv_heads, g_.kv_length, size);
    if (const std::int32_t before = node_.inputs[past]; before != kAbsent && g_.past_length > 0)
      id = concat({before, id}, 2);
    give(output, id);
    return id;
  }
  void show(std::int64_t mode, std::int32_t id) {
    if (node_.get_int("qk_matmul_output_mode", 0) == mode) give(3, id);
  }

  // What is added to the scores; absent: nothing.
  std::int32_t bias_of_scores() {
    const std::int32_t valid = node_.inputs[6], given = node_.inputs[3];
    const bool placed = valid == kAbsent && limited();
    Vector<float> known;
    if (given != kAbsent && read_constant(given, &known)) return known_bias(std::move(known), placed, valid);
    std::int32_t bias = mask();
    const auto add = [&](std::int32_t more) { bias = bias == kAbsent ? more : op(Op::Add, bias, more); };
    if (placed) {
      Vector<float> values(static_cast<std::size_t>(g_.q_length * g_.total_length), 0.0f);
      forbid_outside(values);
      add(floats({g_.q_length, g_.total_length}, values));
    }
    if (valid != kAbsent) windows_at(cast(valid, DType::I32), add);
    return bias;
  }
  // A mask that is a constant, with the positions that no query sees, as one.
  std::int32_t known_bias(Vector<float> given, bool placed, std::int32_t valid) {
    qir::Shape shape = shape_of(node_.inputs[3]);
    if (shape.size() == 1) shape.insert(shape.begin(), 1);
    const std::int64_t length = shape.back(), old_rows = shape[shape.size() - 2],
                       rows = placed ? g_.q_length : old_rows;
    const std::int64_t planes = static_cast<std::int64_t>(given.size()) / std::max<std::int64_t>(1, length * old_rows);
    Vector<float> values(static_cast<std::size_t>(planes * rows * g_.total_length), kForbidden);
    for (std::int64_t i = 0; i < planes * rows; ++i) {
      const std::int64_t from = old_rows == rows ? i : i / rows;
      for (std::int64_t j = 0; j < length; ++j)
        values[index_of(i * g_.total_length + j)] = std::max(given[index_of(from * length + j)], kForbidden);
    }
    if (placed) forbid_outside(values);
    shape.back() = g_.total_length;
    shape[shape.size() - 2] = rows;
    std::int32_t bias = floats(shape, values);
    if (valid != kAbsent) {
      windows_at(cast(valid, DType::I32), [&](std::int32_t more) { bias = op(Op::Add, bias, more); });
      return bias;
    }
    Vector<float> seeing;
    for (auto row = values.begin(); row != values.end(); row += g_.total_length)
      seeing.push_back(*std::max_element(row, row + g_.total_length) > kForbidden / 2 ? 1.0f : 0.0f);
    shape.back() = 1;
    if (std::ranges::find(seeing, 0.0f) != seeing.end()) seeing_ = floats(shape, seeing);
    return bias;
  }
  bool read_constant(std::int32_t id, Vector<float> *out) const {
    const qir::Tensor &tensor = at(to_.graph, id);
    if (!tensor.is_constant) return false;
    std::size_t count = 1;
    for (const std::int64_t extent : tensor.shape) count *= static_cast<std::size_t>(extent);
    for (std::size_t i = 0; i < count; ++i) {
      const auto *const bytes = static_cast<const std::uint8_t *>(tensor.data.data);
      std::uint16_t half = 0;
      float whole = 0;
      if (tensor.dtype == DType::Bool) {
        whole = bytes[i] ? 0 : kForbidden;
      } else if (tensor.dtype == DType::F16) {
        std::memcpy(&half, bytes + 2 * i, 2);
        whole = f16_to_f32(half);
      } else if (tensor.dtype == DType::F32) {
        std::memcpy(&whole, bytes + 4 * i, 4);
      } else {
        return false;
      }
      out->push_back(whole);
    }
    return true;
  }
  bool limited() const { return node_.get_int("is_causal", 0) != 0 || left() >= 0 || right() >= 0; }
  std::int64_t left() const { return node_.get_int("left_window_size", -1); }
  // A causal head sees nothing to the right.
  std::int64_t right() const {
    const std::int64_t given = node_.get_int("right_window_size", -1);
    return node_.get_int("is_causal", 0) != 0 ? 0 : given;
  }
  // In rows of total_length, q_length of them again and again.
  void forbid_outside(Vector<float> &values) const {
    for (std::int64_t at_row = 0, rows = static_cast<std::int64_t>(values.size()) / g_.total_length; at_row < rows;
         ++at_row) {
      for (std::int64_t j = 0; j < g_.total_length; ++j) {
        const std::int64_t ahead = j - at_row % g_.q_length - g_.past_length;
        if ((left() >= 0 && -ahead > left()) || (right() >= 0 && ahead > right()))
          values[index_of(at_row * g_.total_length + j)] = kForbidden;
      }
    }
  }
  // Positions that depend on how many keys of each batch entry count.
  template <class Add>
  void windows_at(std::int32_t valid, const Add &add) {
    valid = reshape(valid, {g_.batch, 1, 1, 1});
    const auto row = [&](std::int64_t count, std::int64_t first, const qir::Shape &shape) {
      Vector<std::int32_t> values;
      for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<std::int32_t>(first + i));
      return constant(shape, values.data(), values.size() * 4, DType::I32);
    };
    const auto forbid = [&](std::int32_t condition) { add(where(condition, number(kForbidden), number(0))); };
    const std::int32_t keys = row(g_.total_length, 0, {1, 1, 1, g_.total_length});
    forbid(compare(Op::GreaterOrEqual, keys, valid));
    if (!limited()) return;
    // The last query stands at the last key that counts.
    const std::int32_t query = integers(Op::Add, valid, row(g_.q_length, -g_.q_length, {1, 1, g_.q_length, 1}));
    const std::int32_t ahead = integers(Op::Sub, keys, query);
    const auto integer = [&](std::int64_t value) {
      const auto narrow = static_cast<std::int32_t>(std::clamp<std::int64_t>(value, -1 << 30, 1 << 30));
      return constant({1, 1, 1, 1}, &narrow, 4, DType::I32);
    };
    if (right() >= 0) forbid(compare(Op::Greater, ahead, integer(right())));
    if (left() >= 0) forbid(compare(Op::Less, ahead, integer(-left())));
  }
  std::int32_t mask() {
    std::int32_t id = node_.inputs[3];
    if (id == kAbsent) return kAbsent;
    if (at(to_.graph, id).dtype == DType::Bool) id = where(id, number(0), number(kForbidden));
    else id = op(Op::Max, cast(id, dtype()), number(kForbidden));
    qir::Shape rest = shape_of(id);
    rest.back() = g_.total_length - rest.back();
    if (rest.back() == 0) return id;
    std::int64_t count = 1;
    for (const std::int64_t extent : rest) count *= extent;
    const Vector<float> values(static_cast<std::size_t>(count), kForbidden);
    return concat({id, floats(rest, values)}, static_cast<std::int64_t>(rest.size()) - 1);
  }
  std::int32_t any_allowed(std::int32_t bias) {
    qir::Shape shape = shape_of(bias);
    shape.back() = 1;
    const std::int32_t best = op(Op::ReduceMax, {bias, ints({static_cast<std::int64_t>(shape.size()) - 1})}, shape);
    to_.graph.nodes.back().set("keepdims", std::int64_t{1});
    return where(compare(Op::Greater, best, number(kForbidden / 2)), number(1), number(0));
  }

  const qir::AttentionGeometry g_;
  const std::int64_t group_;
  // 1, or 0 for a query that may look at nothing: its result is zero, not the mean of what it may not look at.
  std::int32_t seeing_ = kAbsent;
};

Status geometry_of(const qir::Graph &graph, const qir::Node &node, qir::AttentionGeometry *out) {
  return qir::resolve_attention(node, dims(graph, node.inputs[0]), dims(graph, node.inputs[1]),
                                dims(graph, node.inputs[2]), dims(graph, node.inputs[4]), out);
}

bool expand_attention(Rewriting &to, const qir::Node &node, DType dtype) {
  const qir::Graph &graph = to.graph;
  qir::AttentionGeometry g;
  const Status status = geometry_of(graph, node, &g);
  const qir::Dims mask = dims(graph, node.inputs[3]);
  // What the mask leaves of a score cannot be shown: it is not minus infinity here.
  const bool shows_masked =
      node.outputs.size() > 3 && node.outputs[3] != kAbsent && node.get_int("qk_matmul_output_mode", 0) == 2;
  bool one_type = true;
  for (const std::size_t i : {1u, 2u, 4u, 5u})
    one_type = one_type && (node.inputs[i] == kAbsent || at(graph, node.inputs[i]).dtype == dtype);
  if (!status.ok() || !one_type || (node.inputs[6] != kAbsent && node.inputs[4] != kAbsent) || g.kv_heads < 1 ||
      g.q_heads % g.kv_heads != 0 || g.total_length < 1 || g.q_length < 1 || g.head_size < 1 || shows_masked ||
      (node.inputs[3] != kAbsent && (mask.empty() || mask.size() > 4)) ||
      (!mask.empty() && mask.back() > g.total_length))
    return false;
  ExpandedAttention(to, node, g, dtype).run();
  return true;
}

// ---- RotaryEmbedding ----------------------------------------------------------------------------

class ExpandedRotary : private Arithmetic {
 public:
  ExpandedRotary(Rewriting &to, const qir::Node &node, DType dtype) : Arithmetic(to, node, dtype) {}

  bool run() {
    const qir::Shape given = shape_of(node_.inputs[0]);
    const bool packed = given.size() == 3;
    const std::int64_t heads = packed ? node_.get_int("num_heads", 0) : given[1];
    if (heads < 1 || (packed && given[2] % heads != 0)) return false;
    const std::int64_t batch = given[0], length = given[packed ? 1 : 2], size = packed ? given[2] / heads : given[3],
                       asked = node_.get_int("rotary_embedding_dim", 0), turned = asked == 0 ? size : asked;
    if (turned < 2 || turned > size || turned % 2 != 0) return false;
    const qir::Shape shape = packed ? qir::Shape{batch, length, heads, size} : qir::Shape{batch, heads, length, size};
    const std::int32_t x = reshape(node_.inputs[0], shape), part = slice(x, 3, 0, turned);
    const qir::Shape angle =
        packed ? qir::Shape{batch, length, 1, turned / 2} : qir::Shape{batch, 1, length, turned / 2};
    const std::int32_t cosine = reshape(angles(1), angle), sine = reshape(angles(2), angle);

    std::int32_t made = kAbsent;
    if (node_.get_int("interleaved", 0) != 0) {
      qir::Shape pairs = shape;
      pairs[3] = turned / 2;
      const qir::Shape one = pairs;
      pairs.push_back(2);
      qir::Shape last = one;
      last.push_back(1);
      const std::int32_t both = reshape(part, pairs);
      const auto member = [&](std::int64_t i) { return reshape(slice(both, 4, i, i + 1), one); };
      const auto [first, second] = turn(member(0), member(1), cosine, sine);
      qir::Shape whole = shape;
      whole[3] = turned;
      made = reshape(concat({reshape(first, last), reshape(second, last)}, 4), whole);
    } else {
      const auto [first, second] =
          turn(slice(part, 3, 0, turned / 2), slice(part, 3, turned / 2, turned), cosine, sine);
      made = concat({first, second}, 3);
    }
    if (turned < size) made = concat({made, slice(x, 3, turned, size)}, 3);
    give(0, reshape(made, given));
    return true;
  }

 private:
  std::pair<std::int32_t, std::int32_t> turn(std::int32_t a, std::int32_t b, std::int32_t c, std::int32_t s) {
    const std::int32_t first = op(Op::Sub, op(Op::Mul, a, c), op(Op::Mul, b, s)),
                       second = op(Op::Add, op(Op::Mul, a, s), op(Op::Mul, b, c));
    return {first, second};
  }
  // [batch, length, half] of a cache.
  std::int32_t angles(std::size_t cache) {
    const std::int32_t id = node_.inputs[cache], positions = node_.inputs[3];
    if (positions == kAbsent) return id;
    qir::Shape shape = shape_of(positions);
    shape.push_back(shape_of(id)[1]);
    const std::int32_t made = op(Op::Gather, {id, positions}, shape);
    to_.graph.nodes.back().set("axis", std::int64_t{0});
    return made;
  }
};

// ---- TensorScatter ------------------------------------------------------------------------------

class ExpandedCache : private Arithmetic {
 public:
  ExpandedCache(Rewriting &to, const qir::Node &node, DType dtype) : Arithmetic(to, node, dtype) {}

  // A row of the cache is the new row that a matrix of zeros and ones puts there, or stays.
  bool run() {
    const std::int32_t cache = node_.inputs[0], fresh = node_.inputs[1], first = node_.inputs[2];
    const qir::Shape shape = shape_of(cache);
    const std::size_t rank = shape.size();
    const std::int64_t axis = node_.get_int("axis", -2), rows = static_cast<std::int64_t>(rank) - 2;
    if (rank < 3 || shape_of(fresh).size() != rank || shape_of(fresh)[rank - 2] > shape[rank - 2] ||
        (axis != -2 && axis != rows) || node_.get_string("mode", "linear") != "linear")
      return false;
    const std::int64_t length = shape[rank - 2], added = shape_of(fresh)[rank - 2];
    qir::Shape column(rank, 1), line(rank, 1), start(rank, 1);
    column[rank - 2] = length, line[rank - 1] = added, start[0] = shape[0];
    std::int32_t place = counting(length, column);
    if (first != kAbsent) place = integers(Op::Sub, place, reshape(cast(first, DType::I32), start));
    const std::int32_t low = compare(Op::GreaterOrEqual, place, integer(0, rank)),
                       high = compare(Op::Less, place, integer(static_cast<std::int32_t>(added), rank));
    const std::int32_t inside = compare(Op::And, low, high);
    std::int32_t made = fresh;
    if (added > 1 && to_.has_infinities) {
      const std::int32_t last = integer(static_cast<std::int32_t>(added - 1), rank);
      const std::int32_t row = integers(Op::Min, integers(Op::Max, place, integer(0, rank)), last);
      const std::int32_t rows_of = op(Op::Expand, {row, ints(shape)}, shape, DType::I32);
      made = op(Op::GatherElements, {fresh, rows_of}, shape, dtype());
      to_.graph.nodes.back().set("axis", rows);
    } else if (added > 1) {
      made = matmul(cast(compare(Op::Equal, place, counting(added, line)), dtype()), fresh);
    }
    give(0, where(inside, made, cache));
    return true;
  }

 private:
  std::int32_t counting(std::int64_t count, const qir::Shape &shape) {
    Vector<std::int32_t> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<std::int32_t>(i));
    return constant(shape, values.data(), values.size() * 4, DType::I32);
  }
  std::int32_t integer(std::int32_t value, std::size_t rank) {
    return constant(qir::Shape(rank, 1), &value, 4, DType::I32);
  }
};

// ---- gates and products -------------------------------------------------------------------------

class ExpandedGate : private Arithmetic {
 public:
  ExpandedGate(Rewriting &to, const qir::Node &node, DType dtype) : Arithmetic(to, node, dtype) {}

  // x * sigmoid(alpha * x), and that times the second input.
  void run(float alpha) {
    const std::int32_t x = node_.inputs[0];
    const std::int32_t inner = alpha == 1 ? x : op(Op::Mul, x, number(alpha));
    std::int32_t made = op(Op::Mul, x, op(Op::Sigmoid, inner));
    if (node_.op == Op::SwiGLU) made = op(Op::Mul, made, node_.inputs[1]);
    give(0, made);
  }
};

class ExpandedProduct : private Arithmetic {
 public:
  ExpandedProduct(Rewriting &to, const qir::Node &node, DType dtype) : Arithmetic(to, node, dtype) {}

  bool run() {
    const std::int32_t a = operand(0, "transA", "transBatchA"), b = operand(1, "transB", "transBatchB");
    const float alpha = node_.get_float("alpha", 1);
    const qir::Shape shape = shape_of(node_.outputs[0]);
    const std::int32_t made = op(Op::MatMul, {a, b}, shape);
    give(0, alpha == 1 ? made : op(Op::Mul, made, number(alpha)));
    return true;
  }

 private:
  // As FusedMatMul reads it: the first axis goes before the last one, then the two last ones change places.
  std::int32_t operand(std::size_t which, const char *trans, const char *trans_batch) {
    const std::int32_t id = node_.inputs[which];
    const std::size_t rank = shape_of(id).size();
    Vector<std::int64_t> perm;
    for (std::size_t i = 0; i < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
    if (node_.get_int(trans_batch, 0) != 0 && rank >= 3) std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
    if (node_.get_int(trans, 0) != 0 && rank >= 2) std::swap(perm[rank - 1], perm[rank - 2]);
    return std::ranges::is_sorted(perm) ? id : transpose(id, std::move(perm));
  }
};

// ---- statistics ---------------------------------------------------------------------------------

// Each set of elements that one mean is of as a channel, which InstanceNormalization knows.
class ExpandedMoments : private Arithmetic {
 public:
  ExpandedMoments(Rewriting &to, const qir::Node &node, DType dtype) : Arithmetic(to, node, dtype) {}

  bool run() {
    const qir::Shape shape = shape_of(node_.inputs[0]);
    const Vector<std::int64_t> *const list = node_.get_ints("axes");
    const std::int64_t usual[] = {0, 2, 3};
    qir::IntList axes;
    if (!qir::resolve_axes(node_, list ? qir::Dims(*list) : qir::Dims(usual), shape.size(), &axes).ok()) return false;
    const auto is_gone = [&](std::int64_t axis) { return std::ranges::count(qir::Dims(axes), axis) != 0; };
    Vector<std::int64_t> perm, back(shape.size());
    for (const bool gone : {false, true})
      for (std::size_t i = 0; i < shape.size(); ++i)
        if (is_gone(static_cast<std::int64_t>(i)) == gone) perm.push_back(static_cast<std::int64_t>(i));
    std::int64_t sets = 1, length = 1;
    for (std::size_t i = 0; i < perm.size(); ++i) {
      const auto axis = index_of(perm[i]);
      back[axis] = static_cast<std::int64_t>(i);
      (is_gone(perm[i]) ? length : sets) *= shape[axis];
    }
    if (sets < 1 || length < 1) return false;
    const bool moves = !std::ranges::is_sorted(perm);
    const std::int32_t x = moves ? transpose(node_.inputs[0], std::move(perm)) : node_.inputs[0];
    const qir::Shape moved = shape_of(x);
    const Vector<float> ones(static_cast<std::size_t>(sets), 1.0f), zeros(static_cast<std::size_t>(sets), 0.0f);
    const std::int32_t rows = reshape(x, {1, sets, length}), scale = floats({sets}, ones), bias = floats({sets}, zeros);
    const std::int32_t made = op(Op::InstanceNormalization, {rows, scale, bias}, {1, sets, length});
    // ONNX adds 1e-9 to the deviation: the same for a variance of 0, and nothing beside any other.
    to_.graph.nodes.back().set("epsilon", 1e-18f);
    const std::int32_t y = reshape(made, moved);
    give(0, moves ? transpose(y, std::move(back)) : y);
    return true;
  }
};

// False: the node stays, and nothing was written.
bool expand(Rewriting &to, const qir::Node &node, DType dtype) {
  switch (node.op) {
    case Op::Attention: return expand_attention(to, node, dtype);
    case Op::RotaryEmbedding: return ExpandedRotary(to, node, dtype).run();
    case Op::TensorScatter: return ExpandedCache(to, node, dtype).run();
    case Op::FusedMatMul: return ExpandedProduct(to, node, dtype).run();
    case Op::MeanVarianceNormalization: return ExpandedMoments(to, node, dtype).run();
    case Op::SwiGLU: ExpandedGate(to, node, dtype).run(node.get_float("alpha", 1)); return true;
    case Op::QuickGelu: ExpandedGate(to, node, dtype).run(node.get_float("alpha", 1.702f)); return true;
    default: return false;
  }
}

}  // namespace

bool decompose_composites(Decomposer &s) {
  const qir::Node &node = s.node();
  const qir::Graph &graph = s.rewriting().graph;
  const auto plain = [&](std::int32_t id) { return id == kAbsent || !at(graph, id).quant; };
  if (node.inputs.empty() || node.inputs[0] == kAbsent || !std::ranges::all_of(node.inputs, plain) ||
      !std::ranges::all_of(node.outputs, plain))
    return false;
  const DType dtype = s.in(0).dtype;
  return (dtype == DType::F32 || dtype == DType::F16) && expand(s.rewriting(), node, dtype);
}

void attention_on_heads(qir::Graph &graph, Store &store, NodeTest wanted) {
  const auto other_form = [&](const qir::Node &node, qir::AttentionGeometry *g) {
    if (node.op != Op::Attention || !wanted(graph, node) || !geometry_of(graph, node, g).ok()) return false;
    const bool has_past = node.inputs[4] != kAbsent,
               has_bools = node.inputs[3] != kAbsent && at(graph, node.inputs[3]).dtype == DType::Bool;
    // (What stands before or behind the keys of a past is where the last query of as many stands.)
    return (g->packed || has_past || has_bools) && (!has_past || g->q_length == g->kv_length);
  };
  qir::AttentionGeometry g;
  if (std::ranges::none_of(graph.nodes, [&](const qir::Node &node) { return other_form(node, &g); })) return;
  Rewriting rewriting(graph, store);
  for (qir::Node &node : rewriting.old) {
    if (stop_asked()) return;
    if (other_form(node, &g)) ExpandedAttention(rewriting, node, g, DType::F32).run_on_heads();
    else rewriting.keep(std::move(node));
  }
}

}  // namespace quarry::passes
