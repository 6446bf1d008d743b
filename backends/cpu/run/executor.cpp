// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/run/executor.h"

#include <algorithm>
#include <cstdio>

#include "backends/cpu-reference/host_environment.h"
#include "backends/cpu/run/dynamic_region.h"
#include "base/checked.h"

namespace quarry::cpu {

Execution::Execution(const LoadedPlan &plan, std::size_t plans_of_range, std::span<const Appended> appended)
    : plan_(plan), arena_(plan.arena_bytes), operands_(plan.operands.size()), output_bytes_(plan.outputs.size()) {
  sharing_.expect(plan.notes);
  place_operands();
  std::size_t most_inputs = 0, most_outputs = 0;
  for (const auto &subgraph : plan.subgraphs) {
    subgraphs_.push_back(make_unique<reference::Execution>(*subgraph->program));
    most_inputs = std::max(most_inputs, subgraph->graph.inputs.size());
    most_outputs = std::max(most_outputs, subgraph->graph.outputs.size());
  }
  subgraph_inputs_.resize(most_inputs);
  subgraph_outputs_.resize(most_outputs);
  if (!plan.region) return;
  region_ = quarry::make_unique<DynamicExecution>(
      *plan.region, plan.region->shared ? plans_of_range : DynamicExecution::kPlansKept, appended);
  region_inputs_.resize(plan.region->inputs.size());
  region_outputs_.resize(plan.region->outputs.size());
}

Execution::~Execution() = default;

void Execution::place_operands() {
  inputs_.clear(), outputs_.clear();
  for (std::uint32_t o = 0; o < plan_.operands.size(); ++o) {
    const Operand &operand = plan_.operands[o];
    const Value &value = plan_.values[operand.value];
    switch (value.storage) {
      case StorageKind::Arena:
        operands_[o] = static_cast<std::byte *>(arena_.data) + value.offset + operand.offset;
        break;
      // Kernels only read operands that their check function does not call written, and the loader let no step write to
      // a constant.
      case StorageKind::Constant:
        operands_[o] = const_cast<std::byte *>(plan_.constants[operand.value]) + operand.offset;
        break;
      case StorageKind::Input: inputs_.push_back({o, value.index, operand.offset, 0}); break;
      default:
        outputs_.push_back({o, value.index, operand.offset, value.offset});
        wants_room_ |= value.offset == kNoPlace;
        break;
    }
  }
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    const Io &io = plan_.outputs[i];
    const bool is_known = !plan_.region || !plan_.region->gives(i);
    output_bytes_[i] = is_known ? *packed_size(io.dtype, *element_count(io.shape.data(), io.shape.size())) : 0;
  }
}

Status Execution::prepare(std::string_view shapes) {
  return region_ && plan_.region->shared ? region_->prepare(shapes) : Status();
}

void Execution::report_plans(qr_plugin_plans *out) const noexcept {
  if (!region_ || !plan_.region->shared) return;
  const dynamic::PlanFigures &figures = region_->figures();
  out->most = region_->plans_kept();
  out->kept = figures.kept, out->bytes = figures.bytes, out->weights_bytes = plan_.region->shared->own_bytes();
  out->hits = figures.hits, out->made = figures.made, out->dropped = figures.dropped;
}

void Execution::bind(const qr_run_request &request) {
  for (const Patch &patch : inputs_)
    operands_[patch.operand] = static_cast<std::byte *>(request.inputs[patch.index].data) + patch.offset;
  for (const Patch &patch : outputs_) {
    const qr_io_buffer &io = request.outputs[patch.index];
    std::byte *const base = io.data && io.wanted ? static_cast<std::byte *>(io.data)
                                                 : static_cast<std::byte *>(arena_.data) + patch.arena_offset;
    operands_[patch.operand] = base + patch.offset;
  }
}

void Execution::make_scratch(std::uint32_t workers) {
  if (workers <= scratch_workers_) return;
  scratch_ = Block(plan_.scratch_bytes * workers + plan_.shared_bytes);
  scratch_workers_ = workers;
}

// How many there are of what entry `at` of a step's indices names; 0: the step's kernel has none. (An index that is out
// of range is never 0.)
std::int64_t Execution::indexed_extent(const Step &step, std::int64_t at) const {
  const std::uint8_t *const params = plan_.params + step.params;
  switch (static_cast<kernels::Kernel>(step.kernel)) {
    case kernels::Kernel::Gather: {
      kernels::Gather gather;
      std::memcpy(&gather, params, sizeof gather);
      return gather.rows;
    }
    case kernels::Kernel::GatherElements: {
      kernels::GatherElements gather;
      std::memcpy(&gather, params, sizeof gather);
      return gather.rows;
    }
    case kernels::Kernel::ScatterElements: {
      kernels::ScatterElements scatter;
      std::memcpy(&scatter, params, sizeof scatter);
      return scatter.rows;
    }
    case kernels::Kernel::ScatterRows:
    case kernels::Kernel::ScatterInto: {  // whose first member it is
      kernels::ScatterRows scatter;
      std::memcpy(&scatter, params, sizeof scatter);
      return scatter.dims[at % scatter.length];
    }
    default: return 0;
  }
}

