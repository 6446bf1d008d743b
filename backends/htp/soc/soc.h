// SPDX-License-Identifier: Apache-2.0
// The systems on chip that can be compiled for, from one table (soc.inc).
#pragma once

#include <span>

#include "base/status.h"

namespace quarry::htp {

enum class SocFloats : std::uint8_t { None, Half, Brain };

struct Soc {
  std::uint32_t number;
  const char *name;    // "SM8650"; empty: none is public
  std::uint32_t arch;  // 75
  std::uint32_t vtcm_mb;
  SocFloats floats;
};

std::span<const Soc> all_socs() noexcept;
const Soc *find_soc(std::uint32_t number) noexcept;
String soc_text(const Soc &soc);   // "SM8650 (57, v75)"
String soc_facts(const Soc &soc);  // "8 MB of VTCM, f16"
inline bool has_floats(const Soc &soc) noexcept { return soc.floats != SocFloats::None; }
// Whether the library has tensors of bf16 for it.
inline bool has_brain_floats(const Soc &soc) noexcept { return soc.floats == SocFloats::Brain; }

// What the options soc_model (a name or a number; "0": not given) and htp_arch ("0": not given) say together. The SoC
// wins; one of another architecture than the one given is reported in `notice`. Neither given: v68's first, as the
// library does.
struct Target {
  const Soc *soc = nullptr;
  String notice;
};
Result<Target> choose_target(std::string_view soc_model, std::string_view htp_arch);

// Binaries of one family are prepared alike: v68 and v69, and from v73 on.
inline bool same_family(const Soc &a, const Soc &b) noexcept { return (a.arch < 73) == (b.arch < 73); }

}  // namespace quarry::htp
