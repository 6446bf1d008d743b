// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/compile/tune.h"

#include <algorithm>
#include <chrono>

#include "backends/gpu/kernels/params.h"
#include "backends/gpu/kernels/text.h"
#include "backends/gpu/program/images.h"

namespace quarry::gpu {

namespace {

using opencl::check;

struct Tile {
  std::int32_t rows = 1, cols = 1, group_x = 1, group_y = 1;
  std::int32_t local = 0;  // steps of the sum in local memory
  std::int32_t images = 0;
};

// Whether the kernel may go by local memory.
bool has_local(Kernel kernel) { return kernel == Kernel::MatMulTile || kernel == Kernel::ConvTile; }

// The fields of a step that has a tile, else null.
std::int32_t *tiled_fields(Plan &plan, const Step &step) {
  return is_tiled(static_cast<Kernel>(step.kernel)) ? plan.numbers.data() + step.numbers : nullptr;
}

// What is counted by ROWS, and what by COLS.
std::pair<std::int32_t, std::int32_t> extents_of(const Form &form) {
  const std::int32_t first = form.nest.dims[form.nest.rank - 2], last = form.nest.dims[form.nest.rank - 1];
  return form.kernel == Kernel::MatMulTile || form.kernel == Kernel::MatMulDot ? std::pair(first, last)
                                                                               : std::pair(last, first);
}

// As large as the tile can be for these dimensions.
Tile cut(Tile tile, const Form &form) {
  const auto [rows, columns] = extents_of(form);
  while (tile.rows > 1 && tile.rows / 2 >= rows) tile.rows /= 2;
  while (tile.cols > 2 && tile.cols > columns) tile.cols /= 2;
  return tile;
}

void put(const Form &form, std::int32_t *fields, const Tile &tile) {
  edit_tiled(form.kernel, fields, [&](auto &p) {
    p.tile = {.ROWS = tile.rows, .COLS = tile.cols, .GROUP_X = tile.group_x, .GROUP_Y = tile.group_y};
    if constexpr (requires { p.IMAGES; }) p.LOCAL = tile.local, p.IMAGES = tile.images;
  });
}

// A processor wants what fills its registers, by vectors as wide as it has them, and few work items; a graphics
// processor many that are small.
constexpr Tile kProcessor[] = {{8, 16, 4, 1}, {16, 16, 4, 1}, {4, 16, 4, 1}, {8, 8, 4, 1}, {8, 16, 1, 32}};
constexpr Tile kGraphics[] = {{4, 4, 16, 4},    {8, 4, 16, 4},    {4, 4, 8, 8},   {8, 8, 8, 4},     {4, 8, 16, 2},
                              {2, 4, 16, 4},    {1, 4, 16, 4},    {1, 4, 64, 1},  {4, 4, 8, 8, 16}, {4, 4, 16, 4, 8},
                              {8, 4, 8, 8, 16}, {8, 8, 8, 8, 16}, {4, 8, 8, 8, 8}};

// Of integers by fours, whose vectors are the work items that lie side by side.
constexpr Tile kDots[] = {{2, 8, 16, 1}, {4, 8, 16, 1}, {4, 4, 16, 1}, {1, 16, 16, 1}, {4, 4, 16, 4}, {8, 8, 8, 4}};

std::span<const Tile> tiles_for(const opencl::Device &device, Kernel kernel) {
  if (kernel == Kernel::MatMulDot || kernel == Kernel::ConvDot) return kDots;
  return device.type & CL_DEVICE_TYPE_CPU ? std::span<const Tile>(kProcessor) : std::span<const Tile>(kGraphics);
}

// By rule. A graphics processor hides how long memory takes behind other work items: where large tiles would leave it
// less than so many for each of its units, they are smaller. Measured on 132 units (NVIDIA H200): products of four
// networks take 0.75 of the time that the large ones took.
constexpr std::int64_t kItemsOfUnit = 256;
constexpr Tile kByRule[] = {{4, 4, 16, 4}, {2, 4, 16, 4}, {1, 4, 16, 4}};

Tile tile_by_rule(const opencl::Device &device, const Form &form) {
  const std::span<const Tile> tiles = tiles_for(device, form.kernel);
  if (tiles.data() != kGraphics) return cut(tiles[0], form);
  const auto [rows, columns] = extents_of(form);
  for (const Tile &tile : kByRule) {
    const Tile made = cut(tile, form);
    std::int64_t items =
        static_cast<std::int64_t>((rows + made.rows - 1) / made.rows) * ((columns + made.cols - 1) / made.cols);
    for (std::int32_t d = 0; d + 2 < static_cast<std::int32_t>(form.nest.rank); ++d) items *= form.nest.dims[d];
    if (items >= kItemsOfUnit * device.compute_units) return made;
  }
  return cut(std::end(kByRule)[-1], form);
}

struct Candidate {
  Tile tile;
  std::uint32_t kernel;
  Bounds bounds;
};

// The time of the quicker of two runs behind a first one.
Result<double> time_of(const Engine &engine, cl_command_queue queue, cl_kernel kernel, const Bounds &bounds) {
  const opencl::Library &cl = engine.library();
  const WorkItems items(bounds);
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    const auto begun = std::chrono::steady_clock::now();
    QR_RETURN_IF_ERROR(
        check("EnqueueNDRangeKernel",
              cl->EnqueueNDRangeKernel(queue, kernel, 3, nullptr, items.global, items.local, 0, nullptr, nullptr),
              "a trial"));
    QR_RETURN_IF_ERROR(check("Finish", cl->Finish(queue)));
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    if (i == 1 || (i > 1 && took < best)) best = took;
  }
  return best;
}

// The images of a trial: zeros, or views of the buffers that are zeros.
class TrialImages {
 public:
  explicit TrialImages(const Engine &engine) : engine_(engine) {}
  Result<cl_mem> of(const Plan &plan, const Step &step, std::uint32_t o, const Candidate &candidate, cl_mem buffer) {
    if (made_[o]) return made_[o].get();
    const auto dtype = static_cast<DType>(plan.operands[step.first_operand + o].dtype);
    const ImageSize &size = candidate.bounds.images[o];
    if ((candidate.tile.images & kRowImages & images_of_operand(o)) != 0) {
      QR_ASSIGN_OR_RETURN(made_[o], engine_.image(size, dtype, nullptr, buffer));
    } else {
      const Vector<std::uint8_t> zeros(static_cast<std::uint64_t>(size.width * size.height) * 16);
      QR_ASSIGN_OR_RETURN(made_[o], engine_.image(size, dtype, zeros.data(), nullptr));
    }
    return made_[o].get();
  }

