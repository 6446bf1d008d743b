// SPDX-License-Identifier: Apache-2.0
// TopK and GatherElements: exact.
#include "tests/kernels/numbers.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

struct Lines {
  std::int64_t outer, n, inner, k;
};
// Short lines, ranked as they are; k small beside n, and not; lines that are apart; everything.
constexpr Lines kLines[] = {{1, 1, 1, 1},    {3, 7, 1, 7},    {5, 64, 1, 8},     {3, 65, 1, 1},     {2, 100, 1, 5},
                            {2, 1000, 1, 5}, {2, 1003, 1, 1}, {1, 2000, 1, 199}, {1, 5000, 1, 600}, {1, 3001, 1, 3001},
                            {1, 9000, 1, 3}, {2, 70, 5, 70},  {2, 300, 18, 9},   {1, 1100, 33, 150}};

template <class T>
void top_k(const Isa &isa, DType dtype, Random &random) {
  for (const Lines &s : kLines)
    for (int kind = 0; kind < static_cast<int>(Kind::Count); ++kind)
      for (const std::uint32_t least : {0u, 1u}) {
        const auto x = elements<T>(static_cast<Kind>(kind), static_cast<std::size_t>(s.outer * s.n * s.inner), random);
        TopK p{s.outer, s.n, s.inner, s.k, static_cast<std::uint32_t>(dtype), least, 1, 1};
        const auto chosen = static_cast<std::size_t>(s.outer * s.k * s.inner);
        const auto found = run(isa, Kernel::TopK, &p, {{bytes_of(x)}, out(chosen * sizeof(T)), out(chosen * 8)});
        qir::Node node = node_of(Op::TopK, 2, 2);
        node.set("axis", std::int64_t{1}), node.set("largest", std::int64_t{!least});
        const auto expected =
            reference(node, {{dtype, {s.outer, s.n, s.inner}, bytes_of(x), {}}, tensor_of({1}, std::vector{s.k})});
        const std::string name = std::string(dtype_name(dtype)) + " " + std::to_string(s.outer) + "x" +
                                 std::to_string(s.n) + "x" + std::to_string(s.inner) + " k " + std::to_string(s.k) +
                                 " kind " + std::to_string(kind) + (least ? " least" : "");
        if (found[1] != expected[1].data) throw std::runtime_error("top k: other places: " + name);
        if (found[0] != expected[0].data) throw std::runtime_error("top k: other values: " + name);
        p.has_values = 0;
        if (s.n < 200 && run(isa, Kernel::TopK, &p, {{bytes_of(x)}, out(chosen * 8)})[0] != found[1])
          throw std::runtime_error("top k: places alone differ: " + name);
      }
}

void test_top_k(const Isa &isa) {
  Random random(31);
  top_k<float>(isa, DType::F32, random), top_k<double>(isa, DType::F64, random);
  top_k<std::int32_t>(isa, DType::I32, random), top_k<std::uint32_t>(isa, DType::U32, random);
  top_k<std::int64_t>(isa, DType::I64, random), top_k<std::uint64_t>(isa, DType::U64, random);
  top_k<std::int8_t>(isa, DType::I8, random), top_k<std::uint8_t>(isa, DType::U8, random);
  top_k<std::int16_t>(isa, DType::I16, random), top_k<std::uint16_t>(isa, DType::U16, random);
  const TopK p{1, 8, 1, 3, static_cast<std::uint32_t>(DType::F32), 0, 1, 1};
  refuse(isa, Kernel::TopK, p, "halves", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F16); });
  refuse(isa, Kernel::TopK, p, "k beyond the line", [](auto &q) { q.k = 9; });
  refuse(isa, Kernel::TopK, p, "k of 0", [](auto &q) { q.k = 0; });
  refuse(isa, Kernel::TopK, p, "no output", [](auto &q) { q.has_values = q.has_indices = 0; });
  refuse(isa, Kernel::TopK, p, "a flag of 2", [](auto &q) { q.least = 2; });
  refuse(isa, Kernel::TopK, p, "a line of 2^40", [](auto &q) { q.n = std::int64_t{1} << 40; });
  refuse(isa, Kernel::TopK, p, "a negative dimension", [](auto &q) { q.inner = -1; });
  refuse(isa, Kernel::TopK, p, "2^60 elements", [](auto &q) { q.outer = q.inner = std::int64_t{1} << 29; });
}

