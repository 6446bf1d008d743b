// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/run/dynamic_region.h"

#include <algorithm>

#include "backends/cpu/compile/compile.h"
#include "base/stop.h"

namespace quarry::cpu {

namespace {

// What the telling nodes made, in elements, from which on the rest is worth a plan though it has no products.
constexpr std::int64_t kMuch = 1 << 16;

// A block aligned as segments are.
class Segment {
 public:
  explicit Segment(const Vector<std::uint8_t> &bytes)
      : data_(allocate_block(std::max<std::size_t>(bytes.size(), 1), 64)), size_(bytes.size()) {
    if (!bytes.empty()) std::memcpy(data_, bytes.data(), bytes.size());
  }
  Segment(const Segment &) = delete;
  Segment &operator=(const Segment &) = delete;
  ~Segment() { free_block(data_); }
  qir::Bytes bytes() const noexcept { return {data_, size_}; }

 private:
  void *data_;
  std::size_t size_;
};

class Planned final : public dynamic::PlannedRun {
 public:
  explicit Planned(const CompiledPlan &compiled)
      : packed_(compiled.packed),
        subgraph_constants_(compiled.subgraph_constants),
        blob_(write_blob(compiled)),
        shared_(compiled.shared) {}
  Status load(const Vector<qir::Bytes> &given, std::size_t kept) {
    segments_.assign(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(kept));
    segments_.push_back(packed_.bytes());
    segments_.push_back(subgraph_constants_.bytes());
    for (const SharedBytes &block : shared_) segments_.push_back(block->bytes());
    QR_ASSIGN_OR_RETURN(plan_, read_blob({blob_.data(), blob_.size()}, segments_));
    execution_ = make_unique<Execution>(*plan_);
    return {};
  }
  Status run(const qr_run_request &request, const qr_host &host, std::uint64_t *events) override {
    return execution_->run(request, host, events);
  }
  std::uint64_t bytes() const noexcept override {
    return packed_.bytes().size + subgraph_constants_.bytes().size + blob_.size() + plan_->arena_bytes +
           plan_->scratch_bytes + plan_->shared_bytes;
  }

 private:
  Segment packed_, subgraph_constants_;
  const Vector<std::uint8_t> blob_;
  const Vector<SharedBytes> shared_;
  Vector<qir::Bytes> segments_;
  Unique<LoadedPlan> plan_;
  Unique<Execution> execution_;
};

}  // namespace

bool DynamicExecution::wants_plan(std::int64_t elements) const {
  return region_.shared || region_.pieces.rest_has_contractions || elements >= kMuch;
}

Result<Unique<dynamic::PlannedRun>> DynamicExecution::plan(qir::Graph &&graph) {
  CompileOptions options;
  options.isa = region_.isa, options.winograd = region_.winograd, options.weights = region_.weights;
  options.f32_gemm = region_.f32_gemm;
  options.sources = region_.sources;
  options.shared = region_.shared.get();
  options.again = options.shared != nullptr;
  QR_ASSIGN_OR_RETURN(const CompiledPlan compiled, compile(std::move(graph), region_.constants, options));
  auto planned = quarry::make_unique<Planned>(compiled);
  QR_RETURN_IF_ERROR(stop_status("run"));  // what was stopped wrote no whole blob
  QR_RETURN_IF_ERROR(planned->load(region_.constants, compiled.kept_segments));
  return Unique<dynamic::PlannedRun>(planned.release());
}

}  // namespace quarry::cpu
