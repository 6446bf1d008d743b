// SPDX-License-Identifier: Apache-2.0
// The table of one instruction set; compiled once for each. A kernel's row says which sets have code of their own; the
// others run that of the next plainer one that does (kernels.inc).
#include <array>
#include <string_view>

#include "kernels/cpu/vector/isa_kernels.h"
#if !defined(QR_KERNEL_ISAS)  // tests name theirs
#include "kernels/cpu/built_isas.h"
#endif
#if defined(__x86_64__)
#include "kernels/cpu/processor/x86_features.h"
#endif

namespace quarry::kernels {

#define QR_DECLARE_RUN(isa, names, enumerator) \
  namespace isa {                              \
  void run_##enumerator(const Call &call);     \
  }
#define QR_KERNEL(enumerator, number, parameters, operands, own) QR_KERNEL_ISAS(QR_DECLARE_RUN, enumerator)
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL

}  // namespace quarry::kernels

namespace quarry::kernels::QR_ISA {

#define QR_TEXT_(x) #x
#define QR_TEXT(x) QR_TEXT_(x)

namespace {

// The instruction sets of this build, best first, and by which names `own` knows each: where avx2 is not built, avx512
// is in its place.
struct Built {
  std::string_view name, names;
};
#define QR_BUILT(isa, names, a) Built{#isa, names},
constexpr auto kBuilt = std::to_array<Built>({QR_KERNEL_ISAS(QR_BUILT, )});

constexpr bool has_word(std::string_view words, std::string_view wanted) {
  while (!words.empty()) {
    const std::size_t end = words.find(' ');
    if (words.substr(0, end) == wanted) return true;
    words = end == words.npos ? std::string_view() : words.substr(end + 1);
  }
  return false;
}
constexpr bool share_word(std::string_view one, std::string_view other) {
  while (!one.empty()) {
    const std::size_t end = one.find(' ');
    if (has_word(other, one.substr(0, end))) return true;
    one = end == one.npos ? std::string_view() : one.substr(end + 1);
  }
  return false;
}
constexpr std::size_t index_of(std::string_view name) {
  std::size_t i = 0;
  while (kBuilt[i].name != name) ++i;
  return i;
}
// Whose code instruction set `at` runs.
constexpr std::size_t chosen(std::string_view own, std::size_t at) {
  while (at + 1 < kBuilt.size() && !share_word(kBuilt[at].names, own)) ++at;
  return at;
}
constexpr std::size_t kAt = index_of(QR_TEXT(QR_ISA));

// (A function that is not chosen may not be there: only what is kept of `if constexpr` refers to it.)
#define QR_CHOOSE(isa, names, enumerator) \
  if constexpr (from == index_of(#isa)) return isa::run_##enumerator;
#define QR_KERNEL(enumerator, number, parameters, operands, own) \
  template <std::size_t at>                                      \
  constexpr Run run_of_##enumerator() {                          \
    constexpr std::size_t from = chosen(own, at);                \
    QR_KERNEL_ISAS(QR_CHOOSE, enumerator)                        \
  }
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL

}  // namespace

extern const Isa table;
const Isa table = {QR_TEXT(QR_ISA),
                   QR_ISA_FEATURES,
                   [](void) noexcept -> bool { return QR_ISA_USABLE; },
                   kLanes,
                   kF32Panel,
                   kIntGroup,
                   kSplitsF32,
                   kBytePairs,
                   {
#define QR_KERNEL(enumerator, number, parameters, operands, own) run_of_##enumerator<kAt>(),
#include "kernels/cpu/kernels.inc"
#undef QR_KERNEL
                   }};

}  // namespace quarry::kernels::QR_ISA
