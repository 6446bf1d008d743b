// SPDX-License-Identifier: Apache-2.0
#include "generate/model/names.h"

#include <algorithm>

#include "base/text.h"

namespace quarry::generate {
namespace {

constexpr std::string_view kRoles[] = {
#define QR_ROLE(role, name, rank, value) name,
#include "generate/model/roles.inc"
#undef QR_ROLE
    "logits"};

bool is_role(std::string_view word) {
  for (const std::string_view role : kRoles)
    if (role == word) return true;
  return false;
}

Status unknown_role(const char *function, std::string_view word) {
  NearestWord nearest(word);
  String all;
  for (const std::string_view role : kRoles) {
    nearest.offer(role);
    all += (all.empty() ? "" : ", ") + String(role);
  }
  String said =
      format("%s: qr_generator_options.names: found '%s', expected one of %s", function, printable(word), all);
  if (!nearest.word().empty()) said += format("; did you mean '%s'?", String(nearest.word()));
  return Status::error(ErrorId::bad_argument, said);
}

}  // namespace

Status Names::read(const char *function, std::string_view text) {
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    if (one.empty()) continue;
    const std::size_t at = one.find('=');
    if (at == std::string_view::npos || at + 1 == one.size())
      return Status::error(ErrorId::bad_argument,
                           format("%s: qr_generator_options.names: found '%s', expected ROLE=NAME with commas between",
                                  function, printable(one)));
    if (!is_role(one.substr(0, at))) return unknown_role(function, one.substr(0, at));
    pairs_.push_back({String(one.substr(0, at)), String(one.substr(at + 1))});
  }
  return {};
}

std::string_view Names::role_of(std::string_view name) const noexcept {
  for (const Pair &pair : pairs_)
    if (pair.name == name) return pair.role;
  return name;
}

std::string_view Names::given(std::string_view role) const noexcept {
  for (const Pair &pair : pairs_)
    if (pair.role == role) return pair.name;
  return {};
}

}  // namespace quarry::generate
