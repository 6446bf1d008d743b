// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "graph/infer/infer.h"
#include "passes/edit.h"

namespace quarry::passes {

using qir::at;
using qir::EinsumPlan;

namespace {

using Labels = Vector<std::uint8_t>;

// What the labels of an equation are to a product of matrices, each in the order of the output, the summed ones in that
// of the first operand.
struct Roles {
  Labels batch, rows, columns, summed;
};

bool contains(const EinsumPlan::Operand &operand, std::uint8_t label) {
  return std::find(operand.label, operand.label + operand.rank, label) != operand.label + operand.rank;
}

// Whether a label stands twice in the operand (a diagonal).
bool repeats(const EinsumPlan::Operand &operand) {
  for (std::uint32_t i = 0; i < operand.rank; ++i)
    if (std::find(operand.label, operand.label + i, operand.label[i]) != operand.label + i) return true;
  return false;
}

bool find_roles(const EinsumPlan &plan, Roles *roles) {
  if (plan.inputs.size() != 2) return false;
  const EinsumPlan::Operand &a = plan.inputs[0], &b = plan.inputs[1], &out = plan.output;
  if (repeats(a) || repeats(b)) return false;
  for (std::uint32_t i = 0; i < out.rank; ++i) {
    const bool in_a = contains(a, out.label[i]), in_b = contains(b, out.label[i]);
    (in_a && in_b ? roles->batch : in_a ? roles->rows : roles->columns).push_back(out.label[i]);
  }
  for (const EinsumPlan::Operand *operand : {&a, &b}) {
    const EinsumPlan::Operand &other = operand == &a ? b : a;
    for (std::uint32_t i = 0; i < operand->rank; ++i) {
      const std::uint8_t label = operand->label[i];
      const bool batch = std::find(roles->batch.begin(), roles->batch.end(), label) != roles->batch.end();
      if (operand->broadcast[i] && !batch) return false;  // MatMul stretches batches alone
      if (contains(out, label)) continue;
      if (!contains(other, label)) return false;  // summed before there is a product
      if (operand == &a) roles->summed.push_back(label);
    }
  }
  return true;
}

class Product {
 public:
  Product(Rewriting &to, const qir::Node &node, const EinsumPlan &plan) : to_(to), node_(node), plan_(plan) {}

  void run(const Roles &roles) {
    const std::int32_t a = matrix(0, roles.batch, roles.rows, roles.summed),
                       b = matrix(1, roles.batch, roles.summed, roles.columns);
    qir::Shape product_shape;
    for (std::size_t i = 0; i < roles.batch.size(); ++i) product_shape.push_back(plan_.extent[roles.batch[i]]);
    qir::Shape made = product_shape;
    product_shape.push_back(count(roles.rows));
    product_shape.push_back(count(roles.columns));
    Labels order = roles.batch;
    for (const Labels *labels : {&roles.rows, &roles.columns})
      for (const std::uint8_t label : *labels) made.push_back(plan_.extent[label]), order.push_back(label);
    Vector<std::int64_t> perm;
    for (std::uint32_t i = 0; i < plan_.output.rank; ++i)
      perm.push_back(std::find(order.begin(), order.end(), plan_.output.label[i]) - order.begin());
    const bool reshaped = made != product_shape, moved = !std::is_sorted(perm.begin(), perm.end());
    const std::int32_t out = node_.outputs[0];
    const std::int32_t product =
        reshaped || moved ? to_.tensor(node_.name + "/product", DType::F32, product_shape) : out;
    to_.emit(qir::Op::MatMul, node_, {a, b}, product);
    std::int32_t last = product;
    if (reshaped) last = reshape(product, made, moved ? qir::kAbsent : out);
    if (moved) transpose(last, std::move(perm), out);
  }

 private:
  std::int64_t count(const Labels &labels) const {
    std::int64_t product = 1;
    for (const std::uint8_t label : labels) product *= plan_.extent[label];
    return product;
  }
  std::int32_t reshape(std::int32_t id, const qir::Shape &shape, std::int32_t to) {
    const std::int32_t extents = to_.integers(node_.name + "/shape", shape);
    if (to == qir::kAbsent) to = to_.tensor(node_.name + "/reshaped", DType::F32, shape);
    // A dimension of zero means zero, not "as it was".
    to_.emit(qir::Op::Reshape, node_, {id, extents}, to).set("allowzero", std::int64_t{1});
    return to;
  }
  std::int32_t transpose(std::int32_t id, Vector<std::int64_t> perm, std::int32_t to) {
    qir::Shape shape;
    for (const std::int64_t axis : perm) shape.push_back(at(to_.graph, id).shape[index_of(axis)]);
    if (to == qir::kAbsent) to = to_.tensor(node_.name + "/transposed", DType::F32, shape);
    to_.emit(qir::Op::Transpose, node_, {id}, to).set("perm", std::move(perm));
    return to;
  }
  // The operand as [batch..., rows, columns].
  std::int32_t matrix(std::size_t which, const Labels &batch, const Labels &rows, const Labels &columns) {
    const EinsumPlan::Operand &operand = plan_.inputs[which];
    std::int32_t id = node_.inputs[which];
    Vector<std::int64_t> perm;
    for (const Labels *labels : {&batch, &rows, &columns})
      for (const std::uint8_t label : *labels)
        perm.push_back(std::find(operand.label, operand.label + operand.rank, label) - operand.label);
    if (!std::is_sorted(perm.begin(), perm.end())) id = transpose(id, std::move(perm), qir::kAbsent);
    const qir::Shape from = at(to_.graph, id).shape;
    qir::Shape shape(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(batch.size()));
    shape.push_back(count(rows));
    shape.push_back(count(columns));
    return shape == from ? id : reshape(id, shape, qir::kAbsent);
  }

  Rewriting &to_;
  const qir::Node &node_;
  const EinsumPlan &plan_;
};

}  // namespace

Status einsum_to_matmul(qir::Graph &graph, Store &store) {
  if (std::ranges::none_of(graph.nodes, [](const qir::Node &node) { return node.op == qir::Op::Einsum; })) return {};
  Rewriting rewriting(graph, store);
  Status status;
  for (qir::Node &node : rewriting.old) {
    if (stop_asked()) return stop_status("compile");
    const auto plain = [&](std::int32_t id) { return at(graph, id).dtype == DType::F32 && !at(graph, id).quant; };
    if (status.ok() && node.op == qir::Op::Einsum && node.inputs.size() == 2 && plain(node.inputs[0]) &&
        plain(node.inputs[1]) && plain(node.outputs[0])) {
      const qir::Shape shapes[] = {at(graph, node.inputs[0]).shape, at(graph, node.inputs[1]).shape};
      const qir::Dims dims[] = {{shapes[0].data(), shapes[0].size()}, {shapes[1].data(), shapes[1].size()}};
      EinsumPlan plan;
      status = qir::parse_einsum(node, dims, &plan);
      Roles roles;
      // Two more dimensions than the equation has batches.
      if (status.ok() && find_roles(plan, &roles) && roles.batch.size() + 2 <= qir::kMaxRank) {
        Product(rewriting, node, plan).run(roles);
        continue;
      }
    }
    rewriting.keep(std::move(node));
  }
  return status;
}

}  // namespace quarry::passes
