// SPDX-License-Identifier: Apache-2.0
// The tables of options, checks of values, and sets of options.
#pragma once

#include <optional>
#include <string_view>

#include "base/alloc.h"
#include "base/option_row.h"
#include "base/status.h"
#include "base/text.h"
#include "runtime/core/object.h"

namespace quarry {

class Runtime;

// The rows that are known without opening a plugin (known_options.cpp): Quarry's own, then those of the backends of
// this tree.
std::size_t option_row_count() noexcept;
OptionRow option_row(std::size_t index) noexcept;
// Whether a row of key `own` has `key`: "metadata.*" has "metadata.author".
bool stands_for(std::string_view own, std::string_view key) noexcept;
// The first that has it.
std::optional<OptionRow> find_option_row(std::string_view key) noexcept;
// Whether one of them is `backend`'s.
bool is_known_option_of(std::string_view backend, std::string_view key) noexcept;
void offer_option_keys(NearestWord &nearest) noexcept;

// True where the row is for backend `id` (and not for "runtime", "model" or "session").
bool scope_names_backend(std::string_view scope, std::string_view id) noexcept;
bool is_core_scope(std::string_view scope) noexcept;

// Checks a value against the grammar of a row: see options.inc.
Status check_option_value(std::string_view key, std::string_view values, std::string_view value);

// The same for a value of a known key: it is right for one of the rows at least.
Status check_known_value(std::string_view key, std::string_view value);

// A row that only the plugin knows, kept by the runtime.
struct BackendOption {
  String backend, key, values, default_value, help;
  std::uint32_t applies;
  bool changes_at_run_time;
};

// qr_options.
class OptionSet : public Counted<OptionSet> {
 public:
  explicit OptionSet(Ref<Runtime> runtime);
  ~OptionSet();

  Status set(std::string_view key, std::string_view value);
  Status unset(std::string_view key);
  Result<std::string_view> get(std::string_view key) const;

  Ref<OptionSet> copy() const;

  // What was set, by key.
  const OrderedMap<String, String> &values() const noexcept { return values_; }
  std::string_view given(std::string_view key) const noexcept;     // empty where it was not set
  std::string_view in_force(std::string_view key) const noexcept;  // of a key of Quarry's own table
  std::string_view in_force(const char *key) const noexcept;
  Runtime &runtime() const noexcept { return *runtime_; }
  SharedUse &use() const noexcept { return use_; }

 private:
  Ref<Runtime> runtime_;
  OrderedMap<String, String> values_;
  mutable SharedUse use_;
};

}  // namespace quarry
