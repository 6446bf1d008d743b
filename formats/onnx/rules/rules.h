// SPDX-License-Identifier: Apache-2.0
// How operators of older opsets and of com.microsoft become those of the normal form: a file for each family, a row for
// each operator.
#pragma once

#include "formats/onnx/rewriter.h"

namespace quarry::onnx_import::rules {

#define QR_IMPORT_RULE(set, op, function) Status function(Rewriter &node);
#include "formats/onnx/rules/rules.inc"
#undef QR_IMPORT_RULE

// ---- what several families use

// An ints attribute that is input `index` from opset `since` on.
Status ints_to_input(Rewriter &node, const char *attribute, std::int64_t since, std::size_t index);
qir::Op op_of(const Rewriter &node);
Result<std::int32_t> to_real(Rewriter &node, std::int32_t id, std::string_view suffix);
Status need_image(const Rewriter &node);
Result<std::int32_t> unsqueeze(Rewriter &node, std::int32_t id, std::initializer_list<std::int64_t> axes,
                               std::string_view suffix);
// Elements from .. to of an axis.
Result<std::int32_t> slice(Rewriter &node, std::int32_t id, std::int64_t axis, std::int64_t from, std::int64_t to,
                           std::string_view suffix);

}  // namespace quarry::onnx_import::rules
