// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/reasons.h"

namespace quarry::onnx_import {

void Reasons::add(ErrorId id, std::string_view where, std::string_view what) {
  const ErrorRow &row = error_row(id);
  String text(where);
  if (!text.empty()) text += ": ";
  text += what;
  entries_.push_back({row.code, row.id, std::move(text), row.hint});
}

void Reasons::add(const Status &status, std::string_view where) {
  String text;
  if (!where.empty() && status.message().find(where) == std::string_view::npos) text = String(where) + ": ";
  text += status.message();
  entries_.push_back({status.code(), String(status.id()), std::move(text), String(status.hint())});
}

Status Reasons::status() const {
  if (entries_.empty()) return {};
  const Entry &first = entries_.front();
  Status status;
  if (entries_.size() == 1) {
    status = Status::foreign(first.code, first.id, first.text, first.hint);
  } else {
    status = Status::error(ErrorId::onnx_unsupported,
                           format("the model cannot be imported for %zu reasons; the first: %s", entries_.size(), first.text.c_str()));
  }
  for (const Entry &entry : entries_) status.with("reason", format("%s %s", entry.id.c_str(), entry.text.c_str()));
  return status;
}

}  // namespace quarry::onnx_import
