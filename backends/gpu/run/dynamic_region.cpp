// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/dynamic_region.h"

#include <algorithm>

#include "backends/common/processor_backend.h"
#include "backends/gpu/compile/compile.h"
#include "backends/gpu/compile/tune.h"
#include "base/checked.h"

namespace quarry::gpu {

namespace {

Status bad(const char *what) { return Status::error(ErrorId::backend_bad_blob, format("gpu blob: found %s", what)); }

// A plan of the run's, with all that it is made of.
class Planned final : public dynamic::PlannedRun {
 public:
  Status load(const LoadedContext &whole, Compiled &&made, std::span<const qir::Bytes> given, const RunOptions &options,
              const qr_host &host, const LoadedRegion &of) {
    packed_ = std::move(made.packed), region_constants_ = std::move(made.region_constants);
    Blob blob;
    blob.plan = std::move(made.plan), blob.region = std::move(made.region);
    fit_tiles(blob.plan, whole.engine().device());
    segments_.assign(given.begin(), given.begin() + static_cast<std::ptrdiff_t>(made.kept_segments));
    segments_.push_back({packed_.data(), packed_.size()});
    segments_.push_back({region_constants_.data(), region_constants_.size()});
    blob.region.segment = static_cast<std::uint32_t>(segments_.size() - 1);
    if (!blob.region.qir.empty()) {
      QR_ASSIGN_OR_RETURN(region_, load_region(blob, segments_, of.sources));
    }
    for (const std::uint64_t piece : blob.plan.pieces) bytes_ += piece;
    String note;
    QR_ASSIGN_OR_RETURN(context_, LoadedContext::load(whole.shared_engine(), std::move(blob), segments_, nullptr, &note,
                                                      nullptr, of.is_range ? &of.pool : nullptr));
    Vector<std::uint8_t>().swap(packed_);  // is on the device; a device that was lost drops its plans
    results_.resize(context_->outputs().size());
    QR_ASSIGN_OR_RETURN(execution_, ModelExecution::make(*context_, region_.get(), options, host));
    return {};
  }
  // A result that nobody gave room for lies here until the next run.
  Status run(const qr_run_request &request, const qr_host &, std::uint64_t *) override {
    const Vector<Io> &outputs = context_->outputs();
    for (std::size_t i = 0; i < outputs.size() && i < request.output_count; ++i) {
      qr_io_buffer &buffer = request.outputs[i];
      const qir::Shape &shape = outputs[i].shape;
      if (!buffer.wanted || buffer.data || !passes::known(shape)) continue;
      const auto count = element_count(shape.data(), shape.size());
      results_[i].resize(std::max<std::uint64_t>(count ? packed_size(outputs[i].dtype, *count).value_or(0) : 0, 1));
      buffer.data = results_[i].data(), buffer.size_bytes = results_[i].size();
    }
    return execution_->run(request);
  }
  std::uint64_t bytes() const noexcept override { return bytes_; }

