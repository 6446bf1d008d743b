// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/options.h"

#include <charconv>

#include "runtime/core/runtime.h"

namespace quarry {
namespace {

// Calls `visit` with each part of `text` between separators until it returns true; returns whether one did.
template <class Visit>
bool any_part(std::string_view text, char separator, Visit visit) {
  for (;;) {
    const std::size_t end = text.find(separator);
    if (visit(text.substr(0, end))) return true;
    if (end == std::string_view::npos) return false;
    text.remove_prefix(end + 1);
  }
}

bool parse_integer(std::string_view text, std::int64_t *out) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

Status bad_value(std::string_view key, std::string_view value, std::string_view expected, std::string_view hint = {}) {
  return Status::error(
             ErrorId::bad_option_value,
             format("option %s: found \"%s\", expected %s", printable(key), printable(value), String(expected)), hint)
      .with("option", key);
}

}  // namespace

bool scope_names_backend(std::string_view scope, std::string_view id) noexcept {
  return any_part(scope, ' ', [&](std::string_view word) { return word == id; });
}

bool is_core_scope(std::string_view scope) noexcept {
  return scope_names_backend(scope, "runtime") || scope_names_backend(scope, "model") ||
         scope_names_backend(scope, "session");
}

Status check_option_value(std::string_view key, std::string_view values, std::string_view value) {
  const bool names_file = values == "path";
  if ((!names_file && !is_utf8(value)) || value.find('\0') != std::string_view::npos)
    return Status::errorf(ErrorId::not_utf8, "option %s: the value is not %s without NUL bytes: \"%s\"", printable(key),
                          names_file ? "a path" : "UTF-8", printable(value))
        .with("option", key);
  if (names_file || values == "text") return {};
  if (values == "list") {
    if (value.empty() || !any_part(value, ',', [](std::string_view part) { return part.empty(); })) return {};
    return bad_value(key, value, "items with one comma between");
  }

  constexpr std::string_view kEach = "each ";
  if (values.starts_with(kEach)) {
    values.remove_prefix(kEach.size());
    Status status;
    any_part(value, ',', [&](std::string_view part) {
      status = check_option_value(key, values, part);
      return !status.ok();
    });
    return status;
  }

  constexpr std::string_view kInteger = "integer ";
  if (values.starts_with(kInteger)) {
    const std::string_view range = values.substr(kInteger.size());
    const std::size_t dots = range.find("..");
    std::int64_t low = 0, high = 0, number = 0;
    if (dots == std::string_view::npos || !parse_integer(range.substr(0, dots), &low) ||
        !parse_integer(range.substr(dots + 2), &high))
      return Status::errorf(ErrorId::internal,
                            "option %s: its table gives the values as \"%s\", expected integer LOW..HIGH",
                            printable(key), printable(values));
    if (parse_integer(value, &number) && number >= low && number <= high) return {};
    return bad_value(key, value, format("an integer from %lld to %lld", low, high));
  }

  NearestWord nearest(value);
  if (any_part(values, '|', [&](std::string_view word) {
        nearest.offer(word);
        return word == value;
      }))
    return {};
  const std::string_view near = nearest.word();
  return bad_value(key, value, format("one of %s", printable(values, 1000)),
                   near.empty() || value.size() < 2 ? String() : format("did you mean \"%s\"?", String(near)));
}

Status check_known_value(std::string_view key, std::string_view value) {
  Status first;
  for (std::size_t i = 0; i < option_row_count(); ++i) {
    const OptionRow row = option_row(i);
    if (!stands_for(row.key, key)) continue;
    Status status = check_option_value(key, row.values, value);
    if (status.ok()) return status;
    if (first.ok()) first = std::move(status);
  }
  return first;
}

OptionSet::OptionSet(Ref<Runtime> runtime) : runtime_(std::move(runtime)) {}
OptionSet::~OptionSet() = default;

Ref<OptionSet> OptionSet::copy() const {
  auto made = Ref<OptionSet>::make(runtime_);
  made->values_ = values_;
  return made;
}

Status OptionSet::set(std::string_view key, std::string_view value) {
  if (find_option_row(key)) {
    QR_RETURN_IF_ERROR(check_known_value(key, value));
  } else {
    QR_ASSIGN_OR_RETURN(const BackendOption *own, runtime_->backend_option(key));
    QR_RETURN_IF_ERROR(check_option_value(key, own->values, value));
  }
  String &slot = values_[String(key)];
  if (key == "shape" && !slot.empty() && !value.empty()) {
    slot.append(";").append(value);  // another bucket
  } else {
    slot.assign(value);
  }
  return {};
}

Status OptionSet::unset(std::string_view key) {
  if (const auto found = values_.find(key); found != values_.end()) {
    values_.erase(found);
    return {};
  }
  return get(key).take_status();  // whether there is such a key
}

Result<std::string_view> OptionSet::get(std::string_view key) const {
  if (const auto found = values_.find(key); found != values_.end()) return std::string_view(found->second);
  if (const std::optional<OptionRow> row = find_option_row(key)) return std::string_view(row->default_value);
  QR_ASSIGN_OR_RETURN(const BackendOption *own, runtime_->backend_option(key));
  return std::string_view(own->default_value);
}

std::string_view OptionSet::given(std::string_view key) const noexcept {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string_view() : std::string_view(found->second);
}

std::string_view OptionSet::in_force(std::string_view key) const noexcept {
  const auto found = values_.find(key);
  if (found != values_.end()) return found->second;
  const std::optional<OptionRow> row = find_option_row(key);
  return row ? row->default_value : std::string_view();
}

std::string_view OptionSet::in_force(const char *key) const noexcept { return in_force(std::string_view(key)); }

}  // namespace quarry
