// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/soc/soc.h"

#include <charconv>

#include "base/text.h"

namespace quarry::htp {

namespace {

constexpr Soc kSocs[] = {
#define QR_SOC(number, name, arch, vtcm_mb, floats) {number, name, arch, vtcm_mb, SocFloats::floats},
#include "backends/htp/soc/soc.inc"
#undef QR_SOC
};

// What the library itself takes for an architecture.
constexpr struct {
  std::uint32_t arch, soc;
} kOfArch[] = {{68, 30}, {69, 36}, {73, 43}, {75, 57}, {79, 69}, {81, 87}, {85, 103}};

bool same_letters(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto upper = [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; };
    if (upper(a[i]) != upper(b[i])) return false;
  }
  return true;
}

}  // namespace

std::span<const Soc> all_socs() noexcept { return kSocs; }

const Soc *find_soc(std::uint32_t number) noexcept {
  for (const Soc &soc : kSocs)
    if (soc.number == number) return &soc;
  return nullptr;
}

String soc_text(const Soc &soc) {
  return *soc.name ? format("%s (%u, v%u)", soc.name, soc.number, soc.arch)
                   : format("SoC %u (v%u)", soc.number, soc.arch);
}

String soc_facts(const Soc &soc) {
  return format("%u MB of VTCM, %s", soc.vtcm_mb,
                !has_floats(soc)        ? "no floating point: quantised models alone"
                : has_brain_floats(soc) ? "f16 and bf16"
                                        : "f16");
}

Result<Target> choose_target(std::string_view soc_model, std::string_view htp_arch) {
  std::uint32_t arch = 0;
  std::from_chars(htp_arch.data(), htp_arch.data() + htp_arch.size(), arch);
  Target target;
  if (soc_model.empty() || soc_model == "0") {
    for (const auto &row : kOfArch)
      if (row.arch == (arch == 0 ? 68 : arch)) target.soc = find_soc(row.soc);
    if (target.soc) return target;
    return Status::error(
        ErrorId::bad_option_value,
        format("option htp_arch: found '%s', expected one of 68, 69, 73, 75, 79, 81, 85", printable(htp_arch)));
  }
  std::uint32_t number = 0;
  const auto read = std::from_chars(soc_model.data(), soc_model.data() + soc_model.size(), number);
  if (read.ec == std::errc() && read.ptr == soc_model.data() + soc_model.size()) {
    target.soc = find_soc(number);
  } else {
    for (const Soc &soc : kSocs)
      if (*soc.name && same_letters(soc.name, soc_model)) target.soc = &soc;
  }
  if (!target.soc)
    return Status::error(
        ErrorId::bad_option_value,
        format("option soc_model: found '%s', expected the name (SM8650) or the number (57) of a SoC with a Hexagon "
               "tensor processor of v68 or later",
               printable(soc_model)),
        "docs/htp.md lists them");
  if (arch != 0 && arch != target.soc->arch)
    target.notice =
        format("htp_arch=%u is not that of %s, which soc_model names and which counts", arch, soc_text(*target.soc));
  return target;
}

}  // namespace quarry::htp
