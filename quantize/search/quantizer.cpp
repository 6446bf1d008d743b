// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/quantizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "quantize/plan/weights.h"
#include "quantize/ranges/compare.h"
#include "quantize/report/verdict.h"
#include "quantize/search/precision.h"
#include "quantize/stop.h"
#include "quantize/weights/improve.h"

namespace quarry::quantize {
namespace {

using qir::at;

// Option tensor_types.
Status read_types(const Vector<String> &entries, Overrides &out) {
  for (const String &entry : entries) {
    const std::size_t equals = entry.rfind('=');
    const DType dtype = equals == String::npos
                            ? DType::Unknown
                            : dtype_from_name(std::string_view(entry).substr(equals + 1)).value_or(DType::Unknown);
    if (!is_integer(dtype) || dtype_bits(dtype) < 8 || dtype_bits(dtype) > 16)
      return Status::error(ErrorId::bad_option_value,
                           format("option tensor_types: found \"%s\", expected NAME=TYPE with u8, i8, u16 or i16",
                                  printable(entry)))
          .with("option", "tensor_types");
    out[entry.substr(0, equals)].own.dtype = dtype;
  }
  return {};
}

}  // namespace

Result<Unique<Quantizer>> Quantizer::open(qr_runtime *runtime, const qr_model_source &from, qr_signal *signal) {
  auto made = make_unique<Quantizer>();
  qr_options *options = nullptr;
  QR_RETURN_IF_ERROR(from_library(qr::Status(qr_options_create(runtime, &options))));
  made->keeps_runtime_ = qr::Options(options);
  made->runtime_ = runtime;
  made->path_ = String(path_of(from));
  if (qr_prepare_for_quantize()->release != prepare::kRelease)
    return Status::error(ErrorId::prepare_mismatch,
                         "libquarry-quantize and libquarry-prepare: found two releases, expected one");
  // The folder first and the file in it: its external data are from beside it, whatever is renamed meanwhile.
  OpenFd folder = folder_of(from);
  QR_ASSIGN_OR_RETURN(made->file_, read_source("model", from));
  CalledExternal external(from);
  auto model = in_prepare(signal, [&] {
    return qr_prepare_for_quantize()->open_model(made->file_.all, std::move(folder),
                                                 from.external ? &external : nullptr);
  });
  if (!model.ok()) {
    Status status = model.take_status();
    if (!made->path_.empty()) status.with("file", made->path_);
    return status;
  }
  made->model_ = std::move(*model);
  made->external_ = external.take();
  return made;
}

Status Quantizer::set(std::string_view key, std::string_view value) {
  if (prepared_)
    return Status::error(ErrorId::option_not_at_run_time,
                         format("option %s: found that the model is prepared already, expected options before that",
                                printable(key)),
                         "set options before the inputs are asked for and samples are given")
        .with("option", key);
  QR_RETURN_IF_ERROR(settings_.set(key, value));
  given_.push_back({String(key), String(value)});
  return {};
}

Status Quantizer::prepare(qr_signal *signal) {
  if (prepared_) return {};
  Vector<Change> changes;
  Status status =
      in_prepare(signal, [&] { return model_->prepare(settings_.shape, settings_.channels_last, &changes); });
  if (!status.ok()) return path_.empty() ? std::move(status) : std::move(status).with("file", path_);
  overrides_.clear();
  target_.reset();
  if (settings_.target.empty() &&
      std::ranges::find(given_, "budget", &std::pair<String, String>::first) != given_.end())
    return Status::error(ErrorId::option_conflict,
                         format("option budget: found %g without the option target, expected both: it bounds what a "
                                "target may take",
                                settings_.budget),
                         "set target=sqnr=DB, top1=PERCENT or cosine=X too, or leave budget out")
        .with("option", "budget");
  if (!settings_.target.empty()) {
    QR_ASSIGN_OR_RETURN(target_, read_target(settings_.target));
  }
  if (!settings_.overrides.empty()) {
    QR_ASSIGN_OR_RETURN(overrides_, read_overrides(settings_.overrides));
  }
  QR_RETURN_IF_ERROR(read_types(settings_.tensor_types, overrides_));
  if (settings_.equalize) equalize_layers(model_->graph, model_->store, &changes);
  QR_RETURN_IF_ERROR(stop_status(kStopped));
  QR_ASSIGN_OR_RETURN(layout_, lay_out(model_->graph, settings_, overrides_));
  if (std::ranges::find(layout_.quantized, true) == layout_.quantized.end())
    return Status::error(ErrorId::bad_argument,
                         "nothing of the model is quantised: found no node with a rule that "
                         "does not stay in float, expected one",
                         "see options float_nodes and float_operators");
  QR_ASSIGN_OR_RETURN(calibration_, Calibration::make(runtime_, model_->graph, observed_tensors(model_->graph, layout_),
                                                      settings_.range, settings_.threads, signal));
  prepared_changes_ = std::move(changes);
  model_sum_ = model_->sum();
  prepared_ = true;
  return {};
}

Result<Vector<qr_tensor_info>> Quantizer::inputs(qr_signal *signal) {
  QR_RETURN_IF_ERROR(prepare(signal));
  Vector<qr_tensor_info> out;
  for (const std::int32_t id : model_->graph.inputs) {
    const qir::Tensor &tensor = at(model_->graph, id);
    qr_tensor_info info = QR_TENSOR_INFO_INIT;
    info.dtype = static_cast<qr_dtype>(tensor.dtype);
    info.rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::int64_t count = 1;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) info.dims[d] = tensor.shape[d], count *= tensor.shape[d];
    info.size_bytes = packed_size(tensor.dtype, count).value_or(0);
    info.name = {tensor.name.data(), tensor.name.size()};
    out.push_back(info);
  }
  return out;
}

