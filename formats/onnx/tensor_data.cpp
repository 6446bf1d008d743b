// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/tensor_data.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/checked.h"
#include "base/os/file.h"
#include "base/os/mapping.h"
#include "base/os/path.h"
#include "base/os_error.h"

namespace quarry::onnx_import {
namespace {

constexpr std::int32_t kLocationExternal = 1;
// Some models have a file for each of a thousand tensors, and a process has not that many descriptors.
constexpr std::size_t kOpenFiles = 16;
constexpr char kShorter[] = "became shorter since the model was opened";
// A sparse tensor is made dense. What is larger than this may be so many times as large as its values.
constexpr std::uint64_t kSparseFreely = std::uint64_t{1} << 20, kSparseTimes = 1024;

Status external_error(std::string_view location, const char *what, ErrorId id = ErrorId::onnx_external_data) {
  return Status::error(id, format("external data file '%s': %s", printable(location), what));
}

Status external_error(std::string_view location, int number) {
  return external_error(location, os_error_text(number).c_str(), os_error_id(number, ErrorId::onnx_external_data));
}

// A location may name files in and below the model's folder, nothing else.
const char *bad_location(std::string_view location) {
  if (location.empty()) return "the model gives no location";
  if (os::is_separator(location.front())) return "an absolute path is not followed";
  if (location.find('\0') != std::string_view::npos) return "the path has a NUL byte";
  for (std::size_t begin = 0, end = 0; end < location.size(); begin = end + 1) {
    for (end = begin; end < location.size() && !os::is_separator(location[end]);) ++end;
    const std::string_view part = location.substr(begin, end - begin);
    if (os::leads_up(part)) return "a path that leaves the model's folder (\"..\") is not followed";
    if (!std::ranges::all_of(part, os::fits_name)) return "the path has a letter that no name of a file may have here";
  }
  return nullptr;
}

bool parse_u64(std::string_view text, std::uint64_t *out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// Values of a repeated field, one element each, narrowed to the element's bits. Below 8 bits ONNX packs them within the
// int32 field's elements: int32_data of a 4-bit tensor has one byte (two elements) per entry.
template <class Field>
void copy_narrowed(const Field &field, std::uint32_t bytes, unsigned char *to) {
  for (const auto value : field) {
    std::memcpy(to, &value, bytes);  // little-endian: the low bytes
    to += bytes;
  }
}

}  // namespace

ExternalData::~ExternalData() {
  if (has_source_) return;
  for (auto &[name, file] : files_) {
    void *const data = const_cast<void *>(file.bytes.data);
    if (use_ == ExternalUse::Read) free_block(data);
    else if (data) os::unmap(data, file.bytes.size);
  }
}

Status ExternalData::open_file(std::string_view location, File *out) const {
  OpenFd fd = os::open_file(String(location).c_str(), folder_.get());
  if (fd.get() < 0) return errno == ENOENT ? external_error(location, "is not there") : external_error(location, errno);
  os::FileInfo info;
  if (!os::get_info(fd.get(), &info) || info.kind != os::FileKind::Regular)
    return external_error(location, "is no regular file");
  out->device = info.device, out->number = info.number;
  const std::uint64_t size = info.size;
  if (size == 0) return {};
  if (use_ == ExternalUse::Map) {
    void *const data = os::map_file(fd.get(), 0, size, os::MappedFor::Reading);
    if (!data) return external_error(location, errno);
    out->bytes = {data, size};
    if (files_.size() <= kOpenFiles) out->fd = std::move(fd);
    return {};
  }
  struct Freed {
    void operator()(void *block) const noexcept { free_block(block); }
  };
  std::unique_ptr<void, Freed> block(allocate_block(size, 64));
  if (const int failed = os::read_at(fd.get(), block.get(), size, 0))
    return failed == os::kFileEnded ? external_error(location, kShorter) : external_error(location, failed);
  out->bytes = {block.release(), size};
  return {};
}

Status ExternalData::ask_source(std::string_view location, File *out) const {
  if (!source_) return external_error(location, "is not there");
  QR_ASSIGN_OR_RETURN(const std::optional<qir::Bytes> found, source_->find(location));
  if (!found) return external_error(location, "is not there");
  out->bytes = *found;
  return {};
}

Result<const ExternalData::File *> ExternalData::file(std::string_view location) {
  if (const char *what = bad_location(location)) return external_error(location, what);
  if (folder_.get() < 0 && !has_source_)
    return external_error(location, "the model was not opened from a file, so there is no folder to look in");
  if (const auto known = files_.find(location); known != files_.end()) {
    const Status::Payload *const why = known->second.failed.payload();
    if (why) return Status::foreign(why->code, why->id, why->message, why->hint);
    return &known->second;
  }
  const auto place = files_.emplace(String(location), File()).first;
  Status status;
  try {
    status = has_source_ ? ask_source(location, &place->second) : open_file(location, &place->second);
  } catch (...) {
    files_.erase(place);
    throw;
  }
  if (status.ok()) return &place->second;
  if (use_ == ExternalUse::Read || status.code() == QR_RESOURCE_EXHAUSTED) {
    files_.erase(place);
    return status;
  }
  place->second.failed = std::move(status);
  return file(location);
}

Status ExternalData::take(std::string_view location) {
  auto found = file(location);
  if (found.ok() || (use_ == ExternalUse::Map && found.status().code() != QR_RESOURCE_EXHAUSTED)) return {};
  return found.take_status();
}

Result<qir::Bytes> ExternalData::bytes(std::string_view location, std::uint64_t offset, std::uint64_t size) {
  QR_ASSIGN_OR_RETURN(const File *const known, file(location));
  const qir::Bytes all = known->bytes;
  // Of a mapped file that was cut since there are no pages to read, and to touch them would end the process.
  os::FileInfo now;
  if (known->fd.get() >= 0 && os::get_info(known->fd.get(), &now) && now.size < all.size)
    return external_error(location, kShorter);
  if (size == UINT64_MAX) size = offset <= all.size ? all.size - offset : 0;
  if (!range_fits(offset, size, all.size))
    return external_error(
        location, format("has %llu bytes; the model wants %llu at offset %llu", all.size, size, offset).c_str());
  return qir::Bytes{static_cast<const char *>(all.data) + offset, size};
}

void ExternalData::forget(qir::Bytes bytes) const noexcept {
  if (has_source_ || use_ == ExternalUse::Read) return;
  const auto at = reinterpret_cast<std::uintptr_t>(bytes.data);
  for (const auto &[location, file] : files_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(file.bytes.data);
    if (at >= begin && at - begin < file.bytes.size && bytes.size <= file.bytes.size - (at - begin))
      return os::forget_pages(bytes.data, bytes.size);
  }
}

void ExternalData::forget_all() const noexcept {
  for (const auto &[location, file] : files_) forget(file.bytes);
}

Result<int> ExternalData::folder() const {
  if (has_source_) return -1;
  for (const auto &[location, file] : files_) {
    if (file.failed.payload()) continue;
    os::FileInfo now;
    if (!os::get_info(location.c_str(), &now, folder_.get()) || now.device != file.device || now.number != file.number)
      return Status::error(
          ErrorId::onnx_external_data,
          format("external data file '%s': found another file of its name, or none, since the model was "
                 "opened, expected the same: a second process opens it by its name",
                 printable(location)),
          "open the model again, or set option compile.process to own");
  }
  return folder_.get();
}

Status ExternalData::take_file_of(const pb::TensorProto &tensor) {
  if (tensor.data_location() != kLocationExternal) return {};
  for (const auto &entry : tensor.external_data())
    if (entry.key() == "location") return take(entry.value());
  return {};  // read_tensor says that there is none
}

String element_type_name(std::int32_t number) {
  if (const auto dtype = dtype_from_number(number)) return dtype_name(*dtype);
  switch (number) {
    case pb::TensorProto_DataType_UNDEFINED: return "undefined";
    case pb::TensorProto_DataType_STRING: return "string";
    case pb::TensorProto_DataType_COMPLEX64: return "complex64";
    case pb::TensorProto_DataType_COMPLEX128: return "complex128";
    default: return format("type number %d", number);
  }
}

Result<DType> element_type(std::int32_t number, std::string_view subject) {
  if (const auto dtype = dtype_from_number(number)) return *dtype;
  return Status::error(ErrorId::onnx_type, format("%.*s: has element type %s, which Quarry does not take", subject,
                                                  element_type_name(number)));
}

namespace {

// What TensorProto says of itself, as its values are read.
struct TensorHead {
  std::string_view subject;
  qir::Shape shape;
  DType dtype = DType::Unknown;
  std::uint64_t count = 0, bytes = 0;  // elements, and what they take packed

