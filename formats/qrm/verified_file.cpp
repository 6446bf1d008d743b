// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "base/checked.h"
#include "base/zeros.h"
#include "formats/qrm/limits.h"
#include "formats/qrm/metadata.h"
#include "formats/qrm/prologue.h"

namespace quarry::qrm {
namespace {

// What a well-known damage leaves of the magic; nullptr: none of them.
const char *known_damage(Bytes bytes) noexcept {
  static constexpr struct {
    unsigned char bytes[8];
    std::size_t size;
    const char *what;
  } kDamages[] = {
      {{0x89, 'Q', 'R', 'M', '\n', 0x1a, '\n'}, 7, "its CR LF became LF: it was transferred as text"},
      {{0x89, 'Q', 'R', 'M', '\r', '\n', 0x1a, '\r'}, 8, "its LF became CR LF: it was transferred as text"},
      {{0x89, 'Q', 'R', 'M', '\r', '\r', '\n', 0x1a}, 8, "its LF became CR LF: it was transferred as text"},
      {{0x09, 'Q', 'R', 'M'}, 4, "its high bits are gone: it was transferred as 7-bit text"},
      {{0xc2, 0x89, 'Q', 'R', 'M'}, 5, "it was converted from Latin-1 to UTF-8"},
      {{0xef, 0xbf, 0xbd, 'Q', 'R', 'M'}, 6, "it was read as UTF-8 text and written again"},
      {{0x89, 'Q', 'R', 'M'}, 4, "the bytes behind its name are damaged"},
  };
  for (const auto &damage : kDamages)
    if (bytes.size >= damage.size && std::memcmp(bytes.data, damage.bytes, damage.size) == 0) return damage.what;
  return nullptr;
}

}  // namespace

bool looks_like_container(Bytes bytes) noexcept {
  if (bytes.size < sizeof kMagic) return bytes.size >= 4 && std::memcmp(bytes.data, kMagic, 4) == 0;
  return std::memcmp(bytes.data, kMagic, sizeof kMagic) == 0 || known_damage(bytes) != nullptr;
}

namespace {

// The prologue, where this version can read what follows it.
Status read_prologue(Bytes bytes, Prologue *out) {
  if (bytes.size >= sizeof kMagic && std::memcmp(bytes.data, kMagic, sizeof kMagic) != 0) {
    const char *damage = known_damage(bytes);
    return Status::error(ErrorId::qrm_bad_magic,
                         damage ? format("container: found a damaged beginning (%s)", damage)
                                : String("container: found another beginning than that of a .qrm"));
  }
  if (bytes.size < sizeof(Prologue))
    return Status::errorf(ErrorId::qrm_truncated,
                          "container: found %" PRIu64 " bytes, expected at least the %zu of the prologue", bytes.size,
                          sizeof(Prologue));

  Prologue &prologue = *out;
  std::memcpy(&prologue, bytes.data, sizeof prologue);
  if (prologue.sum != prologue.own_sum())
    return Status::errorf(ErrorId::qrm_bad_sum, "container: found prologue sum %016" PRIx64 ", expected %016" PRIx64,
                          prologue.own_sum(), prologue.sum);
  // From here on the fields are what a writer wrote, be it a newer one or a hostile one.
  if (prologue.major != kFormatMajor)
    return Status::errorf(ErrorId::qrm_too_new,
                          "container: found format %u.%u, expected %u.x (this version reads %u.%u)", prologue.major,
                          prologue.minor, kFormatMajor, kFormatMajor, kFormatMinor);
  for (unsigned bit = 0; bit < 64; ++bit)
    if ((prologue.required_features & ~kKnownFeatures) >> bit & 1)
      return Status::errorf(ErrorId::qrm_unknown_feature,
                            "container: found required feature bit %u (unknown to this version, format %u.%u), "
                            "in a container of format %u.%u",
                            bit, kFormatMajor, kFormatMinor, prologue.major, prologue.minor);
  if (prologue.file_size != bytes.size)
    return Status::errorf(bytes.size < prologue.file_size ? ErrorId::qrm_truncated : ErrorId::qrm_bad_segment,
                          "container: found %" PRIu64 " bytes, expected %" PRIu64 "%s", bytes.size, prologue.file_size,
                          bytes.size < prologue.file_size ? ": it is cut off" : ": something was appended");
  return {};
}

Status find_metadata(Bytes bytes, const Prologue &prologue, Bytes *out) {
  if (prologue.metadata_size > kMaxMetadataBytes)
    return Status::errorf(ErrorId::qrm_limit,
                          "container: found %" PRIu64 " bytes of metadata, expected at most %" PRIu64,
                          prologue.metadata_size, kMaxMetadataBytes);
  if (prologue.header_size < sizeof(Prologue) ||
      (prologue.minor <= kFormatMinor && prologue.header_size != sizeof(Prologue)))
    return Status::errorf(ErrorId::qrm_bad_metadata, "container: found a header of %u bytes, expected %zu",
                          prologue.header_size, sizeof(Prologue));
  std::uint64_t expected_offset = 0;
  if (!checked_align_up(prologue.header_size, kMinSegmentAlign, &expected_offset) ||
      prologue.metadata_offset != expected_offset)
    return Status::errorf(ErrorId::qrm_bad_metadata,
                          "container: found the metadata at %" PRIu64 ", expected it at %" PRIu64,
                          prologue.metadata_offset, expected_offset);
  if (!range_fits(prologue.metadata_offset, prologue.metadata_size, bytes.size))
    return Status::errorf(ErrorId::qrm_bad_metadata,
                          "container: found metadata of %" PRIu64 " bytes at %" PRIu64
                          ", expected them within %" PRIu64,
                          prologue.metadata_size, prologue.metadata_offset, bytes.size);
  const char *base = static_cast<const char *>(bytes.data);
  if (!is_zero(base + prologue.header_size, prologue.metadata_offset - prologue.header_size))
    return Status::error(ErrorId::qrm_bad_metadata,
                         "container: found bytes between header and metadata, expected zeros");
  const Bytes metadata = *out = {base + prologue.metadata_offset, prologue.metadata_size};
  const std::uint64_t sum = hash64(metadata.data, metadata.size);
  if (sum != prologue.metadata_sum)
    return Status::errorf(ErrorId::qrm_bad_sum, "container: found metadata sum %016" PRIx64 ", expected %016" PRIx64,
                          sum, prologue.metadata_sum);
  return {};
}

}  // namespace

Result<VerifiedFile> VerifiedFile::verify(RawFile file) {
  Prologue prologue;
  QR_RETURN_IF_ERROR(read_prologue(file.bytes(), &prologue));
  Bytes metadata;
  QR_RETURN_IF_ERROR(find_metadata(file.bytes(), prologue, &metadata));
  QR_RETURN_IF_ERROR(verify_metadata(metadata));

  VerifiedFile verified(std::move(file));
  verified.metadata_ = metadata;
  verified.major_ = prologue.major;
  verified.minor_ = prologue.minor;
  return verified;
}

}  // namespace quarry::qrm
