// SPDX-License-Identifier: Apache-2.0
#include "prepare/adapter_file.h"

#include <cmath>

#include "backends/common/json.h"
#include "base/checked.h"
#include "formats/onnx/tensor_data.h"

namespace quarry::prepare {
namespace {

// A header may be longer by the format; what lists ten thousand tensors is not.
constexpr std::uint64_t kMostHeader = std::uint64_t{2} << 20;
constexpr std::uint64_t kLengthBytes = 8;

// A file by its first bytes: the length of a JSON object that follows it.
bool is_safetensors(qir::Bytes bytes, std::uint64_t *header) {
  if (bytes.size < kLengthBytes + 2) return false;
  const auto *const first = static_cast<const unsigned char *>(bytes.data);
  *header = 0;
  for (unsigned i = 0; i < kLengthBytes; ++i) *header |= std::uint64_t{first[i]} << (8 * i);
  return first[kLengthBytes] == '{';
}

struct NamedType {
  const char *name;
  DType dtype;
};
constexpr NamedType kTypes[] = {
    {"F64", DType::F64}, {"F32", DType::F32}, {"F16", DType::F16}, {"BF16", DType::BF16}, {"I64", DType::I64},
};

class Safetensors {
 public:
  Safetensors(qir::Bytes bytes, std::uint64_t header, std::string_view name, AdapterFile &out)
      : bytes_(bytes), header_(header), name_(name), out_(out) {}

  Status read() {
    if (header_ > kMostHeader)
      return bad(format("its header has %llu bytes, expected at most %llu", header_, kMostHeader));
    if (!range_fits(kLengthBytes, header_, bytes_.size))
      return bad(format("its header has %llu bytes, and the file %llu", header_, bytes_.size));
    const char *const text = static_cast<const char *>(bytes_.data) + kLengthBytes;
    auto header = htp::read_json({text, header_}, name_);
    if (!header.ok()) return bad(String(header.status().message()));
    const auto *const members = header->as<htp::JsonObject>();
    if (!members) return bad("its header is no JSON object");
    for (const htp::JsonMember &member : *members)
      QR_RETURN_IF_ERROR(member.name == "__metadata__" ? read_metadata(member.value) : read_tensor(member));
    return {};
  }

