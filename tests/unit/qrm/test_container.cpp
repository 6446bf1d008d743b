// SPDX-License-Identifier: Apache-2.0
// Writing a container and reading it again: from a file, a descriptor, memory; layout; equal segments; sums now, later,
// never.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/hash.h"
#include "folder.h"
#include "formats/qrm/metadata.h"
#include "formats/qrm/prologue.h"
#include "tests/support/check.h"
#include "tests/support/kept_graph.h"
#include "sample_container.h"

namespace quarry {
namespace {

namespace fs = std::filesystem;
using qrm::RawFile;
using qrm::SegmentKind;
using qrm::SumCheck;
using qrm::ValidatedModel;
using qrm::Writer;
using test::AlignedBytes;
using test::Folder;
using test::SampleContainer;

Result<ValidatedModel> open_path(const std::string &path, SumCheck sums = SumCheck::Lazy) {
  QR_ASSIGN_OR_RETURN(RawFile file, RawFile::open_path(path));
  return ValidatedModel::open(std::move(file), sums);
}
Result<ValidatedModel> open_memory(qir::Bytes bytes, SumCheck sums = SumCheck::Lazy) {
  QR_ASSIGN_OR_RETURN(RawFile file, RawFile::from_memory(bytes.data, bytes.size));
  return ValidatedModel::open(std::move(file), sums);
}
std::uint64_t qrm_features(const Vector<std::uint8_t> &bytes) {
  qrm::Prologue prologue;
  std::memcpy(&prologue, bytes.data(), sizeof prologue);
  return prologue.required_features;
}
template <class T>
std::string error_of(const Result<T> &result) {
  return std::string(result.status().id()) + " " + std::string(result.status().message());
}

void check_contents(const ValidatedModel &model, const SampleContainer &from) {
  const qrm::Metadata &m = model.metadata();
  CHECK_EQ(m.producer, "quarry test");
  CHECK_EQ(m.source, "by hand");
  CHECK_EQ(m.created_by.size(), 2u);
  CHECK_EQ(m.created_by[1].key, "container.keep_graph");
  CHECK((m.inputs.size() == 1 && m.outputs.size() == 1));
  CHECK_EQ(m.inputs[0].name, "image");
  CHECK((m.inputs[0].dtype == DType::F32 && m.inputs[0].dims == qir::Shape({-1, 1, 8, 8}) && !m.inputs[0].quant));
  CHECK_EQ(m.inputs[0].dim_names[0], "batch");
  CHECK((m.graphs.size() == 2 && m.graphs[0].qir_segment == 1u && !m.graphs[1].qir_segment));
  CHECK((m.graphs[1].input_dims[0] == qir::Shape({2, 1, 8, 8}) && m.graphs[1].output_dims[0] == qir::Shape({-1, 3})));
  const qrm::ContextInfo *context = model.find_context("cpu-reference");
  REQUIRE(context != nullptr);
  CHECK((context->target == "x86_64-linux" && context->blob_version == 7 && context->backend_version == "0.1.0"));
  CHECK((context->options.size() == 1 && context->options[0].key == "cpu.threads" && context->options[0].value == "2"));
  CHECK_EQ(context->programs.size(), 2u);
  CHECK(context->programs[0].graphs == Vector<std::uint32_t>({0}));
  CHECK((context->programs[1].graphs == Vector<std::uint32_t>({1}) && context->programs[1].key == "key" &&
         context->programs[1].plan.scratchpad_bytes == 5));
  CHECK(context->programs[0].segments == Vector<std::uint32_t>({2, 0}));
  CHECK(model.find_context("htp") == nullptr);
  CHECK_EQ(m.user[0].value, "Zo\xc3\xab");
  CHECK_EQ(m.user[1].value, "");
  const Result<qir::Bytes> blob = model.segment(3);
  REQUIRE_OK(blob);

  CHECK_EQ(std::string_view(static_cast<const char *>(blob.value().data), blob.value().size),
           std::string_view(from.blob));
  Result<qir::Graph> graph = test::kept_graph(model, 0);
  REQUIRE_OK(graph);
  CHECK_EQ(qir::print_graph(*graph), qir::print_graph(from.sample.graph));
  CHECK_EQ(error_of(model.outline(1)), "QR-M0010 graph 'image=2x1x8x8': found that it was not kept in the container");
  CHECK_EQ(error_of(model.outline(2)), "QR-C0008 container: found graph number 2, expected one under 2");
  CHECK_EQ(error_of(model.segment(4)), "QR-C0008 container: found segment number 4, expected one under 4");
  CHECK_OK(model.verify());
}

TEST_CASE("from a file") {
  const Folder folder;
  const SampleContainer sample;
  for (const char *name : {"model.qrm", "модель – 模型 .qrm"}) {
    const std::string path = folder.file(name);
    REQUIRE_OK(sample.writer.write_file(path, sample.metadata));
    Result<ValidatedModel> model = open_path(path, SumCheck::Eager);
    REQUIRE_OK(model);
    check_contents(*model, sample);
    CHECK((model->format_major() == 1 && model->format_minor() == 1));
    CHECK_EQ(model->file_bytes(), fs::file_size(path));
    // Mapped segments are where the hardware wants them.
    for (std::uint32_t i = 0; i < model->segments().size(); ++i)
      CHECK_EQ(reinterpret_cast<std::uintptr_t>(model->segment(i).value().data) %
                   std::min<std::uint32_t>(model->segments()[i].align, 4096),
               0u);
    // A moved model is the same model.
    const ValidatedModel moved = std::move(*model);
    check_contents(moved, sample);
  }
  CHECK_EQ(folder.count(), 2u);  // nothing temporary is left
}

TEST_CASE("file and memory hold the same bytes") {
  const Folder folder;
  const SampleContainer sample;
  const Vector<std::uint8_t> bytes = sample.bytes();
  CHECK_OK(sample.writer.write_file(folder.file("m.qrm"), sample.metadata));
  std::ifstream in(folder.file("m.qrm"), std::ios::binary);
  const std::string file((std::istreambuf_iterator<char>(in)), {});
  CHECK_EQ(file.size(), bytes.size());
  CHECK(std::memcmp(file.data(), bytes.data(), bytes.size()) == 0);
  CHECK(SampleContainer().bytes() == bytes);  // and the same calls give them again
}

// The bytes of every segment, read through what segment_file() says of it.
void check_segment_files(const ValidatedModel &model) {
  for (std::uint32_t i = 0; i < model.segments().size(); ++i) {
    const Result<qir::Bytes> bytes = model.segment(i);
    const qrm::SegmentFile file = model.segment_file(i);
    REQUIRE_OK(bytes);
    REQUIRE(file.fd >= 0);
    CHECK_EQ(file.size, bytes.value().size);
    CHECK_EQ(file.sum, model.segments()[i].sum);
    Vector<char> read(file.size);
    CHECK_EQ(::pread(file.fd, read.data(), read.size(), static_cast<off_t>(file.offset)),
             static_cast<ssize_t>(read.size()));
    CHECK(std::memcmp(read.data(), bytes.value().data, read.size()) == 0);
    CHECK_EQ(hash64(read.data(), read.size()), file.sum);
  }
}

TEST_CASE("segments say where they lie in the file") {
  const Folder folder;
  const SampleContainer sample;
  const Vector<std::uint8_t> bytes = sample.bytes();
  const std::string path = folder.file("m.qrm");
  REQUIRE_OK(sample.writer.write_file(path, sample.metadata));
  int fd = -1;
  {
    Result<ValidatedModel> model = open_path(path);
    REQUIRE_OK(model);
    fs::remove(path);  // the descriptor is of the file that was opened, whatever its name leads to now
    const ValidatedModel moved = std::move(*model);
    check_segment_files(moved);
    fd = moved.segment_file(0).fd;
    CHECK_EQ(::fcntl(fd, F_GETFD), FD_CLOEXEC);
    CHECK_EQ(moved.segment_file(1).fd, fd);
  }
  CHECK_EQ(::fcntl(fd, F_GETFD), -1);  // closed with the model

  for (const std::uint64_t offset : {64u, 8192u, 12345u}) {
    std::ofstream(path, std::ios::binary) << std::string(offset, 'x') << std::string(bytes.begin(), bytes.end());
    fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    Result<RawFile> file = RawFile::open_fd(fd, offset, 0);
    ::close(fd);
    REQUIRE_OK(file);
    Result<ValidatedModel> model = ValidatedModel::open(std::move(*file));
    REQUIRE_OK(model);
    if (offset % 64 == 0) {
      check_segment_files(*model);
      CHECK_EQ(model->segment_file(3).offset, offset + model->segments()[3].offset);
    } else {  // copied: the file is of no use
      CHECK((model->segment_file(3).fd == -1 && model->segment_file(3).offset == 0));
      CHECK_EQ(model->segment_file(3).sum, model->segments()[3].sum);
    }
  }
  Result<ValidatedModel> memory = open_memory({bytes.data(), bytes.size()});
  REQUIRE_OK(memory);
  CHECK_EQ(memory->segment_file(0).fd, -1);
}

TEST_CASE("a program of several graphs") {
  SampleContainer sample;
  Vector<qrm::Program> &programs = sample.metadata.contexts[0].programs;
  CHECK_EQ(qrm_features(sample.bytes()), 0u);  // programs of one graph are read by format 1.0
  programs.pop_back();
  programs[0].graphs = {1, 0};
  const Vector<std::uint8_t> bytes = sample.bytes();
  CHECK_EQ(qrm_features(bytes), 1u);
  Result<ValidatedModel> model = open_memory({bytes.data(), bytes.size()});
  REQUIRE_OK(model);
  CHECK_OK(model->verify());
  const Vector<qrm::Program> &read = model->metadata().contexts[0].programs;
  CHECK_EQ(read.size(), 1u);
  CHECK(read[0].graphs == Vector<std::uint32_t>({1, 0}));  // the order within the blob is kept
}

TEST_CASE("from memory aligned or not") {
  const SampleContainer sample;
  const Vector<std::uint8_t> bytes = sample.bytes();
  AlignedBytes room(bytes.size() + 64);
  for (const std::size_t shift : {0u, 1u, 8u, 63u}) {
    std::memcpy(room.data() + shift, bytes.data(), bytes.size());
    Result<RawFile> file = RawFile::from_memory(room.data() + shift, bytes.size());
    REQUIRE_OK(file);
    CHECK_EQ(file->bytes().data == room.data() + shift, shift == 0);  // borrowed where it can be used as it lies
    Result<ValidatedModel> model = ValidatedModel::open(std::move(*file));
    REQUIRE_OK(model);
    check_contents(*model, sample);
  }
  CHECK_EQ(error_of(RawFile::from_memory(nullptr, 5)), "QR-C0002 memory: found no address for 5 bytes");
  CHECK_EQ(error_of(open_memory({nullptr, 0})),
           "QR-M0001 container: found 0 bytes, expected at least the 64 of the prologue");
}

TEST_CASE("from a part of a file") {
  const Folder folder;
  const SampleContainer sample;
  const Vector<std::uint8_t> bytes = sample.bytes();
  for (const std::uint64_t offset : {0u, 64u, 4096u, 12345u, 8256u}) {
    const std::string path = folder.file("package");
    {
      std::ofstream out(path, std::ios::binary);
      out << std::string(offset, 'x');
      out.write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      out << "behind";
    }
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    Result<RawFile> file = RawFile::open_fd(fd, offset, bytes.size());
    Result<RawFile> all = RawFile::open_fd(fd, offset, 0);
    Result<RawFile> past = RawFile::open_fd(fd, offset, bytes.size() + 7);
    const Result<RawFile> outside = RawFile::open_fd(fd, offset + bytes.size() + 7, 0);
    const Result<RawFile> wrapping = RawFile::open_fd(fd, 64, ~std::uint64_t{0});
    ::close(fd);
    REQUIRE_OK(file);
    Result<ValidatedModel> model = ValidatedModel::open(std::move(*file));
    REQUIRE_OK(model);
    check_contents(*model, sample);
    REQUIRE_OK(all);

    CHECK_EQ(error_of(ValidatedModel::open(std::move(*all))),
             "QR-M0007 container: found " + std::to_string(bytes.size() + 6) + " bytes, expected " +
                 std::to_string(bytes.size()) + ": something was appended");
    CHECK_EQ(past.status().id(), "QR-C0008");
    CHECK_EQ(outside.status().id(), "QR-C0008");
    CHECK_EQ(wrapping.status().id(), "QR-C0008");
  }
}

TEST_CASE("files that cannot be opened") {
  const Folder folder;
  CHECK_EQ(RawFile::open_path(folder.file("missing")).status().id(), "QR-F0001");
  CHECK_EQ(RawFile::open_path("").status().id(), "QR-F0001");
  CHECK_EQ(RawFile::open_path(std::string_view("a\0b", 3)).status().id(), "QR-F0001");
  CHECK_EQ(RawFile::open_path(folder.file(".")).status().id(), "QR-F0005");
  const std::string pipe = folder.file("pipe");
  CHECK_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  CHECK_EQ(RawFile::open_path(pipe).status().id(), "QR-F0005");
  const std::string closed = folder.file("closed");
  std::ofstream(closed) << "x";
  ::chmod(closed.c_str(), 0);
  if (::geteuid() != 0) CHECK_EQ(RawFile::open_path(closed).status().id(), "QR-F0002");
  std::ofstream(folder.file("empty"));
  CHECK_EQ(error_of(open_path(folder.file("empty"))),
           "QR-M0001 container: found 0 bytes, expected at least the 64 of the prologue");
  CHECK_EQ(RawFile::open_fd(-1, 0, 0).status().id(), "QR-F0004");
}

TEST_CASE("a file appears whole or not at all") {
  const Folder folder;
  const SampleContainer sample;
  CHECK_EQ(sample.writer.write_file(folder.file("no/such/folder/m.qrm"), sample.metadata).id(), "QR-F0003");
  CHECK_EQ(sample.writer.write_file("", sample.metadata).id(), "QR-F0003");
  CHECK_EQ(sample.writer.write_file(folder.file("."), sample.metadata).id(), "QR-F0005");
  CHECK_OK(sample.writer.write_file("/dev/null", sample.metadata));
  CHECK(fs::is_character_file("/dev/null"));
  // Metadata that breaks a rule: nothing is written, and what was there stays.
  std::ofstream(folder.file("m.qrm")) << "before";
  qrm::Metadata bad = sample.metadata;
  bad.graphs.clear();
  CHECK_EQ(sample.writer.write_file(folder.file("m.qrm"), bad).message(), "container: found no graph");
  CHECK_EQ(fs::file_size(folder.file("m.qrm")), 6u);
  // A whole one takes its place; who has the old one open keeps it.
  Result<RawFile> old = RawFile::open_path(folder.file("m.qrm"));
  CHECK_OK(sample.writer.write_file(folder.file("m.qrm"), sample.metadata));
  CHECK_OK(open_path(folder.file("m.qrm")));
  REQUIRE_OK(old);
  CHECK(std::memcmp(old->bytes().data, "before", 6) == 0);
  CHECK_EQ(folder.count(), 1u);
}

TEST_CASE("equal segments are stored once") {
  Writer writer;
  Vector<std::uint8_t> a(10000, 5), b(10000, 5), zeros(10000, 0);
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "a", {a.data(), a.size()}, 64), 0u);
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "b", {b.data(), b.size()}, 16384), 0u);
  CHECK_EQ(*writer.add_segment(SegmentKind::Blob, "c", {b.data(), b.size()}), 1u);  // of another kind
  // Equal contents in other parts, with zeros written or left out.
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "zeros", {zeros.data(), zeros.size()}), 2u);
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "hole", nullptr, 0, zeros.size()), 2u);
  const Writer::Part parts[] = {{0, {a.data(), 4000}}, {4000, {a.data(), 0}}, {4000, {a.data(), 6000}}};
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "parts", parts, 3, 10000), 0u);
  const Writer::Part gap[] = {{0, {a.data(), 4000}}, {4001, {a.data(), 5999}}};
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "gap", gap, 2, 10000), 3u);
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "short", {zeros.data(), 9999}), 4u);
  CHECK_EQ(*writer.add_segment(SegmentKind::Weights, "empty", {nullptr, 0}), 5u);
  const Writer::Part overlap[] = {{0, {a.data(), 4000}}, {3999, {a.data(), 1}}}, outside[] = {{9999, {a.data(), 2}}};
  CHECK_EQ(writer.add_segment(SegmentKind::Weights, "overlap", overlap, 2, 10000).status().id(), "QR-C0007");
  CHECK_EQ(writer.add_segment(SegmentKind::Weights, "outside", outside, 1, 10000).status().id(), "QR-C0007");
  for (const std::uint32_t align : {0u, 32u, 65u, 96u, 131072u})
    CHECK_EQ(writer.add_segment(SegmentKind::Weights, "align", {a.data(), 4}, align).status().id(), "QR-C0007");
  CHECK_EQ(writer.add_segment(SegmentKind::Unknown, "kind", {a.data(), 4}).status().id(), "QR-C0007");

  qrm::Metadata metadata;
  metadata.graphs.emplace_back();
  Result<Vector<std::uint8_t>> bytes = writer.write_memory(metadata);
  REQUIRE_OK(bytes);
  Result<ValidatedModel> model = open_memory({bytes->data(), bytes->size()});
  REQUIRE_OK(model);
  CHECK_OK(model->verify());
  CHECK_EQ(model->segments()[0].align, 16384u);  // the most that one of them asked for
  CHECK_EQ(model->segments()[0].offset, 16384u);
  const auto *gapped = static_cast<const std::uint8_t *>(model->segment(3).value().data);
  CHECK((gapped[3999] == 5 && gapped[4000] == 0 && gapped[4001] == 5));
  CHECK_EQ(model->segments()[5].size, 0u);
}

