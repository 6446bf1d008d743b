// SPDX-License-Identifier: Apache-2.0
// Graph to plan. Nodes are taken in order; each becomes one step, several, none (a view of what is there), or part of
// an earlier group (fusion.h). The rules of its operator are tried in turn (operators.inc, rules.h); this is what rules
// write with. Called by compile.cpp.
//
// A tensor may have several forms at once (as the convolution wants it, as ONNX states it); forms are made when
// somebody needs them. A rule matches first and writes after: one that gives NotMine leaves nothing in the plan.
#pragma once

#include "backends/cpu/lower/fusion.h"
#include "backends/cpu/lower/node_paths.h"
#include "backends/cpu/program/compiled_plan.h"
#include "backends/cpu/program/view.h"
#include "base/hash_index.h"
#include "graph/edit/graph_edit.h"
#include "kernels/cpu/pack/pack.h"

namespace quarry::cpu {

// An operand of a step.
struct Arg {
  const View *view = nullptr;  // or
  std::uint32_t value = 0;
  std::uint64_t width = 4;  // bytes of the view's elements
};
inline Arg arg(const View &view, std::uint64_t width = 4) { return {&view, 0, width}; }
inline Arg arg(std::uint32_t value) { return {nullptr, value, 1}; }

// What a rule made of a group of nodes.
enum class Lowered : std::uint8_t {
  NotMine,  // nothing: the next rule is tried
  Done,
  Refused,  // nothing: a kernel's check refused what the rule asked for (Lowering::try_rule); no other rule is tried
};
Result<Lowered> done(Status status);  // Done, or the error

// A tensor of f32 that lies in memory as something else: f16, bf16, bytes b, b - 128, or (b - 128) s, with s of a row.
struct Narrow {
  enum As : std::uint8_t { F16, BF16, Bytes, Centred, Rows } as = F16;
  View codes, scales;  // of the tensor's dimensions both; scales have no step along the last of the rows'
};

class Lowering;
// A rule takes a group, or one node: then it is not tried for a group of several.
struct Rule {
  Result<Lowered> (*of_group)(Lowering &, const Group &) = nullptr;
  Result<Lowered> (*of_node)(Lowering &, const qir::Node &) = nullptr;
};

class Lowering {
 public:
  // All must outlive it. The graph is rewritten already (rewrite.h) and all its shapes are known. `pool` takes the
  // constants of reference subgraphs, `paths` what each node became.
  Lowering(const qir::Graph &graph, Plan &plan, Constants &constants, qir::ConstantPool &pool, NodePathTable &paths,
           const CompileOptions &options);
  Status run();
  // Runs one rule. What it wrote goes again where it does not give Done.
  Result<Lowered> try_rule(const Rule &rule, const Group &group);
  // How many rules gave NotMine and had written something: mistakes of those rules, for tests.
  std::uint32_t traces() const noexcept { return traces_; }

  // ---- the graph
  const qir::Graph &graph() const noexcept { return graph_; }
  const qir::Uses &uses() const noexcept { return uses_; }
  const CompileOptions &options() const noexcept { return options_; }
  const kernels::Isa &isa() const noexcept { return *plan_.isa; }
  const qir::Node &node(const Group &group) const { return graph_.nodes[index_of(group.root)]; }
  const Group &group(std::int32_t number) const { return fusion_.group(number); }
  const qir::Tensor &tensor(std::int32_t id) const { return at(graph_, id); }
  std::int32_t input(const qir::Node &node, std::size_t i) const { return node.inputs[i]; }
  bool is_f32(std::int32_t id) const {
    return id != qir::kAbsent && tensor(id).dtype == DType::F32 && !tensor(id).quant;
  }
  bool constant(std::int32_t id) const { return id != qir::kAbsent && tensor(id).is_constant; }
  std::optional<Vector<std::int64_t>> integers(std::int32_t id) const;  // of an i64 or i32 constant
  std::optional<float> scalar(std::int32_t id) const;                   // of an f32 constant of one element
  std::uint64_t width(std::int32_t id) const;                           // bytes per element; 0 under 8 bits

