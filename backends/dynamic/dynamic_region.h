// SPDX-License-Identifier: Apache-2.0
// Runs the dynamic region of a plan: the nodes behind the first data-dependent shape (README.md says how). Called by
// the executions of the backends that plan, as the last step of a run.
#pragma once

#include <atomic>

#include "backends/common/plugin_support.h"
#include "backends/cpu-reference/interpreter.h"
#include "backends/dynamic/lengths.h"
#include "passes/shapes/cut.h"

namespace quarry::dynamic {

// A dynamic region as it is loaded, cut once more. Shared by executions.
struct Pieces {
  struct Read {
    bool made = false;  // by the nodes that give shapes; else an input of the region
    std::uint32_t index = 0;
  };
  struct Piece {
    passes::Part part;
    Vector<Read> reads;  // per input
    qir::Graph graph;    // the part as cpu-reference runs it
    Unique<reference::Program> program;
  };
  Piece telling, rest;  // the nodes that give shapes; what depends on them
  bool rest_has_contractions = false;
};
// The graph's constants outlive the pieces.
Status take_pieces(const qir::Graph &graph, Pieces &out);

// A tensor as the blob has it that a region is a part of.
struct BlobTensorType {
  DType dtype;
  const qir::Shape *shape;
};
// Compares the graph of a region, as it was read, with the blob around it, and gives its nodes their sources among the
// `nodes` of the model. What does not fit, or null.
const char *fit_to_blob(qir::Graph &graph, std::span<const std::int32_t> sources, std::size_t nodes,
                        std::span<const BlobTensorType> operands, std::span<const BlobTensorType> results);

// A plan for shapes that are known.
class PlannedRun : public HeapObject {
 public:
  virtual ~PlannedRun() = default;
  virtual Status run(const qr_run_request &request, const qr_host &host, std::uint64_t *events) = 0;
  virtual std::uint64_t bytes() const noexcept { return 0; }  // of memory that it has, beside what plans share
  // Of a plan of many lengths (Planner::join): the next run's is so much longer than the first.
  virtual Status set_longer(std::int64_t) { return {}; }
};
class Planner {
 public:
  // `elements`: so many are in the rest's operands whose shapes were not known before.
  virtual bool wants_plan(std::int64_t elements) const = 0;
  // All shapes of the graph are known, or depend on nodes that give more. It and its constants end with the call. Null:
  // there is no plan, and cpu-reference runs it.
  virtual Result<Unique<PlannedRun>> plan(qir::Graph &&graph) = 0;
  // Whether one plan may serve runs between whose shapes such dimensions grow (of the graph's inputs).
  virtual bool joins(const Lengths &) const { return false; }
  // Makes of the last of such plans the one of its length and all less: the first is of 0, the second of 1. Null: they
  // are not alike enough.
  struct Sample {
    std::int64_t longer = 0;
    Unique<PlannedRun> run;
  };
  virtual Unique<PlannedRun> join(std::span<Sample>) { return nullptr; }

 protected:
  ~Planner() = default;
};

// What became of an execution's plans. Any thread may look.
struct PlanFigures {
  std::atomic<std::uint64_t> kept{0}, bytes{0};  // now
  std::atomic<std::uint64_t> hits{0}, made{0}, dropped{0};
};

class Execution : public HeapObject {
 public:
  // Both outlive the execution.
  Execution(const Pieces &pieces, Planner &planner, std::size_t plans_kept = kPlansKept);
  ~Execution();
  // Inputs and outputs are the region's; threads, signal and profile those of the request. Results for which the caller
  // gave no room are valid until the next run.
  Status run(std::span<const qr_io_buffer> inputs, std::span<qr_io_buffer> outputs, const qr_run_request &request,
             const qr_host &host, std::uint64_t *events);

  // Of a range: makes the plans of such shapes (prepared_shapes.h).
  Status prepare(std::string_view shapes);

  static constexpr std::size_t kPlansKept = 4;
  const PlanFigures &figures() const noexcept { return figures_; }
  std::size_t plans_kept() const noexcept { return plans_kept_; }
  std::size_t plans() const noexcept { return plans_.size(); }  // for tests
  void drop_plans() noexcept;

 private:
  struct Planned {
    Vector<qir::Shape> shapes;  // of several lengths: the first's
    Unique<PlannedRun> run;
    std::optional<Lengths> lengths;  // of several
    std::int64_t most = 0;           // the last of them
    bool serves(const Vector<qir::Shape> &wanted, std::int64_t *longer) const;
  };
  Status run_part(reference::Execution &execution, const Vector<qr_io_buffer> &inputs, Vector<qr_io_buffer> &outputs,
                  const qr_run_request &request, const qr_host &host, std::uint64_t *events);
  bool wants_plan() const;
  Status take_shapes();
  Result<PlannedRun *> plan_for(const Vector<qir::Shape> &shapes, bool join = false);
  bool near(const Vector<qir::Shape> &shapes, Lengths *lengths) const;
  void lengthen(Planned &made);
  void keep(Planned &&made);
  Result<Unique<PlannedRun>> make_plan(std::span<const qir::Shape> shapes);
  void drop_first() noexcept;

  const Pieces &pieces_;
  Planner &planner_;
  const std::size_t plans_kept_;
  reference::Execution telling_, rest_;
  Vector<reference::IoBuffer> reads_, writes_;  // of the part that runs
  Vector<qr_io_buffer> telling_inputs_, telling_outputs_, rest_inputs_, rest_outputs_;
  Vector<qir::Shape> shapes_;  // of a run
  Vector<Planned> plans_;      // the one used last is the last
  // The plan whose results are given out: in its memory they stay until another run has ended well. `dropped_`: it had
  // to make room.
  const PlannedRun *giver_ = nullptr;
  Unique<PlannedRun> dropped_;
  PlanFigures figures_;
  std::int64_t reach_ = kFirstReach;  // of the next plan of many lengths: how many
  // Lengths whose plans were not alike: nearer than `until` nothing is tried again.
  struct Refused {
    Lengths lengths;
    std::int64_t until = 0;
  };
  Vector<Refused> refused_;
  static constexpr std::int64_t kFirstReach = 64, kMostReach = 512;
  static constexpr std::size_t kMostRefused = 8;
};

}  // namespace quarry::dynamic
