// SPDX-License-Identifier: Apache-2.0
// The blob: what stands around a context binary of the library, which is segment 0 (of a blob of parts a segment each).
// The library has no sum over its binaries and crashes on damaged ones, or computes nonsense; so nothing of a binary
// reaches it before its hash was found right here.
#pragma once

#include <span>

#include "backends/htp/program/draft.h"
#include "backends/htp/qnn/abi.h"

namespace quarry::htp {

inline constexpr std::uint32_t kBlobVersion = 8;

// Where the value of an input or output is.
enum class BlobStorage : std::uint32_t {
  Device,    // the library takes or gives it
  Unused,    // an input that nobody reads
  Constant,  // an output that is always the same
  Staged,    // of a graph of stages, or with a dynamic region: theirs say the rest
};
// An input or output: the session's side, and the library's.
struct BlobTensor {
  String name;
  DType dtype = DType::Unknown;
  qir::Shape shape;
  BlobStorage storage = BlobStorage::Device;
  Vector<std::uint8_t> constant;  // its bytes
  std::uint32_t id = 0;           // the library's
  qnn::DataType device_dtype = qnn::DataType::Undef;
  Vector<std::uint32_t> device_dims;
  // Where the host converts between f32 and the device's integers; 0: nobody does.
  float scale = 0;
  std::int32_t zero_point = 0;
  // 64-bit integers that the device computes with in 32 bits: the last of those stands for all that is further out.
  bool may_saturate = false;
  // What the binary says of it, for who reads and does not run: its name there, and the numbers of a quantised one.
  String device_name;
  float device_scale = 0;
  std::int32_t device_zero_point = 0;
};
// Whether it is 64-bit integers that the device has as pairs of i32.
bool is_pairs(const BlobTensor &tensor) noexcept;

// By what a node of the model runs: QR_PLUGIN_PATH_*, and words.
struct BlobNode {
  std::uint32_t path = 0;
  String text;
  String name;  // the model's
};
// A graph of one of the blob's parts, as a step of a graph that runs several. Values are counted: the session's inputs,
// then its outputs, then what stages hand to each other.
struct BlobStage {
  std::uint32_t part = 0, graph = 0;
  Vector<std::uint32_t> inputs, outputs;  // one for each of the part's graph
};
// The part of a model behind the first data-dependent shape (backends/dynamic); the host runs it.
struct BlobRegion {
  static constexpr std::uint32_t kNone = UINT32_MAX;
  Vector<std::uint8_t> qir;               // empty: there is none
  Vector<std::uint8_t> constants;         // of the graph
  Vector<std::int32_t> sources;           // per node, of the model's
  std::uint32_t part = kNone, graph = 0;  // what is before it; kNone: nothing is
  Vector<std::uint32_t> first_inputs;     // per input of that: which of the session's
  Vector<std::uint32_t> first_outputs;    // per output of it likewise, or kNone: the dynamic region's alone
  Vector<std::uint32_t>
      reads;  // per input of the dynamic region: which of the session's, or behind those: which output of the first
  Vector<std::uint32_t> writes;  // per output of the dynamic region: which of the session's
};
struct BlobGraph {
  String name;            // as the library knows it
  bool on_device = true;  // else nothing is computed: its outputs are constants
  Vector<BlobTensor> inputs, outputs;
  Vector<BlobNode> nodes;
  std::uint32_t layout_copies = 0;
  // As the binary says; 0: nothing.
  std::uint64_t spill_bytes = 0, vtcm_bytes = 0, hvx_threads = 0;
  std::uint32_t optimization = 0;
  // A run may have several batches of `rows`, up to `most` rows: so many times the first axis of every input and
  // output. 0: it has the one.
  std::uint64_t rows = 0, most = 0;
  Vector<BlobStage> stages;  // nothing else of it is on the device then; in the order in which they run
  BlobRegion region;
};
struct Blob {
  std::uint32_t soc = 0, arch = 0;
  qnn::ApiVersion version = {};
  String build_id;
  std::uint64_t binary_bytes = 0, binary_hash = 0;
  // Of graphs that share weights: how many bytes of these, and of the binaries that they had alone; 0: it is not known.
  std::uint64_t shared_bytes = 0, alone_bytes = 0;
  Vector<BlobGraph> graphs;
  String origin;       // of a binary that was not made here: who says what of it; empty: ours
  Vector<Blob> parts;  // contexts that the stages of graphs run; each has a binary, and this one has none then
};

Vector<std::uint8_t> write_blob(const Blob &blob);
// Checks everything; the bytes may come from anywhere.
Result<Blob> read_blob(std::span<const std::uint8_t> bytes);

}  // namespace quarry::htp