  // ---- to match by: nothing is written
  // The form that is there first. Of a constant that no step has read yet, its form without a value.
  View peek(std::int32_t id) const;
  View dense_layout(std::int32_t id) const;  // how dense() would lie, without a value
  const Vector<View> &forms(std::int32_t id) const { return forms_[index_of(id)]; }
  bool is_planar(std::int32_t id) const;  // all forms are row-major
  // Where an output that is appended to (Appended) is to lie in the end; null: it is none.
  const View *block_of(std::int32_t id) const;
  bool is_joined(std::int32_t id) const { return slots_[index_of(id)].concat != qir::kAbsent; }
  // How elementwise_output() and beside() would lie, without values.
  View elementwise_layout(const Dims &dims, std::span<const std::int32_t> operands) const;
  View layout_beside(std::int32_t id, const View &like) const;
  // The loop nest over such a result and its operands; nothing where kernels have not as many dimensions.
  std::optional<Nest> match_nest(const Dims &dims, std::span<const std::int32_t> operands) const;
  bool takes(kernels::Kernel kernel, const void *params, kernels::Needs *needs = nullptr) const;  // the kernel's check

  // ---- values
  std::uint32_t new_value(std::uint64_t bytes);
  std::uint32_t own_constant(Vector<std::uint8_t> contents, qir::Bytes *out = nullptr);  // `out`: where it lies
  // What names weights that are packed from constants, of a kind and a form (pack_form); empty: plans do not share
  // them.
  String weights_key(const char *kind, qir::Bytes constants, const Vector<std::int64_t> &form) const;
  // What `look()` finds in constants, a small number: plans that share weights look once.
  template <class Look>
  std::uint32_t weights_fact(const char *kind, qir::Bytes constants, Look &&look) const {
    const String key = weights_key(kind, constants, {});
    return key.empty() ? look() : options_.shared->fact(key, look);
  }
  // What `fill(to)` writes; nothing is written in a dry run. Plans that share weights have one of each key.
  template <class Fill>
  std::uint32_t packed_weights(const String &key, std::uint64_t bytes, Fill &&fill) {
    if (key.empty()) return packed_constant(bytes, [&](auto &packed) { fill(static_cast<void *>(packed.data())); });
    return shared_constant(options_.shared->get(key, bytes, fill));
  }
  std::uint32_t shared_constant(SharedBytes block);
  // What `fill(bytes)` writes; nothing is written in a dry run.
  template <class Fill>
  std::uint32_t packed_constant(std::uint64_t bytes, Fill &&fill) {
    if (options_.dry_run) {
      const std::uint32_t value = new_value(bytes);
      plan_.values[value].storage = StorageKind::Constant;
      return value;
    }
    Vector<std::uint8_t> packed(bytes);
    fill(packed);
    return own_constant(std::move(packed));
  }
  View constant_floats(const Vector<float> &values, Dims dims);
  View new_dense(const Dims &dims, std::span<const std::size_t> order, std::uint64_t width);
  View new_row_major(const Dims &dims, std::uint64_t width);
  View new_like(const View &like, std::uint64_t width);  // dense, in the same order of memory

  // ---- forms of tensors: made, by a copy, where they are not there
  const View &any(std::int32_t id);  // the form that is there first
  View row_major(std::int32_t id);   // dense, in ONNX's order
  View dense(std::int32_t id);       // dense in any order
  View channels_last(std::int32_t id, bool dense_pixels = false);
  // One that can be walked beside `like`: broadcast, or its elements in the same order of memory.
  View beside(std::int32_t id, const View &like);
  // Where the result of an elementwise operator of these operands lies: as the operand that has all its elements.
  View elementwise_output(const Dims &dims, std::span<const std::int32_t> operands, std::uint64_t each);
  // Where a node's output of rank 3 or 4 goes, channels-last: a slice of a concatenation, or a value of its own.
  View image_output(std::int32_t id);
  // What state is kept in (narrow.cpp), while no step has needed its reals; null: it has forms, or none yet.
  const Narrow *narrow(std::int32_t id) const;
  void set_narrow(std::int32_t id, Narrow as) { narrow_[id] = std::move(as); }
  void define(std::int32_t id, View view);                                            // makes a form known
  void copy(const View &from, const View &to, std::uint64_t width, std::int32_t of);  // `of`: the tensor, for profiles

