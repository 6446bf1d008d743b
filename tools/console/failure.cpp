// SPDX-License-Identifier: Apache-2.0
#include "tools/console/failure.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <system_error>

#include "base/os/process.h"
#include "tools/console/output.h"
#include "tools/console/reasons.h"

namespace tools {
namespace {

constexpr const char *kNoMemory = "out of memory";
constexpr const char *kInternal = "found an error inside the program, expected none: please report this command";

// The library speaks of options; these ids have a flag for what to do. `detail` names the frame whose value to show.
struct FlagHint {
  const char *id, *flag, *detail, *otherwise;
};
constexpr FlagHint kFlagHints[] = {
    {"QR-M0009", "quarry compile --backend ", "backend", "ID"},
    {"QR-O0008", "--shape ", "shape", "NAME=1x3x224x224, or DIM=1"},
    {"QR-B0002", "`quarry ops --backend ID` lists what a backend runs", "", ""},
    {"QR-B0003", "`quarry ops --backend ID` lists what a backend runs", "", ""},
};

std::string detail_of(const qr::Error &error, const std::string &key) {
  for (const auto &[name, value] : error.details())
    if (name == key) return value;
  return "";
}

// Letters to change, add, drop or swap with their neighbour to get from one word to the other.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last, last = row;
  }
  return last[b.size()];
}

// What the library's hints call by the names of C.
struct Spoken {
  std::string_view function, command;
};
constexpr Spoken kSpoken[] = {
    {"qr_model_check", "`quarry check MODEL --json`"},
    {"qr_quantize_option_at", "`quarry quantize --help`"},
    {"qr_session_create", "the command (-O KEY=VALUE)"},
};

void print_hint(std::string hint) {
  for (const Spoken &row : kSpoken)
    if (const size_t at = hint.find(row.function); at != std::string::npos)
      hint.replace(at, row.function.size(), row.command);
  if (!hint.empty()) std::fprintf(stderr, "  hint: %s\n", hint.c_str());
}

}  // namespace

void no_room(uint64_t bytes, const std::string &what) {
  throw Failure(what + ": out of memory: found no room for " + std::to_string(bytes) + " bytes");
}

std::string os_text(int number) {
  std::string text = std::strerror(number);
  if (const uint64_t most = quarry::os::most_open_files(); number == EMFILE && most > 0)
    text += ": this process may have " + std::to_string(most) + " (ulimit -n)";
  return text;
}

namespace {

// Of standard output the library knows the number alone.
std::string named(std::string text) {
  const std::string number = "/dev/fd/" + std::to_string(fileno(standard_output())), file = "file '" + number + "'";
  if (text == number) return "standard output";
  if (const size_t at = text.find(file); at != std::string::npos) text.replace(at, file.size(), "standard output");
  return text;
}

// A reason that many nodes have stands once.
void print_details(const qr::Error &error) {
  std::vector<std::string> reasons;
  for (const auto &[key, value] : error.details())
    if (key == "reason") reasons.push_back(named(value));
  bool told = false;
  for (const auto &[key, value] : error.details()) {
    if (key != "reason") {
      std::fprintf(stderr, "  %s: %s\n", key.c_str(), named(value).c_str());
      continue;
    }
    if (!told)
      for (const std::string &reason : each_once(reasons)) std::fprintf(stderr, "  reason: %s\n", reason.c_str());
    told = true;
  }
}

}  // namespace

void print_error(const qr::Error &error) {
  if (error.id().empty()) {  // not even its text could be copied
    std::fprintf(stderr, "quarry: error: %s\n", kNoMemory);
    return;
  }
  std::fprintf(stderr, "quarry: error %s: %s\n", error.id().c_str(), named(error.message()).c_str());
  print_details(error);
  print_hint(error.message().rfind("backend \"saver\"", 0) == 0
                 ? "its record goes beside a compilation: -O qnn_saver_path=LIBRARY; -O htp.record=FILE has every call "
                   "(quarry replay)"
                 : error.hint());
  for (const FlagHint &row : kFlagHints) {
    if (error.id() != row.id) continue;
    const std::string value = detail_of(error, row.detail);
    std::fprintf(stderr, "  on the command line: %s%s\n", row.flag, value.empty() ? row.otherwise : value.c_str());
  }
}

int report_failure() {
  try {
    throw;
  } catch (const qr::Error &error) {
    print_error(error);
    return 3;
  } catch (const Failure &failure) {
    std::fprintf(stderr, "quarry: %s\n", failure.what());
    print_hint(failure.hint);
    return dynamic_cast<const UsageError *>(&failure) ? 2 : 3;
  } catch (...) {
    std::fprintf(stderr, "quarry: %s\n", failure_text().c_str());
  }
  return 3;
}

std::string failure_text() {
  try {
    throw;
  } catch (const qr::Error &error) {
    return error.message();
  } catch (const Failure &failure) {
    return failure.what();
  } catch (const std::bad_alloc &) {
    return kNoMemory;
  } catch (const std::system_error &error) {  // a thread that cannot be started
    return "found that the operating system refused: " + error.code().message();
  } catch (...) {
    return kInternal;
  }
}

std::string nearest_word(std::string_view typed, const std::vector<std::string> &words) {
  std::string best;
  size_t least = typed.size() / 3 + 2;
  for (const std::string &word : words)
    if (const size_t changes = distance(typed, word); changes < least) best = word, least = changes;
  return best;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string> &words) {
  const std::string word = nearest_word(typed, words);
  return word.empty() ? "" : "did you mean '" + word + "'?";
}

}  // namespace tools
