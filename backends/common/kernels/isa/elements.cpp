// SPDX-License-Identifier: Apache-2.0
// Operators on elements of any type: plain loops, which the compiler makes vectors of.
#include "backends/common/kernels/elements_shape.h"
#include "backends/common/kernels/isa/combine.h"
#include "backends/common/kernels/isa/functions_f32.h"
#include "backends/common/kernels/isa/functions_f64.h"
#include "backends/common/kernels/isa/kernels.h"
#include "backends/common/kernels/isa/nest.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::uint64_t kGrainBytes = 64 << 10;
// Elements of a row at a time, so that operands that are repeated or far apart have room beside them; of short ones
// more.
constexpr std::int64_t kRow = 512, kRoom = kRow * 8;

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

// Bytes may alias anything, so the count is read once; y may be an operand, but no other part of it.
#define QR_EACH(i, all)              \
  const std::int64_t count_ = (all); \
  _Pragma("GCC ivdep") for (std::int64_t i = 0; i < count_; ++i)

// One row of elements that lie side by side.
struct RowCall {
  const void *x[3];
  void *y;
  std::int64_t count;
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
QR_INLINE std::int64_t combine_blocks(const T *a, const T *b, T *y, std::int64_t count) noexcept {
  using B = Block<T>;
  const auto at = [](auto *p, std::int64_t i) __attribute__((always_inline)) {
    return reinterpret_cast<const typename B::Memory *>(p + i)->value;
  };
  std::int64_t i = 0;
  for (; i + 4 * B::kCount <= count; i += 4 * B::kCount) {
    typename B::Vec v[4];
    QR_UNROLL for (int k = 0; k < 4; ++k) v[k] = at(a, i + k * B::kCount);
    QR_UNROLL for (int k = 0; k < 4; ++k) {
      const typename B::Vec other = at(b, i + k * B::kCount);
      if constexpr (op == ElementOp::Add) v[k] += other;
      else if constexpr (op == ElementOp::Sub) v[k] -= other;
      else if constexpr (op == ElementOp::Mul) v[k] *= other;
      else if constexpr (op == ElementOp::BitAnd) v[k] &= other;
      else if constexpr (op == ElementOp::BitOr) v[k] |= other;
      else v[k] ^= other;
    }
    QR_UNROLL for (int k = 0; k < 4; ++k) reinterpret_cast<typename B::Memory *>(y + i + k * B::kCount)->value = v[k];
  }
  return i;
}
template <ElementOp op, class T>
void binary_row(const RowCall &r) noexcept {
  const T *a = static_cast<const T *>(r.x[0]), *b = static_cast<const T *>(r.x[1]);
  T *y = static_cast<T *>(r.y);
  std::int64_t count = r.count;
  if constexpr (kInBlocks<op, T>) {
    const std::int64_t done = combine_blocks<op>(a, b, y, count);
    a += done, b += done, y += done, count -= done;
  }
  QR_EACH(i, count) y[i] = combine<op, T>(a[i], b[i]);
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
    std::memcpy(y + at, rests, static_cast<std::size_t>(count) * 4);
  }
}
template <ElementOp op, class T>
void test_row(const RowCall &r) noexcept {
  const T *const a = static_cast<const T *>(r.x[0]), *const b = static_cast<const T *>(r.x[1]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  QR_EACH(i, r.count) y[i] = holds<op, T>(a[i], b[i]);
}
template <class T>
void select_row(const RowCall &r) noexcept {
  const std::uint8_t *const c = static_cast<const std::uint8_t *>(r.x[0]);
  const T *const a = static_cast<const T *>(r.x[1]), *const b = static_cast<const T *>(r.x[2]);
  T *const y = static_cast<T *>(r.y);
  QR_EACH(i, r.count) {
    const T p = a[i], q = b[i];  // both are read, so that there is no branch
    y[i] = c[i] != 0 ? p : q;
  }
}
void mul_add_row(const RowCall &r) noexcept {
  const float *const a = static_cast<const float *>(r.x[0]), *const b = static_cast<const float *>(r.x[1]),
                     *const c = static_cast<const float *>(r.x[2]);
  float *const y = static_cast<float *>(r.y);
  QR_EACH(i, r.count) y[i] = a[i] * b[i] + c[i];
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
  QR_EACH(i, r.count) y[i] = function<op, T>(a[i]);
}
template <class T>
void nan_row(const RowCall &r) noexcept {
  const T *const a = static_cast<const T *>(r.x[0]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  QR_EACH(i, r.count) y[i] = a[i] != a[i];
}
template <class T>
void inf_row(const RowCall &r, bool negative, bool positive) noexcept {
  const T *const a = static_cast<const T *>(r.x[0]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  const T inf = static_cast<T>(__builtin_inff());
  QR_EACH(i, r.count)
  y[i] = static_cast<std::uint8_t>((a[i] == inf ? positive : false) | (a[i] == -inf ? negative : false));
}
template <ElementOp op>
void truth_row(const RowCall &r) noexcept {
  const std::uint8_t *const a = static_cast<const std::uint8_t *>(r.x[0]), *const b = static_cast<const std::uint8_t *>(
                                                                               r.x[1]);
  std::uint8_t *const y = static_cast<std::uint8_t *>(r.y);
  QR_EACH(i, r.count) {
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
    static constexpr Row row = binary_row<op, T>;
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
    QR_ROW(BitAnd, by_width, Binary)
    QR_ROW(BitOr, by_width, Binary)
    QR_ROW(BitXor, by_width, Binary)
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
    QR_ROW(BitNot, by_width, Unary)
    QR_ROW(Neg, by_width, Unary)
    QR_ROW(Abs, by_type, Unary)
    QR_ROW(Sign, by_type, Unary)
#undef QR_ROW
    case ElementOp::And: return truth_row<ElementOp::And>;
    case ElementOp::Or: return truth_row<ElementOp::Or>;
    case ElementOp::Xor: return truth_row<ElementOp::Xor>;
    case ElementOp::Not: return truth_row<ElementOp::Not>;
    case ElementOp::MulAdd: return mul_add_row;
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
    default: return nullptr;  // f32 functions, IsInf
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

template <class T>
QR_INLINE void lay_out(const void *from, void *to, std::int64_t count, std::int64_t step) noexcept {
  const T *const x = static_cast<const T *>(from);
  T *const y = static_cast<T *>(to);
  if (step == 0) {
    const T value = x[0];
    for (std::int64_t i = 0; i < count; ++i) y[i] = value;
  } else {
    for (std::int64_t i = 0; i < count; ++i) y[i] = x[i * step];
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
    switch (width) {
      case 1: lay_out<std::uint8_t>(x, room, count, step); break;
      case 2: lay_out<std::uint16_t>(x, room, count, step); break;
      case 4: lay_out<std::uint32_t>(x, room, count, step); break;
      default: lay_out<std::uint64_t>(x, room, count, step); break;
    }
    return room;
  }
};

template <int operands>
void run_part(const Call &call, const Elements &p, std::int64_t begin, std::int64_t end) noexcept {
  const DType dtype = static_cast<DType>(p.dtype);
  const std::int64_t width = width_of(dtype), y_width = gives_truth(p.op) ? 1 : width;
  const NumberType halves = dtype == DType::F16    ? NumberType::F16
                            : dtype == DType::BF16 ? NumberType::BF16
                                                   : NumberType::F32;
  const bool widened = halves != NumberType::F32, narrowed = widened && !gives_truth(p.op);
  const Row row = row_of(p.op, widened ? DType::F32 : dtype);
  std::byte *const y = call.operands[operands];
  const std::uint32_t last = p.rank - 1;
  if constexpr (operands == 3)
    if (p.op == ElementOp::MulAdd && !widened && p.x[0][last] == 1 && p.x[1][last] == 0 && p.x[2][last] == 0)
      return walk_rows<3>(
          p.rank, p.dims, p.x, begin, end, end - begin,
          [&](std::int64_t at, const std::int64_t *offsets, std::int64_t count) __attribute__((always_inline)) {
            mul_add_channel(call.operand<const float>(0) + offsets[0], call.operand<const float>(1)[offsets[1]],
                            call.operand<const float>(2)[offsets[2]], reinterpret_cast<float *>(y) + at, count);
          });
  // What lies side by side in all operands is worked on as it lies.
  bool beside = !widened;
  for (int i = 0; i < operands; ++i) beside &= p.x[i][last] == 1;
  const std::int64_t most = beside ? end - begin : widened ? kRow : kRoom / width;
  Side sides[operands];
  float wide[operands][kRow], made[kRow];
  walk_rows<operands>(
      p.rank, p.dims, p.x, begin, end,
      most, [&](std::int64_t at, const std::int64_t *offsets, std::int64_t count) __attribute__((always_inline)) {
        RowCall r{{}, y + at * y_width, count};
        for (int i = 0; i < operands; ++i) {
          const std::int64_t each = p.op == ElementOp::Select && i == 0 ? 1 : width;
          r.x[i] = sides[i].row(call.operands[i] + offsets[i] * each, each, p.x[i][last], count);
          if (!widened) continue;
          widen_weights(halves, static_cast<const std::uint16_t *>(r.x[i]), wide[i], count);
          r.x[i] = wide[i];
        }
        if (narrowed) r.y = made;
        if (row) row(r);
        else if (p.op != ElementOp::IsInf && dtype != DType::F64)
          function_row(p.op, p.a, p.b, static_cast<const float *>(r.x[0]), static_cast<float *>(r.y), count);
        else if (p.op != ElementOp::IsInf)
          function_row(p.op, static_cast<double>(p.a), static_cast<double>(p.b), static_cast<const double *>(r.x[0]),
                       static_cast<double *>(r.y), count);
        else if (dtype != DType::F64) inf_row<float>(r, p.a != 0, p.b != 0);
        else inf_row<double>(r, p.a != 0, p.b != 0);
        if (narrowed) narrow_numbers(halves, made, reinterpret_cast<std::uint16_t *>(y) + at, count);
      });
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
                     switch (operands_of(p.op)) {
                       case 1: return run_part<1>(call, p, from, to);
                       case 2: return run_part<2>(call, p, from, to);
                       default: return run_part<3>(call, p, from, to);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
