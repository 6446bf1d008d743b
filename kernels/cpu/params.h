// SPDX-License-Identifier: Apache-2.0
// Parameters of kernels: plain structs of 4- and 8-byte fields (2-byte ones where one was cut in two), stored in blobs
// as they are (little-endian, 8-byte aligned, no padding).
//
// Images are channels-last: an operand of n x h x w x c has c adjacent, and `*_stride` elements from one pixel to the
// next (>= c), so that a kernel can read from, or write to, a slice of the channels of a larger tensor. Rows and images
// follow without gaps: w * stride, h * w * stride. The operands of each kernel, and their order, stand in kernels.inc.
// Nothing here is believed when it comes from a file: the check function of each kernel says what shapes the
// parameters imply, and the plan compares them with what the operands have.
#pragma once

#include <cstdint>

namespace quarry::kernels {

// What happens to a value before it is stored.
enum class Act : std::uint32_t {
  None,
  Clip,         // min(max(x, a), b); Relu is a = 0, b = +inf. NaN stays NaN
  LeakyRelu,    // x < 0 ? a * x : x
  HardSigmoid,  // min(max(a * x + b, 0), 1)
  HardSwish,    // x * min(max(x / 6 + 0.5, 0), 1)
  Sigmoid,
  Silu,  // x * sigmoid(a * x)
  Tanh,
  Gelu,      // x / 2 * (1 + erf(x / sqrt(2)))
  GeluTanh,  // the approximation by tanh
  Elu,       // x < 0 ? a * (exp(x) - 1) : x
  Softplus,
  Mish,
  Erf,
  Exp,
  Log,
  Sqrt,
  Rsqrt,  // 1 / sqrt(x)
  Reciprocal,
  Abs,
  Neg,
  Floor,
  Ceil,
  Round,   // half to even
  Linear,  // a * x + b
  Square,
  Count
};
struct Activation {
  Act kind = Act::None;
  float a = 0, b = 0;
  std::uint32_t reserved = 0;
};
enum class Residual : std::uint32_t { None, BeforeAct, AfterAct, Count };

// A window over an image: convolution, pooling.
struct Window {
  std::int32_t n = 1, ih = 1, iw = 1, oh = 1, ow = 1;
  std::int32_t kh = 1, kw = 1, sh = 1, sw = 1, dh = 1, dw = 1;
  std::int32_t pad_top = 0, pad_left = 0;  // what lies beyond the far edges follows from oh, ow
};

// Split: numbers of f32 as sums of bf16, for tiles that multiply those (split_shape.h). Groups: several groups of a few
// channels in a vector (groups_possible()).
enum class ConvAlgorithm : std::uint32_t { Direct, Winograd4x4, Split, Winograd2x2, Groups, Count };
// As what packed weights lie in memory. Sums are of f32 all the same: a panel is widened before rows pass over it.
enum class WeightType : std::uint32_t { F32, F16, BF16, Count };
// As what other operands lie in memory: widened when they are read, rounded when they are written.
using NumberType = WeightType;
// A product of no more rows is bound by reading its weights: those of 16 bits are widened in registers.
inline constexpr int kFewRows = 3;

// y = act(conv(x, w) + bias [+ r]) or act(...) + r. A GEMM of m rows is n = ih = oh = 1, iw = ow = m, kh = kw = 1;
// x_stride its row stride. groups > 1: input and output channels fall into that many equal parts; weights are packed
// one group after the other.
struct ConvF32 {
  Window window;
  std::int32_t ic = 0, oc = 0, groups = 1;
  std::int32_t x_stride = 0, y_stride = 0, r_stride = 0;
  ConvAlgorithm algorithm = ConvAlgorithm::Direct;
  Residual residual = Residual::None;
  Activation act;
  std::uint32_t has_bias = 0;
  WeightType weights = WeightType::F32;  // of Direct
};

// One filter per channel; weights are packed.
struct DepthwiseF32 {
  Window window;
  std::int32_t c = 0;
  std::int32_t x_stride = 0, y_stride = 0, r_stride = 0;
  Residual residual = Residual::None;
  Activation act;
  std::uint32_t has_bias = 0;
};

// Weights that are known only in the run, packed as the step behind reads them: w[oc][ic / groups][kh][kw], `strides`
// elements apart, which may be negative; the operand begins with the element that lies first. Depthwise: for
// DepthwiseF32, ic = oc = groups = c. Else for ConvF32: Direct or Groups, weights of f32. lanes, panel: Isa::f32_lanes,
// f32_panel.
enum class PackKind : std::uint32_t { Conv, Depthwise, Count };
struct PackF32 {
  ConvF32 conv;
  PackKind kind = PackKind::Conv;
  std::uint32_t lanes = 0, panel = 0;
  std::int64_t strides[4] = {};
};

// 1x1 convolution, depthwise convolution, 1x1 convolution in turn (an inverted residual block), a few rows at a time,
// so that what lies between them stays near. The strides between the parts are those of dense pixels: expand.y_stride =
// depthwise.x_stride = expand.oc, and likewise behind it.
struct BlockF32 {
  ConvF32 expand;
  DepthwiseF32 depthwise;
  ConvF32 project;
};

inline constexpr int kBatchRank = 4;

// y[b, m, n] = act(alpha * sum_k a[b, m, k] * b[b, k, n] [+ bias[n]] [+ r[b, m, n]]). Neither side is packed
// beforehand; strides in elements, any (0 broadcasts) for a and b; y (and r, laid out as y) has adjacent columns.
struct MatMulF32 {
  std::int64_t batch[kBatchRank] = {1, 1, 1, 1};
  std::int64_t a_batch[kBatchRank] = {}, b_batch[kBatchRank] = {}, y_batch[kBatchRank] = {};
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1, y_row = 0;
  float alpha = 1;
  std::uint32_t has_bias = 0;
  Residual residual = Residual::None;
  std::uint32_t reserved = 0;
  Activation act;
};

// The same, without what may stand around it, of f64, i32, u32, i64 and u64; integers wrap around.
struct MatMulWide {
  std::int64_t batch[kBatchRank] = {1, 1, 1, 1};
  std::int64_t a_batch[kBatchRank] = {}, b_batch[kBatchRank] = {}, y_batch[kBatchRank] = {};
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1, y_row = 0;
  std::uint32_t dtype = 0, reserved = 0;
};
inline constexpr std::int64_t kWideDepth = 256;  // of a panel of b

// y[m, n] = sum_k (a[m, k] - b[n, k])^2, or its root; all rows are dense.
struct DistanceF32 {
  std::int64_t m = 0, n = 0, k = 0;
  std::uint32_t root = 0, reserved = 0;
};

// y[b, m, n] = sum_k (a[b, m, k] - zero of a) * (b[b, k, n] - zero of b) of bytes, as i32 that wrap around. Zero points
// are bytes of their matrix's type: none, one, or one for each row of a and for each column of b.
enum class ByteZeros : std::uint32_t { None, One, Each, Count };
struct MatMulInt {
  std::int64_t batch[kBatchRank] = {1, 1, 1, 1};
  std::int64_t a_batch[kBatchRank] = {}, b_batch[kBatchRank] = {}, y_batch[kBatchRank] = {};
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t a_row = 0, a_col = 1, b_row = 0, b_col = 1, y_row = 0;
  std::uint32_t a_dtype = 0, b_dtype = 0;  // u8 or i8, by the numbers of base/dtypes.inc
  ByteZeros a_zeros = ByteZeros::None, b_zeros = ByteZeros::None;
};

// y = softmax(scale * q k^T + mask) v for each batch and head; strides in elements: [batch, head, row]; columns are
// adjacent. mask: [batch, head, row, column] strides, any may be 0; present when has_mask.
// What keys and values of a cache lie in: reals, or rows of bytes b with an f32 s for each: (b - 128) s.
enum class KeptType : std::uint32_t { F32, F16, BF16, Rows, Count };
struct AttentionF32 {
  std::int64_t batches = 1, heads = 1, q_rows = 0, kv_rows = 0, qk_cols = 0, v_cols = 0;
  std::int64_t q[3] = {}, k[3] = {}, v[3] = {}, y[3] = {};
  std::int64_t mask[4] = {};
  // Row i stands at column first + i, and sees `left` columns before it and `right` behind it; -1: all there are.
  std::int64_t first = 0, left = -1, right = -1;
  float scale = 1;
  std::uint32_t group = 1;  // heads of q, one behind the other, that read one head of k and v
  std::uint32_t has_mask = 0;
  // An i64 of each batch entry: so many columns are there, the others are not read. The last row stands at the last.
  std::uint32_t has_valid = 0;
  std::uint32_t masked_nan = 0;   // a row that sees nothing gives: 0: zeros, as ONNX's Attention; 1: NaN, as Softmax
  KeptType kept = KeptType::F32;  // of k and v; of Rows the numbers of k's rows and of v's are operands in front of y
  std::int64_t k_scales[3] = {}, v_scales[3] = {};
};

// y[m, n] = sum over k of x[m, k] * (w[n, k] - zero) * scale [+ bias[n]]. Weights are `bits` bits each, the lowest of a
// byte first, [n][block][bytes of a block]; scales (f32) and zeros are of a block: f32, or integers of `bits` bits, a
// row of n starting at a byte. MatMulBlocksBytes: x is rounded to bytes first, each block of a row by a scale of its
// own: q = round(x * (127 / largest)), to nearest and ties to even, largest the greatest |x| of the block; x is then
// q * (largest / 127). A block with NaN or an infinity makes NaN; one of no more than 1e-30 counts as zeros.
inline constexpr std::uint32_t kMostBlock = 1024;
enum class BlockZeros : std::uint32_t { Middle /* 2^(bits - 1) */, Packed, F32, Count };
struct MatMulBlocks {
  std::int64_t m = 0, n = 0, k = 0;
  std::uint32_t bits = 4, block = 32;
  BlockZeros zeros = BlockZeros::Middle;
  std::uint32_t has_bias = 0;
};

inline constexpr int kLoopRank = 6;

enum class BinaryOp : std::uint32_t { Add, Sub, Mul, Div, Min, Max, Pow, Prelu /* x < 0 ? x * b : x */, Count };

// y = act(a op b) over a loop nest; y is dense. Strides in elements; 0 broadcasts. The planner merges dimensions:
// dims[rank - 1] is the innermost.
struct BinaryF32 {
  BinaryOp op = BinaryOp::Add;
  std::uint32_t rank = 1;
  std::int64_t dims[kLoopRank] = {1, 1, 1, 1, 1, 1};
  std::int64_t a[kLoopRank] = {}, b[kLoopRank] = {};
  Activation act;
};

// y = the last of some stages, each an operation on what the one before made: v = act(v op b), act(b op v) or act(v);
// the first begins with x. One loop nest for all; y is dense, x and each b may be broadcast. Between stages all is f32.
inline constexpr std::uint32_t kChainStages = 7;
enum class ChainForm : std::uint32_t { ValueFirst, OperandFirst, Alone /* has no b */, Count };
struct ChainStage {
  ChainForm form = ChainForm::Alone;
  BinaryOp op = BinaryOp::Add;
  std::int64_t b[kLoopRank] = {};
  Activation act;
  NumberType b_type = NumberType::F32;
  std::uint32_t reserved = 0;
};
struct ChainF32 {
  std::uint32_t rank = 1, stages = 1;
  std::int64_t dims[kLoopRank] = {1, 1, 1, 1, 1, 1};
  std::int64_t x[kLoopRank] = {};
  ChainStage stage[kChainStages];
  NumberType x_type = NumberType::F32, y_type = NumberType::F32;
};

// Of elements of any type. Integers wrap around; a quotient by zero is 0, and so is its remainder. Truth values are
// bytes: any but 0 is true.
enum class ElementOp : std::uint32_t {
  Add,
  Sub,
  Mul,
  Div,
  Mod,   // with the sign of the divisor
  Fmod,  // of the dividend
  Min,
  Max,
  BitAnd,
  BitOr,
  BitXor,
  ShiftLeft,
  ShiftRight,
  Equal,  // this and what follows give truth values
  Less,
  LessOrEqual,
  And,
  Or,
  Xor,
  Select,  // a truth value, and two of `dtype`
  Not,     // of one operand from here on
  BitNot,
  Abs,
  Neg,
  Sign,
  IsNan,
  IsInf,            // of the signs: a: negative, b: positive
  Softsign,         // f32 and f64 from here on
  Selu,             // b * (x <= 0 ? a * (exp(x) - 1) : x)
  Celu,             // x < 0 ? a * (exp(x / a) - 1) : x, a > 0
  ThresholdedRelu,  // x > a ? x : 0
  Shrink,           // x < -a ? x + b : x > a ? x - b : 0
  Sin,
  Cos,
  Tan,
  Sinh,
  Cosh,
  Asin,  // f32 alone from here on
  Acos,
  Atan,
  Asinh,
  Acosh,
  Atanh,
  MulAdd,  // x0 * x1 + x2
// f32 and f64 from here on: functions that are computed as functions.inc writes them.
#define QR_EXPRESSION(op, ...) op,
#include "graph/ops/functions.inc"
  Count
};
// y = op(x0 [, x1 [, x2]]) over a loop nest, as BinaryF32.
struct Elements {
  ElementOp op = ElementOp::Add;
  std::uint32_t dtype = 0;  // of the operands, by the numbers of base/dtypes.inc; f16 and bf16 are computed as f32
  std::uint32_t rank = 1, reserved = 0;
  std::int64_t dims[kLoopRank] = {1, 1, 1, 1, 1, 1};
  std::int64_t x[3][kLoopRank] = {};
  float a = 0, b = 0;
};

// y = act(x)
struct UnaryF32 {
  std::int64_t count = 0;
  Activation act;
};
// The same of f64; not every activation (elements_shape.h).
struct UnaryF64 {
  std::int64_t count = 0;
  Act kind = Act::Exp;
  std::uint32_t reserved = 0;
  double a = 0, b = 0;
};

// Over `n` of outer x n x inner.
struct SoftmaxF32 {
  std::int64_t outer = 0, n = 0, inner = 1;
  float scale = 1;  // of x before
  std::uint32_t log = 0;
};

struct SoftmaxF64 {
  std::int64_t outer = 0, n = 0, inner = 1;
  std::uint32_t log = 0, reserved = 0;
};
// 1 where the first of the greatest stands, else 0; NaN is never greater. f32 and f64.
struct Hardmax {
  std::int64_t outer = 0, n = 0, inner = 1;
  std::uint32_t dtype = 0, reserved = 0;
};

// s = x [+ r]; y = act(norm(s) [* gamma [+ beta]]); the sum is stored too where has_sum, and a row's mean and the
// inverse of its deviation where has_statistics.
struct LayerNormF32 {
  std::int64_t rows = 0, cols = 0;
  float epsilon = 0;
  std::uint32_t rms = 0;  // 1: root mean square, no mean
  std::uint32_t has_residual = 0, has_beta = 0;
  std::uint16_t has_sum = 0, has_statistics = 0;
  std::uint32_t plain = 0;  // 1: neither gamma nor beta
  Activation act;
};

enum class PoolOp : std::uint32_t { Max, AverageExcludePad, AverageIncludePad, Count };
struct PoolF32 {
  Window window;
  std::int32_t c = 0;
  std::int32_t x_stride = 0, y_stride = 0;
  std::int32_t pad_bottom = 0,
               pad_right = 0;  // AverageIncludePad counts these but not what ceil_mode reaches beyond them
  PoolOp op = PoolOp::Max;
  std::uint32_t reserved = 0;
};

// The same over planes whose rows lie one after the other, as ONNX has images: [plane][row][column].
struct PoolPlanesF32 {
  Window window;  // n: 1
  std::int64_t planes = 0;
  std::int32_t pad_bottom = 0, pad_right = 0;
  PoolOp op = PoolOp::Max;
  std::uint32_t reserved = 0;
};
// Columns that the windows of a row reach over.
inline constexpr std::int64_t padded_width(const PoolPlanesF32 &p) noexcept {
  return std::int64_t{p.window.ow - 1} * p.window.sw + std::int64_t{p.window.kw - 1} * p.window.dw + 1;
}
inline constexpr std::int64_t kPoolWorkRows = 8;
// Room for one of a few lines that are worked on: whole vectors, and what is read beyond them.
inline constexpr std::int64_t pool_row_floats(const PoolPlanesF32 &p) noexcept {
  return (padded_width(p) + 15) / 16 * 16 + 32;
}

enum class ReduceOp : std::uint32_t { Sum, Mean, Max, Min, Prod, L1, L2, SumSquare, LogSumExp, Count };
// The most columns of an inner dimension that are reduced at a time, and short rows.
inline constexpr std::int64_t kReduceColumns = 64, kReduceRows = 16;
// Over the middle one of outer x reduced x inner; y is outer x inner.
struct ReduceF32 {
  std::int64_t outer = 0, reduced = 0, inner = 1;
  ReduceOp op = ReduceOp::Sum;
  NumberType x_type = NumberType::F32;
  Activation act;
};

// The same of f64 (no LogSumExp), of i32, u32, i64 and u64 (no Mean and L2, either), and the least and greatest of i8
// and u8.
struct Reduce {
  std::int64_t outer = 0, reduced = 0, inner = 1;
  ReduceOp op = ReduceOp::Sum;
  std::uint32_t dtype = 0;
};

enum class Cell : std::uint32_t { Rnn, Gru, GruAfter /* reset after the product */, Lstm, Count };
// One direction of a recurrent operator. `gates` has the products with the inputs and all biases ([step][entry][gate *
// hidden], gates in ONNX's order); what is left is done step by step. `bias`: of GruAfter, what is reset with the
// product.
struct RecurrentF32 {
  Cell cell = Cell::Rnn;
  std::uint32_t backwards = 0;
  std::uint32_t has_bias = 0, has_h = 0, has_c = 0, has_peepholes = 0;
  std::uint32_t coupled = 0;  // Lstm: forget = 1 - input
  float clip = 0;             // of what comes from products; 0: none
  // Entry b of the batch has lengths[b] steps, of which a backwards direction begins with the last; behind them y is 0.
  std::uint32_t has_lengths = 0, reserved = 0;
  std::int64_t steps = 0, batch = 0, hidden = 0;
  std::int64_t x_step = 0, x_row = 0, y_step = 0, y_row = 0;  // elements between steps, between entries of the batch
  std::int64_t state_row = 0;                                 // of h, c, last_h, last_c
  Activation f, g, h;
};
// Its weights, packed in the run: r as ONNX has it, [gate][hidden][hidden].
struct PackRecurrentF32 {
  RecurrentF32 layer;
  std::uint32_t lanes = 0, reserved = 0;
};
// An LSTM whose weights are bytes times a factor for each column, where there are dot products of bytes
// (Isa::int_group 4): `layer` without gates, whose x_step and x_row are those of x, [step][entry][input]. Rows of x and
// of the state are rounded to 16 bits of their own largest magnitude.
struct RecurrentBytes {
  RecurrentF32 layer;  // the first member
  std::int64_t input = 0;
};

// Pairs of the first 2 * half elements of each row are turned: by cosines and sines of the row's position
// ([positions][half], where positions are given), or of the row itself ([batch][length][half]). A pair is i and half +
// i, or 2 i and 2 i + 1 where interleaved. A position beyond the tables is an error of the run.
struct RotaryF32 {
  std::int64_t batches = 1, heads = 1, length = 1, size = 0, half = 0;
  std::int64_t x[3] = {}, y[3] = {};  // strides: [batch, head, row]; the elements of a row are adjacent
  std::int64_t positions = 0;
  std::uint32_t has_positions = 0, interleaved = 0;
  NumberType x_type = NumberType::F32, y_type = NumberType::F32;
};

// A state of d_k x d_v per key head goes from token to token: state *= exp(decay); v = rate * (v - state^T k) where
// there are rates; state += k v^T; and every query head of the group reads scale * state^T q. All are
// [batch][token][head * size], decay [batch][token][head (* d_k)], rates [batch][token][head or 1], past and present
// [batch][head][d_k][d_v].
enum class LinearDecay : std::uint32_t { None, Head, Key, Count };
enum class LinearRate : std::uint32_t { None, Head, Shared, Count };
struct LinearAttentionF32 {
  std::int64_t batches = 1, length = 0, q_heads = 1, heads = 1, d_k = 0, d_v = 0;
  LinearDecay decay = LinearDecay::None;
  LinearRate rate = LinearRate::None;
  std::uint32_t has_past = 0, has_present = 0;
  float scale = 1;
  std::uint32_t reserved = 0;
};

inline constexpr int kCopyRank = 8;
// Moves elements of 1, 2, 4, 8 or 16 bytes between two loop nests: transposes, slices, concatenations, expansions,
// layouts. Strides in elements; source strides may be 0.
struct Copy {
  std::uint32_t width = 4;
  std::uint32_t rank = 1;
  std::int64_t dims[kCopyRank] = {1, 1, 1, 1, 1, 1, 1, 1};
  std::int64_t from[kCopyRank] = {}, to[kCopyRank] = {};
};
// Writes one value of `width` bytes `count` times.
struct Fill {
  std::uint32_t width = 4, reserved = 0;
  std::int64_t count = 0;
  std::uint64_t value = 0;
};

// Random numbers of a seed, as cpu-reference gives them: offset + scale * number; normal: of that distribution, else
// evenly from [0, 1).
struct RandomF32 {
  std::int64_t count = 0;
  double offset = 0, scale = 1;
  std::uint32_t seed = 0, normal = 0;
};

// Running sums or products along the middle one of outer x n x inner; exclusive: without the element itself.
struct Cumulate {
  std::int64_t outer = 1, n = 0, inner = 1;
  std::uint32_t dtype = 0;  // f32, f64, i32, u32, i64 or u64, by the numbers of base/dtypes.inc
  std::uint32_t product = 0, exclusive = 0, backwards = 0;
};

// The k greatest (or least) along the middle one of outer x n x inner, the best first; of equal ones the first in x.
// NaN comes after every number. indices: i64.
struct TopK {
  std::int64_t outer = 1, n = 0, inner = 1, k = 0;
  std::uint32_t dtype = 0;  // f32, f64 or an integer of 8 to 64 bits, by the numbers of base/dtypes.inc
  std::uint32_t least = 0, has_values = 1, has_indices = 1;
};

// y[o, i, :] = table[o, index[i], :]; a negative index counts from the end; one out of range is an error of the run.
struct Gather {
  std::int64_t outer = 1, rows = 0, row_bytes = 0, count = 0;
  std::uint32_t index_bytes = 8;  // 4 or 8, signed
  std::uint32_t reserved = 0;
};

// y[o, i, j] = x[o, index[o, i, j], j]: x is outer x rows x inner, index and y are outer x count x inner. Indices as in
// Gather.
struct GatherElements {
  std::int64_t outer = 1, rows = 0, count = 0, inner = 1;
  std::uint32_t width = 4;        // bytes of an element: 1, 2, 4 or 8
  std::uint32_t index_bytes = 8;  // 4 or 8, signed
};

// y = x with rows of `updates` where tuples of indices (i64) say; of rows that are named twice the later one stays.
// Index k of a tuple is of an axis of dims[k], whose elements are steps[k] bytes apart. y may be x.
struct ScatterRows {
  std::int64_t bytes = 0, row_bytes = 0, tuples = 0;
  std::uint32_t length = 1, reserved = 0;
  std::int64_t dims[kCopyRank] = {}, steps[kCopyRank] = {};
};

// New entries of a cache: entries starts[b] (i64) to starts[b] + added of each head of batch b in y become those of
// `updates`, round y's end where `circular`; the rest of y stays. Steps are bytes from one batch, head, entry to the
// next; an entry's own bytes are adjacent. Nothing is written where a start is out of range.
struct TensorScatter {
  std::int64_t batches = 1, heads = 1, length = 0, added = 0, entry_bytes = 0;
  std::int64_t updates[3] = {}, y[3] = {};
  std::uint32_t circular = 0, reserved = 0;
};

// ScatterRows where the rows of updates are combined with what is there: Add, Mul, Min, Max of f32, f64 and integers.
struct ScatterInto {
  ScatterRows rows;  // the first member
  ElementOp op = ElementOp::Add;
  std::uint32_t dtype = 0;  // by the numbers of base/dtypes.inc
};

// y = x but for y[o, index[o, i, j], j] = updates[o, i, j] (or combined with that, as ScatterInto), in their order: x
// is outer x rows x inner, index and updates are outer x count x inner. Indices as in Gather. y may be x.
struct ScatterElements {
  std::int64_t outer = 1, rows = 0, count = 0, inner = 1;
  std::uint32_t dtype = 0;
  std::uint32_t index_bytes = 8;  // 4 or 8, signed
  std::uint32_t combines = 0;
  ElementOp op = ElementOp::Add;
};

// Where the greatest (least) of each row of f32 stands: i64; of equal ones the first (last), and NaN before all.
struct ArgExtremeF32 {
  std::int64_t rows = 0, cols = 0;
  std::uint32_t least = 0, last = 0;
};

// The same over the middle one of outer x n x inner, of f32, f64 and integers of 8 to 64 bits.
struct ArgExtreme {
  std::int64_t outer = 1, n = 0, inner = 1;
  std::uint32_t dtype = 0;  // by the numbers of base/dtypes.inc
  std::uint32_t least = 0, last = 0, reserved = 0;
};

// y[i, j] = sum over two rows and two columns, from tables that the planner makes: per output row {i32 row0, i32 row1,
// f32 weight of row1}, per output column likewise. Nearest: weight 0.
struct ResizeF32 {
  std::int32_t n = 1, ih = 0, iw = 0, c = 0, oh = 0, ow = 0;
  std::int32_t x_stride = 0, y_stride = 0;
  std::uint32_t nearest = 0, reserved = 0;
};

// The same over planes, as ONNX has images: [plane][row][column].
struct ResizePlanesF32 {
  std::int64_t planes = 1;
  std::int32_t ih = 0, iw = 0, oh = 0, ow = 0;
  std::uint32_t nearest = 0, reserved = 0;
};
// Rows that are worked on, elements behind them that vectors may reach over; and four numbers of each column.
inline constexpr std::int64_t kResizeWorkRows = 4, kResizeBeyond = 32;
inline constexpr std::uint64_t resize_planes_scratch(const ResizePlanesF32 &p) noexcept {
  const auto row = (static_cast<std::uint64_t>(p.iw) + kResizeBeyond) * kResizeWorkRows,
             columns = static_cast<std::uint64_t>(p.ow) + 16;
  return ((row + 4 * columns) * 4 + 63) / 64 * 64;
}

// Planes of an image (ih x iw) from the places (oh x ow) of a window, each of whose taps has a plane of places for each
// plane: [plane][tap row][tap column][place]. n and sw: 1.
struct Col2ImF32 {
  std::int64_t planes = 1;
  Window window;
  std::uint32_t reserved = 0;
};

// Regions of images, each cut into rows x columns bins; a bin is the mean (or the greatest) of samples between pixels,
// `ratio` x `ratio` of them (0: as many as it has pixels). rois: x1, y1, x2, y2 of each, times scale; batches: of which
// image. y: [region][row][column][c]. A region of no image, or of no sensible size, is an error of the run.
struct RoiAlignF32 {
  std::int32_t n = 1, h = 0, w = 0, c = 0, x_stride = 0;
  std::int32_t rows = 1, columns = 1, ratio = 0;
  std::int64_t regions = 0;
  float scale = 1;
  std::uint32_t half_pixel = 1, greatest = 0;
  std::uint32_t index_bytes = 8;  // 4 or 8, signed
};

enum class SampleMode : std::uint32_t { Nearest, Linear, Cubic, Count };
enum class SamplePadding : std::uint32_t { Zeros, Border, Reflection, Count };
// y[i] = x at grid[i] = (column, row), each from -1 to 1.
struct GridSampleF32 {
  std::int32_t n = 1, h = 0, w = 0, c = 0, oh = 0, ow = 0;
  std::int32_t x_stride = 0, y_stride = 0;
  SampleMode mode = SampleMode::Linear;
  SamplePadding padding = SamplePadding::Zeros;
  std::uint32_t align_corners = 0, planes = 0;  // planes: [image][channel][row][column], no cubic
};

// Element by element between dtypes (numbers of base/dtypes.inc): f32 f16 bf16 f64 i8 u8 i16 u16 i32 i64 bool.
struct Cast {
  std::uint32_t from = 0, to = 0;
  std::int64_t count = 0;
};

// ---- quantised ----------------------------------------------------------------------------------
// real = (stored - zero) * scale. dtype is u8, i8, u16 or i16 by the numbers of base/dtypes.inc.
struct Quant {
  std::uint32_t dtype = 0;
  std::int32_t zero = 0;
  float scale = 1;
  std::uint32_t reserved = 0;
};

// acc = sum (x - zero_x) * (w - zero_w) + bias; real = acc * scale_x * scale_w[c]. Rounded to y (half to even,
// saturated, clamped to [lo, hi]).
// With a residual: the convolution is first rounded to `mid` and clamped to [mid_lo, mid_hi] (the tensor that the model
// has between the two), then
// y = (mid + r) in real numbers, rounded to y and clamped to [lo, hi]. Weights are packed; `multiplier` is an operand
// (one f32 per channel, scale_x * scale_w / scale of mid or y). Depthwise: groups == ic == oc.
// y of i32: the sums themselves, modulo 2^32; no residual, and y's quantisation and the multiplier mean nothing.
// How weights are packed, and with that how products are summed: conv_int_shape.h. BytePairs: by groups of one or two
// panels.
enum class IntForm : std::uint32_t { Plain, BytePairs1, BytePairs2 };
struct ConvInt {
  Window window;
  std::int32_t ic = 0, oc = 0, groups = 1;
  std::int32_t x_stride = 0, y_stride = 0, r_stride = 0;
  std::uint32_t has_residual = 0;
  std::uint32_t w_bits = 8;  // of the packed weights without their zero point: 8 to 17, depthwise 16 (8 is quickest; 9,
                             // 17 where u8, u16 weights have a zero point)
  Quant x, y, r, mid;
  std::int32_t lo = 0, hi = 0, mid_lo = 0, mid_hi = 0;
  IntForm form = IntForm::Plain;
};

struct BinaryInt {
  BinaryOp op = BinaryOp::Add;  // Add, Sub, Mul
  std::uint32_t rank = 1;
  std::int64_t dims[kLoopRank] = {1, 1, 1, 1, 1, 1};
  std::int64_t a[kLoopRank] = {}, b[kLoopRank] = {};
  Quant qa, qb, qy;
  std::int32_t lo = 0, hi = 0;
};

// y[i] = table[x[i]], bytes.
struct Lookup8 {
  std::int64_t count = 0;
};

// Max: x and y have the same parameters. Averages are rounded once.
struct PoolInt {
  Window window;
  std::int32_t c = 0;
  std::int32_t x_stride = 0, y_stride = 0;
  std::int32_t pad_bottom = 0, pad_right = 0;
  PoolOp op = PoolOp::Max;
  std::uint32_t reserved = 0;
  Quant x, y;
};
struct MeanInt {  // over the middle one of outer x reduced x inner
  std::int64_t outer = 0, reduced = 0, inner = 1;
  Quant x, y;
};

struct Quantize {
  std::int64_t count = 0;
  Quant y;
};
// To u8 by the range of the values with 0 among them: y, its scale (f32) and its zero point (u8).
struct DynamicQuantize {
  std::int64_t count = 0;
};
struct Dequantize {
  std::int64_t count = 0;
  Quant x;
};
// An activation of stored numbers: what Dequantize, UnaryF32 and Quantize give one behind the other, bit by bit.
struct UnaryInt {
  std::int64_t count = 0;
  Quant x, y;
  Activation act;
};
// By scales and zero points that are operands. `rows` of `length` elements, dense; row r has those of group (r /
// repeat) % groups: one for all of the row, or (each) one per element, of which a group has `length`. Zero points are
// of the integers' type. i32 is only dequantised, and has no zero points.
struct QuantizeRows {
  std::int64_t rows = 0, length = 0, repeat = 1, groups = 1;
  std::uint32_t dtype = 0;  // of the integers
  std::uint32_t each = 0, has_zeros = 0, reserved = 0;
};
struct Requantize {
  std::int64_t count = 0;
  Quant x, y;
  std::int32_t lo = 0, hi = 0;
};

}  // namespace quarry::kernels
