// SPDX-License-Identifier: Apache-2.0
#include "backends/dynamic/dynamic_region.h"

#include <algorithm>
#include <cstdlib>

#include "backends/cpu-reference/folder.h"
#include "backends/cpu-reference/host_environment.h"
#include "backends/dynamic/prepared_shapes.h"
#include "base/checked.h"
#include "base/stop.h"
#include "graph/dimensions.h"
#include "kernels/reference/widen.h"

namespace quarry::dynamic {

namespace {

// Which shapes it is that there is no plan for.
Status of_shapes(Status failed, const qir::Graph &graph, std::span<const qir::Shape> shapes) {
  if (failed.code() == QR_CANCELLED || failed.code() == QR_DEADLINE_EXCEEDED) return failed;
  String text;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    text += format("%s%s %s", text.empty() ? "" : ", ", printable(at(graph, graph.inputs[i]).name),
                   shape_text(shapes[i].data(), shapes[i].size()));
  return Status::foreign(failed.code(), failed.id(), format("%s (with %s)", String(failed.message()), text),
                         failed.hint());
}

Status take_piece(passes::Part &&part, const qir::Graph &region, const passes::Part *telling, Pieces::Piece &piece) {
  piece.part = std::move(part);
  HashMap<std::int32_t, std::pair<bool, std::uint32_t>>
      places;  // whether the telling part makes it, and where it stands
  for (std::uint32_t i = 0; telling && i < telling->outputs.size(); ++i)
    places.try_emplace(telling->outputs[i], true, i);
  for (std::uint32_t i = 0; i < region.inputs.size(); ++i) places.try_emplace(region.inputs[i], false, i);
  for (const std::int32_t id : piece.part.inputs) {
    const auto [is_made, place] = places[id];
    piece.reads.push_back({is_made, place});
  }
  piece.graph = piece.part.graph;
  QR_RETURN_IF_ERROR(reference::widen_float16(piece.graph));
  QR_ASSIGN_OR_RETURN(piece.program, reference::Program::build(piece.graph));
  return {};
}

// Of tensors within: each plan of a range begins with a copy of them, and nobody but an error says them.
void shorten_names(qir::Graph &graph) {
  Vector<bool> shown(graph.tensors.size());
  for (const auto *list : {&graph.inputs, &graph.outputs})
    for (const std::int32_t id : *list) shown[index_of(id)] = true;
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (shown[i] && graph.tensors[i].name[0] == '~') return;  // (names are unique)
  for (std::size_t i = 0; i < shown.size(); ++i)
    if (!shown[i]) graph.tensors[i].name = format("~%zu", i);
}

}  // namespace

const char *fit_to_blob(qir::Graph &graph, std::span<const std::int32_t> sources, std::size_t nodes,
                        std::span<const BlobTensorType> operands, std::span<const BlobTensorType> results) {
  if (graph.nodes.size() != sources.size() || graph.inputs.size() != operands.size() ||
      graph.outputs.size() != results.size())
    return "a dynamic region of another graph";
  for (std::size_t n = 0; n < sources.size(); ++n) {
    if (sources[n] < qir::kNoSource || sources[n] >= static_cast<std::int64_t>(nodes))
      return "a node of the dynamic region that is none";
    graph.nodes[n].source = sources[n];
  }
  const auto fit = [&](const Vector<std::int32_t> &ids, std::span<const BlobTensorType> types) {
    return std::ranges::equal(ids, types, [&](std::int32_t id, const BlobTensorType &type) {
      return qir::at(graph, id).dtype == type.dtype && qir::at(graph, id).shape == *type.shape;
    });
  };
  if (!fit(graph.inputs, operands)) return "an operand of the dynamic region of another type or shape";
  if (!fit(graph.outputs, results)) return "an output of the dynamic region of another type or shape";
  return nullptr;
}

Status take_pieces(const qir::Graph &graph, Pieces &out) {
  // Of a range all is planned, what it has of data-dependent shapes within each plan.
  const bool is_range = !graph.dimensions.empty();
  passes::Parts parts = passes::cut(graph, is_range ? Vector<bool>(graph.nodes.size()) : passes::telling(graph));
  out.rest_has_contractions = passes::has_contractions(parts.second.graph);
  QR_RETURN_IF_ERROR(take_piece(std::move(parts.first), graph, nullptr, out.telling));
  QR_RETURN_IF_ERROR(take_piece(std::move(parts.second), graph, &out.telling.part, out.rest));
  if (is_range) shorten_names(out.rest.part.graph);
  return {};
}

Execution::Execution(const Pieces &pieces, Planner &planner, std::size_t plans_kept)
    : pieces_(pieces),
      planner_(planner),
      plans_kept_(plans_kept),
      telling_(*pieces.telling.program),
      rest_(*pieces.rest.program),
      telling_inputs_(pieces.telling.part.inputs.size()),
      telling_outputs_(pieces.telling.part.outputs.size()),
      rest_inputs_(pieces.rest.part.inputs.size()),
      rest_outputs_(pieces.rest.part.outputs.size()) {}

Execution::~Execution() = default;

Status Execution::run_part(reference::Execution &execution, const Vector<qr_io_buffer> &inputs,
                           Vector<qr_io_buffer> &outputs, const qr_run_request &request, const qr_host &host,
                           std::uint64_t *events) {
  reads_.assign(inputs.size(), {});
  writes_.assign(outputs.size(), {});
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    reads_[i] = {inputs[i].data, inputs[i].size_bytes, 0, true, inputs[i].rank, {}};
    std::copy_n(inputs[i].dims, qir::kMaxRank, reads_[i].dims);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    writes_[i] = {outputs[i].data, outputs[i].size_bytes, 0, outputs[i].wanted != 0, 0, {}};
  reference::HostEnvironment environment(host, request, events);
  QR_RETURN_IF_ERROR(execution.run(reads_.data(), reads_.size(), writes_.data(), writes_.size(), environment));
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].data = writes_[i].data, outputs[i].used_bytes = writes_[i].used_bytes, outputs[i].rank = writes_[i].rank;
    std::copy_n(writes_[i].dims, qir::kMaxRank, outputs[i].dims);
  }
  return {};
}