Status Quantizer::check_sample(const qr_tensor *const *tensors, std::uint64_t count) const {
  const qir::Graph &graph = model_->graph;
  if (count != graph.inputs.size())
    return Status::error(ErrorId::bad_argument, format("a sample: found %llu tensors, expected %zu, one for each input",
                                                       count, graph.inputs.size()));
  for (std::size_t i = 0; i < count; ++i) {
    const qir::Tensor &input = at(graph, graph.inputs[i]);
    if (!tensors[i] || (!tensors[i]->data && !tensors[i]->const_data && tensors[i]->size_bytes > 0))
      return Status::error(ErrorId::bad_argument,
                           format("a sample: found nothing for input '%s', expected its data", printable(input.name)))
          .with("tensor", input.name);
    const qr_tensor &given = *tensors[i];
    // Files often have a scalar as an array of one element.
    const bool is_scalar = input.shape.empty() && given.rank == 1 && given.dims[0] == 1;
    const bool same = (is_scalar || given.rank == input.shape.size()) &&
                      given.dtype == static_cast<qr_dtype>(input.dtype) &&
                      std::equal(input.shape.begin(), input.shape.end(), given.dims);
    const std::int64_t elements = [&] {
      std::int64_t product = 1;
      for (const std::int64_t extent : input.shape) product *= extent;
      return product;
    }();
    if (!same || given.size_bytes != packed_size(input.dtype, elements).value_or(0))
      return Status::error(
                 ErrorId::bad_argument,
                 format("a sample: input '%s': found %s%s of %llu bytes, expected %s%s", printable(input.name),
                        qr_dtype_name(given.dtype), shape_text(given.dims, std::min(given.rank, 8u)), given.size_bytes,
                        dtype_name(input.dtype), shape_text(input.shape.data(), input.shape.size())))
          .with("tensor", input.name);
  }
  return {};
}

Status Quantizer::add_sample(const qr_tensor *const *tensors, std::uint64_t count, qr_signal *signal,
                             const qr_progress *progress) {
  if (!prepared_) tell(progress, 0, 0, "preparing the model");
  QR_RETURN_IF_ERROR(prepare(signal));
  QR_RETURN_IF_ERROR(check_sample(tensors, count));
  // With the first sample that is not kept: what fails in it leaves no sample behind that counts.
  if (kept_.size() == settings_.evaluate) QR_RETURN_IF_ERROR(choose_graph(signal, progress));
  tell(progress, samples(), 0, "looking at a sample");
  std::vector<qr::Tensor> inputs(count);
  for (std::size_t i = 0; i < count; ++i) {
    static_cast<qr_tensor &>(inputs[i]) = *tensors[i];
    inputs[i].rank = static_cast<std::uint32_t>(at(model_->graph, model_->graph.inputs[i]).shape.size());
  }
  const std::uint64_t number = samples() + 1;
  const bool held = holds_back(number, held_.size());
  QR_RETURN_IF_ERROR(held ? calibration_->check(inputs, number, signal) : calibration_->add(inputs, number, signal));
  note_variety(inputs);
  if (held) {
    held_.push_back(copy_of_sample(inputs));
  } else if (kept_.size() < settings_.evaluate) {
    kept_.push_back(copy_of_sample(inputs));
    means_ = {};
  }
  return {};
}

