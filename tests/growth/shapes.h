// SPDX-License-Identifier: Apache-2.0
// Shapes of graph that grow: each of n parts, so that what takes the square of n somewhere shows.
#pragma once

#include <algorithm>
#include <string>

#include "tests/unit/onnx/model_text.h"

namespace quarry::test {

class GrowthModel : public ModelText {
 public:
  explicit GrowthModel(int n) : ModelText(17), n_(n) {}

  // Each reads the one before.
  void chain() {
    input("x", {4});
    for (int i = 0; i < n_; ++i) node(i % 2 ? "Neg" : "Relu", {i ? at("t", i - 1) : "x"}, {last(i, "t")});
    output("y", {4});
  }
  // All read one tensor, and a few read them.
  void fan_out() {
    input("x", {4});
    floats("k", {4}, {1, 2, 3, 4});
    for (int i = 0; i < n_; ++i) node("Mul", {"x", "k"}, {at("t", i)});
    for (int i = 0; i < n_; i += 16) {
      auto *sum = node("Sum", {}, {at("s", i / 16)});
      for (int k = i; k < n_ && k < i + 16; ++k) sum->add_input(at("t", k));
      output(at("s", i / 16), {4});
    }
  }
  // One reads all.
  void fan_in() {
    input("x", {4});
    auto *joined = ModelText::add_node(&tail_, "Concat", {}, {"y"});
    auto *sum = ModelText::add_node(&other_tail_, "Sum", {}, {"z"});
    for (int i = 0; i < n_; ++i) {
      node("Neg", {i ? at("t", i - 1) : "x"}, {at("t", i)});
      joined->add_input(at("t", i)), sum->add_input(at("t", i));
    }
    set(joined, "axis", std::int64_t{0});
    *proto.mutable_graph()->add_node() = tail_;
    *proto.mutable_graph()->add_node() = other_tail_;
    output("y", {4 * n_}), output("z", {4});
  }
  void inputs_and_outputs() {
    for (int i = 0; i < n_; ++i) {
      input(at("x", i), {4}), output(at("y", i), {4});
      node("Neg", {at("x", i)}, {at("y", i)});
    }
  }
  // A constant that n nodes dequantise, and n pairs behind one another: 3 n nodes.
  void quantised() {
    input("x", {4});
    constant<std::uint8_t>("c", 2, {4}, {1, 2, 3, 4});
    constant<std::uint8_t>("z", 2, {}, {0});
    floats("s", {}, {0.5f});
    for (int i = 0; i < n_ / 4; ++i) {
      const std::string from = i ? at("d", i - 1) : "x";
      node("DequantizeLinear", {"c", "s", "z"}, {at("w", i)});
      node("Add", {from, at("w", i)}, {at("a", i)});
      node("QuantizeLinear", {at("a", i), "s", "z"}, {at("q", i)});
      node("DequantizeLinear", {at("q", i), "s", "z"}, {i + 1 == n_ / 4 ? "y" : at("d", i)});
    }
    output("y", {4});
  }
  void constants() {
    input("x", {4});
    for (int i = 0; i < n_; ++i) {
      const float v = static_cast<float>(i);
      floats(at("c", i), {4}, {v, v, v, v});
      node("Add", {i ? at("t", i - 1) : "x", at("c", i)}, {last(i, "t")});
    }
    output("y", {4});
  }
  // As many as a graph may have, and then larger ones.
  void subgraphs() {
    input("x", {4}), input("go", {}, 9);
    const int choices = std::min(n_ / 2, 500), nodes = n_ / (2 * choices);
    for (int i = 0; i < choices; ++i) {
      const std::string from = i ? at("t", i - 1) : "x";
      auto *choice = node("If", {"go"}, {i + 1 == choices ? "y" : at("t", i)});
      for (const char *branch : {"then_branch", "else_branch"}) {
        auto *body = graph(choice, branch);
        body->set_name(branch);
        for (int k = 0; k < nodes; ++k)
          add_node(body->add_node(), branch[0] == 't' ? "Neg" : "Abs", {k ? at(branch, k - 1) : from}, {at(branch, k)});
        fill(body->add_output(), at(branch, nodes - 1), 1, {4});
      }
    }
    output("y", {4});
  }
  // Some of them outputs of the graph.
  void identities() {
    input("x", {4});
    for (int i = 0; i < n_; ++i) node(i % 8 ? "Identity" : "Neg", {i ? at("t", i - 1) : "x"}, {last(i, "t")});
    for (int i = 7; i + 1 < n_; i += 64) output(at("t", i), {4});
    output("y", {4});
  }
  void functions() {
    input("x", {4});
    auto *import = proto.add_opset_import();
    import->set_domain("ours"), import->set_version(1);
    for (int i = 0; i < n_ / 2; ++i) {
      auto *function = proto.add_functions();
      function->set_domain("ours"), function->set_name(at("F", i));
      function->add_input("a"), function->add_output("b");
      *function->add_opset_import() = proto.opset_import(0);
      add_node(function->add_node(), "Neg", {"a"}, {"m"});
      add_node(function->add_node(), "Relu", {"m"}, {"b"});
      node(at("F", i), {i ? at("t", i - 1) : "x"}, {i + 1 == n_ / 2 ? "y" : at("t", i)}, "ours");
    }
    output("y", {4});
  }
  // Sums that reach back to the first, each over all that lies between.
  void residuals() {
    input("x", {4});
    for (int i = 0; i < n_ / 2; ++i) node("Tanh", {i ? at("t", i - 1) : "x"}, {at("t", i)});
    std::string sum = "x";
    for (int i = n_ / 2; i-- > 0;) {
      const std::string made = i ? at("r", i) : "y";
      node("Add", {sum, at("t", i)}, {made});
      sum = made;
    }
    output("y", {4});
  }

  int count() const {
    int total = count(proto.graph().node());
    for (const auto &function : proto.functions()) total += count(function.node());
    return total;
  }

 private:
  template <class List>
  static int count(const List &nodes) {
    int total = 0;
    for (const auto &node : nodes) {
      total += node.op_type() == "Sum" ? std::max(node.input_size() - 1, 1) : 1;
      for (const auto &attribute : node.attribute())
        if (attribute.has_g()) total += count(attribute.g().node());
    }
    return total;
  }
  static std::string at(const std::string &name, int i) { return name + std::to_string(i); }
  std::string last(int i, const char *name) const { return i + 1 == n_ ? "y" : at(name, i); }

  const int n_;
  ::onnx::NodeProto tail_, other_tail_;
};

struct GrowthShape {
  const char *name;
  void (GrowthModel::*make)();
};
inline constexpr GrowthShape kGrowthShapes[] = {
    {"chain", &GrowthModel::chain},         {"fan out", &GrowthModel::fan_out},
    {"fan in", &GrowthModel::fan_in},       {"inputs and outputs", &GrowthModel::inputs_and_outputs},
    {"quantised", &GrowthModel::quantised}, {"constants", &GrowthModel::constants},
    {"subgraphs", &GrowthModel::subgraphs}, {"identities", &GrowthModel::identities},
    {"functions", &GrowthModel::functions}, {"residuals", &GrowthModel::residuals},
};

// `nodes`: how many it has, those of functions and bodies among them; a sum of n is n - 1 additions.
inline std::string growth_model(const GrowthShape &shape, int n, int *nodes = nullptr) {
  GrowthModel model(n);
  (model.*shape.make)();
  if (nodes) *nodes = model.count();
  return model.bytes();
}

}  // namespace quarry::test
