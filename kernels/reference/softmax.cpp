// SPDX-License-Identifier: Apache-2.0
// Softmax and its kin along one axis, and the losses over classes.
#include "base/real/real.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"

namespace quarry::reference {

namespace {

// x as rows along one axis: row l has `length` elements, the first at first(l), the others `step` apart.
struct StridedRows {
  std::int64_t count = 0, length = 0, step = 1;

  StridedRows(const View &x, std::size_t axis) noexcept
      : length(x.dims[axis]), step(product(x.dims, axis + 1, x.rank)) {
    count = length == 0 ? 0 : x.count / length;
  }
  std::int64_t first(std::int64_t row) const noexcept { return row / step * step * length + row % step; }
};

template <class T>
double greatest_of(Poll &poll, const T *row, const StridedRows &rows) noexcept {
  double greatest = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < rows.length && !poll.stopped(1); ++i) {
    const double value = static_cast<double>(row[i * rows.step]);
    if (!(value <= greatest)) greatest = value;  // NaN stays or comes out of the sum
  }
  return greatest;
}

// log(sum(exp(x - greatest))) and its terms are what all of them are made of.
template <class T>
double sum_of_exponentials(Poll &poll, const T *row, const StridedRows &rows, double greatest) noexcept {
  double sum = 0;
  for (std::int64_t i = 0; i < rows.length && !poll.stopped(1); ++i)
    sum += real::exp(static_cast<double>(row[i * rows.step]) - greatest);
  return sum;
}

// body(poll, from, to, rows) for every row.
template <class Body>
Status for_rows(Context &context, Body &&body) {
  const View &x = *context.input(0);
  View *y = context.output(0);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(read_axis(context, -1, x.rank, &axis));
  if (!y) return {};
  const StridedRows rows(x, axis);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, rows.count, [&](std::int64_t row) {
      Poll poll(context);
      if (!context.stopped()) body(poll, x.as<const T>() + rows.first(row), y->as<T>() + rows.first(row), rows);
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

}  // namespace

Status kernel_softmax(Context &context) {
  return for_rows(context, [](Poll &poll, const auto *from, auto *to, const StridedRows &rows) {
    const double greatest = greatest_of(poll, from, rows), sum = sum_of_exponentials(poll, from, rows, greatest);
    for (std::int64_t i = 0; i < rows.length && !poll.stopped(1); ++i) {
      const double value = real::exp(static_cast<double>(from[i * rows.step]) - greatest) / sum;
      to[i * rows.step] = static_cast<std::remove_reference_t<decltype(*to)>>(value);
    }
  });
}

Status kernel_log_softmax(Context &context) {
  return for_rows(context, [](Poll &poll, const auto *from, auto *to, const StridedRows &rows) {
    const double greatest = greatest_of(poll, from, rows),
                 log_sum = real::log(sum_of_exponentials(poll, from, rows, greatest));
    for (std::int64_t i = 0; i < rows.length && !poll.stopped(1); ++i) {
      to[i * rows.step] = static_cast<std::remove_reference_t<decltype(*to)>>(static_cast<double>(from[i * rows.step]) -
                                                                              greatest - log_sum);
    }
  });
}

// 1 for the first of the greatest, 0 for the others.
Status kernel_hardmax(Context &context) {
  return for_rows(context, [](Poll &poll, const auto *from, auto *to, const StridedRows &rows) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < rows.length && !poll.stopped(1); ++i) {
      if (from[i * rows.step] > from[best * rows.step]) best = i;
    }
    for (std::int64_t i = 0; i < rows.length && !poll.stopped(1); ++i)
      to[i * rows.step] = static_cast<std::remove_reference_t<decltype(*to)>>(i == best);
  });
}

namespace {

// Both losses: scores [N, C, D...] (`logits`: log-probabilities are taken first), targets [N, D...], weights [C].
// loss = -weight[target] * log-probability[target], 0 where the target is ignore_index.
struct ClassLoss {
  const View &scores, &targets;
  const View *weights;
  StridedRows rows;  // of classes
  bool has_ignored;
  std::int64_t ignored;
  View *loss;
  bool each;  // no reduction
  double total = 0, weight_total = 0;

