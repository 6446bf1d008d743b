// SPDX-License-Identifier: Apache-2.0
// What a kernel is: a check that reads its parameters, and one function per instruction set (isa.h) that runs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.h"
#include "kernels/cpu/params.h"

namespace quarry::kernels {

enum class Kernel : std::uint16_t {
#define QR_KERNEL(enumerator, number, parameters, operands, own) enumerator = number,
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL
};
#define QR_KERNEL(...) +1
inline constexpr std::size_t kKernelCount = 0
#include "kernels/cpu/kernels.inc"
    ;
#undef QR_KERNEL
inline constexpr std::size_t kMaxOperands = 9;

struct Isa;

// The threads of a run. `run` calls body(context, begin, end, worker) so that [0, count) is covered once, worker <
// workers.
struct Threads {
  std::uint32_t workers = 1;
  void *self = nullptr;
  void (*parallel_for)(void *self, std::uint64_t count, std::uint64_t grain,
                       void (*body)(void *, std::uint64_t, std::uint64_t, std::uint32_t), void *context) = nullptr;
  bool (*ask)(void *self) = nullptr;  // whether to stop; null: nobody can say so

  // For a task that may be as long as a tensor (Parts, below): between tasks it is asked anyway. What a kernel that was
  // that must stop has written is of no use to anybody.
  bool stopped() const noexcept { return ask && ask(self); }

  // Shares the tasks [0, count) out, `grain` or more at a time; runs them here where there is one worker or one task.
  template <class Body>
  void run(std::uint64_t count, std::uint64_t grain, Body &&body) const {
    if (count == 0) return;
    if (count <= grain || !parallel_for) return body(std::uint64_t{0}, count, std::uint32_t{0});
    parallel_for(
        self, count, grain,
        [](void *context, std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
          (*static_cast<std::remove_reference_t<Body> *>(context))(begin, end, worker);
        },
        const_cast<void *>(static_cast<const void *>(&body)));
  }
};

// A loop within a task that may be as long as a tensor goes in parts, between which it is asked whether to go on:
//   for (Parts part(threads, n); part.next();)
//     for (i = part.begin; i < part.end; ++i) ...
// Parts are as long as ever, and begin at multiples of `size`: a power of two, so that loops over blocks of elements
// have the same blocks.
struct Parts {
  static constexpr std::int64_t kElements = 1 << 17;  // of a part, where a step is one element

  Parts(const Threads &threads, std::int64_t n, std::int64_t size = kElements) noexcept
      : threads_(threads), n_(n), size_(size) {}
  // Rows, of each of which `count` elements are taken.
  static Parts of_rows(const Threads &threads, std::int64_t rows, std::int64_t count) noexcept {
    std::int64_t size = kElements / 4;  // (elements that lie apart take longer)
    while (size > 32 && size * count > kElements) size /= 2;
    return {threads, rows, size};
  }
  __attribute__((always_inline)) bool next() noexcept {
    if (end == n_ || (end > 0 && threads_.stopped())) return false;
    begin = end;
    end = n_ - begin > size_ ? begin + size_ : n_;
    return true;
  }
  std::int64_t begin = 0, end = 0;

 private:
  const Threads &threads_;
  std::int64_t n_, size_;
};

// The same of a short row, where each nanosecond counts.
struct OnePart {
  OnePart(const Threads &, std::int64_t n) noexcept : end(n) {}
  __attribute__((always_inline)) bool next() noexcept { return std::exchange(more_, false); }
  std::int64_t begin = 0, end;

 private:
  bool more_ = true;
};

// The same where a task is many small steps.
class Asker {
 public:
  explicit Asker(const Threads &threads) noexcept : threads_(threads) {}
  // `work`: about how many elements the step touches.
  bool stopped(std::int64_t work) noexcept {
    if ((left_ -= work) > 0) return false;
    left_ = Parts::kElements;
    return threads_.stopped();
  }

 private:
  const Threads &threads_;
  std::int64_t left_ = Parts::kElements;
};

// One execution of a kernel.
struct Call {
  const void *params;          // of the kernel's struct, checked
  std::byte *const *operands;  // those that are there, in the table's order
  const Threads &threads;
  std::byte *scratch;  // Needs::scratch_bytes for each worker, one after the other, then Needs::shared_bytes; each part
                       // 64-byte aligned
  std::size_t scratch_per_worker;
  std::int64_t *bad_index;  // Gather, GatherElements, Scatter-, RecurrentF32 and -Bytes: set to the first index
                            // (length) that is out of range, and its position to bad_index[1]

  template <class P>
  const P &as() const noexcept {
    return *static_cast<const P *>(params);
  }
  template <class T>
  T *operand(std::size_t index) const noexcept {
    return reinterpret_cast<T *>(operands[index]);
  }
  std::byte *worker_scratch(std::uint32_t worker) const noexcept { return scratch + worker * scratch_per_worker; }
  std::byte *shared_scratch() const noexcept { return scratch + threads.workers * scratch_per_worker; }
};

// What parameters imply.
struct Needs {
  std::size_t operand_count = 0;  // present ones
  std::uint64_t operand_bytes[kMaxOperands] =
      {};  // from the operand's first byte to the end of the last element that is read or written
  bool written[kMaxOperands] = {};  // an output
  std::uint64_t scratch_bytes = 0;  // per worker; a multiple of 64
  std::uint64_t shared_bytes = 0;   // a multiple of 64
};

using Run = void (*)(const Call &call);
// Checks everything in the parameters (ranges, enumerators, products that overflow) and says what they need. The
// instruction set matters where packed weights are padded to its vectors. Messages: subject, found, expected.
using Check = Status (*)(const void *params, const Isa &isa, Needs &needs);

struct KernelRow {
  const char *name;
  const char *operands;
  std::uint32_t params_bytes;
  Check check;
};
const KernelRow *kernel_row(std::uint64_t number) noexcept;  // nullptr: no such kernel
inline const KernelRow &kernel_row(Kernel kernel) noexcept { return *kernel_row(static_cast<std::uint64_t>(kernel)); }

// Check functions, one per row.
#define QR_KERNEL(enumerator, number, parameters, operands, own) \
  Status check_##enumerator(const void *params, const Isa &isa, Needs &needs);
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL

}  // namespace quarry::kernels
