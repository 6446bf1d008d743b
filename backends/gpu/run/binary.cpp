// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/binary.h"

#include "backends/gpu/opencl/pocl.h"
#include "backends/gpu/run/rehearsal.h"
#include "base/hash.h"

namespace quarry::gpu {

namespace {

// Programs that hold no lock (those of other releases, of other users of PoCL) may be in the way once.
constexpr int kTries = 3;

}  // namespace

Status take_binary(const std::shared_ptr<const Engine> &engine, std::span<const qir::Bytes> segments,
                   const plugin::StopToken &stop, const qr_host &host, Blob &blob, Vector<std::uint8_t> &binary) {
  String flaw;
  for (int i = 0; i < kTries; ++i) {
    Blob same;
    same.plan = blob.plan;
    String unused;
    opencl::BuildLock lock;  // until the binary is taken: the first launch writes files too
    QR_ASSIGN_OR_RETURN(const Unique<LoadedContext> loaded,
                        LoadedContext::load(engine, std::move(same), segments, &stop, &unused, &lock));
    if (engine->device().type & CL_DEVICE_TYPE_CPU) {
      // Nothing is wrong without it: the first run then takes longer.
      const Status rehearsed = rehearse(*loaded, host);
      if (!rehearsed.ok()) plugin::log(host, QR_LOG_INFO, "gpu", "no rehearsal: " + String(rehearsed.message()));
    }
    QR_ASSIGN_OR_RETURN(binary, engine->binary_of(loaded->program()));
    flaw = opencl::flaw_of_binary(binary);
    if (!flaw.empty()) continue;
    const String &text = loaded->source().text;
    blob.device = engine->device().identity();
    blob.source_hash = hash64(text.data(), text.size());
    blob.binary_hash = hash64(binary.data(), binary.size());
    blob.binary_bytes = binary.size();
    return {};
  }
  binary.clear();
  plugin::log(host, QR_LOG_WARN, "gpu",
              "the driver gave a binary of the kernels with " + flaw +
                  ": the model is compiled without, and its kernels are compiled whenever it is loaded");
  return {};
}

}  // namespace quarry::gpu
