// SPDX-License-Identifier: Apache-2.0
// QIR to a plan. Each operator has a rule (operators.inc) that writes steps; this is what rules write with.
//
// A rule first matches, then emits: it refuses before it writes, and a refusal leaves the plan's tables as they were.
//
// Every tensor is a view of a value (backends/common/view.h): Reshape, Transpose, Slice and the like are other views
// and cost nothing; kernels read by strides, and a rule that needs a tensor row by row asks for `dense`. Elementwise
// operators behind a step that somebody else does not read become code of that step (`fuse` below;
// element_code.cpp writes it).
#pragma once

#include <span>

#include "backends/common/view.h"
#include "backends/gpu/kernels/params.h"
#include "backends/gpu/program/plan.h"
#include "backends/gpu/program/target.h"
#include "graph/edit/graph_edit.h"
#include "graph/store.h"

namespace quarry::gpu {

using strided::Dims;
using strided::View;

// Where the bytes of the plan's constants are.
struct Constants {
  struct Entry {
    std::uint32_t value;
    qir::Bytes contents;
  };
  Vector<Entry> entries;
};

struct Arg {
  View view;
  DType dtype = DType::Unknown;
};

// A number as the bits of a register.
std::uint64_t bits_of(Number number, double value) noexcept;

// Code as it grows: registers of operands are known by the operand's index, those of instructions by kFirst and up;
// emit() numbers them anew.
class Code {
 public:
  static constexpr std::uint32_t kFirst = 1000, kValue = 999;
  std::uint32_t add(Element element, std::uint32_t a = 0, std::uint32_t b = 0, std::uint32_t c = 0);
  std::uint32_t add(Element element, Number number, double p, double q, std::uint32_t a = 0);
  std::uint32_t to(Number number, std::uint32_t a);
  std::uint32_t select(Number number, std::uint32_t condition, std::uint32_t a, std::uint32_t b);
  std::uint32_t constant_bits(Number number, std::uint64_t bits);
  std::uint32_t constant(Number number, double value) { return constant_bits(number, bits_of(number, value)); }
  std::size_t size() const noexcept { return list_.size(); }
  bool reads_coordinates() const noexcept;
  // The instructions, where operands begin at `first_operand` and there are so many of them.
  Vector<Instruction> numbered(std::uint32_t operands, bool has_value) const;

 private:
  Vector<Instruction> list_;
};

// What one step computes for its elements: operands beside those that the kernel reads itself, and code. `result` is
// the tensor that is stored at last.
struct FusedExpression {
  Code code;
  Vector<Arg> operands;
  Vector<std::int32_t> tensors;  // per operand; qir::kAbsent: none of the model's
  std::int32_t result = qir::kAbsent;
  std::uint32_t at = Code::kValue;  // the register of `result`
  Vector<const qir::Node *> fused;
};

class Lowering {
 public:
  Lowering(const qir::Graph &graph, qir::Store &store, const Target &target, Plan &plan, Constants &constants);

  const qir::Graph &graph() const noexcept { return graph_; }
  const Target &target() const noexcept { return target_; }
  // Whether an index that names no element is an error of the run. Not so where nodes are computed that the model does
  // not choose.
  bool checks_indices() const noexcept { return checks_indices_; }
  void leave_indices_unchecked() noexcept { checks_indices_ = false; }
  const qir::Tensor &tensor(std::int32_t id) const { return qir::at(graph_, id); }
  DType dtype(std::int32_t id) const { return tensor(id).dtype; }
  const qir::Shape &shape(std::int32_t id) const { return tensor(id).shape; }
  qir::Store &store() noexcept { return store_; }
  // The entries of an i32 or i64 constant; a refusal where it is none.
  Result<Vector<std::int64_t>> integers(const qir::Node &node, std::size_t input, const char *what) const;
  // The values of a constant of reals, widened.
  std::optional<Vector<float>> reals(std::int32_t id) const;

  // ---- what steps read
  // Known by now: an input, a constant, or made before.
  bool is_there(std::int32_t id) const {
    return tensor(id).is_constant || views_[index_of(id)].value != strided::kNoValue;
  }
  const View &view(std::int32_t id);
  View dense(std::int32_t id);
  View layout(std::int32_t id) const;  // as `view`, for who matches: nothing is made, and a constant has no value yet
  Arg arg(std::int32_t id) { return {view(id), dtype(id)}; }
  View constant(qir::Bytes contents, Dims dims);       // lives as long as graph or store
  const qir::Bytes *contents(const View &view) const;  // of a constant; else null

  // ---- what steps write
  View result(std::int32_t id);                 // in a value of its own, row by row
  View between(const Dims &dims, DType dtype);  // a value between two steps
  // In what a node computes with the tensor: reals, where it reads and writes stored integers as what they mean
  // (scales_stored).
  Number number(std::int32_t id) const;
  void define(std::int32_t id, View view);

