// SPDX-License-Identifier: Apache-2.0
// What a rewriting rule works with: one ONNX node, its opset, its inputs as tensors of the graph being made. Internal
// to formats/onnx.
#pragma once

#include <initializer_list>

#include "base/hash_index.h"
#include "formats/onnx/importer.h"

namespace quarry::onnx_import {

class Importer;

// Names seen by a node. Scopes of one graph chain up; the body of a subgraph or a function starts afresh, with what it
// takes bound by name.
struct Scope {
  static constexpr std::int32_t kUnknown = -3;  // no such name
  static constexpr std::int32_t kPoisoned =
      -2;  // its maker was refused, which has been said; kAbsent (-1) is an optional value not given

  static constexpr std::int32_t kFirstSequence = -16;  // and below: sequences, which are no tensors of the graph

  const Scope *parent = nullptr;
  Builder *builder = nullptr;
  const Opsets *opsets = nullptr;
  const StringMap<const pb::AttributeProto *> *arguments =
      nullptr;                            // attributes of the function call; nullptr outside functions
  const pb::GraphProto *graph = nullptr;  // whose nodes these are; one of them is set
  const pb::FunctionProto *function = nullptr;
  String prefix;    // of the names made in here: "call1/"
  NameTable names;  // the model has them, or who makes the scope
  int depth = 0;    // of functions and subgraphs

  std::int32_t lookup(std::string_view name) const;
};

class Rewriter {
 public:
  Rewriter(Importer &importer, Scope &scope, const pb::NodeProto &proto, std::int64_t opset);

  Importer &importer;
  Scope &scope;
  Builder &builder;
  const pb::NodeProto &proto;
  const std::int64_t opset;  // of the node's domain
  String name;               // never empty
  String where() const;      // "Conv 'conv1'": what messages begin with

  // ---- inputs and outputs
  std::size_t input_count() const noexcept { return inputs_.size(); }
  const Vector<std::int32_t> &inputs() const noexcept { return inputs_; }
  std::int32_t in(std::size_t i) const noexcept { return i < inputs_.size() ? inputs_[i] : qir::kAbsent; }
  bool has(std::size_t i) const noexcept { return in(i) != qir::kAbsent; }
  const qir::Tensor &tensor(std::size_t i) const noexcept { return builder.tensor(in(i)); }
  Status need_inputs(std::size_t count) const;  // the first `count` are there
  // Every input that is named is made by something, and is no sequence where the operator takes none;
  // poisoned_status() where its maker was refused.
  Status check_inputs(bool takes_sequences = false) const;
  bool wants(int output) const noexcept { return output < proto.output_size() && !proto.output(output).empty(); }
  // The output is a value that exists already.
  void bind(int output, std::int32_t id);

  // ---- attributes; those of a function's body may refer to the call's
  const pb::AttributeProto *attribute(std::string_view name) const;
  std::int64_t get_int(std::string_view name, std::int64_t fallback) const;
  float get_float(std::string_view name, float fallback) const;
  std::string_view get_string(std::string_view name, std::string_view fallback) const;
  std::optional<Vector<std::int64_t>> get_ints(std::string_view name) const;
  std::optional<Vector<float>> get_floats(std::string_view name) const;

  static pb::AttributeProto_AttributeType kind_of(const pb::AttributeProto &attribute);
  // Gives a node an attribute of the kinds that every operator may have; false: it holds a tensor, a graph or the like.
  static bool add_attribute(const pb::AttributeProto &from, std::string_view key, qir::Node *to);

  // ---- making nodes
  // A node with the ONNX node's attributes, less `without`.
  Result<qir::Node> copy(qir::Op op, Vector<std::int32_t> inputs,
                         std::initializer_list<std::string_view> without = {}) const;
  qir::Node make(qir::Op op, Vector<std::int32_t> inputs,
                 std::string_view suffix) const;  // a helper node, no attributes
  // Adds a node for an intermediate value.
  Result<std::int32_t> step(qir::Node node);
  Result<std::int32_t> step(qir::Op op, Vector<std::int32_t> inputs, std::string_view suffix) {
    return step(make(op, std::move(inputs), suffix));
  }
  // Adds the node that makes the ONNX node's outputs (the first `count`; -1: all).
  Status finish(qir::Node node, int count = -1);
  Status finish(qir::Op op, Vector<std::int32_t> inputs) { return finish(make(op, std::move(inputs), "")); }

  // Constants of the node, named after it.
  std::int32_t ints(std::string_view suffix, std::span<const std::int64_t> values) {
    return builder.add_ints(name + "/" + String(suffix), values);
  }
  std::int32_t number(std::string_view suffix, DType dtype, double value) {
    return builder.add_number(name + "/" + String(suffix), dtype, value);
  }
  // The shape of a value as an i64 tensor: constant where it is known.
  Result<std::int32_t> shape_of(std::int32_t id, std::string_view suffix);

