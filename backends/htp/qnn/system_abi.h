// SPDX-License-Identifier: Apache-2.0
// The interface of libQnnSystem.so: what a context binary says of itself, read without a device.
#pragma once

#include "backends/htp/qnn/function_table.h"

namespace quarry::qnn {

struct GraphInfo {  // version 1..3; later versions only append
  uint32_t version;
  const char *name;
  uint32_t n_in;
  Tensor *in;
  uint32_t n_out;
  Tensor *out;
  uint32_t n_upd;
  Tensor *upd;  // version >= 2
  uint32_t blob_bytes;
  void *blob;
  uint32_t first_op, last_op;  // version >= 3
};
struct BinInfoV1 {  // versions 1 and 2 (2 appends platform)
  uint32_t backend_id;
  const char *build_id;
  Version core, backend;
  const char *soc;
  Version hw_blob, ctx_blob;
  uint32_t hw_bytes;
  void *hw;
  uint64_t ctx_bytes;
  uint32_t n_ctx_tensors;
  Tensor *ctx_tensors;
  uint32_t n_graphs;
  GraphInfo *graphs;
  PlatformInfo *platform;  // version 2 only
};
struct BinInfoV3 {
  uint32_t backend_id;
  const char *build_id;
  Version core, backend;
  const char *soc;
  Version ctx_blob;
  uint64_t ctx_bytes;
  uint32_t n_ctx_tensors;
  Tensor *ctx_tensors;
  uint32_t n_graphs;
  GraphInfo *graphs;
  PlatformInfo *platform;
  uint32_t meta_bytes;
  void *meta;
  uint32_t soc_model;
};
struct BinInfo {
  uint32_t version;
  union {
    BinInfoV1 v1;
    BinInfoV3 v3;
  };
};

struct SystemApi {
  Error (*contextCreate)(Handle *);  // 0
  Error (*contextGetBinaryInfo)(Handle, void *bin, uint64_t bytes, const BinInfo **, BinSize *);
  Error (*contextGetMetadata)(Handle, const void *bin, uint64_t bytes, const BinInfo **);
  Error (*contextFree)(Handle);
  Error (*tensorMemoryFootprint)(Tensor, uint64_t *);
  Error (*logCreate)(LogFn, uint32_t, Handle *);
  Error (*logSetLevel)(Handle, uint32_t);
  Error (*logFree)(Handle);
  Error (*dlcFromFile)(Handle log, const char *path, Handle *dlc);  // 8
  Error (*dlcFromBinary)(Handle log, const uint8_t *, BinSize, Handle *);
  Error (*dlcComposeGraphs)(Handle dlc, const void **, uint32_t n, Handle backend, Handle ctx, Provider iface,
                            uint32_t info_version, GraphInfo **graphs, uint32_t *n_graphs);
  Error (*dlcOpMappings)(Handle, const void **, uint32_t *);
  Error (*dlcFree)(Handle);
  void *profile_slots[3];  // 13..15
};
struct SystemProvider {
  uint32_t backend_id;
  const char *name;
  Version version;
  SystemApi api;
};
using GetSystemProvidersFn = Error (*)(const SystemProvider ***list,
                                       uint32_t *n);  // symbol QnnSystemInterface_getProviders

}  // namespace quarry::qnn
