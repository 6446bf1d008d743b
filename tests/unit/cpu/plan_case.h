// SPDX-License-Identifier: Apache-2.0
// A graph compiled by the cpu backend, stored, loaded and run, beside the same graph run by cpu-reference.
#pragma once

#include <random>

#include "backends/cpu/compile/compile.h"
#include "backends/cpu/program/blob.h"
#include "backends/cpu/run/executor.h"
#include "tests/unit/reference/graph_builder.h"

namespace quarry::test {

// Memory whose last byte touches a page that nobody may read, as far as its alignment of 64 lets it.
class Guarded {
 public:
  explicit Guarded(std::uint64_t bytes);
  Guarded(Guarded &&other) noexcept;
  ~Guarded();
  std::uint8_t *data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  qir::Bytes bytes() const noexcept { return {data_, size_}; }

 private:
  void *map_ = nullptr;
  std::uint64_t map_bytes_ = 0, size_ = 0;
  std::uint8_t *data_ = nullptr;
};

// Counts what is asked of malloc.
class CountingAllocator final : public Allocator {
 public:
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    ++count;
    return malloc_allocator().allocate(size, align);
  }
  void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept override {
    malloc_allocator().deallocate(ptr, size, align);
  }
  int count = 0;
};

// Random numbers, the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::int64_t integer(std::int64_t low, std::int64_t high) {  // both inclusive
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return integer(1, 100) <= percent; }
  float real(float low, float high) {
    return low + (high - low) * static_cast<float>(integer(0, 1 << 20)) / static_cast<float>(1 << 20);
  }
  template <class T>
  const T &one_of(const Vector<T> &list) {
    return list[static_cast<std::size_t>(integer(0, static_cast<std::int64_t>(list.size()) - 1))];
  }
  std::int64_t one_of(std::initializer_list<std::int64_t> list) {
    return list.begin()[integer(0, static_cast<std::int64_t>(list.size()) - 1)];
  }

 private:
  std::mt19937_64 engine_;
};

// Stored data of a type: reals within [-2, 2], quantised numbers of the whole range, indices within [0, `indices`).
Vector<std::uint8_t> random_data(Random &random, DType dtype, std::int64_t count, std::int64_t indices = 1);
Vector<float> floats_of(DType dtype, const Vector<std::uint8_t> &data);  // reals and integers

using Data = Vector<Vector<std::uint8_t>>;  // per input or output

class PlanCase {
 public:
  explicit PlanCase(const qir::Graph &graph, bool winograd = true);  // CHECKs that it compiles and loads
  bool ok() const noexcept { return loaded_ != nullptr; }

  const qir::Graph &graph() const noexcept { return graph_; }
  const cpu::Plan &plan() const noexcept { return compiled_.plan; }
  const cpu::LoadedPlan &loaded() const noexcept { return *loaded_; }
  qir::Bytes blob() const noexcept { return blob_[0].bytes(); }
  std::span<const qir::Bytes> segments() const noexcept { return segments_; }
  int count(kernels::Kernel kernel) const;  // steps of a kind
  int reference_steps() const;
  std::string steps() const;  // their names, "ConvF32 PoolF32"

  // Input i has `shapes[i]` where that is given; indices lie within the smallest dimension of the graph's tensors.
  Data random_inputs(Random &random, const Vector<qir::Shape> *shapes = nullptr) const;
  // Outputs in the caller's memory, or (room = false) in the execution's.
  Status run(const Data &inputs, Data &outputs, std::uint32_t workers = 1, bool room = true,
             const Vector<qir::Shape> *shapes = nullptr) const;
  Status run_reference(const Data &inputs, Data &outputs, const Vector<qir::Shape> *shapes = nullptr) const;

 private:
  Vector<std::uint8_t> qir_;
  Vector<Guarded> memory_, blob_;
  Vector<qir::Bytes> segments_;
  qir::Graph graph_;
  cpu::CompiledPlan compiled_;
  Unique<cpu::LoadedPlan> loaded_;
};

// Compares all outputs of the two; false (and a failed CHECK that names `what`) where they differ. Reals: by
// `tolerance` of the largest magnitude in the tensor; quantised numbers by `quanta`, of which no more than one in fifty
// may differ at all.
bool same_results(const PlanCase &sample, const std::string &what, Random &random, float tolerance, int quanta = 0,
                  const Vector<qir::Shape> *shapes = nullptr);

// A request's parts: a host, threads that take turns, buffers.
const qr_host &test_host();
struct Request {
  Request(const cpu::LoadedPlan &plan, std::uint32_t workers);
  qr_host_threads threads{};
  Vector<qr_io_buffer> inputs, outputs;
  qr_run_request request{};
};

}  // namespace quarry::test
