// SPDX-License-Identifier: Apache-2.0
// Operators on elements of any type: plain loops over whole vectors, which the compiler makes vectors of; what is left
// of a row is filled up to one beside it, so that no loop has an end of its own to be compiled.
#include "kernels/cpu/loops/nest.h"
#include "kernels/cpu/shapes/elements_shape.h"
#include "kernels/cpu/vector/combine.h"
#include "kernels/cpu/vector/functions_f32.h"
#include "kernels/cpu/vector/functions_f64.h"
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::uint64_t kGrainBytes = 64 << 10;
// Elements of a row at a time, so that operands that are repeated or far apart have room beside them; of short ones
// more.
constexpr std::int64_t kRow = 512, kRoom = kRow * 8;
// Bytes of rows that are brought together: a call each would take longer than to copy them, or, if they are not whole
// vectors, two calls would.
constexpr std::int64_t kShortRow = 128, kOddRow = 1024;

template <ElementOp op, class T>
QR_INLINE bool holds(T a, T b) noexcept {
  if constexpr (op == ElementOp::Equal) return a == b;
  else if constexpr (op == ElementOp::Less) return a < b;
  else return a <= b;
}
template <ElementOp op, class T>
QR_INLINE T function(T a) noexcept {
  if constexpr (op == ElementOp::Abs) {
    if constexpr (sizeof(T) == 4 && kReal<T>) return __builtin_fabsf(a);
    else if constexpr (kReal<T>) return __builtin_fabs(a);
    else return a < 0 ? static_cast<T>(T{0} - a) : a;
  } else if constexpr (op == ElementOp::Neg) {
    if constexpr (kReal<T>) return -a;
    else return static_cast<T>(T{0} - a);
  } else if constexpr (op == ElementOp::Sign) {
    const T sign = static_cast<T>(static_cast<T>(a > T{0}) - static_cast<T>(a < T{0}));
    return a != a ? a : sign;
  } else {  // BitNot
    if constexpr (kReal<T>) return a;
    else return static_cast<T>(~a);
  }
}

// Short elements are shifted as 32 bits, which vectors have shifts of.
#if defined(__SSE2__) && QR_ISA_BYTES == 16
inline constexpr bool kShiftsVary = false;  // lane by lane
#else
inline constexpr bool kShiftsVary = true;
#endif
template <ElementOp op, class T>
inline constexpr bool kShiftsWide = kShiftsVary && sizeof(T) < 8 &&
                                    (op == ElementOp::ShiftLeft ||
                                     (op == ElementOp::ShiftRight && (sizeof(T) != 2 || kBytes < 64)));
template <ElementOp op, class T>
QR_INLINE T shift(T a, T b) noexcept {
  using Wide = std::conditional_t<kSigned<T>, std::int32_t, std::uint32_t>;
  constexpr std::uint32_t kLast = 31;
  const auto by = static_cast<std::uint32_t>(b);  // (a negative one is a large one)
  if constexpr (op == ElementOp::ShiftLeft) {
    const auto moved = static_cast<T>(static_cast<std::uint32_t>(a) << (by & kLast));
    return by > kLast ? T{0} : moved;
  } else {
    const auto moved = static_cast<T>(static_cast<Wide>(a) >> (by > kLast ? kLast : by));
    return !kSigned<T> && by > kLast ? T{0} : moved;
  }
}

// Bytes may alias anything, so the count is read once; y may be an operand, but no other part of it. Counts are
// multiples of what a vector of the smallest type in the loop holds (`Smallest`), which the compiler sees.
#define QR_EACH(i, all, Smallest)                                                              \
  const std::int64_t count_ = (all) & -(kBytes / static_cast<std::int64_t>(sizeof(Smallest))); \
  _Pragma("GCC ivdep") for (std::int64_t i = 0; i < count_; ++i)

// One row of elements that lie side by side.
struct RowCall {
  const void *x[3];
  void *y;
  std::int64_t count;
  float a, b;  // of Elements
};

