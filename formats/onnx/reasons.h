// SPDX-License-Identifier: Apache-2.0
// Why a model cannot be imported: everything that stands in the way, not the first of it.
#pragma once

#include <initializer_list>
#include <string_view>

#include "base/status.h"

namespace quarry::onnx_import {

class Reasons {
 public:
  // `where`: "node 'conv1' (Conv)", "input 'x'", "initializer 'w'".
  void add(ErrorId id, std::string_view where, std::string_view what);
  // Takes over a status; its message may already name the place.
  void add(const Status &status, std::string_view where);
  bool empty() const noexcept { return entries_.empty(); }
  std::size_t size() const noexcept { return entries_.size(); }
  // Whether there is one behind the first `count`, and all of those have one of these ids; and takes those back.
  bool only(std::size_t count, std::initializer_list<ErrorId> ids) const;
  String take_back(std::size_t count);  // the text of the first of them
  // One status with a "reason" frame each. Its id is that of the reasons where they have one id in common, else
  // QR-O0004.
  Status status() const;

 private:
  struct Entry {
    qr_code code;
    String id, text, hint;
  };
  Vector<Entry> entries_;
};

}  // namespace quarry::onnx_import