template <class T, class Index>
void gather_elements(const Isa &isa, DType dtype, DType index_dtype, Random &random) {
  struct Shape {
    std::int64_t outer, rows, count, inner;
  };
  for (const Shape s : {Shape{1, 5, 12, 1},
                        {3, 7, 600, 1},
                        {2, 9, 300, 4},
                        {1, 3, 5, 63},
                        {2, 30, 7, 64},
                        {1, 40, 9, 700},
                        {1, 3000, 4, 90},
                        {2, 500, 130, 2100}}) {
    const auto table = elements<T>(Kind::Random, static_cast<std::size_t>(s.outer * s.rows * s.inner), random);
    std::vector<Index> index(static_cast<std::size_t>(s.outer * s.count * s.inner));
    for (Index &v : index) v = static_cast<Index>(random.integer(-s.rows, s.rows - 1));
    const GatherElements p{s.outer, s.rows, s.count, s.inner, sizeof(T), sizeof(Index)};
    qir::Node node = node_of(Op::GatherElements, 2);
    node.set("axis", std::int64_t{1});
    const auto expected = reference(node, {{dtype, {s.outer, s.rows, s.inner}, bytes_of(table), {}},
                                           {index_dtype, {s.outer, s.count, s.inner}, bytes_of(index), {}}});
    const auto found =
        run(isa, Kernel::GatherElements, &p, {{bytes_of(table)}, {bytes_of(index)}, out(index.size() * sizeof(T))});
    if (found[0] != expected[0].data) throw std::runtime_error("gathered elements: not the reference's");
    // The first of two that are out of range, wherever they are.
    for (const std::int64_t bad : {s.rows, -s.rows - 1, std::int64_t{std::numeric_limits<Index>::min()}}) {
      auto wrong = index;
      const std::size_t at = wrong.size() / 2;
      wrong[at] = static_cast<Index>(bad), wrong.back() = static_cast<Index>(s.rows + 1);
      auto y = expected[0].data;
      std::byte *const pointers[3] = {const_cast<std::byte *>(reinterpret_cast<const std::byte *>(table.data())),
                                      reinterpret_cast<std::byte *>(wrong.data()), y.data()};
      const Threads threads;
      std::int64_t told[2] = {};
      std::vector<std::byte> scratch(256 << 10);
      isa.run[static_cast<std::size_t>(Kernel::GatherElements)](
          Call{&p, pointers, threads, scratch.data(), scratch.size(), told});
      if (told[0] != bad || told[1] != static_cast<std::int64_t>(at))
        throw std::runtime_error("gathered elements: an index out of range was not reported");
    }
  }
}

void test_gather_elements(const Isa &isa) {
  Random random(32);
  gather_elements<float, std::int64_t>(isa, DType::F32, DType::I64, random);
  gather_elements<float, std::int32_t>(isa, DType::F32, DType::I32, random);
  gather_elements<std::uint8_t, std::int64_t>(isa, DType::U8, DType::I64, random);
  gather_elements<std::int16_t, std::int32_t>(isa, DType::I16, DType::I32, random);
  gather_elements<std::int64_t, std::int64_t>(isa, DType::I64, DType::I64, random);
  const GatherElements p{1, 4, 3, 2, 4, 8};
  refuse(isa, Kernel::GatherElements, p, "elements of 3 bytes", [](auto &q) { q.width = 3; });
  refuse(isa, Kernel::GatherElements, p, "indices of 2 bytes", [](auto &q) { q.index_bytes = 2; });
  refuse(isa, Kernel::GatherElements, p, "no rows", [](auto &q) { q.rows = 0; });
  refuse(isa, Kernel::GatherElements, p, "a negative dimension", [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::GatherElements, p, "2^60 elements", [](auto &q) { q.outer = q.rows = std::int64_t{1} << 30; });
}

void register_top_k_benches(Registry &registry) {
  struct Case {
    const char *name;
    TopK p;
  };
  for (const Case &c : {Case{"TopK 100 of 8400", {1, 8400, 1, 100, 0, 0, 1, 1}},
                        {"TopK 1000 of 8400", {1, 8400, 1, 1000, 0, 0, 1, 1}},
                        {"TopK 50 of 32000", {1, 32000, 1, 50, 0, 0, 1, 1}},
                        {"TopK 8 of 64, 128 lines", {128, 64, 1, 8, 0, 0, 1, 1}},
                        {"TopK 5 of 1000, 1024 lines", {1024, 1000, 1, 5, 0, 0, 1, 1}},
                        {"TopK 10 of 1000, 64 lines apart", {1, 1000, 64, 10, 0, 0, 1, 1}},
                        {"TopK 300 of 8400, 80 lines apart", {1, 8400, 80, 300, 0, 0, 1, 1}}})
    registry.bench(c.name, [c](const Isa &) {
      Random random(33);
      TopK p = c.p;
      p.dtype = static_cast<std::uint32_t>(DType::F32);
      const auto count = static_cast<std::size_t>(p.outer * p.n * p.inner),
                 chosen = static_cast<std::size_t>(p.outer * p.k * p.inner);
      return Registry::Prepared{Kernel::TopK,
                                params_of(p),
                                {{bytes_of(random.reals(count, -1, 1))}, out(chosen * 4), out(chosen * 8)},
                                {0, static_cast<double>(count * 4)}};
    });
  for (const bool last : {false, true})
    registry.bench(std::string("GatherElements 128x768, ") + (last ? "last" : "first") + " axis", [last](const Isa &) {
      Random random(34);
      const GatherElements p = last ? GatherElements{128, 768, 768, 1, 4, 8} : GatherElements{1, 128, 128, 768, 4, 8};
      std::vector<std::int64_t> index(128 * 768);
      for (auto &v : index) v = random.integer(0, p.rows - 1);
      return Registry::Prepared{Kernel::GatherElements,
                                params_of(p),
                                {{Bytes(128 * 768 * 4)}, {bytes_of(index)}, out(128 * 768 * 4)},
                                {0, 128 * 768 * 16.0}};
    });
}

}  // namespace

void register_top_k(Registry &registry) {
  registry.test("TopK", test_top_k);
  registry.test("GatherElements", test_gather_elements);
  register_top_k_benches(registry);
}

}  // namespace quarry::kernel_test
