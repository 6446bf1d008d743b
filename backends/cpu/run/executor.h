// SPDX-License-Identifier: Apache-2.0
// Runs a loaded plan. One execution is one caller's state: memory, pointers, the subgraphs' interpreters.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/cpu-reference/interpreter.h"
#include "backends/cpu/program/blob.h"
#include "backends/cpu/run/sharing.h"

namespace quarry::cpu {

class DynamicExecution;

class Execution : public HeapObject {
 public:
  // The plan outlives the execution. Takes the memory that the plan names; scratch follows at the first run, which
  // knows the threads. `appended`: of a range (appended_in).
  explicit Execution(const LoadedPlan &plan, std::size_t plans_of_range = kPlansOfRange,
                     std::span<const Appended> appended = {});
  ~Execution();
  // Allocates nothing after the first run with as many threads. Inputs and outputs are as many as the plan's and
  // checked by the host.
  Status run(const qr_run_request &request, const qr_host &host) {
    std::uint64_t events = 0;
    return run(request, host, &events);
  }
  void share_all() noexcept { sharing_.share_all(); }
  static constexpr std::size_t kPlansOfRange = 16;  // the option shape.plans
  // Of a range: the plans of such shapes (the option shape.prepare).
  Status prepare(std::string_view shapes);
  void report_plans(qr_plugin_plans *out) const noexcept;
  // The plan's numbers are others now (run/lengths.h): operands, and how large outputs are.
  void place_operands();
  // As part of another's run, which has reported so many events.
  Status run(const qr_run_request &request, const qr_host &host, std::uint64_t *events);

 private:
  Status run_subgraph(const Step &step, const qr_run_request &request, const qr_host &host);
  Status run_region(const Step &step, const qr_run_request &request, const qr_host &host, std::uint64_t *events);
  void tell(const Step &step, std::uint64_t id, std::uint64_t begin_ns, std::uint64_t end_ns,
            const qr_profile_sink &profile) const;
  std::int64_t indexed_extent(const Step &step, std::int64_t at) const;
  Status refuse_index(const Step &step, std::int64_t found, std::int64_t at) const;
  void finish(const qr_run_request &request) const;
  void bind(const qr_run_request &request);
  void make_scratch(std::uint32_t workers);

  struct Block {
    void *data = nullptr;
    Block() = default;
    explicit Block(std::uint64_t bytes) : data(bytes ? allocate_block(bytes, 64) : nullptr) {}
    Block(Block &&other) noexcept : data(std::exchange(other.data, nullptr)) {}
    Block &operator=(Block &&other) noexcept {
      std::swap(data, other.data);
      return *this;
    }
    ~Block() { free_block(data); }
  };

  const LoadedPlan &plan_;
  Sharing sharing_;
  Block arena_, scratch_;
  std::uint32_t scratch_workers_ = 0;
  Vector<std::byte *> operands_;  // per operand of the plan
  struct Patch {                  // an operand that lies in the caller's memory
    std::uint32_t operand, index;
    std::uint64_t offset;
    std::uint64_t arena_offset;  // of an output that the caller gave no room
  };
  Vector<Patch> inputs_, outputs_;
  bool wants_room_ = false;             // some output has no place in the arena (kNoPlace)
  Vector<std::uint64_t> output_bytes_;  // of the graph's outputs; of the dynamic region's 0
  Vector<Unique<reference::Execution>> subgraphs_;
  Vector<reference::IoBuffer> subgraph_inputs_, subgraph_outputs_;  // of the subgraph that runs
  Unique<DynamicExecution> region_;
  Vector<qr_io_buffer> region_inputs_, region_outputs_;
};

}  // namespace quarry::cpu
