// SPDX-License-Identifier: Apache-2.0
// QIR, the graph: what the importer makes, passes change, containers keep and backends compile.
//
// Semantics are ONNX's at one normal opset (kNormalOpset); ops.inc is the table of operators. Parameters that ONNX made
// inputs (axes of Squeeze, min of Clip) are inputs here. Quantisation is part of a tensor's type: an operator with
// quantised tensors means dequantise -> the operator in real numbers -> quantise (round half to even, saturate), and a
// quantised Conv, ConvTranspose or Gemm takes a bias of i32 without a quantisation of its own in units of scale(x) *
// scale(w) (quantization.h has all such rules). QuantizeLinear's output and
// DequantizeLinear's first input are the exception: they are always the stored integers, whether the tensor's type is
// quantised or not (they stand where a quantised part meets a float part).
//
// Subgraphs are closed: what a body uses of its surroundings is passed in.
//   If:   node.inputs = [condition, captures...]; both subgraphs (0 then, 1 else) take exactly the captures.
//   Loop: node.inputs = [M, condition, carried..., captures...]; attribute "carried" is the number of carried values;
//         subgraph 0 takes [iteration, condition, carried..., captures...] and gives [condition, carried...,
//         scanned...].
//   Scan: node.inputs = [states..., scanned..., captures...]; attributes "num_scan_inputs" and "states";
//         subgraph 0 takes [states..., slices..., captures...] and gives [states..., slices...].
//
// An operator that is not in the table (a custom operator, of a domain that is not ONNX's) is a node with Op::Custom
// and Node::custom, which names it. What it computes only a backend with a package for it knows; the types of its
// outputs are those that the graph states, with attributes of any kind.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/status.h"

namespace quarry::qir {

inline constexpr std::int64_t kNormalOpset = 28;
inline constexpr std::int64_t kUnknownDim = -1;  // a dimension known only at run time
inline constexpr std::size_t kMaxRank = 8;
inline constexpr std::int64_t kMaxExtent = std::int64_t{1} << 40;  // of a symbolic dimension: as many bytes as a tensor

enum class Op : std::uint16_t {
#define QR_OP(name, ...) name,
#include "graph/ops/ops.inc"
#undef QR_OP
};

using Shape = Vector<std::int64_t>;

// real = (stored - zero_point) * scale. One entry: per tensor. Per channel: one entry per index of `axis`. Blocked:
// `block_size` > 0, the entries are laid out like the tensor with `axis` divided by block_size (rounded up).
struct Quantization {
  Vector<float> scales;
  Vector<std::int32_t> zero_points;  // as many as scales
  std::int32_t axis = 0;             // of no meaning per tensor
  std::int64_t block_size = 0;
  bool per_tensor() const noexcept { return scales.size() == 1 && block_size == 0; }
  friend bool operator==(const Quantization &, const Quantization &) = default;
};

struct Bytes {
  const void *data = nullptr;
  std::uint64_t size = 0;
};

struct Tensor {
  String name;  // unique in its graph; never empty
  DType dtype = DType::Unknown;
  Shape shape;
  std::optional<Quantization> quant;
  bool is_constant = false;
  Bytes data;  // of a constant: packed, row-major; owned by someone else, who outlives the graph
};

struct Attribute {
  enum class Kind : std::uint8_t { Int, Float, String, Ints, Floats, Strings, Tensor, Tensors };
  String name;
  Kind kind = Kind::Int;
  std::int64_t i = 0;
  float f = 0;
  String s;
  Vector<std::int64_t> ints;
  Vector<float> floats;
  Vector<String> strings;
  Vector<qir::Tensor> tensors;  // constants; one of kind Tensor. Custom operators alone have them

  Attribute() = default;
  Attribute(const Attribute &) = default;
  Attribute(Attribute &&) = default;
  Attribute &operator=(Attribute &&) = default;
  Attribute &operator=(const Attribute &from) { return *this = Attribute(from); }  // (as Graph's)
};

// Which custom operator it is.
struct CustomOp {
  String domain;             // neither empty nor "ai.onnx"
  String type;               // the operator's name in its domain
  std::int64_t version = 1;  // of the domain, as the model imports it
};

struct Graph;

inline constexpr std::int32_t kAbsent = -1;  // an optional input or output that is not there
inline constexpr std::int32_t kNoSource = -1;

// The tensors that a node reads, or makes: indices into Graph::tensors, or kAbsent. By number they have no end: what
// lies behind the last is absent. So who looks at an operand of a node whose operator nobody has checked (the maker of
// a tensor may be any) reads nothing that is not there.
class Operands : public Vector<std::int32_t> {
 public:
  using Vector<std::int32_t>::Vector;
  Operands() = default;
  Operands(Vector<std::int32_t> ids) noexcept : Vector<std::int32_t>(std::move(ids)) {}
  std::int32_t operator[](std::size_t i) const noexcept { return i < size() ? data()[i] : kAbsent; }
  void set(std::size_t i, std::int32_t id) {
    if (i >= size()) resize(i + 1, kAbsent);
    data()[i] = id;
  }
};

struct Node {
  Op op{};
  String name;  // the ONNX name, or one made for it; never empty
  Operands inputs;
  Operands outputs;
  Vector<Attribute> attributes;  // every attribute of the op's row that has no default is there
  Vector<Graph> subgraphs;
  std::shared_ptr<const CustomOp> custom;  // of Op::Custom alone; nodes of one operator may share it
  // For passes, not stored: the node of the graph that somebody handed in which this one is, or was made from; an index
  // (number_sources), or kNoSource.
  std::int32_t source = kNoSource;

