// SPDX-License-Identifier: Apache-2.0
// Makes a QIR graph node by node: each node's types and shapes are inferred, and it is folded where all its inputs are
// constant, as it is added. So a rewriting rule sees exact shapes, and a chain that computes a shape is a constant by
// the time it is used.
#pragma once

#include <span>

#include "base/hash_index.h"
#include "formats/onnx/tensor_data.h"
#include "graph/graph.h"
#include "graph/store.h"

namespace quarry::onnx_import {

using qir::Folder;

class Builder {
 public:
  Builder(Store &store, Folder *folder) : store_(store), folder_(folder) {}

  qir::Graph graph;

  Store &store() noexcept { return store_; }
  Folder *folder() noexcept { return folder_; }
  const qir::Tensor &tensor(std::int32_t id) const noexcept { return at(graph, id); }
  bool is_constant(std::int32_t id) const noexcept { return id >= 0 && tensor(id).is_constant; }
  bool is_static(std::int32_t id) const noexcept;  // all dimensions known

  String unique_name(std::string_view wanted, std::int32_t id);  // for the tensor of that index, which gets it
  std::int32_t add_tensor(std::string_view name, DType dtype, qir::Shape shape);
  std::int32_t add_constant(std::string_view name, Constant constant);
  std::int32_t add_input(std::string_view name, DType dtype, qir::Shape shape);
  // A vector, or (scalar) a value of rank 0.
  std::int32_t add_ints(std::string_view name, std::span<const std::int64_t> values);
  std::int32_t add_int(std::string_view name, std::int64_t value);
  // A value of rank 0 of any float or integer dtype; kAbsent where the dtype cannot hold it.
  std::int32_t add_number(std::string_view name, DType dtype, double value);
  // The same with a shape of as many elements as there are values.
  std::int32_t add_numbers(std::string_view name, DType dtype, qir::Shape shape, std::span<const double> values);
  // The value of an i32 or i64 constant.
  std::optional<Vector<std::int64_t>> ints(std::int32_t id) const;
  std::optional<Vector<float>> floats(std::int32_t id) const;  // of an f32 or f16 constant

  // Adds a node with one output per name; an empty name is an absent output. `node.outputs` is set here.
  Status emit(qir::Node node, const Vector<String> &names, Vector<std::int32_t> *outputs);
  // The same for a node whose results have the types that are given (a custom operator). Such a node is never folded.
  Status emit_stated(qir::Node node, const Vector<String> &names, Vector<qir::InferType> types,
                     Vector<std::int32_t> *outputs);
  // Makes `id` the graph output called `name`: renames it, or copies it with Identity where it cannot carry the name.
  Status add_output(std::int32_t id, std::string_view name);
  void rename(std::int32_t id, std::string_view name);

 private:
  void give(std::int32_t id);  // as an output
  Vector<qir::InferValue> input_values(const qir::Node &node) const;
  bool worth_folding(const qir::Node &node, const Vector<qir::InferType> &types) const;

  Store &store_;
  Folder *folder_;
  HashIndex names_;               // of tensors
  StringMap<std::size_t> tried_;  // numbers behind a name
  HashSet<std::int32_t> inputs_, outputs_;
};

}  // namespace quarry::onnx_import
