// SPDX-License-Identifier: Apache-2.0
// Einsum, and the two operators on square matrices: Det and Inverse.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {

using qir::EinsumPlan;
using qir::kMaxRank;

namespace {

// Elements that an operand moves by per step of each label; a label that it has twice moves both axes.
void label_strides(const EinsumPlan::Operand &operand, const std::int64_t *dims, std::int64_t *strides) {
  std::int64_t dense[kMaxRank];
  dense_strides(dims, operand.rank, dense);
  std::fill_n(strides, EinsumPlan::kMaxLabels, 0);
  for (std::uint32_t i = 0; i < operand.rank; ++i) {
    if (!operand.broadcast[i]) strides[operand.label[i]] += dense[i];
  }
}

// One sum of products: for every index of `out` labels, over every index of `sum` labels. Labels are in `order`, out
// ones first.
struct Contraction {
  static constexpr std::size_t kMax = EinsumPlan::kMaxLabels;
  std::size_t out_count = 0, count = 0;
  std::int64_t extent[kMax];
  std::int64_t a[kMax], b[kMax], out[kMax];  // strides
};

template <class Sum>
void contract(Context &context, const Contraction &c, const Sum *a, const Sum *b, Sum *out) {
  std::int64_t index[Contraction::kMax] = {};
  for (std::size_t i = 0; i < c.out_count; ++i) {
    if (c.extent[i] == 0) return;
  }
  const bool empty =
      std::any_of(c.extent + c.out_count, c.extent + c.count, [](std::int64_t extent) { return extent == 0; });
  // Steps one index of labels [begin, end) on and moves the positions along; false when all have been seen.
  const auto step = [&](std::size_t begin, std::size_t end, std::int64_t *at_a, std::int64_t *at_b,
                        std::int64_t *at_out) {
    for (std::size_t i = end; i-- > begin;) {
      const bool wraps = ++index[i] == c.extent[i];
      const std::int64_t move = wraps ? 1 - c.extent[i] : 1;
      if (wraps) index[i] = 0;
      *at_a += move * c.a[i], *at_b += move * c.b[i], *at_out += move * c.out[i];
      if (!wraps) return true;
    }
    return false;
  };
  std::int64_t at_a = 0, at_b = 0, at_out = 0;
  do {
    Sum sum = 0;
    if (!empty) {
      std::int64_t none = 0;
      do {
        sum += b ? a[at_a] * b[at_b] : a[at_a];
      } while (step(c.out_count, c.count, &at_a, &at_b, &none));
    }
    out[at_out] = sum;
  } while (!context.stopped() && step(0, c.out_count, &at_a, &at_b, &at_out));
}

// Operands are taken two at a time, from the left: the product of two keeps the labels that a later operand or the
// output has. Partial is double or, for integers, std::uint64_t: what is more than their type's bits is cut off at the
// end.
template <class Partial>
void einsum(Context &context, const EinsumPlan &plan, View &out) {
  const std::uint32_t labels = plan.label_count;
  // The product so far: dense over `have` labels in ascending order, or the first operand as it is.
  const Partial *partial = nullptr;
  EinsumPlan::Operand output = plan.output;
  std::int64_t a[EinsumPlan::kMaxLabels], b[EinsumPlan::kMaxLabels];
  bool in_product[EinsumPlan::kMaxLabels] = {};
  const auto widen = [&](const View &view) {
    auto *copy = static_cast<Partial *>(context.scratch(static_cast<std::uint64_t>(view.count) * sizeof(Partial)));
    if constexpr (std::is_same_v<Partial, double>) load_reals(view, 0, 1, view.count, copy);
    else load_integers(view, 0, 1, view.count, reinterpret_cast<std::int64_t *>(copy));
    return copy;
  };
  const auto mark = [&](const EinsumPlan::Operand &operand) {
    for (std::uint32_t i = 0; i < operand.rank; ++i) in_product[operand.label[i]] = true;
  };
  label_strides(plan.inputs[0], context.input(0)->dims, a);
  mark(plan.inputs[0]);
  partial = widen(*context.input(0));
  const std::size_t count = plan.inputs.size();
  for (std::size_t step = std::min<std::size_t>(1, count - 1); step < count; ++step) {
    const bool single = count == 1, final = step + 1 == count;
    const Partial *right = nullptr;
    std::fill_n(b, EinsumPlan::kMaxLabels, 0);
    if (!single) {
      label_strides(plan.inputs[step], context.input(static_cast<std::uint32_t>(step))->dims, b);
      mark(plan.inputs[step]);
      right = widen(*context.input(static_cast<std::uint32_t>(step)));
    }
    bool kept[EinsumPlan::kMaxLabels] = {};
    for (std::uint32_t i = 0; i < output.rank; ++i) kept[output.label[i]] = true;
    for (std::size_t later = step + 1; later < count; ++later) {
      for (std::uint32_t i = 0; i < plan.inputs[later].rank; ++i) kept[plan.inputs[later].label[i]] = true;
    }
    // Where the result goes: the output itself, or a dense block over the kept labels.
    std::int64_t to[EinsumPlan::kMaxLabels] = {}, size = 1;
    if (final) {
      label_strides(output, out.dims, to);
      size = out.count;
    } else {
      for (std::uint32_t label = labels; label-- > 0;) {
        if (!kept[label] || !in_product[label]) continue;
        to[label] = size;
        if (!checked_mul(size, plan.extent[label], &size)) throw std::bad_alloc();
      }
    }
    Contraction contraction;
    const auto append = [&](std::uint32_t label) {
      const std::size_t i = contraction.count++;
      contraction.extent[i] = plan.extent[label];
      contraction.a[i] = a[label], contraction.b[i] = b[label], contraction.out[i] = to[label];
    };
    for (std::uint32_t label = 0; label < labels; ++label) {
      if (in_product[label] && kept[label]) append(label);
    }
    contraction.out_count = contraction.count;
    for (std::uint32_t label = 0; label < labels; ++label) {
      if (in_product[label] && !kept[label]) append(label);
      in_product[label] = in_product[label] && kept[label];
    }
    auto *result = static_cast<Partial *>(context.scratch(static_cast<std::uint64_t>(size) * sizeof(Partial)));
    contract(context, contraction, partial, right, result);
    partial = result;
    std::copy_n(to, EinsumPlan::kMaxLabels, a);
  }
  if constexpr (std::is_same_v<Partial, double>) store_rounded(out, 0, out.count, partial);
  else store_integers(out, 0, out.count, reinterpret_cast<const std::int64_t *>(partial));
}

// Moves the row with the largest element of column k from row k on there; returns where it was.
std::int64_t pivot_of(double *matrix, std::int64_t n, std::int64_t k) noexcept {
  std::int64_t pivot = k;
  for (std::int64_t i = k + 1; i < n; ++i) {
    if (std::fabs(matrix[i * n + k]) > std::fabs(matrix[pivot * n + k])) pivot = i;
  }
  if (pivot != k) std::swap_ranges(matrix + k * n, matrix + (k + 1) * n, matrix + pivot * n);
  return pivot;
}

// row -= factor * other, which is another row.
void subtract(double *__restrict row, double factor, const double *__restrict other, std::int64_t n) noexcept {
  constexpr std::int64_t kSome = 8;
  std::int64_t j = 0;
  for (; j + kSome <= n; j += kSome)
    for (std::int64_t k = 0; k < kSome; ++k) row[j + k] -= factor * other[j + k];
  for (; j < n; ++j) row[j] -= factor * other[j];
}

// LU with row exchanges, in place; returns the determinant.
double eliminate(double *matrix, std::int64_t n) {
  double determinant = 1;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t pivot = pivot_of(matrix, n, k);
    if (pivot != k) determinant = -determinant;
    const double head = matrix[k * n + k];
    determinant *= head;
    if (head == 0) return 0;
    for (std::int64_t i = k + 1; i < n; ++i)
      subtract(matrix + i * n + k, matrix[i * n + k] / head, matrix + k * n + k, n - k);
  }
  return determinant;
}

