// SPDX-License-Identifier: Apache-2.0
// Reads JSON: strictly, with the place of a mistake. For small files that people write.
#pragma once

#include <variant>

#include "base/status.h"

namespace quarry::htp {

struct JsonValue;
struct JsonMember;
using JsonArray = Vector<JsonValue>;
using JsonObject = Vector<JsonMember>;

struct JsonValue {
  // Null at first, without a word of it here: libc++ would look at what an object's member is.
  std::variant<std::nullptr_t, bool, double, String, JsonArray, JsonObject> value;
  std::uint32_t line = 1;  // where it begins

  template <class T>
  const T *as() const noexcept {
    return std::get_if<T>(&value);
  }
  const char *kind() const noexcept;  // "a string"
};
struct JsonMember {
  String name;
  JsonValue value;
};

// A name twice in an object is a mistake, as is anything behind the value. `subject` begins every error: the file.
Result<JsonValue> read_json(std::string_view text, std::string_view subject);

}  // namespace quarry::htp
