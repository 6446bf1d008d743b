// SPDX-License-Identifier: Apache-2.0
// Every size and offset of the interface, so that no edit and no compiler moves a field. (LP64, which all supported
// machines are.)
#include "backends/htp/qnn/function_table.h"
#include "backends/htp/qnn/htp_abi.h"
#include "backends/htp/qnn/ir_abi.h"
#include "backends/htp/qnn/system_abi.h"

namespace quarry::qnn {
namespace {

#define QNN_FIELD(type, field, offset, size) \
  static_assert(offsetof(type, field) == offset && sizeof(type::field) == size)

static_assert(sizeof(ScaleOffset) == 8);
QNN_FIELD(ScaleOffset, scale, 0, 4);
QNN_FIELD(ScaleOffset, offset, 4, 4);

static_assert(sizeof(BwScaleOffset) == 12);
QNN_FIELD(BwScaleOffset, bits, 0, 4);
QNN_FIELD(BwScaleOffset, scale, 4, 4);
QNN_FIELD(BwScaleOffset, offset, 8, 4);

static_assert(sizeof(AxisScaleOffset) == 16);
QNN_FIELD(AxisScaleOffset, axis, 0, 4);
QNN_FIELD(AxisScaleOffset, count, 4, 4);
QNN_FIELD(AxisScaleOffset, so, 8, 8);

static_assert(sizeof(BwAxisScaleOffset) == 32);
QNN_FIELD(BwAxisScaleOffset, bits, 0, 4);
QNN_FIELD(BwAxisScaleOffset, axis, 4, 4);
QNN_FIELD(BwAxisScaleOffset, count, 8, 4);
QNN_FIELD(BwAxisScaleOffset, scales, 16, 8);
QNN_FIELD(BwAxisScaleOffset, offsets, 24, 8);

static_assert(sizeof(BlockEnc) == 16);
QNN_FIELD(BlockEnc, block, 0, 8);
QNN_FIELD(BlockEnc, so, 8, 8);

static_assert(sizeof(BlockExpansion) == 40);
QNN_FIELD(BlockExpansion, axis, 0, 4);
QNN_FIELD(BlockExpansion, so, 8, 8);
QNN_FIELD(BlockExpansion, blocks_per_axis, 16, 4);
QNN_FIELD(BlockExpansion, scale_bits, 20, 4);
QNN_FIELD(BlockExpansion, storage, 24, 4);
QNN_FIELD(BlockExpansion, scale8, 32, 8);
QNN_FIELD(BlockExpansion, scale16, 32, 8);

static_assert(sizeof(VectorEnc) == 48);
QNN_FIELD(VectorEnc, base, 0, 32);
QNN_FIELD(VectorEnc, rows, 32, 4);
QNN_FIELD(VectorEnc, cols, 36, 4);
QNN_FIELD(VectorEnc, dim, 40, 1);
QNN_FIELD(VectorEnc, stride, 41, 1);
QNN_FIELD(VectorEnc, index_bits, 42, 1);

static_assert(sizeof(FloatBlockEnc) == 16);
QNN_FIELD(FloatBlockEnc, block, 0, 8);
QNN_FIELD(FloatBlockEnc, so, 8, 8);

static_assert(sizeof(BwFloatBlockEnc) == 24);
QNN_FIELD(BwFloatBlockEnc, bits, 0, 4);
QNN_FIELD(BwFloatBlockEnc, block, 8, 8);
QNN_FIELD(BwFloatBlockEnc, so, 16, 8);

static_assert(sizeof(Quant) == 40);
QNN_FIELD(Quant, defined, 0, 4);
QNN_FIELD(Quant, enc, 4, 4);
QNN_FIELD(Quant, so, 8, 8);
QNN_FIELD(Quant, axis, 8, 16);
QNN_FIELD(Quant, bw, 8, 12);
QNN_FIELD(Quant, bw_axis, 8, 32);
QNN_FIELD(Quant, block, 8, 16);
QNN_FIELD(Quant, expansion, 8, 8);
QNN_FIELD(Quant, vec, 8, 8);
QNN_FIELD(Quant, fblock, 8, 16);
QNN_FIELD(Quant, bw_fblock, 8, 24);

static_assert(sizeof(Buf) == 16);
QNN_FIELD(Buf, data, 0, 8);
QNN_FIELD(Buf, bytes, 8, 4);

static_assert(sizeof(TensorV1) == 112);
QNN_FIELD(TensorV1, id, 0, 4);
QNN_FIELD(TensorV1, name, 8, 8);
QNN_FIELD(TensorV1, type, 16, 4);
QNN_FIELD(TensorV1, format, 20, 4);
QNN_FIELD(TensorV1, dtype, 24, 4);
QNN_FIELD(TensorV1, q, 32, 40);
QNN_FIELD(TensorV1, rank, 72, 4);
QNN_FIELD(TensorV1, dims, 80, 8);
QNN_FIELD(TensorV1, mem, 88, 4);
QNN_FIELD(TensorV1, buf, 96, 16);
QNN_FIELD(TensorV1, mem_handle, 96, 8);

static_assert(sizeof(TensorV2) == 136);
QNN_FIELD(TensorV2, id, 0, 4);
QNN_FIELD(TensorV2, name, 8, 8);
QNN_FIELD(TensorV2, type, 16, 4);
QNN_FIELD(TensorV2, format, 20, 4);
QNN_FIELD(TensorV2, dtype, 24, 4);
QNN_FIELD(TensorV2, q, 32, 40);
QNN_FIELD(TensorV2, rank, 72, 4);
QNN_FIELD(TensorV2, dims, 80, 8);
QNN_FIELD(TensorV2, mem, 88, 4);
QNN_FIELD(TensorV2, buf, 96, 16);
QNN_FIELD(TensorV2, mem_handle, 96, 8);
QNN_FIELD(TensorV2, retrieve, 96, 8);
QNN_FIELD(TensorV2, dynamic_dims, 112, 8);
QNN_FIELD(TensorV2, sparse, 120, 12);
QNN_FIELD(TensorV2, produced, 132, 1);

static_assert(sizeof(Tensor) == 144);
QNN_FIELD(Tensor, version, 0, 4);
QNN_FIELD(Tensor, v1, 8, 112);
QNN_FIELD(Tensor, v2, 8, 136);

static_assert(sizeof(TensorSet) == 40);
QNN_FIELD(TensorSet, version, 0, 4);
QNN_FIELD(TensorSet, n_in, 8, 4);
QNN_FIELD(TensorSet, in, 16, 8);
QNN_FIELD(TensorSet, n_out, 24, 4);
QNN_FIELD(TensorSet, out, 32, 8);

static_assert(sizeof(Scalar) == 16);
QNN_FIELD(Scalar, dtype, 0, 4);
QNN_FIELD(Scalar, f32, 8, 4);
QNN_FIELD(Scalar, f64, 8, 8);
QNN_FIELD(Scalar, u64, 8, 8);
QNN_FIELD(Scalar, i64, 8, 8);
QNN_FIELD(Scalar, u32, 8, 4);
QNN_FIELD(Scalar, i32, 8, 4);
QNN_FIELD(Scalar, u16, 8, 2);
QNN_FIELD(Scalar, i16, 8, 2);
QNN_FIELD(Scalar, u8, 8, 1);
QNN_FIELD(Scalar, i8, 8, 1);
QNN_FIELD(Scalar, b8, 8, 1);
QNN_FIELD(Scalar, str, 8, 8);

static_assert(sizeof(Param) == 160);
QNN_FIELD(Param, kind, 0, 4);
QNN_FIELD(Param, name, 8, 8);
QNN_FIELD(Param, scalar, 16, 16);
QNN_FIELD(Param, tensor, 16, 144);

static_assert(sizeof(Op) == 80);
QNN_FIELD(Op, version, 0, 4);
QNN_FIELD(Op, name, 8, 8);
QNN_FIELD(Op, package, 16, 8);
QNN_FIELD(Op, type, 24, 8);
QNN_FIELD(Op, n_params, 32, 4);
QNN_FIELD(Op, params, 40, 8);
QNN_FIELD(Op, n_in, 48, 4);
QNN_FIELD(Op, in, 56, 8);
QNN_FIELD(Op, n_out, 64, 4);
QNN_FIELD(Op, out, 72, 8);

static_assert(sizeof(OpName) == 24);
QNN_FIELD(OpName, package, 0, 8);
QNN_FIELD(OpName, name, 8, 8);
QNN_FIELD(OpName, target, 16, 8);

static_assert(sizeof(BackendConfig) == 16);
QNN_FIELD(BackendConfig, option, 0, 4);
QNN_FIELD(BackendConfig, custom, 8, 8);
QNN_FIELD(BackendConfig, err, 8, 8);
QNN_FIELD(BackendConfig, platform, 8, 8);

static_assert(sizeof(ContextConfig) == 16);
QNN_FIELD(ContextConfig, option, 0, 4);
QNN_FIELD(ContextConfig, custom, 8, 8);
QNN_FIELD(ContextConfig, priority, 8, 4);
QNN_FIELD(ContextConfig, err, 8, 8);
QNN_FIELD(ContextConfig, oem, 8, 8);
QNN_FIELD(ContextConfig, async, 8, 8);
QNN_FIELD(ContextConfig, graphs, 8, 8);
QNN_FIELD(ContextConfig, mem_limit, 8, 8);
QNN_FIELD(ContextConfig, flag, 8, 1);
QNN_FIELD(ContextConfig, compat, 8, 4);

static_assert(sizeof(GraphConfig) == 16);
QNN_FIELD(GraphConfig, option, 0, 4);
QNN_FIELD(GraphConfig, custom, 8, 8);
QNN_FIELD(GraphConfig, priority, 8, 4);
QNN_FIELD(GraphConfig, profile, 8, 8);
QNN_FIELD(GraphConfig, u32, 8, 4);
QNN_FIELD(GraphConfig, flag, 8, 1);

static_assert(sizeof(DeviceConfig) == 16);
QNN_FIELD(DeviceConfig, option, 0, 4);
QNN_FIELD(DeviceConfig, custom, 8, 8);
QNN_FIELD(DeviceConfig, platform, 8, 8);

static_assert(sizeof(SignalConfig) == 16);
QNN_FIELD(SignalConfig, option, 0, 4);
QNN_FIELD(SignalConfig, custom, 8, 8);
QNN_FIELD(SignalConfig, timeout_us, 8, 8);

static_assert(sizeof(ProfileConfig) == 16);
QNN_FIELD(ProfileConfig, option, 0, 4);
QNN_FIELD(ProfileConfig, custom, 8, 8);
QNN_FIELD(ProfileConfig, max_events, 8, 8);
QNN_FIELD(ProfileConfig, optrace, 8, 1);

static_assert(sizeof(GlobalConfig) == 8);
QNN_FIELD(GlobalConfig, option, 0, 4);
QNN_FIELD(GlobalConfig, soc, 4, 4);

static_assert(sizeof(Property) == 16);
QNN_FIELD(Property, option, 0, 4);
QNN_FIELD(Property, custom, 8, 8);

static_assert(sizeof(CoreInfo) == 24);
QNN_FIELD(CoreInfo, version, 0, 4);
QNN_FIELD(CoreInfo, core_id, 8, 4);
QNN_FIELD(CoreInfo, core_type, 12, 4);
QNN_FIELD(CoreInfo, ext, 16, 8);

static_assert(sizeof(HwDevice) == 40);
QNN_FIELD(HwDevice, version, 0, 4);
QNN_FIELD(HwDevice, device_id, 8, 4);
QNN_FIELD(HwDevice, device_type, 12, 4);
QNN_FIELD(HwDevice, n_cores, 16, 4);
QNN_FIELD(HwDevice, cores, 24, 8);
QNN_FIELD(HwDevice, ext, 32, 8);

static_assert(sizeof(PlatformInfo) == 24);
QNN_FIELD(PlatformInfo, version, 0, 4);
QNN_FIELD(PlatformInfo, n_devices, 8, 4);
QNN_FIELD(PlatformInfo, devices, 16, 8);

static_assert(sizeof(EventData) == 24);
QNN_FIELD(EventData, type, 0, 4);
QNN_FIELD(EventData, unit, 4, 4);
QNN_FIELD(EventData, value, 8, 8);
QNN_FIELD(EventData, ident, 16, 8);

static_assert(sizeof(ExtEventData) == 56);
QNN_FIELD(ExtEventData, version, 0, 4);
QNN_FIELD(ExtEventData, type, 8, 4);
QNN_FIELD(ExtEventData, unit, 12, 4);
QNN_FIELD(ExtEventData, value, 16, 16);
QNN_FIELD(ExtEventData, opaque, 16, 24);
QNN_FIELD(ExtEventData, time, 40, 8);
QNN_FIELD(ExtEventData, ident, 48, 8);

static_assert(sizeof(BinRequest) == 24);
QNN_FIELD(BinRequest, offset, 0, 8);
QNN_FIELD(BinRequest, size, 8, 8);
QNN_FIELD(BinRequest, map, 16, 1);

static_assert(sizeof(BinRawReply) == 24);
QNN_FIELD(BinRawReply, mem, 0, 8);
QNN_FIELD(BinRawReply, start, 8, 8);
QNN_FIELD(BinRawReply, aligned, 16, 8);

static_assert(sizeof(BinRawMem) == 16);
QNN_FIELD(BinRawMem, mem, 0, 8);
QNN_FIELD(BinRawMem, size, 8, 8);

static_assert(sizeof(BinDmaReply) == 32);
QNN_FIELD(BinDmaReply, dma, 0, 16);
QNN_FIELD(BinDmaReply, start, 16, 8);
QNN_FIELD(BinDmaReply, aligned, 24, 8);

static_assert(sizeof(BinDmaMem) == 24);
QNN_FIELD(BinDmaMem, dma, 0, 16);
QNN_FIELD(BinDmaMem, size, 16, 8);

static_assert(sizeof(BinCallback) == 40);
QNN_FIELD(BinCallback, kind, 0, 4);
QNN_FIELD(BinCallback, version, 8, 4);
QNN_FIELD(BinCallback, raw, 16, 24);
QNN_FIELD(BinCallback, dma, 16, 24);

static_assert(sizeof(CtxParamsV1) == 48);
QNN_FIELD(CtxParamsV1, config, 0, 8);
QNN_FIELD(CtxParamsV1, bin, 8, 8);
QNN_FIELD(CtxParamsV1, bytes, 16, 8);
QNN_FIELD(CtxParamsV1, profile, 24, 8);
QNN_FIELD(CtxParamsV1, fn, 32, 8);
QNN_FIELD(CtxParamsV1, arg, 40, 8);

static_assert(sizeof(CtxParamsV2) == 56);
QNN_FIELD(CtxParamsV2, v1, 0, 48);
QNN_FIELD(CtxParamsV2, cb, 48, 8);

static_assert(sizeof(CtxParams) == 56);
QNN_FIELD(CtxParams, version, 0, 4);
QNN_FIELD(CtxParams, v1, 8, 48);
QNN_FIELD(CtxParams, v2, 8, 8);

static_assert(sizeof(CtxBuffer) == 32);
QNN_FIELD(CtxBuffer, version, 0, 4);
QNN_FIELD(CtxBuffer, mem, 8, 4);
QNN_FIELD(CtxBuffer, raw, 16, 16);
QNN_FIELD(CtxBuffer, handle, 16, 8);

static_assert(sizeof(MemDesc) == 48);
QNN_FIELD(MemDesc, shape, 0, 24);
QNN_FIELD(MemDesc, dtype, 24, 4);
QNN_FIELD(MemDesc, kind, 28, 4);
QNN_FIELD(MemDesc, ion_fd, 32, 4);
QNN_FIELD(MemDesc, custom, 32, 8);
QNN_FIELD(MemDesc, dma, 32, 16);

static_assert(sizeof(ExecEnv) == 48);
QNN_FIELD(ExecEnv, option, 0, 4);
QNN_FIELD(ExecEnv, set, 8, 40);

static_assert(sizeof(HtpDeviceConfigOld) == 12);
QNN_FIELD(HtpDeviceConfigOld, option, 0, 4);
QNN_FIELD(HtpDeviceConfigOld, soc, 4, 4);
QNN_FIELD(HtpDeviceConfigOld, arch, 4, 8);
QNN_FIELD(HtpDeviceConfigOld, pd, 4, 8);

static_assert(sizeof(HtpDeviceConfig) == 16);
QNN_FIELD(HtpDeviceConfig, option, 0, 4);
QNN_FIELD(HtpDeviceConfig, soc, 8, 4);
QNN_FIELD(HtpDeviceConfig, arch, 8, 8);
QNN_FIELD(HtpDeviceConfig, pd, 8, 8);
QNN_FIELD(HtpDeviceConfig, ext, 8, 8);

static_assert(sizeof(HtpDeviceExt) == 32);
QNN_FIELD(HtpDeviceExt, kind, 0, 4);
QNN_FIELD(HtpDeviceExt, chip, 8, 24);

static_assert(sizeof(HtpContextConfig) == 24);
QNN_FIELD(HtpContextConfig, option, 0, 4);
QNN_FIELD(HtpContextConfig, flag, 8, 1);
QNN_FIELD(HtpContextConfig, group, 8, 16);
QNN_FIELD(HtpContextConfig, mb, 8, 8);
QNN_FIELD(HtpContextConfig, kind, 8, 4);

static_assert(sizeof(HtpContextProperty) == 16);
QNN_FIELD(HtpContextProperty, option, 0, 4);
QNN_FIELD(HtpContextProperty, value, 8, 8);

static_assert(sizeof(IrGraphConfig) == 24);
QNN_FIELD(IrGraphConfig, option, 0, 4);
QNN_FIELD(IrGraphConfig, type, 8, 4);
QNN_FIELD(IrGraphConfig, path, 16, 8);

static_assert(sizeof(HtpGraphConfig) == 56);
QNN_FIELD(HtpGraphConfig, option, 0, 4);
QNN_FIELD(HtpGraphConfig, opt, 8, 8);
QNN_FIELD(HtpGraphConfig, u32, 8, 4);
QNN_FIELD(HtpGraphConfig, flag, 8, 1);
QNN_FIELD(HtpGraphConfig, u64, 8, 8);
QNN_FIELD(HtpGraphConfig, ptr, 8, 8);
QNN_FIELD(HtpGraphConfig, finalize, 8, 24);
QNN_FIELD(HtpGraphConfig, parallel, 8, 44);
QNN_FIELD(HtpGraphConfig, bound, 8, 8);

static_assert(sizeof(HtpMemDesc) == 32);
QNN_FIELD(HtpMemDesc, kind, 0, 4);
QNN_FIELD(HtpMemDesc, size, 8, 8);
QNN_FIELD(HtpMemDesc, qurt, 16, 4);
QNN_FIELD(HtpMemDesc, shared, 16, 16);

static_assert(sizeof(DcvsV3) == 64);
QNN_FIELD(DcvsV3, context_id, 0, 4);
QNN_FIELD(DcvsV3, set_dcvs, 4, 4);
QNN_FIELD(DcvsV3, dcvs, 8, 4);
QNN_FIELD(DcvsV3, mode, 12, 4);
QNN_FIELD(DcvsV3, set_sleep_latency, 16, 4);
QNN_FIELD(DcvsV3, sleep_latency, 20, 4);
QNN_FIELD(DcvsV3, set_sleep_disable, 24, 4);
QNN_FIELD(DcvsV3, sleep_disable, 28, 4);
QNN_FIELD(DcvsV3, set_bus, 32, 4);
QNN_FIELD(DcvsV3, bus_min, 36, 4);
QNN_FIELD(DcvsV3, bus_target, 40, 4);
QNN_FIELD(DcvsV3, bus_max, 44, 4);
QNN_FIELD(DcvsV3, set_core, 48, 4);
QNN_FIELD(DcvsV3, core_min, 52, 4);
QNN_FIELD(DcvsV3, core_target, 56, 4);
QNN_FIELD(DcvsV3, core_max, 60, 4);

static_assert(sizeof(HtpPowerConfig) == 68);
QNN_FIELD(HtpPowerConfig, option, 0, 4);
QNN_FIELD(HtpPowerConfig, dcvs, 4, 64);
QNN_FIELD(HtpPowerConfig, u32, 4, 4);
QNN_FIELD(HtpPowerConfig, hmx, 4, 20);

static_assert(sizeof(HtpInfra) == 40);
QNN_FIELD(HtpInfra, kind, 0, 4);
QNN_FIELD(HtpInfra, createPowerConfigId, 8, 8);
QNN_FIELD(HtpInfra, destroyPowerConfigId, 16, 8);
QNN_FIELD(HtpInfra, setPowerConfig, 24, 8);
QNN_FIELD(HtpInfra, setMemoryConfig, 32, 8);

static_assert(sizeof(GraphInfo) == 88);
QNN_FIELD(GraphInfo, version, 0, 4);
QNN_FIELD(GraphInfo, name, 8, 8);
QNN_FIELD(GraphInfo, n_in, 16, 4);
QNN_FIELD(GraphInfo, in, 24, 8);
QNN_FIELD(GraphInfo, n_out, 32, 4);
QNN_FIELD(GraphInfo, out, 40, 8);
QNN_FIELD(GraphInfo, n_upd, 48, 4);
QNN_FIELD(GraphInfo, upd, 56, 8);
QNN_FIELD(GraphInfo, blob_bytes, 64, 4);
QNN_FIELD(GraphInfo, blob, 72, 8);
QNN_FIELD(GraphInfo, first_op, 80, 4);
QNN_FIELD(GraphInfo, last_op, 84, 4);

static_assert(sizeof(BinInfoV1) == 136);
QNN_FIELD(BinInfoV1, backend_id, 0, 4);
QNN_FIELD(BinInfoV1, build_id, 8, 8);
QNN_FIELD(BinInfoV1, core, 16, 12);
QNN_FIELD(BinInfoV1, backend, 28, 12);
QNN_FIELD(BinInfoV1, soc, 40, 8);
QNN_FIELD(BinInfoV1, hw_blob, 48, 12);
QNN_FIELD(BinInfoV1, ctx_blob, 60, 12);
QNN_FIELD(BinInfoV1, hw_bytes, 72, 4);
QNN_FIELD(BinInfoV1, hw, 80, 8);
QNN_FIELD(BinInfoV1, ctx_bytes, 88, 8);
QNN_FIELD(BinInfoV1, n_ctx_tensors, 96, 4);
QNN_FIELD(BinInfoV1, ctx_tensors, 104, 8);
QNN_FIELD(BinInfoV1, n_graphs, 112, 4);
QNN_FIELD(BinInfoV1, graphs, 120, 8);
QNN_FIELD(BinInfoV1, platform, 128, 8);

static_assert(sizeof(BinInfoV3) == 136);
QNN_FIELD(BinInfoV3, backend_id, 0, 4);
QNN_FIELD(BinInfoV3, build_id, 8, 8);
QNN_FIELD(BinInfoV3, core, 16, 12);
QNN_FIELD(BinInfoV3, backend, 28, 12);
QNN_FIELD(BinInfoV3, soc, 40, 8);
QNN_FIELD(BinInfoV3, ctx_blob, 48, 12);
QNN_FIELD(BinInfoV3, ctx_bytes, 64, 8);
QNN_FIELD(BinInfoV3, n_ctx_tensors, 72, 4);
QNN_FIELD(BinInfoV3, ctx_tensors, 80, 8);
QNN_FIELD(BinInfoV3, n_graphs, 88, 4);
QNN_FIELD(BinInfoV3, graphs, 96, 8);
QNN_FIELD(BinInfoV3, platform, 104, 8);
QNN_FIELD(BinInfoV3, meta_bytes, 112, 4);
QNN_FIELD(BinInfoV3, meta, 120, 8);
QNN_FIELD(BinInfoV3, soc_model, 128, 4);

static_assert(sizeof(BinInfo) == 144);
QNN_FIELD(BinInfo, version, 0, 4);
QNN_FIELD(BinInfo, v1, 8, 136);
QNN_FIELD(BinInfo, v3, 8, 136);

static_assert(sizeof(HtpGraphBlobV1) == 40);
QNN_FIELD(HtpGraphBlobV1, version, 0, 4);
QNN_FIELD(HtpGraphBlobV1, spill, 8, 8);
QNN_FIELD(HtpGraphBlobV1, vtcm_mb, 16, 4);
QNN_FIELD(HtpGraphBlobV1, opt_level, 20, 4);
QNN_FIELD(HtpGraphBlobV1, dlbc, 24, 1);
QNN_FIELD(HtpGraphBlobV1, hvx_threads, 32, 8);
static_assert(sizeof(HtpGraphBlobLong) == 112);
QNN_FIELD(HtpGraphBlobLong, shared_weights, 104, 8);

static_assert(sizeof(HtpContextBlobV1) == 8);
QNN_FIELD(HtpContextBlobV1, version, 0, 4);
QNN_FIELD(HtpContextBlobV1, arch, 4, 4);

static_assert(offsetof(Provider, api) == 40 && offsetof(SystemProvider, api) == 32);
static_assert(sizeof(Api) == 71 * sizeof(void *) && sizeof(SystemApi) == 16 * sizeof(void *));
static_assert(offsetof(Api, contextCreate) == 9 * sizeof(void *) && offsetof(Api, graphExecute) == 21 * sizeof(void *));
static_assert(offsetof(Api, profileCreate) == 28 * sizeof(void *) && offsetof(Api, memRegister) == 35 * sizeof(void *));
static_assert(offsetof(Api, deviceCreate) == 40 * sizeof(void *) &&
              offsetof(Api, errorGetMessage) == 48 * sizeof(void *));
static_assert(offsetof(Api, backendGetProperty) == 62 * sizeof(void *) &&
              offsetof(Api, globalConfigSet) == 67 * sizeof(void *));

}  // namespace
}  // namespace quarry::qnn
