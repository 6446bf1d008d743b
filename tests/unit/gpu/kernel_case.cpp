// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/gpu/kernel_case.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/common/view.h"
#include "backends/gpu/compile/compile.h"
#include "base/float16.h"

namespace quarry::test {

namespace {

using Data = std::vector<std::uint8_t>;

// So many graphs are a program.
constexpr std::size_t kMostGraphs = 24;

std::size_t elements_of(const qir::Tensor &tensor) { return static_cast<std::size_t>(strided::count_of(tensor.shape)); }

// Numbers of [-4, 4]; `special`: some are NaN, infinite, zero of either sign, or the ends of the type.
Data numbers(const qir::Tensor &tensor, bool special, std::uint32_t seed) {
  const std::size_t count = elements_of(tensor);
  Data bytes(count * dtype_bits(tensor.dtype) / 8);
  std::uint32_t state = seed;
  for (std::size_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    float value = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) * 8 - 4;
    constexpr float kSpecial[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e30f, -1e30f, 0.5f, -2.5f};
    if (special && i % 3 == 0) value = kSpecial[i / 3 % std::size(kSpecial)];
    std::uint8_t *const to = bytes.data() + i * dtype_bits(tensor.dtype) / 8;
    switch (tensor.dtype) {
      case DType::F32: std::memcpy(to, &value, 4); break;
      case DType::F16: {
        const std::uint16_t half = f32_to_f16(value);
        std::memcpy(to, &half, 2);
        break;
      }
      case DType::BF16: {
        const std::uint16_t half = f32_to_bf16(value);
        std::memcpy(to, &half, 2);
        break;
      }
      case DType::F64: {
        const double wide = value;
        std::memcpy(to, &wide, 8);
        break;
      }
      case DType::Bool: *to = state >> 31; break;
      case DType::I32:
      case DType::U32: {
        const std::int32_t integer = special && i % 5 == 0 ? INT32_MIN : static_cast<std::int32_t>(state >> 20) - 2048;
        std::memcpy(to, &integer, 4);
        break;
      }
      case DType::I64:
      case DType::U64: {
        const std::int64_t integer = special && i % 5 == 0 ? INT64_MIN : static_cast<std::int64_t>(state >> 24) - 128;
        std::memcpy(to, &integer, 8);
        break;
      }
      default: *to = static_cast<std::uint8_t>(state >> 24); break;
    }
  }
  return bytes;
}

double number_at(DType dtype, const Data &data, std::size_t i) {
  switch (dtype) {
    case DType::F32: return reinterpret_cast<const float *>(data.data())[i];
    case DType::F64: return reinterpret_cast<const double *>(data.data())[i];
    case DType::F16: return f16_to_f32(reinterpret_cast<const std::uint16_t *>(data.data())[i]);
    case DType::BF16: return bf16_to_f32(reinterpret_cast<const std::uint16_t *>(data.data())[i]);
    case DType::Bool: return data[i] != 0;
    default: return static_cast<double>(qir::stored_integer(dtype, data.data(), i));
  }
}

std::vector<Data> by_reference(const qir::Graph &graph, std::vector<Data> &given) {
  auto program = reference::Program::build(graph);
  REQUIRE_OK(program);
  reference::Execution execution(**program);
  struct Alone final : reference::Environment {
  } alone;
  std::vector<reference::IoBuffer> inputs(graph.inputs.size()), outputs(graph.outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const qir::Tensor &tensor = qir::at(graph, graph.inputs[i]);
    inputs[i].data = given[i].data(), inputs[i].size_bytes = given[i].size();
    inputs[i].rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), inputs[i].dims);
  }
  REQUIRE_OK(execution.run(inputs.data(), inputs.size(), outputs.data(), outputs.size(), alone));
  std::vector<Data> results;
  for (const reference::IoBuffer &output : outputs) {
    const auto *bytes = static_cast<const std::uint8_t *>(output.data);
    results.emplace_back(bytes, bytes + output.used_bytes);
  }
  return results;
}

std::uint64_t no_clock(void *) { return 0; }

}  // namespace

std::shared_ptr<const gpu::Engine> engine_under_test() {
  struct Found {
    gpu::Machine machine;
    std::shared_ptr<const gpu::Engine> engine;
    Found() {
      auto chosen = machine.choose(0, "");
      if (!chosen.ok()) return;
      auto made = gpu::Engine::make(machine.library(), **chosen);
      REQUIRE_OK(made);
      engine = *made;
    }
  };
  static const Found &found = *new Found;  // drivers may be gone when the program ends
  if (!found.engine) MESSAGE("no OpenCL device here: not tested");
  return found.engine;
}

