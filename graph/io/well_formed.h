// SPDX-License-Identifier: Apache-2.0
// The first steps of reading a graph's bytes, whole (read.cpp) or its outline (outline.cpp).
#pragma once

#include "formats/flatbuffer.h"
#include "graph/graph.h"
#include "qir_generated.h"

namespace quarry::qir {

// The model in `qir`: sizes, offsets and depth are sound, its normal form is one that this version reads, it has a
// graph. `aligned` gets a copy of the bytes where they do not lie as the format wants them.
Result<const fb::Model *> well_formed_model(Bytes qir, Vector<std::uint8_t> &aligned);

// The data of tensor `name` lie within one of the segments.
Status check_place(const fb::Constant &data, std::string_view name, const Bytes *segments, std::uint64_t segment_count);

// Name, type, shape and quantisation.
Status read_type(flat::Copier &copy, const fb::Tensor &from, Tensor &out);

}  // namespace quarry::qir
