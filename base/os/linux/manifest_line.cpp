// SPDX-License-Identifier: Apache-2.0
#include "base/os/library.h"
#include "base/status.h"

namespace quarry::os {
namespace {

// The first name of a library in a sentence of Android's linker: of the one that was not found or may not be opened,
// which may be another than was asked for.
std::string_view library_in(std::string_view why) noexcept {
  constexpr std::string_view kBefore = "library \"";
  const std::size_t begin = why.find(kBefore);
  if (begin == why.npos) return {};
  const std::string_view rest = why.substr(begin + kBefore.size()), path = rest.substr(0, rest.find('"'));
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

String with_manifest_line(std::string_view why) {
  const auto has = [](std::string_view text, std::string_view part) { return text.find(part) != text.npos; };
  const std::string_view name = library_in(why);
  const bool is_of_the_system = !name.empty() && !has(name, "quarry") && !has(name, "Qnn");
  if (!is_of_the_system || !(has(why, "not found") || has(why, "not accessible for the namespace"))) return String(why);
  return format(
      "%.*s; an app opens libraries of the system that its manifest names: <uses-native-library android:name=\"%.*s\" "
      "android:required=\"false\"/> in <application>",
      why, name);
}

}  // namespace quarry::os
