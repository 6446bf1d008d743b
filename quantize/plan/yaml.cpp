// SPDX-License-Identifier: Apache-2.0
#include "quantize/plan/yaml.h"

#include <charconv>

#include "base/text.h"

namespace quarry::quantize {
namespace {

using Json = nlohmann::json;

constexpr int kMostDepth = 32;

struct Line {
  std::size_t indent = 0, number = 0;
  std::string_view text;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Without a comment: # at the beginning or behind a blank, outside of quotes.
std::string_view without_comment(std::string_view text) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote) {
      if (text[i] == quote) quote = 0;
    } else if (text[i] == '"' || text[i] == '\'') {
      quote = text[i];
    } else if (text[i] == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\t')) {
      return text.substr(0, i);
    }
  }
  return text;
}

// Where the key of "key: value" ends; npos where the text is none.
std::size_t end_of_key(std::string_view text) {
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (quote) {
      if (text[i] == quote) quote = 0;
    } else if (i == 0 && (text[i] == '"' || text[i] == '\'')) {
      quote = text[i];
    } else if (text[i] == ':' && (i + 1 == text.size() || text[i + 1] == ' ')) {
      return i;
    }
  }
  return std::string_view::npos;
}

bool is_item(std::string_view text) { return text == "-" || text.starts_with("- "); }

