// SPDX-License-Identifier: Apache-2.0
// The .qrm container: [prologue, 64 bytes][metadata, a FlatBuffer][segments]. docs/formats/qrm.md is the specification.
//
// Reading goes through three types, each made from the one before, so that nothing unchecked can be planned:
//   RawFile         bytes: mapped, copied or the caller's
//   VerifiedFile    prologue, sums of prologue and metadata, and the FlatBuffers verifier have passed
//   ValidatedModel  every index, range, limit and layout rule holds; what the runtime works with
// Only the sums of segments may be put off (SumCheck), because they cost a read of the whole file.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/file_sink.h"
#include "base/open_fd.h"
#include "base/status.h"
#include "graph/io/outline.h"

namespace quarry::qrm {

using qir::Bytes;

// Of the format, not of the release. A newer minor may be read; a newer major is refused.
inline constexpr std::uint16_t kFormatMajor = 1;
inline constexpr std::uint16_t kFormatMinor = 1;

enum class SegmentKind : std::uint8_t {
  Unknown = 0,  // a kind that a newer minor brought: kept, never used
  Weights = 1,  // constants of graphs, or what a backend packed from them
  Graph = 2,    // QIR
  Blob = 3,     // a backend's compiled context
  Network = 4,  // the metadata of one of several networks, by its name
};
const char *segment_kind_name(SegmentKind kind) noexcept;

// When the sum of a segment is checked. The option "verify" takes these names.
enum class SumCheck : std::uint8_t {
  Program,  // when it is first asked for, but weights that are mapped for a compiled program are not read for it (the
            // option's default)
  Lazy,     // when it is first asked for: nothing damaged is ever used, nothing unused is read
  Eager,    // all of them when the file is opened
  Off,      // by verify() alone
};
std::optional<SumCheck> sum_check_from_name(std::string_view name) noexcept;

// ---- what a container says of itself: the same structs are filled for the writer and given by the reader ----

struct KeyValue {
  String key, value;
};

// An input or output of the model.
struct TensorInfo {
  String name;
  DType dtype = DType::Unknown;
  qir::Shape dims;  // qir::kUnknownDim: differs between buckets, or known only after the run
  // Empty, or one per dimension ("" where it has none): the ONNX names of symbolic dimensions.
  Vector<String> dim_names;
  std::optional<qir::Quantization> quant;
};

// One graph of the model. A model without symbolic dimensions has one, named ""; shape buckets have one each.
struct GraphInfo {
  String name;                               // the bucket's --shape text
  Vector<qir::Shape> input_dims;             // of this bucket, in the order of Metadata::inputs; all known
  Vector<qir::Shape> output_dims;            // qir::kUnknownDim: known only after the run
  std::optional<std::uint32_t> qir_segment;  // the portable graph, where it was kept
  Vector<std::uint32_t> segments;  // what its constants point into: number n of the QIR is segments[n] of the container
};

struct Plan {
  std::uint64_t weights_bytes = 0, arena_bytes = 0, io_bytes = 0, device_bytes = 0, scratchpad_bytes = 0,
                spill_fill_bytes = 0;
};

inline constexpr std::uint32_t kOtherNetwork = UINT32_MAX;

// Graphs compiled by a backend into one blob: one load, and the graphs share what they have in common.
struct Program {
  // Indices into Metadata::graphs, at least one: graphs[k] is graph k of the blob; kOtherNetwork: it is another's.
  Vector<std::uint32_t> graphs;
  std::uint32_t blob_segment = 0;
  Vector<std::uint32_t> segments;  // number n of the blob is segments[n] of the container
  String key;                      // compatibility key that only the backend understands
  Plan plan;
};

// The model compiled by one backend for one target.
struct ContextInfo {
  String backend;  // "cpu-reference"
  String backend_version;
  String target;  // what it was compiled for, "x86_64-linux"
  std::uint32_t blob_version = 0;
  Vector<KeyValue> options;  // of the compilation
  Vector<Program> programs;  // each graph of Metadata::graphs in one of them; in the order of their first graphs
};

// In the order of the file. The writer works offset and sum out.
struct SegmentInfo {
  SegmentKind kind = SegmentKind::Unknown;
  String name;
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint32_t align = 0;
  std::uint64_t sum = 0;  // XXH3-64
};

struct Metadata {
  String producer;              // "quarry 0.1.0"
  String source;                // producer of the ONNX model it was made from, as that says it
  Vector<KeyValue> created_by;  // the options of the compilation, as given
  Vector<TensorInfo> inputs, outputs;
  Vector<GraphInfo> graphs;
  Vector<ContextInfo> contexts;
  Vector<KeyValue> user;  // "metadata.<key>" options and ONNX's metadata_props
};

// ---- reading ------------------------------------------------------------------------------------

// Where a segment lies in its file, for who maps it elsewhere: into a device or another process.
struct SegmentFile {
  int fd = -1;               // borrows: open as long as the model is; -1: the bytes lie in memory alone
  std::uint64_t offset = 0;  // from the beginning of the file that fd is of; 0 without one
  std::uint64_t size = 0;
  std::uint64_t sum = 0;  // XXH3-64, as the container says it
};

// How the bytes of a file are had. The option "container.map" chooses.
enum class FileUse : std::uint8_t {
  // Mapped. A file that shrinks ends the process with SIGBUS, as for any mapping, and what is written over it shows at
  // once: replace files by renaming, as the Writer does.
  Map,
  Read,  // into memory: what happens to the file afterwards does not matter
};

// Bytes of a file. Serves .onnx files too.
class RawFile {
 public:
  // A whole regular file. `path` is UTF-8 (any bytes that the system takes). `folder`: that of the path, open; -1: it
  // is not.
  static Result<RawFile> open_path(std::string_view path, FileUse use = FileUse::Map, int folder = -1);
  // [offset, offset + size) of a file; size 0: to its end. The caller may close the descriptor afterwards. An offset
  // that is no multiple of 64 (a file inside an archive) cannot be mapped and is read.
  static Result<RawFile> open_fd(int fd, std::uint64_t offset, std::uint64_t size, FileUse use = FileUse::Map);
  // `read` gives the bytes piece by piece, in order.
  template <class Read>
  static Result<RawFile> from_reader(std::uint64_t size, Read &&read) {
    constexpr std::uint64_t kPiece = 4 << 20;
    QR_ASSIGN_OR_RETURN(RawFile file, blank(size));
    for (std::uint64_t at = 0; at < size; at += kPiece)
      QR_RETURN_IF_ERROR(
          read(at, static_cast<char *>(file.base_) + at, size - at < kPiece ? size - at : std::uint64_t{kPiece}));
    return file;
  }
  // Borrows: the memory must outlive the file. Memory that is not aligned to 64 bytes is copied instead.
  static Result<RawFile> from_memory(const void *data, std::uint64_t size);