Quantizer::Sample Quantizer::copy_of_sample(const std::vector<qr::Tensor> &inputs) {
  Sample sample;
  for (const qr::Tensor &tensor : inputs) {
    const auto *from = static_cast<const std::uint8_t *>(tensor.bytes());
    sample.emplace_back(from, from + tensor.size_bytes);
  }
  return sample;
}

bool Quantizer::holds_back(std::uint64_t number, std::size_t held) const noexcept {
  constexpr std::uint64_t kEach = 5;
  const std::size_t most = settings_.evaluate / 2;
  return settings_.hold_back && most >= kFewestHeld && number > kEach && number % kEach == 1 && held < most;
}

std::uint64_t Quantizer::number_of(std::size_t kept) const noexcept {
  std::uint64_t number = 0;
  std::size_t held = 0, found = 0;
  while (found <= kept) {
    ++number;
    const bool is_held = held < held_.size() && holds_back(number, held);
    (is_held ? held : found) += 1;
  }
  return number;
}

// Too few are calibrated with, as if none had been held back.
Status Quantizer::evaluate_by_enough(qr_signal *signal, const qr_progress *progress) {
  if (held_.size() >= kFewestHeld) return {};
  while (!held_.empty()) {
    const bool is_kept = kept_.size() < settings_.evaluate;
    if (!is_kept) QR_RETURN_IF_ERROR(choose_graph(signal, progress));
    QR_RETURN_IF_ERROR(calibration_->add(sample_of(held_.front()), samples(), signal));
    if (is_kept) kept_.push_back(std::move(held_.front())), means_ = {};
    held_.erase(held_.begin());
  }
  return {};
}

// Inputs of several elements are looked at; where there are none, nothing is asked of them.
void Quantizer::note_variety(const std::vector<qr::Tensor> &inputs) {
  const bool is_first = first_elements_.empty();
  bool has_several = false;
  for (std::size_t i = 0; i < inputs.size() && !varied_; ++i) {
    const auto *bytes = static_cast<const std::uint8_t *>(inputs[i].bytes());
    const std::uint64_t size = inputs[i].size_bytes,
                        step = dtype_bits(at(model_->graph, model_->graph.inputs[i]).dtype) / 8;
    if (is_first) first_elements_.emplace_back(bytes, bytes + std::min(size, step));
    if (step == 0 || size <= step) continue;
    has_several = true;
    varied_ = std::memcmp(bytes, bytes + step, static_cast<std::size_t>(size - step)) != 0 ||
              std::memcmp(bytes, first_elements_[i].data(), static_cast<std::size_t>(step)) != 0;
  }
  varied_ = varied_ || !has_several;
}

Status Quantizer::check_variety() const {
  if (varied_) return {};
  return Status::error(
      ErrorId::bad_argument,
      format(
          "samples: found every input of %llu of them to be one and the same number all over, as black pictures are, "
          "expected inputs like those that the model will see",
          samples()),
      "ranges that come from such samples cut off all that the model will see");
}

