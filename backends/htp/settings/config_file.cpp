// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/settings/config_file.h"

#include <algorithm>
#include <cmath>

#include "backends/common/json.h"
#include "backends/htp/settings/file_bytes.h"
#include "backends/htp/settings/power.h"
#include "backends/htp/settings/priority.h"

namespace quarry::htp {

namespace {

enum class Kind : std::uint8_t {
  Integer,
  Switch,
  Boolean,
  Profile,
  Priority,
  Arch,
  Domain,
  Zero,
  False,
  Cores,
  Shared,
  Group,
  Names
};
struct KeyRow {
  std::string_view object, name;
  Kind kind;
  std::string_view option;
};
constexpr KeyRow kKeys[] = {
#define QR_CONFIG_KEY(object, name, kind, option) {#object, #name, Kind::kind, option},
#include "backends/htp/settings/config_file.inc"
#undef QR_CONFIG_KEY
};

// A whole number from 0; -1: it is none.
std::int64_t whole(const JsonValue &value) {
  const double *const number = value.as<double>();
  return number && *number >= 0 && *number <= 4294967295.0 && std::floor(*number) == *number
             ? static_cast<std::int64_t>(*number)
             : -1;
}
String decimal(std::int64_t number) { return format("%lld", number); }

}  // namespace

class ConfigReader {
 public:
  ConfigReader(ConfigFile &out, std::string_view path)
      : out_(out), path_(format("htp.config_file %s", printable(path, 1000))) {}

  const String &subject() const noexcept { return path_; }

  Status file(const JsonValue &root) {
    const JsonObject *const members = root.as<JsonObject>();
    if (!members) return wrong(root, "the file", "an object with graphs, devices, context, groupContext and memory");
    for (const JsonMember &member : *members) {
      if (is_list(member.name)) QR_RETURN_IF_ERROR(list(member.name, member.value));
      else if (member.name == "context" || member.name == "groupContext" || member.name == "memory" ||
               member.name == "context_configs")
        QR_RETURN_IF_ERROR(object(member.name, member.value));
      else if (member.name == "backend_extensions")
        return Status::error(ErrorId::bad_option_value,
                             format("%s, line %u: found backend_extensions, expected the file that its "
                                    "config_file_path names",
                                    path_, member.value.line),
                             "name that file by htp.config_file; no shared library of extensions is needed");
      else return unknown(member, "");
    }
    return {};
  }

 private:
  static bool is_list(std::string_view name) {
    return name == "graphs" || name == "devices" || name == "graph_configs";
  }
  Status wrong(const JsonValue &value, const String &name, const char *expected) const {
    return Status::error(ErrorId::bad_option_value, format("%s, line %u: %s: found %s, expected %s", path_, value.line,
                                                           printable(name), describe(value), expected));
  }
  static String describe(const JsonValue &value) {
    if (const String *text = value.as<String>()) return format("'%s'", printable(*text));
    if (const double *number = value.as<double>()) return format("%g", *number);
    if (const bool *flag = value.as<bool>()) return *flag ? "true" : "false";
    return value.kind();
  }
  Status unknown(const JsonMember &member, std::string_view object) const {
    String known;
    for (const KeyRow &row : kKeys)
      if (row.object == object) known += (known.empty() ? "" : ", ") + String(row.name);
    if (object.empty()) known = "graphs, devices, context, groupContext, memory, context_configs, graph_configs";
    if (object == "graphs") known = "graph_names, " + known;
    if (object == "graph_configs") known = "graph_name, " + known;
    if (object == "devices") known += ", cores";
    return Status::error(ErrorId::bad_option_value,
                         format("%s, line %u: found '%s'%s%s, expected one of %s", path_, member.value.line,
                                printable(member.name), object.empty() ? "" : " in ", String(object), known));
  }

  // Arrays of objects; those of graphs may have one entry for each, of the others the first alone is used here.
  Status list(const String &name, const JsonValue &value) {
    const JsonArray *const items = value.as<JsonArray>();
    if (!items) return wrong(value, name, "an array");
    if ((name == "devices" || name == "cores") && items->size() > 1) return wrong((*items)[1], name, "one entry");
    for (const JsonValue &item : *items) QR_RETURN_IF_ERROR(object(name, item));
    return {};
  }
  Status object(const String &name, const JsonValue &value) {
    const JsonObject *const members = value.as<JsonObject>();
    if (!members) return wrong(value, name, "an object");
    Vector<String> graphs;
    for (const JsonMember &member : *members) {
      if (name == "graphs" && member.name == "graph_names") QR_RETURN_IF_ERROR(names(member, graphs));
      if (name == "graph_configs" && member.name == "graph_name") QR_RETURN_IF_ERROR(name_of(member.value, graphs));
    }
    if (name == "graph_configs" && graphs.empty()) return wrong(value, name, "an object with graph_name");
    if (graphs.empty()) graphs.emplace_back();
    for (const JsonMember &member : *members) {
      if ((name == "graphs" && member.name == "graph_names") ||
          (name == "graph_configs" && member.name == "graph_name"))
        continue;
      if (name == "devices" && member.name == "cores") {
        QR_RETURN_IF_ERROR(list("cores", member.value));
        continue;
      }
      if (name == "devices" && member.name == "profiling_level")
        return Status::error(
            ErrorId::bad_option_value,
            format("%s, line %u: found profiling_level, expected it to be left out", path_, member.value.line),
            "the option profiling_level, or a profile given to a run, chooses it");
      const KeyRow *const row = std::find_if(std::begin(kKeys), std::end(kKeys), [&](const KeyRow &r) {
        return r.object == name && r.name == member.name;
      });
      if (row == std::end(kKeys)) return unknown(member, name);
      QR_RETURN_IF_ERROR(entry(*row, member, graphs));
    }
    return {};
  }
  Status name_of(const JsonValue &item, Vector<String> &graphs) const {
    const String *const text = item.as<String>();
    if (!text || text->empty()) return wrong(item, "graph_names", "the name of a graph");
    graphs.push_back(*text);
    return {};
  }
  Status names(const JsonMember &member, Vector<String> &graphs) const {
    const JsonArray *const items = member.value.as<JsonArray>();
    if (!items) return wrong(member.value, member.name, "an array of strings");
    for (const JsonValue &item : *items) QR_RETURN_IF_ERROR(name_of(item, graphs));
    return {};
  }

