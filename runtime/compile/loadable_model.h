// SPDX-License-Identifier: Apache-2.0
// A model in the form that one backend loads: the context of a container, or one compiled in memory.
#pragma once

#include "runtime/compile/compile.h"

namespace quarry {

// What a backend loads at once: one blob, of one graph or several.
struct LoadableProgram {
  struct Graph {
    String bucket;
    std::uint32_t index;  // of the model's graphs
    Vector<qir::Shape> input_dims;
  };
  Vector<Graph> graphs;
  qr_blob blob;  // borrows from the members below and from the LoadableModel
  Vector<qr_plugin_segment> segments;
  String target, key;
  qrm::Plan plan;
};

// A compile-time option, and what it was or is to be.
struct CompileOption {
  String key, value;
};

struct GradedContext;

class LoadableModel : public Counted<LoadableModel> {
 public:
  // The way that qr_session_create goes: from a container the best context of the backend is taken, and compiled again
  // from the kept graph where there is none, where the backend says "recompile", or where compile-time options were
  // given that differ from those it was compiled with (the option context.recompile: at once, later or never); from
  // ONNX the model is compiled. In `job` the compile-time options that were not given become the context's.
  static Result<Ref<LoadableModel>> make(CompileJob &job);
  // Compiled now, by the options alone.
  static Result<Ref<LoadableModel>> make_new(CompileJob &job);
  // A container's kept graphs compiled for this machine, whatever contexts it has.
  static Result<Ref<LoadableModel>> make_again(CompileJob &job);

  explicit LoadableModel(Ref<const Model> model) : model_(std::move(model)) {}
  const Model &model() const noexcept { return *model_; }
  const Vector<qrm::TensorInfo> &inputs() const noexcept {
    return compiled_ ? compiled_->signature().inputs : model_->inputs();
  }
  const Vector<qrm::TensorInfo> &outputs() const noexcept {
    return compiled_ ? compiled_->signature().outputs : model_->outputs();
  }
  const Vector<LoadableProgram> &programs() const noexcept { return programs_; }
  const CompiledModel *compiled() const noexcept { return compiled_.get(); }
  // Of the programs; and of those the ones that the caller asked to be otherwise, which is not so yet or not at all.
  const Vector<CompileOption> &compiled_with() const noexcept { return compiled_with_; }
  const Vector<CompileOption> &asked_for() const noexcept { return asked_for_; }
  const char *source() const noexcept { return source_; }
  const loader::Grade &grade() const noexcept { return grade_; }
  // By the option context.recompile: compile it once more in the background. There are no programs before that where
  // the grade is "recompile".
  bool wants_recompilation() const noexcept { return wants_recompilation_; }
  // Whether the model's graphs can be had, to compile them again or to look at them.
  bool keeps_graphs() const noexcept;

 private:
  // Where the container's context cannot serve: compiled now or later, or refused.
  static Result<Ref<LoadableModel>> make_recompiled(CompileJob &job, GradedContext &graded);
  Status take_context(const qrm::ContextInfo &context);
  Status compile(CompileJob &job);
  void note_options(const CompileJob &job);

  Ref<const Model> model_;  // its mapping holds what the programs point into
  Ref<CompiledModel> compiled_;
  Vector<LoadableProgram> programs_;
  Vector<CompileOption> compiled_with_, asked_for_;
  const char *source_ = "container";
  loader::Grade grade_;
  bool wants_recompilation_ = false;
};

// A context of a container and what a backend says of it. `context` is null where there is none for the backend.
struct GradedContext {
  const qrm::ContextInfo *context = nullptr;
  loader::Grade grade;
  Vector<CompileOption> asked_for;  // compile-time options that were given and differ from the context's
};
// The best of those that the container has for the backend; "recompile" without a kept graph counts as incompatible.
// Without a context for the backend but with a kept graph: "recompile".
Result<GradedContext> grade_contexts(const CompileJob &job);
// The grade that a session would see: other compile-time options make it "recompile" too.
loader::Grade session_grade(const CompileJob &job, const GradedContext &graded);

// `program` gets what it has of a compiled blob but its graphs and the segments that are kept as they were given; it
// has its final place.
void take_blob(LoadableProgram &program, const CompileJob &job, const loader::CompiledBlob &from);

// A request to grade, plan or load a program.
qr_load_request load_request(const CompileJob &job, const LoadableProgram &program) noexcept;

// What a backend says of a program that a container holds, as JSON; empty: nothing. Nothing is loaded.
Result<String> describe_program(loader::Plugin &plugin, const qrm::ValidatedModel &container,
                                const qrm::ContextInfo &context, const qrm::Program &program);

// What `program` needs, from the backend where it knows.
Result<qrm::Plan> plan_program(const CompileJob &job, const LoadableProgram &program);

const char *grade_name(std::int32_t grade) noexcept;

}  // namespace quarry
