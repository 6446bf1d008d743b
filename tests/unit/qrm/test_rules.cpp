// SPDX-License-Identifier: Apache-2.0
// The rules of a container, each broken alone with sums that fit: each has its own message. What the reader refuses in
// the metadata the writer refuses too.
#include <cmath>

#include "crafted.h"
#include "formats/qrm/limits.h"
#include "tests/support/check.h"

namespace quarry {
namespace {

using qrm::Prologue;
using test::Crafted;
using test::open_error;
using test::SampleContainer;

// ---- prologue -----------------------------------------------------------------------------------

std::string prologue_error(const std::function<void(Prologue &)> &change) {
  return open_error(Crafted().build(change));
}
#define PROLOGUE_REFUSED(change, message) \
  CHECK_EQ(prologue_error([]([[maybe_unused]] Prologue &p) { change; }), message)

TEST_CASE("prologue rules") {
  PROLOGUE_REFUSED(, "accepted");
  PROLOGUE_REFUSED((p.major = 2, p.minor = 0),
                   "QR-M0004 container: found format 2.0, expected 1.x (this version reads 1.1)");
  PROLOGUE_REFUSED((p.major = 999, p.minor = 77),
                   "QR-M0004 container: found format 999.77, expected 1.x (this version reads 1.1)");
  PROLOGUE_REFUSED(p.minor = 9, "accepted");
  PROLOGUE_REFUSED(p.required_features = 1u << 7,
                   "QR-M0005 container: found required feature bit 7 (unknown to this version, format 1.1), in a "
                   "container of format 1.1");
  PROLOGUE_REFUSED((p.minor = 3, p.required_features = std::uint64_t{1} << 63),
                   "QR-M0005 container: found required feature bit 63 (unknown to this version, format 1.1), in a "
                   "container of format 1.3");
  PROLOGUE_REFUSED(p.header_size = 63, "QR-M0006 container: found a header of 63 bytes, expected 64");
  PROLOGUE_REFUSED(p.header_size = 128, "QR-M0006 container: found a header of 128 bytes, expected 64");
  PROLOGUE_REFUSED(p.metadata_offset = 128, "QR-M0006 container: found the metadata at 128, expected it at 64");
  PROLOGUE_REFUSED((p.minor = qrm::kFormatMinor + 1, p.header_size = 0xffffffff),
                   "QR-M0006 container: found the metadata at 64, expected it at 4294967296");
  PROLOGUE_REFUSED(p.metadata_size = qrm::kMaxMetadataBytes + 1,
                   "QR-M0008 container: found 67108865 bytes of metadata, expected at most 67108864");
  CHECK_EQ(prologue_error([](Prologue &p) { p.metadata_sum ^= 1; }).substr(0, 39),
           "QR-M0003 container: found metadata sum ");
  PROLOGUE_REFUSED(p.metadata_size = qrm::kMaxMetadataBytes,
                   "QR-M0006 container: found metadata of 67108864 bytes at 64, expected them within " +
                       std::to_string(Crafted().bytes.size()));
  PROLOGUE_REFUSED(p.file_size += 1, "QR-M0001 container: found " + std::to_string(Crafted().bytes.size()) +
                                         " bytes, expected " + std::to_string(Crafted().bytes.size() + 1) +
                                         ": it is cut off");
  PROLOGUE_REFUSED(p.file_size -= 1, "QR-M0007 container: found " + std::to_string(Crafted().bytes.size()) +
                                         " bytes, expected " + std::to_string(Crafted().bytes.size() - 1) +
                                         ": something was appended");
}

TEST_CASE("a newer minor may have a longer header") {
  Crafted crafted;
  // The metadata moves to 128; the segments stay where they are.
  Vector<std::uint8_t> bytes = crafted.build();
  Prologue prologue;
  std::memcpy(&prologue, bytes.data(), sizeof prologue);
  std::memmove(bytes.data() + 128, bytes.data() + 64, prologue.metadata_size);
  std::memset(bytes.data() + 64, 0, 64);
  std::memset(bytes.data() + 64, 0xab, 10);  // what the newer minor put there
  prologue.minor = qrm::kFormatMinor + 1;
  prologue.header_size = 74;
  prologue.metadata_offset = 128;
  prologue.sum = prologue.own_sum();
  std::memcpy(bytes.data(), &prologue, sizeof prologue);
  CHECK_EQ(open_error(bytes), "accepted");
  bytes[74] = 1;
  CHECK_EQ(open_error(bytes), "QR-M0006 container: found bytes between header and metadata, expected zeros");
}

TEST_CASE("damage of transfer is recognised") {
  const Vector<std::uint8_t> good = Crafted().build();
  const auto begins = [&](std::string_view start, std::size_t instead_of) {
    Vector<std::uint8_t> bytes(start.begin(), start.end());
    bytes.insert(bytes.end(), good.begin() + static_cast<std::ptrdiff_t>(instead_of), good.end());
    CHECK(qrm::looks_like_container({bytes.data(), bytes.size()}) == (start != "PK\3\4...."));
    return open_error(bytes);
  };
  CHECK_EQ(begins("\x89QRM\n\x1a\n", 8),
           "QR-M0002 container: found a damaged beginning (its CR LF became LF: it was transferred as text)");
  CHECK_EQ(begins("\x89QRM\r\r\n\x1a\r\n", 8),
           "QR-M0002 container: found a damaged beginning (its LF became CR LF: it was transferred as text)");
  CHECK_EQ(begins("\x89QRM\r\n\x1a\r\n", 8),
           "QR-M0002 container: found a damaged beginning (its LF became CR LF: it was transferred as text)");
  CHECK_EQ(begins("\x09QRM\r\n\x1a\n", 8),
           "QR-M0002 container: found a damaged beginning (its high bits are gone: it was transferred as 7-bit text)");
  CHECK_EQ(begins("\xc2\x89QRM\r\n\x1a\n", 8),
           "QR-M0002 container: found a damaged beginning (it was converted from Latin-1 to UTF-8)");
  CHECK_EQ(begins("\xef\xbf\xbdQRM\r\n\x1a\n", 8),
           "QR-M0002 container: found a damaged beginning (it was read as UTF-8 text and written again)");
  CHECK_EQ(begins("\x89QRM....", 8),
           "QR-M0002 container: found a damaged beginning (the bytes behind its name are damaged)");
  CHECK_EQ(begins("PK\3\4....", 8), "QR-M0002 container: found another beginning than that of a .qrm");
  CHECK(!qrm::looks_like_container({"\x08\x07", 2}));
}

// ---- layout -------------------------------------------------------------------------------------

std::string layout_error(const std::function<void(Crafted &)> &change) {
  Crafted crafted;
  change(crafted);
  return open_error(crafted.build());
}
#define LAYOUT_REFUSED(change, message) CHECK_EQ(layout_error([](Crafted &c) { change; }), message)

TEST_CASE("layout rules") {
  // Segments of the sample: constants at 4096, graph, packed at the next page, blob.
  const Crafted c0;
  const auto offset = [&](std::size_t i) { return std::to_string(c0.segments[i].offset); };
  LAYOUT_REFUSED(c.segments[0].align = 4097,
                 "QR-M0007 segment 0: found alignment 4097, expected a power of two from 64 to 65536");
  LAYOUT_REFUSED(c.segments[0].align = 32,
                 "QR-M0007 segment 0: found alignment 32, expected a power of two from 64 to 65536");
  LAYOUT_REFUSED(c.segments[0].align = 131072,
                 "QR-M0007 segment 0: found alignment 131072, expected a power of two from 64 to 65536");
  CHECK_EQ(layout_error([](Crafted &c) { c.segments[1].offset += 64; }),
           "QR-M0007 segment 1: found offset " + std::to_string(c0.segments[1].offset + 64) + ", expected " +
               offset(1) + ", right behind what is before it");
  CHECK_EQ(
      layout_error([](Crafted &c) { c.segments[1].offset = c.segments[0].offset; }),
      "QR-M0007 segment 1: found offset " + offset(0) + ", expected " + offset(1) + ", right behind what is before it");
  CHECK_EQ(layout_error([](Crafted &c) { c.segments[3].size += 1; }),
           "QR-M0007 segment 3: found 22 bytes at " + offset(3) + ", expected them within the file's " +
               std::to_string(c0.bytes.size()));
  CHECK_EQ(layout_error([](Crafted &c) { c.segments[3].size = ~std::uint64_t{0}; }),
           "QR-M0007 segment 3: found 18446744073709551615 bytes at " + offset(3) +
               ", expected them within the file's " + std::to_string(c0.bytes.size()));
  LAYOUT_REFUSED(c.segments[3].size -= 1, "QR-M0007 container: found 1 bytes behind the last segment, expected none");
  LAYOUT_REFUSED(c.bytes.resize(c.bytes.size() + 4096),
                 "QR-M0007 container: found 4096 bytes behind the last segment, expected none");
  CHECK_EQ(layout_error([](Crafted &c) { c.bytes[c.segments[2].offset - 1] = 1; }),
           "QR-M0007 container: found bytes in the padding from " +
               std::to_string(c0.segments[1].offset + c0.segments[1].size) + " to " + offset(2) +
               ", before segment 2, expected zeros");
  CHECK(layout_error([](Crafted &c) {
          c.segments[2].sum ^= 1;
        }).find("QR-M0003 segment 2 'packed' (weights, 12 bytes at " + offset(2) + "): found sum ") == 0);
}

// ---- metadata -----------------------------------------------------------------------------------

// Refused with one message by the reader and the writer.
std::string metadata_error(const std::function<void(qrm::Metadata &)> &change) {
  Crafted crafted;
  change(crafted.metadata);
  // The table may have grown into the segments: their place does not matter here, for metadata rules come first.
  const std::string reader = open_error(crafted.build());
  SampleContainer sample;
  change(sample.metadata);
  Result<Vector<std::uint8_t>> written = sample.writer.write_memory(sample.metadata);
  const std::string writer =
      written.ok() ? "accepted" : std::string(written.status().id()) + " " + std::string(written.status().message());
  return reader == writer ? reader : "reader: " + reader + "; writer: " + writer;
}
#define METADATA_REFUSED(change, message) \
  CHECK_EQ(metadata_error([]([[maybe_unused]] qrm::Metadata &m) { change; }), message)

TEST_CASE("signature rules") {
  METADATA_REFUSED(, "accepted");
  METADATA_REFUSED(m.inputs[0].name = "",
                   "QR-M0006 container: found one of the inputs named '', expected a name in UTF-8");
  METADATA_REFUSED(m.outputs[0].name = "\xff",
                   "QR-M0006 container: found one of the outputs named '\\xff', expected a name in UTF-8");
  METADATA_REFUSED(m.inputs.push_back(m.inputs[0]), "QR-M0006 container: found two of the inputs named 'image'");
  METADATA_REFUSED(m.inputs[0].dim_names.pop_back(), "QR-M0006 tensor 'image': found 3 names for 4 axes");
  METADATA_REFUSED(m.inputs[0].dim_names[0] = "\xff",
                   "QR-M0006 tensor 'image': found a dimension named '\\xff', expected UTF-8");
  METADATA_REFUSED(m.inputs[0].dtype = DType::Unknown,
                   "QR-G0003 tensor 'image': found type number 0, expected one of ONNX's that Quarry knows");
  METADATA_REFUSED(m.outputs[0].dims = qir::Shape(9, 1),
                   "QR-G0006 tensor 'limited': found 9 dimensions, expected at most 8");
  METADATA_REFUSED(m.outputs[0].dims[0] = -2,
                   "QR-G0004 tensor 'limited': found size -2, expected at least 0, or -1 for unknown");
  METADATA_REFUSED(m.outputs[0].quant = (qir::Quantization{{1.f}, {0}, 0, 0}),
                   "QR-G0003 tensor 'limited': found a quantised f32, expected an integer of at most 32 bits");
}

TEST_CASE("graph rules") {
  METADATA_REFUSED(m.graphs.clear(), "QR-M0006 container: found no graph");
  METADATA_REFUSED(m.graphs[1].name = m.graphs[0].name, "QR-M0006 container: found two graphs named 'image=1x1x8x8'");
  METADATA_REFUSED(m.graphs[0].input_dims.clear(),
                   "QR-M0006 graph 'image=1x1x8x8': found shapes of 0 inputs, expected 1");
  METADATA_REFUSED(m.graphs[0].output_dims.emplace_back(),
                   "QR-M0006 graph 'image=1x1x8x8': found shapes of 2 outputs, expected 1");
  METADATA_REFUSED(m.graphs[0].input_dims[0] = (qir::Shape{1, 8, 8}),
                   "QR-M0006 graph 'image=1x1x8x8': found 'image' of [1,8,8], expected [?,1,8,8]");
  METADATA_REFUSED(m.graphs[0].input_dims[0][0] = -2,
                   "QR-M0006 graph 'image=1x1x8x8': found 'image' of [?,1,8,8], expected [?,1,8,8]");
  METADATA_REFUSED(m.graphs[0].input_dims[0][1] = 2,
                   "QR-M0006 graph 'image=1x1x8x8': found 'image' of [1,2,8,8], expected [?,1,8,8]");
  METADATA_REFUSED(m.graphs[0].output_dims[0][1] = 4,
                   "QR-M0006 graph 'image=1x1x8x8': found 'limited' of [1,4], expected [?,3]");
  METADATA_REFUSED(m.graphs[0].output_dims[0][0] = -2,
                   "QR-M0006 graph 'image=1x1x8x8': found 'limited' of [?,3], expected [?,3]");
  METADATA_REFUSED(m.graphs[0].input_dims[0][0] = std::int64_t{1} << 60,
                   "QR-G0002 tensor 'image': found [1152921504606846976,1,8,8] elements of f32, expected at most "
                   "1099511627776 bytes");
  METADATA_REFUSED(m.graphs[0].qir_segment = 4,
                   "QR-M0006 graph 'image=1x1x8x8': found segment number 4, expected one under 4");
  METADATA_REFUSED(m.graphs[0].qir_segment = 0,
                   "QR-M0006 graph 'image=1x1x8x8': found segment 0 of kind weights, expected graph");
  METADATA_REFUSED(m.graphs[0].segments[0] = 9,
                   "QR-M0006 graph 'image=1x1x8x8': found segment number 9, expected one under 4");
  METADATA_REFUSED(m.graphs[0].segments[0] = 3,
                   "QR-M0006 graph 'image=1x1x8x8': found segment 3 of kind blob, expected weights");
}

TEST_CASE("context rules") {
  METADATA_REFUSED(m.contexts.clear(), "accepted");
  METADATA_REFUSED(m.contexts[0].backend = "", "QR-M0006 container: found a context without a backend");
  METADATA_REFUSED(m.contexts.push_back(m.contexts[0]),
                   "QR-M0006 context for 'cpu-reference': found two for target 'x86_64-linux'");
  METADATA_REFUSED((m.contexts.push_back(m.contexts[0]), m.contexts[1].target = "aarch64-linux"), "accepted");
  METADATA_REFUSED(m.contexts[0].programs.pop_back(),
                   "QR-M0006 context for 'cpu-reference': found programs of 1 graphs, expected all 2");
  METADATA_REFUSED(m.contexts[0].programs.clear(),
                   "QR-M0006 context for 'cpu-reference': found programs of 0 graphs, expected all 2");
  METADATA_REFUSED(m.contexts[0].programs[1].graphs[0] = 0,
                   "QR-M0006 context for 'cpu-reference': found graph 0 in program 1, and once before");
  METADATA_REFUSED(m.contexts[0].programs[0].graphs.push_back(1),
                   "QR-M0006 context for 'cpu-reference': found graph 1 in program 1, and once before");
  METADATA_REFUSED(m.contexts[0].programs[0].graphs.push_back(0),
                   "QR-M0006 context for 'cpu-reference': found graph 0 in program 0, and once before");
  METADATA_REFUSED(m.contexts[0].programs[1].graphs[0] = 2,
                   "QR-M0006 context for 'cpu-reference': found graph number 2 in program 1, expected one under 2");
  METADATA_REFUSED(std::swap(m.contexts[0].programs[0].graphs, m.contexts[0].programs[1].graphs),
                   "QR-M0006 context for 'cpu-reference': found program 1 to begin with graph 0, expected one after 1, "
                   "which the program before begins with");
  METADATA_REFUSED((m.contexts[0].programs.pop_back(), m.contexts[0].programs[0].graphs = {1, 0}), "accepted");
  METADATA_REFUSED(m.contexts[0].programs[0].blob_segment = 4,
                   "QR-M0006 context for 'cpu-reference': found segment number 4, expected one under 4");
  METADATA_REFUSED(m.contexts[0].programs[0].blob_segment = 1,
                   "QR-M0006 context for 'cpu-reference': found segment 1 of kind graph, expected blob");
  METADATA_REFUSED(m.contexts[0].programs[0].segments[1] = 0xffffffff,
                   "QR-M0006 context for 'cpu-reference': found segment number 4294967295, expected one under 4");
  METADATA_REFUSED(m.contexts[0].programs[0].segments[1] = 3,
                   "QR-M0006 context for 'cpu-reference': found segment 3 of kind blob, expected weights");
  METADATA_REFUSED(m.contexts[0].options.push_back(m.contexts[0].options[0]),
                   "QR-M0006 context for 'cpu-reference', options: found key 'cpu.threads' twice");
}

TEST_CASE("pair rules") {
  METADATA_REFUSED(
      m.user[0].key = "",
      "QR-M0006 container, metadata: found key '', expected a key that is not empty, and a value, both in UTF-8");
  METADATA_REFUSED(
      m.user[0].value = "\xff",
      "QR-M0006 container, metadata: found key 'author', expected a key that is not empty, and a value, both in UTF-8");
  METADATA_REFUSED(m.user[1].key = "author", "QR-M0006 container, metadata: found key 'author' twice");
  METADATA_REFUSED(
      m.created_by[0].key = "",
      "QR-M0006 container, options: found key '', expected a key that is not empty, and a value, both in UTF-8");
  // Options may name files, in any bytes.
  METADATA_REFUSED((m.created_by[0].value = "\xff", m.contexts[0].options[0].value = "\xfe"), "accepted");
}

TEST_CASE("a kind of segment that is not known is kept and not used") {
  Crafted crafted;
  crafted.segments[3].kind = qrm::SegmentKind::Unknown;
  CHECK_EQ(open_error(crafted.build()),
           "QR-M0006 context for 'cpu-reference': found segment 3 of kind unknown, expected blob");
  crafted.metadata.contexts.clear();
  CHECK_EQ(open_error(crafted.build()), "accepted");
}

TEST_CASE("the kept graph is the one that the signature says") {
  METADATA_REFUSED((void)m, "accepted");
  const auto kept = [](const std::function<void(qrm::Metadata &)> &change) {
    Crafted crafted;
    change(crafted.metadata);
    return open_error(crafted.build());
  };
  CHECK_EQ(kept([](qrm::Metadata &m) { m.inputs[0].dtype = DType::I32; }),
           "QR-M0006 graph 'image=1x1x8x8': found 'image' as f32[1,1,8,8] in its QIR, expected i32[1,1,8,8]");
  CHECK_EQ(kept([](qrm::Metadata &m) { m.graphs[0].input_dims[0][0] = 3; }),
           "QR-M0006 graph 'image=1x1x8x8': found 'image' as f32[1,1,8,8] in its QIR, expected f32[3,1,8,8]");
  CHECK_EQ(kept([](qrm::Metadata &m) {
             m.outputs.clear(), m.graphs[0].output_dims.clear(), m.graphs[1].output_dims.clear();
           }),
           "QR-M0006 graph 'image=1x1x8x8': found 1 outputs in its QIR, expected 0");
  CHECK_EQ(kept([](qrm::Metadata &m) { m.graphs[0].segments.clear(); }),
           "QR-G0001 tensor 'conv.weight': found its data in segment 0, expected one under 0");
}

// ---- limits: at the limit, and one past it ------------------------------------------------------

// What is at the limit is written and read again; one more is refused.
void check_limit(std::size_t limit, const std::string &message,
                 const std::function<void(qrm::Metadata &, std::size_t)> &grow) {
  for (const std::size_t count : {limit, limit + 1}) {
    qrm::Writer writer;
    const std::uint32_t blob = *writer.add_segment(qrm::SegmentKind::Blob, "blob", {"blob", 4}),
                        weights = *writer.add_segment(qrm::SegmentKind::Weights, "w", {"w", 1});
    CHECK((blob == 0 && weights == 1));
    qrm::Metadata metadata;
    metadata.graphs.emplace_back();
    grow(metadata, count);
    const Result<Vector<std::uint8_t>> written = writer.write_memory(metadata);
    if (count == limit) {
      REQUIRE_OK(written);
      CHECK_EQ(open_error(written.value()), "accepted");
    } else {
      CHECK_EQ(written.status().id(), "QR-M0008");
      CHECK_EQ(written.status().message(), message);
    }
  }
}
String numbered(std::size_t i) { return format("n%zu", i); }
qrm::ContextInfo context(const String &backend) {
  qrm::ContextInfo out;
  out.backend = backend;
  out.programs.emplace_back().graphs = {0};
  return out;
}

TEST_CASE("count limits") {
  using M = qrm::Metadata;
  check_limit(qrm::kMaxGraphs, "container: found 1025 graphs, expected at most 1024", [](M &m, std::size_t n) {
    for (std::size_t i = 1; i < n; ++i) m.graphs.emplace_back().name = numbered(i);
  });
  check_limit(qrm::kMaxContexts, "container: found 257 contexts, expected at most 256", [](M &m, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) m.contexts.push_back(context(numbered(i)));
  });
  check_limit(qrm::kMaxSignatureTensors, "container: found 65537 inputs, expected at most 65536",
              [](M &m, std::size_t n) {
                for (std::size_t i = 0; i < n; ++i) m.inputs.push_back({numbered(i), DType::F32, {}, {}, {}});
                m.graphs[0].input_dims.resize(n);
              });
  check_limit(qrm::kMaxPairs, "container, metadata: found 65537 entries, expected at most 65536",
              [](M &m, std::size_t n) {
                for (std::size_t i = 0; i < n; ++i) m.user.push_back({numbered(i), ""});
              });
  check_limit(qrm::kMaxSegmentRefs, "graph '': found 65537 segments, expected at most 65536",
              [](M &m, std::size_t n) { m.graphs[0].segments.resize(n, 1); });
  check_limit(qrm::kMaxSegmentRefs, "context for 'b': found 65537 segments, expected at most 65536",
              [](M &m, std::size_t n) {
                m.contexts.push_back(context("b"));
                m.contexts[0].programs[0].segments.resize(n, 1);
              });
}

TEST_CASE("text limits") {
  using M = qrm::Metadata;
  check_limit(qrm::kMaxNameBytes, "container, metadata: found 4097 bytes in a key, expected at most 4096",
              [](M &m, std::size_t n) {
                m.user.push_back({String(n, 'k'), ""});
              });
  check_limit(qrm::kMaxTextBytes, "container, metadata: found 1048577 bytes in a value, expected at most 1048576",
              [](M &m, std::size_t n) {
                m.user.push_back({"k", String(n, 'v')});
              });
  check_limit(qrm::kMaxTextBytes, "container: found 1048577 bytes of producer, expected at most 1048576",
              [](M &m, std::size_t n) { m.producer = String(n, 'p'); });
  check_limit(qrm::kMaxTextBytes,
              "graph '" + std::string(200, 'g') + "...': found 1048577 bytes of name, expected at most 1048576",
              [](M &m, std::size_t n) { m.graphs[0].name = String(n, 'g'); });
  check_limit(qrm::kMaxNameBytes, "context for 'b': found 4097 bytes in a name, expected at most 4096",
              [](M &m, std::size_t n) {
                m.contexts.push_back(context("b"));
                m.contexts[0].target = String(n, 't');
              });
  check_limit(qrm::kMaxTextBytes, "context for 'b': found 1048577 bytes of compatibility key, expected at most 1048576",
              [](M &m, std::size_t n) {
                m.contexts.push_back(context("b"));
                m.contexts[0].programs[0].key = String(n, 'k');
              });
  check_limit(qrm::kMaxNameBytes, "container: found 4097 bytes in a dimension's name, expected at most 4096",
              [](M &m, std::size_t n) {
                m.inputs.push_back({"x", DType::F32, {1}, {String(n, 'd')}, {}});
                m.graphs[0].input_dims = {{1}};
              });
}

TEST_CASE("metadata limit") {
  qrm::Metadata metadata;
  metadata.graphs.emplace_back();
  const String mebibyte(qrm::kMaxTextBytes, 'v');
  for (std::size_t i = 0; i < 63; ++i) metadata.user.push_back({numbered(i), mebibyte});
  const Result<Vector<std::uint8_t>> fits = qrm::Writer().write_memory(metadata);
  REQUIRE_OK(fits);
  CHECK_EQ(open_error(fits.value()), "accepted");
  // To the byte: the last value fills the metadata to 64 MiB exactly, and one more is too many.
  const std::size_t used = fits.value().size() - sizeof(Prologue);
  metadata.user.push_back({"last", String(qrm::kMaxMetadataBytes - used - 64, 'v')});
  std::size_t size = qrm::Writer().write_memory(metadata).value().size() - sizeof(Prologue);
  metadata.user.back().value.append(qrm::kMaxMetadataBytes - size, 'v');
  const Result<Vector<std::uint8_t>> full = qrm::Writer().write_memory(metadata);
  REQUIRE_OK(full);
  size = full.value().size() - sizeof(Prologue);
  CHECK((size <= qrm::kMaxMetadataBytes && size + 8 > qrm::kMaxMetadataBytes));
  CHECK_EQ(open_error(full.value()), "accepted");
  metadata.user.back().value.append(16, 'v');
  CHECK_EQ(qrm::Writer().write_memory(metadata).status().message(),
           "container: found over 67108864 bytes of metadata, expected at most that");
}

TEST_CASE("segment limit") {
  qrm::Writer writer;
  Vector<std::uint32_t> contents(qrm::kMaxSegments + 1);
  for (std::uint32_t i = 0; i < contents.size(); ++i) {
    contents[i] = i;
    const Result<std::uint32_t> added = writer.add_segment(qrm::SegmentKind::Weights, "s", {&contents[i], 4}, 64);
    if (i < qrm::kMaxSegments) {
      REQUIRE_OK(added);
    } else {
      CHECK_EQ(added.status().message(), "container: found more than 65536 segments, expected at most that");
    }
  }
  qrm::Metadata metadata;
  metadata.graphs.emplace_back();
  const Result<Vector<std::uint8_t>> written = writer.write_memory(metadata);
  REQUIRE_OK(written);
  CHECK_EQ(open_error(written.value()), "accepted");
}

}  // namespace
}  // namespace quarry