// What a kernel reports of an index (a length, a position) that is out of range.
Status Execution::refuse_index(const Step &step, std::int64_t found, std::int64_t at) const {
  using kernels::Kernel;
  const auto refuse = [&](const String &what) {
    return Status::error(ErrorId::run_value, format("%s '%s': %s", plan_.name(step.op), plan_.name(step.name), what));
  };
  const std::uint8_t *const params = plan_.params + step.params;
  if (const std::int64_t extent = indexed_extent(step, at); extent > 0)
    return refuse(format("index %lld: found %lld, expected one from %lld to %lld", at, found, -extent, extent - 1));
  switch (static_cast<Kernel>(step.kernel)) {
    case Kernel::RecurrentF32:
    case Kernel::RecurrentBytes: {
      kernels::RecurrentF32 layer;  // what RecurrentBytes begins with
      std::memcpy(&layer, params, sizeof layer);
      return refuse(format("sequence_lens[%lld]: found %lld, expected 0 to %lld", at, found, layer.steps));
    }
    case Kernel::RotaryF32: {
      kernels::RotaryF32 rotary;
      std::memcpy(&rotary, params, sizeof rotary);
      return refuse(format("position_ids[%lld]: found %lld, expected 0 to %lld", at, found, rotary.positions - 1));
    }
    case Kernel::TensorScatter: {
      kernels::TensorScatter scatter;
      std::memcpy(&scatter, params, sizeof scatter);
      return refuse(
          format("write index %lld: found %lld, expected 0 to %lld", at, found, scatter.length - scatter.added));
    }
    case Kernel::RoiAlignF32: {
      kernels::RoiAlignF32 align;
      std::memcpy(&align, params, sizeof align);
      return refuse(format("found region %lld of image %lld, expected image 0 to %d and a region of sensible size",
                           found - 1, at, align.n - 1));
    }
    default: return {};
  }
}

Status Execution::run(const qr_run_request &request, const qr_host &host, std::uint64_t *events) {
  for (std::uint64_t i = 0; i < request.output_count; ++i) {
    if (plan_.region && plan_.region->gives(i)) continue;
    const qr_io_buffer &io = request.outputs[i];
    if (io.data && io.wanted && io.size_bytes < output_bytes_[i])
      return Status::error(ErrorId::run_room,
                           format("output '%s': found room for %llu bytes, expected %llu",
                                  printable(plan_.outputs[i].name), io.size_bytes, output_bytes_[i]));
  }
  for (std::size_t i = 0; wants_room_ && i < outputs_.size(); ++i)
    if (const qr_io_buffer &io = request.outputs[outputs_[i].index];
        outputs_[i].arena_offset == kNoPlace && (!io.data || !io.wanted))
      return Status::error(ErrorId::run_room, format("output '%s': found no room, expected that of what is appended to",
                                                     printable(plan_.outputs[outputs_[i].index].name)));
  const plugin::StopToken stop(request.signal, host);
  const kernels::Threads threads = sharing_.begin(request.threads, host, request.signal ? &stop : nullptr);
  make_scratch(threads.workers);
  bind(request);
  const bool profiled = plugin::wants_nodes(request.profile);
  std::int64_t bad_index[2] = {};
  for (const Step &step : plan_.steps) {
    if (stop.stopped()) return stop.status("run");
    if (step.kernel == kRegionStep) {  // the last one; its nodes have events of their own
      QR_RETURN_IF_ERROR(run_region(step, request, host, events));
      break;
    }
    const std::uint64_t begin = profiled ? host.clock_ns(host.self) : 0;
    if (step.kernel == kReferenceStep) {
      QR_RETURN_IF_ERROR(run_subgraph(step, request, host));
    } else {
      sharing_.step(index_of(&step - plan_.steps.data()));
      plan_.isa->run[step.kernel]({plan_.params + step.params, operands_.data() + step.first_operand, threads,
                                   static_cast<std::byte *>(scratch_.data), plan_.scratch_bytes, bad_index});
      if (sharing_.stopped()) {  // half way through
        Status status = stop.status("run");
        return status.ok() ? Status::error(ErrorId::cancelled, "run: the signal was aborted") : std::move(status);
      }
      if (bad_index[0] != 0) QR_RETURN_IF_ERROR(refuse_index(step, bad_index[0], bad_index[1]));
    }
    if (profiled) tell(step, ++*events, begin, host.clock_ns(host.self), *request.profile);
  }
  finish(request);
  return {};
}

