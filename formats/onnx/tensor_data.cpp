// SPDX-License-Identifier: Apache-2.0
#include "formats/onnx/tensor_data.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "base/checked.h"
#include "base/os_error.h"

namespace quarry::onnx_import {
namespace {

constexpr std::int32_t kLocationExternal = 1;

Status external_error(std::string_view location, const char *what, ErrorId id = ErrorId::onnx_external_data) {
  return Status::error(id, format("external data file '%s': %s", printable(location).c_str(), what));
}

Status external_error(std::string_view location, int number) {
  return external_error(location, os_error_text(number).c_str(), os_error_id(number, ErrorId::onnx_external_data));
}

// A location may name files in and below the model's folder, nothing else.
const char *bad_location(std::string_view location) {
  if (location.empty()) return "the model gives no location";
  if (location.front() == '/') return "an absolute path is not followed";
  if (location.find('\0') != std::string_view::npos) return "the path has a NUL byte";
  for (std::size_t begin = 0; begin <= location.size();) {
    const std::size_t end = std::min(location.find('/', begin), location.size());
    if (location.substr(begin, end - begin) == "..")
      return "a path that leaves the model's folder (\"..\") is not followed";
    begin = end + 1;
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
  for (auto &[name, bytes] : files_) {
    void *const data = const_cast<void *>(bytes.data);
    if (use_ == ExternalUse::Read) free_block(data);
    else if (data) munmap(data, bytes.size);
  }
}

Result<qir::Bytes> ExternalData::open_file(std::string_view location) const {
  const String path = folder_ + "/" + String(location);
  struct OpenFile {
    const int fd;
    ~OpenFile() {
      if (fd >= 0) ::close(fd);
    }
  } const file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) return errno == ENOENT ? external_error(location, "is not there") : external_error(location, errno);
  struct stat info;
  if (fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) return external_error(location, "is no regular file");
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size == 0) return qir::Bytes{};
  if (use_ == ExternalUse::Map) {
    void *const data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd, 0);
    if (data == MAP_FAILED) return external_error(location, errno);
    return qir::Bytes{data, size};
  }
  struct Freed {
    void operator()(void *block) const noexcept { free_block(block); }
  };
  std::unique_ptr<void, Freed> block(allocate_block(size, 64));
  for (std::uint64_t done = 0; done < size;) {
    const ssize_t got = pread(file.fd, static_cast<char *>(block.get()) + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return external_error(location, errno);
    if (got == 0) return external_error(location, "became shorter while it was read");
    done += static_cast<std::uint64_t>(got);
  }
  return qir::Bytes{block.release(), size};
}

Result<qir::Bytes> ExternalData::file(std::string_view location) {
  if (const char *what = bad_location(location)) return external_error(location, what);
  if (folder_.empty())
    return external_error(location, "the model was not opened from a file, so there is no folder to look in");
  if (const auto known = files_.find(location); known != files_.end()) return known->second;
  struct Place {
    StringMap<qir::Bytes> &files;
    StringMap<qir::Bytes>::iterator at;
    bool filled = false;
    ~Place() {
      if (!filled) files.erase(at);
    }
  } place{files_, files_.emplace(String(location), qir::Bytes{}).first};
  QR_ASSIGN_OR_RETURN(place.at->second, open_file(location));
  place.filled = true;
  return place.at->second;
}

Result<qir::Bytes> ExternalData::bytes(std::string_view location, std::uint64_t offset, std::uint64_t size) {
  QR_ASSIGN_OR_RETURN(const qir::Bytes all, file(location));
  if (size == UINT64_MAX) size = offset <= all.size ? all.size - offset : 0;
  if (!range_fits(offset, size, all.size))
    return external_error(
        location,
        format("has %llu bytes; the model wants %llu at offset %llu", static_cast<unsigned long long>(all.size),
               static_cast<unsigned long long>(size), static_cast<unsigned long long>(offset))
            .c_str());
  return qir::Bytes{static_cast<const char *>(all.data) + offset, size};
}

Status ExternalData::take_file_of(const pb::TensorProto &tensor) {
  if (tensor.data_location() != kLocationExternal) return {};
  for (const auto &entry : tensor.external_data())
    if (entry.key() == "location") return file(entry.value()).status();
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
  return Status::error(ErrorId::onnx_type,
                       format("%.*s: has element type %s, which Quarry does not take", static_cast<int>(subject.size()),
                              subject.data(), element_type_name(number).c_str()));
}

Result<Constant> read_tensor(const pb::TensorProto &proto, ExternalData &external, Store &store,
                             std::string_view subject) {
  const int length = static_cast<int>(subject.size());
  Constant out;
  QR_ASSIGN_OR_RETURN(out.dtype, element_type(proto.data_type(), subject));
  out.shape.assign(proto.dims().begin(), proto.dims().end());
  if (out.shape.size() > qir::kMaxRank)
    return Status::error(ErrorId::qir_rank, format("%.*s: has %zu dimensions, the limit is %zu", length, subject.data(),
                                                   out.shape.size(), qir::kMaxRank));
  const auto count = element_count(out.shape.data(), out.shape.size());
  const auto size = count ? packed_size(out.dtype, *count) : std::nullopt;
  if (!size)
    return Status::error(ErrorId::onnx_invalid, format("%.*s: shape %s is no shape", length, subject.data(),
                                                       shape_text(out.shape.data(), out.shape.size()).c_str()));
  if (proto.has_segment())
    return Status::error(ErrorId::onnx_invalid, format("%.*s: is stored in segments", length, subject.data()));

  const auto wrong_size = [&](const char *field, unsigned long long found, unsigned long long wanted) {
    return Status::error(ErrorId::onnx_invalid,
                         format("%.*s: %s holds %llu, shape %s of %s needs %llu", length, subject.data(), field, found,
                                shape_text(out.shape.data(), out.shape.size()).c_str(), dtype_name(out.dtype), wanted));
  };
  const std::uint32_t bits = dtype_bits(out.dtype), width = bits < 8 ? 1 : bits / 8;
  qir::Bytes raw;
  if (static_cast<std::int32_t>(proto.data_location()) == kLocationExternal) {
    std::string_view location;
    std::uint64_t offset = 0, stored = UINT64_MAX;
    for (const auto &entry : proto.external_data()) {
      if (entry.key() == "location") location = entry.value();
      else if (entry.key() == "offset" ? !parse_u64(entry.value(), &offset)
                                       : entry.key() == "length" && !parse_u64(entry.value(), &stored))
        return Status::error(ErrorId::onnx_invalid,
                             format("%.*s: external data %s '%s' is no number", length, subject.data(),
                                    entry.key().c_str(), printable(entry.value()).c_str()));
    }
    if (stored == UINT64_MAX) stored = *size;
    if (stored != *size) return wrong_size("its external data (length, in bytes)", stored, *size);
    auto found = external.bytes(location, offset, stored);
    if (!found.ok()) return std::move(found.status().with("tensor", subject));
    raw = *found;
  } else if (proto.has_raw_data()) {
    raw = {proto.raw_data().data(), proto.raw_data().size()};
    if (raw.size != *size) return wrong_size("raw_data (bytes)", raw.size, *size);
  }
  if (raw.data || *size == 0) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(raw.data) % width == 0;
    out.data = aligned && raw.data ? raw : store.copy(raw.data, raw.size);
    return out;
  }