// Gauss and Jordan's inverse, in place; false: there is none. `pivots` has room for n.
bool invert(double *matrix, std::int64_t n, std::int64_t *pivots) {
  for (std::int64_t k = 0; k < n; ++k) {
    pivots[k] = pivot_of(matrix, n, k);
    double *const row = matrix + k * n;
    if (row[k] == 0) return false;
    const double factor = 1 / row[k];
    row[k] = 1;
    for (std::int64_t j = 0; j < n; ++j) row[j] *= factor;
    for (std::int64_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const double head = std::exchange(matrix[i * n + k], 0.0);
      subtract(matrix + i * n, head, row, n);
    }
  }
  // Rows that were exchanged are columns of the inverse.
  for (std::int64_t k = n; k-- > 0;)
    for (std::int64_t i = 0; pivots[k] != k && i < n; ++i) std::swap(matrix[i * n + k], matrix[i * n + pivots[k]]);
  return true;
}

}  // namespace

Status kernel_einsum(Context &context) {
  EinsumPlan plan;
  Vector<qir::Dims> shapes;
  for (std::uint32_t i = 0; i < context.input_count(); ++i) shapes.push_back(dims_of(*context.input(i)));
  QR_RETURN_IF_ERROR(qir::parse_einsum(context.node(), shapes, &plan));
  std::int64_t dims[kMaxRank];
  for (std::uint32_t i = 0; i < plan.output.rank; ++i) dims[i] = plan.extent[plan.output.label[i]];
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, plan.output.rank, &out));
  if (out->count == 0) return {};
  if (!is_loadable(out->dtype)) return type_error(context, out->dtype);
  if (is_float(out->dtype)) einsum<double>(context, plan, *out);
  else einsum<std::uint64_t>(context, plan, *out);
  return {};
}

