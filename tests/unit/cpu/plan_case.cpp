// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cpu/plan_case.h"

#include <sys/mman.h>

#include <cmath>
#include <cstdlib>

#include "backends/cpu/compile/compile.h"
#include "base/checked.h"
#include "base/float16.h"
#include "kernels/reference/widen.h"

namespace quarry::test {

namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t stored_bytes(DType dtype, const qir::Shape &shape) {
  return *packed_size(dtype, *element_count(shape.data(), shape.size()));
}

struct Alone final : reference::Environment {};

}  // namespace

Guarded::Guarded(std::uint64_t bytes) : size_(bytes) {
  const std::uint64_t used = (bytes + 63) / 64 * 64;
  map_bytes_ = (used + kPage - 1) / kPage * kPage + kPage;
  map_ = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(static_cast<std::uint8_t *>(map_) + map_bytes_ - kPage, kPage, PROT_NONE);
  data_ = static_cast<std::uint8_t *>(map_) + map_bytes_ - kPage - used;
}
Guarded::Guarded(Guarded &&other) noexcept
    : map_(std::exchange(other.map_, nullptr)), map_bytes_(other.map_bytes_), size_(other.size_), data_(other.data_) {}
Guarded::~Guarded() {
  if (map_) munmap(map_, map_bytes_);
}

Vector<std::uint8_t> random_data(Random &random, DType dtype, std::int64_t count, std::int64_t indices) {
  Vector<std::uint8_t> data(*packed_size(dtype, count));
  const auto put = [&](std::int64_t i, auto value) {
    std::memcpy(data.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
  };
  for (std::int64_t i = 0; i < count; ++i) {
    switch (dtype) {
      case DType::F32: put(i, random.real(-2, 2)); break;
      case DType::F64: put(i, static_cast<double>(random.real(-2, 2))); break;
      case DType::F16: put(i, f32_to_f16(random.real(-2, 2))); break;
      case DType::I64: put(i, random.integer(0, indices - 1)); break;
      case DType::I32: put(i, static_cast<std::int32_t>(random.integer(0, indices - 1))); break;
      case DType::U16:
      case DType::I16: put(i, static_cast<std::uint16_t>(random.integer(0, 65535))); break;
      default: put(i, static_cast<std::uint8_t>(random.integer(0, 255))); break;
    }
  }
  return data;
}

Vector<float> floats_of(DType dtype, const Vector<std::uint8_t> &data) {
  Vector<float> values(data.size() * 8 / dtype_bits(dtype));
  const auto get = [&](std::size_t i, auto value) {
    std::memcpy(&value, data.data() + i * sizeof value, sizeof value);
    return value;
  };
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::F32: values[i] = get(i, 0.0f); break;
      case DType::F64: values[i] = static_cast<float>(get(i, 0.0)); break;
      case DType::F16: values[i] = f16_to_f32(get(i, std::uint16_t{})); break;
      case DType::BF16: values[i] = bf16_to_f32(get(i, std::uint16_t{})); break;
      case DType::I64: values[i] = static_cast<float>(get(i, std::int64_t{})); break;
      case DType::I32: values[i] = static_cast<float>(get(i, std::int32_t{})); break;
      case DType::U16: values[i] = get(i, std::uint16_t{}); break;
      case DType::I16: values[i] = get(i, std::int16_t{}); break;
      case DType::I8: values[i] = get(i, std::int8_t{}); break;
      default: values[i] = get(i, std::uint8_t{}); break;
    }
  }
  return values;
}

PlanCase::PlanCase(const qir::Graph &graph, bool winograd) {
  qir::ConstantPool pool;
  auto written = qir::write_graph(graph, pool);
  REQUIRE_OK(written);
  qir_ = std::move(written.value());
  memory_.emplace_back(pool.size());
  if (pool.size() > 0) pool.write_to(memory_[0].data());
  segments_.push_back(memory_[0].bytes());
  auto read = qir::read_graph({qir_.data(), qir_.size()}, segments_.data(), 1);
  REQUIRE_OK(read);
  graph_ = std::move(read.value());
  cpu::CompileOptions options;
  options.isa = &kernels::best_isa();
  options.winograd = winograd;
  auto compiled = cpu::compile(graph_, segments_, options);
  REQUIRE_OK(compiled);
  compiled_ = std::move(compiled.value());
  CHECK_EQ(compiled_.refusals_with_trace, 0u);
  segments_.resize(compiled_.kept_segments);
  for (const auto *part : {&compiled_.packed, &compiled_.subgraph_constants}) {
    memory_.emplace_back(part->size());
    if (!part->empty()) std::memcpy(memory_.back().data(), part->data(), part->size());
    segments_.push_back(memory_.back().bytes());
  }
  const Vector<std::uint8_t> blob = cpu::write_blob(compiled_);
  blob_.emplace_back(blob.size());
  std::memcpy(blob_[0].data(), blob.data(), blob.size());
  auto loaded = cpu::read_blob(blob_[0].bytes(), segments_);
  REQUIRE_OK(loaded);
  loaded_ = std::move(loaded.value());
}

