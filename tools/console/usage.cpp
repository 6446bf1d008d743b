// SPDX-License-Identifier: Apache-2.0
#include "tools/console/usage.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/os/file.h"

namespace tools {

using quarry::os::FileInfo, quarry::os::FileKind, quarry::os::get_info;

namespace {

std::string in_quotes(const std::string &text) { return "'" + text + "'"; }

// A message of a Validator: what the parser puts behind "--flag: ".
std::string found_expected(const std::string &found, const std::string &expected) {
  return "found " + in_quotes(found) + ", expected " + expected;
}

bool is_file(const std::string &path) {
  FileInfo info;
  return get_info(path.c_str(), &info) && info.kind == FileKind::Regular;
}

std::vector<const CLI::App *> commands_of(const CLI::App &app) {
  return app.get_subcommands([](const CLI::App *) { return true; });
}

const CLI::App *find_command(const CLI::App &app, const std::string &word) {
  for (const CLI::App *one : commands_of(app))
    if (one->get_name() == word) return one;
  return nullptr;
}

// The subcommand that was parsed, or the program itself.
const CLI::App &parsed_command(const CLI::App &app) {
  const std::vector<CLI::App *> parsed = app.get_subcommands();
  return parsed.empty() ? app : *parsed[0];
}

// "`quarry run`" without the quotes.
std::string spoken(const CLI::App &command) { return command.get_parent() ? "quarry " + command.get_name() : "quarry"; }

std::vector<std::string> flags_of(const CLI::App &command) {
  std::vector<std::string> flags;
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames()) flags.push_back("--" + name);
  return flags;
}

bool has_flag(const CLI::App &command, const std::string &flag) {
  const std::vector<std::string> flags = flags_of(command);
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

// What a message begins with: "run: ".
std::string subject(const CLI::App &command) { return command.get_parent() ? command.get_name() + ": " : ""; }

// "MODEL", "[FILE...]"; "--at TENSOR,..." of a flag.
std::string shown(const CLI::Option &option) {
  const std::string told = option.get_type_name(), type = told.substr(0, told.find(':'));  // "TEXT:{auto,nchw}"
  return option.get_positional() ? type : option.get_name() + " " + type;
}

// What must be given: "quarry cut MODEL --at TENSOR,...".
std::string shortest_line(const CLI::App &command) {
  std::string line = spoken(command);
  for (const CLI::Option *option : command.get_options())
    if (option->get_required()) line += " " + shown(*option);
  return line;
}

std::string help_of(const CLI::App &command) { return "`" + spoken(command) + " --help` says what it takes"; }

// Words of other runtimes' programs, and what to write here.
struct TheirWord {
  const char *theirs, *ours;
};
constexpr TheirWord kTheirCommands[] = {{"benchmark", "bench"}, {"build", "compile"}, {"convert", "compile"},
                                        {"infer", "run"},       {"info", "inspect"},  {"optimize", "compile"},
                                        {"predict", "run"},     {"test", "conform"},  {"visualize", "view"}};
constexpr TheirWord kTheirFlags[] = {{"calib", "--calibration DIR|FILE"}, {"calibrate", "--calibration DIR|FILE"},
                                     {"device", "--backend NAME"},        {"ep", "--backend NAME"},
                                     {"num-threads", "--threads N"},      {"num_threads", "--threads N"},
                                     {"provider", "--backend NAME"},      {"providers", "--backend NAME"}};

template <size_t kCount>
std::string ours_of(const TheirWord (&words)[kCount], const std::string &word) {
  for (const TheirWord &one : words)
    if (word == one.theirs) return one.ours;
  return "";
}

// "check-model" for "check": what stands before a dash may be the whole of ours.
std::string command_hint(const std::string &word, const std::vector<std::string> &names) {
  const std::string ours = ours_of(kTheirCommands, word), first = word.substr(0, word.find('-'));
  if (!ours.empty()) return "here it is `quarry " + ours + "`";
  if (first != word && std::find(names.begin(), names.end(), first) != names.end())
    return "did you mean '" + first + "'?";
  return did_you_mean(word, names);
}

// The flag that somebody may have meant who wrote `word`.
std::string flag_hint(const CLI::App &app, const CLI::App &command, const std::string &word) {
  const bool one_dash = word.compare(0, 2, "--") != 0;
  const std::string flag = (one_dash ? "-" : "") + word.substr(0, word.find('='));
  if (!command.get_parent() && (word == "-v" || word == "-V")) return "did you mean '--version'?";
  const std::string ours = ours_of(kTheirFlags, flag.substr(2));
  if (!ours.empty() && has_flag(command, ours.substr(0, ours.find(' ')))) return "here it is " + ours;
  // Without the dashes, which every flag has.
  std::vector<std::string> names;
  for (const std::string &one : flags_of(command)) names.push_back(one.substr(2));
  std::string near = nearest_word(flag.substr(2), names);
  if (!near.empty()) near = "--" + near;
  if (near == flag) return "long flags have two dashes: " + near;
  if (!near.empty() && (!one_dash || flag.size() > 4)) return "did you mean '" + near + "'?";
  for (const CLI::App *other : commands_of(app))
    if (has_flag(*other, flag)) return "`quarry " + other->get_name() + "` has it; " + help_of(command);
  const bool takes_options = has_flag(command, "--option");
  return help_of(command) +
         (takes_options ? "; options of library and backends are written -O KEY=VALUE, `quarry options` lists them"
                        : "");
}

// Flags that name a file to be written; any other word may name one that is read.
bool names_a_result(const CLI::Option &option) {
  const std::string name = option.get_name(), type = option.get_type_name();
  if (name == "--json") return type == "FILE|-";
  return name == "--output" || name == "--plot" || name == "--draw" || name == "--report" || name == "--resume" ||
         (name == "--profile" && type != "FILE");
}

bool is_same_file(const FileInfo &one, const std::string &path) {
  FileInfo other;
  return get_info(path.c_str(), &other) && other.kind == FileKind::Regular && one.device == other.device &&
         one.number == other.number;
}

// `path` is what the flag `result` names; `other` is another flag.
void check_result(const CLI::App &command, const CLI::Option &result, const std::string &path,
                  const CLI::Option &other) {
  FileInfo info{};
  const bool is_there = path != "-" && get_info(path.c_str(), &info) && info.kind == FileKind::Regular;
  for (const std::string &word : other.results()) {
    if (names_a_result(other) && word == path)
      throw UsageError(subject(command) + "found " + in_quotes(path) + " for " + result.get_name() + " and for " +
                           other.get_name() + ", expected one for each",
                       help_of(command));
    // The library writes a container beside its place and renames it.
    const bool replaces = command.get_name() == "compile" && word.ends_with(".qrm");
    if (!is_there || names_a_result(other) || replaces) continue;
    const std::string value = word.substr(word.find('=') == std::string::npos ? 0 : word.find('=') + 1);
    if (is_same_file(info, word) || is_same_file(info, value))
      throw UsageError(subject(command) + "found " + in_quotes(path) + " for " + result.get_name() +
                           ", expected another file: this one is read, and " + result.get_name() +
                           " would overwrite it",
                       help_of(command));
  }
}

// No result is written over what is read, and no two into one file.
void check_results(const CLI::App &command) {
  const std::vector<const CLI::Option *> options = command.get_options();
  for (const CLI::Option *result : options) {
    if (!names_a_result(*result)) continue;
    for (const std::string &path : result->results()) {
      for (const CLI::Option *other : options)
        if (other != result) check_result(command, *result, path, *other);
    }
  }
}

// Standard input is one file.
void check_inputs(const CLI::App &command) {
  int count = 0;
  for (const CLI::Option *option : command.get_options()) {
    if (names_a_result(*option)) continue;
    for (const std::string &word : option->results()) count += word == "-" || word.ends_with("=-");
  }
  if (count > 1)
    throw UsageError(subject(command) + "found '-' for " + std::to_string(count) +
                         " files that are read, expected one: standard input is read once",
                     help_of(command));
}

// Somebody may have named the result as other programs want it: compile a.onnx a.qrm.
std::string place_hint(const CLI::App &command, const std::string &word) {
  const bool may_be_one = has_flag(command, "--output") && !is_file(word);
  const CLI::Option *const profile = command.get_option_no_throw("--profile");
  if (profile && names_a_result(*profile) && profile->count() != 0 &&
      (word.ends_with(".csv") || word.ends_with(".json")))
    return "to write the events to it: --profile=" + word;
  return (may_be_one ? "to write to it: -o " + word + "; " : "") + help_of(command);
}

UsageError unexpected(const CLI::App &app, const CLI::App &command) {
  const std::vector<std::string> rest = app.remaining(true);
  const auto flag =
      std::find_if(rest.begin(), rest.end(), [](const std::string &w) { return w.size() > 1 && w[0] == '-'; });
  if (flag != rest.end())
    return UsageError(subject(command) + "found " + in_quotes(*flag) + ", expected a flag that it has",
                      flag_hint(app, command, *flag));
  std::string takes;
  for (const CLI::Option *option : command.get_options())
    if (option->get_positional()) takes += (takes.empty() ? "" : " ") + shown(*option);
  return UsageError(subject(command) + "found " + (rest.empty() ? "a word" : in_quotes(rest[0])) +
                        " too many, expected " + (takes.empty() ? "no more words" : "no more than " + takes),
                    rest.empty() ? help_of(command) : place_hint(command, rest[0]));
}

UsageError missing(const CLI::App &app, const CLI::App &command) {
  const std::vector<std::string> rest = app.remaining(true);
  // A flag that is written otherwise may be the one that is missing.
  const bool has_unknown =
      std::any_of(rest.begin(), rest.end(), [](const std::string &w) { return w.size() > 1 && w[0] == '-'; });
  if (has_unknown || (!rest.empty() && rest[0][0] != '-' && has_flag(command, "--output")))
    return unexpected(app, command);
  for (const CLI::Option *option : command.get_options())
    if (option->get_required() && option->count() == 0)
      return UsageError(subject(command) + "found no " +
                            (option->get_positional() ? shown(*option) : option->get_name()) + ", expected " +
                            shortest_line(command),
                        help_of(command));
  return UsageError(subject(command) + "found no subcommand, expected one", help_of(command));
}

// "--top: 1 required N missing", "--top: At Most 1 required but received 2".
UsageError wrong_count(const CLI::App &command, const std::string &message) {
  const std::string name = message.substr(0, message.find(':'));
  for (const CLI::Option *option : command.get_options()) {
    if (option->get_name() != name) continue;
    if (option->count() > 1)
      return UsageError(name + ": found it " + std::to_string(option->count()) + " times, expected it once",
                        help_of(command));
    return UsageError(name + ": found no value, expected " + shown(*option), help_of(command));
  }
  return UsageError(message, help_of(command));
}

}  // namespace

CLI::Validator whole_number(int64_t low, int64_t high) {
  std::string expected = "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  if (high == INT64_MAX) expected = "a whole number, " + std::to_string(low) + " or more";
  return CLI::Validator(
      [low, high, expected](std::string &text) {
        int64_t value = 0;
        const char *const end = text.data() + text.size();
        const auto read = std::from_chars(text.data(), end, value);
        const bool good = read.ec == std::errc() && read.ptr == end && value >= low && value <= high;
        return good ? std::string() : found_expected(text, expected);
      },
      std::to_string(low) + (high == INT64_MAX ? " or more" : " to " + std::to_string(high)));
}

CLI::Validator number(Sign sign) {
  return CLI::Validator(
      [sign](std::string &text) {
        char *end = nullptr;
        const double value = std::strtod(text.c_str(), &end);
        const bool is_number = end != text.c_str() && *end == 0 && std::isfinite(value);
        switch (sign) {
          case Sign::NotNegative:
            return is_number && value >= 0 ? std::string() : found_expected(text, "a number, 0 or more");
          case Sign::Positive: return is_number && value > 0 ? std::string() : found_expected(text, "a number above 0");
          case Sign::NotZero:
            return is_number && value != 0 ? std::string() : found_expected(text, "numbers other than 0");
          case Sign::Any: break;
        }
        return is_number ? std::string() : found_expected(text, "a number");
      },
      "");
}

CLI::Validator name_with(const std::string &ending) {
  return CLI::Validator(
      [ending](std::string &text) {
        return text.ends_with(ending) || text == "-" ? std::string()
                                                     : found_expected(text, "a name that ends in " + ending);
      },
      "");
}

CLI::Validator one_of(std::vector<std::string> words) {
  const std::string told = "{" + CLI::detail::join(words, ",") + "}";  // command_table.cpp reads it
  return CLI::Validator(
      [words = std::move(words)](std::string &text) {
        if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
        return found_expected(text, CLI::detail::join(words, ", "));
      },
      told);
}

std::string first_steps() {
  return "quarry: found no subcommand, expected one. What to do first:\n"
         "  quarry run MODEL FILE     runs an .onnx or .qrm on a picture, an .npy or a .pb (--zeros: without a file)\n"
         "  quarry compile MODEL      makes a .qrm of an .onnx: it opens at once, and needs no ONNX where it runs\n"
         "  quarry doctor             lists which backends and devices there are, and why others are not\n"
         "`quarry --help` lists the rest, `quarry COMMAND --help` describes one.\n";
}

std::vector<std::string> command_words(const CLI::App &app, int argc, const char *const *argv) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (words.empty()) return words;
  if (words[0] == "help") {
    words.erase(words.begin());
    words.resize(std::min<size_t>(words.size(), 1));
    words.push_back("--help");
  } else if (words[0] == "version") {
    words[0] = "--version";
  }
  if (words[0][0] == '-') {
    for (const CLI::App *command : commands_of(app))
      if (const std::string flag = words[0].substr(0, words[0].find('='));
          !has_flag(app, flag) && has_flag(*command, flag))
        throw UsageError("found " + in_quotes(words[0]) + " first, expected a subcommand before it",
                         "as in quarry " + command->get_name() + " ... " + words[0] + "; `quarry --help` lists them");
    return words;
  }
  const CLI::App *const command = find_command(app, words[0]);
  if (!command) {
    std::vector<std::string> names;
    for (const CLI::App *one : commands_of(app))
      if (!one->get_group().empty()) names.push_back(one->get_name());  // those that the help lists
    std::string hint = command_hint(words[0], names);
    if (hint.empty() && (is_file(words[0]) || words[0].ends_with(".onnx") || words[0].ends_with(".qrm")))
      hint = "to run a model: quarry run " + CLI::detail::join(words, " ");
    throw UsageError("found " + in_quotes(words[0]) + ", expected a subcommand: " + CLI::detail::join(names, ", "),
                     hint.empty() ? "`quarry --help` says what each does" : hint);
  }
  // "-backend cpu" would be -b with the value "ackend", "-O=threads=2" an option of the name "".
  for (size_t i = 1; i < words.size() && words[i] != "--"; ++i) {
    const std::string &word = words[i];
    if (word.size() < 3 || word[0] != '-' || word[1] == '-') continue;
    if (const std::string flag = "-" + word.substr(0, word.find('=')); has_flag(*command, flag))
      throw UsageError(subject(*command) + "found " + in_quotes(word) + ", expected two dashes: '-" + word + "'",
                       help_of(*command));
    if (word[2] != '=') continue;
    for (const CLI::Option *option : command->get_options())
      if (option->check_sname(word.substr(1, 1)))
        throw UsageError(subject(*command) + "found " + in_quotes(word) + ", expected " +
                             in_quotes(word.substr(0, 2) + " " + word.substr(3)) + " or " +
                             in_quotes(option->get_name() + word.substr(2)),
                         help_of(*command));
  }
  return words;
}

