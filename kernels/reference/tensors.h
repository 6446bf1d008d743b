// SPDX-License-Identifier: Apache-2.0
// What many kernels do with views: read integers and axes, make outputs, copy strided blocks, walk over indices.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "graph/infer/infer.h"
#include "kernels/reference/kernel.h"

namespace quarry::reference {

inline qir::Dims dims_of(const View &view) noexcept { return {view.dims, view.rank}; }

inline std::int64_t product(const std::int64_t *dims, std::size_t begin, std::size_t end) noexcept {
  std::int64_t result = 1;
  for (std::size_t i = begin; i < end; ++i) result *= dims[i];
  return result;
}

// Where an element begins.
inline const char *element(const View &view, std::int64_t index) noexcept {
  return view.as<const char>() + index * view.width;
}
inline char *element(View &view, std::int64_t index) noexcept { return view.as<char>() + index * view.width; }

// dispatch() over all numbers, and over all types that kernels compute with.
template <class F>
bool dispatch_number(DType dtype, F &&body) {
  return dispatch<float, double, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                  std::int64_t, std::uint64_t>(dtype, body);
}
template <class F>
bool dispatch_any(DType dtype, F &&body) {
  return dispatch_number(dtype, body) || dispatch<bool>(dtype, body);
}

// Signed and unsigned integers have the same sums, differences, products and bits.
inline DType unsigned_of(DType dtype) noexcept {
  switch (loop_dtype(dtype)) {
    case DType::I8: return DType::U8;
    case DType::I16: return DType::U16;
    case DType::I32: return DType::U32;
    case DType::I64: return DType::U64;
    default: return loop_dtype(dtype);
  }
}

// A position in i32 or i64 data.
inline std::int64_t integer_at(const View &view, std::int64_t index) noexcept {
  return view.dtype == DType::I32 ? view.as<const std::int32_t>()[index] : view.as<const std::int64_t>()[index];
}

// Elements between neighbours along each axis of dense row-major data.
inline void dense_strides(const std::int64_t *dims, std::size_t rank, std::int64_t *strides) noexcept {
  std::int64_t stride = 1;
  for (std::size_t i = rank; i-- > 0; stride *= dims[i]) strides[i] = stride;
}

// The entries of an i32 or i64 input; an absent input is an empty list.
Status read_list(const Context &context, std::uint32_t input, qir::IntList *out);
// The one entry of an i32 or i64 input; `fallback` where it is absent.
Status read_integer(const Context &context, std::uint32_t input, std::int64_t fallback, std::int64_t *out);
// The attribute "axis" within [0, rank).
Status read_axis(const Context &context, std::int64_t fallback, std::size_t rank, std::size_t *out);

// The output with this shape: made now where they were not known before the run, else they must be the ones that
// were. An output that nobody wants is nullptr.
Status make_output(Context &context, std::uint32_t index, const std::int64_t *dims, std::size_t rank, View **out);

// The whole kernel of an operator whose output holds its input's bits under another type or name; both have one width.
Status copy_bits(Context &context);

// An index that may count from the end, within [0, dimension).
inline bool resolve_index(std::int64_t index, std::int64_t extent, std::int64_t *out) noexcept {
  *out = index < 0 ? index + extent : index;
  return *out >= 0 && *out < extent;
}
Status index_error(const Context &context, std::int64_t index, std::int64_t extent);
// The kernel lists another type in kernels.inc than it has loops for.
Status type_error(const Context &context, DType dtype);

// For loops whose length values say, and not the sizes of inputs: asks whether to stop once for so much work.
class Poll {
 public:
  explicit Poll(const Context &context) noexcept : context_(context) {}
  // `work`: about how many elements this step touches.
  bool stopped(std::int64_t work) noexcept {
    if ((work_ += work) < kWork) return stopped_;
    work_ = 0;
    return stopped_ = stopped_ || context_.stopped();
  }

 private:
  static constexpr std::int64_t kWork = 1 << 16;
  const Context &context_;
  std::int64_t work_ = 0;
  bool stopped_ = false;
};

// Calls part(begin, end) for [0, count), which may be as long as a tensor; between parts it is asked whether to stop.
// False: it was stopped, and not all of them were called.
template <class Part>
bool in_parts(const Context &context, std::int64_t count, Part &&part) {
  constexpr std::int64_t kPart = 1 << 16;
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    if (begin > 0 && context.stopped()) return false;
    part(begin, std::min(count, begin + kPart));
  }
  return true;
}