  RawFile(RawFile &&other) noexcept;
  RawFile &operator=(RawFile &&other) noexcept;
  ~RawFile();

  Bytes bytes() const noexcept { return bytes_; }
  // The file that is mapped, open as long as this object lives, and where in it bytes() begin; -1 and 0 where bytes()
  // are in memory alone.
  int fd() const noexcept { return fd_.get(); }
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  RawFile() = default;
  static Result<RawFile> load(OpenFd fd, std::string_view name, std::uint64_t offset, std::uint64_t size, FileUse use);
  Status read(int fd, std::string_view name, std::uint64_t offset, std::uint64_t size);
  static Result<RawFile> blank(std::uint64_t size);  // a block to be filled
  enum class Owner : std::uint8_t { Caller, Mapping, Block };
  Bytes bytes_;
  OpenFd fd_;
  std::uint64_t offset_ = 0;
  void *base_ = nullptr;  // of the mapping or block
  std::uint64_t base_size_ = 0;
  Owner owner_ = Owner::Caller;
};

// True when the bytes begin like a container, be it a damaged one: an error of VerifiedFile then says more than
// "unknown format".
bool looks_like_container(Bytes bytes) noexcept;

// The prologue and the metadata's bytes can be trusted to be what a writer wrote.
class VerifiedFile {
 public:
  static Result<VerifiedFile> verify(RawFile file);

  std::uint16_t major() const noexcept { return major_; }
  std::uint16_t minor() const noexcept { return minor_; }
  Bytes bytes() const noexcept { return file_.bytes(); }
  const RawFile &file() const noexcept { return file_; }
  Bytes metadata() const noexcept { return metadata_; }

 private:
  explicit VerifiedFile(RawFile file) : file_(std::move(file)) {}
  RawFile file_;
  Bytes metadata_;
  std::uint16_t major_ = 0, minor_ = 0;
};

inline constexpr std::string_view kWholeFile = "*";

// Immutable, and safe to use from several threads.
class ValidatedModel : public HeapObject {
 public:
  static Result<ValidatedModel> validate(VerifiedFile file, SumCheck sums = SumCheck::Lazy);
  // The three steps at once. `network`: which of several networks; kWholeFile: none, and nothing of it can be run.
  static Result<ValidatedModel> open(RawFile file, SumCheck sums = SumCheck::Lazy, std::string_view network = {});

