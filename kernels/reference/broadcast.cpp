// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/broadcast.h"

#include "kernels/reference/tensors.h"

namespace quarry::reference {

void for_stretches(Context &context, std::int64_t count, void (*body)(void *user, std::int64_t begin, std::int64_t end),
                   void *user) {
  constexpr std::int64_t kElementsPerTask = 1 << 14;
  if (count < 2 * kElementsPerTask) {
    if (count > 0) body(user, 0, count);
    return;
  }
  struct Task {
    void (*body)(void *user, std::int64_t begin, std::int64_t end);
    void *user;
    std::int64_t count;
    const Context &context;
  } task{body, user, count, context};
  context.parallel_for(
      static_cast<std::uint64_t>((count + kElementsPerTask - 1) / kElementsPerTask),
      [](void *given, std::uint64_t begin, std::uint64_t end) {
        const Task &t = *static_cast<Task *>(given);
        // (Shapes may be values of the run: one by one, so that somebody who would stop it is heard.)
        for (auto i = static_cast<std::int64_t>(begin); i < static_cast<std::int64_t>(end) && !t.context.stopped(); ++i)
          t.body(t.user, i * kElementsPerTask, std::min((i + 1) * kElementsPerTask, t.count));
      },
      &task);
}

void broadcast_rows(Context &context, const View &a, const View &b, const View &out, BinaryRow row, const void *user) {
  const View *operands[2] = {&a, &b};
  const Broadcast<2> plan(out, operands);
  const std::int64_t a_step = plan.strides[0][plan.rank - 1], b_step = plan.strides[1][plan.rank - 1];
  char *const to = out.as<char>();
  for_stretches(context, plan.count, [&](std::int64_t begin, std::int64_t end) {
    plan.walk(begin, end, [&](std::int64_t at, const std::int64_t *offsets, std::int64_t length) {
      row(user, element(a, offsets[0]), a_step, element(b, offsets[1]), b_step, to + at * out.width, length);
    });
  });
}

}  // namespace quarry::reference
