// SPDX-License-Identifier: Apache-2.0
// Normalisations: y = (x - mean) / deviation, scaled and shifted; they differ in what the mean is taken over.
// Statistics are doubles, in two passes (the mean first), whatever stash_type says: it asks for no less than f32.
#include "base/real/real.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"
#include "kernels/reference/reduced_axes.h"

namespace quarry::reference {

namespace {

// Of the population; NaN of nothing. A mean that was rounded lies `rest` beside the true one, which is much where
// elements differ by little.
struct Moments {
  double mean = 0, variance = 0, rest = 0;
  double from_mean(double value) const noexcept { return (value - mean) - rest; }
};

// for_each(visit) calls visit(value) for every element, in the same order each time.
template <class ForEach>
Moments moments_of(std::int64_t count, ForEach &&for_each) {
  const double n = static_cast<double>(count);
  double sum = 0, squares = 0, rest = 0;
  for_each([&](double value) { sum += value; });
  const double mean = sum / n;
  for_each([&](double value) {
    squares += (value - mean) * (value - mean);
    rest += value - mean;
  });
  rest /= n;
  const double variance = squares / n - rest * rest;
  return {mean, variance < 0 ? 0 : variance, rest};
}

template <class T, class Visit>
void visit_row(const Context &context, const T *from, std::int64_t count, Visit &&visit) {
  in_parts(context, count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) visit(static_cast<double>(from[i]));
  });
}

double epsilon_of(const Context &context) noexcept {
  return static_cast<double>(context.node().get_float("epsilon", 1e-5f));
}

// X as [N, C, space]; rank 1 is [N].
struct Planes {
  std::int64_t batch, channels, size;

  static Status of(const Context &context, const View &x, Planes *out) {
    if (x.rank == 0) return qir::node_error(context.node(), ErrorId::run_value, "X is a scalar, expected [N,C,...]");
    *out = {x.dims[0], x.rank > 1 ? x.dims[1] : 1, product(x.dims, std::min(2u, x.rank), x.rank)};
    return {};
  }
};

// Y = X with every row of `row` elements brought to mean 0 and deviation 1, then scaled and shifted per channel; row r,
// element i belongs to channel (r * row + i) / size % channels.
Status normalize_rows(Context &context, const Planes &planes, std::int64_t rows, std::int64_t row) {
  const View &x = *context.input(0), &scale = *context.input(1), &bias = *context.input(2);
  QR_RETURN_IF_ERROR(check_real(context, &scale, "the scale", {planes.channels}));
  QR_RETURN_IF_ERROR(check_real(context, &bias, "the bias", {planes.channels}));
  View *y = context.output(0);
  if (!y) return {};
  const double epsilon = epsilon_of(context);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, row == 0 ? 0 : rows, [&](std::int64_t r) {
      if (context.stopped()) return;
      const T *from = x.as<const T>() + r * row;
      T *to = y->as<T>() + r * row;
      const Moments m = moments_of(row, [&](auto &&visit) { visit_row(context, from, row, visit); });
      const double deviation = std::sqrt(m.variance + epsilon);
      for (std::int64_t i = 0; i < row; i += planes.size) {
        const std::int64_t channel = (r * row + i) / planes.size % planes.channels;
        const double factor = real_at(scale, channel), offset = real_at(bias, channel);
        in_parts(context, planes.size, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t k = i + begin; k < i + end; ++k)
            to[k] = static_cast<T>(m.from_mean(static_cast<double>(from[k])) / deviation * factor + offset);
        });
      }
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

// An operand that is broadcast to X, read by (row, element of the row), where the row begins at `axis`.
class RowOperand {
 public:
  Status open(Context &context, std::uint32_t input, const View &x, std::size_t axis) {
    view_ = context.input(input);
    if (!view_) return {};
    if (!is_real(*view_)) return type_error(context, view_->dtype);
    std::int64_t strides[qir::kMaxRank] = {}, own[qir::kMaxRank];
    dense_strides(view_->dims, view_->rank, own);
    for (std::uint32_t i = 0; i < view_->rank; ++i) {
      const std::uint32_t target = x.rank - view_->rank + i;
      if (view_->rank > x.rank || (view_->dims[i] != 1 && view_->dims[i] != x.dims[target])) {
        return qir::node_error(context.node(), ErrorId::run_value,
                               "input %u is %s, expected what can be broadcast to %s", input,
                               shape_text(view_->dims, view_->rank), shape_text(x.dims, x.rank));
      }
      strides[target] = view_->dims[i] == 1 ? 0 : own[i];
    }
    for (std::size_t i = 0; i < axis; ++i) outer_.push(x.dims[i], strides[i], false);
    const std::int64_t row = product(x.dims, axis, x.rank);
    bool as_row = true;  // its elements lie as those of a row, as they nearly always do
    std::int64_t dense = 1;
    for (std::size_t i = x.rank; i-- > axis; dense *= x.dims[i]) as_row &= x.dims[i] == 1 || strides[i] == dense;
    if (as_row) return {};
    offsets_ = static_cast<std::int64_t *>(context.scratch(static_cast<std::uint64_t>(row) * sizeof(std::int64_t)));
    std::int64_t at = 0;
    Poll poll(context);
    for (Odometer index(x.dims + axis, x.rank - axis); !index.done() && !poll.stopped(1); index.next(), ++at) {
      for (std::size_t i = axis; i < x.rank; ++i) offsets_[at] += index[i - axis] * strides[i];
    }
    return {};
  }
  std::int64_t row(std::int64_t index) const noexcept { return view_ ? outer_.offset(index) : 0; }
  double at(std::int64_t row_offset, std::int64_t i, double fallback) const noexcept {
    return view_ ? real_at(*view_, row_offset + (offsets_ ? offsets_[i] : i)) : fallback;
  }

