// SPDX-License-Identifier: Apache-2.0
// Kernels that write where indices say: exact.
#include "tests/kernels/numbers.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

struct Combination {
  const char *name;
  ElementOp op;
};
constexpr Combination kCombinations[] = {
    {"add", ElementOp::Add}, {"mul", ElementOp::Mul}, {"min", ElementOp::Min}, {"max", ElementOp::Max}};

// (Which NaN it is says nothing.)
template <class T>
void expect_same(const std::string &what, const Bytes &found, const Bytes &expected) {
  auto f = values_of<T>(found), e = values_of<T>(expected);
  for (auto *values : {&f, &e})
    for (T &v : *values)
      if (v != v) v = static_cast<T>(std::numeric_limits<double>::quiet_NaN());
  if (f.size() != e.size() || bytes_of(f) != bytes_of(e)) throw std::runtime_error(what + ": not the reference's");
}

// Beside the reference's operator, and of a cache whose entries are not next to each other.
void test_tensor_scatter(const Isa &isa) {
  Random random(36);
  for (int i = 0; i < 40; ++i) {
    TensorScatter p;
    p.batches = random.integer(1, 4), p.heads = random.integer(1, 5), p.length = random.integer(1, 30);
    p.added = random.integer(1, p.length), p.circular = static_cast<std::uint32_t>(i % 2);
    const std::int64_t entry = random.integer(1, 40), room = p.length + (i % 3);
    p.entry_bytes = entry * 4;
    p.updates[2] = p.y[2] = p.entry_bytes;
    p.updates[1] = p.added * p.entry_bytes, p.y[1] = room * p.entry_bytes;
    p.updates[0] = p.heads * p.updates[1], p.y[0] = p.heads * p.y[1];
    const Dims shape{p.batches, p.heads, p.length, entry}, fresh{p.batches, p.heads, p.added, entry};
    const auto x = elements<std::int32_t>(Kind::Random, product(shape), random),
               updates = elements<std::int32_t>(Kind::Random, product(fresh), random);
    std::vector<std::int64_t> starts;
    for (std::int64_t b = 0; b < p.batches; ++b)
      starts.push_back(random.integer(0, p.circular ? 3 * p.length : p.length - p.added));
    qir::Node node = node_of(Op::TensorScatter, 3);
    node.set("mode", p.circular ? "circular" : "linear");
    const auto expected = values_of<std::int32_t>(reference(node, {{DType::I32, shape, bytes_of(x), {}},
                                                                   {DType::I32, fresh, bytes_of(updates), {}},
                                                                   tensor_of({p.batches}, starts)})[0]
                                                      .data);
    // Every head's entries, and room behind them that stays.
    std::vector<std::int32_t> y;
    for (std::int64_t o = 0; o < p.batches * p.heads; ++o) {
      const auto from = x.begin() + o * p.length * entry;
      y.insert(y.end(), from, from + p.length * entry);
      y.insert(y.end(), static_cast<std::size_t>((room - p.length) * entry), 7);
    }
    y.resize(y.size() - static_cast<std::size_t>((room - p.length) * entry));  // the last one ends with its entries
    const auto found = values_of<std::int32_t>(
        run(isa, Kernel::TensorScatter, &p, {{bytes_of(updates)}, {bytes_of(starts)}, {bytes_of(y), true}})[0]);
    for (std::size_t e = 0; e < found.size(); ++e) {
      const auto at = static_cast<std::int64_t>(e) / entry, head = at / room, row = at % room;
      const std::int32_t right = row >= p.length
                                     ? 7
                                     : expected[static_cast<std::size_t>((head * p.length + row) * entry +
                                                                         static_cast<std::int64_t>(e) % entry)];
      if (found[e] != right)
        throw std::runtime_error("TensorScatter: not the reference's, or what should stay did not");
    }
  }
  TensorScatter p;
  p.length = 4, p.added = 2, p.entry_bytes = 8;
  p.updates[2] = p.y[2] = 8;
  refuse(isa, Kernel::TensorScatter, p, "more new entries than there are", [](auto &q) { q.added = 5; });
  refuse(isa, Kernel::TensorScatter, p, "no entry", [](auto &q) { q.length = q.added = 0; });
  refuse(isa, Kernel::TensorScatter, p, "steps that overflow", [](auto &q) { q.y[2] = INT64_MAX; });
  refuse(isa, Kernel::TensorScatter, p, "a way round that there is not", [](auto &q) { q.circular = 2; });
}

