// SPDX-License-Identifier: Apache-2.0
// The compiler library, libquarry-prepare: ONNX in, QIR out. Opened when the first .onnx is, never before, and kept.
#pragma once

#include "base/status.h"
#include "prepare/prepare_api.h"
#include "runtime/process.h"

namespace quarry {

class PrepareLibrary {
 public:
  // `path`: the file to open; empty: beside libquarry, in the compiled-in folder, or where the dynamic linker finds it.
  PrepareLibrary(std::string_view path, Process &process) : path_(path), mutex_(process) {}
  std::string_view path() const noexcept { return path_; }  // as it was given
  Result<const qr_prepare_api *> api();

 private:
  Result<const qr_prepare_api *> find();
  String path_;
  ProcessMutex mutex_;
  const qr_prepare_api *api_ = nullptr;
};

// The error sink of the compiler library's calls: collects what they say, and turns their code into a Status.
class ErrorCollector {
 public:
  ErrorCollector() noexcept;
  const qr_error_sink *sink() noexcept { return &sink_; }
  Status status(qr_plugin_code code, const char *what);

 private:
  qr_error_sink sink_;
  Status status_;
};

}  // namespace quarry
