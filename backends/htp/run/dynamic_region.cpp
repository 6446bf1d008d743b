// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/dynamic_region.h"

#include <algorithm>
#include <cmath>

#include "backends/common/processor_backend.h"
#include "backends/htp/run/execution.h"
#include "base/checked.h"

namespace quarry::htp {

namespace {

Status bad(const char *what) { return Status::error(ErrorId::backend_bad_blob, format("htp blob: found %s", what)); }

// Where an id stands in a list; what is none of it behind all.
std::uint32_t place_in(const Vector<std::int32_t> &ids, std::int32_t id) {
  return static_cast<std::uint32_t>(std::ranges::find(ids, id) - ids.begin());
}

// The reader of the blob has found that it has a size.
std::uint64_t bytes_of(const BlobTensor &tensor) {
  return *packed_size(tensor.dtype, *element_count(tensor.shape.data(), tensor.shape.size()));
}

// What the library computes in f16 it gives as f32 with some last places off: whole numbers are made whole again, for
// lengths follow from them, and one is rounded up where another is not.
void make_whole(Vector<std::uint8_t> &floats, std::uint64_t bytes) noexcept {
  constexpr float kNear = 1.0f / (1 << 21);  // four last places
  auto *const values = reinterpret_cast<float *>(floats.data());
  for (std::uint64_t i = 0; i < bytes / sizeof(float); ++i) {
    const float whole = std::nearbyintf(values[i]);
    if (std::fabs(values[i] - whole) <= kNear * std::fabs(whole)) values[i] = whole;
  }
}

}  // namespace

Result<BlobRegion> write_region(const qir::Graph &whole, const passes::Parts &parts) {
  BlobRegion region;
  qir::ConstantPool pool;
  QR_ASSIGN_OR_RETURN(region.qir, qir::write_graph(parts.second.graph, pool));
  region.constants.resize(pool.size());
  if (pool.size() > 0) pool.write_to(region.constants.data());
  for (const qir::Node &node : parts.second.graph.nodes) region.sources.push_back(node.source);
  for (const std::int32_t id : parts.first.inputs) region.first_inputs.push_back(place_in(whole.inputs, id));
  for (const std::int32_t place : parts.first.positions)
    region.first_outputs.push_back(place == qir::kAbsent ? BlobRegion::kNone : static_cast<std::uint32_t>(place));
  for (const std::int32_t id : parts.second.inputs) {
    const std::uint32_t given = place_in(whole.inputs, id), count = static_cast<std::uint32_t>(whole.inputs.size());
    region.reads.push_back(given < count ? given : count + place_in(parts.first.outputs, id));
  }
  region.writes.assign(parts.second.positions.begin(), parts.second.positions.end());
  return region;
}

Result<Unique<LoadedRegion>> load_region(const Blob &blob, const BlobGraph &graph) {
  const BlobRegion &region = graph.region;
  const qir::Bytes constants{region.constants.data(), region.constants.size()};
  QR_ASSIGN_OR_RETURN(qir::Graph read, qir::read_graph({region.qir.data(), region.qir.size()}, &constants, 1));
  Vector<dynamic::BlobTensorType> operands, results;
  const auto add = [](Vector<dynamic::BlobTensorType> &to, const BlobTensor &tensor) {
    to.push_back({tensor.dtype, &tensor.shape});
  };
  const std::size_t given = graph.inputs.size();
  for (const std::size_t from : region.reads)
    add(operands,
        from < given ? graph.inputs[from] : blob.parts[region.part].graphs[region.graph].outputs[from - given]);
  for (const std::size_t to : region.writes) add(results, graph.outputs[to]);
  if (const char *what = dynamic::fit_to_blob(read, region.sources, graph.nodes.size(), operands, results))
    return bad(what);
  auto loaded = quarry::make_unique<LoadedRegion>();
  QR_RETURN_IF_ERROR(dynamic::take_pieces(read, loaded->pieces));
  return loaded;
}

RegionRun::RegionRun(LoadedContext &context, const BlobGraph &graph, const LoadedRegion &region,
                     const Settings &settings)
    : context_(context), graph_(graph), rest_(region.pieces, static_cast<dynamic::Planner &>(*this)) {
  const BlobRegion &how = graph.region;
  inputs_.resize(how.reads.size()), outputs_.resize(how.writes.size());
  if (how.part == BlobRegion::kNone) return;
  first_ = quarry::make_unique<Execution>(context.part(how.part), how.graph, settings);
  first_graph_ = &first_->graph();
  first_inputs_.resize(how.first_inputs.size()), first_outputs_.resize(how.first_outputs.size());
  between_.resize(how.first_outputs.size());
}

RegionRun::~RegionRun() = default;

Status RegionRun::set_option(std::string_view key, std::string_view value) {
  return first_ ? first_->set_option(key, value) : Status();
}

Status RegionRun::run(const qr_run_request &request, const plugin::StopToken &stop) {
  const BlobRegion &how = graph_.region;
  QR_RETURN_IF_ERROR(plugin::check_counts(request, graph_.inputs.size(), graph_.outputs.size()));
  const auto shape = [](qr_io_buffer &io, const BlobTensor &tensor) {
    io.rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::ranges::copy(tensor.shape, io.dims);
  };
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const qr_io_buffer &input = request.inputs[i];
    if (const std::uint64_t bytes = bytes_of(graph_.inputs[i]); (!input.data && bytes > 0) || input.size_bytes != bytes)
      return Status::error(ErrorId::run_shape,
                           format("input %s: found %llu bytes, expected %llu", printable(graph_.inputs[i].name),
                                  input.data ? input.size_bytes : 0, bytes));
  }
  for (std::size_t i = 0; i < first_inputs_.size(); ++i) first_inputs_[i] = request.inputs[how.first_inputs[i]];
  for (std::size_t k = 0; k < first_outputs_.size(); ++k) {
    qr_io_buffer &made = first_outputs_[k];
    made = {};
    if (how.first_outputs[k] != BlobRegion::kNone) made = request.outputs[how.first_outputs[k]];
    const std::uint64_t bytes = bytes_of(first_graph_->outputs[k]);
    if (!made.data) {  // the dynamic region may read what the caller does not want
      between_[k].resize(std::max<std::uint64_t>(bytes, 1));
      made = {};
      made.data = between_[k].data(), made.size_bytes = bytes, made.wanted = 1;
    }
    shape(made, first_graph_->outputs[k]);
  }
  if (first_) {
    qr_run_request inner = request;
    inner.inputs = first_inputs_.data(), inner.input_count = first_inputs_.size();
    inner.outputs = first_outputs_.data(), inner.output_count = first_outputs_.size();
    QR_RETURN_IF_ERROR(first_->run(inner, stop));
    for (std::size_t k = 0; k < first_outputs_.size(); ++k) {
      if (first_graph_->outputs[k].dtype == DType::F32 && first_outputs_[k].data == between_[k].data())
        make_whole(between_[k], bytes_of(first_graph_->outputs[k]));
      if (how.first_outputs[k] == BlobRegion::kNone) continue;
      qr_io_buffer &to = request.outputs[how.first_outputs[k]];
      to.used_bytes = first_outputs_[k].used_bytes;
      shape(to, first_graph_->outputs[k]);
    }
  }
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    const std::size_t from = how.reads[i], given = graph_.inputs.size();
    const BlobTensor &tensor = from < given ? graph_.inputs[from] : first_graph_->outputs[from - given];
    inputs_[i] = from < given ? request.inputs[from] : first_outputs_[from - given];
    inputs_[i].size_bytes = bytes_of(tensor);
    shape(inputs_[i], tensor);
  }
  for (std::size_t i = 0; i < outputs_.size(); ++i) outputs_[i] = request.outputs[how.writes[i]];
  std::uint64_t events = 1;
  QR_RETURN_IF_ERROR(rest_.run(inputs_, outputs_, request, context_.host(), &events));
  for (std::size_t i = 0; i < outputs_.size(); ++i) request.outputs[how.writes[i]] = outputs_[i];
  return {};
}

}  // namespace quarry::htp
