// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/state.h"

#include <bit>
#include <cstring>

#include "base/hash.h"
#include "base/text.h"

namespace quarry::quantize {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers lie in the file as they lie in memory");

constexpr char kMagic[8] = {'Q', 'R', 'C', 'A', 'L', 'I', 'B', '\n'};
constexpr std::uint32_t kVersion = 2;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t bytes;  // behind the header
  std::uint64_t sum;    // XXH3-64 of these
};
static_assert(sizeof(Header) == 32);

// Numbers of 8 bytes; texts and bytes behind their length.
class Writer {
 public:
  void number(std::uint64_t value) { raw(&value, sizeof value); }
  template <class Bytes>
  void bytes(const Bytes &from) {
    number(from.size());
    raw(from.data(), from.size());
  }
  const Vector<std::uint8_t> &made() const noexcept { return out_; }

 private:
  void raw(const void *data, std::size_t size) {
    const auto *from = static_cast<const std::uint8_t *>(data);
    out_.insert(out_.end(), from, from + size);
  }
  Vector<std::uint8_t> out_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> from) noexcept : left_(from) {}
  bool number(std::uint64_t *out) noexcept {
    if (left_.size() < sizeof *out) return false;
    std::memcpy(out, left_.data(), sizeof *out);
    left_ = left_.subspan(sizeof *out);
    return true;
  }
  // So many things follow, each of 8 bytes or more.
  bool count(std::uint64_t *out) noexcept { return number(out) && *out <= left_.size() / 8; }
  template <class Bytes>
  bool bytes(Bytes *out) {
    std::uint64_t size;
    if (!number(&size) || size > left_.size()) return false;
    const auto *from = reinterpret_cast<const typename Bytes::value_type *>(left_.data());
    out->assign(from, from + size);
    left_ = left_.subspan(static_cast<std::size_t>(size));
    return true;
  }
  bool at_end() const noexcept { return left_.empty(); }

 private:
  std::span<const std::uint8_t> left_;
};

Status damaged(std::string_view path, const char *found) {
  return Status::error(
             ErrorId::unknown_format,
             format("the calibration '%s': found %s, expected one that was saved whole", printable(path, 1000), found),
             "delete the file to begin anew")
      .with("file", path);
}

bool read_samples(Reader &from, Vector<Vector<Vector<std::uint8_t>>> *out) {
  std::uint64_t count, inputs;
  if (!from.count(&count)) return false;
  for (std::uint64_t s = 0; s < count; ++s) {
    if (!from.count(&inputs)) return false;
    auto &sample = out->emplace_back();
    for (std::uint64_t i = 0; i < inputs; ++i)
      if (!from.bytes(&sample.emplace_back())) return false;
  }
  return true;
}

void write_samples(const Vector<Vector<Vector<std::uint8_t>>> &samples, Writer &out) {
  out.number(samples.size());
  for (const auto &sample : samples) {
    out.number(sample.size());
    for (const auto &input : sample) out.bytes(input);
  }
}

bool read_payload(Reader from, State *out) {
  std::uint64_t count, chosen;
  if (!from.number(&out->model) || !from.bytes(&out->settings) || !from.bytes(&out->note) ||
      !from.number(&out->samples) || !from.number(&chosen) || chosen > 1 || !read_samples(from, &out->kept) ||
      !read_samples(from, &out->held))
    return false;
  out->graph_chosen = chosen == 1;
  if (!from.count(&count)) return false;
  for (std::uint64_t t = 0; t < count; ++t) {
    State::Known &known = out->tensors.emplace_back();
    if (!from.bytes(&known.tensor) || !from.bytes(&known.bytes)) return false;
  }
  return from.at_end();
}

}  // namespace

Status write_state(const State &state, TargetWriter &to) {
  Writer out;
  out.number(state.model);
  out.bytes(state.settings);
  out.bytes(state.note);
  out.number(state.samples);
  out.number(state.graph_chosen);
  write_samples(state.kept, out);
  write_samples(state.held, out);
  out.number(state.tensors.size());
  for (const State::Known &known : state.tensors) out.bytes(known.tensor), out.bytes(known.bytes);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.bytes = out.made().size();
  header.sum = hash64(out.made().data(), out.made().size());
  QR_RETURN_IF_ERROR(to.begin(to.name(), sizeof header + out.made().size(), 0));
  QR_RETURN_IF_ERROR(to.write(&header, sizeof header));
  return to.write(out.made().data(), out.made().size());
}

Result<State> read_state(qir::Bytes from, std::string_view path) {
  const std::span<const std::uint8_t> bytes(static_cast<const std::uint8_t *>(from.data),
                                            static_cast<std::size_t>(from.size));
  Header header;
  if (bytes.size() < sizeof header) return damaged(path, "a file that is cut off");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return damaged(path, "another kind of file");
  if (header.version != kVersion)
    return damaged(path, format("version %u (this release has %u)", header.version, kVersion).c_str());
  const std::span<const std::uint8_t> payload = bytes.subspan(sizeof header);
  if (header.bytes != payload.size()) return damaged(path, "a file that is cut off");
  State state;
  if (header.sum != hash64(payload.data(), payload.size()) || !read_payload(Reader(payload), &state))
    return damaged(path, "bytes that were changed since");
  return state;
}

}  // namespace quarry::quantize