bool Execution::wants_plan() const {
  std::int64_t elements = 0;  // of what was not known before
  for (std::size_t i = 0; i < rest_inputs_.size(); ++i) {
    const qir::Graph &graph = pieces_.rest.part.graph;
    if (passes::known(at(graph, graph.inputs[i]).shape)) continue;
    std::int64_t count = 1;
    for (std::uint32_t d = 0; d < rest_inputs_[i].rank; ++d)
      if (!checked_mul(count, rest_inputs_[i].dims[d], &count)) count = INT64_MAX;
    if (!checked_add(elements, count, &elements)) elements = INT64_MAX;
  }
  return planner_.wants_plan(elements);
}

// Into `shapes_`, whose memory serves each run.
Status Execution::take_shapes() {
  shapes_.resize(rest_inputs_.size());
  for (std::size_t i = 0; i < rest_inputs_.size(); ++i) {
    const qr_io_buffer &input = rest_inputs_[i];
    const qir::Tensor &tensor = at(pieces_.rest.part.graph, pieces_.rest.part.graph.inputs[i]);
    shapes_[i].assign(input.dims, input.dims + input.rank);
    const auto count = element_count(input.dims, input.rank);
    const auto bytes = count ? packed_size(tensor.dtype, *count) : std::nullopt;
    if (!bytes || input.size_bytes < *bytes || (!input.data && *bytes != 0))
      return Status::error(ErrorId::run_no_data,
                           format("tensor '%s': found %llu bytes, expected those of shape %s", printable(tensor.name),
                                  input.data ? input.size_bytes : 0, shape_text(input.dims, input.rank)));
  }
  return {};
}

bool Execution::Planned::serves(const Vector<qir::Shape> &wanted, std::int64_t *longer) const {
  *longer = 0;
  if (!lengths) return shapes == wanted;
  *longer = lengths->longer(wanted).value_or(-1);
  return *longer >= 0 && *longer <= most;
}