void test_scatter_rows(const Isa &isa) {
  Random random(35);
  struct Shape {
    Dims x;
    std::int64_t length, tuples;
  };
  for (const Shape &s :
       {Shape{{7, 5}, 1, 3}, {{4, 6, 3}, 2, 9}, {{3, 4, 5}, 3, 20}, {{9, 40, 1000}, 1, 2}, {{5}, 1, 0}}) {
    std::int64_t row = 1;
    for (std::size_t d = static_cast<std::size_t>(s.length); d < s.x.size(); ++d) row *= s.x[d];
    const auto x = elements<std::int32_t>(Kind::Random, product(s.x), random),
               updates = elements<std::int32_t>(Kind::Random, static_cast<std::size_t>(s.tuples * row), random);
    ScatterRows p;
    p.bytes = static_cast<std::int64_t>(x.size() * 4), p.row_bytes = row * 4, p.tuples = s.tuples;
    p.length = static_cast<std::uint32_t>(s.length);
    std::int64_t step = p.row_bytes;
    for (std::int64_t d = s.length; d-- > 0;) {
      p.dims[d] = s.x[static_cast<std::size_t>(d)], p.steps[d] = step;
      step *= p.dims[d];
    }
    std::vector<std::int64_t> index;
    for (std::int64_t i = 0; i < s.tuples * s.length; ++i) {
      const std::int64_t extent = p.dims[i % s.length];
      index.push_back(random.integer(-extent, extent - 1));
    }
    const auto found = run(isa, Kernel::ScatterRows, &p,
                           {{bytes_of(x)}, {bytes_of(index)}, {bytes_of(updates)}, out(x.size() * 4)})[0];
    Dims shape{s.tuples};
    shape.insert(shape.end(), s.x.begin() + s.length, s.x.end());
    const auto expected = reference(node_of(Op::ScatterND, 3), {{DType::I32, s.x, bytes_of(x), {}},
                                                                tensor_of({s.tuples, s.length}, index),
                                                                {DType::I32, shape, bytes_of(updates), {}}})[0]
                              .data;
    if (found != expected) throw std::runtime_error("scattered rows: not the reference's");
    // Where x lies.
    auto own = x;
    const auto call = [&](std::int64_t *told) {
      std::byte *const pointers[4] = {reinterpret_cast<std::byte *>(own.data()),
                                      reinterpret_cast<std::byte *>(index.data()),
                                      const_cast<std::byte *>(reinterpret_cast<const std::byte *>(updates.data())),
                                      reinterpret_cast<std::byte *>(own.data())};
      const Threads threads;
      isa.run[static_cast<std::size_t>(Kernel::ScatterRows)](Call{&p, pointers, threads, nullptr, 0, told});
    };
    std::int64_t told[2] = {};
    call(told);
    if (told[0] != 0 || bytes_of(own) != expected) throw std::runtime_error("scattered rows: not in place");
    if (index.empty()) continue;
    const std::size_t at = index.size() - 1;
    index[at] = -p.dims[s.length - 1] - 1;
    call(told);
    if (told[0] != index[at] || told[1] != static_cast<std::int64_t>(at))
      throw std::runtime_error("scattered rows: an index out of range was not reported");
  }
  ScatterRows p;
  p.bytes = 64, p.row_bytes = 16, p.tuples = 2, p.dims[0] = 4, p.steps[0] = 16;
  refuse(isa, Kernel::ScatterRows, p, "rows beyond the end", [](auto &q) { q.row_bytes = 17; });
  refuse(isa, Kernel::ScatterRows, p, "an axis beyond the end", [](auto &q) { q.dims[0] = 5; });
  refuse(isa, Kernel::ScatterRows, p, "an empty axis", [](auto &q) { q.dims[0] = 0; });
  refuse(isa, Kernel::ScatterRows, p, "a negative step", [](auto &q) { q.steps[0] = -16; });
  refuse(isa, Kernel::ScatterRows, p, "no axis", [](auto &q) { q.length = 0; });
  refuse(isa, Kernel::ScatterRows, p, "nine axes", [](auto &q) { q.length = 9; });
  refuse(isa, Kernel::ScatterRows, p, "negative tuples", [](auto &q) { q.tuples = -1; });
  refuse(isa, Kernel::ScatterRows, p, "a reserved field", [](auto &q) { q.reserved = 1; });
}

