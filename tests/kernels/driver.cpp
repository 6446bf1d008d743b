// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/driver.h"

#if !defined(_WIN32)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/os/memory.h"

#if defined(_WIN32)  // the header would have macros for all files that are compiled with this one
extern "C" __declspec(dllimport) void *VirtualAlloc(void *, std::size_t, unsigned long, unsigned long);
extern "C" __declspec(dllimport) int VirtualFree(void *, std::size_t, unsigned long);
#endif

namespace quarry::kernel_test {

namespace {

constexpr std::size_t kPage = 4096;

// Pages that nobody may touch. nullptr: there are none.
void *reserve_pages(std::size_t bytes) noexcept {
#if defined(_WIN32)
  constexpr unsigned long kReserve = 0x2000, kNoAccess = 1;
  return VirtualAlloc(nullptr, bytes, kReserve, kNoAccess);
#else
  void *const out = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return out == MAP_FAILED ? nullptr : out;
#endif
}
bool open_pages(void *begin, std::size_t bytes) noexcept {
#if defined(_WIN32)
  constexpr unsigned long kCommit = 0x1000, kReadWrite = 4;
  return VirtualAlloc(begin, bytes, kCommit, kReadWrite) != nullptr;
#else
  return mprotect(begin, bytes, PROT_READ | PROT_WRITE) == 0;
#endif
}
void release_pages(void *begin, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(_WIN32)
  constexpr unsigned long kRelease = 0x8000;
  VirtualFree(begin, 0, kRelease);
#else
  munmap(begin, bytes);
#endif
}

// Splits the range over real threads, unevenly, so that nothing may depend on the split.
struct TestPool {
  std::uint32_t workers;
  static void parallel_for(void *self, std::uint64_t count, std::uint64_t grain,
                           void (*body)(void *, std::uint64_t, std::uint64_t, std::uint32_t), void *context) {
    const std::uint32_t workers = static_cast<TestPool *>(self)->workers;
    const std::uint64_t share =
        std::max<std::uint64_t>(std::max<std::uint64_t>(grain, 1), (count + workers - 1) / workers);
    std::vector<std::thread> threads;
    std::uint32_t worker = 0;
    for (std::uint64_t begin = 0; begin < count; begin += share, ++worker)
      threads.emplace_back([=] { body(context, begin, std::min(count, begin + share), worker); });
    for (std::thread &thread : threads) thread.join();
  }
};

struct Placement {
  Guarded::Edge edge;
  std::size_t skew;
  std::uint32_t workers;
};

kernels::Needs check(const Isa &isa, Kernel kernel, const void *params) {
  kernels::Needs needs;
  if (const Status status = kernels::kernel_row(kernel).check(params, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  return needs;
}

}  // namespace

Guarded::Guarded(std::size_t bytes, Edge edge, std::size_t skew) : size_(bytes) {
  const std::size_t body = (bytes + skew + kPage - 1) / kPage * kPage;
  map_bytes_ = body + 2 * kPage;
  map_ = reserve_pages(map_bytes_);
  if (!map_) throw std::runtime_error("no memory for a guarded buffer");
  std::byte *const begin = static_cast<std::byte *>(map_) + kPage;
  if (body > 0 && !open_pages(begin, body)) throw std::runtime_error("no memory for a guarded buffer");
  data_ = edge == Edge::End ? begin + body - bytes : begin + skew;
}
Guarded::Guarded(Guarded &&other) noexcept
    : map_(std::exchange(other.map_, nullptr)), map_bytes_(other.map_bytes_), size_(other.size_), data_(other.data_) {}
Guarded::~Guarded() {
  if (map_) release_pages(map_, map_bytes_);
}

std::uint64_t Random::bits() {
  state_ ^= state_ << 13;
  state_ ^= state_ >> 7;
  state_ ^= state_ << 17;
  return state_ * 0x2545f4914f6cdd1du;
}
std::int64_t Random::integer(std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>((bits() >> 16) % static_cast<std::uint64_t>(high - low + 1));
}
float Random::real(float low, float high) {
  return low + (high - low) * static_cast<float>(bits() >> 40) / 16777216.0f;
}
std::vector<float> Random::reals(std::size_t count, float low, float high) {
  std::vector<float> values(count);
  for (float &value : values) value = real(low, high);
  return values;
}

std::vector<Bytes> run(const Isa &isa, Kernel kernel, const void *params, const std::vector<Operand> &operands) {
  const kernels::Needs needs = check(isa, kernel, params);
  const std::string name = kernels::kernel_row(kernel).name;
  if (needs.operand_count != operands.size())
    throw std::runtime_error(name + ": the check says " + std::to_string(needs.operand_count) +
                             " operands, the test has " + std::to_string(operands.size()));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (needs.written[i] != operands[i].written)
      throw std::runtime_error(name + ": operand " + std::to_string(i) +
                               ": check and test differ on whether it is written");
    if (needs.operand_bytes[i] > operands[i].contents.size())
      throw std::runtime_error(name + ": operand " + std::to_string(i) + " needs " +
                               std::to_string(needs.operand_bytes[i]) + " bytes, the test has " +
                               std::to_string(operands[i].contents.size()));
  }
  std::vector<Bytes> first;
  for (const Placement place : {Placement{Guarded::Edge::End, 0, 1},
                                {Guarded::Edge::Begin, 0, 1},
                                {Guarded::Edge::Begin, 4, 3},
                                {Guarded::Edge::End, 0, 3}}) {
    std::vector<Guarded> memory;
    std::vector<std::byte *> pointers;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      // Only what the check function asked for is there.
      const std::size_t bytes = needs.operand_bytes[i];
      // Packed weights and their like come from 64-byte aligned segments; everything else may lie anywhere that its
      // elements may.
      const bool constant =
          i > 0 && !operands[i].written &&
          (kernel == Kernel::ConvF32 || kernel == Kernel::DepthwiseF32 || kernel == Kernel::ConvInt) && i < 4;
      // Elements of 8 bytes begin at multiples of 8.
      const bool wide = kernel == Kernel::Elements || kernel == Kernel::Cumulate || kernel == Kernel::UnaryF64 ||
                        kernel == Kernel::SoftmaxF64 || kernel == Kernel::Reduce || kernel == Kernel::MatMulWide ||
                        kernel == Kernel::Hardmax || kernel == Kernel::TopK || kernel == Kernel::GatherElements ||
                        kernel == Kernel::ScatterRows || kernel == Kernel::ArgExtremeF32 ||
                        kernel == Kernel::ScatterInto || kernel == Kernel::ScatterElements ||
                        kernel == Kernel::ArgExtreme || kernel == Kernel::Gather;
      const std::size_t skew = constant ? 0 : wide ? place.skew * 2 : place.skew;
      memory.emplace_back(constant ? (bytes + 63) / 64 * 64 : bytes, place.edge, skew);
      if (bytes) std::memcpy(memory.back().data(), operands[i].contents.data(), bytes);
      pointers.push_back(memory.back().data());
    }
    TestPool pool{place.workers};
    const kernels::Threads threads{place.workers, &pool, TestPool::parallel_for};
    const Guarded scratch(needs.scratch_bytes * place.workers + needs.shared_bytes);
    if (scratch.size()) std::memset(scratch.data(), 0x5a, scratch.size());
    std::int64_t bad_index[2] = {};
    isa.run[static_cast<std::size_t>(kernel)](
        kernels::Call{params, pointers.data(), threads, scratch.data(), needs.scratch_bytes, bad_index});
    std::vector<Bytes> outputs;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::size_t bytes = needs.operand_bytes[i];
      if (operands[i].written) {
        Bytes output = operands[i].contents;
        std::copy_n(memory[i].data(), bytes, output.begin());
        outputs.push_back(std::move(output));
      } else if (bytes > 0 && std::memcmp(memory[i].data(), operands[i].contents.data(), bytes) != 0) {
        throw std::runtime_error(name + ": input " + std::to_string(i) + " was written to");
      }
    }
    if (first.empty()) first = std::move(outputs);
    else if (first != outputs) throw std::runtime_error(name + ": the result depends on placement or threads");
  }
  return first;
}