std::vector<Data> Cases::by_device() {
  const qir::Graph &graph = graph_;
  const auto engine = engine_under_test();
  auto compiled = gpu::compile(graph, {}, target_.value_or(gpu::target_of(engine->device())));
  REQUIRE_OK(compiled);
  for (const Status &refused : compiled->refused) REQUIRE_OK(refused);
  gpu::Blob made;
  made.plan = std::move(compiled->plan);
  if (change_) change_(made.plan);
  const Vector<std::uint8_t> bytes = gpu::write_blob(made);
  const Vector<qir::Bytes> segments{{compiled->packed.data(), compiled->packed.size()}};
  auto blob = gpu::read_blob({bytes.data(), bytes.size()}, segments);
  REQUIRE_OK(blob);
  String note;
  auto loaded = gpu::LoadedContext::load(engine, std::move(*blob), segments, nullptr, &note);
  REQUIRE_OK(loaded);
  auto execution = gpu::Execution::make(**loaded, {});
  REQUIRE_OK(execution);
  std::vector<Data> results;
  std::vector<qr_io_buffer> inputs(graph.inputs.size()), outputs(graph.outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    inputs[i].data = given_[i].data(), inputs[i].size_bytes = given_[i].size();
  for (const std::int32_t id : graph.outputs) {
    const qir::Tensor &tensor = qir::at(graph, id);
    results.emplace_back(elements_of(tensor) * dtype_bits(tensor.dtype) / 8, std::uint8_t{0xee});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i].data = results[i].data(), outputs[i].size_bytes = results[i].size(), outputs[i].wanted = 1;
  qr_host host{};
  host.clock_ns = no_clock;
  const plugin::HostAllocator unused(&host);
  qr_run_request request{};
  request.struct_size = sizeof request;
  request.inputs = inputs.data(), request.input_count = inputs.size();
  request.outputs = outputs.data(), request.output_count = outputs.size();
  for (int twice = 0; twice < 2; ++twice) REQUIRE_OK((*execution)->run(request, host));
  return results;
}

void Cases::same(const Pieces &p, const char *what, bool special, double tolerance) {
  CAPTURE(std::string(what));
  REQUIRE_OK(qir::validate_graph(p.graph));
  const auto first = static_cast<std::int32_t>(graph_.tensors.size());
  for (const qir::Tensor &tensor : p.graph.tensors) {
    qir::Tensor &made = graph_.tensors.emplace_back(tensor);
    made.name = format("%zu.%s", count_, tensor.name.c_str());
    if (made.is_constant) made.data = store_->copy(tensor.data.data, tensor.data.size);
  }
  const auto moved = [&](const Vector<std::int32_t> &ids) {
    Vector<std::int32_t> out;
    for (const std::int32_t id : ids) out.push_back(id == qir::kAbsent ? id : id + first);
    return out;
  };
  for (const qir::Node &node : p.graph.nodes) {
    const auto source = static_cast<std::int32_t>(graph_.nodes.size());
    qir::Node &made = graph_.nodes.emplace_back(node);
    made.name = format("%zu.%s", count_, node.name.c_str()), made.source = source;
    made.inputs = moved(node.inputs), made.outputs = moved(node.outputs);
  }
  for (std::size_t i = 0; i < p.graph.inputs.size(); ++i)
    given_.push_back(numbers(qir::at(p.graph, p.graph.inputs[i]), special, static_cast<std::uint32_t>(i) * 77 + 12345));
  for (const std::int32_t id : moved(p.graph.inputs)) graph_.inputs.push_back(id);
  for (const std::int32_t id : moved(p.graph.outputs)) {
    graph_.outputs.push_back(id);
    outputs_.push_back({what, tolerance});
  }
  if (++count_ % kMostGraphs == 0) run();
}

void Cases::run() {
  if (graph_.nodes.empty()) return;
  graph_.name = "cases";
  REQUIRE_OK(qir::validate_graph(graph_));
  const std::vector<Data> wanted = by_reference(graph_, given_), found = by_device();
  for (std::size_t o = 0; o < wanted.size(); ++o) {
    CAPTURE(outputs_[o].what);
    const qir::Tensor &tensor = qir::at(graph_, graph_.outputs[o]);
    REQUIRE_EQ(wanted[o].size(), found[o].size());
    double largest = 1e-30, worst = 0;
    std::size_t where = 0;
    const std::size_t count = elements_of(tensor);
    for (std::size_t i = 0; i < count; ++i) {
      const double value = std::fabs(number_at(tensor.dtype, wanted[o], i));
      if (value < 1e20) largest = std::max(largest, value);
    }
    for (std::size_t i = 0; i < count; ++i) {
      const double a = number_at(tensor.dtype, wanted[o], i), b = number_at(tensor.dtype, found[o], i);
      if (a == b || (a != a && b != b) || (std::fabs(a) >= 1e20 && std::fabs(b - a) <= 1e-5 * std::fabs(a))) continue;
      // A NaN on one side alone is as far off as can be: it compares with nothing.
      const double off = is_float(tensor.dtype) && a == a && b == b ? std::fabs(a - b) / largest : INFINITY;
      if (!(off <= worst)) worst = off, where = i;
    }
    INFO("output ", tensor.name.c_str(), " element ", where, ": found ", number_at(tensor.dtype, found[o], where),
         ", expected ", number_at(tensor.dtype, wanted[o], where));
    CHECK_LE(worst, outputs_[o].tolerance);
  }
  graph_ = qir::Graph();
  given_.clear(), outputs_.clear();
  store_ = std::make_unique<qir::Store>();
}

}  // namespace quarry::test