 private:
  const View *view_ = nullptr;
  AxisGroup outer_;
  std::int64_t *offsets_ = nullptr;  // of a row's elements; null: as in the row
};

// LayerNormalization, and with `centred` false RMSNormalization, whose mean is 0 by definition.
Status normalize_last_axes(Context &context, bool centred) {
  const View &x = *context.input(0);
  std::size_t axis = 0;
  RowOperand scale, bias;
  QR_RETURN_IF_ERROR(read_axis(context, -1, x.rank, &axis));
  QR_RETURN_IF_ERROR(scale.open(context, 1, x, axis));
  if (centred) QR_RETURN_IF_ERROR(bias.open(context, 2, x, axis));
  View *y = context.output(0), *means = context.output(1), *inverses = context.output(2);
  for (const View *view :
       {static_cast<const View *>(y), static_cast<const View *>(means), static_cast<const View *>(inverses)}) {
    if (view && !is_real(*view)) return type_error(context, view->dtype);
  }
  const double epsilon = epsilon_of(context);
  const std::int64_t rows = product(x.dims, 0, axis), row = product(x.dims, axis, x.rank);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, rows, [&](std::int64_t r) {
      if (context.stopped()) return;
      const T *from = x.as<const T>() + r * row;
      Moments m;
      if (centred) {
        m = moments_of(row, [&](auto &&visit) { visit_row(context, from, row, visit); });
      } else {
        visit_row(context, from, row, [&](double value) { m.variance += value * value; });
        m.variance /= static_cast<double>(row);
      }
      const double inverse = 1 / std::sqrt(m.variance + epsilon);
      const std::int64_t scale_row = scale.row(r), bias_row = bias.row(r);
      in_parts(context, y ? row : 0, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const double normal = m.from_mean(static_cast<double>(from[i])) * inverse;
          set_real(*y, r * row + i, normal * scale.at(scale_row, i, 1) + bias.at(bias_row, i, 0));
        }
      });
      if (means) set_real(*means, r, m.mean);
      if (inverses) set_real(*inverses, r, inverse);
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

}  // namespace