  template <class... A>
  [[gnu::always_inline]] inline Status error(ErrorId id, Pattern<A...> pattern, const A &...arguments) const {
    if constexpr (are_plain<A...>) return error_of(id, pattern.text(), detail::plain(arguments)...);
    else return call_with([&](auto... plain) { return error_of(id, pattern.text(), plain...); }, arguments...);
  }

 private:
  Status error_of(ErrorId id, const char *pattern, ...) const;

  Vector<std::int32_t> inputs_;
};

// What follows from a refusal that has been reported already: the node's outputs are poisoned and nothing is said
// again.
inline Status poisoned_status() { return Status::foreign(QR_UNSUPPORTED, "", "", ""); }

using Rule = Status (*)(Rewriter &);
// The rule of an operator; nullptr: it is in the normal form as it stands, if the op table has it.
Rule find_rule(std::string_view domain, std::string_view op, std::int64_t opset);
bool is_sequence_operator(std::string_view op);  // of ai.onnx: takes or makes a sequence
Status import_if(Rewriter &node);                // control_flow.cpp
Status import_loop(Rewriter &node);
Status import_scan(Rewriter &node);
Status import_sequence_map(Rewriter &node);
Status import_custom(Rewriter &node, std::string_view domain);  // custom.cpp
Status add_ep_context(Rewriter &node, qir::Node *made);         // ep_context.cpp

// A list of tensors, of one type each, that the model passes around as one value.
struct Sequence {
  DType dtype = DType::F32;
  Vector<std::int32_t> elements;
};

// The state of one import.
class Importer {
 public:
  Importer(Model &model, Store &store, Folder *folder, Watcher *watcher)
      : model(model), store(store), folder(folder), watcher(watcher) {}

  Model &model;
  Store &store;
  Folder *folder;
  Watcher *watcher;
  Reasons reasons;
  Status stopped;      // by the watcher, or by a limit
  StringSet replaced;  // initializers of the model's graph that a binding takes the place of

  // Imports a graph's initializers and nodes into the scope. What is refused goes to `reasons`; the names it would have
  // made are poisoned.
  void body(const pb::GraphProto &graph, Scope &scope);
  void nodes(const google::protobuf::RepeatedPtrField<pb::NodeProto> &list, Scope &scope);
  // How many nodes may be imported, for the model as it is; and that so many were. Too many: `stopped`.
  void limit();
  void spend(std::uint64_t weight);
  // The value of a tensor of the model, read once however often what holds it is imported.
  template <class Proto>  // pb::TensorProto, pb::SparseTensorProto
  Result<Constant> constant(const Proto &proto, std::string_view subject);
  // What the model states about a value of the scope; nullptr: nothing (custom.cpp).
  const pb::ValueInfoProto *value_info(const Scope &scope, std::string_view name);
  // What a name stands for that is no tensor: nullptr where it is one, or nothing. Valid until another is added.
  const Sequence *sequence(std::int32_t id) const noexcept {
    return id <= Scope::kFirstSequence ? &sequences_[index_of(Scope::kFirstSequence - id)] : nullptr;
  }
  std::int32_t add_sequence(Sequence made) {
    sequences_.push_back(std::move(made));
    return Scope::kFirstSequence - static_cast<std::int32_t>(sequences_.size() - 1);
  }
  // The names that a graph takes from its surroundings, in order of first use.
  static Vector<String> free_names(const pb::GraphProto &graph);
  // Binds the symbolic dimensions of the model's inputs: a name means the same dimension everywhere in the model's
  // graph.
  void bind_dimensions(const Vector<Declared> &inputs, const Vector<InputBinding> &bindings);
  // The shape of a value as far as it is known for the bound inputs.
  qir::Shape known_extents(const Declared &value, const Scope &scope) const;
  // What was noted of constants goes, when the graph is there.
  void forget() { constants_ = {}; }

 private:
  Result<Constant> read(const pb::TensorProto &proto, std::string_view subject);
  Result<Constant> read(const pb::SparseTensorProto &proto, std::string_view subject);
  void node(const pb::NodeProto &proto, Scope &scope);
  Status call(const pb::FunctionProto &function, Rewriter &node);
  Result<const Vector<std::unique_ptr<pb::AttributeProto>> *> defaults_of(const pb::FunctionProto &function,
                                                                          const Rewriter &node);
  Status rewrite(Rewriter &node, std::string_view domain);
  void poison(const pb::NodeProto &proto, Scope &scope);

  std::uint64_t done_ = 0, total_ = 0, limit_ = 0, left_ = UINT64_MAX;
  HashMap<const void *, Constant> constants_;                                       // by message
  OrderedMap<const void *, Vector<std::unique_ptr<pb::AttributeProto>>> defaults_;  // by function
  OrderedMap<const void *, StringMap<const pb::ValueInfoProto *>> infos_;           // by graph or function
  Vector<std::unique_ptr<pb::ValueInfoProto>> parsed_infos_;
  StringMap<std::int64_t> extents_;  // of symbolic names
  Vector<Sequence> sequences_;
};

}  // namespace quarry::onnx_import