  const Metadata &metadata() const noexcept { return metadata_; }
  const Vector<SegmentInfo> &segments() const noexcept { return segments_; }
  std::uint16_t format_major() const noexcept { return file_.major(); }
  std::uint16_t format_minor() const noexcept { return file_.minor(); }
  std::uint64_t file_bytes() const noexcept { return file_.bytes().size; }
  Bytes bytes() const noexcept { return file_.bytes(); }
  int fd() const noexcept { return file_.file().fd(); }  // as RawFile's
  std::uint64_t offset() const noexcept { return file_.file().offset(); }

  // The bytes of a segment (they live as long as the model), its sum checked as SumCheck says. `index` must be in
  // range, as every index in the metadata is.
  Result<Bytes> segment(std::uint32_t index) const;
  // The bytes of several, in the order given.
  Result<Vector<Bytes>> segments(const Vector<std::uint32_t> &indices) const;
  // The same for weights that a program maps and reads when it runs.
  Result<Vector<Bytes>> mapped_segments(const Vector<std::uint32_t> &indices) const;

  // Where the bytes of a segment lie in the file. Says nothing of whether they are sound: the calls above do. `index`
  // must be in range, as every index in the metadata is.
  SegmentFile segment_file(std::uint32_t index) const noexcept;

  // The kept graph `index`, checked against the signature; its rules are for who runs it. QR-M0010 where it was not
  // kept. Names point into the file.
  Result<qir::Outline> outline(std::uint32_t index) const;
  const ContextInfo *find_context(std::string_view backend) const noexcept;  // nullptr: none for that backend

  // Reads every byte: all sums, and the outline of every kept graph. Also in parts, for who may be stopped in between.
  Status verify() const;
  std::uint32_t part_count() const noexcept {
    return static_cast<std::uint32_t>(segments_.size() + metadata_.graphs.size());
  }
  Status verify(std::uint32_t part) const;

 private:
  explicit ValidatedModel(VerifiedFile file) : file_(std::move(file)) {}
  Status check_sum(std::uint32_t index) const;
  Status choose(std::string_view network);

  VerifiedFile file_;
  Metadata metadata_;
  Vector<SegmentInfo> segments_;
  mutable Vector<std::atomic<bool>> sum_checked_;
  SumCheck sums_ = SumCheck::Lazy;
};

// ---- writing ------------------------------------------------------------------------------------

// Collects segments and writes a container. Contents are borrowed until the container is written and never copied as a
// whole, so it may be larger than memory. The same calls in the same order give the same bytes.
class Writer {
 public:
  struct Part {
    std::uint64_t offset;  // in the segment; what lies between parts is zero
    Bytes contents;
  };
  static constexpr std::uint32_t kPageAlign = 4096;
  static constexpr std::uint32_t kLargePageAlign = 16384;  // of systems with 16 KiB pages (some aarch64)
  // The alignment of segments that are to be mapped on `target` ("aarch64-linux").
  static std::uint32_t mapping_align(std::string_view target) noexcept;

  // Returns the segment's number for use in Metadata. Contents equal to those of an earlier segment are stored once:
  // its number is returned, and its alignment raised if need be. `align`: a power of two from 64 to 65536. `parts` in
  // order of offset.
  Result<std::uint32_t> add_segment(SegmentKind kind, std::string_view name, const Part *parts, std::size_t part_count,
                                    std::uint64_t size, std::uint32_t align = kPageAlign);
  Result<std::uint32_t> add_segment(SegmentKind kind, std::string_view name, Bytes contents,
                                    std::uint32_t align = kPageAlign);
  // A pool of constants.
  Result<std::uint32_t> add_segment(std::string_view name, const qir::ConstantPool &pool,
                                    std::uint32_t align = kPageAlign);

  // The file appears whole or not at all: it has no name, or one beside its place, until it is written and flushed to
  // disk. Who has an old file of that path open or mapped keeps it. Pages of zeros become holes.
  Status write_file(std::string_view path, const Metadata &metadata) const;
  Result<Vector<std::uint8_t>> write_memory(const Metadata &metadata) const;
  // As a file of this name.
  Status write(FileSink &sink, std::string_view name, const Metadata &metadata) const;

 private:
  struct Segment {
    SegmentInfo info;
    Vector<Part> parts;
  };
  struct Layout;
  Result<Layout> lay_out(const Metadata &metadata) const;

  Vector<Segment> segments_;
  HashMultimap<std::uint64_t, std::uint32_t> by_sum_;  // sums find candidates for equality; contents decide
};

}  // namespace quarry::qrm