void test_scatter_into(const Isa &isa) {
  Random random(38);
  struct Shape {
    Dims x;
    std::int64_t length, tuples;
  };
  for (const Shape &s : {Shape{{7, 5}, 1, 9}, {{4, 6, 3}, 2, 30}, {{3, 4}, 2, 700}, {{5, 40}, 1, 3}})
    for (const Combination &c : kCombinations)
      each_number([&]<class T>(T, DType dtype) {
        std::int64_t row = 1;
        for (std::size_t d = static_cast<std::size_t>(s.length); d < s.x.size(); ++d) row *= s.x[d];
        const auto x = elements<T>(Kind::Few, product(s.x), random),
                   updates = elements<T>(Kind::Few, static_cast<std::size_t>(s.tuples * row), random);
        const auto width = static_cast<std::int64_t>(sizeof(T));
        ScatterInto p;
        p.op = c.op, p.dtype = static_cast<std::uint32_t>(dtype);
        p.rows.bytes = static_cast<std::int64_t>(x.size()) * width, p.rows.row_bytes = row * width;
        p.rows.tuples = s.tuples, p.rows.length = static_cast<std::uint32_t>(s.length);
        std::int64_t step = p.rows.row_bytes;
        for (std::int64_t d = s.length; d-- > 0; step *= p.rows.dims[d])
          p.rows.dims[d] = s.x[static_cast<std::size_t>(d)], p.rows.steps[d] = step;
        std::vector<std::int64_t> index;
        for (std::int64_t i = 0; i < s.tuples * s.length; ++i) {
          const std::int64_t extent = p.rows.dims[i % s.length];
          index.push_back(random.integer(-extent, extent - 1));
        }
        const auto found = run(isa, Kernel::ScatterInto, &p,
                               {{bytes_of(x)}, {bytes_of(index)}, {bytes_of(updates)}, out(x.size() * sizeof(T))})[0];
        Dims shape{s.tuples};
        shape.insert(shape.end(), s.x.begin() + s.length, s.x.end());
        qir::Node node = node_of(Op::ScatterND, 3);
        node.set("reduction", c.name);
        expect_same<T>("rows scattered into, " + std::string(c.name) + " of " + dtype_name(dtype), found,
                       reference(node, {{dtype, s.x, bytes_of(x), {}},
                                        tensor_of({s.tuples, s.length}, index),
                                        {dtype, shape, bytes_of(updates), {}}})[0]
                           .data);
        const std::size_t at = index.size() - 1;
        index[at] = p.rows.dims[s.length - 1];
        auto own = x;
        std::byte *const pointers[4] = {reinterpret_cast<std::byte *>(own.data()),
                                        reinterpret_cast<std::byte *>(index.data()),
                                        const_cast<std::byte *>(reinterpret_cast<const std::byte *>(updates.data())),
                                        reinterpret_cast<std::byte *>(own.data())};
        const Threads threads;
        std::int64_t told[2] = {};
        isa.run[static_cast<std::size_t>(Kernel::ScatterInto)](Call{&p, pointers, threads, nullptr, 0, told});
        if (told[0] != index[at] || told[1] != static_cast<std::int64_t>(at))
          throw std::runtime_error("rows scattered into: an index out of range was not reported");
      });
  ScatterInto p;
  p.dtype = static_cast<std::uint32_t>(DType::F32);
  p.rows.bytes = 64, p.rows.row_bytes = 16, p.rows.tuples = 2, p.rows.dims[0] = 4, p.rows.steps[0] = 16;
  refuse(isa, Kernel::ScatterInto, p, "rows beyond the end", [](auto &q) { q.rows.row_bytes = 20; });
  refuse(isa, Kernel::ScatterInto, p, "a part of an element", [](auto &q) { q.rows.row_bytes = 14; });
  refuse(isa, Kernel::ScatterInto, p, "steps of 6 bytes", [](auto &q) { q.rows.steps[0] = 6; });
  refuse(isa, Kernel::ScatterInto, p, "halves", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F16); });
  refuse(isa, Kernel::ScatterInto, p, "a quotient", [](auto &q) { q.op = ElementOp::Div; });
}