  // ---- steps
  // `dims`: the coordinates of the nest; views of `base` have a stride for each. Operands of the elements, and the
  // result, are reshaped to them. `params`: of the kernel's row (params.h).
  template <class Params>
  Status emit(const Params &params, const Dims &dims, std::span<const Arg> base, const FusedExpression &elements,
              const Arg &result) {
    return emit_step(Params::kKernel, dims, numbers_of(params), base, elements, result);
  }
  // Elementwise: axes are merged where all operands can walk them as one.
  Status emit_elements(const FusedExpression &elements, const Arg &result);
  Status copy(const Arg &from, const Arg &to);

  // Takes the elementwise nodes behind `elements.result` into the code, as long as nobody else reads what is between.
  // `fits` says of another operand, broadcast to the shape of the result, whether the step can read it.
  template <class Fits>
  void fuse(FusedExpression &elements, const Fits &fits) {
    const auto test = [](const void *self, const View &v) { return (*static_cast<const Fits *>(self))(v); };
    fuse_with(elements, test, &fits);
  }

  // Runs a rule. Where it refuses, everything that it wrote is taken back; a rule that wrote steps or values before it
  // refused is wrong, and a build with assertions says so (internal error).
  Status apply(Status (*rule)(Lowering &, const qir::Node &), const qir::Node &node);
  // Runs the rules of all nodes. `refused` has one entry per node that was given; a refused node's results are taken as
  // if they were there, so that the rest is checked too.
  Status run(Vector<Status> &refused);
  std::uint32_t name(std::string_view text);

 private:
  Status emit_step(Kernel kernel, const Dims &dims, std::span<const std::int64_t> fields, std::span<const Arg> base,
                   const FusedExpression &elements, const Arg &result);
  void fuse_with(FusedExpression &elements, bool (*fits)(const void *, const View &), const void *self);
  Status lower(const qir::Node &node);
  const qir::Quantization *scaled(const View &view) const;
  Status check_types(const qir::Node &node) const;
  Status finish_outputs();
  std::uint32_t new_value(std::uint64_t bytes);
  // How long the plan's tables are.
  struct Mark {
    std::size_t values, operands, steps, numbers, code, names, entries;
  };
  Mark mark() const noexcept;
  bool wrote_since(const Mark &mark) const;
  void rewind(const Mark &mark);
  void report_kernels(const qir::Node &node, const Mark &mark);

  const qir::Graph &graph_;
  qir::Store &store_;
  const Target &target_;
  Plan &plan_;
  Constants &constants_;
  qir::Uses uses_;
  Vector<View> views_;  // per tensor
  Vector<bool> done_;   // per node
  const qir::Node *at_ = nullptr;
  // What the rule that runs has changed: views as they were before, nodes that it fused.
  Vector<std::pair<std::int32_t, View>> views_before_;
  Vector<std::size_t> fused_;
  bool checks_indices_ = true;
  bool emission_refused_ = false;                            // a limit that only `emit` finds
  bool scales_ = false;                                      // it does scales_stored
  HashMap<std::int32_t, const qir::Quantization *> quants_;  // per value of stored integers
  StringMap<std::uint32_t> names_;
  HashMap<const void *, std::uint32_t> constant_values_;
  HashMap<std::uint32_t, std::size_t> entries_;  // per value of a constant: its entry
  Vector<Status> *refused_ = nullptr;
  Vector<String> kernels_;  // per node that was given: by what it runs
  Vector<std::int32_t> into_;
  Vector<String> given_names_;

 public:
  // `late`: the paths of nodes that depend on data-dependent shapes.
  void report_paths(const Vector<String> &names, const Vector<NodePathRow> &late);
};

using Rule = Status (*)(Lowering &, const qir::Node &);
struct OperatorRow {
  qir::Op op;
  Rule rule;
  enum class Types : std::uint8_t { Any, NoF64, Reals } types;
  const char *note;  // a remark, "not: " and what it refuses, both, or nothing
  const char *refuses;
};
const OperatorRow *find_operator(qir::Op op) noexcept;
// Whether the row's node may have an input of the type, and as a text all types that its first input may have.
bool takes(const OperatorRow &row, DType dtype) noexcept;
String types_text(const OperatorRow &row);
// It has no rule of its own: passes may decompose it.
bool is_rewritten(qir::Op op) noexcept;

// A refusal: subject and found in `reason`.
Status refuse(ErrorId id, const qir::Node &node, String reason, std::string_view hint = {});

// The code of an elementwise node whose operand `elements.result` (if it has it) is at hand; others become operands.
bool is_elementwise(qir::Op op) noexcept;
Status element_code(Lowering &l, const qir::Node &node, FusedExpression &elements);

}  // namespace quarry::gpu
