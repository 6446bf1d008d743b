// SPDX-License-Identifier: Apache-2.0
// How the work of batches of matrices is shared out.
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

// Tasks: matrices, then parts of the panels, then parts of the rows, of `least_rows` or more where blocks of rows are
// too few.
struct MatMulTasks {
  std::int64_t panel_parts = 1, row_parts, count;
  double operations;  // of a task

  MatMulTasks(std::int64_t workers, std::int64_t batches, std::int64_t m, std::int64_t n, std::int64_t k,
              std::int64_t panels, std::int64_t rows, std::int64_t least_rows) noexcept {
    const double whole = static_cast<double>(batches) * static_cast<double>(n) * static_cast<double>(k + 1);
    // Where weights are read once, that takes as long as many operations.
    const std::int64_t wanted = tasks_wanted(workers, 2.0 * static_cast<double>(m + 16) * whole);
    row_parts = ceil_div(m, rows);
    if (batches * row_parts < wanted) panel_parts = min_of(panels, ceil_div(wanted, batches * row_parts));
    if (batches * row_parts * panel_parts < wanted)
      row_parts = min_of(max_of(row_parts, ceil_div(m, least_rows)), ceil_div(wanted, batches * panel_parts));
    count = batches * panel_parts * row_parts;
    operations = 2.0 * static_cast<double>(m) * whole / static_cast<double>(count);
  }

  struct Part {
    std::int64_t batch, row, rows, first_panel, last_panel;
  };
  Part part(std::int64_t task, std::int64_t m, std::int64_t panels) const noexcept {
    const std::int64_t r = task % row_parts, p = task / row_parts % panel_parts, row = m * r / row_parts;
    return {task / row_parts / panel_parts, row, m * (r + 1) / row_parts - row, panels * p / panel_parts,
            panels * (p + 1) / panel_parts};
  }
};

}  // namespace quarry::kernels::QR_ISA