Status kernel_det(Context &context) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  if (in.rank < 2 || in.dims[in.rank - 1] != in.dims[in.rank - 2]) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %s, expected square matrices",
                           shape_text(in.dims, in.rank));
  }
  const std::int64_t n = in.dims[in.rank - 1];
  auto *matrix = static_cast<double *>(context.scratch(static_cast<std::uint64_t>(n * n) * sizeof(double)));
  const bool known = dispatch<float, double>(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t i = 0; i < out.count && !context.stopped(); ++i) {
      std::copy_n(in.as<const T>() + i * n * n, n * n, matrix);
      out.as<T>()[i] = static_cast<T>(eliminate(matrix, n));
    }
  });
  return known ? Status() : type_error(context, in.dtype);
}

Status kernel_inverse(Context &context) {
  const View &in = *context.input(0);
  View &out = *context.output(0);
  if (in.rank < 2 || in.dims[in.rank - 1] != in.dims[in.rank - 2]) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %s, expected square matrices",
                           shape_text(in.dims, in.rank));
  }
  if (in.count == 0) return {};
  const std::int64_t n = in.dims[in.rank - 1];
  auto *matrix = static_cast<double *>(context.scratch(static_cast<std::uint64_t>(n * n) * sizeof(double)));
  auto *pivots = static_cast<std::int64_t *>(context.scratch(static_cast<std::uint64_t>(n) * sizeof(std::int64_t)));
  Status status;
  const bool known = dispatch<float, double>(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t m = 0; m < in.count / (n * n) && !context.stopped(); ++m) {
      std::copy_n(in.as<const T>() + m * n * n, n * n, matrix);
      if (!invert(matrix, n, pivots)) {
        status = qir::node_error(context.node(), ErrorId::run_value,
                                 "found a singular matrix at %lld, which has no inverse", m);
        return;
      }
      std::copy_n(matrix, n * n, out.as<T>() + m * n * n);
    }
  });
  return known ? std::move(status) : type_error(context, in.dtype);
}

}  // namespace quarry::reference
