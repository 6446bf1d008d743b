// SPDX-License-Identifier: Apache-2.0
// Why a model cannot be imported: everything that stands in the way, not the first of it.
#pragma once

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
