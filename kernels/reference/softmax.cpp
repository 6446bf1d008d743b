// SPDX-License-Identifier: Apache-2.0
// Softmax and its kin along one axis, and the losses over classes.
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"

namespace quarry::reference {

namespace {

// x as lines along one axis: line l has `length` elements, the first at first(l), the others `step` apart.
struct Lines {
  std::int64_t count = 0, length = 0, step = 1;

  Lines(const View &x, std::size_t axis) noexcept : length(x.dims[axis]), step(product(x.dims, axis + 1, x.rank)) {
    count = length == 0 ? 0 : x.count / length;
  }
  std::int64_t first(std::int64_t line) const noexcept { return line / step * step * length + line % step; }
};

template <class T>
double greatest_of(Poll &poll, const T *line, const Lines &lines) noexcept {
  double greatest = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < lines.length && !poll.stopped(1); ++i) {
    const double value = static_cast<double>(line[i * lines.step]);
    if (!(value <= greatest)) greatest = value;  // NaN stays or comes out of the sum
  }
  return greatest;
}

// log(sum(exp(x - greatest))) and its terms are what all of them are made of.
template <class T>
double sum_of_exponentials(Poll &poll, const T *line, const Lines &lines, double greatest) noexcept {
  double sum = 0;
  for (std::int64_t i = 0; i < lines.length && !poll.stopped(1); ++i)
    sum += std::exp(static_cast<double>(line[i * lines.step]) - greatest);
  return sum;
}

// body(poll, from, to, lines) for every line.
template <class Body>
Status for_lines(Context &context, Body &&body) {
  const View &x = *context.input(0);
  View *y = context.output(0);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(read_axis(context, -1, x.rank, &axis));
  if (!y) return {};
  const Lines lines(x, axis);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, lines.count, [&](std::int64_t line) {
      Poll poll(context);
      if (!context.stopped()) body(poll, x.as<const T>() + lines.first(line), y->as<T>() + lines.first(line), lines);
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

}  // namespace

Status kernel_softmax(Context &context) {
  return for_lines(context, [](Poll &poll, const auto *from, auto *to, const Lines &lines) {
    const double greatest = greatest_of(poll, from, lines), sum = sum_of_exponentials(poll, from, lines, greatest);
    for (std::int64_t i = 0; i < lines.length && !poll.stopped(1); ++i) {
      const double value = std::exp(static_cast<double>(from[i * lines.step]) - greatest) / sum;
      to[i * lines.step] = static_cast<std::remove_reference_t<decltype(*to)>>(value);
    }
  });
}

Status kernel_log_softmax(Context &context) {
  return for_lines(context, [](Poll &poll, const auto *from, auto *to, const Lines &lines) {
    const double greatest = greatest_of(poll, from, lines),
                 log_sum = std::log(sum_of_exponentials(poll, from, lines, greatest));
    for (std::int64_t i = 0; i < lines.length && !poll.stopped(1); ++i) {
      to[i * lines.step] = static_cast<std::remove_reference_t<decltype(*to)>>(
          static_cast<double>(from[i * lines.step]) - greatest - log_sum);
    }
  });
}

// 1 for the first of the greatest, 0 for the others.
Status kernel_hardmax(Context &context) {
  return for_lines(context, [](Poll &poll, const auto *from, auto *to, const Lines &lines) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < lines.length && !poll.stopped(1); ++i) {
      if (from[i * lines.step] > from[best * lines.step]) best = i;
    }
    for (std::int64_t i = 0; i < lines.length && !poll.stopped(1); ++i)
      to[i * lines.step] = static_cast<std::remove_reference_t<decltype(*to)>>(i == best);
  });
}

