// SPDX-License-Identifier: Apache-2.0
// Dense integer convolutions: which pixels and channels are computed together, and by whom.
#pragma once

#include "kernels/cpu/convolution/conv_int_gather.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

// What is computed by whom: blocks of pixels of equal size, smaller ones where threads share few; where there are still
// few, pieces of the channels (panels, or groups of them) are shared out as well.
struct Split {
  std::int64_t pixels, blocks, block, parts, part_pieces;
  // `times`: how often the whole is done, with other channels.
  Split(const Call &call, const ConvInt &p, const ConvIntShape &shape, std::int64_t pieces,
        std::int64_t times) noexcept {
    pixels = std::int64_t{p.window.n} * p.window.oh * p.window.ow;
    const std::int64_t workers = call.threads.workers;
    const std::int64_t wanted =
        tasks_wanted(workers, static_cast<double>(pixels) * static_cast<double>(shape.k) * static_cast<double>(p.oc));
    std::int64_t most = shape.block;
    // Many pieces are shared out evenly, and each thread reads its own weights alone.
    if (workers > 1 && pieces * times < 4 * workers)
      most = max_of<std::int64_t>(min_of(most, ceil_div(pixels * times, wanted)), 4 * std::int64_t{kIntRows});
    blocks = ceil_div(pixels, min_of(most, std::int64_t{shape.block}));
    block = ceil_div(pixels, blocks);
    parts = blocks * times >= wanted ? 1 : min_of(pieces, ceil_div(wanted, blocks * times));
    part_pieces = ceil_div(pieces, parts);
  }
  // Tasks that are worth a thread's while together.
  std::uint64_t grain(const ConvIntShape &shape, std::int64_t piece_channels) const noexcept {
    const double work =
        static_cast<double>(block) * static_cast<double>(shape.k) * static_cast<double>(part_pieces * piece_channels);
    return static_cast<std::uint64_t>(kWorthSharing / work) + 1;
  }
};

// Rows of a block of pixels, and the panel of packed weights that they are to be multiplied by.
struct DensePanel {
  const std::byte *rows;
  std::int64_t row_bytes, count, first;  // pixels
  const std::byte *w;
  int vectors;
  std::int64_t channel, channels;
  bool last;        // of the panels that these rows are multiplied by
  std::byte *sums;  // of the worker's scratch
};

// Calls what `make()` gives, which is of one worker and made once for each range of tasks, with every panel.
template <class Element, class Make>
QR_INLINE void for_each_panel(const Call &call, const ConvInt &p, const ConvIntShape &shape, Make &&make) noexcept {
  const Gather<Element> gather(p, shape, call.operand<const std::byte>(0));
  const auto *weights = call.operand<const std::byte>(1);
  const std::int64_t panels = ceil_div(shape.group_oc, std::int64_t{shape.panel});
  const Split split(call, p, shape, panels, p.groups);
  // Rows that lie in memory as they are wanted are read from there.
  const Window &window = p.window;
  const bool in_place = sizeof(Element) == 1 && shape.taps == 1 && window.sh == 1 && window.sw == 1 &&
                        window.pad_top == 0 && window.pad_left == 0 && window.oh == window.ih &&
                        window.ow == window.iw && !gather.flips() && shape.group_ic % 4 == 0;
  const std::int64_t pixels = split.pixels, block = split.block, parts = split.parts, part_panels = split.part_pieces,
                     row_bytes = in_place ? p.x_stride : shape.steps * 4;
  call.threads.run(
      static_cast<std::uint64_t>(split.blocks * p.groups * parts), split.grain(shape, shape.panel),
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        std::byte *const gathered_rows = call.worker_scratch(worker), *const sums = gathered_rows + shape.sums;
        auto &&run_panel = make();
        std::int64_t gathered = -1;
        for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
          const std::int64_t part = task % parts, group = task / parts % p.groups,
                             first = task / parts / p.groups * block;
          const std::int64_t count = min_of(block, pixels - first);
          if (count <= 0) continue;
          const std::byte *const rows =
              in_place ? call.operand<const std::byte>(0) + first * row_bytes + group * shape.group_ic : gathered_rows;
          if (!in_place && gathered != task / parts)
            gather.rows(first, count, group, reinterpret_cast<Element *>(gathered_rows));
          gathered = task / parts;
          const std::int64_t last_panel = min_of(panels, (part + 1) * part_panels);
          for (std::int64_t panel = part * part_panels; panel < last_panel; ++panel) {
            const std::int64_t channels = min_of(std::int64_t{shape.panel}, shape.group_oc - panel * shape.panel);
            run_panel(
                DensePanel{rows, row_bytes, count, first,
                           weights + group * shape.group_weights +
                               panel * shape.panel * shape.steps * shape.elements * shape.weight_bytes * shape.parts,
                           static_cast<int>(ceil_div(channels, std::int64_t{kLanes})),
                           group * shape.group_oc + panel * shape.panel, channels, panel + 1 == last_panel, sums});
          }
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