  const Attribute *find(std::string_view attribute) const noexcept;
  std::int64_t get_int(std::string_view attribute, std::int64_t fallback) const noexcept;
  // One that says how many, which the rules of its operator checked; 0 where it is not there.
  std::size_t get_count(std::string_view attribute) const noexcept {
    return static_cast<std::size_t>(get_int(attribute, 0));
  }
  float get_float(std::string_view attribute, float fallback) const noexcept;
  std::string_view get_string(std::string_view attribute, std::string_view fallback) const noexcept;
  const Vector<std::int64_t> *get_ints(std::string_view attribute) const noexcept;  // nullptr: not there
  const Vector<float> *get_floats(std::string_view attribute) const noexcept;
  const Vector<String> *get_strings(std::string_view attribute) const noexcept;
  void set(std::string_view attribute, std::int64_t value);
  void set(std::string_view attribute, float value);
  void set(std::string_view attribute, std::string_view value);
  void set(std::string_view attribute, Vector<std::int64_t> value);
  void set(std::string_view attribute, Vector<float> value);
  void set(std::string_view attribute, Vector<String> value);
};

// A symbolic dimension of the inputs, which each run gives a number to. An unknown dimension of an input that is none
// may be any.
struct Dimension {
  struct Place {
    std::uint32_t input = 0, axis = 0;  // the input's number in Graph::inputs
    friend bool operator==(const Place &, const Place &) = default;
  };
  struct Term {
    std::uint32_t dimension = 0;  // one that stands before this one
    std::int64_t factor = 1;
    friend bool operator==(const Term &, const Term &) = default;
  };
  String name;
  std::int64_t low = 0, high = kMaxExtent;
  Vector<Place> places;
  Vector<Term> terms;      // not empty: it is their sum, and `added`
  std::int64_t added = 0;  // of no meaning without terms
};

struct Graph {
  String name;
  Vector<Tensor> tensors;
  Vector<Node> nodes;  // in an order in which they can run
  Vector<std::int32_t> inputs;
  Vector<std::int32_t> outputs;
  Vector<Dimension> dimensions;  // of a graph that is no subgraph