int PlanCase::count(kernels::Kernel kernel) const {
  int found = 0;
  for (const cpu::Step &step : plan().steps) found += step.kernel == static_cast<std::uint32_t>(kernel);
  return found;
}
int PlanCase::reference_steps() const {
  int found = 0;
  for (const cpu::Step &step : plan().steps) found += step.kernel == cpu::kReferenceStep;
  return found;
}
std::string PlanCase::steps() const {
  std::string text;
  for (const cpu::Step &step : plan().steps) {
    if (!text.empty()) text += " ";
    text += step.kernel == cpu::kReferenceStep ? "reference"
            : step.kernel == cpu::kRegionStep  ? "region"
                                               : kernels::kernel_row(std::uint64_t{step.kernel})->name;
  }
  return text;
}

Data PlanCase::random_inputs(Random &random, const Vector<qir::Shape> *shapes) const {
  std::int64_t smallest = 1 << 20;
  for (const qir::Tensor &tensor : graph_.tensors)
    for (const std::int64_t extent : tensor.shape) smallest = std::min(smallest, std::max<std::int64_t>(extent, 1));
  Data data;
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const qir::Tensor &tensor = graph_.tensors[static_cast<std::size_t>(graph_.inputs[i])];
    const qir::Shape &shape = shapes ? (*shapes)[i] : tensor.shape;
    data.push_back(random_data(random, tensor.dtype, *element_count(shape.data(), shape.size()), smallest));
  }
  return data;
}

const qr_host &test_host() {
  static const qr_host host = [] {
    qr_host made{};
    made.struct_size = sizeof made;
    made.clock_ns = [](void *) -> std::uint64_t { return 1000; };
    return made;
  }();
  return host;
}

Request::Request(const cpu::LoadedPlan &plan, std::uint32_t workers)
    : inputs(plan.inputs.size()), outputs(plan.outputs.size()) {
  threads.struct_size = sizeof threads;
  threads.worker_count = workers;
  threads.self = &threads;
  // Workers take turns, so that each one's scratch is used and a test can be repeated.
  threads.parallel_for = [](void *self, std::uint64_t count, std::uint64_t grain, qr_parallel_body body,
                            void *context) {
    const std::uint32_t among = static_cast<qr_host_threads *>(self)->worker_count;
    std::uint32_t worker = 0;
    for (std::uint64_t begin = 0; begin < count; begin += grain, worker = (worker + 1) % among)
      body(context, begin, std::min(count, begin + grain), worker);
  };
  request.struct_size = sizeof request;
  request.inputs = inputs.data(), request.input_count = inputs.size();
  request.outputs = outputs.data(), request.output_count = outputs.size();
  request.threads = &threads;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].rank = static_cast<std::uint32_t>(plan.inputs[i].shape.size());
    std::copy(plan.inputs[i].shape.begin(), plan.inputs[i].shape.end(), inputs[i].dims);
  }
  for (qr_io_buffer &output : outputs) output.wanted = 1;
}

Status PlanCase::run(const Data &inputs, Data &outputs, std::uint32_t workers, bool room,
                     const Vector<qir::Shape> *shapes) const {
  cpu::Execution execution(*loaded_);
  execution.share_all();
  Request made(*loaded_, workers);
  Vector<Guarded> memory;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    memory.emplace_back(inputs[i].size());
    if (!inputs[i].empty()) std::memcpy(memory.back().data(), inputs[i].data(), inputs[i].size());
    made.inputs[i].data = memory.back().data(), made.inputs[i].size_bytes = inputs[i].size();
    if (shapes) std::copy((*shapes)[i].begin(), (*shapes)[i].end(), made.inputs[i].dims);
  }
  for (std::size_t i = 0; room && i < made.outputs.size(); ++i) {
    const cpu::Io &io = loaded_->outputs[i];
    constexpr std::uint64_t kAmple = 1 << 16;
    memory.emplace_back(passes::known(io.shape) ? stored_bytes(io.dtype, io.shape) : kAmple);
    std::memset(memory.back().data(), 0xee, memory.back().size());
    made.outputs[i].data = memory.back().data(), made.outputs[i].size_bytes = memory.back().size();
  }
  QR_RETURN_IF_ERROR(execution.run(made.request, test_host()));
  outputs.clear();
  for (const qr_io_buffer &output : made.outputs) {
    const auto *bytes = static_cast<const std::uint8_t *>(output.data);
    outputs.emplace_back(bytes, bytes + output.used_bytes);
  }
  return {};
}