  bool counts(std::int64_t target) const noexcept { return !(has_ignored && target == ignored); }
  double weight_of(std::int64_t target) const noexcept {
    return !counts(target) ? 0 : weights ? real_at(*weights, target) : 1;
  }
};

Status check_targets(const Context &context, const ClassLoss &l) {
  const std::int64_t classes = l.rows.length;
  // First of all of them at once: a sign is set where one is out of range.
  const auto inside = [&](const auto *target) {
    const std::uint64_t last = static_cast<std::uint64_t>(classes) - 1;
    std::uint64_t signs = 0;
    for (std::int64_t i = 0; i < l.targets.count; ++i) {
      const auto given = static_cast<std::uint64_t>(static_cast<std::int64_t>(target[i]));
      signs |= given | (last - given);
    }
    return static_cast<std::int64_t>(signs) >= 0;
  };
  if (l.targets.dtype == DType::I32 ? inside(l.targets.as<const std::int32_t>())
                                    : inside(l.targets.as<const std::int64_t>()))
    return {};
  for (std::int64_t i = 0; i < l.targets.count; ++i) {
    const std::int64_t target = integer_at(l.targets, i);
    if ((target < 0 || target >= classes) && l.counts(target))
      return qir::node_error(context.node(), ErrorId::run_value, "found class %lld, expected 0 to %lld", target,
                             classes - 1);
  }
  return {};
}

// Sums over one plane of targets, of classes that lie `inner` elements apart.
constexpr std::int64_t kSums = 4;  // so that one addition does not wait for the other
template <class Score, class Target>
void sum_plane(const ClassLoss &l, const Score *score, const Target *target_at, std::int64_t first, double *totals,
               double *weight_totals) {
  const std::int64_t inner = l.rows.step;
  const auto *const plane = score + first * l.rows.length;
  if (!l.has_ignored && !l.weights && !l.each) {
    std::int64_t j = 0;
    for (; j + kSums <= inner; j += kSums)
      for (std::int64_t k = 0; k < kSums; ++k)
        totals[k] -= static_cast<double>(plane[target_at[first + j + k] * inner + j + k]);
    for (; j < inner; ++j) totals[j % kSums] -= static_cast<double>(plane[target_at[first + j] * inner + j]);
    weight_totals[0] += static_cast<double>(inner);
    return;
  }
  for (std::int64_t j = 0; j < inner; ++j) {
    const std::int64_t target = target_at[first + j];
    const double weight = l.weight_of(target);
    const double value = l.counts(target) ? -static_cast<double>(plane[target * inner + j]) * weight : 0;
    if (l.each) set_real(*l.loss, first + j, value);
    totals[j % kSums] += value;
    weight_totals[j % kSums] += weight;
  }
}

void sum_log_probabilities(const Context &context, ClassLoss &l) {
  const auto sum_up = [&](const auto *score, const auto *target_at) {
    double totals[kSums] = {}, weight_totals[kSums] = {};
    for (std::int64_t first = 0; first < l.targets.count && !context.stopped(); first += l.rows.step)
      sum_plane(l, score, target_at, first, totals, weight_totals);
    for (const double sum : totals) l.total += sum;
    for (const double sum : weight_totals) l.weight_total += sum;
  };
  dispatch<float, double>(l.scores.dtype, [&](auto tag) {
    const auto *const score = l.scores.as<const decltype(tag)>();
    if (l.targets.dtype == DType::I32) sum_up(score, l.targets.as<const std::int32_t>());
    else sum_up(score, l.targets.as<const std::int64_t>());
  });
}

// False: it was stopped.
bool sum_each(const Context &context, ClassLoss &l, bool logits, const View *log_probabilities) {
  const std::int64_t classes = l.rows.length;
  Poll poll(context);
  for (std::int64_t i = 0; i < l.targets.count; ++i) {
    if ((i & 255) == 0 && context.stopped()) return false;
    const std::int64_t target = integer_at(l.targets, i), first = classes == 0 ? 0 : l.rows.first(i);
    double shift = 0;  // what is taken off a score to make it a log-probability
    if (logits && classes != 0) {
      dispatch<float, double>(l.scores.dtype, [&](auto tag) {
        const auto *row = l.scores.as<const decltype(tag)>() + first;
        const double greatest = greatest_of(poll, row, l.rows);
        shift = greatest + real::log(sum_of_exponentials(poll, row, l.rows, greatest));
      });
      for (std::int64_t c = 0; log_probabilities && c < classes; ++c)
        set_real(*log_probabilities, first + c * l.rows.step, real_at(l.scores, first + c * l.rows.step) - shift);
    }
    const double weight = l.weight_of(target);
    const double value = l.counts(target) ? -(real_at(l.scores, first + target * l.rows.step) - shift) * weight : 0;
    if (l.each) set_real(*l.loss, i, value);
    l.total += value;
    l.weight_total += weight;
  }
  return true;
}

Status class_loss(Context &context, bool logits) {
  const qir::Node &node = context.node();
  const View &scores = *context.input(0), &targets = *context.input(1);
  if (!is_real(scores)) return type_error(context, scores.dtype);
  if (targets.dtype != DType::I32 && targets.dtype != DType::I64) return type_error(context, targets.dtype);
  if (scores.rank < 2 || targets.rank + 1 != scores.rank || targets.dims[0] != scores.dims[0] ||
      !std::equal(scores.dims + 2, scores.dims + scores.rank, targets.dims + 1)) {
    return qir::node_error(node, ErrorId::run_value, "found scores %s and targets %s, expected [N,C,D...] and [N,D...]",
                           shape_text(scores.dims, scores.rank), shape_text(targets.dims, targets.rank));
  }
  const std::string_view reduction = node.get_string("reduction", "mean");
  View *const loss = context.output(0), *const log_probabilities =
                                            context.output_count() > 1 ? context.output(1) : nullptr;
  ClassLoss l{scores,
              targets,
              context.input(2),
              StridedRows(scores, 1),
              node.find("ignore_index") != nullptr,
              node.get_int("ignore_index", 0),
              loss,
              loss && reduction == "none"};
  QR_RETURN_IF_ERROR(check_real(context, l.weights, "the weights", {l.rows.length}));
  QR_RETURN_IF_ERROR(check_targets(context, l));
  if (!logits && l.rows.length != 0) sum_log_probabilities(context, l);
  else if (!sum_each(context, l, logits, log_probabilities)) return {};
  if (loss && !l.each) set_real(*loss, 0, reduction == "sum" ? l.total : l.total / l.weight_total);
  return {};
}

}  // namespace

Status kernel_negative_log_likelihood_loss(Context &context) { return class_loss(context, false); }

Status kernel_softmax_cross_entropy_loss(Context &context) { return class_loss(context, true); }

}  // namespace quarry::reference
