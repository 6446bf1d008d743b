// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/reasons.h"

#include <algorithm>

namespace quarry::onnx_import {

void Reasons::add(ErrorId id, std::string_view where, std::string_view what) {
  const ErrorRow row = error_row(id);
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

bool Reasons::only(std::size_t count, std::initializer_list<ErrorId> ids) const {
  return entries_.size() > count &&
         std::all_of(entries_.begin() + static_cast<std::ptrdiff_t>(count), entries_.end(), [&](const Entry &entry) {
           return std::ranges::any_of(ids, [&](ErrorId id) { return entry.id == error_row(id).id; });
         });
}

String Reasons::take_back(std::size_t count) {
  String first = std::move(entries_[count].text);
  entries_.resize(count);
  return first;
}

Status Reasons::status() const {
  if (entries_.empty()) return {};
  const Entry &first = entries_.front();
  const bool of_one_kind = std::ranges::all_of(entries_, [&](const Entry &entry) { return entry.id == first.id; });
  String text = first.text;
  if (entries_.size() > 1)
    text = format("the model cannot be imported for %zu reasons; the first: %s", entries_.size(), first.text);
  Status status = of_one_kind ? Status::foreign(first.code, first.id, text, first.hint)
                              : Status::error(ErrorId::onnx_unsupported, text);
  for (const Entry &entry : entries_) status.with("reason", format("%s %s", entry.id, entry.text));
  return status;
}

}  // namespace quarry::onnx_import
