// SPDX-License-Identifier: Apache-2.0
// What a reference kernel gets and gives. The interpreter does what is the same for all: it dequantises, widens f16 and
// bf16, unpacks elements under 8 bits, makes room for outputs, and undoes all of it afterwards. A kernel is plain loops
// over dense row-major data.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/dtype.h"
#include "base/status.h"
#include "graph/graph.h"

namespace quarry::reference {

// How the interpreter hands tensors to a kernel (one word per row of kernels.inc).
enum class Handling : std::uint8_t {
  // Quantised, f16, bf16 and smaller floats come as f32; results are rounded back. Integers, bool, f32, f64 come as
  // they are.
  Compute,
  // Elements are only moved: any dtype comes as it is (under 8 bits: one element per byte, i4/i2 sign-extended);
  // `width` is its bytes. A node whose quantised tensors differ in quantisation is handled as Compute.
  Move,
  // The kernel looks at dtype itself (Cast, QuantizeLinear, ...): tensors come as stored, except that elements under 8
  // bits are unpacked to one raw byte each. Quantised tensors come as f32, as in Compute, but for QuantizeLinear's
  // output and DequantizeLinear's first input (see graph.h), which come as stored.
  Raw,
};

struct View {
  DType dtype = DType::Unknown;
  std::uint32_t rank = 0;
  std::int64_t dims[qir::kMaxRank] = {};
  std::int64_t count = 0;   // elements
  std::uint32_t width = 0;  // bytes per element in memory
  void *data = nullptr;

  std::size_t bytes() const noexcept { return static_cast<std::size_t>(count) * width; }
  template <class T>
  T *as() const noexcept {
    return static_cast<T *>(data);
  }
};

class Context {
 public:
  virtual const qir::Node &node() const noexcept = 0;
  virtual std::uint32_t input_count() const noexcept = 0;
  virtual std::uint32_t output_count() const noexcept = 0;
  virtual const View *input(std::uint32_t index) const noexcept = 0;  // nullptr: absent
  // An output with its shape as inferred; nullptr: absent or not wanted. Where the shape is not known before the run
  // (NonZero) the view has data == nullptr until resize_output gave it room.
  virtual View *output(std::uint32_t index) noexcept = 0;
  virtual Status resize_output(std::uint32_t index, const std::int64_t *dims, std::uint32_t rank) = 0;
  // Zeroed working memory until the kernel returns, 64-byte aligned; throws std::bad_alloc. The same requests in the
  // same order on the next run cost no allocation.
  virtual void *scratch(std::uint64_t size_bytes) = 0;
  // The same with anything in it, for what is written before it is read: to fill much memory takes long.
  virtual void *unfilled_scratch(std::uint64_t size_bytes) = 0;
  // Splits [0, count) over the caller's threads; results must not depend on the split.
  virtual void parallel_for(std::uint64_t count, void (*body)(void *context, std::uint64_t begin, std::uint64_t end),
                            void *context) = 0;
  // True when the call should stop (abort or deadline); poll in loops that may take longer than some milliseconds.
  virtual bool stopped() const noexcept = 0;
  // Runs a subgraph of the node (If, Loop, Scan): `inputs` in the order of the subgraph's; `*outputs` becomes an array
  // in the order of its outputs, valid until the next call. Results may lie where inputs lie.
  virtual Status run_subgraph(std::uint32_t index, const View *const *inputs, std::uint32_t input_count,
                              const View **outputs) = 0;

 protected:
  ~Context() = default;
};

using Kernel = Status (*)(Context &context);

struct KernelRow {
  qir::Op op;
  Kernel kernel;
  Handling handling;
  const char *types;  // what it takes, for the coverage report: "f16 bf16 f32 f64 integers bool"
  const char *note;   // limits; "" for none
};
const KernelRow *find_kernel(qir::Op op) noexcept;             // nullptr: no kernel
bool takes_dtype(const KernelRow &row, DType dtype) noexcept;  // by the row's `types`

// A typed loop body for each dtype that a kernel takes: dispatch<float, double, std::int32_t>(view.dtype, [&](auto tag)
// { using T = decltype(tag); ... }). Returns false where the dtype is none of them.
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::F32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::F64;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::I8;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::U8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::I16;
};
template <>
struct DTypeOf<std::uint16_t> {
  static constexpr DType value = DType::U16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::I32;
};
template <>
struct DTypeOf<std::uint32_t> {
  static constexpr DType value = DType::U32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::I64;
};
template <>
struct DTypeOf<std::uint64_t> {
  static constexpr DType value = DType::U64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::Bool;
};

// Integers under 8 bits come in one byte and are handled as i8 and u8.
inline DType loop_dtype(DType dtype) noexcept {
  switch (dtype) {
    case DType::I4:
    case DType::I2: return DType::I8;
    case DType::U4:
    case DType::U2: return DType::U8;
    default: return dtype;
  }
}

template <class... Ts, class F>
bool dispatch(DType dtype, F &&body) {
  const DType wanted = loop_dtype(dtype);
  return ((wanted == DTypeOf<Ts>::value ? (body(Ts{}), true) : false) || ...);
}

}  // namespace quarry::reference
