// SPDX-License-Identifier: Apache-2.0
// The binary interface of Qualcomm's QNN libraries, as far as it is used: layouts, numbers and the order of table
// slots, in our own words. The libraries are opened at run time and never linked; no header of theirs is needed.
// layout.cpp holds every size and offset.
//
// What may be called depends on the library's version (library.h checks it): the tables only grow, so a slot is there
// when the library's core minor is at least the slot's "since" and the slot is not null.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>

namespace quarry::qnn {
using Error = uint64_t;  // 0: success; the code is in the low 16 bits, its names in error.inc
enum class Code : uint32_t {
#define QNN_ERROR(name, number, text) name = number,
#include "backends/htp/qnn/error.inc"
#undef QNN_ERROR
};
using Handle = void *;  // every object (backend, device, context, ...)
constexpr Error kOk = 0;
inline Code code_of(Error error) { return static_cast<Code>(error & 0xffffu); }

struct Version {
  uint32_t major, minor, patch;
};
struct ApiVersion {
  Version core, backend;
};

// ---------------------------------------------------------------- data types
enum class DataType : uint32_t {
  I8 = 0x0008,
  I16 = 0x0016,
  I32 = 0x0032,
  I64 = 0x0064,
  U8 = 0x0108,
  U16 = 0x0116,
  U32 = 0x0132,
  U64 = 0x0164,
  F16 = 0x0216,
  BF16 = 0x0226,
  F32 = 0x0232,
  F64 = 0x0264,
  SQ4 = 0x0304,
  SQ8 = 0x0308,
  SQ16 = 0x0316,
  SQ32 = 0x0332,
  UQ4 = 0x0404,
  UQ8 = 0x0408,
  UQ16 = 0x0416,
  UQ32 = 0x0432,
  Bool8 = 0x0508,
  String = 0x0608,
  Undef = 0x7FFFFFFF
};

enum class TensorType : uint32_t {
  AppWrite = 0,
  AppRead = 1,
  AppReadWrite = 2,
  Native = 3,
  Static = 4,
  Null = 5,
  UpdStatic = 6,
  UpdNative = 7,
  UpdAppWrite = 8,
  UpdAppRead = 9,
  UpdAppReadWrite = 10,
  OptAppWrite = 11,
  OptAppRead = 12,
  OptAppReadWrite = 13
};

enum class TensorMem : uint32_t { Raw = 0, Registered = 1, Retrieve = 2, Undef = 0x7FFFFFFF };
enum class ParamKind : uint32_t { Scalar = 0, Tensor = 1 };
enum class Defined : uint32_t { Impl = 0, Yes = 1, Undef = 0x7FFFFFFF };
enum class Priority : uint32_t {
  Low = 0,
  NormalLow = 50,
  Normal = 100,
  NormalHigh = 150,
  High = 200,
  HighPlus = 300,
  Critical = 400,
  CriticalPlus = 500
};

// ------------------------------------------------------------- quantization
// real = scale * (stored + offset); so offset = -zero_point. Nothing checks that the zero
// point lies in the type's range: the caller must.
struct ScaleOffset {
  float scale;
  int32_t offset;
};
struct BwScaleOffset {
  uint32_t bits;
  float scale;
  int32_t offset;
};
struct AxisScaleOffset {
  int32_t axis;
  uint32_t count;
  ScaleOffset *so;
};
struct BwAxisScaleOffset {
  uint32_t bits;
  int32_t axis;
  uint32_t count;
  float *scales;
  int32_t *offsets;
};
struct BlockEnc {
  uint32_t *block;
  ScaleOffset *so;
};                       // block: one size per dimension
struct BlockExpansion {  // since core 2.15 or so
  int32_t axis;
  ScaleOffset *so;
  uint32_t blocks_per_axis;
  uint32_t scale_bits;
  uint32_t storage;  // 0: 8-bit array, 1: 16-bit array
  union {
    uint8_t *scale8;
    uint16_t *scale16;
  };
};
struct VectorEnc {
  BwAxisScaleOffset base;
  uint32_t rows, cols;
  uint8_t dim, stride, index_bits;
};
struct FloatScaleOffset {
  float scale;
  float offset;
};
struct FloatBlockEnc {
  uint32_t *block;
  FloatScaleOffset *so;
};
struct BwFloatBlockEnc {
  uint32_t bits;
  uint32_t *block;
  FloatScaleOffset *so;
};

enum class QuantEnc : uint32_t {
  ScaleOffset = 0,
  Axis = 1,
  Bw = 2,
  BwAxis = 3,
  Block = 4,
  BlockExpansion = 5,
  Vector = 6,
  FloatBlock = 7,
  BwAxisMapped = 8,
  BwBlockMapped = 9,
  BwExpansionMapped = 10,
  BwFloatBlock = 11,
  Undef = 0x7FFFFFFF
};
struct Quant {
  Defined defined;
  QuantEnc enc;
  union {
    ScaleOffset so;
    AxisScaleOffset axis;
    BwScaleOffset bw;
    BwAxisScaleOffset bw_axis;
    BlockEnc block;
    BlockExpansion *expansion;
    VectorEnc *vec;
    FloatBlockEnc fblock;
    BwFloatBlockEnc bw_fblock;
    uint64_t raw[4];
  };
};

// ------------------------------------------------------------------ tensors
struct Buf {
  void *data;
  uint32_t bytes;
};
struct TensorV1 {
  uint32_t id;
  const char *name;
  TensorType type;
  uint32_t format;
  DataType dtype;
  Quant q;
  uint32_t rank;
  uint32_t *dims;
  TensorMem mem;
  union {
    Buf buf;
    Handle mem_handle;
  };
};
struct Sparse {
  uint32_t layout;
  uint32_t specified, sparse_dims;
};
struct TensorV2 {
  uint32_t id;
  const char *name;
  TensorType type;
  uint32_t format;
  DataType dtype;
  Quant q;
  uint32_t rank;
  uint32_t *dims;
  TensorMem mem;
  union {
    Buf buf;
    Handle mem_handle;
    void *retrieve;
  };
  uint8_t *dynamic_dims;
  Sparse sparse;
  uint8_t produced;
};
struct Tensor {
  uint32_t version;
  union {
    TensorV1 v1;
    TensorV2 v2;
  };
};  // version 1 or 2
struct TensorSet {
  uint32_t version;
  alignas(8) uint32_t n_in;
  Tensor *in;
  uint32_t n_out;
  Tensor *out;
};

// --------------------------------------------------------------- operations
struct Scalar {
  DataType dtype;
  union {
    float f32;
    double f64;
    uint64_t u64;
    int64_t i64;
    uint32_t u32;
    int32_t i32;
    uint16_t u16;
    int16_t i16;
    uint8_t u8;
    int8_t i8;
    uint8_t b8;
    const char *str;
  };
};
struct Param {
  ParamKind kind;
  const char *name;
  union {
    Scalar scalar;
    Tensor tensor;
  };
};
struct Op {  // version 1
  uint32_t version;
  const char *name;
  const char *package;
  const char *type;
  uint32_t n_params;
  Param *params;
  uint32_t n_in;
  Tensor *in;
  uint32_t n_out;
  Tensor *out;
};

// ------------------------------------------------------------------ configs
struct ErrReport {
  uint32_t level;
  uint32_t storage;
};
struct BackendConfig {
  uint32_t option;
  union {
    void *custom;
    ErrReport err;
    const char *platform;
  };
};
struct AsyncDepth {
  uint32_t type;
  uint32_t depth;
};
enum class ContextOpt : uint32_t {
  Custom = 0,
  Priority = 1,
  ErrorReporting = 2,
  OemString = 3,
  AsyncDepth = 4,
  EnableGraphs = 5,
  MemoryLimitHint = 6,
  PersistentBinary = 7,
  BinaryCompat = 8,
  DeferGraphInit = 9,
  RetentionOrder = 10
};
struct ContextConfig {
  ContextOpt option;
  union {
    void *custom;
    Priority priority;
    ErrReport err;
    const char *oem;
    AsyncDepth async;
    const char *const *graphs;
    uint64_t mem_limit;
    uint8_t flag;
    uint32_t compat;
  };
};
enum class GraphOpt : uint32_t {
  Custom = 0,
  Priority = 3,
  Profile = 4,
  ProfilingState = 5,
  ProfilingNum = 6,
  SectionWeights = 7
};
struct GraphConfig {
  GraphOpt option;
  union {
    void *custom;
    Priority priority;
    Handle profile;
    uint32_t u32;
    uint8_t flag;
  };
};
struct DeviceConfig {
  uint32_t option;
  union {
    void *custom;
    struct PlatformInfo *platform;
  };
};
struct SignalConfig {
  uint32_t option;
  union {
    void *custom;
    uint64_t timeout_us;
  };
};  // 1 abort, 2 timeout
struct ProfileConfig {
  uint32_t option;
  union {
    void *custom;
    uint64_t max_events;
    uint8_t optrace;
  };
};
struct GlobalConfig {
  uint32_t option;
  uint32_t soc;
};
struct Property {
  uint32_t option;
  void *custom;
};  // backend/context/graph getProperty

// device description
// A versioned union that holds pointers starts at offset 8: mind the gap after `version`.
struct CoreInfo {
  uint32_t version;
  alignas(8) uint32_t core_id;
  uint32_t core_type;
  void *ext;
};
struct HwDevice {
  uint32_t version;
  alignas(8) uint32_t device_id;
  uint32_t device_type, n_cores;
  CoreInfo *cores;
  void *ext;
};
struct PlatformInfo {
  uint32_t version;
  alignas(8) uint32_t n_devices;
  HwDevice *devices;
};

// logging, profiling, async
using LogFn = void (*)(const char *fmt, uint32_t level, uint64_t time, va_list args);
enum class LogLevel : uint32_t { Errors = 1, Warnings, Info, Verbose, Debug };
struct EventData {
  uint32_t type, unit;
  uint64_t value;
  const char *ident;
};
struct ExtEventData {
  uint32_t version;
  alignas(8) uint32_t type;
  uint32_t unit;
  union {
    Scalar value;
    struct {
      void *data;
      uint64_t len;
      const char *file;
    } opaque;
  };
  uint64_t time;
  const char *ident;
};
struct NotifyStatus {
  Error error;
};
using NotifyFn = void (*)(void *arg, NotifyStatus st);

// context binaries
using BinSize = uint64_t;
using InitNotifyFn = void (*)(Handle ctx, Handle graph, const char *name, uint32_t what, void *arg, Error st);
struct DmaBuf {
  int32_t fd;
  void *data;
};
struct BinRequest {
  BinSize offset, size;
  uint8_t map;
};
struct BinRawReply {
  void *mem;
  BinSize start, aligned;
};
struct BinRawMem {
  void *mem;
  BinSize size;
};
struct BinDmaReply {
  DmaBuf dma;
  BinSize start, aligned;
};
struct BinDmaMem {
  DmaBuf dma;
  BinSize size;
};
using BinRawProvide = Error (*)(BinRequest, BinRawReply *, void *arg);
using BinRawRelease = Error (*)(BinRawMem, void *arg);
using BinDmaProvide = Error (*)(BinRequest, BinDmaReply *, void *arg);
using BinDmaRelease = Error (*)(BinDmaMem, void *arg);
struct BinCallback {  // kind 1 raw, 2 dma; inner version 1
  uint32_t kind;
  alignas(8) uint32_t version;
  union {
    struct {
      BinRawProvide provide;
      BinRawRelease release;
      void *arg;
    } raw;
    struct {
      BinDmaProvide provide;
      BinDmaRelease release;
      void *arg;
    } dma;
  };
};
struct CtxParamsV1 {
  const ContextConfig **config;
  const void *bin;
  BinSize bytes;
  Handle profile;
  InitNotifyFn fn;
  void *arg;
};
struct CtxParamsV2 {
  CtxParamsV1 v1;
  const BinCallback *cb;
};
struct CtxParams {
  uint32_t version;
  union {
    CtxParamsV1 v1;
    CtxParamsV2 *v2;
  };
};
struct CtxBuffer {
  uint32_t version;
  alignas(8) uint32_t mem;
  union {
    struct {
      void *data;
      BinSize bytes;
    } raw;
    Handle handle;
  };
};
enum class Section : uint32_t { Updatable = 1, Weights = 2, Quant = 3 };

// memory registration
struct MemShape {
  uint32_t rank;
  uint32_t *dims;
  const char *config;
};
enum class MemKind : uint32_t { Ion = 1, Custom = 2, Dmabuf = 3 };
struct MemDesc {
  MemShape shape;
  DataType dtype;
  MemKind kind;
  union {
    int32_t ion_fd;
    void *custom;
    DmaBuf dma;
  };
};
struct ExecEnv {
  uint32_t option;
  TensorSet set;
};

struct OpName {
  const char *package;
  const char *name;
  const char *target;
};

}  // namespace quarry::qnn