 private:
  const Engine &engine_;
  opencl::Memory made_[2];
};

struct Found {
  Tile tile;
  double seconds = 0;
};

Result<Found> quickest(const Engine &engine, const String &source, const Plan &plan, const Step &step,
                       std::span<const Candidate> candidates) {
  const opencl::Library &cl = engine.library();
  QR_ASSIGN_OR_RETURN(const opencl::Program program, engine.build(source));
  QR_ASSIGN_OR_RETURN(const opencl::Queue queue, engine.queue(false, "normal"));
  Vector<opencl::Memory> memory;
  for (std::uint32_t o = 0; o < step.operand_count; ++o) {
    // Whole rows, where it is seen as an image too.
    const std::uint64_t bytes = row_image_bytes(plan.values[plan.operands[step.first_operand + o].value].bytes, 4);
    QR_ASSIGN_OR_RETURN(opencl::Memory made, engine.memory(bytes, "a trial"));
    const Vector<std::uint8_t> zeros(bytes);
    QR_RETURN_IF_ERROR(check("EnqueueWriteBuffer", cl->EnqueueWriteBuffer(queue.get(), made.get(), CL_TRUE, 0, bytes,
                                                                          zeros.data(), 0, nullptr, nullptr)));
    memory.push_back(std::move(made));
  }
  TrialImages images(engine);
  const Candidate *best = nullptr;
  double best_time = 0;
  for (const Candidate &candidate : candidates) {
    cl_int error = CL_SUCCESS;
    const opencl::Kernel kernel(cl, cl->CreateKernel(program.get(), format("k%u", candidate.kernel).c_str(), &error));
    QR_RETURN_IF_ERROR(check("CreateKernel", error, "a trial"));
    for (std::uint32_t o = 0; o < step.operand_count; ++o) {
      cl_mem argument = memory[o].get();
      if (o < 2 && candidate.bounds.images[o].width != 0) {
        QR_ASSIGN_OR_RETURN(argument, images.of(plan, step, o, candidate, argument));
      }
      QR_RETURN_IF_ERROR(check("SetKernelArg", cl->SetKernelArg(kernel.get(), o, sizeof argument, &argument)));
    }
    QR_ASSIGN_OR_RETURN(const double time, time_of(engine, queue.get(), kernel.get(), candidate.bounds));
    if (!best || time < best_time) best = &candidate, best_time = time;
  }
  return Found{best->tile, best_time};
}

// What was measured of forms, so that equal ones, of several plans too, are measured once.
class Tuner {
 public:
  Tuner(const Engine &engine, Images images, const plugin::StopToken &stop)
      : engine_(engine), images_(images), stop_(stop) {}
  // Cuts the multiplications of a plan. `times`: how long each step takes that is a part of one, for who wants that.
  Status measure(Plan &plan, Vector<double> *times) {
    if (times) times->assign(plan.steps.size(), 0.0);
    for (std::size_t i = 0; i < plan.steps.size(); ++i) {
      const Step &step = plan.steps[i];
      Vector<StepOperand> operands;
      Form form;
      std::int32_t *const fields = tiled_fields(plan, step);
      const bool is_timed = times && (fields || is_winograd(static_cast<Kernel>(step.kernel)));
      if ((!fields && !is_timed) || !form_of(plan, step, operands, form)) continue;
      if (stop_.stopped()) return stop_.status("compile");
      if (fields) put(form, fields, tile_by_rule(engine_.device(), form));
      // What can be an image is a part of what is known: it is not a part of the form.
      if (std::int32_t *const images = image_field(plan, step); images && images_ != Images::None)
        *images = possible_images(plan, step, &engine_.device());
      QR_ASSIGN_OR_RETURN(const Found found, measured(plan, step, form, fields, is_timed));
      if (fields) put(form, fields, found.tile);
      if (times) (*times)[i] = found.seconds;
    }
    return {};
  }
  static bool is_winograd(Kernel kernel) { return kernel == Kernel::WinogradInput || kernel == Kernel::WinogradOutput; }