namespace {

// Both losses: scores [N, C, D...] (`logits`: log-probabilities are taken first), targets [N, D...], weights [C].
// loss = -weight[target] * log-probability[target], 0 where the target is ignore_index.
Status class_loss(Context &context, bool logits) {
  const qir::Node &node = context.node();
  const View &scores = *context.input(0), &targets = *context.input(1);
  const View *weights = context.input(2);
  if (!is_real(scores)) return type_error(context, scores.dtype);
  if (targets.dtype != DType::I32 && targets.dtype != DType::I64) return type_error(context, targets.dtype);
  if (scores.rank < 2 || targets.rank + 1 != scores.rank || targets.dims[0] != scores.dims[0] ||
      !std::equal(scores.dims + 2, scores.dims + scores.rank, targets.dims + 1)) {
    return qir::node_error(node, ErrorId::run_value, "found scores %s and targets %s, expected [N,C,D...] and [N,D...]",
                           shape_text(scores.dims, scores.rank), shape_text(targets.dims, targets.rank));
  }
  const Lines lines(scores, 1);
  const std::int64_t classes = lines.length;
  QR_RETURN_IF_ERROR(check_real(context, weights, "the weights", {classes}));
  const bool has_ignored = node.find("ignore_index") != nullptr;
  const std::int64_t ignored = node.get_int("ignore_index", 0);
  // First of all of them at once: a sign is set where one is out of range.
  const auto inside = [&](const auto *target) {
    const std::uint64_t last = static_cast<std::uint64_t>(classes) - 1;
    std::uint64_t signs = 0;
    for (std::int64_t i = 0; i < targets.count; ++i) {
      const auto given = static_cast<std::uint64_t>(static_cast<std::int64_t>(target[i]));
      signs |= given | (last - given);
    }
    return static_cast<std::int64_t>(signs) >= 0;
  };
  const bool all_inside =
      targets.dtype == DType::I32 ? inside(targets.as<const std::int32_t>()) : inside(targets.as<const std::int64_t>());
  for (std::int64_t i = 0; !all_inside && i < targets.count; ++i) {
    const std::int64_t target = integer_at(targets, i);
    if (static_cast<std::uint64_t>(target) < static_cast<std::uint64_t>(classes)) continue;
    if ((target < 0 || target >= classes) && !(has_ignored && target == ignored)) {
      return qir::node_error(node, ErrorId::run_value, "found class %lld, expected 0 to %lld", target, classes - 1);
    }
  }
  View *loss = context.output(0), *log_probabilities = context.output_count() > 1 ? context.output(1) : nullptr;
  const std::string_view reduction = node.get_string("reduction", "mean");
  const bool each = loss && reduction == "none";
  double total = 0, weight_total = 0;
  if (!logits && classes != 0) {
    const auto sum_up = [&](const auto *score, const auto *target_at) {
      const std::int64_t inner = lines.step;
      constexpr std::int64_t kSums = 4;  // so that one addition does not wait for the other
      double totals[kSums] = {}, weight_totals[kSums] = {};
      for (std::int64_t first = 0; first < targets.count && !context.stopped(); first += inner) {
        if (!has_ignored && !weights && !each) {
          const auto *const plane = score + first * classes;
          std::int64_t j = 0;
          for (; j + kSums <= inner; j += kSums)
            for (std::int64_t k = 0; k < kSums; ++k)
              totals[k] -= static_cast<double>(plane[target_at[first + j + k] * inner + j + k]);
          for (; j < inner; ++j) totals[j % kSums] -= static_cast<double>(plane[target_at[first + j] * inner + j]);
          weight_totals[0] += static_cast<double>(inner);
          continue;
        }
        for (std::int64_t j = 0; j < inner; ++j) {
          const std::int64_t target = target_at[first + j];
          const bool counts = !(has_ignored && target == ignored);
          const double weight = !counts ? 0 : weights ? real_at(*weights, target) : 1;
          const double value = counts ? -static_cast<double>(score[first * classes + target * inner + j]) * weight : 0;
          if (each) set_real(*loss, first + j, value);
          totals[j % kSums] += value;
          weight_totals[j % kSums] += weight;
        }
      }
      for (const double sum : totals) total += sum;
      for (const double sum : weight_totals) weight_total += sum;
    };
    dispatch<float, double>(scores.dtype, [&](auto tag) {
      const auto *const score = scores.as<const decltype(tag)>();
      if (targets.dtype == DType::I32) sum_up(score, targets.as<const std::int32_t>());
      else sum_up(score, targets.as<const std::int64_t>());
    });
    if (loss && !each) set_real(*loss, 0, reduction == "sum" ? total : total / weight_total);
    return {};
  }
  Poll poll(context);
  for (std::int64_t i = 0; i < targets.count; ++i) {
    if ((i & 255) == 0 && context.stopped()) return {};
    const std::int64_t target = integer_at(targets, i), first = classes == 0 ? 0 : lines.first(i);
    double shift = 0;  // what is taken off a score to make it a log-probability
    if (logits && classes != 0) {
      dispatch<float, double>(scores.dtype, [&](auto tag) {
        const auto *line = scores.as<const decltype(tag)>() + first;
        const double greatest = greatest_of(poll, line, lines);
        shift = greatest + std::log(sum_of_exponentials(poll, line, lines, greatest));
      });
      for (std::int64_t c = 0; log_probabilities && c < classes; ++c) {
        set_real(*log_probabilities, first + c * lines.step, real_at(scores, first + c * lines.step) - shift);
      }
    }
    const bool counts = !(has_ignored && target == ignored);
    const double weight = !counts ? 0 : weights ? real_at(*weights, target) : 1;
    const double value = counts ? -(real_at(scores, first + target * lines.step) - shift) * weight : 0;
    if (each) set_real(*loss, i, value);
    total += value;
    weight_total += weight;
  }
  if (loss && !each) set_real(*loss, 0, reduction == "sum" ? total : total / weight_total);
  return {};
}

}  // namespace

Status kernel_negative_log_likelihood_loss(Context &context) { return class_loss(context, false); }

Status kernel_softmax_cross_entropy_loss(Context &context) { return class_loss(context, true); }

}  // namespace quarry::reference