// `join`: it may be one of many lengths.
Result<PlannedRun *> Execution::plan_for(const Vector<qir::Shape> &shapes, bool join) {
  std::int64_t longer = 0;
  const auto found = std::ranges::find_if(
      plans_, [&](const Planned &planned) { return (join || !planned.lengths) && planned.serves(shapes, &longer); });
  if (found != plans_.end()) {
    std::rotate(found, found + 1, plans_.end());
    Planned &planned = plans_.back();
    if (!planned.lengths || planned.run->set_longer(longer).ok()) {
      figures_.hits.fetch_add(1, std::memory_order_relaxed);
      return planned.run.get();
    }
    std::rotate(plans_.begin(), plans_.end() - 1, plans_.end());  // not a plan of all those lengths after all
    drop_first();
  }
  QR_RETURN_IF_ERROR(qir::check_dimensions(pieces_.rest.part.graph, shapes));
  Result<Unique<PlannedRun>> planned = make_plan(shapes);
  if (!planned.ok()) return of_shapes(planned.take_status(), pieces_.rest.part.graph, shapes);
  Planned made{shapes, std::move(*planned), {}, 0};
  if (join && made.run) lengthen(made);
  keep(std::move(made));
  return plans_.back().run.get();
}

void Execution::keep(Planned &&made) {
  plans_.reserve(plans_.size() + 1);
  if (plans_.size() >= plans_kept_) drop_first();
  figures_.made.fetch_add(1, std::memory_order_relaxed);
  figures_.kept.fetch_add(1, std::memory_order_relaxed);
  figures_.bytes.fetch_add(made.run ? made.run->bytes() : 0, std::memory_order_relaxed);
  plans_.push_back(std::move(made));
}

// A plan of shapes that are a little shorter or longer, and that a plan of many lengths may follow.
bool Execution::near(const Vector<qir::Shape> &shapes, Lengths *lengths) const {
  for (const Planned &planned : plans_) {
    std::optional<Lengths> found = Lengths::from(shapes, planned.shapes);
    if (!found || !planner_.joins(*found)) continue;
    const std::int64_t longer = found->longer(planned.shapes).value_or(0);
    if (longer < -planned.most - kFirstReach || longer > kFirstReach) continue;
    *lengths = std::move(*found);
    return true;
  }
  return false;
}

// The plan of a length that follows another becomes one of many, where the plans of the next length, of one between and
// of the last are like it. What fails here fails no run.
void Execution::lengthen(Planned &made) {
  Refused next{{}, kFirstReach / 2};
  Lengths &lengths = next.lengths;
  if (!near(made.shapes, &lengths)) return;
  const auto refused =
      std::ranges::find_if(refused_, [&](const Refused &one) { return one.lengths.longer(made.shapes).has_value(); });
  if (refused != refused_.end()) {
    if (std::abs(*refused->lengths.longer(made.shapes)) <= refused->until) return;
    next.until = 2 * refused->until;
    refused_.erase(refused);
  }
  for (std::int64_t most = reach_; most >= kFirstReach / 8; most /= 2) {
    if (!qir::check_dimensions(pieces_.rest.part.graph, lengths.at(most)).ok()) continue;
    Planner::Sample samples[4] = {{0, {}}, {1, {}}, {most / 2 + 1, {}}, {most, {}}};
    bool all = true;
    for (std::size_t i = 4; all && --i > 0;) {
      Result<Unique<PlannedRun>> one = make_plan(lengths.at(samples[i].longer));
      all = one.ok() && *one;
      if (all) samples[i].run = std::move(*one);
      figures_.made.fetch_add(1, std::memory_order_relaxed), figures_.dropped.fetch_add(1, std::memory_order_relaxed);
    }
    if (!all) continue;  // there may be room for less
    samples[0].run = std::move(made.run);
    Unique<PlannedRun> joined = planner_.join(samples);
    const bool is_joined = joined && joined->set_longer(0).ok();
    made.run = is_joined ? std::move(joined) : std::move(samples[0].run);
    if (!is_joined) break;
    made.lengths = std::move(lengths), made.most = most;
    reach_ = std::min(2 * reach_, kMostReach);
    return;
  }
  if (refused_.size() >= kMostRefused) refused_.erase(refused_.begin());
  refused_.push_back(std::move(next));
  reach_ = kFirstReach;
}

Result<Unique<PlannedRun>> Execution::make_plan(std::span<const qir::Shape> shapes) {
  const PoolScope blocks;  // a plan is a compilation
  qir::Store store;
  reference::ReferenceFolder folder;
  qir::Graph graph = pieces_.rest.part.graph;
  QR_RETURN_IF_ERROR(passes::bind_dimensions(graph, shapes, folder, store));
  return planner_.plan(std::move(graph));
}