  const std::uint64_t entries = bits < 8 ? *size : static_cast<std::uint64_t>(*count);
  auto *place = static_cast<unsigned char *>(store.allocate(*size));
  out.data = {place, *size};
  const auto take = [&](const char *name, const auto &field) -> Status {
    if (static_cast<std::uint64_t>(field.size()) != entries)
      return wrong_size(name, static_cast<std::uint64_t>(field.size()), entries);
    copy_narrowed(field, width, place);
    return {};
  };
  switch (out.dtype) {
    case DType::F32: QR_RETURN_IF_ERROR(take("float_data", proto.float_data())); break;
    case DType::F64: QR_RETURN_IF_ERROR(take("double_data", proto.double_data())); break;
    case DType::I64: QR_RETURN_IF_ERROR(take("int64_data", proto.int64_data())); break;
    case DType::U32:
    case DType::U64: QR_RETURN_IF_ERROR(take("uint64_data", proto.uint64_data())); break;
    default: QR_RETURN_IF_ERROR(take("int32_data", proto.int32_data())); break;
  }
  return out;
}

Result<Constant> read_sparse_tensor(const pb::SparseTensorProto &proto, ExternalData &external, Store &store,
                                    std::string_view subject) {
  const String name(subject);
  QR_ASSIGN_OR_RETURN(const Constant values, read_tensor(proto.values(), external, store, name + " (values)"));
  QR_ASSIGN_OR_RETURN(const Constant indices, read_tensor(proto.indices(), external, store, name + " (indices)"));
  const auto bad = [&](const char *what) {
    return Status::error(ErrorId::onnx_invalid, format("%s: %s", name.c_str(), what));
  };
  Constant out;
  out.dtype = values.dtype;
  out.shape.assign(proto.dims().begin(), proto.dims().end());
  const std::size_t rank = out.shape.size();
  if (rank > qir::kMaxRank)
    return Status::error(ErrorId::qir_rank,
                         format("%s: has %zu dimensions, the limit is %zu", name.c_str(), rank, qir::kMaxRank));
  const auto count = element_count(out.shape.data(), rank);
  const auto size = count ? packed_size(out.dtype, *count) : std::nullopt;
  if (!size) return bad("its shape is no shape");
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
  for (std::int64_t i = 0; i < stored; ++i) {
    std::int64_t at = 0;
    if (linear) at = index[i];
    else
      for (std::size_t d = 0; d < rank; ++d) {
        const std::int64_t x = index[i * static_cast<std::int64_t>(rank) + static_cast<std::int64_t>(d)];
        if (x < 0 || x >= out.shape[d]) return bad("a sparse index is out of range");
        at = at * out.shape[d] + x;
      }
    if (at < 0 || at >= *count) return bad("a sparse index is out of range");
    std::memcpy(place + static_cast<std::uint64_t>(at) * width,
                static_cast<const unsigned char *>(values.data.data) + static_cast<std::uint64_t>(i) * width, width);
  }
  out.data = {place, *size};
  return out;
}

}  // namespace quarry::onnx_import
