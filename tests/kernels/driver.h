// SPDX-License-Identifier: Apache-2.0
// The driver of kernel tests: every kernel, on every instruction set that this processor has, against cpu-reference, in
// guarded memory, with one and with several threads; and the benchmark of the same cases. A family of kernels is a
// folder here, whose files register cases.
#pragma once

#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu-reference/interpreter.h"
#include "kernels/cpu/isa.h"

namespace quarry::kernel_test {

using kernels::Isa;
using kernels::Kernel;

// Memory whose last byte (or first) touches a page that nobody may read. `skew` bytes keep the data from being more
// aligned than promised.
class Guarded {
 public:
  enum class Edge { End, Begin };
  Guarded(std::size_t bytes, Edge edge = Edge::End, std::size_t skew = 0);
  Guarded(Guarded &&other) noexcept;
  ~Guarded();
  std::byte *data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  template <class T>
  T *as() const noexcept {
    return reinterpret_cast<T *>(data_);
  }

 private:
  void *map_ = nullptr;
  std::size_t map_bytes_ = 0, size_ = 0;
  std::byte *data_ = nullptr;
};

using Bytes = std::vector<std::byte>;
template <class T>
Bytes bytes_of(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class T>
std::vector<T> values_of(const Bytes &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// Random numbers, the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t bits();
  std::int64_t integer(std::int64_t low, std::int64_t high);  // both inclusive
  float real(float low, float high);
  std::vector<float> reals(std::size_t count, float low = -1, float high = 1);

 private:
  std::uint64_t state_;
};

struct Operand {
  Bytes contents;  // of an input; of an output what stands there before (gaps must survive)
  bool written = false;
};

// Runs a kernel once per operand placement (ending at a guard page; beginning at one; offset by one element) and thread
// count (1, 3) and demands the same outputs of all; returns them in order. Throws std::runtime_error with the reason
// when the check function refuses, an operand's size is not what the check says (an input may be longer), an input
// changed, or runs differ by a bit.
std::vector<Bytes> run(const Isa &isa, Kernel kernel, const void *params, const std::vector<Operand> &operands);

// One node by the reference backend; inputs are dense ONNX tensors.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<std::int64_t> shape;
  Bytes data;
  std::optional<qir::Quantization> quant;
};
std::vector<Tensor> reference(const qir::Node &node, const std::vector<Tensor> &inputs,
                              const std::vector<reference::OutputType> *outputs = nullptr);

// Demands |found - expected| <= atol + rtol * |expected|, NaN for NaN, equal infinities; throws naming the first place
// that is not.
void expect_close(const std::string &what, std::span<const float> found, std::span<const float> expected, float rtol,
                  float atol);
template <class T>
void expect_equal(const std::string &what, std::span<const T> found, std::span<const T> expected, int tolerance = 0);

// What a benchmark of a case divides by.
struct Work {
  double flops = 0;  // multiply and add count as two
  double bytes = 0;  // read and written once
};

class Registry {
 public:
  // A test: called for each usable instruction set; throws when something is wrong.
  void test(std::string name, std::function<void(const Isa &)> body);
  // A benchmark: `prepare` makes operands and parameters; the driver runs and times it.
  struct Prepared {
    Kernel kernel;
    Bytes params;
    std::vector<Operand> operands;
    Work work;
  };
  void bench(std::string name, std::function<Prepared(const Isa &)> prepare);

  struct Test {
    std::string name;
    std::function<void(const Isa &)> body;
  };
  struct Bench {
    std::string name;
    std::function<Prepared(const Isa &)> prepare;
  };
  std::vector<Test> tests;
  std::vector<Bench> benches;
};
template <class P>
Bytes params_of(const P &params) {
  Bytes bytes(sizeof(P));
  std::memcpy(bytes.data(), &params, sizeof(P));
  return bytes;
}

// One per file of the families' folders, but for those that register_convolution calls (conv_f32.h).
void register_attention(Registry &registry);
void register_linear_attention(Registry &registry);
void register_matmul_blocks(Registry &registry);
void register_matmul_int(Registry &registry);
void register_matmul_wide(Registry &registry);
void register_convolution(Registry &registry);
void register_conv_int(Registry &registry);
void register_col2im(Registry &registry);
void register_elementwise(Registry &registry);
void register_elementwise_int(Registry &registry);
void register_chain(Registry &registry);
void register_elements(Registry &registry);
void register_functions_f64(Registry &registry);
void register_scatter(Registry &registry);
void register_top_k(Registry &registry);
void register_movement(Registry &registry);
void register_pack_weights(Registry &registry);
void register_normalization(Registry &registry);
void register_softmax_f64(Registry &registry);
void register_pooling(Registry &registry);
void register_pool_int(Registry &registry);
void register_quantize(Registry &registry);
void register_random(Registry &registry);
void register_recurrent(Registry &registry);
void register_reduce(Registry &registry);
void register_arg_extreme(Registry &registry);
void register_cumulate(Registry &registry);
void register_resize(Registry &registry);
void register_float16(Registry &registry);
// Cases of an instruction set that is emulated: in programs that have some.
void register_emulated(Registry &registry) __attribute__((weak));

}  // namespace quarry::kernel_test