 private:
  struct Known {
    std::uint32_t form;
    bool is_timed;
    Found found;
  };
  Result<Found> measured(const Plan &plan, const Step &step, const Form &form, std::int32_t *fields, bool is_timed) {
    const std::uint32_t number = different_.kernel(form);
    const auto same = std::ranges::find_if(
        known_, [&](const Known &one) { return one.form == number && (one.is_timed || !is_timed); });
    if (same != known_.end()) return same->found;
    ProgramText text;
    Vector<Candidate> candidates;
    Found found;
    const auto add = [&](const Tile &tile) {
      Candidate candidate{tile, 0, {}};
      if (!find_bounds(form, candidate.bounds).ok()) return;
      const std::uint32_t before = text.kernel_count();
      candidate.kernel = text.kernel(form);
      if (text.kernel_count() != before) candidates.push_back(candidate);
    };
    if (fields) {
      found.tile = tile_by_rule(engine_.device(), form);
      const std::int32_t images = image_layouts(plan, step);
      found.tile.images = images_ == Images::All ? images : 0;
      const auto try_tile = [&](const Tile &one) {
        put(form, fields, one);
        add(one);
      };
      for (const Tile &offered : tiles_for(engine_.device(), form.kernel)) {
        if (offered.local != 0 && !has_local(form.kernel)) continue;
        Tile tile = cut(offered, form);
        if (images == 0 || images_ == Images::Measured) try_tile(tile);
        tile.images = images;
        if (images != 0 && offered.local == 0) try_tile(tile);
      }
    } else {
      add({});
    }
    if (candidates.size() > 1 || (is_timed && !candidates.empty())) {
      QR_ASSIGN_OR_RETURN(found, quickest(engine_, text.text(), plan, step, candidates));
    }
    known_.push_back({number, is_timed, found});
    return found;
  }

