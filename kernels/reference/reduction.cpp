// SPDX-License-Identifier: Apache-2.0
// Reduce*: every output takes in the elements along the reduced axes. Without a reduced axis each element is a set of
// one.
#include <type_traits>

#include "base/real/real.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"
#include "kernels/reference/reduced_axes.h"

namespace quarry::reference {

namespace {

// Integers add up in 128 bits and are cut to their type at the end, so that a mean is that of the exact sum; reals in
// double.
__extension__ typedef __int128 Wide;
__extension__ typedef unsigned __int128 WideUnsigned;  // for squares, which may need all bits
template <class T>
using Accumulator = std::conditional_t<std::is_floating_point_v<T>, double, Wide>;

// An operation is: begin, what add() makes of the accumulator and one more element, and finish(accumulator, number of
// elements).
template <class T>
struct Sum {
  static Accumulator<T> begin() noexcept { return 0; }
  static void add(Accumulator<T> &sum, T value) noexcept { sum += value; }
  static T finish(Accumulator<T> sum, std::int64_t) noexcept { return static_cast<T>(sum); }
};

// Integer means are cut towards zero; the mean of nothing is NaN (0 for integers).
template <class T>
struct Mean : Sum<T> {
  static T finish(Accumulator<T> sum, std::int64_t count) noexcept {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(sum / static_cast<double>(count));
    else return count == 0 ? T{} : static_cast<T>(sum / count);
  }
};

template <class T>
struct Prod {
  using State = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;
  static State begin() noexcept { return 1; }
  static void add(State &result, T value) noexcept { result *= static_cast<State>(value); }
  static T finish(State result, std::int64_t) noexcept { return static_cast<T>(result); }
};

template <class T>
struct L1 : Sum<T> {
  static void add(Accumulator<T> &sum, T value) noexcept {
    sum += value < 0 ? -static_cast<Accumulator<T>>(value) : static_cast<Accumulator<T>>(value);
  }
};

template <class T>
struct SumSquare {
  using State = std::conditional_t<std::is_floating_point_v<T>, double, WideUnsigned>;
  static State begin() noexcept { return 0; }
  static void add(State &sum, T value) noexcept { sum += static_cast<State>(value) * static_cast<State>(value); }
  static T finish(State sum, std::int64_t) noexcept { return static_cast<T>(sum); }
};

template <class T>
struct L2 : SumSquare<T> {
  static T finish(typename SumSquare<T>::State sum, std::int64_t) noexcept {
    return static_cast<T>(std::sqrt(static_cast<double>(sum)));
  }
};

template <class T>
struct LogSum : Sum<T> {
  static T finish(Accumulator<T> sum, std::int64_t) noexcept { return static_cast<T>(real::log(sum)); }
};

// log(sum(exp(x))), as greatest + log(sum(exp(x - greatest))), which does not overflow.
template <class T>
struct LogSumExp {
  struct State {
    double greatest, sum;
  };
  static State begin() noexcept { return {-std::numeric_limits<double>::infinity(), 0}; }
  static void add(State &state, T element) noexcept {
    const double value = static_cast<double>(element);
    if (value <= state.greatest) {
      state.sum +=
          value == state.greatest ? (std::isinf(value) && value < 0 ? 0.0 : 1.0) : real::exp(value - state.greatest);
    } else {  // also NaN
      state.sum = state.sum * real::exp(state.greatest - value) + 1;
      state.greatest = value;
    }
  }
  static T finish(State state, std::int64_t) noexcept {
    const bool infinite = std::isinf(state.greatest) && state.sum == state.sum;
    return static_cast<T>(infinite ? state.greatest : state.greatest + real::log(state.sum));
  }
};

// NaN wins over everything. Of nothing: the other end of the type.
template <class T, bool Greatest>
struct Extreme {
  static T begin() noexcept {
    using Limits = std::numeric_limits<T>;
    if constexpr (std::is_floating_point_v<T>) return Greatest ? -Limits::infinity() : Limits::infinity();
    else return Greatest ? Limits::lowest() : Limits::max();
  }
  static void add(T &best, T value) noexcept {
    best = ((Greatest ? value > best : value < best) | (value != value)) & (best == best) ? value : best;
  }
  static T finish(T best, std::int64_t) noexcept { return best; }
};
template <class T>
using Greatest = Extreme<T, true>;
template <class T>
using Least = Extreme<T, false>;

// The operation on one type, as functions: the state is theirs.
struct Reducer {
  void (*begin)(void *state);
  void (*add)(void *state, const void *data, std::int64_t first, std::int64_t step, std::int64_t count);
  void (*finish)(const void *state, std::int64_t count, void *out, std::int64_t index);
};
constexpr std::size_t kStateSize = 16;

template <class T, class Operation>
struct ReducerOf {
  using State = decltype(Operation::begin());
  static_assert(sizeof(State) <= kStateSize && alignof(State) <= kStateSize);