UsageError usage_error(const CLI::App &app, const CLI::ParseError &error) {
  const CLI::App &command = parsed_command(app);
  const std::string message = error.what();
  const bool has_rest = !app.remaining(true).empty();
  // Where the subcommand is missing too, the word that stands in its place says more.
  if (dynamic_cast<const CLI::ExtrasError *>(&error) || (&command == &app && has_rest)) return unexpected(app, command);
  if (dynamic_cast<const CLI::RequiredError *>(&error)) return missing(app, command);
  if (dynamic_cast<const CLI::ArgumentMismatch *>(&error)) return wrong_count(command, message);
  if (dynamic_cast<const CLI::ExcludesError *>(&error)) {  // "--queue excludes --sessions"
    const size_t at = message.find(" excludes ");
    if (at != std::string::npos)
      return UsageError(
          message.substr(0, at) + ": found it with " + message.substr(at + 10) + ", expected one of the two",
          help_of(command));
  }
  return UsageError(message, help_of(command));
}

void check_parsed(const CLI::App &app) {
  const CLI::App &command = parsed_command(app);
  for (const CLI::Option *option : command.get_options()) {
    const std::string type = option->get_type_name();
    const bool is_place = type.starts_with("FILE") || type == "DIR" || type == "MODEL";
    if (!is_place || option->count() == 0) continue;
    for (const std::string &value : option->results())
      if (value.empty())
        throw UsageError(subject(command) + "found an empty text for " + option->get_name() + ", expected " +
                             (option->get_positional() ? "the name of a file" : shown(*option)),
                         "a variable of the shell may be empty");
  }
  check_results(command);
  check_inputs(command);
}

}  // namespace tools
