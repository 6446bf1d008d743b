// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/scripted/script.h"

#include <charconv>

namespace quarry::scripted {

Result<Script> Script::parse(std::string_view text) {
  Script script;
  const struct {
    std::string_view word;
    std::uint64_t Script::*field;
  } numbers[] = {{"grade", &Script::grade},
                 {"slow_check", &Script::slow_check},
                 {"slow_compile", &Script::slow_compile},
                 {"slow_load", &Script::slow_load},
                 {"slow_run", &Script::slow_run},
                 {"sleep_run", &Script::sleep_run},
                 {"die_compile", &Script::die_compile},
                 {"stuck_compile", &Script::stuck_compile},
                 {"orphan_compile", &Script::orphan_compile},
                 {"fail_at", &Script::fail_at},
                 {"lose_at", &Script::lose_at},
                 {"stay_lost", &Script::stay_lost},
                 {"fail_compile", &Script::fail_compile}};
  while (!text.empty()) {
    const std::size_t end = text.find(';');
    const std::string_view item = text.substr(0, end);
    text = end == text.npos ? std::string_view() : text.substr(end + 1);
    const std::size_t equals = item.find('=');
    const std::string_view word = item.substr(0, equals),
                           value = equals == item.npos ? std::string_view() : item.substr(equals + 1);
    bool known = word.empty();
    if (word == "no_memory") known = script.no_memory = true;
    if (word == "wrong") {
      script.wrong = value;
      known = true;
    }
    for (const auto &number : numbers)
      if (word == number.word)
        known = std::from_chars(value.data(), value.data() + value.size(), script.*number.field).ec == std::errc();
    if (!known)
      return Status::error(ErrorId::bad_option_value,
                           format("option script: found \"%s\", expected words of tests/plugins/scripted/script.h",
                                  printable(item).c_str()));
  }
  return script;
}

}  // namespace quarry::scripted