  Status wrong_size(const char *field, unsigned long long found, unsigned long long wanted) const {
    return Status::error(ErrorId::onnx_invalid,
                         format("%.*s: %s holds %llu, shape %s of %s needs %llu", subject, field, found,
                                shape_text(shape.data(), shape.size()), dtype_name(dtype), wanted));
  }
};

Result<TensorHead> read_head(const pb::TensorProto &proto, std::string_view subject) {
  TensorHead head;
  head.subject = subject;
  QR_ASSIGN_OR_RETURN(head.dtype, element_type(proto.data_type(), subject));
  head.shape.assign(proto.dims().begin(), proto.dims().end());
  if (head.shape.size() > qir::kMaxRank)
    return Status::error(ErrorId::qir_rank, format("%.*s: has %zu dimensions, the limit is %zu", subject,
                                                   head.shape.size(), qir::kMaxRank));
  const auto count = element_count(head.shape.data(), head.shape.size());
  const auto size = count ? packed_size(head.dtype, *count) : std::nullopt;
  if (!size)
    return Status::error(ErrorId::onnx_invalid, format("%.*s: shape %s is no shape", subject,
                                                       shape_text(head.shape.data(), head.shape.size())));
  if (proto.has_segment()) return Status::error(ErrorId::onnx_invalid, format("%.*s: is stored in segments", subject));
  head.count = static_cast<std::uint64_t>(*count), head.bytes = *size;
  return head;
}

Result<qir::Bytes> external_bytes(const pb::TensorProto &proto, const TensorHead &head, ExternalData &external) {
  std::string_view location;
  std::uint64_t offset = 0, stored = UINT64_MAX;
  for (const auto &entry : proto.external_data()) {
    if (entry.key() == "location") location = entry.value();
    else if (entry.key() == "offset" ? !parse_u64(entry.value(), &offset)
                                     : entry.key() == "length" && !parse_u64(entry.value(), &stored))
      return Status::error(ErrorId::onnx_invalid, format("%.*s: external data %s '%s' is no number", head.subject,
                                                         entry.key(), printable(entry.value())));
  }
  if (stored == UINT64_MAX) stored = head.bytes;
  if (stored != head.bytes) return head.wrong_size("its external data (length, in bytes)", stored, head.bytes);
  auto found = external.bytes(location, offset, stored);
  if (!found.ok()) return std::move(found.take_status().with("tensor", head.subject));
  return found;
}

// Values of the field of their type, narrowed to `place`.
Status copy_fields(const pb::TensorProto &proto, const TensorHead &head, unsigned char *place) {
  const std::uint32_t bits = dtype_bits(head.dtype), width = bits < 8 ? 1 : bits / 8;
  const std::uint64_t entries = bits < 8 ? head.bytes : head.count;
  const auto take = [&](const char *name, const auto &field) -> Status {
    if (static_cast<std::uint64_t>(field.size()) != entries)
      return head.wrong_size(name, static_cast<std::uint64_t>(field.size()), entries);
    copy_narrowed(field, width, place);
    return {};
  };
  switch (head.dtype) {
    case DType::F32: return take("float_data", proto.float_data());
    case DType::F64: return take("double_data", proto.double_data());
    case DType::I64: return take("int64_data", proto.int64_data());
    case DType::U32:
    case DType::U64: return take("uint64_data", proto.uint64_data());
    default: return take("int32_data", proto.int32_data());
  }
}

}  // namespace

Result<Constant> read_tensor(const pb::TensorProto &proto, ExternalData &external, Store &store,
                             std::string_view subject) {
  QR_ASSIGN_OR_RETURN(TensorHead head, read_head(proto, subject));
  qir::Bytes raw;
  if (static_cast<std::int32_t>(proto.data_location()) == kLocationExternal) {
    QR_ASSIGN_OR_RETURN(raw, external_bytes(proto, head, external));
  } else if (proto.has_raw_data()) {
    raw = {proto.raw_data().data(), proto.raw_data().size()};
    if (raw.size != head.bytes) return head.wrong_size("raw_data (bytes)", raw.size, head.bytes);
  }
  Constant out;
  out.dtype = head.dtype;
  if (raw.data || head.bytes == 0) {
    const std::uintptr_t width = std::max<std::uint32_t>(dtype_bits(head.dtype) / 8, 1);
    const bool aligned = reinterpret_cast<std::uintptr_t>(raw.data) % width == 0;
    out.data = aligned && raw.data ? raw : store.copy(raw.data, raw.size);
  } else {
    auto *const place = static_cast<unsigned char *>(store.allocate(head.bytes));
    QR_RETURN_IF_ERROR(copy_fields(proto, head, place));
    out.data = {place, head.bytes};
  }
  out.shape = std::move(head.shape);
  return out;
}

namespace {

// Where coordinates lie in a row-major tensor; -1: outside of it.
std::int64_t row_major(const std::int64_t *coordinates, const qir::Shape &shape) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (coordinates[d] < 0 || coordinates[d] >= shape[d]) return -1;
    at = at * shape[d] + coordinates[d];
  }
  return at;
}

}  // namespace