// Operators that vectors have too. They are bound by memory: four vectors of each operand are read before one is
// written.
template <class T>
struct Block {
  static constexpr std::int64_t kCount = kBytes / static_cast<std::int64_t>(sizeof(T));
  typedef T Vec __attribute__((vector_size(QR_ISA_BYTES)));
  struct __attribute__((packed, may_alias)) Memory {
    Vec value;
  };
};
template <ElementOp op, class T>
inline constexpr bool kInBlocks =
    !kReal<T> && (op == ElementOp::Add || op == ElementOp::Sub || (op == ElementOp::Mul && sizeof(T) == 4) ||
                  op == ElementOp::BitAnd || op == ElementOp::BitOr || op == ElementOp::BitXor);
template <ElementOp op, class T>
QR_INLINE void combine_blocks(const T *a, const T *b, T *y, std::int64_t count) noexcept {
  using B = Block<T>;
  const auto at = [](auto *p, std::int64_t i) __attribute__((always_inline)) {
    return reinterpret_cast<const typename B::Memory *>(p + i)->value;
  };
  std::int64_t i = 0;
  const auto some = [&]<int Count>() __attribute__((always_inline)) {
    typename B::Vec v[Count];
    QR_UNROLL for (int k = 0; k < Count; ++k) v[k] = at(a, i + k * B::kCount);
    QR_UNROLL for (int k = 0; k < Count; ++k) {
      const typename B::Vec other = at(b, i + k * B::kCount);
      if constexpr (op == ElementOp::Add) v[k] += other;
      else if constexpr (op == ElementOp::Sub) v[k] -= other;
      else if constexpr (op == ElementOp::Mul) v[k] *= other;
      else if constexpr (op == ElementOp::BitAnd) v[k] &= other;
      else if constexpr (op == ElementOp::BitOr) v[k] |= other;
      else v[k] ^= other;
    }
    QR_UNROLL
    for (int k = 0; k < Count; ++k) reinterpret_cast<typename B::Memory *>(y + i + k * B::kCount)->value = v[k];
    i += Count * B::kCount;
  };
  while (i + 4 * B::kCount <= count) some.template operator()<4>();
  while (i < count) some.template operator()<1>();
}
// What vectors have no division of.
constexpr bool one_by_one(ElementOp op, bool real, std::int64_t width) noexcept {
  return (op == ElementOp::Div && !real && width == 8) ||
         ((op == ElementOp::Mod || op == ElementOp::Fmod) && (real || width == 8));
}
template <ElementOp op, class T>
inline constexpr bool kOneByOne = one_by_one(op, kReal<T>, sizeof(T));
template <ElementOp op, class T>
void binary_row(const RowCall &r) noexcept {
  const T *a = static_cast<const T *>(r.x[0]), *b = static_cast<const T *>(r.x[1]);
  T *y = static_cast<T *>(r.y);
  if constexpr (kInBlocks<op, T>) combine_blocks<op>(a, b, y, r.count);
  else if constexpr (kOneByOne<op, T>) {
    for (std::int64_t i = 0; i < r.count; ++i) y[i] = combine<op, T>(a[i], b[i]);
  } else if constexpr (kShiftsWide<op, T>) {
    QR_EACH(i, r.count, T) y[i] = shift<op>(a[i], b[i]);
  } else {
    QR_EACH(i, r.count, T) y[i] = combine<op, T>(a[i], b[i]);
  }
}
// The remainder by a quotient in f64, of which it is exact: where the quotient is of less than 2^29 its product with
// the divisor has at most 53 bits, and a quotient that was rounded up is put right. What is else (NaN, infinities,
// zeros, larger quotients) is left to the C library, 64 at a time.
void fmod_row(const RowCall &r) noexcept {
  constexpr int kPart = 64;
  const float *const a = static_cast<const float *>(r.x[0]), *const b = static_cast<const float *>(r.x[1]);
  float *const y = static_cast<float *>(r.y);
  for (std::int64_t at = 0; at < r.count; at += kPart) {
    const int count = static_cast<int>(min_of<std::int64_t>(kPart, r.count - at));
    float rests[kPart];
    std::int32_t odd = 0;
    for (int i = 0; i < count; ++i) {
      const double x = static_cast<double>(a[at + i]), divisor = __builtin_fabs(static_cast<double>(b[at + i]));
      const double quotient = __builtin_fabs(x) / divisor;
      const bool plain = (quotient < 0x1p29) & (divisor < __builtin_inf());
      odd |= !plain;
      const double whole = static_cast<double>(static_cast<std::int32_t>(plain ? quotient : 0.0));
      double rest = __builtin_fabs(x) - whole * divisor;
      rest = rest < 0 ? rest + divisor : rest;
      rests[i] = static_cast<float>(__builtin_copysign(rest, x));
    }
    if (odd)
      for (int i = 0; i < count; ++i) rests[i] = __builtin_fmodf(a[at + i], b[at + i]);
    std::memcpy(y + at, rests, bytes_of<float>(count));
  }
}
template <ElementOp op, class T>
void test_row(const RowCall &r) noexcept {
  const T *const a = static_cast<const T *>(r.x[0]), *const b = static_cast<const T *>(r.x[1]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  QR_EACH(i, r.count, std::uint8_t) y[i] = holds<op, T>(a[i], b[i]);
}
template <class T>
void select_row(const RowCall &r) noexcept {
  const std::uint8_t *const c = static_cast<const std::uint8_t *>(r.x[0]);
  const T *const a = static_cast<const T *>(r.x[1]), *const b = static_cast<const T *>(r.x[2]);
  T *const y = static_cast<T *>(r.y);
  QR_EACH(i, r.count, std::uint8_t) {
    const T p = a[i], q = b[i];  // both are read, so that there is no branch
    y[i] = c[i] != 0 ? p : q;
  }
}
void mul_add_row(const RowCall &r) noexcept {
  const float *const a = static_cast<const float *>(r.x[0]), *const b = static_cast<const float *>(r.x[1]),
                     *const c = static_cast<const float *>(r.x[2]);
  float *const y = static_cast<float *>(r.y);
  QR_EACH(i, r.count, float) y[i] = a[i] * b[i] + c[i];
}
// Of a channel: one factor and one term for all.
void mul_add_channel(const float *x, float factor_, float term_, float *y, std::int64_t count) noexcept {
  const VecF factor = splat(factor_), term = splat(term_);
  std::int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    VecF v[4];
    QR_UNROLL for (int k = 0; k < 4; ++k) v[k] = fma(load(x + i + k * kLanes), factor, term);
    QR_UNROLL for (int k = 0; k < 4; ++k) store(y + i + k * kLanes, v[k]);
  }
  for (; i + kLanes <= count; i += kLanes) store(y + i, fma(load(x + i), factor, term));
  if (const int rest = static_cast<int>(count - i); rest > 0)
    store_part(y + i, fma(load_part(x + i, rest), factor, term), rest);
}
template <ElementOp op, class T>
void unary_row(const RowCall &r) noexcept {
  const T *const a = static_cast<const T *>(r.x[0]);
  T *const y = static_cast<T *>(r.y);
  QR_EACH(i, r.count, T) y[i] = function<op, T>(a[i]);
}
template <class T>
void nan_row(const RowCall &r) noexcept {
  const T *const a = static_cast<const T *>(r.x[0]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  QR_EACH(i, r.count, std::uint8_t) y[i] = a[i] != a[i];
}
template <class T>
void inf_row(const RowCall &r) noexcept {
  const T *const x = static_cast<const T *>(r.x[0]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  const T inf = static_cast<T>(__builtin_inff());
  const bool negative = r.a != 0, positive = r.b != 0;
  QR_EACH(i, r.count, std::uint8_t)
  y[i] = static_cast<std::uint8_t>((x[i] == inf ? positive : false) | (x[i] == -inf ? negative : false));
}
template <ElementOp op>
void truth_row(const RowCall &r) noexcept {
  const std::uint8_t *const a = static_cast<const std::uint8_t *>(r.x[0]), *const b = static_cast<const std::uint8_t *>(
                                                                               r.x[1]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  QR_EACH(i, r.count, std::uint8_t) {
    if constexpr (op == ElementOp::Not) y[i] = a[i] == 0;
    else if constexpr (op == ElementOp::And) y[i] = static_cast<std::uint8_t>((a[i] != 0) & (b[i] != 0));
    else if constexpr (op == ElementOp::Or) y[i] = (a[i] | b[i]) != 0;
    else if constexpr (op == ElementOp::Equal) y[i] = (a[i] != 0) == (b[i] != 0);
    else y[i] = (a[i] != 0) != (b[i] != 0);
  }
}

using Row = void (*)(const RowCall &) noexcept;

// What does not ask for signs.
template <template <class> class Make>
Row by_width(DType dtype) noexcept {
  switch (dtype) {
    case DType::I8:
    case DType::U8: return Make<std::uint8_t>::row;
    case DType::I16:
    case DType::U16: return Make<std::uint16_t>::row;
    case DType::I32:
    case DType::U32: return Make<std::uint32_t>::row;
    case DType::I64:
    case DType::U64: return Make<std::uint64_t>::row;
    case DType::F32: return Make<float>::row;
    default: return Make<double>::row;
  }
}
template <template <class> class Make>
Row by_type(DType dtype) noexcept {
  switch (dtype) {
    case DType::I8: return Make<std::int8_t>::row;
    case DType::I16: return Make<std::int16_t>::row;
    case DType::I32: return Make<std::int32_t>::row;
    case DType::I64: return Make<std::int64_t>::row;
    default: return by_width<Make>(dtype);
  }
}
template <ElementOp op>
struct Of {
  template <class T>
  struct Binary {
    static constexpr Row choose() noexcept {
      if constexpr (kReal<T> && (op == ElementOp::ShiftLeft || op == ElementOp::ShiftRight)) return nullptr;
      else return binary_row<op, T>;
    }
    static constexpr Row row = choose();
  };
  template <class T>
  struct Test {
    static constexpr Row row = test_row<op, T>;
  };
  template <class T>
  struct Unary {
    static constexpr Row row = unary_row<op, T>;
  };
};

Row row_of(ElementOp op, DType dtype) noexcept {
  if (op == ElementOp::Fmod && dtype == DType::F32) return fmod_row;
  if (op == ElementOp::Equal && dtype == DType::Bool) return truth_row<ElementOp::Equal>;
  switch (op) {
#define QR_ROW(name, choose, kind) \
  case ElementOp::name: return choose<Of<ElementOp::name>::kind>(dtype);
    QR_ROW(Add, by_width, Binary)
    QR_ROW(Sub, by_width, Binary)
    QR_ROW(Mul, by_width, Binary)
    QR_ROW(ShiftLeft, by_width, Binary)
    QR_ROW(Div, by_type, Binary)
    QR_ROW(Mod, by_type, Binary)
    QR_ROW(Fmod, by_type, Binary)
    QR_ROW(Min, by_type, Binary)
    QR_ROW(Max, by_type, Binary)
    QR_ROW(ShiftRight, by_type, Binary)
    QR_ROW(Equal, by_width, Test)
    QR_ROW(Less, by_type, Test)
    QR_ROW(LessOrEqual, by_type, Test)
    QR_ROW(Neg, by_width, Unary)
    QR_ROW(Abs, by_type, Unary)
    QR_ROW(Sign, by_type, Unary)
#undef QR_ROW
    // (Bits, not elements.)
    case ElementOp::BitAnd: return binary_row<ElementOp::BitAnd, std::uint8_t>;
    case ElementOp::BitOr: return binary_row<ElementOp::BitOr, std::uint8_t>;
    case ElementOp::BitXor: return binary_row<ElementOp::BitXor, std::uint8_t>;
    case ElementOp::BitNot: return unary_row<ElementOp::BitNot, std::uint8_t>;
    case ElementOp::And: return truth_row<ElementOp::And>;
    case ElementOp::Or: return truth_row<ElementOp::Or>;
    case ElementOp::Xor: return truth_row<ElementOp::Xor>;
    case ElementOp::Not: return truth_row<ElementOp::Not>;
    case ElementOp::MulAdd: return mul_add_row;
    case ElementOp::IsInf: return dtype == DType::F32 ? inf_row<float> : inf_row<double>;
    case ElementOp::IsNan: return dtype == DType::F32 ? nan_row<float> : nan_row<double>;
    case ElementOp::Select:
      switch (dtype) {
        case DType::I8:
        case DType::U8: return select_row<std::uint8_t>;
        case DType::I16:
        case DType::U16: return select_row<std::uint16_t>;
        case DType::I32:
        case DType::U32: return select_row<std::uint32_t>;
        default: return select_row<std::uint64_t>;
      }
    default: return nullptr;  // functions
  }
}

std::int64_t width_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::Bool:
    case DType::I8:
    case DType::U8: return 1;
    case DType::I16:
    case DType::U16:
    case DType::F16:
    case DType::BF16: return 2;
    case DType::F32:
    case DType::I32:
    case DType::U32: return 4;
    default: return 8;
  }
}

// Bytes of which there are mostly few.
__attribute__((noinline)) void copy_few(std::byte *to, const std::byte *from, std::int64_t bytes) noexcept {
  const auto move = [&]<class T>(T value, std::int64_t at) __attribute__((always_inline)) {
    std::memcpy(&value, from + at, sizeof value);
    std::memcpy(to + at, &value, sizeof value);
  };
  const auto ends = [&](auto value) __attribute__((always_inline)) {
    move(value, 0), move(value, bytes - static_cast<std::int64_t>(sizeof value));
  };
  if (bytes >= kBytes) {
    for (std::int64_t at = 0; at + kBytes <= bytes; at += kBytes) move(VecI{}, at);
    move(VecI{}, bytes - kBytes);
  } else if (kBytes > 32 && bytes >= 32) ends(Eight{});
  else if (kBytes > 16 && bytes >= 16) ends(Four{});
  else if (bytes >= 8) ends(std::uint64_t{});
  else if (bytes >= 4) ends(std::uint32_t{});
  else if (bytes >= 2) ends(std::uint16_t{});
  else if (bytes == 1) *to = *from;
}

template <class T>
QR_INLINE void lay_out(const void *from, void *to, std::int64_t count, std::int64_t step) noexcept {
  const T *const x = static_cast<const T *>(from);
  T *const y = static_cast<T *>(to);
  if (step == 0) {
    const T value = x[0];
    for (std::int64_t i = 0; i < count; ++i) y[i] = value;
  } else {
    for (std::int64_t i = 0; i < count; ++i) {
      asm volatile("");  // (a vector of elements that lie apart is not faster)
      y[i] = x[i * step];
    }
  }
}
// Elements that are repeated or lie apart, side by side.
__attribute__((noinline)) void lay_out(const std::byte *x, std::int64_t width, std::int64_t step, std::int64_t count,
                                       std::byte *to) noexcept {
  if (step == 1) return copy_few(to, x, count * width);
  switch (width) {
    case 1: return lay_out<std::uint8_t>(x, to, count, step);
    case 2: return lay_out<std::uint16_t>(x, to, count, step);
    case 4: return lay_out<std::uint32_t>(x, to, count, step);
    default: return lay_out<std::uint64_t>(x, to, count, step);
  }
}

// An operand beside the others: where its elements do not lie side by side they are brought there.
struct Side {
  alignas(64) std::byte room[kRoom];
  const std::byte *repeated = nullptr;  // what the room holds copies of
  std::int64_t copies = 0;

  const void *row(const std::byte *x, std::int64_t width, std::int64_t step, std::int64_t count) noexcept {
    if (step == 1) return x;
    if (step == 0) {
      if (repeated == x && copies >= count) return room;
      repeated = x, copies = count;
    }
    lay_out(x, width, step, count, room);
    return room;
  }
};

bool of_bits(ElementOp op) noexcept {
  return op == ElementOp::BitAnd || op == ElementOp::BitOr || op == ElementOp::BitXor || op == ElementOp::BitNot;
}

// An operator on rows of one type.
struct Operator {
  ElementOp op;
  float a, b;
  DType dtype;
  int operands;
  std::int64_t widths[3], y_width;  // bytes of an element
  Row row;                          // nullptr: a function
  std::int64_t whole;               // what its counts must be a multiple of

  Operator(const Elements &p, DType computed) noexcept
      : op(p.op), a(p.a), b(p.b), dtype(computed), operands(operands_of(p.op)) {
    if (of_bits(op)) dtype = DType::U8;
    const std::int64_t width = width_of(dtype);
    for (std::int64_t &each : widths) each = width;
    if (op == ElementOp::Select) widths[0] = 1;
    y_width = gives_truth(op) ? 1 : width;
    row = row_of(op, dtype);
    const bool real = dtype == DType::F32 || dtype == DType::F64;
    whole = !row || one_by_one(op, real, width)          ? 1
            : gives_truth(op) || op == ElementOp::Select ? kBytes
                                                         : kBytes / width;
  }

  __attribute__((always_inline)) void run(const RowCall &r) const noexcept {
    if (row && (r.count & (whole - 1)) == 0) return row(r);
    if (row) run_odd(r);
    else run_function(r);
  }
  __attribute__((noinline)) void run_odd(const RowCall &r) const noexcept {
    const std::int64_t rest = r.count & (whole - 1), at = r.count - rest;
    const auto from = [&](int i, std::int64_t element) {
      return static_cast<const std::byte *>(r.x[i]) + element * widths[i];
    };
    alignas(64) std::byte room[4][kBytes * 8];
    RowCall last{{}, room[3], whole, a, b};
    // The last whole vector, before y is written, which may be an operand; or what there is in one.
    for (int i = 0; i < operands; ++i) {
      last.x[i] = at > 0 ? from(i, r.count - whole) : room[i];
      if (at > 0) continue;
      std::memset(room[i], 0, sizeof room[i]);
      copy_few(room[i], from(i, 0), rest * widths[i]);
    }
    row(last);
    if (at > 0) row({{r.x[0], r.x[1], r.x[2]}, r.y, at, a, b});
    copy_few(static_cast<std::byte *>(r.y) + at * y_width, room[3] + (at > 0 ? whole - rest : 0) * y_width,
             rest * y_width);
  }
  void run_function(const RowCall &r) const noexcept {
    if (dtype == DType::F64) {
      function_row(op, static_cast<double>(a), static_cast<double>(b), static_cast<const double *>(r.x[0]),
                   static_cast<double *>(r.y), r.count);
    } else {
      function_row(op, a, b, static_cast<const float *>(r.x[0]), static_cast<float *>(r.y), r.count);
    }
  }
};

// How the operands of a call lie, and by what rows it goes through them.
struct Layout {
  std::int64_t width, y_width, scale;  // bytes of an element; of BitAnd and the like, elements of an element
  std::uint32_t rank = 1;
  const std::int64_t *dims = &total;
  const std::int64_t (*steps)[kLoopRank] = kDense;
  bool dense[3] = {};  // operands whose elements lie side by side throughout
  bool beside;         // rows of all operands lie side by side, as they are
  bool channels;       // MulAdd of a row with two numbers
  bool gathers;        // short rows are brought together
  std::int64_t room;   // elements that are brought together at most

  Layout(const Elements &p, const Operator &op, bool widened) noexcept
      : width(width_of(static_cast<DType>(p.dtype))),
        y_width(gives_truth(p.op) ? 1 : width),
        scale(of_bits(p.op) ? width : 1),
        beside(!widened),
        room(widened ? kRow : kRoom / width) {
    for (std::uint32_t d = 0; d < p.rank; ++d) total *= p.dims[d];
    // (Functions give the same to the last bit in rows that begin where they did.)
    bool all_dense = op.row != nullptr;
    for (int i = 0; i < op.operands; ++i) {
      std::int64_t step = 1;
      dense[i] = true;
      for (std::int64_t d = p.rank; d-- > 0; step *= p.dims[d]) dense[i] &= p.dims[d] == 1 || p.x[i][d] == step;
      all_dense &= dense[i];
    }
    if (!all_dense) rank = p.rank, dims = p.dims, steps = p.x;
    const std::uint32_t last = rank - 1;
    for (int i = 0; i < op.operands; ++i) beside &= steps[i][last] == 1;
    channels =
        p.op == ElementOp::MulAdd && !widened && steps[0][last] == 1 && steps[1][last] == 0 && steps[2][last] == 0;
    gathers = !channels && rank > 1 && op.row &&
              dims[last] * width <= (dims[last] * scale % op.whole == 0 ? kShortRow : kOddRow);
  }
  Layout(const Layout &) = delete;

 private:
  static constexpr std::int64_t kDense[3][kLoopRank] = {{1}, {1}, {1}};
  std::int64_t total = 1;
};

void run_part(const Call &call, const Elements &p, std::int64_t begin, std::int64_t end) noexcept {
  const DType dtype = static_cast<DType>(p.dtype);
  const int operands = operands_of(p.op);
  const NumberType halves = dtype == DType::F16    ? NumberType::F16
                            : dtype == DType::BF16 ? NumberType::BF16
                                                   : NumberType::F32;
  const bool widened = halves != NumberType::F32, narrowed = widened && !gives_truth(p.op);
  const Operator op(p, widened ? DType::F32 : dtype);
  std::byte *const y = call.operands[operands];
  // What lies side by side in all operands is worked on as it lies; of short rows, many are brought together.
  const Layout layout(p, op, widened);
  const std::int64_t width = layout.width, y_width = layout.y_width, scale = layout.scale, room = layout.room;
  const std::uint32_t rank = layout.rank, last = rank - 1;
  const std::int64_t *const dims = layout.dims;
  const std::int64_t(*const steps)[kLoopRank] = layout.steps;
  const bool channels = layout.channels, gathers = layout.gathers;
  const std::int64_t most = layout.beside || channels ? end - begin : room;
  if (layout.beside && !gathers && op.row) {
    const auto *const x0 = call.operands[0], *const x1 = call.operands[operands > 1 ? 1 : 0],
                      *const x2 = call.operands[operands > 2 ? 2 : 0];
    const std::int64_t x0_width = p.op == ElementOp::Select ? 1 : width;
    return walk_rows<3>(
        rank, dims, steps, begin, end,
        most, [&](std::int64_t at, const std::int64_t *offsets, std::int64_t count) __attribute__((always_inline)) {
          op.run({{x0 + offsets[0] * x0_width, x1 + offsets[1] * width, x2 + offsets[2] * width},
                  y + at * y_width,
                  count * scale,
                  op.a,
                  op.b});
        });
  }
  Side sides[3];
  float wide[3][kRow], made[kRow];
  const auto run = [&](std::int64_t at, const void *const *x, std::int64_t count) {
    RowCall r{{x[0], x[1], x[2]}, narrowed ? static_cast<void *>(made) : y + at * y_width, count * scale, op.a, op.b};
    for (int i = 0; widened && i < operands; ++i) {
      widen_weights(halves, static_cast<const std::uint16_t *>(r.x[i]), wide[i], count);
      r.x[i] = wide[i];
    }
    op.run(r);
    if (narrowed) narrow_numbers(halves, made, reinterpret_cast<std::uint16_t *>(y) + at, count);
  };
  const void *x[3] = {};
  std::int64_t held = 0, first = begin;  // elements that were gathered, and the place of the first
  walk_rows<3>(
      rank, dims, steps, begin, end, most, [&](std::int64_t at, const std::int64_t *offsets, std::int64_t count) {
        if (channels)
          return mul_add_channel(call.operand<const float>(0) + offsets[0], call.operand<const float>(1)[offsets[1]],
                                 call.operand<const float>(2)[offsets[2]], reinterpret_cast<float *>(y) + at, count);
        if (held + count > room) run(first, x, held), held = 0;
        if (held == 0) first = at;
        for (int i = 0; i < operands; ++i) {
          const std::int64_t each = p.op == ElementOp::Select && i == 0 ? 1 : width, step = steps[i][last];
          const std::byte *const from = call.operands[i] + offsets[i] * each;
          if (!gathers) {
            x[i] = sides[i].row(from, each, step, count);
          } else if (layout.dense[i]) {
            if (held == 0) x[i] = from;
          } else {
            lay_out(from, each, step, count, sides[i].room + held * each);
            x[i] = sides[i].room;
          }
        }
        if (gathers) held += count;
        else run(at, x, count);
      });
  if (held > 0) run(first, x, held);
}

}  // namespace

void run_Elements(const Call &call) {
  const auto &p = call.as<Elements>();
  std::int64_t count = 1;
  for (std::uint32_t i = 0; i < p.rank; ++i) count *= p.dims[i];
  if (count == 0) return;
  // (Functions and quotients take longer than what moves bytes.)
  const bool slow =
      (p.op >= ElementOp::Softsign && p.op != ElementOp::MulAdd) || (p.op >= ElementOp::Div && p.op <= ElementOp::Fmod);
  const std::uint64_t grain =
      kGrainBytes / static_cast<std::uint64_t>(width_of(static_cast<DType>(p.dtype))) / (slow ? 4 : 1);
  call.threads.run(static_cast<std::uint64_t>(count), grain,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto from = static_cast<std::int64_t>(begin), to = static_cast<std::int64_t>(end);
                     run_part(call, p, from, to);
                   });
}

}  // namespace quarry::kernels::QR_ISA