  Graph() = default;
  Graph(const Graph &) = default;
  Graph(Graph &&) = default;
  Graph &operator=(Graph &&) = default;
  // (The lists' own assignments would be a lot of code.)
  Graph &operator=(const Graph &from) { return *this = Graph(from); }
};

String range_text(const Dimension &dimension);  // "1..512", or "1 or more"

// The tensor of that index. Where there is none: one without a name, a type or data, which nobody may write to.
Tensor &at(Graph &graph, std::int32_t id) noexcept;
const Tensor &at(const Graph &graph, std::int32_t id) noexcept;

// ---- the op table -------------------------------------------------------------------------------

enum class AttrNeed : std::uint8_t { Required, Optional };

// What a rule gets to know of an input: its type and, where it is constant (or the caller runs the node), its value.
struct InferValue {
  bool present = false;
  DType dtype = DType::Unknown;
  Shape shape;  // kUnknownDim possible
  const std::optional<Quantization> *quant = nullptr;
  Bytes value;  // data == nullptr: not known
};
struct InferType {
  DType dtype = DType::Unknown;
  Shape shape;
};
using ShapeRule = Status (*)(const Node &node, const Vector<InferValue> &inputs, Vector<InferType> &outputs);

// The folder or file of an operator on every floor: path = layer + family (kernels/reference/<family>, ...).
enum class OpFamily : std::uint8_t {
  Contraction,
  Convolution,
  Elementwise,
  Reduction,
  Normalization,
  Movement,
  Indexing,
  Pooling,
  Resize,
  Quantization,
  Recurrent,
  Attention,
  Random,
  Signal,
  Control,
  Custom,
};

// How the values of the results come from those of the data inputs.
enum class OpValue : std::uint8_t {
  Computes,  // none of the following
  Function,  // each from the same element of input 0 alone, real to real; further inputs and attributes are parameters
  Monotone,  // results are elements of input 0, chosen by their order: a larger stored integer is a larger real number
  Moves,     // results are elements of the data inputs, whatever these mean; attributes may forbid it (moves_values)
};

// What else is true of an operator.
enum class OpTraits : std::uint8_t {
  None = 0,
  Promised = 1,   // of the conformance cases that use promised operators alone, 95 % must pass (tests/conformance)
  Gemm = 2,       // matrix multiplications, convolutions among them: where the time of a network goes
  Bias = 4,       // input 2 is a bias, added to the products of inputs 0 and 1
  Quantized = 8,  // has a reference result on quantised tensors, although its value does not say so
  Keeps = 16,     // gives input 0 unchanged if the output has its type and the operator has no second data input
};
constexpr OpTraits operator|(OpTraits a, OpTraits b) noexcept {
  return static_cast<OpTraits>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

struct OpRow {
  Op op;
  OpFamily family;
  OpValue value;
  std::uint8_t opset;  // the lowest ONNX opset that has the operator as the row says; 21: that, or an older one
  OpTraits traits;
  const char *name;                     // ONNX's
  const char *domain;                   // "", "com.microsoft", "ai.onnx.ml", "quarry" (ours)
  std::int16_t min_inputs, max_inputs;  // max -1: any number
  std::int16_t min_outputs, max_outputs;
  // "axis:int=0; axes:ints?; mode:string=constant{constant,reflect,edge,wrap}; alpha:float": `?` optional, no default;
  // `=` default; neither: required. Kinds: int float string ints floats strings.
  const char *attributes;
  // Constraint of inputs and outputs, ONNX style: "T,T->T; T=f16,bf16,f32,f64" (see docs/formats/qir.md). Checked for
  // unquantised tensors.
  const char *types;

  constexpr bool has(OpTraits trait) const noexcept { return (traits | trait) == traits; }
};

const OpRow &op_row(Op op) noexcept;
std::size_t op_count() noexcept;
const OpRow *find_op(std::string_view domain, std::string_view name) noexcept;  // "ai.onnx" is ""
std::size_t subgraph_count(Op op) noexcept;                                     // of its nodes: If 2, Loop and Scan 1
inline const char *op_name(Op op) noexcept { return op_row(op).name; }
// The operator of a node, for messages and listings: "Conv", or "my.domain::MyOp" of a custom one.
String op_text(const Node &node);

// Types and shapes of a node's outputs. Checks arity, attributes and types against the row first. The dtype that a rule
// gives for an output of a node with quantised tensors is that of the real value (f32); callers keep the tensor's own
// dtype and quantisation. A custom operator has no rule: `outputs` comes with the types that the graph states
// (stated_types).
Status infer_node(const Node &node, const Vector<InferValue> &inputs, Vector<InferType> &outputs);

// Infers every node of a graph (and subgraphs) in order, writing dtype and shape of the tensors that nodes make. `all`
// collects one frame per node that fails instead of stopping at the first.
Status infer_graph(Graph &graph);

// Checks the whole graph: indices, names, order, arity, attributes, types, constant sizes, subgraph signatures, limits
// of limits.h.
Status validate_graph(const Graph &graph);
// Checks one tensor: type, shape, constant data, quantisation.
Status validate_tensor(const Tensor &tensor);

// ---- bytes --------------------------------------------------------------------------------------

// Collects constants into one pool; equal contents are stored once. Offsets are 64-byte aligned.
class ConstantPool : public HeapObject {
 public:
  ConstantPool();
  ~ConstantPool();
  // Adds contents (borrowed: must live until the pool's bytes are no longer needed) and returns their offset.
  std::uint64_t add(Bytes contents);
  std::uint64_t size() const noexcept;
  // The pool's parts in order of offset, for writing without a copy; gaps are zero.
  struct Part {
    std::uint64_t offset;
    Bytes contents;
  };
  const Vector<Part> &parts() const noexcept;
  // The whole pool, as one block of `size()` bytes.
  void write_to(void *destination) const;

 private:
  struct State;
  Unique<State> state_;
};

// Graph -> verified-flatbuffer bytes (schema qir.fbs). Constants go to the pool, which becomes segment `pool_segment`.
Result<Vector<std::uint8_t>> write_graph(const Graph &graph, ConstantPool &pool, std::uint32_t pool_segment = 0);
// The same, but that constants which lie in one of `kept`, as a reader wants them, stay there: segments 0 and on.
Result<Vector<std::uint8_t>> write_graph(const Graph &graph, ConstantPool &pool, std::uint32_t pool_segment,
                                         std::span<const Bytes> kept);

// Bytes -> graph. Everything is checked (verifier, limits, validate_graph); constants point into `segments`, which must
// outlive the graph. (Who does not run it reads its outline: io/outline.h.)
Result<Graph> read_graph(Bytes qir, const Bytes *segments, std::uint64_t segment_count);

// A readable listing, one node a line; for `quarry inspect` and test messages.
String print_graph(const Graph &graph);

}  // namespace quarry::qir