void scatter_elements(const Isa &isa, const ScatterElements &shape, Random &random) {
  each_number([&]<class T>(T, DType dtype) {
    ScatterElements p = shape;
    p.dtype = static_cast<std::uint32_t>(dtype);
    const auto x = elements<T>(Kind::Random, static_cast<std::size_t>(p.outer * p.rows * p.inner), random),
               updates = elements<T>(Kind::Few, static_cast<std::size_t>(p.outer * p.count * p.inner), random);
    std::vector<std::int64_t> index(updates.size());
    for (auto &v : index) v = random.integer(-p.rows, p.rows - 1);
    const std::vector<std::int32_t> shorter(index.begin(), index.end());
    const Bytes indices = p.index_bytes == 4 ? bytes_of(shorter) : bytes_of(index);
    const auto check = [&](const char *name) {
      const auto found = run(isa, Kernel::ScatterElements, &p,
                             {{bytes_of(x)}, {indices}, {bytes_of(updates)}, out(x.size() * sizeof(T))})[0];
      qir::Node node = node_of(Op::ScatterElements, 3);
      node.set("axis", std::int64_t{1}), node.set("reduction", name);
      expect_same<T>(
          "scattered elements, " + std::string(name) + " of " + dtype_name(dtype), found,
          reference(node, {{dtype, {p.outer, p.rows, p.inner}, bytes_of(x), {}},
                           {p.index_bytes == 4 ? DType::I32 : DType::I64, {p.outer, p.count, p.inner}, indices, {}},
                           {dtype, {p.outer, p.count, p.inner}, bytes_of(updates), {}}})[0]
              .data);
    };
    check("none");
    p.combines = 1;
    for (const Combination &c : kCombinations) p.op = c.op, check(c.name);
  });
}

void test_scatter_elements(const Isa &isa) {
  Random random(39);
  for (const std::uint32_t index_bytes : {4u, 8u})
    for (const ScatterElements &p : {ScatterElements{1, 5, 12, 1, 0, index_bytes, 0, ElementOp::Add},
                                     {3, 7, 600, 1, 0, index_bytes, 0, ElementOp::Add},
                                     {2, 9, 90, 4, 0, index_bytes, 0, ElementOp::Add},
                                     {1, 3, 5, 63, 0, index_bytes, 0, ElementOp::Add},
                                     {2, 30, 7, 64, 0, index_bytes, 0, ElementOp::Add},
                                     {1, 700, 3, 300, 0, index_bytes, 0, ElementOp::Add},
                                     {2, 4, 0, 3, 0, index_bytes, 0, ElementOp::Add}})
      scatter_elements(isa, p, random);
  // The first of two that are out of range, where x lies.
  for (const std::int64_t bad : {std::int64_t{4}, std::int64_t{-5}, std::numeric_limits<std::int64_t>::min()}) {
    const ScatterElements p{2, 4, 3, 2, static_cast<std::uint32_t>(DType::F32), 8, 1, ElementOp::Add};
    std::vector<float> x(16), updates(12);
    std::vector<std::int64_t> index(12);
    index[5] = bad, index[11] = 9;
    std::byte *const pointers[4] = {
        reinterpret_cast<std::byte *>(x.data()), reinterpret_cast<std::byte *>(index.data()),
        reinterpret_cast<std::byte *>(updates.data()), reinterpret_cast<std::byte *>(x.data())};
    const Threads threads;
    std::int64_t told[2] = {};
    isa.run[static_cast<std::size_t>(Kernel::ScatterElements)](Call{&p, pointers, threads, nullptr, 0, told});
    if (told[0] != bad || told[1] != 5)
      throw std::runtime_error("scattered elements: an index out of range was not reported");
  }
  const ScatterElements p{1, 4, 3, 2, static_cast<std::uint32_t>(DType::F16), 8, 0, ElementOp::Add};
  refuse(isa, Kernel::ScatterElements, p, "sums of float16", [](auto &q) { q.combines = 1; });
  refuse(isa, Kernel::ScatterElements, p, "a flag of 2", [](auto &q) { q.combines = 2; });
  refuse(isa, Kernel::ScatterElements, p, "indices of 2 bytes", [](auto &q) { q.index_bytes = 2; });
  refuse(isa, Kernel::ScatterElements, p, "no rows", [](auto &q) { q.rows = 0; });
  refuse(isa, Kernel::ScatterElements, p, "a negative dimension", [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::ScatterElements, p, "a difference", [](auto &q) { q.op = ElementOp::Sub; });
  refuse(isa, Kernel::ScatterElements, p, "2^60 elements", [](auto &q) { q.outer = q.rows = std::int64_t{1} << 30; });
}

}  // namespace

void register_scatter(Registry &registry) {
  registry.test("TensorScatter: beside the reference", test_tensor_scatter);
  registry.test("ScatterRows", test_scatter_rows);
  registry.test("ScatterInto", test_scatter_into);
  registry.test("ScatterElements", test_scatter_elements);
}

}  // namespace quarry::kernel_test