Status Quantizer::write(TargetWriter &out, qr_signal *signal, const qr_progress *progress) {
  QR_RETURN_IF_ERROR(prepare(signal));
  if (samples() == 0)
    return Status::error(ErrorId::bad_argument,
                         "no samples: found none, expected at least one before the model is "
                         "written",
                         "give inputs like those that the model will see");
  QR_RETURN_IF_ERROR(check_variety());
  QR_RETURN_IF_ERROR(evaluate_by_enough(signal, progress));
  tell(progress, 0, 0, "turning ranges into scales and zero points");
  QR_RETURN_IF_ERROR(choose_graph(signal, progress));
  QR_RETURN_IF_ERROR(choose_ranges(signal, progress));
  Overrides overrides = overrides_;
  QR_RETURN_IF_ERROR(choose_types(signal, progress, &overrides));
  QR_RETURN_IF_ERROR(choose_rounding(overrides, signal, progress));
  QR_ASSIGN_OR_RETURN(Plan plan, lay_out(model_->graph, settings_, overrides));
  QR_RETURN_IF_ERROR(give_encodings(model_->graph, settings_, overrides, *calibration_, &plan, &weights_));
  report_.changes = prepared_changes_;
  for (const Vector<Change> *list : {&graph_changes_, &range_changes_, &target_changes_, &rounding_changes_})
    report_.changes.insert(report_.changes.end(), list->begin(), list->end());
  QR_RETURN_IF_ERROR(improve(&plan, signal, progress, &report_.changes));
  qir::Store store;
  const qir::Graph quantized = write_qdq(model_->graph, plan, store);
  QR_RETURN_IF_ERROR(qir::validate_graph(quantized));
  describe(plan);
  QR_RETURN_IF_ERROR(evaluate(quantized, plan, signal, progress));
  const auto is_below = [&](const OutputEntry &output) {
    return target_->of({output.sqnr, output.cosine, 0, 100 * output.top1.value_or(1)}) < target_->value;
  };
  const bool missed = target_ && report_.held_back > 0 && std::ranges::any_of(report_.outputs, is_below);
  const bool in_decibels = target_ && target_->measure == Target::Measure::Sqnr;
  report_.verdict = verdict_of(report_, settings_, missed, in_decibels ? target_->value : 0);
  QR_RETURN_IF_ERROR(stop_status(kStopped));
  QR_RETURN_IF_ERROR(out.finish(
      in_prepare(signal, [&] { return qr_prepare_for_quantize()->write_model(quantized, out.name(), out); })));
  report_.float_bytes = model_->file_bytes;
  report_.quantized_bytes = out.bytes();
  written_ = true;
  return {};
}

std::vector<qr::Tensor> Quantizer::sample_of(Sample &sample) const {
  const qir::Graph &graph = model_->graph;
  std::vector<qr::Tensor> inputs;
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    const qir::Tensor &input = at(graph, graph.inputs[i]);
    inputs.emplace_back(static_cast<qr_dtype>(input.dtype), qr::Shape(input.shape.data(), input.shape.size()),
                        sample[i].data());
  }
  return inputs;
}

// `step`: 2 for every second sample, from the first.
Feed Quantizer::feed(qr_signal *signal, const qr_progress *progress, std::size_t step) {
  return [this, signal, progress, step](const Vector<std::int32_t> &tensors, const auto &give) -> Status {
    const qir::Graph &graph = model_->graph;
    Vector<std::int32_t> made;  // the others are inputs of the model
    Vector<std::int32_t> input(tensors.size(), -1);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const auto found = std::ranges::find(graph.inputs, tensors[i]);
      if (found != graph.inputs.end()) input[i] = static_cast<std::int32_t>(found - graph.inputs.begin());
      else made.push_back(tensors[i]);
    }
    Unique<Runner> runner;
    if (!made.empty()) {
      QR_ASSIGN_OR_RETURN(runner, Runner::make(runtime_, graph, made, settings_.threads, signal));
    }
    for (std::size_t s = 0; s < kept_.size(); s += step) {
      tell(progress, s, kept_.size(), "looking at the inputs of Conv, Gemm and MatMul");
      const std::vector<qr::Tensor> inputs = sample_of(kept_[s]);
      if (runner) QR_RETURN_IF_ERROR(runner->run(inputs, signal));
      for (std::size_t i = 0, result = 0; i < tensors.size(); ++i)
        give(i, input[i] >= 0 ? floats(inputs[index_of(input[i])]) : floats(runner->results()[result++]));
    }
    return {};
  };
}

// Weights and biases, by what the samples that were kept say of the inputs of Conv, Gemm and MatMul.
Status Quantizer::improve(Plan *plan, qr_signal *signal, const qr_progress *progress, Vector<Change> *changes) {
  const Improvements wanted{rounds_, settings_.bias_correction, calibration_->threads(), signal};
  return improve_weights(model_->graph, feed(signal, progress), wanted, &means_, plan, changes);
}

