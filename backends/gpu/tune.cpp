// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/tune.h"

#include <algorithm>
#include <chrono>

#include "backends/gpu/compile.h"
#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/kernels/text.h"

namespace quarry::gpu {

namespace {

using opencl::check;

struct Tile {
  std::int32_t rows, cols, group_x, group_y;
  std::int32_t local = 0;  // steps of the sum in local memory
};

// Whether products of the kernel may go by way of local memory.
bool has_local(Kernel kernel) { return kernel == Kernel::MatMulTile || kernel == Kernel::ConvTile; }

// The tile of a step lies in four of its numbers, one behind the other, or five.
std::int32_t *tile_numbers(Plan &plan, const Step &step) {
  const auto kernel = static_cast<Kernel>(step.kernel);
  switch (kernel) {
    case Kernel::MatMulTile:
    case Kernel::ConvTile:
    case Kernel::MatMulDot:
    case Kernel::ConvDot: break;
    default: return nullptr;
  }
  return plan.numbers.data() + step.numbers + Fields::place(kernel_row(kernel).fields, "ROWS");
}

// What is counted by ROWS, and what by COLS.
std::pair<std::int32_t, std::int32_t> extents_of(const Form &form) {
  const std::int32_t first = form.nest.dims[form.nest.rank - 2], last = form.nest.dims[form.nest.rank - 1];
  return form.kernel == Kernel::MatMulTile || form.kernel == Kernel::MatMulDot ? std::pair(first, last)
                                                                               : std::pair(last, first);
}

// As large as the tile can be for a product of these extents.
Tile cut(Tile tile, const Form &form) {
  const auto [rows, columns] = extents_of(form);
  while (tile.rows > 1 && tile.rows / 2 >= rows) tile.rows /= 2;
  while (tile.cols > 2 && tile.cols > columns) tile.cols /= 2;
  return tile;
}

void put(const Form &form, std::int32_t *numbers, const Tile &tile) {
  numbers[0] = tile.rows, numbers[1] = tile.cols, numbers[2] = tile.group_x, numbers[3] = tile.group_y;
  if (has_local(form.kernel)) numbers[4] = tile.local;
}

// A processor wants what fills its registers, by vectors as wide as it has them, and few work items; a graphics
// processor many that are small.
constexpr Tile kProcessor[] = {{8, 16, 4, 1}, {16, 16, 4, 1}, {4, 16, 4, 1}, {8, 8, 4, 1}, {8, 16, 1, 32}};
constexpr Tile kGraphics[] = {{4, 4, 16, 4}, {8, 4, 16, 4},    {4, 4, 8, 8},     {8, 8, 8, 4},     {4, 8, 16, 2},
                              {2, 4, 16, 4}, {4, 4, 16, 4, 8}, {8, 4, 8, 8, 16}, {8, 8, 8, 8, 16}, {4, 8, 8, 8, 8}};

// Of integers by fours, whose vectors are the work items that lie side by side.
constexpr Tile kDots[] = {{2, 8, 16, 1}, {4, 8, 16, 1}, {4, 4, 16, 1}, {1, 16, 16, 1}, {4, 4, 16, 4}, {8, 8, 8, 4}};

std::span<const Tile> tiles_for(const opencl::Device &device, Kernel kernel) {
  if (kernel == Kernel::MatMulDot || kernel == Kernel::ConvDot) return kDots;
  return device.type & CL_DEVICE_TYPE_CPU ? std::span<const Tile>(kProcessor) : std::span<const Tile>(kGraphics);
}

struct Candidate {
  Tile tile;
  std::uint32_t kernel;
  Bounds bounds;
};

// The time of the quicker of two runs behind a first one.
Result<double> time_of(const Engine &engine, cl_command_queue queue, cl_kernel kernel, const Bounds &bounds) {
  const opencl::Library &cl = engine.library();
  std::size_t global[3], local[3];
  for (std::size_t d = 0; d < 3; ++d)
    global[d] = static_cast<std::size_t>(bounds.global[d]), local[d] = static_cast<std::size_t>(bounds.local[d]);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    QR_RETURN_IF_ERROR(check("EnqueueNDRangeKernel",
                             cl->EnqueueNDRangeKernel(queue, kernel, 3, nullptr, global, local, 0, nullptr, nullptr),
                             "a trial"));
    QR_RETURN_IF_ERROR(check("Finish", cl->Finish(queue)));
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (i == 1 || (i > 1 && took < best)) best = took;
  }
  return best;
}

Result<Tile> quickest(const Engine &engine, const String &source, const Plan &plan, const Step &step,
                      std::span<const Candidate> candidates) {
  const opencl::Library &cl = engine.library();
  QR_ASSIGN_OR_RETURN(const opencl::Program program, engine.build(source));
  QR_ASSIGN_OR_RETURN(const opencl::Queue queue, engine.queue(false, "normal"));
  Vector<opencl::Memory> memory;
  for (std::uint32_t o = 0; o < step.operand_count; ++o) {
    const std::uint64_t bytes = plan.values[plan.operands[step.first_operand + o].value].bytes;
    QR_ASSIGN_OR_RETURN(opencl::Memory made, engine.memory(bytes, "a trial"));
    const Vector<std::uint8_t> zeros(bytes);
    QR_RETURN_IF_ERROR(check("EnqueueWriteBuffer", cl->EnqueueWriteBuffer(queue.get(), made.get(), CL_TRUE, 0, bytes,
                                                                          zeros.data(), 0, nullptr, nullptr)));
    memory.push_back(std::move(made));
  }
  const Candidate *best = nullptr;
  double best_time = 0;
  for (const Candidate &candidate : candidates) {
    cl_int error = CL_SUCCESS;
    const opencl::Kernel kernel(cl, cl->CreateKernel(program.get(), format("k%u", candidate.kernel).c_str(), &error));
    QR_RETURN_IF_ERROR(check("CreateKernel", error, "a trial"));
    for (std::uint32_t o = 0; o < step.operand_count; ++o) {
      const cl_mem argument = memory[o].get();
      QR_RETURN_IF_ERROR(check("SetKernelArg", cl->SetKernelArg(kernel.get(), o, sizeof argument, &argument)));
    }
    QR_ASSIGN_OR_RETURN(const double time, time_of(engine, queue.get(), kernel.get(), candidate.bounds));
    if (!best || time < best_time) best = &candidate, best_time = time;
  }
  return best->tile;
}

}  // namespace

