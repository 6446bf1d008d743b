// SPDX-License-Identifier: Apache-2.0
// What PoCL gives as a program's binary is known to be whole, and however a part of it is cut, that is reported before
// the driver sees it: it would end the process.
#include <cstring>

#include "backends/gpu/run/binary.h"
#include "backends/gpu/compile/compile.h"
#include "backends/gpu/inspect/doctor.h"
#include "backends/gpu/opencl/pocl.h"
#include "base/hash.h"
#include "tests/unit/passes/pieces.h"

using namespace quarry;
using namespace quarry::test;

namespace {

using Data = std::vector<std::uint8_t>;

// A model with two kernels, compiled for PoCL's device.
struct Made {
  std::shared_ptr<const gpu::Engine> engine;
  gpu::Compiled compiled;
  gpu::Blob blob;
  Data binary;
  Vector<qir::Bytes> segments() const { return {{compiled.packed.data(), compiled.packed.size()}}; }
};
std::uint64_t no_clock(void *) { return 0; }
void no_log(void *, std::int32_t, qr_plugin_string, qr_plugin_string) {}
const qr_host &host() {
  static const qr_host one = [] {
    qr_host made{};
    made.clock_ns = no_clock, made.log = no_log;
    return made;
  }();
  return one;
}
Result<Unique<gpu::LoadedContext>> load(Made &made, const Data &binary, String &note) {
  gpu::Blob blob;
  blob.plan = made.blob.plan, blob.device = made.blob.device, blob.source_hash = made.blob.source_hash;
  blob.binary_hash = hash64(binary.data(), binary.size()), blob.binary_bytes = binary.size();
  Vector<qir::Bytes> segments = made.segments();
  segments.push_back({binary.data(), binary.size()});
  return gpu::LoadedContext::load(made.engine, std::move(blob), segments, nullptr, &note);
}

bool make(Made &made) {
  static const gpu::Machine &machine = *new gpu::Machine;
  auto chosen = machine.choose(0, "");
  if (!chosen.ok() || (*chosen)->platform_name != "Portable Computing Language") {
    MESSAGE("no PoCL here: not tested");
    return false;
  }
  auto engine = gpu::Engine::make(machine.library(), **chosen);
  REQUIRE_OK(engine);
  made.engine = *engine;
  Pieces p;
  const i32 x = p.input({4, 16});
  p.gives({p.node(Op::Softmax, {p.node(Op::MatMul, {x, p.column(16 * 8, {16, 8})})})});
  auto compiled = gpu::compile(p.graph, {}, {});
  REQUIRE_OK(compiled);
  made.compiled = std::move(*compiled);
  made.blob.plan = std::move(made.compiled.plan);
  Vector<std::uint8_t> binary;
  REQUIRE_OK(
      gpu::take_binary(made.engine, made.segments(), plugin::StopToken(nullptr, host()), host(), made.blob, binary));
  made.binary.assign(binary.begin(), binary.end());
  REQUIRE_GT(made.binary.size(), 1000);
  return true;
}

std::uint64_t number(const Data &bytes, std::size_t at, std::size_t size) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + at, size);
  return value;
}
void add(Data &bytes, std::size_t at, std::size_t size, std::int64_t by) {
  const std::uint64_t value = number(bytes, at, size) + static_cast<std::uint64_t>(by);
  std::memcpy(bytes.data() + at, &value, size);
}

// A file in a binary, and the lengths that count it.
struct File {
  std::size_t size_at;
  std::vector<std::size_t> counts;  // of 64 bits
};
std::vector<File> files_of(const Data &b) {
  std::vector<File> files;
  const auto within = [&](std::size_t at, std::size_t end, const std::vector<std::size_t> &counts) {
    while (at < end) {
      at += 4 + number(b, at, 4);
      files.push_back({at, counts});
      at += 4 + number(b, at, 4);
    }
    REQUIRE_EQ(at, end);
  };
  std::size_t at = 77;
  for (std::uint64_t i = number(b, 32, 4); i > 0; --i) {
    within(at + 8, at + 8 + number(b, at, 8), {at});
    at += 8 + number(b, at, 8);
  }
  for (std::uint64_t i = number(b, 20, 4); i > 0; --i) {
    const std::size_t end = at + number(b, at, 8);
    within(end - number(b, at + 8, 8), end, {at, at + 8});
    at = end;
  }
  REQUIRE_EQ(at, b.size());
  return files;
}
Data without_tail(const Data &binary, const File &file, std::size_t left) {
  const std::size_t size = number(binary, file.size_at, 4), gone = size - left, end = file.size_at + 4 + size;
  Data cut = binary;
  for (const std::size_t at : file.counts) add(cut, at, 8, -static_cast<std::int64_t>(gone));
  add(cut, file.size_at, 4, -static_cast<std::int64_t>(gone));
  cut.erase(cut.begin() + static_cast<std::ptrdiff_t>(end - gone), cut.begin() + static_cast<std::ptrdiff_t>(end));
  return cut;
}
String flaw(const Data &binary) { return opencl::flaw_of_binary({binary.data(), binary.size()}); }

}  // namespace

TEST_CASE("a binary of PoCL's is whole, and no cut of it is") {
  Made made;
  if (!make(made)) return;
  CHECK_EQ(flaw(made.binary), "");
  for (std::size_t size = 8; size < made.binary.size(); size += 1 + size / 40)
    CHECK_FALSE(flaw(Data(made.binary.begin(), made.binary.begin() + static_cast<std::ptrdiff_t>(size))).empty());
  Data longer = made.binary;
  longer.push_back(0);
  CHECK_FALSE(flaw(longer).empty());
  const std::vector<File> files = files_of(made.binary);
  CHECK_GE(files.size(), 3);
  for (const File &file : files) {
    const std::size_t size = number(made.binary, file.size_at, 4);
    for (const std::size_t left :
         {std::size_t{0}, std::size_t{3}, std::size_t{4}, std::size_t{512}, size / 2, size - 4, size - 1}) {
      CAPTURE(left);
      CHECK_FALSE(flaw(without_tail(made.binary, file, left)).empty());
    }
    Data other = made.binary;
    std::memcpy(other.data() + file.size_at - 5, ".temp", 5);
    CHECK(flaw(other).find("another process was writing") != String::npos);
  }
  CHECK_EQ(flaw(Data{'o', 't', 'h', 'e', 'r', ' ', 'd', 'r', 'i', 'v', 'e', 'r'}), "");
}

TEST_CASE("no number of a binary's lengths leads outside it") {
  Made made;
  if (!make(made)) return;
  for (std::size_t at = 0; at + 8 <= 160; ++at)
    for (const std::uint64_t value :
         {std::uint64_t{0}, std::uint64_t{UINT32_MAX}, UINT64_MAX, std::uint64_t{1} << 63}) {
      Data other = made.binary;
      std::memcpy(other.data() + at, &value, 8);
      (void)flaw(other);
    }
}

TEST_CASE("what was compiled with half a binary is compiled from its source") {
  Made made;
  if (!make(made)) return;
  String note;
  REQUIRE_OK(load(made, made.binary, note));
  CHECK_EQ(note, "");
  for (const File &file : files_of(made.binary)) {
    REQUIRE_OK(load(made, without_tail(made.binary, file, 0), note));
    CHECK(note.find("with an empty file (/") != String::npos);
  }
}
