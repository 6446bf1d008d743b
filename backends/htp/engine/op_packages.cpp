// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/engine/op_packages.h"

namespace quarry::htp {

Result<Vector<OpPackage>> read_op_packages(std::string_view text) {
  Vector<OpPackage> packages;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    Vector<String> parts;
    for (std::size_t at = 0; at <= item.size();) {
      const std::size_t stop = std::min(item.find(':', at), item.size());
      parts.emplace_back(item.substr(at, stop - at));
      at = stop + 1;
    }
    if (parts.size() < 3 || parts.size() > 4 || parts[0].empty() || parts[1].empty() || parts[2].empty())
      return Status::error(ErrorId::bad_option_value,
                           format("option op_packages: found '%s', expected operator:path:symbol or "
                                  "operator:path:symbol:target",
                                  printable(item, 1000)));
    packages.push_back({parts[0], parts[1], parts[2], parts.size() > 3 ? parts[3] : String()});
  }
  return packages;
}

}  // namespace quarry::htp