  // ---- steps, of the node whose rule runs. A kernel's check may refuse: the rule hands the Status on.
  Status check(kernels::Kernel kernel, const void *params, kernels::Needs *needs);
  Status refuse(const char *why);  // the same of what cannot even be asked of a kernel
  Status emit(kernels::Kernel kernel, const void *params, std::span<const Arg> args);
  template <class P>
  Status emit_step(kernels::Kernel kernel, const P &params, std::initializer_list<Arg> args) {
    return emit(kernel, &params, std::span<const Arg>(args.begin(), args.size()));
  }
  // A rule's last step.
  Result<Lowered> finish(kernels::Kernel kernel, const void *params, std::span<const Arg> args);
  template <class P>
  Result<Lowered> finish_step(kernels::Kernel kernel, const P &params, std::initializer_list<Arg> args) {
    return finish(kernel, &params, std::span<const Arg>(args.begin(), args.size()));
  }

 private:
  Status lower(std::size_t node);
  Status lower_members(const Group &group);
  Result<Lowered> lower_group(const Group &group);
  bool stays_narrow(const qir::Node &node);
  void widen(std::int32_t id, const Narrow &from);
  // A node that is cpu-reference's: its graph as bytes, what it reads and what it writes.
  struct ReferenceParts {
    Vector<std::uint8_t> bytes;
    Vector<Operand> reads, writes;
  };
  void add_reference_step(const qir::Node &node, ReferenceParts parts, StepNote note, std::string_view shapes);
  Status lower_reference(const qir::Node &node);  // the last resort
  const Appended *appended_to(std::size_t input) const;
  void define_appended(const Appended &appended);
  void finish_appended();
  Status finish_outputs();
  // Reports to `paths_` and profiles the steps made since there were `before`.
  void report_steps(const Group &group, std::size_t before);
  std::uint32_t shapes_of(const Group &group);  // offset into names
  std::uint32_t name_of(std::string_view text);
  std::uint32_t borrow_constant(qir::Bytes contents);  // lives as long as the graph
  void find_slots();
  Vector<std::size_t> elementwise_order(const Dims &dims, std::span<const std::int32_t> operands) const;

  // How much a plan has of everything that rules add to it. (Names may stay: they are found again.)
  struct Mark {
    std::size_t values, params, operands, steps, entries, owned, defined;
    std::uint64_t scratch_bytes, shared_bytes;
    bool operator==(const Mark &) const = default;
  };
  Mark mark() const;
  void take_back(const Mark &to);

  const qir::Graph &graph_;
  Plan &plan_;
  Constants &constants_;
  qir::Uses uses_;
  Fusion fusion_;
  struct Slot {  // a tensor that lies in a slice of a concatenation
    std::int32_t concat = qir::kAbsent;
    std::int64_t channel = 0;
  };
  Vector<Slot> slots_;
  Vector<Vector<View>> forms_;                   // per tensor
  Vector<std::pair<std::size_t, View>> blocks_;  // numbers of outputs that are appended to, and where they lie
  HashMap<std::int32_t, Narrow> narrow_;
  Vector<std::int32_t> defined_;  // whose they are, in the order in which they were made
  Vector<std::uint32_t> met_;     // per tensor: the last list that it was met in
  std::uint32_t asked_ = 0, traces_ = 0;
  HashIndex names_;                     // offsets in plan_.names
  const qir::Node *current_ = nullptr;  // whose steps are being made
  Status failed_;                       // of a copy
  bool refused_ = false;                // a kernel's check said no
  qir::ConstantPool &pool_;
  NodePathTable &paths_;
  const CompileOptions &options_;
};

}  // namespace quarry::cpu
