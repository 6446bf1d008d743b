// SPDX-License-Identifier: Apache-2.0
// A program's binary for the container, taken from the driver and looked through.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/gpu/run/context.h"

namespace quarry::gpu {

// Of the blob's plan, whose constants lie in `segments`; the blob gets it. Nothing is wrong with a blob without
// one: it is compiled from its source when it is loaded, and a warning says so now.
Status take_binary(const std::shared_ptr<const Engine> &engine, std::span<const qir::Bytes> segments,
                   const plugin::StopToken &stop, const qr_host &host, Blob &blob, Vector<std::uint8_t> &binary);

}  // namespace quarry::gpu
