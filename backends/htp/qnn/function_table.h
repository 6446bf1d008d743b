// SPDX-License-Identifier: Apache-2.0
// The table of functions that a QNN backend library hands out. The order of the slots is the library's.
#pragma once

#include "backends/htp/qnn/abi.h"

namespace quarry::qnn {

// ------------------------------------------------- main table (slot order!)
// "since" = core minor that introduced the slot; none = present since 2.0.
struct Api {
  Error (*propertyHasCapability)(uint32_t key);                                    // 0
  Error (*backendCreate)(Handle log, const BackendConfig **cfg, Handle *backend);  // 1
  Error (*backendSetConfig)(Handle, const BackendConfig **);
  Error (*backendGetApiVersion)(ApiVersion *);
  Error (*backendGetBuildId)(const char **);
  Error (*backendRegisterOpPackage)(Handle, const char *path, const char *provider, const char *target);
  Error (*backendGetSupportedOperations)(Handle, uint32_t *n, const OpName **ops);
  Error (*backendValidateOpConfig)(Handle, Op op);
  Error (*backendFree)(Handle);
  Error (*contextCreate)(Handle backend, Handle device, const ContextConfig **, Handle *ctx);  // 9
  Error (*contextSetConfig)(Handle, const ContextConfig **);
  Error (*contextGetBinarySize)(Handle, BinSize *);
  Error (*contextGetBinary)(Handle, void *buf, BinSize bytes, BinSize *written);
  Error (*contextCreateFromBinary)(Handle backend, Handle device, const ContextConfig **, const void *bin,
                                   BinSize bytes, Handle *ctx, Handle profile);
  Error (*contextFree)(Handle, Handle profile);
  Error (*graphCreate)(Handle ctx, const char *name, const GraphConfig **, Handle *graph);  // 15
  Error (*graphCreateSubgraph)(Handle, const char *, Handle *);
  Error (*graphSetConfig)(Handle, const GraphConfig **);
  Error (*graphAddNode)(Handle, Op op);
  Error (*graphFinalize)(Handle, Handle profile, Handle signal);
  Error (*graphRetrieve)(Handle ctx, const char *name, Handle *graph);
  Error (*graphExecute)(Handle, const Tensor *in, uint32_t n_in, Tensor *out, uint32_t n_out, Handle profile,
                        Handle signal);
  Error (*graphExecuteAsync)(Handle, const Tensor *in, uint32_t n_in, Tensor *out, uint32_t n_out, Handle profile,
                             Handle signal, NotifyFn fn, void *arg);
  Error (*tensorCreateContextTensor)(Handle ctx, Tensor *);  // 23
  Error (*tensorCreateGraphTensor)(Handle graph, Tensor *);
  Error (*logCreate)(LogFn, uint32_t level, Handle *);
  Error (*logSetLevel)(Handle, uint32_t level);
  Error (*logFree)(Handle);
  Error (*profileCreate)(Handle backend, uint32_t level, Handle *);  // 28
  Error (*profileSetConfig)(Handle, const ProfileConfig **);
  Error (*profileGetEvents)(Handle, const uint64_t **ids, uint32_t *n);
  Error (*profileGetSubEvents)(uint64_t id, const uint64_t **ids, uint32_t *n);
  Error (*profileGetEventData)(uint64_t id, EventData *);
  Error (*profileGetExtendedEventData)(uint64_t id, ExtEventData *);
  Error (*profileFree)(Handle);
  Error (*memRegister)(Handle ctx, const MemDesc *, uint32_t n, Handle *out);  // 35
  Error (*memDeRegister)(const Handle *, uint32_t n);
  Error (*deviceGetPlatformInfo)(Handle log, const PlatformInfo **);
  Error (*deviceFreePlatformInfo)(Handle log, const PlatformInfo *);
  Error (*deviceGetInfrastructure)(void *const *infra);
  Error (*deviceCreate)(Handle log, const DeviceConfig **, Handle *dev);  // 40
  Error (*deviceSetConfig)(Handle, const DeviceConfig **);
  Error (*deviceGetInfo)(Handle, const PlatformInfo **);
  Error (*deviceFree)(Handle);
  Error (*signalCreate)(Handle backend, const SignalConfig **, Handle *);
  Error (*signalSetConfig)(Handle, const SignalConfig **);
  Error (*signalTrigger)(Handle);
  Error (*signalFree)(Handle);
  Error (*errorGetMessage)(Error, const char **);  // 48
  Error (*errorGetVerboseMessage)(Error, const char **);
  Error (*errorFreeVerboseMessage)(const char *);
  Error (*graphPrepareExecutionEnvironment)(Handle, ExecEnv **, uint32_t n);  // 51
  Error (*graphReleaseExecutionEnvironment)(Handle, const ExecEnv **, uint32_t n);
  Error (*graphGetProperty)(Handle, Property **);
  Error (*contextValidateBinary)(Handle backend, Handle device, const ContextConfig **, const void *, BinSize);
  Error (*contextCreateFromBinaryWithSignal)(Handle backend, Handle device, const ContextConfig **, const void *bin,
                                             BinSize bytes, Handle *ctx, Handle profile, Handle signal);
  Error (*contextCreateFromBinaryListAsync)(Handle backend, Handle device, const CtxParams **, const ContextConfig **,
                                            Handle signal);
  Error (*tensorUpdateGraphTensors)(Handle graph, const Tensor **, uint64_t n);
  Error (*tensorUpdateContextTensors)(Handle ctx, const Tensor **, uint64_t n);
  Error (*contextGetBinarySectionSize)(Handle ctx, Handle graph, uint32_t section, BinSize *);
  Error (*contextGetBinarySection)(Handle ctx, Handle graph, uint32_t section, const CtxBuffer *, BinSize *written,
                                   Handle profile, Handle signal);
  Error (*contextApplyBinarySection)(Handle ctx, Handle graph, uint32_t section, const CtxBuffer *, Handle profile,
                                     Handle signal);  // 61, last of core 2.18
  Error (*backendGetProperty)(Handle, Property **);   // 62
  Error (*contextGetProperty)(Handle, Property **);
  Error (*contextGetIncrementalBinary)(Handle, const void **buf, BinSize *start, BinSize *written);
  Error (*contextReleaseIncrementalBinary)(Handle, const void *buf, BinSize start);
  Error (*contextFinalize)(Handle, Handle profile);  // 66 since 2.27
  Error (*globalConfigSet)(const GlobalConfig **);   // 67 since 2.27
  Error (*contextCreateFromBinaryWithCallback)(Handle backend, Handle device, const ContextConfig **,
                                               const BinCallback *, const void *bin, BinSize bytes, Handle *ctx,
                                               Handle profile, Handle signal);  // 68 since 2.28
  Error (*contextGetBinarySectionUpdate)(const CtxBuffer *, const CtxBuffer *, const Tensor **, uint64_t, uint8_t,
                                         Handle log, Handle profile, Handle signal, CtxBuffer *);  // 69
  Error (*contextFreeBinarySectionUpdate)(CtxBuffer, Handle log);  // 70, last of core 2.32
};
// A loaded library's table may be longer than Api (75 slots at core 2.40). Read a Provider
// only through the library's pointer; where a call takes one BY VALUE (dlcComposeGraphs)
// the copy must have the library's own size: 40 + 8 * slots bytes.
struct Provider {
  uint32_t backend_id;
  const char *name;
  ApiVersion version;
  Api api;
};
using GetProvidersFn = Error (*)(const Provider ***list, uint32_t *n);  // symbol QnnInterface_getProviders

enum class BackendId : uint32_t { Saver = 2, Htp = 6, Ir = 9 };

}  // namespace quarry::qnn