  const Engine &engine_;
  Images images_;
  const plugin::StopToken &stop_;
  ProgramText different_;
  Vector<Known> known_;
};

// What the convolutions that may go by Winograd's form take, per node of the graph that was given.
void add_times(const Plan &plan, const Vector<double> &times, Vector<double> &of_nodes) {
  for (std::size_t i = 0; i < times.size(); ++i)
    if (const std::int32_t source = plan.steps[i].source; source >= 0 && source < std::ssize(of_nodes))
      of_nodes[index_of(source)] += times[i];
}

}  // namespace

// Intel's driver for processors says that it has dot products by an instruction, and takes seven times as long with
// them as with vectors of integers.
Target target_of(const opencl::Device &device) {
  return {.doubles = device.computes_double(),
          .dots = device.computes_dots() && !(device.type & CL_DEVICE_TYPE_CPU),
          .images = device.likes_images() ? Images::All : Images::None};
}

void fit_tiles(Plan &plan, const opencl::Device &device) {
  Vector<StepOperand> operands;
  for (const Step &step : plan.steps) {
    std::int32_t *const fields = tiled_fields(plan, step);
    Form form;
    if (fields && form_of(plan, step, operands, form)) put(form, fields, tile_by_rule(device, form));
  }
}

Status measure_tiles(Plan &plan, const Engine &engine, const plugin::StopToken &stop, Images images) {
  QR_RETURN_IF_ERROR(Tuner(engine, images, stop).measure(plan, nullptr));
  return finish_images(plan);
}

Result<Compiled> compile_measured(const qir::Graph &graph, std::span<const qir::Bytes> segments, Target target,
                                  HostRegion host_region, const Engine &engine, const plugin::StopToken &stop) {
  Tuner tuner(engine, target.images, stop);
  Vector<double> best;
  Vector<std::int32_t> sizes;
  for (const std::int32_t size : {4, 2, 0}) {
    target.winograd = size;
    QR_ASSIGN_OR_RETURN(Compiled made, compile(qir::Graph(graph), segments, target, host_region));
    if (is_refused(made)) return made;
    Vector<std::uint8_t> goes(made.refused.size());
    for (const Step &step : made.plan.steps)
      if (static_cast<Kernel>(step.kernel) == Kernel::WinogradOutput && step.source >= 0)
        goes[index_of(step.source)] = 1;
    if (size == 4) {
      best.assign(goes.size(), 0.0), sizes.assign(goes.size(), 0);
      // Without such convolutions there is one path.
      if (std::ranges::find(goes, 1) == goes.end()) {
        QR_RETURN_IF_ERROR(tuner.measure(made.plan, nullptr));
        QR_RETURN_IF_ERROR(finish_images(made.plan));
        return made;
      }
    }
    Vector<double> times, of_nodes(goes.size(), 0.0);
    QR_RETURN_IF_ERROR(tuner.measure(made.plan, &times));
    add_times(made.plan, times, of_nodes);
    for (std::size_t n = 0; n < goes.size(); ++n) {
      if (size == 4 && goes[n]) sizes[n] = size, best[n] = of_nodes[n];
      else if (sizes[n] != 0 && of_nodes[n] <= best[n]) sizes[n] = size, best[n] = of_nodes[n];
    }
  }
  target.winograd = 0, target.winograd_of = sizes;
  QR_ASSIGN_OR_RETURN(Compiled made, compile(qir::Graph(graph), segments, target, host_region));
  QR_RETURN_IF_ERROR(tuner.measure(made.plan, nullptr));
  QR_RETURN_IF_ERROR(finish_images(made.plan));
  return made;
}

}  // namespace quarry::gpu