void Execution::drop_first() noexcept {
  figures_.dropped.fetch_add(1, std::memory_order_relaxed);
  figures_.kept.fetch_sub(1, std::memory_order_relaxed);
  figures_.bytes.fetch_sub(plans_.front().run ? plans_.front().run->bytes() : 0, std::memory_order_relaxed);
  if (plans_.front().run.get() == giver_) dropped_ = std::move(plans_.front().run);
  plans_.erase(plans_.begin());
}

void Execution::drop_plans() noexcept {
  while (!plans_.empty()) drop_first();
  giver_ = nullptr, dropped_.reset();
}

Status Execution::prepare(std::string_view text) {
  const qir::Graph &graph = pieces_.rest.part.graph;
  QR_ASSIGN_OR_RETURN(const Vector<Vector<std::int64_t>> wanted, prepared_shapes(graph, text));
  for (const Vector<std::int64_t> &numbers : wanted) {
    std::optional<Vector<qir::Shape>> shapes = qir::bound_shapes(graph, numbers);
    if (shapes) QR_RETURN_IF_ERROR(plan_for(*shapes).take_status());
  }
  return {};
}

Status Execution::run(std::span<const qr_io_buffer> inputs, std::span<qr_io_buffer> outputs,
                      const qr_run_request &request, const qr_host &host, std::uint64_t *events) {
  const Pieces::Piece &telling = pieces_.telling, &rest = pieces_.rest;
  const auto start = [&](const Pieces::Piece &piece, Vector<qr_io_buffer> &reads, Vector<qr_io_buffer> &writes) {
    for (std::size_t i = 0; i < reads.size(); ++i)
      reads[i] = piece.reads[i].made ? telling_outputs_[piece.reads[i].index] : inputs[piece.reads[i].index];
    for (std::size_t i = 0; i < writes.size(); ++i) {
      writes[i] = {};
      writes[i].wanted = 1;
      if (piece.part.positions[i] != qir::kAbsent) writes[i] = outputs[index_of(piece.part.positions[i])];
    }
  };
  const auto finish = [&](const Pieces::Piece &piece, const Vector<qr_io_buffer> &writes) {
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (piece.part.positions[i] == qir::kAbsent) continue;
      qr_io_buffer &to = outputs[index_of(piece.part.positions[i])];
      void *const given = to.data;
      const std::uint32_t wanted = to.wanted;
      to = writes[i];
      to.wanted = wanted;
      if (!wanted) to.data = given;
    }
  };
  start(telling, telling_inputs_, telling_outputs_);
  for (qr_io_buffer &made : telling_outputs_) {  // the rest may read what the caller does not want
    if (!made.wanted) made.data = nullptr, made.wanted = 1;
  }
  QR_RETURN_IF_ERROR(run_part(telling_, telling_inputs_, telling_outputs_, request, host, events));
  finish(telling, telling_outputs_);
  if (rest_outputs_.empty()) return {};
  for (qr_io_buffer &made : telling_outputs_) made.size_bytes = made.used_bytes;
  start(rest, rest_inputs_, rest_outputs_);
  PlannedRun *planned = nullptr;
  if (wants_plan()) {
    QR_RETURN_IF_ERROR(take_shapes());
    const plugin::StopToken stop(request.signal, host);
    const StopScope scope(stop);
    // (What a profile says of shapes is of this run.)
    QR_ASSIGN_OR_RETURN(planned, plan_for(shapes_, !plugin::wants_nodes(request.profile)));
  }
  if (planned) {
    qr_run_request inner = request;
    inner.inputs = rest_inputs_.data(), inner.input_count = rest_inputs_.size();
    inner.outputs = rest_outputs_.data(), inner.output_count = rest_outputs_.size();
    QR_RETURN_IF_ERROR(planned->run(inner, host, events));
    giver_ = planned;
    dropped_.reset();
  } else {
    QR_RETURN_IF_ERROR(run_part(rest_, rest_inputs_, rest_outputs_, request, host, events));
  }
  finish(rest, rest_outputs_);
  return {};
}

}  // namespace quarry::dynamic