// The shapes of the outputs, and where those are that the caller gave no memory for.
void Execution::finish(const qr_run_request &request) const {
  for (std::uint64_t i = 0; i < request.output_count; ++i) {
    if (plan_.region && plan_.region->gives(i)) continue;
    qr_io_buffer &io = request.outputs[i];
    const Io &made = plan_.outputs[i];
    io.used_bytes = output_bytes_[i];
    io.rank = static_cast<std::uint32_t>(made.shape.size());
    std::copy(made.shape.begin(), made.shape.end(), io.dims);
  }
  for (const Patch &patch : outputs_) {
    qr_io_buffer &io = request.outputs[patch.index];
    if (plan_.region && plan_.region->gives(patch.index)) continue;
    if (!io.data && io.wanted) io.data = static_cast<std::byte *>(arena_.data) + patch.arena_offset;
  }
}

void Execution::tell(const Step &step, std::uint64_t id, std::uint64_t begin_ns, std::uint64_t end_ns,
                     const qr_profile_sink &profile) const {
  const auto index = index_of(&step - plan_.steps.data());
  const StepNote &note = plan_.notes[index];
  char kernel[64];  // "ConvF32 (avx2)"
  std::string_view name = reference::kProfiledKernel;
  if (step.kernel != kReferenceStep) {
    const int length = std::snprintf(kernel, sizeof kernel, "%s (%s)",
                                     kernels::kernel_row(std::uint64_t{step.kernel})->name, plan_.isa->name);
    name = {kernel, std::min(static_cast<std::size_t>(length), sizeof kernel - 1)};
  }
  plugin::report_node(profile, {.id = id,
                                .node = step.source,
                                .name = plan_.name(step.name),
                                .op = plan_.name(step.op),
                                .begin_ns = begin_ns,
                                .end_ns = end_ns,
                                .kernel = name,
                                .shapes = plan_.name(note.shapes),
                                .fused = plan_.name(note.fused),
                                .bytes_read = note.bytes_read,
                                .bytes_written = note.bytes_written});
}

Status Execution::run_subgraph(const Step &step, const qr_run_request &request, const qr_host &host) {
  const LoadedPlan::LoadedSubgraph &subgraph = *plan_.subgraphs[step.params];
  std::byte *const *operands = operands_.data() + step.first_operand;
  const std::size_t inputs = subgraph.graph.inputs.size(), outputs = subgraph.graph.outputs.size();
  const auto fill = [&](reference::IoBuffer &io, std::int32_t id, std::byte *data) {
    const qir::Tensor &tensor = at(subgraph.graph, id);
    io = {data,
          *packed_size(tensor.dtype, *element_count(tensor.shape.data(), tensor.shape.size())),
          0,
          true,
          static_cast<std::uint32_t>(tensor.shape.size()),
          {}};
    std::copy(tensor.shape.begin(), tensor.shape.end(), io.dims);
  };
  for (std::size_t i = 0; i < inputs; ++i) fill(subgraph_inputs_[i], subgraph.graph.inputs[i], operands[i]);
  for (std::size_t i = 0; i < outputs; ++i) fill(subgraph_outputs_[i], subgraph.graph.outputs[i], operands[inputs + i]);
  // The step's own event reports it.
  qr_run_request quiet = request;
  quiet.profile = nullptr;
  reference::HostEnvironment environment(host, quiet);
  return subgraphs_[step.params]->run(subgraph_inputs_.data(), inputs, subgraph_outputs_.data(), outputs, environment);
}

Status Execution::run_region(const Step &step, const qr_run_request &request, const qr_host &host,
                             std::uint64_t *events) {
  const LoadedRegion &region = *plan_.region;
  for (std::size_t i = 0; i < region_inputs_.size(); ++i) {
    const std::uint32_t operand = step.first_operand + static_cast<std::uint32_t>(i);
    const Value &value = plan_.values[plan_.operands[operand].value];
    qr_io_buffer &io = region_inputs_[i];
    io = {};
    io.wanted = 1;
    const Io &stated = region.inputs[i];
    if (value.storage == StorageKind::Input) {  // its shape may be of this run
      io = request.inputs[value.index];
      continue;
    }
    io.data = operands_[operand];
    io.size_bytes = *packed_size(stated.dtype, *element_count(stated.shape.data(), stated.shape.size()));
    io.rank = static_cast<std::uint32_t>(stated.shape.size());
    std::copy(stated.shape.begin(), stated.shape.end(), io.dims);
  }
  const plugin::StopToken stop(request.signal, host);
  const StopScope scope(stop);  // it compiles
  for (std::size_t i = 0; i < region_outputs_.size(); ++i) region_outputs_[i] = request.outputs[region.outputs[i]];
  QR_RETURN_IF_ERROR(region_->run(region_inputs_, region_outputs_, request, host, events));
  for (std::size_t i = 0; i < region_outputs_.size(); ++i) request.outputs[region.outputs[i]] = region_outputs_[i];
  return {};
}

}  // namespace quarry::cpu