Status kernel_batch_normalization(Context &context) {
  const View &x = *context.input(0);
  Planes planes{};
  QR_RETURN_IF_ERROR(Planes::of(context, x, &planes));
  const char *const names[] = {"", "the scale", "the bias", "the mean", "the variance"};
  for (std::uint32_t i = 1; i < 5; ++i)
    QR_RETURN_IF_ERROR(check_real(context, context.input(i), names[i], {planes.channels}));
  const View &scale = *context.input(1), &bias = *context.input(2), &mean = *context.input(3),
             &variance = *context.input(4);
  const bool training = context.node().get_int("training_mode", 0) != 0;
  const double epsilon = epsilon_of(context),
               momentum = static_cast<double>(context.node().get_float("momentum", 0.9f));
  View *y = context.output(0), *running_mean = context.output(1), *running_variance = context.output(2);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, planes.channels, [&](std::int64_t c) {
      if (context.stopped()) return;
      Moments m{real_at(mean, c), real_at(variance, c)};
      if (training) {
        m = moments_of(planes.batch * planes.size, [&](auto &&visit) {
          for (std::int64_t n = 0; n < planes.batch; ++n) {
            visit_row(context, x.as<const T>() + (n * planes.channels + c) * planes.size, planes.size, visit);
          }
        });
      }
      const double factor = real_at(scale, c) / std::sqrt(m.variance + epsilon), offset = real_at(bias, c);
      for (std::int64_t n = 0; y && n < planes.batch; ++n) {
        const std::int64_t first = (n * planes.channels + c) * planes.size;
        const T *from = x.as<const T>() + first;
        T *to = y->as<T>() + first;
        in_parts(context, planes.size, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
            to[i] = static_cast<T>(m.from_mean(static_cast<double>(from[i])) * factor + offset);
        });
      }
      if (running_mean) set_real(*running_mean, c, real_at(mean, c) * momentum + m.mean * (1 - momentum));
      if (running_variance)
        set_real(*running_variance, c, real_at(variance, c) * momentum + m.variance * (1 - momentum));
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

Status kernel_instance_normalization(Context &context) {
  Planes planes{};
  QR_RETURN_IF_ERROR(Planes::of(context, *context.input(0), &planes));
  return normalize_rows(context, planes, planes.batch * planes.channels, planes.size);
}

Status kernel_group_normalization(Context &context) {
  Planes planes{};
  QR_RETURN_IF_ERROR(Planes::of(context, *context.input(0), &planes));
  const std::int64_t groups = context.node().get_int("num_groups", 1);
  if (groups < 1 || planes.channels % groups != 0) {
    return qir::node_error(context.node(), ErrorId::run_value, "%lld channels do not divide into %lld groups",
                           planes.channels, groups);
  }
  return normalize_rows(context, planes, planes.batch * groups, planes.channels / groups * planes.size);
}

Status kernel_layer_normalization(Context &context) { return normalize_last_axes(context, true); }

Status kernel_rms_normalization(Context &context) { return normalize_last_axes(context, false); }

Status kernel_mean_variance_normalization(Context &context) {
  constexpr double kEpsilon = 1e-9;  // ONNX adds it to the deviation
  const View &x = *context.input(0);
  const Vector<std::int64_t> *list = context.node().get_ints("axes");
  const std::int64_t usual[] = {0, 2, 3};
  qir::IntList axes;
  QR_RETURN_IF_ERROR(qir::resolve_axes(context.node(), list ? qir::Dims(*list) : qir::Dims(usual), x.rank, &axes));
  bool reduced[qir::kMaxRank] = {};
  for (const std::int64_t axis : qir::Dims(axes)) reduced[axis] = true;
  View *y = context.output(0);
  if (!y) return {};
  const ReducedAxes sets(x, reduced);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, sets.kept.count(), [&](std::int64_t index) {
      if (context.stopped()) return;
      const auto for_each = [&](auto &&visit) {
        sets.for_rows(index, [&](std::int64_t first, std::int64_t step, std::int64_t length) {
          in_parts(context, length, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) visit(first + i * step);
          });
        });
      };
      const Moments m = moments_of(sets.gone.count(), [&](auto &&visit) {
        for_each([&](std::int64_t at) { visit(static_cast<double>(x.as<const T>()[at])); });
      });
      const double deviation = std::sqrt(m.variance) + kEpsilon;
      for_each([&](std::int64_t at) {
        y->as<T>()[at] = static_cast<T>(m.from_mean(static_cast<double>(x.as<const T>()[at])) / deviation);
      });
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

// x / |x| along the axis; a row of zeros stays zeros.
Status kernel_lp_normalization(Context &context) {
  const View &x = *context.input(0);
  std::size_t axis = 0;
  QR_RETURN_IF_ERROR(read_axis(context, -1, x.rank, &axis));
  const std::int64_t p = context.node().get_int("p", 2);
  const std::int64_t length = x.dims[axis], inner = product(x.dims, axis + 1, x.rank);
  View *y = context.output(0);
  if (!y) return {};
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, length == 0 ? 0 : x.count / length, [&](std::int64_t row) {
      if (context.stopped()) return;
      const std::int64_t first = row / inner * inner * length + row % inner;
      const T *from = x.as<const T>() + first;
      double norm = 0;
      in_parts(context, length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const double value = std::abs(static_cast<double>(from[i * inner]));
          norm += p == 1 ? value : value * value;
        }
      });
      if (p != 1) norm = std::sqrt(norm);
      in_parts(context, length, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i)
          y->as<T>()[first + i * inner] = norm == 0 ? T{} : static_cast<T>(static_cast<double>(from[i * inner]) / norm);
      });
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

// y = x / (bias + alpha / size * sum of squares)^beta, the sum going over the same position in `size` channels around
// x's own.
Status kernel_lrn(Context &context) {
  const qir::Node &node = context.node();
  const View &x = *context.input(0);
  Planes planes{};
  QR_RETURN_IF_ERROR(Planes::of(context, x, &planes));
  const std::int64_t size = node.get_int("size", 1);
  if (size < 1) return qir::node_error(node, ErrorId::qir_attribute, "size is %lld, expected 1 or more", size);
  const double alpha = static_cast<double>(node.get_float("alpha", 1e-4f)) / static_cast<double>(size);
  const double beta = static_cast<double>(node.get_float("beta", 0.75f)),
               bias = static_cast<double>(node.get_float("bias", 1));
  View *y = context.output(0);
  if (!y) return {};
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, planes.batch * planes.channels, [&](std::int64_t plane) {
      if (context.stopped()) return;
      const std::int64_t c = plane % planes.channels;
      const std::int64_t begin = c - std::min(c, (size - 1) / 2),
                         end = c + std::min(planes.channels - 1 - c, size / 2) + 1;
      Poll poll(context);
      for (std::int64_t i = 0; i < planes.size && !poll.stopped(end - begin); ++i) {
        double squares = 0;
        for (std::int64_t k = begin; k < end; ++k) {
          const double value = static_cast<double>(x.as<const T>()[(plane - c + k) * planes.size + i]);
          squares += value * value;
        }
        const std::int64_t at = plane * planes.size + i;
        y->as<T>()[at] =
            static_cast<T>(static_cast<double>(x.as<const T>()[at]) / real::pow(bias + alpha * squares, beta));
      }
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

}  // namespace quarry::reference