  // A number as the option's value.
  Status number(const KeyRow &row, const JsonMember &member, String &option) const {
    const JsonValue &value = member.value;
    const std::int64_t number = whole(value);
    switch (row.kind) {
      case Kind::Integer:
        if (number < 0) return wrong(value, member.name, "a whole number");
        break;
      case Kind::Switch:
        if (number != 0 && number != 1) return wrong(value, member.name, "0 or 1");
        break;
      case Kind::Cores: {
        const JsonArray *const items = value.as<JsonArray>();
        if (!items || items->size() != 1 || whole((*items)[0]) < 0)
          return wrong(value, member.name, "an array with one core's number");
        option = decimal(whole((*items)[0]));
        return {};
      }
      case Kind::Zero: return number == 0 ? Status() : wrong(value, member.name, "0, the only one that is used");
      default:  // Group
        if (number != 0) return wrong(value, member.name, "0");
        option = "1";
        return {};
    }
    option = decimal(number);
    return {};
  }
  // Likewise a word, or true or false.
  Status word(const KeyRow &row, const JsonMember &member, String &option) const {
    const JsonValue &value = member.value;
    const bool *const flag = value.as<bool>();
    const String *const text = value.as<String>();
    switch (row.kind) {
      case Kind::Boolean:
        if (!flag) return wrong(value, member.name, "true or false");
        option.assign(1, *flag ? '1' : '0');
        break;
      case Kind::Profile:
        if (text && *text == "system_settings") option = "default";
        else if (text && *text != "relaxed" && *text != "released" && find_power_profile(*text)) option = *text;
        else return wrong(value, member.name, "a performance profile, or system_settings");
        break;
      case Kind::Priority:
        if (!text || !find_priority(*text)) return wrong(value, member.name, "a priority: low, normal, high, ...");
        option = *text;
        break;
      case Kind::Arch:
        if (!text || text->size() < 3 || (*text)[0] != 'v') return wrong(value, member.name, "an architecture: v75");
        option = text->substr(1);
        break;
      case Kind::Domain:
        if (!text || (*text != "signed" && *text != "unsigned"))
          return wrong(value, member.name, "\"signed\" or \"unsigned\"");
        option.assign(1, *text == "signed" ? '1' : '0');
        break;
      case Kind::False:
        return flag && !*flag ? Status() : wrong(value, member.name, "false, as on every device since v68");
      default:  // Shared
        if (!text || *text != "shared_buffer") return wrong(value, member.name, "\"shared_buffer\"");
        option = "1";
    }
    return {};
  }

  Status entry(const KeyRow &row, const JsonMember &member, const Vector<String> &graphs) {
    if (row.kind == Kind::Names) {
      Vector<String> named;
      QR_RETURN_IF_ERROR(names(member, named));
      for (const String &one : named) out_.entries_.push_back({String(), String(row.option), one});
      return {};
    }
    const bool is_number = row.kind == Kind::Integer || row.kind == Kind::Switch || row.kind == Kind::Cores ||
                           row.kind == Kind::Zero || row.kind == Kind::Group;
    String option;
    QR_RETURN_IF_ERROR(is_number ? number(row, member, option) : word(row, member, option));
    for (const String &graph : graphs) out_.entries_.push_back({graph, String(row.option), option});
    return {};
  }

  ConfigFile &out_;
  String path_;
};

Result<ConfigFile> ConfigFile::parse(std::string_view text, std::string_view path) {
  ConfigFile file;
  ConfigReader reader(file, path);
  QR_ASSIGN_OR_RETURN(const JsonValue root, read_json(text, reader.subject()));
  QR_RETURN_IF_ERROR(reader.file(root));
  return file;
}

Result<ConfigFile> ConfigFile::read(std::string_view path) {
  if (path.empty()) return ConfigFile();
  constexpr std::size_t kMost = 1 << 20;
  QR_ASSIGN_OR_RETURN(const Vector<std::uint8_t> bytes,
                      read_file_bytes("htp.config_file", path, "a JSON file of backend extensions", kMost));
  return parse({reinterpret_cast<const char *>(bytes.data()), bytes.size()}, path);
}

Vector<std::string_view> ConfigFile::all(std::string_view key) const {
  Vector<std::string_view> found;
  for (const Entry &entry : entries_)
    if (entry.key == key) found.push_back(entry.value);
  return found;
}

std::string_view ConfigFile::stranger(std::span<const std::string_view> graphs) const noexcept {
  for (const Entry &entry : entries_)
    if (!entry.graph.empty() && std::ranges::find(graphs, std::string_view(entry.graph)) == graphs.end())
      return entry.graph;
  return {};
}

const String *ConfigFile::find(std::string_view key, std::string_view graph) const noexcept {
  const String *found = nullptr;
  for (const Entry &entry : entries_)
    if (entry.key == key && (entry.graph.empty() || entry.graph == graph))
      if (!found || !entry.graph.empty()) found = &entry.value;
  return found;
}

}  // namespace quarry::htp