 private:
  Status bad(const String &what) const {
    return Status::errorf(ErrorId::adapter_damaged, "%s: as a safetensors file it is damaged: %s", printable(name_),
                          what);
  }
  Status bad_tensor(std::string_view tensor, const char *what) const {
    return bad(format("tensor %s: %s", printable(tensor), what));
  }
  Status read_metadata(const htp::JsonValue &from) {
    const auto *const members = from.as<htp::JsonObject>();
    if (!members) return bad("__metadata__ is no object");
    for (const htp::JsonMember &member : *members) {
      const String *const text = member.value.as<String>();
      if (!text) return bad("__metadata__ has what is no text");
      out_.metadata.emplace_back(member.name, *text);
    }
    return {};
  }
  // A whole number that a double holds exactly.
  static bool read_number(const htp::JsonValue &from, std::uint64_t *out) {
    const double *const number = from.as<double>();
    constexpr double kMost = 9007199254740992.0;
    if (!number || !(*number >= 0) || *number > kMost || *number != std::floor(*number)) return false;
    *out = static_cast<std::uint64_t>(*number);
    return true;
  }
  Status read_tensor(const htp::JsonMember &from) {
    const auto *const members = from.value.as<htp::JsonObject>();
    if (!members) return bad_tensor(from.name, "found no object, expected dtype, shape and data_offsets");
    AdapterTensor tensor;
    tensor.name = from.name;
    std::uint64_t begin = 1, end = 0;
    bool has_shape = false;
    for (const htp::JsonMember &member : *members) {
      const auto *const list = member.value.as<htp::JsonArray>();
      if (member.name == "dtype") {
        const String *const text = member.value.as<String>();
        for (const NamedType &type : kTypes)
          if (text && *text == type.name) tensor.dtype = type.dtype;
        if (text && tensor.dtype == DType::Unknown)
          return Status::errorf(ErrorId::adapter_unsupported,
                                "%s: tensor %s is of type %s, expected F32, F16, BF16 or F64", printable(name_),
                                printable(from.name), printable(*text));
      } else if (member.name == "shape" && list && list->size() <= qir::kMaxRank) {
        has_shape = true;
        for (const htp::JsonValue &value : *list) {
          std::uint64_t extent = 0;
          if (!read_number(value, &extent) || extent > static_cast<std::uint64_t>(qir::kMaxExtent))
            return bad_tensor(from.name, "its shape has what is no number of elements");
          tensor.shape.push_back(static_cast<std::int64_t>(extent));
        }
      } else if (member.name == "data_offsets" && list && list->size() == 2) {
        if (!read_number((*list)[0], &begin) || !read_number((*list)[1], &end)) begin = 1, end = 0;
      }
    }
    if (tensor.dtype == DType::Unknown) return bad_tensor(from.name, "it has no dtype");
    if (!has_shape) return bad_tensor(from.name, "it has no shape of up to eight dimensions");
    if (begin > end) return bad_tensor(from.name, "its data_offsets are no two numbers in order");
    const std::uint64_t front = kLengthBytes + header_;  // both were checked against the file
    if (!range_fits(begin, end - begin, bytes_.size - front))
      return bad_tensor(from.name,
                        format("its data end at %llu, and there are %llu", end, bytes_.size - front).c_str());
    const auto count = element_count(tensor.shape.data(), tensor.shape.size());
    const auto needed = count ? packed_size(tensor.dtype, *count) : std::nullopt;
    if (!needed || *needed != end - begin)
      return bad_tensor(from.name, format("it has %llu bytes, expected as many as its type and shape need, %s",
                                          end - begin, shape_text(tensor.shape.data(), tensor.shape.size()))
                                       .c_str());
    tensor.data = {static_cast<const char *>(bytes_.data) + front + begin, end - begin};
    out_.tensors.push_back(std::move(tensor));
    return {};
  }

  const qir::Bytes bytes_;
  const std::uint64_t header_;
  const std::string_view name_;
  AdapterFile &out_;
};

Status read_onnx(qir::Bytes bytes, std::string_view name, AdapterFile &out) {
  if (bytes.size > INT32_MAX || !out.proto.ParseFromArray(bytes.data, static_cast<int>(bytes.size)) ||
      out.proto.graph().initializer().empty())
    return Status::errorf(ErrorId::adapter_damaged,
                          "%s: found neither a safetensors file nor an ONNX model with initializers, expected one of "
                          "them (a binary section of Qualcomm's is given to no library: what is none crashes it)",
                          printable(name));
  for (const auto &entry : out.proto.metadata_props())
    out.metadata.emplace_back(String(std::string_view(entry.key())), String(std::string_view(entry.value())));
  onnx_import::ExternalData none(OpenFd(), onnx_import::ExternalUse::Read, nullptr);
  for (const auto &proto : out.proto.graph().initializer()) {
    QR_ASSIGN_OR_RETURN(qir::Constant read, onnx_import::read_tensor(proto, none, out.store, proto.name()));
    out.tensors.push_back({String(std::string_view(proto.name())), read.dtype, std::move(read.shape), read.data});
  }
  return {};
}

}  // namespace

Result<Unique<AdapterFile>> read_adapter_file(qir::Bytes bytes, std::string_view name) {
  auto out = quarry::make_unique<AdapterFile>();
  std::uint64_t header = 0;
  if (is_safetensors(bytes, &header)) QR_RETURN_IF_ERROR(Safetensors(bytes, header, name, *out).read());
  else QR_RETURN_IF_ERROR(read_onnx(bytes, name, *out));
  return out;
}

}  // namespace quarry::prepare
