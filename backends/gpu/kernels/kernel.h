// SPDX-License-Identifier: Apache-2.0
// Kernels as rows of a table, and what a step says of one: numbers, a nest of coordinates with strides for each
// operand, and code for its elements. A step's source (text.h) and its bounds follow from these alone, so a blob holds
// no source and a loader need not believe it.
#pragma once

#include <optional>
#include <span>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/status.h"

namespace quarry::gpu {

enum class Kernel : std::uint32_t {
#define QR_GPU_KERNEL(name, ...) name,
#include "backends/gpu/kernels/kernels.inc"
#undef QR_GPU_KERNEL
  Count
};
enum class Element : std::uint32_t {
#define QR_GPU_ELEMENT(name, ...) name,
#include "backends/gpu/kernels/elements.inc"
#undef QR_GPU_ELEMENT
  Count
};

// In what elements are computed: registers of code.
enum class Number : std::uint32_t { Float, Double, Int, Uint, Long, Ulong, Truth, Count };
// Of an element that is stored so; nothing where kernels have no such type.
std::optional<Number> number_of(DType dtype) noexcept;
inline bool is_real(Number number) noexcept { return number == Number::Float || number == Number::Double; }

// One instruction: its result is a new register. Operands are registers: first those of the operands (and of `value`),
// then the results of instructions.
struct Instruction {
  std::uint32_t element = 0, number = 0;  // Element; Number of the result, where the row says Named
  std::uint32_t a = 0, b = 0, c = 0;
  std::uint32_t reserved = 0;
  std::uint64_t p = 0, q = 0;  // bits of a number of the type of a (of Constant: of the result)
};

inline constexpr std::size_t kMaxOperands = 16, kMaxRank = 8, kMaxCode = 64;

// Coordinates of the result, outermost first, and for each operand by how many elements a step along each moves.
struct Nest {
  std::uint32_t rank = 0;
  std::int32_t dims[kMaxRank] = {};
  std::int32_t strides[kMaxOperands][kMaxRank] = {};
};

struct StepOperand {
  DType dtype = DType::Unknown;
  std::int32_t offset = 0;  // elements
  // Of stored integers that the kernel reads or writes as the reals that they mean; 0: it does not.
  float scale = 0;
  std::int32_t zero = 0;
};
// In what a kernel computes with an operand's elements.
std::optional<Number> number_of(const StepOperand &operand) noexcept;

// A step but for the values that it works on.
struct Form {
  Kernel kernel{};
  std::span<const StepOperand> operands;
  std::span<const std::int32_t> fields;
  Nest nest;
  std::span<const Instruction> code;
};

// How a step reads its first two operands as images (field IMAGES): texels of four elements, which devices keep in
// caches of their own. Where a device cannot, the same step reads the same bytes as a buffer.
enum ImageLayout : std::int32_t {
  kRowsOfLeft = 1,     // operand 0, a constant: a row of the image for each of the matrix
  kPanelsOfRight = 2,  // operand 1, a constant: its panels beside each other, a row for each step of the sum
  kRightAsRows = 4,    // operand 1: as it lies in memory, cut into rows of kRowTexels texels: a view of the buffer
  kLineOfLeft = 8,     // operand 0 likewise
  kConstantImages = kRowsOfLeft | kPanelsOfRight,
  kRowImages = kRightAsRows | kLineOfLeft,
};
inline constexpr std::int64_t kRowTexels = 1024;
// The layouts of an operand.
constexpr std::int32_t images_of_operand(std::size_t operand) noexcept {
  return operand == 0 ? kRowsOfLeft | kLineOfLeft : operand == 1 ? kPanelsOfRight | kRightAsRows : 0;
}

// In texels; none: no image.
struct ImageSize {
  std::int64_t width = 0, height = 0;
};

// Which elements of an operand are touched, from its offset on.
struct Range {
  std::int64_t low = 0, high = 0;
};
struct Bounds {
  Range ranges[kMaxOperands];
  std::uint64_t global[3] = {1, 1, 1}, local[3] = {1, 1, 1};
  ImageSize images[2];
};

// The work items of a kernel as OpenCL takes them.
struct WorkItems {
  std::size_t global[3], local[3];
  explicit WorkItems(const Bounds &bounds) noexcept {
    for (std::size_t d = 0; d < 3; ++d)
      global[d] = static_cast<std::size_t>(bounds.global[d]), local[d] = static_cast<std::size_t>(bounds.local[d]);
  }
};

struct KernelRow {
  const char *name, *file, *text;
  std::uint32_t base, value, inner;
  const char *fields;
  Status (*bounds)(const Form &, Bounds &);
};
const KernelRow &kernel_row(Kernel kernel) noexcept;
// How many numbers a row's fields are.
std::size_t field_count(const KernelRow &row) noexcept;

struct ElementRow {
  const char *name;
  std::uint32_t operands;
  enum class Result { Same, Truth, Named } result;
  const char *reals, *integers;
};
const ElementRow &element_row(Element element) noexcept;

// Checks everything that holds for every kernel, then asks the row: operands, fields, code, dimensions of 32 bits.
Status find_bounds(const Form &form, Bounds &out);

// For rows: what the nest touches of each operand; a distance more along something that is no coordinate.
Status nest_bounds(const Form &form, Bounds &out);
void add_distance(Range &range, std::int64_t count, std::int64_t step) noexcept;
Status bad_form(const Form &form, const char *what);

}  // namespace quarry::gpu
