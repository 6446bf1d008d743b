// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/inspect/doctor.h"

#include <algorithm>

#include "backends/htp/program/grade.h"
#include "backends/htp/qnn/library_file.h"
#include "backends/htp/soc/soc.h"
#include "base/os/library.h"
#include "base/os/path.h"
#include "base/os/process.h"

namespace quarry::htp {

namespace {

bool is_there(const String &path) { return os::allows(path.c_str(), os::Access::Read); }

// Which C++ library the process has for Qualcomm's: of their own, beside them, or the system's.
String bundled_runtime() {
  String found;
  os::for_each_library(
      [](void *self, std::string_view file) {
        if (file.find("/libc++") != file.npos && file.find("libc++abi") == file.npos)
          *static_cast<String *>(self) = file;
      },
      &found);
  return found.empty() ? String("no libc++ of their own: they use the system's C++ library")
                       : "their own C++ library: " + found;
}

// The DSP's own are ELF files on every system.
String skel_file(std::uint32_t arch) { return format("libQnnHtpV%uSkel.so", arch); }
String stub_file(std::uint32_t arch) { return format(QR_QNN_FILE("QnnHtpV%uStub"), arch); }

String architectures(const String &folder, String (*file_of)(std::uint32_t arch)) {
  String found;
  for (const std::uint32_t arch : {68u, 69u, 73u, 75u, 79u, 81u, 85u}) {
    if (!is_there(folder + "/" + file_of(arch))) continue;
    found += format("%sv%u", found.empty() ? "" : ", ", arch);
  }
  return found.empty() ? String("none here") : found;
}

// What the kernel gives to talk to the processor by.
String device_nodes() {
  String found;
  for (const char *const node :
       {"/dev/fastrpc-cdsp", "/dev/fastrpc-cdsp-secure", "/dev/adsprpc-smd", "/dev/adsprpc-smd-secure"})
    if (os::allows(node, os::Access::Exists))
      found += format("%s%s%s", found.empty() ? "" : ", ", node,
                      os::allows(node, os::Access::ReadAndWrite) ? "" : " (no permission)");
  return found.empty() ? String("none of /dev/fastrpc-cdsp, /dev/adsprpc-smd") : found;
}

String places_text(const qnn::LibraryPlaces &places) {
  if (!places.environment.empty()) return "QUARRY_QNN_PATH=" + places.environment;
  return "the plugin's folder " + places.plugin_folder + " and the system's library path";
}

// What can be compiled for, or what the device is.
String socs_text(const qnn::Library &library) {
  if (const Soc *const device = qnn::Library::emulates() ? nullptr : device_soc(library.api()))
    return format("SoC: %s, %s", soc_text(*device), soc_facts(*device));
  const auto count =
      static_cast<std::size_t>(std::ranges::count_if(all_socs(), [](const Soc &soc) { return !has_floats(soc); }));
  return format("SoCs: %zu, of which %zu have no floating point (docs/htp.md: VTCM and floats of each)",
                all_socs().size(), count);
}

String next_thing(const qnn::Library *library, bool prepares, bool nodes, bool skels) {
  if (!library)
    return os::kLibraryForm == os::LibraryForm::MachO
               ? "compile for htp and check it on Linux or Windows: Qualcomm has no QNN libraries for macOS"
           : os::kMusl ? "take a Quarry that is built for glibc, as Qualcomm's libraries are, on a system that has it"
                       : "get the libraries: export QUARRY_QNN_PATH=$(tools/get_qnn.sh)";
  if (!prepares) return "put the library that compiles beside " QR_QNN_FILE("QnnHtp") ", or compile on another machine";
  if (qnn::Library::emulates())
    return "compile for the phone's SoC: -O soc_model=NAME (docs/htp.md); what runs here is the emulator";
  // In an app of Android the linker hides it from Qualcomm's libraries, which say no more than that there is no device.
  if (os::kAndroid && !os::open_library("libcdsprpc.so"))
    return "name libcdsprpc.so in the app's manifest: <uses-native-library android:name=\"libcdsprpc.so\" "
           "android:required=\"false\"/> in <application> (docs/android.md)";
  if (!nodes) return "run on a machine with a Snapdragon, as a user who may open its /dev/fastrpc-cdsp";
  if (!skels)
    return "put libQnnHtpV<arch>Skel.so beside the library and name the folder by the option htp.skel_path or in "
           "ADSP_LIBRARY_PATH";
  return "nothing";
}

}  // namespace

String report_device(const qnn::LibraryPlaces &places, const qnn::Library *library) {
  constexpr bool kEmulates = qnn::Library::emulates();
  const String folder = library ? qnn::folder_of(library->path()) : places.environment;
  const char *const prepare = kEmulates ? QR_QNN_FILE("HtpPrepare") : QR_QNN_FILE("QnnHtpPrepare");
  const bool prepares = is_there(folder + "/" + prepare);
  const String nodes = device_nodes(), skels = architectures(folder, skel_file);
  String out;
  if (library) {
    out += format(QR_QNN_FILE("QnnHtp") ": %s, %s, core %s, HTP %s, build %s\n", printable(library->path(), 1000),
                  kEmulates ? "x86-64 with an emulator" : "aarch64", qnn::version_text(library->version().core),
                  qnn::version_text(library->version().backend), library->build_id());
    out += format("  its table: %zu of the %zu functions of this version; device configuration as %s HTP 5.47\n",
                  library->table_functions(), library->table_slots(),
                  library->device_config_is_wide() ? "since" : "before");
    out += format(QR_QNN_FILE("QnnSystem") ": %s\n", qnn::version_text(library->system_version()));
    out += "C++: " + bundled_runtime() + "\n";
    out += socs_text(*library) + "\n";
  } else {
    out += QR_QNN_FILE("QnnHtp") ": not usable from " + places_text(places) + "\n";
  }
  out += format("%s (compiles): %s\n", prepare, prepares ? "there" : "missing");
  out += format("stubs: %s; skels: %s%s\n", architectures(folder, stub_file), skels,
                kEmulates ? " (a device needs those of its architecture, the emulator none)" : "");
  String room;
  const char *const path = os::variable("ADSP_LIBRARY_PATH", room);
  out += format("device nodes: %s; ADSP_LIBRARY_PATH: %s\n", nodes, path ? printable(path, 300).c_str() : "not set");
  return out + "next: " + next_thing(library, prepares, !nodes.starts_with("none"), skels != "none here");
}

}  // namespace quarry::htp
