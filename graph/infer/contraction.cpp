// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications: MatMul and its relatives, Gemm, Einsum, and what else takes square matrices.
#include <algorithm>

#include "graph/infer/rules.h"

namespace quarry::qir {

using rules::is_known;

Status resolve_matmul(const Node &node, Dims a, Dims b, MatMulGeometry *out) {
  *out = MatMulGeometry();
  if (a.empty() || b.empty())
    return node_error(node, ErrorId::qir_shape, "operands of shape %s and %s, expected rank 1 or more", text(a),
                      text(b));
  out->a_vector = a.size() == 1;
  out->b_vector = b.size() == 1;
  const std::int64_t a_inner = a[a.size() - 1], b_inner = b[out->b_vector ? 0 : b.size() - 2];
  if (!rules::may_equal(a_inner, b_inner))
    return node_error(node, ErrorId::qir_shape, "shapes %s and %s do not multiply: %lld columns against %lld rows",
                      text(a), text(b), ll(a_inner), ll(b_inner));
  out->k = rules::known_of(a_inner, b_inner);
  out->m = out->a_vector ? 1 : a[a.size() - 2];
  out->n = out->b_vector ? 1 : b[b.size() - 1];
  const Dims a_outer = a.first(out->a_vector ? 0 : a.size() - 2), b_outer = b.first(out->b_vector ? 0 : b.size() - 2);
  IntList batch;
  QR_RETURN_IF_ERROR(resolve_broadcast(node, a_outer, b_outer, &batch));
  out->batch_rank = batch.size;
  std::copy_n(batch.values, batch.size, out->batch);
  std::fill_n(out->a_batch, batch.size, 1);
  std::fill_n(out->b_batch, batch.size, 1);
  std::copy(a_outer.begin(), a_outer.end(), out->a_batch + (batch.size - a_outer.size()));
  std::copy(b_outer.begin(), b_outer.end(), out->b_batch + (batch.size - b_outer.size()));
  return {};
}

Status resolve_fused_matmul(const Node &node, Dims a, Dims b, MatMulGeometry *out) {
  // trans: the two last axes change places. transBatch: the first axis goes before the last one, before trans is looked
  // at.
  const auto arrange = [&](Dims dims, const char *trans, const char *trans_batch, rules::DimList *arranged) -> Status {
    *arranged = rules::DimList(dims);
    if (node.get_int(trans_batch, 0) != 0) {
      if (dims.size() < 3)
        return node_error(node, ErrorId::qir_shape, "%s is set for an operand of rank %zu, expected rank 3 or more",
                          trans_batch, dims.size());
      std::rotate(arranged->values, arranged->values + 1, arranged->values + dims.size() - 1);
    }
    if (node.get_int(trans, 0) != 0 && dims.size() >= 2)
      std::swap(arranged->values[dims.size() - 2], arranged->values[dims.size() - 1]);
    return {};
  };
  rules::DimList left, right;
  QR_RETURN_IF_ERROR(arrange(a, "transA", "transBatchA", &left));
  QR_RETURN_IF_ERROR(arrange(b, "transB", "transBatchB", &right));
  return resolve_matmul(node, left, right, out);
}

// ---- Einsum -------------------------------------------------------------------------------------

namespace {

bool is_label(char c) noexcept { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

class EinsumParser {
 public:
  EinsumParser(const Node &node, std::span<const Dims> inputs, EinsumPlan *plan)
      : node_(node), inputs_(inputs), plan_(plan) {
    std::fill(std::begin(label_of_), std::end(label_of_), -1);
    std::fill(std::begin(plan->extent), std::end(plan->extent), 1);
  }

  Status run() {
    for (const char c : node_.get_string("equation", ""))
      if (c != ' ') equation_ += c;
    const std::size_t arrow = equation_.find("->");
    const std::string_view text(equation_);
    QR_RETURN_IF_ERROR(reserve_ellipsis(text.substr(0, arrow)));
    QR_RETURN_IF_ERROR(read_inputs(text.substr(0, arrow)));
    return arrow == std::string_view::npos ? implicit_output() : read_output(text.substr(arrow + 2));
  }

 private:
  Status bad(const char *why) const {
    return node_error(node_, ErrorId::qir_attribute, "equation \"%s\": %s", printable(equation_, 128), why);
  }

  // The ellipsis of every term shares labels, aligned to the right; the longest one says how many there are.
  Status reserve_ellipsis(std::string_view terms) {
    for (std::size_t i = 0; i < inputs_.size() && (i == 0 || !terms.empty()); ++i) {
      const std::size_t comma = terms.find(',');
      const std::string_view term = terms.substr(0, comma);
      if (const std::size_t dots = term.find("..."); dots != std::string_view::npos) {
        const std::size_t letters = term.size() - 3;
        if (inputs_[i].size() < letters) return bad("a term names more dimensions than its operand has");
        ellipsis_ = std::max(ellipsis_, inputs_[i].size() - letters);
      }
      terms = comma == std::string_view::npos ? std::string_view() : terms.substr(comma + 1);
    }
    plan_->label_count = static_cast<std::uint32_t>(ellipsis_);
    return {};
  }

  Status put(EinsumPlan::Operand *operand, std::uint8_t label, std::int64_t extent) {
    operand->label[operand->rank++] = label;
    std::int64_t &known = plan_->extent[label];
    if (!seen_[label] || known == 1) {
      known = extent;
      seen_[label] = true;
      return {};
    }
    if (extent == 1) return {};
    if (!rules::may_equal(known, extent))
      return node_error(node_, ErrorId::qir_shape, "equation \"%s\": one index has sizes %lld and %lld",
                        printable(equation_, 128), ll(known), ll(extent));
    known = rules::known_of(known, extent);
    return {};
  }

  // `letters`: so many of the operand's dimensions have one; its ellipsis covers the others.
  Status read_term(std::string_view term, std::size_t letters, Dims dims, EinsumPlan::Operand *operand) {
    for (std::size_t at = 0; at < term.size(); ++at) {
      if (term.substr(at, 3) == "...") {
        const std::size_t covered = dims.size() - letters;
        for (std::size_t j = 0; j < covered; ++j)
          QR_RETURN_IF_ERROR(put(operand, static_cast<std::uint8_t>(ellipsis_ - covered + j), dims[operand->rank]));
        at += 2;
        continue;
      }
      if (!is_label(term[at])) return bad("expected letters, \"...\", \",\" and \"->\"");
      std::int16_t &label = label_of_[static_cast<unsigned char>(term[at])];
      if (label < 0) label = static_cast<std::int16_t>(plan_->label_count++);
      ++uses_[static_cast<unsigned char>(term[at])];
      QR_RETURN_IF_ERROR(put(operand, static_cast<std::uint8_t>(label), dims[operand->rank]));
    }
    return {};
  }

  Status read_inputs(std::string_view terms) {
    plan_->inputs.resize(inputs_.size());
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::size_t comma = terms.find(',');
      if ((comma == std::string_view::npos) != (i + 1 == inputs_.size()))
        return bad("it does not have one term per operand");
      const std::string_view term = terms.substr(0, comma);
      terms = comma == std::string_view::npos ? std::string_view() : terms.substr(comma + 1);
      const Dims dims = inputs_[i];
      EinsumPlan::Operand &operand = plan_->inputs[i];
      const std::size_t dots = term.find("...");
      const bool has_dots = dots != std::string_view::npos;
      if (has_dots && term.find('.', dots + 3) != std::string_view::npos) return bad("a term has two ellipses");
      const std::size_t letters = term.size() - (has_dots ? 3 : 0);
      if (has_dots ? dims.size() < letters : dims.size() != letters)
        return node_error(node_, ErrorId::qir_shape,
                          "equation \"%s\": operand %zu has shape %s, but its term names %zu dimensions",
                          printable(equation_, 128), i, text(dims), letters);
      QR_RETURN_IF_ERROR(read_term(term, letters, dims, &operand));
    }
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      for (std::size_t d = 0; d < plan_->inputs[i].rank; ++d)
        plan_->inputs[i].broadcast[d] = inputs_[i][d] == 1 && plan_->extent[plan_->inputs[i].label[d]] != 1;
    return {};
  }

  Status push_output(std::uint8_t label) {
    if (plan_->output.rank == kMaxRank) return bad("the output has more than 8 dimensions");
    plan_->output.label[plan_->output.rank++] = label;
    return {};
  }
  Status push_ellipsis() {
    for (std::size_t i = 0; i < ellipsis_; ++i) QR_RETURN_IF_ERROR(push_output(static_cast<std::uint8_t>(i)));
    return {};
  }

  Status implicit_output() {
    QR_RETURN_IF_ERROR(push_ellipsis());
    for (unsigned c = 0; c < 128; ++c)
      if (uses_[c] == 1) QR_RETURN_IF_ERROR(push_output(static_cast<std::uint8_t>(label_of_[c])));
    return {};
  }

  Status read_output(std::string_view term) {
    bool used[128] = {}, dots = false;
    for (std::size_t at = 0; at < term.size(); ++at) {
      if (term.substr(at, 3) == "...") {
        if (dots) return bad("the output has two ellipses");
        dots = true;
        QR_RETURN_IF_ERROR(push_ellipsis());
        at += 2;
        continue;
      }
      if (!is_label(term[at])) return bad("expected letters and \"...\" in the output");
      const unsigned c = static_cast<unsigned char>(term[at]);
      if (label_of_[c] < 0) return bad("the output names an index that no operand has");
      if (used[c]) return bad("the output names an index twice");
      used[c] = true;
      QR_RETURN_IF_ERROR(push_output(static_cast<std::uint8_t>(label_of_[c])));
    }
    return {};
  }

  const Node &node_;
  std::span<const Dims> inputs_;
  EinsumPlan *plan_;
  String equation_;
  std::size_t ellipsis_ = 0;
  std::int16_t label_of_[128];
  std::uint32_t uses_[128] = {};
  bool seen_[EinsumPlan::kMaxLabels] = {};
};

}  // namespace

Status parse_einsum(const Node &node, std::span<const Dims> inputs, EinsumPlan *out) {
  *out = EinsumPlan();
  return EinsumParser(node, inputs, out).run();
}

// ---- rules --------------------------------------------------------------------------------------

namespace rules {
namespace {

DimList matmul_shape(const MatMulGeometry &g) {
  DimList shape(Dims(g.batch, g.batch_rank));
  if (!g.a_vector) shape.push(g.m);
  if (!g.b_vector) shape.push(g.n);
  return shape;
}

Status expect_square(const Node &node, Dims x) {
  QR_RETURN_IF_ERROR(expect_rank_from(node, "the input", x, 2));
  if (may_equal(x[x.size() - 1], x[x.size() - 2])) return {};
  return node_error(node, ErrorId::qir_shape, "the input has shape %s, expected square matrices", text(x));
}

}  // namespace

Status matmul(const Node &node, Inputs inputs, Outputs outputs) {
  MatMulGeometry g;
  QR_RETURN_IF_ERROR(resolve_matmul(node, dims_of(inputs[0]), dims_of(inputs[1]), &g));
  set_output(outputs, 0, real_dtype(inputs[0]), matmul_shape(g));
  return {};
}

namespace {
// The scale or zero point of an operand: one, one for each of its rows or columns, or those of each matrix of a batch.
Status expect_lines(const Node &node, Inputs inputs, std::size_t i, const char *what, Dims operand,
                    std::int64_t lines) {
  if (!has_input(inputs, i)) return {};
  std::int64_t count, all;
  QR_RETURN_IF_ERROR(product(node, dims_of(inputs[i]), &count));
  QR_RETURN_IF_ERROR(product(node, operand.first(operand.size() > 2 ? operand.size() - 2 : 0), &all));
  QR_RETURN_IF_ERROR(multiply(node, all, lines, &all));
  if (count == 1 || may_equal(count, lines) || may_equal(count, all)) return {};
  return node_error(node, ErrorId::qir_shape, "%s has shape %s, expected 1, %lld or %lld elements", what,
                    text(inputs[i].shape), ll(lines), ll(all));
}
}  // namespace

Status matmul_integer(const Node &node, Inputs inputs, Outputs outputs) {
  MatMulGeometry g;
  const Dims a = dims_of(inputs[0]), b = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(resolve_matmul(node, a, b, &g));
  QR_RETURN_IF_ERROR(expect_lines(node, inputs, 2, "a_zero_point", a, g.m));
  QR_RETURN_IF_ERROR(expect_lines(node, inputs, 3, "b_zero_point", b, g.n));
  set_output(outputs, 0, DType::I32, matmul_shape(g));
  return {};
}

Status qlinear_matmul(const Node &node, Inputs inputs, Outputs outputs) {
  MatMulGeometry g;
  const Dims a = dims_of(inputs[0]), b = dims_of(inputs[3]);
  QR_RETURN_IF_ERROR(resolve_matmul(node, a, b, &g));
  QR_RETURN_IF_ERROR(expect_lines(node, inputs, 1, "a_scale", a, g.m));
  QR_RETURN_IF_ERROR(expect_lines(node, inputs, 2, "a_zero_point", a, g.m));
  QR_RETURN_IF_ERROR(expect_lines(node, inputs, 4, "b_scale", b, g.n));
  QR_RETURN_IF_ERROR(expect_lines(node, inputs, 5, "b_zero_point", b, g.n));
  QR_RETURN_IF_ERROR(expect_one_element(node, "y_scale", inputs[6]));
  QR_RETURN_IF_ERROR(expect_one_element(node, "y_zero_point", inputs[7]));
  set_output(outputs, 0, inputs[7].dtype, matmul_shape(g));
  return {};
}

Status fused_matmul(const Node &node, Inputs inputs, Outputs outputs) {
  MatMulGeometry g;
  QR_RETURN_IF_ERROR(resolve_fused_matmul(node, dims_of(inputs[0]), dims_of(inputs[1]), &g));
  set_output(outputs, 0, real_dtype(inputs[0]), matmul_shape(g));
  return {};
}

// B is [N, blocks, block_size * bits / 8]; every row of B is one column of the product.
Status matmul_nbits(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims a = dims_of(inputs[0]), b = dims_of(inputs[1]);
  const std::int64_t k = node.get_int("K", 0), n = node.get_int("N", 0), bits = node.get_int("bits", 4);
  const std::int64_t block = node.get_int("block_size", 0);
  if (k < 1 || n < 1 || (bits != 2 && bits != 4 && bits != 8) || block < 16 || (block & (block - 1)) != 0 ||
      block > (std::int64_t{1} << 32))
    return node_error(
        node, ErrorId::qir_attribute,
        "K %lld, N %lld, bits %lld, block_size %lld; expected 1 or more, 1 or more, 2, 4 or 8, a power of two from 16",
        ll(k), ll(n), ll(bits), ll(block));
  QR_RETURN_IF_ERROR(expect_rank_from(node, "A", a, 1));
  if (!may_equal(a[a.size() - 1], k))
    return node_error(node, ErrorId::qir_shape, "A has %lld columns, expected K, %lld", ll(a[a.size() - 1]), ll(k));
  const std::int64_t blocks = k / block + (k % block != 0);
  const std::int64_t packed[] = {n, blocks, block * bits / 8};
  QR_RETURN_IF_ERROR(expect_shape(node, "B", b, packed));
  std::int64_t scales, zeros = blocks;
  const bool packed_zeros = has_input(inputs, 3) && inputs[3].dtype == DType::U8;
  if (packed_zeros) zeros = blocks / (8 / bits) + (blocks % (8 / bits) != 0);
  QR_RETURN_IF_ERROR(multiply(node, n, blocks, &scales));
  QR_RETURN_IF_ERROR(multiply(node, n, zeros, &zeros));
  QR_RETURN_IF_ERROR(expect_elements(node, inputs, 2, "scales", scales));
  QR_RETURN_IF_ERROR(expect_elements(node, inputs, 3, "zero_points", zeros));
  if (has_input(inputs, 4)) {  // a block for each of K, and for what fills the last block
    std::int64_t entries;
    QR_RETURN_IF_ERROR(product(node, dims_of(inputs[4]), &entries));
    if (is_known(entries) && entries < k)
      return node_error(node, ErrorId::qir_shape, "g_idx has shape %s, expected %lld elements or more",
                        text(inputs[4].shape), ll(k));
  }
  QR_RETURN_IF_ERROR(expect_elements(node, inputs, 5, "the bias", n));
  DimList shape(a);
  shape.values[shape.size - 1] = n;
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status gemm(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims a = dims_of(inputs[0]), b = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "A", a, 2));
  QR_RETURN_IF_ERROR(expect_rank(node, "B", b, 2));
  const bool trans_a = node.get_int("transA", 0) != 0, trans_b = node.get_int("transB", 0) != 0;
  const std::int64_t m = a[trans_a], a_inner = a[!trans_a], n = b[!trans_b], b_inner = b[trans_b];
  if (!may_equal(a_inner, b_inner))
    return node_error(node, ErrorId::qir_shape, "A is %s%s and B is %s%s: %lld columns against %lld rows", text(a),
                      trans_a ? " transposed" : "", text(b), trans_b ? " transposed" : "", ll(a_inner), ll(b_inner));
  const std::int64_t shape[] = {m, n};
  if (has_input(inputs, 2)) {
    const Dims c = dims_of(inputs[2]);
    bool fits = c.size() <= 2;
    for (std::size_t i = 0; fits && i < c.size(); ++i) {
      const std::int64_t have = c[c.size() - 1 - i];
      fits = have == 1 || may_equal(have, shape[1 - i]);
    }
    if (!fits)
      return node_error(node, ErrorId::qir_shape, "C has shape %s, which does not broadcast to %s", text(c),
                        text(shape));
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status einsum(const Node &node, Inputs inputs, Outputs outputs) {
  Vector<Dims> dims;
  dims.reserve(inputs.size());
  for (const InferValue &input : inputs) dims.push_back(dims_of(input));
  EinsumPlan plan;
  QR_RETURN_IF_ERROR(parse_einsum(node, {dims.data(), dims.size()}, &plan));
  DimList shape;
  for (std::size_t i = 0; i < plan.output.rank; ++i) shape.push(plan.extent[plan.output.label[i]]);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

// Of each row of A and each row of B.
Status distances(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims a = dims_of(inputs[0]), b = dims_of(inputs[1]);
  QR_RETURN_IF_ERROR(expect_rank(node, "A", a, 2));
  QR_RETURN_IF_ERROR(expect_rank(node, "B", b, 2));
  const std::int64_t rows[] = {b[0], a[1]}, shape[] = {a[0], b[0]};
  QR_RETURN_IF_ERROR(expect_shape(node, "B", b, rows));
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status square_same(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_square(node, dims_of(inputs[0])));
  return same(node, inputs, outputs);
}

Status det(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_square(node, x));
  set_output(outputs, 0, real_dtype(inputs[0]), x.first(x.size() - 2));
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