// Copies a block of `dims` elements of `width` bytes; strides count elements and may be 0 or negative.
inline constexpr std::size_t kMaxCopyRank = 2 * qir::kMaxRank;
// `poll` (may be nullptr): it may be stopped on the way.
void copy_strided(std::uint32_t width, std::size_t rank, const std::int64_t *dims, void *to,
                  const std::int64_t *to_strides, const void *from, const std::int64_t *from_strides,
                  Poll *poll = nullptr) noexcept;
// `count` elements, each with the bytes at `value`; those of an output, which may be stopped on the way.
void fill(void *to, std::int64_t count, const void *value, std::uint32_t width) noexcept;
void fill(const Context &context, const View &out, const void *value) noexcept;

// An index over `dims` in row-major order: for (Odometer at(dims, rank); !at.done(); at.next()). At rank 0 there is
// one.
class Odometer {
 public:
  Odometer(const std::int64_t *dims, std::size_t rank) noexcept : dims_(dims), rank_(rank) {
    for (std::size_t i = 0; i < rank; ++i) done_ |= dims[i] <= 0;
  }
  bool done() const noexcept { return done_; }
  std::int64_t operator[](std::size_t axis) const noexcept { return index_[axis]; }
  const std::int64_t *index() const noexcept { return index_; }
  void next() noexcept {
    std::size_t i = rank_;
    while (i-- > 0) {
      if (++index_[i] < dims_[i]) return;
      index_[i] = 0;
    }
    done_ = true;
  }

 private:
  const std::int64_t *dims_;
  std::size_t rank_;
  bool done_ = false;
  std::int64_t index_[kMaxCopyRank] = {};
};

// A real number as T: integers are rounded half to even and saturated, as everywhere where a result is stored.
template <class T>
T round_to(double value) noexcept {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != 0;
  } else {
    if constexpr (sizeof(T) <= 4) {  // without calls and branches
      constexpr double kLow = std::numeric_limits<T>::min(), kHigh = std::numeric_limits<T>::max(),
                       kWhole = 6755399441055744.0;  // 1.5 * 2^52: sums with it have no fractions
      const double held = value > kLow ? value < kHigh ? value : kHigh : kLow, number = value == value ? held : 0.0;
      return static_cast<T>(
          static_cast<std::conditional_t<sizeof(T) == 4, std::int64_t, std::int32_t>>((number + kWhole) - kWhole));
    }
    const double rounded = __builtin_rint(value);
    if (!(rounded > static_cast<double>(std::numeric_limits<T>::min())))
      return rounded == rounded ? std::numeric_limits<T>::min() : T{0};
    if (rounded >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
    return static_cast<T>(rounded);
  }
}
// As Cast has it: integers lose the fraction.
template <typename T>
T cast_to(double value) noexcept {
  return round_to<T>(std::is_integral_v<T> && !std::is_same_v<T, bool> ? __builtin_trunc(value) : value);
}

// Sums and products as memory holds them: integers wrap around.
template <class T>
T add(T a, T b) noexcept {
  if constexpr (std::is_floating_point_v<T>) return a + b;
  else return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
template <class T>
T multiply(T a, T b) noexcept {
  if constexpr (std::is_floating_point_v<T>) return a * b;
  else return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

// Calls body(index) for [0, count) over the caller's threads.
template <class F>
void parallel(Context &context, std::int64_t count, F &&body) {
  struct All {
    Context &context;
    std::remove_reference_t<F> &body;
  } all{context, body};
  context.parallel_for(
      static_cast<std::uint64_t>(count),
      [](void *user, std::uint64_t begin, std::uint64_t end) {
        const All &call = *static_cast<const All *>(user);
        for (std::uint64_t i = begin; i < end; ++i) {
          if ((i - begin) % 256 == 255 && call.context.stopped()) return;  // millions of bodies that ask take long too
          call.body(static_cast<std::int64_t>(i));
        }
      },
      &all);
}

}  // namespace quarry::reference
