// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/prepare_library.h"

#include "base/os/library.h"
#include "base/os_error.h"
#include "runtime/core/file.h"
#include "runtime/core/plugin_text.h"

#ifdef QR_STATIC_PREPARE
// Not weak: this reference takes libquarry-prepare out of its archive.
extern "C" const qr_prepare_api *qr_prepare_query(uint32_t version);
#elif !defined(QR_NO_WEAK_SYMBOLS)
// There when the program itself links libquarry-prepare.
extern "C" __attribute__((weak, visibility("default"))) const qr_prepare_api *qr_prepare_query(uint32_t version);
#endif

#define QR_TEXT_(x) #x
#define QR_TEXT(x) QR_TEXT_(x)

namespace quarry {
namespace {

Result<const qr_prepare_api *> ask(qr_prepare_query_fn query, const char *where) {
  const qr_prepare_api *api = query(QR_PREPARE_VERSION);
  if (api && api->version == QR_PREPARE_VERSION && api->struct_size == sizeof(qr_prepare_api)) return api;
  return Status::errorf(ErrorId::prepare_mismatch,
                        "compiler library %s: it is of another release, expected one with interface version %u",
                        printable(where, 1000), QR_PREPARE_VERSION);
}

// The function of a libquarry-prepare that is a part of this program; nullptr: there is none.
qr_prepare_query_fn linked_in() {
#ifdef QR_STATIC_PREPARE
  return qr_prepare_query;
#elif defined(QR_NO_WEAK_SYMBOLS)
  return nullptr;
#else
  return &qr_prepare_query ? qr_prepare_query : nullptr;
#endif
}

#ifndef QR_NO_DLOPEN

Result<const qr_prepare_api *> open_file(const char *file) {
  // Its symbols are its own: protobuf's stay away from an application that has another.
  void *library = os::open_library(file);
  if (!library) {
    const String why = os::library_error();
    return Status::errorf(out_of_descriptors() ? ErrorId::out_of_descriptors : ErrorId::prepare_missing,
                          "compiler library %s: it cannot be opened: %s", printable(file, 1000), printable(why, 1000));
  }
  const auto query = reinterpret_cast<qr_prepare_query_fn>(os::find_symbol(library, "qr_prepare_query"));
  if (!query)
    return Status::errorf(ErrorId::prepare_mismatch, "compiler library %s: it has no function qr_prepare_query",
                          printable(file, 1000));
  return ask(query, file);
}

#endif

}  // namespace

Result<const qr_prepare_api *> PrepareLibrary::api() {
  const ProcessLock lock(mutex_);
  QR_RETURN_IF_ERROR(lock.status("the compiler library of this runtime"));
  if (!api_) {
    QR_ASSIGN_OR_RETURN(api_, find());
  }
  return api_;
}

Result<const qr_prepare_api *> PrepareLibrary::find() {
  if (qr_prepare_query_fn query = linked_in(); query && path_.empty()) return ask(query, "linked into this program");
#ifdef QR_NO_DLOPEN
  if (!path_.empty())
    return Status::hinted(ErrorId::prepare_missing, "leave prepare_path empty: what there is is linked in",
                          "compiler library %s: this program was linked statically and opens no libraries",
                          printable(path_, 1000).c_str());
  return Status::error(
      ErrorId::prepare_missing,
      "an .onnx model and the table of operators need the compiler library, which was left out of this static build",
      "run a compiled .qrm, or build Quarry with -Dprepare=true");
#else
  if (!path_.empty()) return open_file(path_.c_str());
  String tried;
  const String file = find_own_file(library_folder_, "/" QR_PREPARE_FILE, "/../prepare/" QR_PREPARE_FILE, tried);
  if (!file.empty()) return open_file(file.c_str());
  return Status::errorf(
      ErrorId::prepare_missing,
      "an .onnx model and the table of operators need the compiler library, found no %s (looked at %s)",
      QR_PREPARE_FILE, tried);
#endif
}

ErrorCollector::ErrorCollector() noexcept {
  sink_ = {sizeof(qr_error_sink), 0, this,
           [](void *self, qr_plugin_code code, qr_plugin_string id, qr_plugin_string message, qr_plugin_string hint) {
             static_cast<ErrorCollector *>(self)->status_ =
                 Status::foreign(code, text_of(id), text_of(message), text_of(hint));
           },
           [](void *self, qr_plugin_string key, qr_plugin_string value) {
             static_cast<ErrorCollector *>(self)->status_.with(text_of(key), text_of(value));
           }};
}

Status ErrorCollector::status(qr_plugin_code code, const char *what) {
  if (code == QR_OK) return {};
  if (code == QR_RESOURCE_EXHAUSTED && status_.ok()) return Status::out_of_memory();
  if (!status_.ok() && status_.code() == code) return std::move(status_);
  return Status::errorf(ErrorId::internal, "compiler library: %s failed with code %d and gave no reason", what, code);
}

}  // namespace quarry