std::vector<Tensor> reference(const qir::Node &node, const std::vector<Tensor> &inputs,
                              const std::vector<reference::OutputType> *outputs) {
  Vector<reference::ConstView> views;
  for (const Tensor &input : inputs)
    views.push_back({input.dtype != DType::Unknown, input.dtype, qir::Shape(input.shape.begin(), input.shape.end()),
                     input.quant ? &input.quant : nullptr, input.data.data()});
  Vector<reference::OwnedTensor> results;
  Vector<reference::OutputType> types;
  if (outputs) types.assign(outputs->begin(), outputs->end());
  if (const Status status = reference::run_node(node, views, results, outputs ? &types : nullptr); !status.ok())
    throw std::runtime_error("cpu-reference: " + std::string(status.message()));
  std::vector<Tensor> tensors;
  for (const auto &result : results) {
    Tensor tensor{result.dtype, {result.shape.begin(), result.shape.end()}, Bytes(result.data.size()), {}};
    std::memcpy(tensor.data.data(), result.data.data(), result.data.size());
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void expect_close(const std::string &what, std::span<const float> found, std::span<const float> expected, float rtol,
                  float atol) {
  if (found.size() != expected.size())
    throw std::runtime_error(what + ": found " + std::to_string(found.size()) + " values, expected " +
                             std::to_string(expected.size()));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const float f = found[i], e = expected[i];
    const bool same = std::isnan(e)   ? std::isnan(f)
                      : std::isinf(e) ? f == e
                                      : std::fabs(f - e) <= atol + rtol * std::fabs(e);
    if (!same) {
      char text[160];
      std::snprintf(text, sizeof text, ": element %zu: found %.9g, expected %.9g", i, static_cast<double>(f),
                    static_cast<double>(e));
      throw std::runtime_error(what + text);
    }
  }
}

template <class T>
void expect_equal(const std::string &what, std::span<const T> found, std::span<const T> expected, int tolerance) {
  if (found.size() != expected.size())
    throw std::runtime_error(what + ": found " + std::to_string(found.size()) + " values, expected " +
                             std::to_string(expected.size()));
  for (std::size_t i = 0; i < found.size(); ++i)
    if (std::abs(static_cast<std::int64_t>(found[i]) - static_cast<std::int64_t>(expected[i])) > tolerance)
      throw std::runtime_error(what + ": element " + std::to_string(i) + ": found " + std::to_string(found[i]) +
                               ", expected " + std::to_string(expected[i]));
}
template void expect_equal(const std::string &, std::span<const std::uint8_t>, std::span<const std::uint8_t>, int);
template void expect_equal(const std::string &, std::span<const std::int8_t>, std::span<const std::int8_t>, int);
template void expect_equal(const std::string &, std::span<const std::uint16_t>, std::span<const std::uint16_t>, int);
template void expect_equal(const std::string &, std::span<const std::int16_t>, std::span<const std::int16_t>, int);
template void expect_equal(const std::string &, std::span<const std::int32_t>, std::span<const std::int32_t>, int);
template void expect_equal(const std::string &, std::span<const std::int64_t>, std::span<const std::int64_t>, int);

void Registry::test(std::string name, std::function<void(const Isa &)> body) {
  tests.push_back({std::move(name), std::move(body)});
}
void Registry::bench(std::string name, std::function<Prepared(const Isa &)> prepare) {
  benches.push_back({std::move(name), std::move(prepare)});
}

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void free_bytes(void *bytes) { os::free_aligned(bytes); }

// Median seconds of a run, over at least 0.2 s.
double time_of(const Isa &isa, Kernel kernel, const Bytes &params, std::vector<Operand> &operands) {
  const kernels::Needs needs = check(isa, kernel, params.data());
  std::vector<std::unique_ptr<std::byte, void (*)(void *)>> memory;
  std::vector<std::byte *> pointers;
  const auto aligned = [](std::size_t bytes) {
    return static_cast<std::byte *>(os::allocate_aligned((bytes + 127) / 64 * 64, 64));
  };
  for (const Operand &operand : operands) {
    pointers.push_back(aligned(operand.contents.size()));
    memory.emplace_back(pointers.back(), &free_bytes);
    if (!operand.contents.empty()) std::memcpy(pointers.back(), operand.contents.data(), operand.contents.size());
  }
  const kernels::Threads threads;
  const std::unique_ptr<std::byte, void (*)(void *)> scratch(aligned(needs.scratch_bytes + needs.shared_bytes),
                                                             &free_bytes);
  std::int64_t bad_index[2] = {};
  const kernels::Call call{params.data(), pointers.data(), threads, scratch.get(), needs.scratch_bytes, bad_index};
  const kernels::Run body = isa.run[static_cast<std::size_t>(kernel)];
  body(call);
  int repeat = 1;
  std::vector<double> samples;
  for (double start = now(); samples.size() < 7 || now() - start < 0.2;) {
    const double begin = now();
    for (int i = 0; i < repeat; ++i) body(call);
    const double seconds = now() - begin;
    if (seconds < 1e-4) {
      repeat *= 4;
      samples.clear();
      continue;
    }
    samples.push_back(seconds / repeat);
  }
  std::nth_element(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

// Flops per second of one core: independent fused multiply-adds, in the widest panel that the instruction set has, all
// in the first-level cache.
double peak_flops(const Isa &isa) {
  kernels::ConvF32 p;
  p.window.iw = p.window.ow = 24;
  p.ic = 128, p.oc = static_cast<std::int32_t>(isa.f32_lanes * isa.f32_panel);
  p.x_stride = p.ic, p.y_stride = p.oc;
  const Bytes params = params_of(p);
  const kernels::Needs needs = check(isa, Kernel::ConvF32, params.data());
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < needs.operand_count; ++i)
    operands.push_back({Bytes(needs.operand_bytes[i]), needs.written[i]});
  return 2.0 * p.window.iw * p.ic * p.oc / time_of(isa, Kernel::ConvF32, params, operands);
}

int usage() {
  std::fputs("usage: kernels [--bench] [--isa NAME] [--list] [TEXT]\nTEXT: only cases whose name contains it\n",
             stderr);
  return 2;
}

}  // namespace

int main_of(int argc, char **argv) {
  bool bench = false, list = false;
  std::string only, wanted_isa;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--bench") bench = true;
    else if (argument == "--list") list = true;
    else if (argument == "--isa" && i + 1 < argc) wanted_isa = argv[++i];
    else if (argument.starts_with("-")) return usage();
    else only = argument;
  }
  Registry registry;
  register_attention(registry);
  register_linear_attention(registry);
  register_matmul_blocks(registry);
  register_matmul_int(registry);
  register_matmul_wide(registry);
  register_convolution(registry);
  register_conv_int(registry);
  register_col2im(registry);
  register_elementwise(registry);
  register_elementwise_int(registry);
  register_chain(registry);
  register_elements(registry);
  register_functions_f64(registry);
  register_scatter(registry);
  register_top_k(registry);
  register_movement(registry);
  register_pack_weights(registry);
  register_normalization(registry);
  register_softmax_f64(registry);
  register_pooling(registry);
  register_pool_int(registry);
  register_quantize(registry);
  register_random(registry);
  register_recurrent(registry);
  register_reduce(registry);
  register_arg_extreme(registry);
  register_cumulate(registry);
  register_resize(registry);
  register_float16(registry);
  if (register_emulated) register_emulated(registry);
  if (list) {
    for (const auto &test : registry.tests) std::printf("%s\n", test.name.c_str());
    for (const auto &item : registry.benches) std::printf("%s (bench)\n", item.name.c_str());
    return 0;
  }
  int failed = 0, passed = 0, unusable = 0, run = 0;
  for (const Isa *isa : kernels::isas()) {
    if (!wanted_isa.empty() && wanted_isa != isa->name) continue;
    if (!isa->usable()) {
      ++unusable;
      std::printf("%s: skipped: this processor has not all of %s\n", isa->name, isa->features);
      continue;
    }
    if (!bench) {
      for (const auto &test : registry.tests) {
        if (test.name.find(only) == std::string::npos) continue;
        ++run;
        try {
          test.body(*isa);
          ++passed;
        } catch (const std::exception &error) {
          ++failed;
          std::printf("%s: %s: FAILED: %s\n", isa->name, test.name.c_str(), error.what());
        }
        std::fflush(stdout);
      }
      continue;
    }
    const double peak = peak_flops(*isa);
    std::printf("%s: best tile %.1f GFLOP/s\n%-56s %12s %12s %8s %9s\n", isa->name, peak * 1e-9, "case", "us",
                "GFLOP/s", "% best", "GB/s");
    for (const auto &item : registry.benches) {
      if (item.name.find(only) == std::string::npos) continue;
      ++run;
      Registry::Prepared prepared = item.prepare(*isa);
      const double seconds = time_of(*isa, prepared.kernel, prepared.params, prepared.operands);
      std::printf("%-56s %12.2f %12.2f %8.1f %9.2f\n", item.name.c_str(), seconds * 1e6,
                  prepared.work.flops / seconds * 1e-9, 100 * prepared.work.flops / seconds / peak,
                  prepared.work.bytes / seconds * 1e-9);
      std::fflush(stdout);
    }
  }
  if (!bench) std::printf("%d passed, %d failed\n", passed, failed);
  if (run == 0) {
    if (unusable > 0) return 77;  // skipped, to meson
    std::fprintf(stderr, "nothing ran: no case has '%s' in its name (--list), or no instruction set is called '%s'\n",
                 only.c_str(), wanted_isa.c_str());
    return 1;
  }
  return failed ? 1 : 0;
}

}  // namespace quarry::kernel_test

int main(int argc, char **argv) { return quarry::kernel_test::main_of(argc, argv); }