Result<Constant> read_sparse_tensor(const pb::SparseTensorProto &proto, ExternalData &external, Store &store,
                                    std::string_view subject) {
  const String name(subject);
  QR_ASSIGN_OR_RETURN(const Constant values, read_tensor(proto.values(), external, store, name + " (values)"));
  QR_ASSIGN_OR_RETURN(const Constant indices, read_tensor(proto.indices(), external, store, name + " (indices)"));
  const auto bad = [&](const char *what) { return Status::error(ErrorId::onnx_invalid, format("%s: %s", name, what)); };
  Constant out;
  out.dtype = values.dtype;
  out.shape.assign(proto.dims().begin(), proto.dims().end());
  const std::size_t rank = out.shape.size();
  if (rank > qir::kMaxRank)
    return Status::error(ErrorId::qir_rank,
                         format("%s: has %zu dimensions, the limit is %zu", name, rank, qir::kMaxRank));
  const auto count = element_count(out.shape.data(), rank);
  const auto size = count ? packed_size(out.dtype, *count) : std::nullopt;
  if (!size) return bad("its shape is no shape");
  if (*size > kSparseFreely && *size / kSparseTimes > values.data.size)
    return Status::error(ErrorId::qir_limit,
                         format("%s: found %llu bytes for %llu of values, expected at most %llu times as many", name,
                                *size, values.data.size, kSparseTimes),
                         "store it as a dense tensor");
  if (dtype_bits(out.dtype) < 8)
    return Status::error(ErrorId::onnx_type, name + ": is a sparse tensor of elements under 8 bits");
  if (indices.dtype != DType::I64 || values.shape.size() != 1)
    return bad("sparse indices are not i64, or values are not a vector");
  const std::int64_t stored = values.shape[0];
  const bool linear = indices.shape.size() == 1 && indices.shape[0] == stored;
  const bool coordinates =
      indices.shape.size() == 2 && indices.shape[0] == stored && indices.shape[1] == static_cast<std::int64_t>(rank);
  if (!linear && !coordinates) return bad("sparse indices do not fit the values");
  const std::uint32_t width = dtype_bits(out.dtype) / 8;
  auto *place = static_cast<unsigned char *>(store.allocate(*size));
  std::memset(place, 0, *size);
  const auto *index = static_cast<const std::int64_t *>(indices.data.data);
  const auto *const from = static_cast<const unsigned char *>(values.data.data);
  for (std::int64_t i = 0; i < stored; ++i) {
    const std::int64_t at = linear ? index[i] : row_major(index + i * static_cast<std::int64_t>(rank), out.shape);
    if (at < 0 || at >= *count) return bad("a sparse index is out of range");
    std::memcpy(place + static_cast<std::uint64_t>(at) * width, from + static_cast<std::uint64_t>(i) * width, width);
  }
  out.data = {place, *size};
  return out;
}

}  // namespace quarry::onnx_import
