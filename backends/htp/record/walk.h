// SPDX-License-Identifier: Apache-2.0
// What calls are given, field by field, in the order in which a record has it: once for who writes it (Pen) and who
// reads it (Lens). Both have number, text, handle, bytes, room, some, list and fail.
#pragma once

#include <algorithm>

#include "backends/htp/qnn/htp_abi.h"
#include "base/checked.h"

namespace quarry::record {

// What becomes of the bytes that a tensor points to. Static: of a graph's constants, weights among them. Given: what a
// run reads. Room: what it writes, of which the size alone is known before.
enum class Content : std::uint8_t { Static, Given, Room };

// What a handle is of: the library numbers objects of each kind by themselves.
enum class Kind : std::uint8_t { Log, Backend, Device, Context, Graph, Profile, Signal, Memory, Platform };

template <class W>
void walk(W &w, qnn::ScaleOffset &v) {
  w.number(v.scale), w.number(v.offset);
}
template <class W>
void walk(W &w, qnn::FloatScaleOffset &v) {
  w.number(v.scale), w.number(v.offset);
}
template <class W, class T>
void walk_each(W &w, T *&list, std::uint64_t count) {
  w.some(list, count, [&](T &one) {
    if constexpr (std::is_arithmetic_v<T>) w.number(one);
    else walk(w, one);
  });
}

// Of blocks of so many elements along each axis; 0: too many to be true.
inline std::uint64_t blocks_of(std::uint32_t rank, const std::uint32_t *dims, const std::uint32_t *block) {
  std::uint64_t count = 1;
  for (std::uint32_t i = 0; i < rank; ++i)
    if (!block || !dims || block[i] == 0 ||
        !checked_mul<std::uint64_t>(count, (std::uint64_t{dims[i]} + block[i] - 1) / block[i], &count))
      return 0;
  return count;
}

template <class W>
void walk(W &w, qnn::Quant &q, std::uint32_t rank, std::uint32_t *dims) {
  w.number(q.defined), w.number(q.enc);
  if (q.defined != qnn::Defined::Yes) return;
  const auto along = [&](std::int32_t axis) -> std::uint64_t {
    return dims && axis >= 0 && static_cast<std::uint32_t>(axis) < rank ? dims[axis] : 0;
  };
  switch (q.enc) {
    case qnn::QuantEnc::ScaleOffset: walk(w, q.so); break;
    case qnn::QuantEnc::Axis:
      w.number(q.axis.axis), w.number(q.axis.count);
      walk_each(w, q.axis.so, q.axis.count);
      break;
    case qnn::QuantEnc::Bw: w.number(q.bw.bits), w.number(q.bw.scale), w.number(q.bw.offset); break;
    case qnn::QuantEnc::BwAxis:
      w.number(q.bw_axis.bits), w.number(q.bw_axis.axis), w.number(q.bw_axis.count);
      walk_each(w, q.bw_axis.scales, q.bw_axis.count);
      walk_each(w, q.bw_axis.offsets, q.bw_axis.count);
      break;
    case qnn::QuantEnc::Block:
      walk_each(w, q.block.block, rank);
      walk_each(w, q.block.so, blocks_of(rank, dims, q.block.block));
      break;
    case qnn::QuantEnc::BwFloatBlock:
      w.number(q.bw_fblock.bits);
      walk_each(w, q.bw_fblock.block, rank);
      walk_each(w, q.bw_fblock.so, blocks_of(rank, dims, q.bw_fblock.block));
      break;
    case qnn::QuantEnc::BlockExpansion:
      w.some(q.expansion, 1, [&](qnn::BlockExpansion &e) {
        w.number(e.axis), w.number(e.blocks_per_axis), w.number(e.scale_bits), w.number(e.storage);
        walk_each(w, e.so, along(e.axis));
        const std::uint64_t scales = along(e.axis) * e.blocks_per_axis;  // of 32 bits each
        if (e.storage == 0) walk_each(w, e.scale8, scales);
        else walk_each(w, e.scale16, scales);
      });
      break;
    default: w.fail("an encoding of another kind");
  }
}

template <class W>
void walk(W &w, qnn::Tensor &t, Content content) {
  w.number(t.version);
  if (t.version != 1 && t.version != 2) return w.fail("a tensor of another version");
  qnn::TensorV1 &v = t.v1;  // what the second version adds follows it
  w.tensor_id(v.id), w.text(v.name), w.number(v.type), w.number(v.format), w.number(v.dtype);
  w.number(v.rank);
  walk_each(w, v.dims, v.rank);
  walk(w, v.q, v.rank, v.dims);
  w.number(v.mem);
  if (v.mem == qnn::TensorMem::Registered) w.registered(v, content);
  else if (v.mem != qnn::TensorMem::Raw) w.fail("a tensor in memory of another kind");
  else if (content == Content::Room) w.room(v.buf);
  else w.bytes(v.buf, content == Content::Static && w.may_be_weight(v));
  if (t.version == 1) return;
  walk_each(w, t.v2.dynamic_dims, v.rank);
  w.number(t.v2.sparse.layout), w.number(t.v2.sparse.specified), w.number(t.v2.sparse.sparse_dims);
  w.number(t.v2.produced);
}
template <class W>
void walk_tensors(W &w, qnn::Tensor *&list, std::uint32_t &count, Content content) {
  w.number(count);
  w.some(list, count, [&](qnn::Tensor &one) { walk(w, one, content); });
}

template <class W>
void walk(W &w, qnn::Scalar &s) {
  w.number(s.dtype);
  if (s.dtype == qnn::DataType::String) w.text(s.str);
  else w.number(s.u64);
}
template <class W>
void walk(W &w, qnn::Param &p) {
  w.number(p.kind), w.text(p.name);
  if (p.kind == qnn::ParamKind::Scalar) walk(w, p.scalar);
  else if (p.kind == qnn::ParamKind::Tensor) walk(w, p.tensor, Content::Static);
  else w.fail("a parameter of another kind");
}
template <class W>
void walk(W &w, qnn::Op &op) {
  w.number(op.version);
  if (op.version != 1) return w.fail("an operation of another version");
  w.text(op.name), w.text(op.package), w.text(op.type);
  w.number(op.n_params);
  walk_each(w, op.params, op.n_params);
  walk_tensors(w, op.in, op.n_in, Content::Static);
  walk_tensors(w, op.out, op.n_out, Content::Static);
}

// ---- configurations

template <class W>
void walk(W &w, qnn::BackendConfig &c) {
  w.number(c.option);
  if (c.option == 1) w.number(c.err);
  else if (c.option == 2) w.text(c.platform);
  else w.fail("a configuration of the backend of another kind");
}
template <class W>
void walk(W &w, qnn::HtpContextConfig &c) {
  w.number(c.option);
  constexpr auto kGroup = static_cast<std::uint32_t>(qnn::HtpContextOpt::RegisterMulti),
                 kConcurrent = static_cast<std::uint32_t>(qnn::HtpContextOpt::ConcurrentSharing);
  if (c.option == kGroup || c.option == kConcurrent)
    w.handle(Kind::Context, c.group.first), w.number(c.group.max_spill);
  else w.number(c.mb);
}
template <class W>
void walk(W &w, qnn::ContextConfig &c) {
  w.number(c.option);
  switch (c.option) {
    case qnn::ContextOpt::Custom:
      w.some(reinterpret_cast<qnn::HtpContextConfig *&>(c.custom), 1,
             [&](qnn::HtpContextConfig &one) { walk(w, one); });
      break;
    case qnn::ContextOpt::OemString: w.text(c.oem); break;
    case qnn::ContextOpt::EnableGraphs:
    case qnn::ContextOpt::RetentionOrder: w.names(c.graphs); break;
    case qnn::ContextOpt::Priority: w.number(c.priority); break;
    case qnn::ContextOpt::ErrorReporting: w.number(c.err); break;
    case qnn::ContextOpt::AsyncDepth: w.number(c.async); break;
    case qnn::ContextOpt::MemoryLimitHint: w.number(c.mem_limit); break;
    case qnn::ContextOpt::PersistentBinary:
    case qnn::ContextOpt::DeferGraphInit: w.number(c.flag); break;
    case qnn::ContextOpt::BinaryCompat: w.number(c.compat); break;
    default: w.fail("a configuration of the context of another kind");
  }
}
template <class W>
void walk(W &w, qnn::HtpGraphConfig &c) {
  w.number(c.option);
  if (c.option == static_cast<std::uint32_t>(qnn::HtpGraphOpt::FinalizeConfig)) {
    w.text(c.finalize.key);
    walk(w, c.finalize.value);
  } else if (c.option == static_cast<std::uint32_t>(qnn::HtpGraphOpt::Parallel)) {
    w.number(c.parallel);
  } else {
    w.number(c.u64);
  }
}
template <class W>
void walk(W &w, qnn::GraphConfig &c) {
  w.number(c.option);
  switch (c.option) {
    case qnn::GraphOpt::Custom:
      w.some(reinterpret_cast<qnn::HtpGraphConfig *&>(c.custom), 1, [&](qnn::HtpGraphConfig &one) { walk(w, one); });
      break;
    case qnn::GraphOpt::Profile: w.handle(Kind::Profile, c.profile); break;
    case qnn::GraphOpt::Priority: w.number(c.priority); break;
    case qnn::GraphOpt::ProfilingState:
    case qnn::GraphOpt::ProfilingNum: w.number(c.u32); break;
    case qnn::GraphOpt::SectionWeights: w.number(c.flag); break;
    default: w.fail("a configuration of the graph of another kind");
  }
}
// The layout of the device's own configuration is of the library's version: in a record it has none.
template <class W>
void walk(W &w, qnn::DeviceConfig &c) {
  w.number(c.option);
  if (c.option != 0) return w.fail("a configuration of the device of another kind");
  w.some(reinterpret_cast<qnn::HtpDeviceConfig *&>(c.custom), 1, [&](qnn::HtpDeviceConfig &wide) {
    auto &narrow = reinterpret_cast<qnn::HtpDeviceConfigOld &>(wide);
    w.number(wide.option);
    if (wide.option == 0) {
      w.number(w.is_wide() ? wide.soc : narrow.soc);
    } else if (wide.option == 1) {
      w.number(w.is_wide() ? wide.arch.device_id : narrow.arch.device_id);
      w.number(w.is_wide() ? wide.arch.arch : narrow.arch.arch);
    } else if (wide.option == 2) {
      w.number(w.is_wide() ? wide.pd.device_id : narrow.pd.device_id);
      w.number(w.is_wide() ? wide.pd.on : narrow.pd.on);
    } else {
      w.fail("a configuration of the device of another kind");
    }
  });
}
template <class W>
void walk(W &w, qnn::SignalConfig &c) {
  w.number(c.option);
  if (c.option == 0) w.fail("a configuration of the signal of another kind");
  else w.number(c.timeout_us);
}
template <class W>
void walk(W &w, qnn::ProfileConfig &c) {
  w.number(c.option);
  if (c.option == 0) w.fail("a configuration of the profile of another kind");
  else w.number(c.max_events);
}
template <class W>
void walk(W &w, qnn::HtpPowerConfig &c) {
  w.number(c.option);
  constexpr std::uint32_t kDcvs = 1, kHmx = 5;
  if (c.option == kDcvs) {
    std::uint32_t id = c.dcvs.context_id;
    w.power_id(id), w.number(c.dcvs);
    if (c.dcvs.context_id != id) c.dcvs.context_id = id;  // a replay has others
  } else if (c.option == kHmx) {
    w.number(c.hmx);
  } else {
    w.number(c.u32);
  }
}

template <class W, class T>
void walk_configs(W &w, const T **&list) {
  w.list(list, [&](T &one) { walk(w, one); });
}

}  // namespace quarry::record
