// SPDX-License-Identifier: Apache-2.0
// What a qr_model_source says, as this library reads it: the C ABI of the core gives no bytes of a model.
#pragma once

#include "base/open_fd.h"
#include "graph/external_source.h"
#include "quarry/model.h"

namespace quarry::quantize {

// What the kind needs is there. `function` begins messages.
Status check_source(const char *function, const qr_model_source &from);

struct SourceBytes {
  qir::Bytes all;
  Vector<std::uint8_t> own;  // where they are nobody else's
};
// `kind`: what it is called in errors.
Result<SourceBytes> read_source(std::string_view kind, const qr_model_source &from);
// The path of a source that has one.
std::string_view path_of(const qr_model_source &from) noexcept;
// Of its external data; none: it has none, or it cannot be opened, which shows when a file is sought there.
OpenFd folder_of(const qr_model_source &from);

// External data by the callback of a source.
class CalledExternal final : public qir::ExternalSource {
 public:
  explicit CalledExternal(const qr_model_source &from) noexcept : from_(from) {}
  Result<std::optional<qir::Bytes>> find(std::string_view location) override;
  // Where the files lie.
  Vector<Unique<SourceBytes>> take() noexcept { return std::move(files_); }

 private:
  const qr_model_source &from_;
  Vector<Unique<SourceBytes>> files_;
};

}  // namespace quarry::quantize