 private:
  std::uint64_t bytes_ = 0;
  Vector<std::uint8_t> packed_, region_constants_;
  Vector<qir::Bytes> segments_;
  Vector<Vector<std::uint8_t>> results_;
  Unique<LoadedRegion> region_;
  Unique<LoadedContext> context_;
  Unique<ModelExecution> execution_;
};

}  // namespace

Result<Unique<LoadedRegion>> load_region(const Blob &blob, std::span<const qir::Bytes> segments, std::size_t sources) {
  const DynamicRegion &region = blob.region;
  auto loaded = quarry::make_unique<LoadedRegion>();
  loaded->is_range = region.is_range;
  const std::span<const qir::Bytes> constants = segments.first(region.segment + std::size_t{1});
  loaded->constants.assign(region.is_range ? constants.begin() : constants.end() - 1, constants.end());
  loaded->sources = sources;
  QR_ASSIGN_OR_RETURN(qir::Graph graph, qir::read_graph({region.qir.data(), region.qir.size()},
                                                        loaded->constants.data(), loaded->constants.size()));
  Vector<dynamic::BlobTensorType> operands, results;
  const auto add = [](Vector<dynamic::BlobTensorType> &to, const Io &io) { to.push_back({io.dtype, &io.shape}); };
  for (const std::size_t from : region.reads)
    add(operands, from < region.inputs.size() ? region.inputs[from] : blob.plan.outputs[from - region.inputs.size()]);
  for (const std::size_t to : region.writes) add(results, region.outputs[to]);
  if (region.is_range != !graph.dimensions.empty()) return bad("a range of shapes that is none");
  if (const char *what = dynamic::fit_to_blob(graph, region.sources, sources, operands, results)) return bad(what);
  QR_RETURN_IF_ERROR(dynamic::take_pieces(graph, loaded->pieces));
  loaded->planned = is_planned(graph, loaded->pieces.rest.part.graph);
  return loaded;
}

Result<Unique<ModelExecution>> ModelExecution::make(const LoadedContext &context, const LoadedRegion *region,
                                                    const RunOptions &options, const qr_host &host) {
  auto made = quarry::make_unique<ModelExecution>(context, region, options, host);
  const Plan &plan = context.plan();
  if (!region || !plan.outputs.empty()) {
    RunOptions inner = options;
    if (region) inner.depth = 0;
    QR_ASSIGN_OR_RETURN(made->plan_, Execution::make(context, inner));
  }
  if (!region) return made;
  const DynamicRegion &how = context.region();
  made->rest_ = quarry::make_unique<dynamic::Execution>(
      region->pieces, static_cast<dynamic::Planner &>(*made),
      region->is_range ? options.plans : std::size_t{dynamic::Execution::kPlansKept});
  made->plan_inputs_.resize(plan.inputs.size()), made->plan_outputs_.resize(plan.outputs.size());
  made->region_inputs_.resize(how.reads.size()), made->region_outputs_.resize(how.writes.size());
  made->between_.resize(plan.outputs.size());
  made->waiting_.resize(options.depth);
  for (const std::uint32_t from : how.reads) {
    if (from < how.inputs.size()) continue;
    const std::size_t k = from - how.inputs.size();
    const Io &io = plan.outputs[k];
    const auto count = element_count(io.shape.data(), io.shape.size());
    made->between_[k].resize(std::max<std::uint64_t>(count ? packed_size(io.dtype, *count).value_or(0) : 0, 1));
  }
  return made;
}

void ModelExecution::report_plans(qr_plugin_plans *out) const noexcept {
  if (!is_range()) return;
  const dynamic::PlanFigures &figures = rest_->figures();
  out->most = rest_->plans_kept();
  out->kept = figures.kept, out->bytes = figures.bytes, out->weights_bytes = region_->pool.bytes();
  out->hits = figures.hits, out->made = figures.made, out->dropped = figures.dropped;
}

Status ModelExecution::reopen() {
  if (rest_) rest_->drop_plans();
  return plan_ ? plan_->reopen() : Status();
}

Status ModelExecution::run(const qr_run_request &request) {
  return region_ ? run_with_region(request) : plan_->run(request, host_);
}

Result<std::uint64_t> ModelExecution::submit(const qr_run_request &request) {
  if (!region_) return plan_->submit(request, host_);
  if (waiting_.empty()) return Status::error(ErrorId::internal, "submit: found a queue of depth 0");
  waiting_[submitted_ % waiting_.size()] = &request;
  return ++submitted_;
}

const qr_run_request &ModelExecution::request_of(std::uint64_t ticket) noexcept {
  return region_ ? *waiting_[(ticket - 1) % waiting_.size()] : plan_->request_of(ticket);
}

bool ModelExecution::drop(std::uint64_t ticket) { return region_ || plan_->drop(ticket); }

Status ModelExecution::wait(std::uint64_t ticket) {
  return region_ ? run_with_region(*waiting_[(ticket - 1) % waiting_.size()]) : plan_->wait(ticket);
}

Status ModelExecution::run_with_region(const qr_run_request &request) {
  const DynamicRegion &how = context_.region();
  QR_RETURN_IF_ERROR(plugin::check_counts(request, how.inputs.size(), how.outputs.size()));
  if (context_.engine().is_lost())
    return Status::error(ErrorId::device_lost, "gpu: run: the device was lost in an earlier call");
  // What goes to the caller, though the region reads it as well.
  const auto is_callers = [&](std::size_t k) {
    return how.plan_outputs[k] != kRegionOnly && request.outputs[how.plan_outputs[k]].wanted != 0;
  };
  if (plan_) {
    for (std::size_t i = 0; i < plan_inputs_.size(); ++i) plan_inputs_[i] = request.inputs[how.plan_inputs[i]];
    for (std::size_t k = 0; k < plan_outputs_.size(); ++k) {
      plan_outputs_[k] = {};
      plan_outputs_[k].data = between_[k].data(), plan_outputs_[k].size_bytes = between_[k].size();
      plan_outputs_[k].wanted = between_[k].empty() ? 0 : 1;
      if (is_callers(k)) plan_outputs_[k] = request.outputs[how.plan_outputs[k]];
    }
    qr_run_request inner = request;
    inner.inputs = plan_inputs_.data(), inner.input_count = plan_inputs_.size();
    inner.outputs = plan_outputs_.data(), inner.output_count = plan_outputs_.size();
    QR_RETURN_IF_ERROR(plan_->run(inner, host_));
    for (std::size_t k = 0; k < plan_outputs_.size(); ++k)
      if (is_callers(k)) request.outputs[how.plan_outputs[k]] = plan_outputs_[k];
  }
  for (std::size_t i = 0; i < region_inputs_.size(); ++i) {
    if (how.reads[i] < how.inputs.size()) {
      region_inputs_[i] = request.inputs[how.reads[i]];
      continue;
    }
    region_inputs_[i] = plan_outputs_[how.reads[i] - how.inputs.size()];
    region_inputs_[i].size_bytes = region_inputs_[i].used_bytes;
  }
  for (std::size_t i = 0; i < region_outputs_.size(); ++i) region_outputs_[i] = request.outputs[how.writes[i]];
  std::uint64_t events = context_.plan().steps.size() + 1;
  QR_RETURN_IF_ERROR(rest_->run(region_inputs_, region_outputs_, request, host_, &events));
  for (std::size_t i = 0; i < region_outputs_.size(); ++i) request.outputs[how.writes[i]] = region_outputs_[i];
  return {};
}

Result<Unique<dynamic::PlannedRun>> ModelExecution::plan(qir::Graph &&graph) {
  const std::uint64_t begun = host_.clock_ns(host_.self);
  QR_ASSIGN_OR_RETURN(Compiled made,
                      compile(std::move(graph), region_->constants, target_of(context_.engine().device()),
                              HostRegion::Allowed, region_->sources));
  for (Status &refused : made.refused)
    if (!refused.ok()) {
      if (is_range()) return std::move(refused);
      plugin::log(host_, QR_LOG_WARN, "gpu",
                  "what depends on data-dependent shapes is run by the host: " + String(refused.message()));
      return Unique<dynamic::PlannedRun>();
    }
  auto planned = quarry::make_unique<Planned>();
  RunOptions inner = options_;
  inner.depth = 0;
  QR_RETURN_IF_ERROR(planned->load(context_, std::move(made), region_->constants, inner, host_, *region_));
  plugin::log(host_, QR_LOG_INFO, "gpu",
              format("%s was planned for the shapes of this run in %.0f ms",
                     is_range() ? "the model" : "what depends on data-dependent shapes",
                     static_cast<double>(host_.clock_ns(host_.self) - begun) / 1e6));
  return Unique<dynamic::PlannedRun>(planned.release());
}

}  // namespace quarry::gpu