Status PlanCase::run_reference(const Data &inputs, Data &outputs, const Vector<qir::Shape> *shapes) const {
  qir::Graph graph = graph_;  // as its plugin does
  QR_RETURN_IF_ERROR(reference::widen_float16(graph));
  QR_ASSIGN_OR_RETURN(const Unique<reference::Program> program, reference::Program::build(graph));
  reference::Execution execution(*program);
  Vector<reference::IoBuffer> in(inputs.size()), out(graph_.outputs.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    const qir::Shape &shape = shapes ? (*shapes)[i] : graph_.tensors[static_cast<std::size_t>(graph_.inputs[i])].shape;
    in[i].data = const_cast<std::uint8_t *>(inputs[i].data()), in[i].size_bytes = inputs[i].size();
    in[i].rank = static_cast<std::uint32_t>(shape.size());
    std::copy(shape.begin(), shape.end(), in[i].dims);
  }
  Alone alone;
  QR_RETURN_IF_ERROR(execution.run(in.data(), in.size(), out.data(), out.size(), alone));
  outputs.clear();
  for (const reference::IoBuffer &output : out) {
    const auto *bytes = static_cast<const std::uint8_t *>(output.data);
    outputs.emplace_back(bytes, bytes + output.used_bytes);
  }
  return {};
}

bool same_results(const PlanCase &sample, const std::string &what, Random &random, float tolerance, int quanta,
                  const Vector<qir::Shape> *shapes) {
  if (!sample.ok()) {
    FAIL_CHECK(what, ": no plan:\n", qir::print_graph(sample.graph()).c_str());
    return false;
  }
  const Data inputs = sample.random_inputs(random, shapes);
  double coarsest = 0;
  for (const qir::Tensor &tensor : sample.graph().tensors)
    if (tensor.quant && !tensor.is_constant)
      coarsest = std::max(coarsest, static_cast<double>(tensor.quant->scales[0]));
  Data expected, found;
  REQUIRE_OK(sample.run_reference(inputs, expected, shapes));
  for (const auto &[workers, room] : {std::pair{1u, shapes == nullptr}, std::pair{3u, false}}) {
    REQUIRE_OK(sample.run(inputs, found, workers, room, shapes));
    std::string wrong;
    for (std::size_t o = 0; wrong.empty() && o < expected.size(); ++o) {
      const qir::Tensor &tensor = sample.graph().tensors[static_cast<std::size_t>(sample.graph().outputs[o])];
      const Vector<float> a = floats_of(tensor.dtype, found[o]), b = floats_of(tensor.dtype, expected[o]);
      const bool real = tensor.dtype == DType::F32 || tensor.dtype == DType::F64 || tensor.dtype == DType::F16 ||
                        tensor.dtype == DType::BF16;
      double most = 1;
      for (const float value : b) most = std::max(most, std::fabs(static_cast<double>(value)));
      // A rounding in a coarser tensor on the way is several quanta of a finer one.
      const double coarser = tensor.quant ? std::max(1.0, coarsest / static_cast<double>(tensor.quant->scales[0])) : 1;
      const double limit = real ? static_cast<double>(tolerance) * most : tensor.quant ? quanta * coarser : 0;
      std::size_t different = 0;
      if (a.size() != b.size()) wrong = format("%zu elements, expected %zu", a.size(), b.size()).c_str();
      for (std::size_t i = 0; wrong.empty() && i < a.size(); ++i) {
        different += a[i] != b[i];
        if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])) &&
            !(std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= limit))
          wrong = format("output %zu ('%s') at %zu: found %g, expected %g (limit %g)", o, tensor.name.c_str(), i,
                         static_cast<double>(a[i]), static_cast<double>(b[i]), limit)
                      .c_str();
      }
      if (wrong.empty() && !real && coarser < 1.5 && different > 3 + a.size() / 50)
        wrong = format("output %zu ('%s'): %zu of %zu elements differ", o, tensor.name.c_str(), different, a.size())
                    .c_str();
    }
    if (!wrong.empty()) {
      FAIL_CHECK(what, format(" (%u workers): ", workers).c_str(), wrong, "\n", sample.steps(), "\n",
                 qir::print_graph(sample.graph()).c_str());
      return false;
    }
  }
  return true;
}

}  // namespace quarry::test
