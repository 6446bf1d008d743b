// SPDX-License-Identifier: Apache-2.0
// quarry doctor: every candidate plugin with its verdict, the devices, the processor, and what to do.
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/os/path.h"
#include "base/os/processor.h"
#include "tools/console/command.h"

namespace tools {
namespace {

nlohmann::json search_path_json(const qr::Runtime &runtime) {
  nlohmann::json folders = nlohmann::json::array();
  for (uint64_t i = 0;; ++i) {
    qr_string path{}, origin{};
    if (qr_status *status = qr_runtime_search_path(runtime.get(), i, &path, &origin)) {
      qr_status_destroy(status);
      return folders;
    }
    const std::string folder = qr::from_c(path);
    folders.push_back({{"path", folder},
                       {"origin", qr::from_c(origin)},
                       {"exists", quarry::os::allows(folder.c_str(), quarry::os::Access::Enter)}});
  }
}

nlohmann::json backend_json(qr::Runtime &runtime, uint64_t i) {
  const qr_backend_info info = runtime.backend(i);
  nlohmann::json row = {{"id", qr::from_c(info.id)},           {"usable", info.usable != 0},
                        {"static", info.is_static != 0},       {"path", qr::from_c(info.path)},
                        {"version", qr::from_c(info.version)}, {"error", qr::from_c(info.error_id)},
                        {"verdict", qr::from_c(info.verdict)}, {"hint", qr::from_c(info.hint)}};
  row["devices"] = nlohmann::json::array();
  for (uint64_t d = 0; d < info.device_count; ++d) {
    const qr_device_info device = runtime.device(i, d);
    row["devices"].push_back({{"name", qr::from_c(device.name)},
                              {"target", qr::from_c(device.target)},
                              {"usable", device.usable != 0},
                              {"memory_bytes", device.memory_bytes},
                              {"imports_fd", (device.features & QR_DEVICE_IMPORTS_FD) != 0},
                              {"registers_pointer", (device.features & QR_DEVICE_REGISTERS_POINTER) != 0},
                              {"simulated", (device.features & QR_DEVICE_SIMULATED) != 0},
                              {"recovers", (device.features & QR_DEVICE_RECOVERS) != 0},
                              {"why_not", qr::from_c(device.why_not)},
                              {"details", qr::from_c(device.details)}});
  }
  return row;
}

void print_backend(const nlohmann::json &row) {
  print("  %-4s %s %s  %s\n", row["usable"].get<bool>() ? "ok" : "NO", row["id"].get<std::string>(),
        row["version"].get<std::string>(),
        row["static"].get<bool>() ? "(linked in)" : row["path"].get<std::string>().c_str());
  if (!row["verdict"].get<std::string>().empty())
    print("       %s%s%s\n", row["error"].get<std::string>(), row["error"].get<std::string>().empty() ? "" : ": ",
          row["verdict"].get<std::string>());
  if (!row["usable"].get<bool>() && !row["hint"].get<std::string>().empty())
    print("       what to do: %s\n", row["hint"].get<std::string>());
  for (const nlohmann::json &device : row["devices"]) {
    print("       device: %s, target %s%s%s%s\n", device["name"].get<std::string>(),
          device["target"].get<std::string>(), device["simulated"].get<bool>() ? ", simulated" : "",
          device["usable"].get<bool>() ? "" : ", NOT usable: ", device["why_not"].get<std::string>());
    std::istringstream details(device["details"].get<std::string>());
    for (std::string line; std::getline(details, line);) print("         %s\n", line);
  }
}

int doctor(const SessionFlags &flags, bool as_json) {
  qr::Runtime runtime = flags.runtime();
  nlohmann::json report = {{"version", qr_version()},
                           {"plugin_target", qr_plugin_target()},
                           {"cpu_features", qr_runtime_cpu_features(runtime.get())},
                           {"processors", quarry::os::processor_count()}};
  report["search_path"] = search_path_json(runtime);
  report["backends"] = nlohmann::json::array();
  const uint64_t count = runtime.scan();
  int usable = 0;
  for (uint64_t i = 0; i < count; ++i) {
    usable += runtime.backend(i).usable != 0;
    report["backends"].push_back(backend_json(runtime, i));
  }
  if (as_json) {
    print("%s\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return usable ? 0 : 1;
  }
  print("Quarry %s\n\nProcessor\n  %d online; %s\n\nPlugin folders, in order; plugins are for %s\n", qr_version(),
        report["processors"].get<int>(), qr_runtime_cpu_features(runtime.get()), qr_plugin_target());
  for (const nlohmann::json &row : report["search_path"])
    print("  %s (%s)%s\n", row["path"].get<std::string>(), row["origin"].get<std::string>(),
          row["exists"].get<bool>() ? "" : ": does not exist");
  print("\nBackends\n");
  for (const nlohmann::json &row : report["backends"]) print_backend(row);
  if (!count) print("  none found\n");
  if (!usable)
    print(
        "\nNo backend can be used. Install Quarry's backends, or name their folder with --backend-path or "
        "QUARRY_BACKEND_PATH.\n");
  else print("\n%d backend%s usable. Choose one with --backend ID.\n", usable, usable == 1 ? "" : "s");
  return usable ? 0 : 1;
}

}  // namespace

void register_doctor(CLI::App &app, Action &action) {
  auto flags = std::make_shared<SessionFlags>();
  auto json = std::make_shared<bool>(false);
  CLI::App *command = app.add_subcommand("doctor", "Say which backends and devices there are, and why others are not");
  command
      ->add_option("--backend-path", flags->backend_path, "Folders to look for backend plugins in first, ':' between")
      ->type_name("DIRS");
  command->add_flag("--verbose,-v", flags->verbose, "Show log lines down to debug");
  command->add_flag("--json", *json, "Print the report as JSON");
  command->callback([&action, flags, json] { action = [flags, json] { return doctor(*flags, *json); }; });
}

}  // namespace tools
