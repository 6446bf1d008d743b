// SPDX-License-Identifier: Apache-2.0
#include "quantize/settings/source.h"

#include <algorithm>
#include <cerrno>

#include "base/os/file.h"
#include "base/os/path.h"
#include "base/os_error.h"
#include "base/stop.h"
#include "base/text.h"
#include "prepare/read_file.h"

namespace quarry::quantize {
namespace {

Status failed(std::string_view kind, int number) {
  return Status::error(os_error_id(number, ErrorId::io_error),
                       format("the %s cannot be read: %s", String(kind), os_error_text(number)));
}

// Calls read(at, to, count), which gives an errno, for piece after piece, between which it may be stopped.
template <class Read>
Status in_pieces(std::string_view kind, std::size_t size, Vector<std::uint8_t> *out, Read &&read) {
  constexpr std::size_t kPiece = 4 << 20;
  out->reserve(size);
  for (std::size_t done = 0; done < size; done = out->size()) {
    QR_RETURN_IF_ERROR(stop_status("reading a model"));
    const std::size_t count = std::min(kPiece, size - done);
    out->resize(done + count);
    if (const int number = read(done, out->data() + done, count)) return failed(kind, number);
  }
  return {};
}

Status read_descriptor(std::string_view kind, const qr_model_source &from, Vector<std::uint8_t> *out) {
  os::FileInfo info;
  if (!os::get_info(from.fd, &info)) return failed(kind, errno);
  const std::uint64_t end = info.size;
  if (info.kind != os::FileKind::Regular) return failed(kind, ESPIPE);
  if (from.offset > end || from.size_bytes > end - from.offset)
    return Status::error(ErrorId::index_out_of_range,
                         format("the %s: its file has %llu bytes, expected %llu at offset %llu", String(kind), end,
                                from.size_bytes, from.offset));
  const auto size = static_cast<std::size_t>(from.size_bytes ? from.size_bytes : end - from.offset);
  return in_pieces(kind, size, out, [&](std::size_t done, std::uint8_t *to, std::size_t count) -> int {
    const int number = os::read_at(from.fd, to, count, from.offset + done);
    return number == os::kFileEnded ? EIO : number;
  });
}

Status read_by_reader(std::string_view kind, const qr_model_source &from, Vector<std::uint8_t> *out) {
  return in_pieces(kind, static_cast<std::size_t>(from.size_bytes), out,
                   [&](std::size_t done, std::uint8_t *to, std::size_t count) -> int {
                     return from.read(from.self, done, to, count);
                   });
}

}  // namespace

std::string_view path_of(const qr_model_source &from) noexcept {
  if (from.kind != QR_SOURCE_PATH || !from.path.data) return {};
  return from.path.size == QR_NUL_TERMINATED ? std::string_view(from.path.data)
                                             : std::string_view(from.path.data, from.path.size);
}

Status check_source(const char *function, const qr_model_source &from) {
  const auto missing = [&](const char *member) {
    return Status::error(ErrorId::null_argument, format("%s: found NULL for source->%s", function, member));
  };
  if constexpr (!os::kDescriptorsAreShared)
    if (from.kind == QR_SOURCE_DESCRIPTOR || from.folder_fd >= 0)
      return no_descriptors(function, "give a path, or read the file in a QR_MODEL_BY_READER");
  switch (from.kind) {
    case QR_SOURCE_PATH: {
      if (!from.path.data && from.path.size) return missing("path.data");
      const std::string_view path = path_of(from);
      if (path.find('\0') == path.npos) return {};
      return Status::error(ErrorId::not_utf8, format("%s: source->path: found a path with NUL bytes in it", function));
    }
    case QR_SOURCE_MEMORY: return from.data ? Status() : missing("data");
    case QR_SOURCE_DESCRIPTOR:
      if (from.fd >= 0) return {};
      return Status::error(ErrorId::bad_argument,
                           format("%s: source->fd is %d, expected an open descriptor", function, from.fd));
    case QR_SOURCE_READER: return from.read ? Status() : missing("read");
    default:
      return Status::error(ErrorId::bad_argument,
                           format("%s: source->kind is %u, expected a QR_SOURCE_*", function, from.kind));
  }
}

Result<SourceBytes> read_source(std::string_view kind, const qr_model_source &from) {
  SourceBytes out;
  switch (from.kind) {
    case QR_SOURCE_MEMORY: out.all = {from.data, from.size_bytes}; return out;
    case QR_SOURCE_DESCRIPTOR: QR_RETURN_IF_ERROR(read_descriptor(kind, from, &out.own)); break;
    case QR_SOURCE_READER: QR_RETURN_IF_ERROR(read_by_reader(kind, from, &out.own)); break;
    default: {
      QR_ASSIGN_OR_RETURN(out.own, prepare::read_file(kind, path_of(from)));
    }
  }
  out.all = {out.own.data(), out.own.size()};
  return out;
}

OpenFd folder_of(const qr_model_source &from) {
  if (from.folder_fd >= 0) return os::duplicate(from.folder_fd);
  if (from.kind != QR_SOURCE_PATH) return OpenFd();
  const std::string_view path = path_of(from);
  const std::size_t slash = os::last_separator(path);
  const String folder = slash == std::string_view::npos ? String(".") : String(path.substr(0, slash + 1));
  return os::open_folder(folder.c_str());
}

Result<std::optional<qir::Bytes>> CalledExternal::find(std::string_view location) {
  constexpr const char *kWhat = "external data";
  qr_model_source found = QR_MODEL_SOURCE_INIT;
  const std::int32_t number = from_.external(from_.self, {location.data(), location.size()}, &found);
  if (number == ENOENT) return std::optional<qir::Bytes>();
  if (number != 0) return failed(kWhat, number);
  QR_RETURN_IF_ERROR(check_source(kWhat, found));
  QR_ASSIGN_OR_RETURN(SourceBytes read, read_source(kWhat, found));
  files_.push_back(make_unique<SourceBytes>(std::move(read)));
  return std::optional<qir::Bytes>(files_.back()->all);
}

}  // namespace quarry::quantize
