// SPDX-License-Identifier: Apache-2.0
// The metadata between its struct and its bytes. Inside formats/qrm only.
#pragma once

#include "formats/qrm/qrm.h"

namespace quarry::qrm {

// The size of the result does not depend on the values of offsets, as long as they are not zero.
Result<Vector<std::uint8_t>> write_metadata(const Metadata &metadata, const Vector<SegmentInfo> &segments);

// Verifies and copies; checks limits that guard memory. Everything else is for check_metadata.
Status verify_metadata(Bytes bytes);
Status read_metadata(Bytes verified, Metadata &metadata, Vector<SegmentInfo> &segments);

// The rules: what a writer gets and what a reader gives keep all of them.
Status check_metadata(const Metadata &metadata, const Vector<SegmentInfo> &segments);

}  // namespace quarry::qrm