TEST_CASE("alignment follows the target") {
  CHECK_EQ(Writer::mapping_align("aarch64-linux"), 16384u);
  CHECK_EQ(Writer::mapping_align("x86_64-linux"), 4096u);
  CHECK_EQ(Writer::mapping_align(""), 4096u);
  const SampleContainer sample(16384);
  const Vector<std::uint8_t> bytes = sample.bytes();
  Result<ValidatedModel> model = open_memory({bytes.data(), bytes.size()});
  REQUIRE_OK(model);
  CHECK_EQ(model->segments()[0].offset % 16384, 0u);
}

TEST_CASE("sums are checked when asked for") {
  CHECK(qrm::sum_check_from_name("program") == SumCheck::Program);
  CHECK((qrm::sum_check_from_name("lazy") == SumCheck::Lazy && qrm::sum_check_from_name("eager") == SumCheck::Eager &&
         qrm::sum_check_from_name("off") == SumCheck::Off && !qrm::sum_check_from_name("later")));
  const SampleContainer sample;
  const Vector<std::uint8_t> good = sample.bytes();
  AlignedBytes bytes(good.data(), good.size());
  const std::uint64_t offset = open_memory(bytes.bytes())->segments()[2].offset;
  bytes.data()[offset + 5] ^= 1;
  const std::string message =
      "QR-M0003 segment 2 'packed' (weights, 12 bytes at " + std::to_string(offset) + "): found sum ";
  CHECK(error_of(open_memory(bytes.bytes(), SumCheck::Eager)).find(message) == 0);
  Result<ValidatedModel> lazy = open_memory(bytes.bytes(), SumCheck::Lazy),
                         off = open_memory(bytes.bytes(), SumCheck::Off);
  REQUIRE_OK(lazy);
  REQUIRE_OK(off);
  CHECK_OK(lazy->segment(0));
  CHECK(error_of(lazy->segment(2)).find(message) == 0);
  CHECK(error_of(lazy->segments({0, 2})).find(message) == 0);
  CHECK_OK(off->segment(2));
  // Weights that a program maps are not read; asked for otherwise, or named by verify(), they are.
  Result<ValidatedModel> program = open_memory(bytes.bytes(), SumCheck::Program);
  REQUIRE_OK(program);
  CHECK(error_of(lazy->mapped_segments({2})).find(message) == 0);
  CHECK_OK(program->mapped_segments({0, 2}));
  CHECK(error_of(program->mapped_segments({0, 99})).find("QR-") == 0);
  CHECK(error_of(program->segment(2)).find(message) == 0);
  CHECK_EQ(program->verify().id(), "QR-M0003");
  CHECK_EQ(lazy->verify().id(), "QR-M0003");
  CHECK_EQ(off->verify().id(), "QR-M0003");
}