namespace {

TensorEntry entry_of_activation(const qir::Graph &graph, const qir::Uses &uses, std::int32_t id,
                                const Encoding &encoding, const Observer *observer) {
  TensorEntry entry;
  entry.name = at(graph, id).name;
  if (const std::int32_t n = uses.maker(id); n != qir::Uses::kNobody) {
    entry.node = graph.nodes[index_of(n)].name;
    entry.op = qir::op_text(graph.nodes[index_of(n)]);
  }
  entry.shape = at(graph, id).shape;
  entry.dtype = encoding.dtype;
  entry.scale = encoding.scale;
  entry.zero_point = encoding.zero_point;
  entry.range = covered(encoding);
  if (observer) {
    entry.seen = observer->seen();
    entry.histogram = observer->histogram();
    const Observer::Loss loss = observer->loss(encoding);
    entry.clipped = loss.clipped;
    entry.sqnr_alone = std::min(loss.sqnr, kNoNoise);
  }
  return entry;
}

TensorEntry entry_of_constant(const qir::Graph &graph, const Constant &constant) {
  TensorEntry entry;
  const qir::Tensor &tensor = at(graph, constant.tensor);
  const qir::Node &node = graph.nodes[index_of(constant.node)];
  entry.name = tensor.name;
  entry.node = node.name;
  entry.op = qir::op_text(node);
  entry.shape = tensor.shape;
  entry.is_weight = true;
  entry.dtype = constant.dtype;
  entry.channels = static_cast<std::uint32_t>(constant.quant.scales.size());
  const auto widest = std::ranges::max_element(constant.quant.scales) - constant.quant.scales.begin();
  entry.scale = constant.quant.scales[0];
  entry.zero_point = constant.quant.zero_points[0];
  entry.range =
      covered({constant.dtype, constant.quant.scales[index_of(widest)], constant.quant.zero_points[index_of(widest)]});
  describe_weights(constant, tensor, &entry);
  return entry;
}

LayerEntry entry_of_layer(const qir::Graph &graph, const Plan &plan, std::size_t n) {
  LayerEntry layer;
  layer.node = graph.nodes[n].name;
  layer.op = qir::op_text(graph.nodes[n]);
  layer.quantized = plan.quantized[n];
  for (const std::int32_t id : graph.nodes[n].outputs) {
    if (id == qir::kAbsent) continue;
    layer.outputs.push_back(at(graph, id).name);
    if (plan.activations[index_of(id)].quantized)
      layer.bits = dtype_bits(plan.activations[index_of(id)].encoding.dtype);
  }
  return layer;
}

}  // namespace

void Quantizer::describe(const Plan &plan) {
  const qir::Graph &graph = model_->graph;
  const qir::Uses uses(graph);
  report_.model = path_;
  report_.backend = "cpu";
  report_.samples = samples();
  report_.settings.clear();
  for (const OptionText &row : option_texts()) {
    String value(row.fallback);
    for (const auto &[key, given] : given_)
      if (key == row.key) value = given;
    report_.settings.push_back({String(row.key), value});
  }
  report_.tensors.clear();
  report_.layers.clear();
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const Activation &a = plan.activations[i];
    if (a.quantized)
      report_.tensors.push_back(entry_of_activation(graph, uses, id, a.encoding, calibration_->observer(id)));
  }
  for (const Constant &constant : plan.constants) report_.tensors.push_back(entry_of_constant(graph, constant));
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) report_.layers.push_back(entry_of_layer(graph, plan, n));
  const Operations counted = count_operations(graph, plan);
  report_.operations = {counted.all - counted.wide, counted.wide,
                        static_cast<std::uint64_t>(std::ranges::count(plan.quantized, false))};
}

