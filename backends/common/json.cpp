// SPDX-License-Identifier: Apache-2.0
#include "backends/common/json.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"

namespace quarry::htp {

namespace {

class JsonReader {
 public:
  JsonReader(std::string_view text, std::string_view subject) : left_(text), subject_(subject) {}

  Result<JsonValue> whole() {
    JsonValue value;
    QR_RETURN_IF_ERROR(read(value, 0));
    skip_space();
    if (!left_.empty()) return mistake("the end");
    return value;
  }

 private:
  static constexpr int kDeepest = 16;

  Status mistake(const char *expected) const {
    return Status::error(
        ErrorId::bad_option_value,
        format("%s, line %u: found %s, expected %s", String(subject_), line_,
               left_.empty() ? "the end" : format("'%s'", printable(left_.substr(0, 12))).c_str(), expected));
  }
  void skip_space() {
    while (!left_.empty() && (left_[0] == ' ' || left_[0] == '\t' || left_[0] == '\r' || left_[0] == '\n')) {
      line_ += left_[0] == '\n';
      left_.remove_prefix(1);
    }
  }
  bool take(std::string_view word) {
    if (!left_.starts_with(word)) return false;
    left_.remove_prefix(word.size());
    return true;
  }

  Status read(JsonValue &out, int depth) {
    skip_space();
    out.line = line_;
    if (depth > kDeepest) return mistake("fewer levels");
    if (take("{")) return read_object(out.value.emplace<JsonObject>(), depth);
    if (take("[")) return read_array(out.value.emplace<JsonArray>(), depth);
    if (left_.starts_with("\"")) return read_string(out.value.emplace<String>());
    if (take("true")) return out.value = true, Status();
    if (take("false")) return out.value = false, Status();
    if (take("null")) return {};
    if (left_.empty() || (left_[0] != '-' && (left_[0] < '0' || left_[0] > '9'))) return mistake("a value");
    double number = 0;
    const auto read = std::from_chars(left_.data(), left_.data() + left_.size(), number);
    if (read.ec != std::errc()) return mistake("a number");
    left_.remove_prefix(static_cast<std::size_t>(read.ptr - left_.data()));
    out.value = number;
    return {};
  }
  Status read_array(JsonArray &out, int depth) {
    skip_space();
    if (take("]")) return {};
    while (true) {
      QR_RETURN_IF_ERROR(read(out.emplace_back(), depth + 1));
      skip_space();
      if (take("]")) return {};
      if (!take(",")) return mistake("',' or ']'");
    }
  }
  Status read_object(JsonObject &out, int depth) {
    skip_space();
    if (take("}")) return {};
    while (true) {
      skip_space();
      if (!left_.starts_with("\"")) return mistake("a name in quotes");
      JsonMember member;
      QR_RETURN_IF_ERROR(read_string(member.name));
      if (std::any_of(out.begin(), out.end(), [&](const JsonMember &m) { return m.name == member.name; }))
        return Status::error(ErrorId::bad_option_value,
                             format("%s, line %u: found '%s' twice in one object, expected it once", String(subject_),
                                    line_, printable(member.name)));
      skip_space();
      if (!take(":")) return mistake("':'");
      QR_RETURN_IF_ERROR(read(member.value, depth + 1));
      out.push_back(std::move(member));
      skip_space();
      if (take("}")) return {};
      if (!take(",")) return mistake("',' or '}'");
    }
  }
  Status read_string(String &out) {
    left_.remove_prefix(1);
    while (!left_.empty() && left_[0] != '"') {
      if (static_cast<unsigned char>(left_[0]) < 0x20) return mistake("'\"'");
      if (left_[0] != '\\') {
        out += left_[0];
        left_.remove_prefix(1);
        continue;
      }
      // Paths and names need no more than these; \u is for texts.
      static constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
      const std::size_t at = left_.size() < 2 ? kLetters.npos : kLetters.find(left_[1]);
      if (at == kLetters.npos) return mistake("an escape of one letter");
      out += kMeant[at];
      left_.remove_prefix(2);
    }
    return take("\"") ? Status() : mistake("'\"'");
  }

  std::string_view left_, subject_;
  std::uint32_t line_ = 1;
};

}  // namespace

const char *JsonValue::kind() const noexcept {
  static constexpr const char *kKinds[] = {"null", "a boolean", "a number", "a string", "an array", "an object"};
  return kKinds[value.index()];
}

Result<JsonValue> read_json(std::string_view text, std::string_view subject) {
  return JsonReader(text, subject).whole();
}

}  // namespace quarry::htp
