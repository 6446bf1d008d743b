// SPDX-License-Identifier: Apache-2.0
// What libQnnHtp.so adds to the interface: its own configurations, power votes, and what its binaries say of graphs.
#pragma once

#include "backends/htp/qnn/abi.h"

namespace quarry::qnn {

// DeviceConfig.custom. TWO layouts: up to HTP 5.46 the value follows at offset 4; since
// HTP 5.47 the union holds a pointer, so the value starts at offset 8. Choose by the
// provider's backend version (checked: 5.43 old, 5.51 new).
struct HtpDeviceConfigOld {
  uint32_t option;  // 0 SoC, 1 arch (deprecated), 2 signed PD, 3 secure PD
  union {
    uint32_t soc;
    struct {
      uint32_t device_id;
      uint32_t arch;
    } arch;
    struct {
      uint32_t device_id;
      bool on;
    } pd;
  };
};
struct HtpDeviceConfig {
  uint32_t option;
  union {
    uint32_t soc;
    struct {
      uint32_t device_id;
      uint32_t arch;
    } arch;
    struct {
      uint32_t device_id;
      bool on;
    } pd;
    void *ext;
  };
};
struct HtpDeviceExt {  // HwDevice.ext
  uint32_t kind;       // 0 on-chip
  struct {
    size_t vtcm_mb;
    uint32_t soc;
    bool signed_pd;
    bool dlbc;
    uint32_t arch;
  } chip;
};
enum class HtpContextOpt : uint32_t {
  WeightSharing = 1,
  RegisterMulti = 2,
  FileReadBudget = 3,
  DspMemProfiling = 4,
  ShareResources = 5,
  IoMemEstimation = 6,
  PrepareOnly = 7,
  InitAcceleration = 8,
  SkipSectionValidation = 9,
  ShareOptType = 10,
  ExtendedUdma = 11,
  ConcurrentSharing = 12,
  LoraWeightSharing = 13,
  ReusedIoLimit = 17
};
struct HtpContextConfig {  // ContextConfig.custom
  uint32_t option;
  union {
    bool flag;
    struct {
      Handle first;
      uint64_t max_spill;
    } group;
    uint64_t mb;
    uint32_t kind;
  };
};
struct HtpContextProperty {
  uint32_t option;
  uint64_t value;
};  // 1 alignment, 2 max spill-fill, 3 weights size
enum class HtpGraphOpt : uint32_t {
  Optimization = 1,
  Precision = 2,
  VtcmMb = 3,
  NoFoldRelu = 4,
  NoShortDepthHmx = 5,
  HvxThreads = 6,
  FinalizeConfig = 7,
  NumCores = 8,
  Parallel = 9,
  VtcmBytes = 10,
  HmxBounding = 11,
  WeightsPacking = 12,
  AssumeSameQuant = 13,
  ShareIo = 14,
  AdvActFusion = 15,
  HpSigmoid = 16,
  MonoLstm = 17
};
enum class HtpOptimType : uint32_t {
  ScheduleThreshold = 1,
  FinalizeRetries = 2,
  Level = 3,
  Dlbc = 4,
  DlbcWeights = 5,
  SparseWeights = 6,
  Slc = 7
};
struct HtpGraphConfig {  // GraphConfig.custom
  uint32_t option;
  union {
    struct {
      uint32_t type;
      float value;
    } opt;
    uint32_t u32;
    bool flag;
    uint64_t u64;
    void *ptr;
    struct {
      const char *key;
      Scalar value;
    } finalize;
    struct {
      uint32_t concurrency;
      uint32_t vtcm_size, vtcm_offset, vtcm_total, r0[3];
      uint32_t r1[4];
    } parallel;
    struct {
      float hmx_hz, dsp_hz;
    } bound;
  };
};
struct HtpMemDesc {  // MemDesc.custom
  uint32_t kind;
  uint64_t size;  // 0 qurt, 1 shared buffer, 2 weights, 3 shared spill-fill
  union {
    uint32_t qurt;
    struct {
      int32_t fd;
      uint64_t offset;
    } shared;
  };
};
struct DcvsV3 {
  uint32_t context_id, set_dcvs, dcvs, mode, set_sleep_latency, sleep_latency, set_sleep_disable, sleep_disable,
      set_bus, bus_min, bus_target, bus_max, set_core, core_min, core_target, core_max;
};
struct HtpPowerConfig {
  uint32_t option;  // 1 DCVS v3, 2 rpc latency, 3 rpc polling, 4 hmx timeout, 5 hmx v2, 6 adaptive polling, 7 ddr
  union {
    DcvsV3 dcvs;
    uint32_t u32;
    struct {
      uint32_t pick_default, vmin, vtarget, vmax, clk;
    } hmx;
  };
};
struct HtpInfra {  // what deviceGetInfrastructure points to
  uint32_t kind;   // 0 performance
  Error (*createPowerConfigId)(uint32_t device, uint32_t core, uint32_t *id);
  Error (*destroyPowerConfigId)(uint32_t id);
  Error (*setPowerConfig)(uint32_t id, const HtpPowerConfig **);
  Error (*setMemoryConfig)(uint32_t device, uint32_t core, const void **);
};

// vtcm: megabytes in older binaries, bytes in those of SDK 2.51.
struct HtpGraphBlobV1 {
  uint32_t version;
  uint64_t spill;
  uint32_t vtcm_mb, opt_level;
  uint8_t dlbc;
  uint64_t hvx_threads;
};
// Longer ones say how much of the weights is the context's, for several graphs.
struct HtpGraphBlobLong {
  HtpGraphBlobV1 first;
  uint64_t other[8];
  uint64_t shared_weights;
};
struct HtpContextBlobV1 {
  uint32_t version;
  uint32_t arch;
};

}  // namespace quarry::qnn