namespace {

// Tensors that the float graph and the quantised one both have; outputs of the model first.
struct SharedTensors {
  Vector<std::int32_t> real, coded;  // in either graph
  std::size_t outputs = 0;
};

SharedTensors shared_tensors(const qir::Graph &graph, const qir::Graph &quantized, const Plan &plan) {
  // By name in the quantised graph, with what it makes of them.
  StringMap<std::int32_t> named;
  for (std::size_t i = 0; i < quantized.tensors.size(); ++i)
    named.emplace(quantized.tensors[i].name, static_cast<std::int32_t>(i));
  SharedTensors out;
  const qir::Uses uses(graph);
  const auto add = [&](std::int32_t id, std::string_view name) {
    const auto there = named.find(name);
    if (there == named.end() || uses.maker(id) == qir::Uses::kNobody || at(graph, id).dtype != DType::F32) return;
    if (std::ranges::find(out.real, id) != out.real.end() ||
        std::ranges::find(out.coded, there->second) != out.coded.end())
      return;
    out.real.push_back(id);
    out.coded.push_back(there->second);
  };
  for (const std::int32_t id : graph.outputs) add(id, at(graph, id).name);
  out.outputs = out.real.size();
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (plan.activations[i].quantized) add(static_cast<std::int32_t>(i), dequantized_name(graph.tensors[i].name));
  return out;
}

// How far each shared tensor is from the float one.
struct Distances {
  explicit Distances(const SharedTensors &of) : coded(of.real.size()), on_device(of.real.size()), agree(of.outputs) {}
  Vector<Comparison> coded, on_device;
  Vector<std::uint64_t> agree;  // of outputs: samples with the same greatest element
  bool has_device = false;
};

void report_distances(const qir::Graph &graph, const SharedTensors &shared, const Distances &found, std::size_t samples,
                      Report &report) {
  for (std::size_t i = 0; i < shared.outputs; ++i) {
    OutputEntry entry;
    entry.name = at(graph, shared.real[i]).name;
    entry.sqnr = found.coded[i].sqnr();
    entry.cosine = found.coded[i].cosine();
    if (found.has_device) entry.sqnr_device = found.on_device[i].sqnr();
    if (is_scores(at(graph, shared.real[i])))
      entry.top1 = static_cast<double>(found.agree[i]) / static_cast<double>(samples);
    report.outputs.push_back(std::move(entry));
  }
  for (std::size_t i = 0; i < shared.real.size(); ++i) {
    const String &name = at(graph, shared.real[i]).name;
    const auto set = [&](auto &entry) {
      entry.sqnr = found.coded[i].sqnr();
      if (found.has_device) entry.sqnr_device = found.on_device[i].sqnr();
    };
    for (TensorEntry &entry : report.tensors)
      if (!entry.is_weight && entry.name == name) set(entry);
    for (LayerEntry &layer : report.layers)
      if (std::ranges::find(layer.outputs, name) != layer.outputs.end()) set(layer);
  }
}

}  // namespace

// The float model and the quantised one on the samples that were kept: outputs, and each tensor between.
Status Quantizer::evaluate(const qir::Graph &quantized, const Plan &plan, qr_signal *signal,
                           const qr_progress *progress) {
  report_.outputs.clear();
  Vector<Sample> &compared = held_.empty() ? kept_ : held_;
  report_.evaluated = compared.size();
  report_.held_back = held_.size();
  if (compared.empty()) return {};
  const qir::Graph &graph = model_->graph;
  const SharedTensors shared = shared_tensors(graph, quantized, plan);
  if (shared.real.empty()) return {};
  QR_ASSIGN_OR_RETURN(Unique<Runner> real, Runner::make(runtime_, graph, shared.real, settings_.threads, signal));
  QR_ASSIGN_OR_RETURN(Unique<Runner> coded, Runner::make(runtime_, quantized, shared.coded, settings_.threads, signal));
  Unique<Runner> device;
  report_.device = settings_.compare_on;
  if (!settings_.compare_on.empty()) {
    tell(progress, 0, 0, "compiling for the backend to compare with");
    QR_ASSIGN_OR_RETURN(
        device, Runner::make(runtime_, quantized, shared.coded, settings_.threads, signal, settings_.compare_on));
  }
  constexpr std::size_t kMostOnDevice = 4;  // an emulator takes its time
  Distances distances(shared);
  distances.has_device = device != nullptr;
  for (std::size_t s = 0; s < compared.size(); ++s) {
    tell(progress, s, compared.size(), "comparing with the float model");
    const std::vector<qr::Tensor> inputs = sample_of(compared[s]);
    QR_RETURN_IF_ERROR(real->run(inputs, signal));
    QR_RETURN_IF_ERROR(coded->run(inputs, signal));
    const bool on_device = device && s < kMostOnDevice;
    if (on_device) QR_RETURN_IF_ERROR(device->run(inputs, signal));
    for (std::size_t i = 0; i < shared.real.size(); ++i) {
      const std::span<const float> a = floats(real->results()[i]), b = floats(coded->results()[i]);
      distances.coded[i].add(a, b);
      if (on_device) distances.on_device[i].add(a, floats(device->results()[i]));
      if (i < shared.outputs && !a.empty()) distances.agree[i] += greatest(a) == greatest(b);
    }
  }
  report_distances(graph, shared, distances, compared.size(), report_);
  return {};
}

}  // namespace quarry::quantize