// Intel's driver for processors says that it has dot products by an instruction, and takes seven times as long with
// them as with vectors of integers.
Target target_of(const opencl::Device &device) {
  return {.doubles = device.computes_double(), .dots = device.computes_dots() && !(device.type & CL_DEVICE_TYPE_CPU)};
}

void fit_tiles(Plan &plan, const opencl::Device &device) {
  Vector<StepOperand> operands;
  for (const Step &step : plan.steps) {
    std::int32_t *const numbers = tile_numbers(plan, step);
    Form form;
    if (numbers && form_of(plan, step, operands, form))
      put(form, numbers, cut(tiles_for(device, form.kernel)[0], form));
  }
}

Status measure_tiles(Plan &plan, const Engine &engine, const plugin::StopToken &stop) {
  ProgramText different;
  Vector<std::pair<std::uint32_t, Tile>> known;  // of equal forms
  for (const Step &step : plan.steps) {
    std::int32_t *const numbers = tile_numbers(plan, step);
    Vector<StepOperand> operands;
    Form form;
    if (!numbers || !form_of(plan, step, operands, form)) continue;
    if (stop.stopped()) return stop.status("compile");
    const std::uint32_t number = different.kernel(form);
    const auto found = std::ranges::find(known, number, [](const auto &entry) { return entry.first; });
    if (found != known.end()) {
      put(form, numbers, found->second);
      continue;
    }
    const Tile by_rule{numbers[0], numbers[1], numbers[2], numbers[3], has_local(form.kernel) ? numbers[4] : 0};
    ProgramText text;
    Vector<Candidate> candidates;
    for (const Tile &way : tiles_for(engine.device(), form.kernel)) {
      if (way.local != 0 && !has_local(form.kernel)) continue;
      Candidate candidate{cut(way, form), 0, {}};
      put(form, numbers, candidate.tile);
      if (!find_bounds(form, candidate.bounds).ok()) continue;
      const std::uint32_t before = text.kernel_count();
      candidate.kernel = text.kernel(form);
      if (text.kernel_count() != before) candidates.push_back(candidate);
    }
    Tile best = by_rule;
    if (candidates.size() > 1) {
      QR_ASSIGN_OR_RETURN(best, quickest(engine, text.text(), plan, step, candidates));
    }
    put(form, numbers, best);
    known.emplace_back(number, best);
  }
  return {};
}

}  // namespace quarry::gpu