class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : name_(name) {
    std::size_t number = 0;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::string_view line = without_comment(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
      ++number;
      const std::string_view content = trimmed(line);
      if (content.empty() || content == "---") continue;
      lines_.push_back({line.find_first_not_of(' '), number, content});
    }
  }

  Result<Json> read() {
    if (lines_.empty()) return Json::object();
    QR_ASSIGN_OR_RETURN(Json out, block(lines_[0].indent, 0));
    if (at_ < lines_.size()) return wrong("found a line that is indented less than the first one");
    return out;
  }

 private:
  Status wrong(const String &what) const {
    const std::size_t number = at_ < lines_.size() ? lines_[at_].number : lines_.empty() ? 0 : lines_.back().number;
    return Status::error(ErrorId::bad_option_value,
                         format("option overrides: '%s', line %zu: %s", printable(name_, 1000), number, what),
                         "docs/quantize/types.md has an example");
  }

  // The lines from here on that are indented by `indent`, and what is deeper.
  Result<Json> block(std::size_t indent, int depth) {
    if (depth > kMostDepth) return wrong(format("found more than %d levels", kMostDepth));
    return is_item(lines_[at_].text) ? list(indent, depth) : mapping(indent, depth);
  }

  Result<Json> list(std::size_t indent, int depth) {
    Json out = Json::array();
    while (at_ < lines_.size() && lines_[at_].indent == indent && is_item(lines_[at_].text)) {
      Line &line = lines_[at_];
      const std::string_view rest = trimmed(line.text.substr(1));
      if (rest.empty()) {
        ++at_;
        QR_ASSIGN_OR_RETURN(Json item, nested(indent, depth));
        out.push_back(std::move(item));
      } else if (rest.front() != '[' && rest.front() != '{' && end_of_key(rest) != std::string_view::npos) {
        // A mapping that begins in the line of its dash.
        line.indent += static_cast<std::size_t>(rest.data() - line.text.data());
        line.text = rest;
        QR_ASSIGN_OR_RETURN(Json item, block(line.indent, depth + 1));
        out.push_back(std::move(item));
      } else {
        QR_ASSIGN_OR_RETURN(Json item, whole_value(rest));
        out.push_back(std::move(item));
        ++at_;
      }
    }
    if (at_ < lines_.size() && lines_[at_].indent > indent)
      return wrong("found a line that is indented more, expected another item");
    return out;
  }

  Result<Json> mapping(std::size_t indent, int depth) {
    Json out = Json::object();
    while (at_ < lines_.size() && lines_[at_].indent == indent && !is_item(lines_[at_].text)) {
      const std::string_view text = lines_[at_].text;
      if (text.front() == '\t') return wrong("found a tab, expected blanks in front");
      const std::size_t colon = end_of_key(text);
      if (colon == std::string_view::npos) return wrong("found no \"key: value\"");
      std::string_view key_text = trimmed(text.substr(0, colon));
      if (key_text.size() >= 2 && (key_text.front() == '"' || key_text.front() == '\'') &&
          key_text.back() == key_text.front())
        key_text = key_text.substr(1, key_text.size() - 2);
      const std::string key(key_text);
      if (out.contains(key)) return wrong(format("found the key \"%s\" twice", printable(key)));
      const std::string_view value = trimmed(text.substr(colon + 1));
      if (value.empty()) {
        ++at_;
        QR_ASSIGN_OR_RETURN(out[key], nested(indent, depth));
      } else {
        QR_ASSIGN_OR_RETURN(out[key], whole_value(value));
        ++at_;
      }
    }
    if (at_ < lines_.size() && lines_[at_].indent > indent)
      return wrong("found a line that is indented more, expected another key");
    return out;
  }

  // What lies deeper than `indent`; a list may be as deep as its key.
  Result<Json> nested(std::size_t indent, int depth) {
    if (at_ >= lines_.size()) return Json();
    const Line &line = lines_[at_];
    if (line.indent > indent || (line.indent == indent && is_item(line.text))) {
      const bool same = line.indent == indent;
      if (same && at_ > 0 && is_item(lines_[at_ - 1].text)) return Json();
      return block(line.indent, depth + 1);
    }
    return Json();
  }

  Result<Json> whole_value(std::string_view text) {
    QR_ASSIGN_OR_RETURN(Json out, value(text, 0));
    if (!trimmed(text).empty()) return wrong(format("found \"%s\" behind a value", printable(trimmed(text))));
    return out;
  }

  // One value at the beginning of `text`, which loses it. `inside`: how many brackets are open.
  Result<Json> value(std::string_view &text, int inside) {
    if (inside > kMostDepth) return wrong(format("found more than %d levels", kMostDepth));
    text = trimmed(text);
    if (text.empty()) return wrong("found the end of the line, expected a value");
    if (text.front() == '[' || text.front() == '{') return bracket(text, inside);
    if (text.front() == '"' || text.front() == '\'') {
      const std::size_t end = text.find(text.front(), 1);
      if (end == std::string_view::npos) return wrong("found no closing quote");
      Json out = std::string(text.substr(1, end - 1));
      text.remove_prefix(end + 1);
      return out;
    }
    std::size_t end = text.size();
    if (inside)
      for (end = 0; end < text.size() && text[end] != ',' && text[end] != ']' && text[end] != '}';) ++end;
    const std::string_view word = trimmed(text.substr(0, end));
    text.remove_prefix(end);
    if (word == "true") return Json(true);
    if (word == "false") return Json(false);
    std::int64_t whole = 0;
    double real = 0;
    const char *last = word.data() + word.size();
    if (const auto [stop, error] = std::from_chars(word.data(), last, whole); error == std::errc() && stop == last)
      return Json(whole);
    if (const auto [stop, error] = std::from_chars(word.data(), last, real); error == std::errc() && stop == last)
      return Json(real);
    return Json(std::string(word));
  }

  Result<Json> bracket(std::string_view &text, int inside) {
    const bool is_list = text.front() == '[';
    const char close = is_list ? ']' : '}';
    Json out = is_list ? Json::array() : Json::object();
    text.remove_prefix(1);
    for (;;) {
      text = trimmed(text);
      if (text.empty()) return wrong(format("found no '%c' in this line", close));
      if (text.front() == close) break;
      if (is_list) {
        QR_ASSIGN_OR_RETURN(Json item, value(text, inside + 1));
        out.push_back(std::move(item));
      } else {
        const std::size_t colon = end_of_key(text);
        if (colon == std::string_view::npos) return wrong("found no \"key: value\" in braces");
        std::string_view key = trimmed(text.substr(0, colon));
        if (key.size() >= 2 && (key.front() == '"' || key.front() == '\'')) key = key.substr(1, key.size() - 2);
        text.remove_prefix(colon + 1);
        QR_ASSIGN_OR_RETURN(out[std::string(key)], value(text, inside + 1));
      }
      text = trimmed(text);
      if (!text.empty() && text.front() == ',') text.remove_prefix(1);
      else if (text.empty() || text.front() != close) return wrong(format("found no ',' or '%c'", close));
    }
    text.remove_prefix(1);
    return out;
  }

  const std::string_view name_;
  std::vector<Line> lines_;
  std::size_t at_ = 0;
};

}  // namespace

Result<nlohmann::json> parse_yaml(std::string_view text, std::string_view name) { return Reader(text, name).read(); }

}  // namespace quarry::quantize