TEST_CASE("several networks: one is chosen by its name, and held to the rules of a container") {
  SampleContainer sample;
  qrm::Metadata whole, without_graphs = sample.metadata, beside = sample.metadata;
  whole.producer = "quarry test";
  without_graphs.graphs.clear(), without_graphs.contexts.clear();
  beside.contexts[0].programs[1].graphs = {qrm::kOtherNetwork, 1, qrm::kOtherNetwork};
  qrm::Metadata strangers = beside, far = sample.metadata;
  strangers.contexts[0].programs[1].graphs = {qrm::kOtherNetwork};
  far.contexts[0].programs[0].blob_segment = 1000;
  std::vector<Vector<std::uint8_t>> kept;  // the writer borrows them
  const auto add = [&](std::string_view name, Vector<std::uint8_t> bytes) {
    kept.push_back(std::move(bytes));
    REQUIRE_OK(sample.writer.add_segment(SegmentKind::Network, name, {kept.back().data(), kept.back().size()}, 64));
  };
  for (const auto &[name, metadata] : {std::pair("sample", &sample.metadata),
                                       {"none", &without_graphs},
                                       {"beside", &beside},
                                       {"strangers", &strangers},
                                       {"far", &far}}) {
    auto bytes = qrm::write_metadata(*metadata, {});
    REQUIRE_OK(bytes);
    add(name, std::move(*bytes));
  }
  add("noise", Vector<std::uint8_t>(100, 7));
  auto bytes = sample.writer.write_memory(whole);
  REQUIRE_OK(bytes);
  CHECK_EQ(qrm_features(*bytes), qrm::kFeatureNetworks);
  const auto open = [&](std::string_view network) -> Result<ValidatedModel> {
    QR_ASSIGN_OR_RETURN(RawFile file, RawFile::from_memory(bytes->data(), bytes->size()));
    return ValidatedModel::open(std::move(file), SumCheck::Lazy, network);
  };
  auto sound = open("sample");
  REQUIRE_OK(sound);
  CHECK((sound->metadata().inputs[0].name == "image" && sound->metadata().contexts[0].programs.size() == 2));
  CHECK_OK(sound->segment(3));
  auto other = open("beside");
  REQUIRE_OK(other);
  CHECK(other->metadata().contexts[0].programs[1].graphs[0] == qrm::kOtherNetwork);
  auto all = open(qrm::kWholeFile);
  REQUIRE_OK(all);
  CHECK(all->metadata().graphs.empty());
  CHECK_EQ(all->verify().id(), "QR-M0006");  // of the networks that are none
  CHECK(error_of(open("")).find("QR-C0102 option model: found \"\", expected one of the networks: sample none") == 0);
  CHECK(error_of(open("samples")).find("QR-C0102") == 0);
  CHECK(error_of(open("none")).find("QR-M0006 network: found no graph") == 0);
  CHECK(error_of(open("strangers")).find("found no graph in program 1") != std::string::npos);
  CHECK(error_of(open("far")).find("found segment number 1000") != std::string::npos);
  CHECK(error_of(open("noise")).find("QR-M0006") == 0);
}

TEST_CASE("sums in pieces are those of the whole") {
  Vector<std::uint8_t> data(5000);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::uint8_t>(i * 31 >> 3);
  for (const std::size_t piece : {1u, 7u, 64u, 255u, 1024u, 5000u}) {
    Hasher64 hasher;
    for (std::size_t at = 0; at < data.size(); at += piece)
      hasher.add(data.data() + at, std::min(piece, data.size() - at));
    CHECK_EQ(hasher.sum(), hash64(data.data(), data.size()));
  }
  CHECK_EQ(hash64(nullptr, 0), 0x2d06800538d394c2u);  // the value that xxHash's own documentation gives for nothing
}

}  // namespace
}  // namespace quarry