  static void begin(void *state) noexcept { *static_cast<State *>(state) = Operation::begin(); }
  static void add(void *state, const void *data, std::int64_t first, std::int64_t step, std::int64_t count) noexcept {
    const T *const from = static_cast<const T *>(data) + first;
    State sum = *static_cast<State *>(state);
    if (step == 1) {
      for (std::int64_t i = 0; i < count; ++i) Operation::add(sum, from[i]);
    } else {
      for (std::int64_t i = 0; i < count; ++i) Operation::add(sum, from[i * step]);
    }
    *static_cast<State *>(state) = sum;
  }
  static void finish(const void *state, std::int64_t count, void *out, std::int64_t index) noexcept {
    static_cast<T *>(out)[index] = Operation::finish(*static_cast<const State *>(state), count);
  }
};

void reduce_all(Context &context, const View &x, const bool *reduced, const View &y, const Reducer &by) {
  const ReducedAxes axes(x, reduced);
  const std::int64_t count = axes.gone.count();
  parallel(context, y.count, [&](std::int64_t index) {
    if (context.stopped()) return;
    alignas(kStateSize) std::byte state[kStateSize];
    by.begin(state);
    constexpr std::int64_t kPiece = 1 << 20;
    Poll poll(context);
    axes.for_rows(index, [&](std::int64_t first, std::int64_t step, std::int64_t length) {
      for (std::int64_t at = 0; at < length && !poll.stopped(std::min(kPiece, length - at)); at += kPiece)
        by.add(state, x.data, first + at * step, step, std::min(kPiece, length - at));
    });
    by.finish(state, count, y.data, index);
  });
}

// Where the result of `x` goes, and over which axes it is reduced; nullptr: nobody wants it.
Status open_reduction(Context &context, const View &x, bool *reduced, View **y) {
  const View *list = context.input(1);
  qir::IntList axes;
  bool gone[qir::kMaxRank] = {};
  QR_RETURN_IF_ERROR(read_list(context, 1, &axes));
  QR_RETURN_IF_ERROR(qir::resolve_reduce(context.node(), list ? qir::Dims(axes) : qir::Dims(), x.rank, &gone));
  std::copy_n(gone, qir::kMaxRank, reduced);
  const bool keep = context.node().get_int("keepdims", 1) != 0;
  std::int64_t dims[qir::kMaxRank];
  std::size_t rank = 0;
  for (std::uint32_t i = 0; i < x.rank; ++i) {
    if (!reduced[i] || keep) dims[rank++] = reduced[i] ? 1 : x.dims[i];
  }
  return make_output(context, 0, dims, rank, y);
}

template <template <class> class Operation, class... Ts>
Status reduce(Context &context) {
  const View &x = *context.input(0);
  bool reduced[qir::kMaxRank];
  View *y = nullptr;
  QR_RETURN_IF_ERROR(open_reduction(context, x, reduced, &y));
  if (!y) return {};
  Reducer by;
  // false and true are 0 and 1.
  const bool known = dispatch<Ts...>(x.dtype == DType::Bool ? DType::U8 : x.dtype, [&](auto tag) {
    using Of = ReducerOf<decltype(tag), Operation<decltype(tag)>>;
    by = {Of::begin, Of::add, Of::finish};
  });
  if (!known) return type_error(context, x.dtype);
  reduce_all(context, x, reduced, *y, by);
  // The least of no bools is true, not 255.
  if (x.dtype == DType::Bool)
    std::for_each_n(y->as<std::uint8_t>(), y->count, [](std::uint8_t &value) { value = value != 0; });
  return {};
}

template <template <class> class Operation>
Status reduce_numbers(Context &context) {
  return reduce<Operation, float, double, std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>(context);
}
template <template <class> class Operation>
Status reduce_ordered(Context &context) {
  return reduce<Operation, float, double, std::int8_t, std::uint8_t, std::int32_t, std::int64_t, std::uint32_t,
                std::uint64_t>(context);
}

}  // namespace

Status kernel_reduce_sum(Context &context) { return reduce_numbers<Sum>(context); }
Status kernel_reduce_mean(Context &context) { return reduce_numbers<Mean>(context); }
Status kernel_reduce_prod(Context &context) { return reduce_numbers<Prod>(context); }
Status kernel_reduce_l1(Context &context) { return reduce_numbers<L1>(context); }
Status kernel_reduce_l2(Context &context) { return reduce_numbers<L2>(context); }
Status kernel_reduce_sum_square(Context &context) { return reduce_numbers<SumSquare>(context); }
Status kernel_reduce_log_sum(Context &context) { return reduce<LogSum, float, double>(context); }
Status kernel_reduce_log_sum_exp(Context &context) { return reduce<LogSumExp, float, double>(context); }
Status kernel_reduce_max(Context &context) { return reduce_ordered<Greatest>(context); }
Status kernel_reduce_min(Context &context) { return reduce_ordered<Least>(context); }

}  // namespace quarry::reference
