// SPDX-License-Identifier: Apache-2.0
// The compiler library, libquarry-prepare: ONNX in, QIR out. Opened when the first .onnx is, never before, and kept.
#pragma once

#include "base/paths.h"
#include "base/status.h"
#include "prepare/prepare_api.h"
#include "runtime/core/process.h"

namespace quarry {

// A static build may lack it: there is no ONNX there, and no adapters, whose places are ordinary inputs.
#if defined(QR_NO_DLOPEN) && !defined(QR_STATIC_PREPARE)
inline constexpr bool kHasPrepare = false;
#else
inline constexpr bool kHasPrepare = true;
#endif

class PrepareLibrary {
 public:
  // `path`: the file to open, a relative one from here on an absolute one (but a bare name is the dynamic linker's to
  // find); empty: beside libquarry, which is in `library_folder`, or in the compiled-in folder.
  PrepareLibrary(std::string_view path, std::string_view library_folder, Process &process)
      : path_(path.find('/') == path.npos ? String(path) : absolute_path(path)),
        library_folder_(library_folder),
        mutex_(process) {}
  std::string_view path() const noexcept { return path_; }
  Result<const qr_prepare_api *> api();

 private:
  Result<const qr_prepare_api *> find();
  const String path_, library_folder_;
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
