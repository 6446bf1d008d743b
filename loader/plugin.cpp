// SPDX-License-Identifier: Apache-2.0
// Opening a plugin, negotiating with it, and what it says of itself.
#include "loader/plugin.h"

#include <cerrno>
#include <cstring>

#include "base/open_fd.h"
#include "base/os/file.h"
#include "base/os/library.h"
#include "base/os/path.h"
#include "base/os/process.h"
#include "base/os_error.h"
#include "loader/checks.h"
#include "loader/compatibility.h"
#include "loader/elf_note.h"
#include "loader/macho_note.h"
#include "loader/pe_note.h"
#include "quarry/runtime.h"

namespace quarry::loader {

std::optional<std::string_view> checked_text(qr_plugin_string text) noexcept {
  if (!text.data)
    return text.size == 0 || text.size == QR_PLUGIN_NUL_TERMINATED ? std::optional(std::string_view()) : std::nullopt;
  const std::uint64_t size = text.size == QR_PLUGIN_NUL_TERMINATED ? strnlen(text.data, kMaxTextBytes + 1) : text.size;
  if (size > kMaxTextBytes) return std::nullopt;
  return std::string_view(text.data, size);
}

// ---- how a slot ended ---------------------------------------------------------------------------

void ErrorCollector::set(void *self, qr_plugin_code code, qr_plugin_string id, qr_plugin_string message,
                         qr_plugin_string hint) {
  ErrorCollector &collector = *static_cast<ErrorCollector *>(self);
  AllocatorScope scope(collector.plugin_.environment().allocator());
  const std::lock_guard lock(collector.mutex_);
  const auto id_text = checked_text(id), message_text = checked_text(message), hint_text = checked_text(hint);
  if (!id_text || !message_text || !hint_text) {
    collector.bad_text_ = true;
    return;
  }
  collector.told_ = !message_text->empty();
  try {
    collector.said_ =
        Status::foreign(code, printable(*id_text, 64), printable(*message_text, 4096), printable(*hint_text, 4096));
  } catch (const std::bad_alloc &) {
    collector.said_ = Status::out_of_memory();
  }
}

void ErrorCollector::detail(void *self, qr_plugin_string key, qr_plugin_string value) {
  ErrorCollector &collector = *static_cast<ErrorCollector *>(self);
  AllocatorScope scope(collector.plugin_.environment().allocator());
  const std::lock_guard lock(collector.mutex_);
  const auto key_text = checked_text(key), value_text = checked_text(value);
  if (!key_text || !value_text) {
    collector.bad_text_ = true;
    return;
  }
  try {
    collector.said_.with(printable(*key_text, 64), printable(*value_text, 4096));
  } catch (const std::bad_alloc &) {
    // The frame is lost, the error is not.
  }
}

Status ErrorCollector::finish(const char *slot, qr_plugin_code code) noexcept try {
  if (bad_text_) return plugin_.misbehaved(slot, "gave the error sink a text without data or over 64 KiB");
  if (code == QR_OK) return {};
  if (code < 0 || code > QR_DEVICE_LOST)
    return plugin_.misbehaved(slot, format("returned %d, expected a status code from 0 to %d", code, QR_DEVICE_LOST));
  if (!told_) return plugin_.misbehaved(slot, format("returned %d (%s) and gave no reason", code, code_name(code)));
  ErrorId fallback = ErrorId::backend_limit;
  switch (code) {
    case QR_RESOURCE_EXHAUSTED: fallback = ErrorId::out_of_memory; break;
    case QR_DEADLINE_EXCEEDED: fallback = ErrorId::deadline_exceeded; break;
    case QR_CANCELLED: fallback = ErrorId::cancelled; break;
    case QR_UNAVAILABLE: fallback = ErrorId::backend_no_device; break;
    case QR_BUSY: fallback = ErrorId::device_busy; break;
    case QR_DEVICE_LOST: fallback = ErrorId::device_lost; break;
    case QR_CORRUPT: fallback = ErrorId::backend_bad_blob; break;
    default: break;
  }
  const ErrorRow &row = error_row(fallback);
  Status status = Status::foreign(code, said_.id().empty() ? row.id : said_.id(), said_.message(),
                                  said_.hint().empty() && said_.id().empty() ? row.hint : said_.hint());
  if (said_.payload())
    for (const Status::Detail &frame : said_.payload()->details) status.with(frame.key, frame.value);
  status.with("backend", plugin_.id());
  return status;
} catch (const std::bad_alloc &) {
  return Status::out_of_memory();
}

Status Plugin::misbehaved(const char *slot, std::string_view what) noexcept try {
  const String message = format("backend %s: %s %.*s", id_, slot, what);
  environment_.log(QR_LOG_ERROR, QR_LOG_PLUGIN_MISBEHAVES, "plugin", message);
  return Status::error(ErrorId::plugin_misbehaving, message).with("backend", id_).with("file", path_);
} catch (const std::bad_alloc &) {
  return Status::out_of_memory();
}

// ---- opening ------------------------------------------------------------------------------------

Plugin::Plugin(HostEnvironment &environment) noexcept
    : environment_(environment), host_(make_host(environment)), process_(os::process_id()) {}

Plugin::~Plugin() {
  if (backend_) table_->destroy(backend_);
}

#ifdef QR_NO_DLOPEN

Result<std::shared_ptr<Plugin>> Plugin::open_file(HostEnvironment &, std::string_view path, PluginNote *) {
  return Status::hinted(ErrorId::backend_not_found, "name a backend that is linked in; `quarry doctor` lists them",
                        "%s: this is a static build, which opens no plugin files", printable(path, 1024).c_str());
}

#else

namespace {

const char *kind_text(os::FileKind kind) noexcept {
  switch (kind) {
    case os::FileKind::Folder: return "a folder";
    case os::FileKind::Pipe: return "a FIFO";
    case os::FileKind::Socket: return "a socket";
    case os::FileKind::Device: return "a device";
    default: return "no regular file";
  }
}

Result<PluginNote> read_note_of_file(const String &path) {
  const OpenFd file = os::open_file(path.c_str());
  const int refused = errno;
  os::FileInfo info;
  // A socket cannot be opened.
  const bool known =
      file.get() >= 0 ? os::get_info(file.get(), &info) : refused == ENXIO && os::get_info(path.c_str(), &info);
  if (!known) {
    const int error = file.get() < 0 ? refused : errno;
    return Status::errorf(os_error_id(error, ErrorId::io_error), "%s: cannot be opened: %s", printable(path, 1024),
                          os_error_text(error));
  }
  if (info.kind != os::FileKind::Regular)
    return Status::errorf(ErrorId::not_a_file, "%s: found %s, expected a plugin file", printable(path, 1024),
                          kind_text(info.kind));
  const FileSource source(file.get(), info.size);
  if constexpr (os::kLibraryForm == os::LibraryForm::Pe) {
    QR_ASSIGN_OR_RETURN(PluginNote note, read_pe_note(source, path));
    QR_RETURN_IF_ERROR(check_pe_imports(source, path));
    return note;
  } else if constexpr (os::kLibraryForm == os::LibraryForm::MachO) {
    return read_macho_note(source, path);
  } else {
    return read_elf_note(source, path);
  }
}

}  // namespace

Result<std::shared_ptr<Plugin>> Plugin::open_file(HostEnvironment &environment, std::string_view given_path,
                                                  PluginNote *out_note) {
  if (given_path.empty() || given_path.find('\0') != given_path.npos)
    return Status::errorf(ErrorId::bad_argument, "plugin path: found \"%s\", expected the name of a file",
                          printable(given_path));
  String path(given_path);
  if (os::last_separator(path) == path.npos)
    path.insert(0, "./");  // a bare name would be searched where the system searches
  QR_ASSIGN_OR_RETURN(const PluginNote note, read_note_of_file(path));
  if (out_note) *out_note = note;
  QR_RETURN_IF_ERROR(check_compatibility(note, path));

  void *handle = os::open_library(path.c_str());
  if (!handle) {
    const String why = os::library_error();
    return Status::errorf(out_of_descriptors() ? ErrorId::out_of_descriptors : ErrorId::plugin_dlopen,
                          "%s: the dynamic linker refused it: %s", printable(path, 1024), printable(why, 2048))
        .with("file", path);
  }
  const auto query = reinterpret_cast<qr_plugin_query_fn>(os::find_symbol(handle, "qr_plugin_query"));
  if (!query)
    return Status::errorf(ErrorId::plugin_no_symbol, "%s: found no symbol qr_plugin_query, expected it exported",
                          printable(path, 1024))
        .with("file", path);

  auto plugin = make_shared<Plugin>(environment);
  plugin->path_ = std::move(path);
  plugin->id_ = note.id;
  if (Status status = plugin->negotiate(query, &note); !status.ok())
    return std::move(status).with("file", plugin->path_);
  return plugin;
}

#endif

Result<std::shared_ptr<Plugin>> Plugin::open_static(HostEnvironment &environment, std::string_view id,
                                                    qr_plugin_query_fn query) {
  auto plugin = make_shared<Plugin>(environment);
  plugin->id_ = id;
  QR_RETURN_IF_ERROR(plugin->negotiate(query, nullptr));
  return plugin;
}

namespace {

// What the plugin said of itself, under the loader's id; our own verdicts stay as they are.
Status refused(Status said, ErrorId id, const String &backend, const char *what) {
  if (said.id() == error_row(ErrorId::plugin_misbehaving).id || said.id() == error_row(ErrorId::out_of_memory).id)
    return said;
  Status status = Status::error(id, format("backend %s: %s: %s", backend, what, String(said.message())), said.hint());
  for (const Status::Detail &frame : said.payload()->details) status.with(frame.key, frame.value);
  return status;
}

}  // namespace

Status Plugin::negotiate(qr_plugin_query_fn query, const PluginNote *note) {
  const qr_plugin *table = nullptr;
  {
    ErrorCollector errors(*this);
    const qr_plugin_code code = query(&host_, &table, errors.sink());
    if (Status status = errors.finish("qr_plugin_query", code); !status.ok())
      return refused(std::move(status), ErrorId::plugin_query_failed, id_, "qr_plugin_query refused this host");
    if (!table) return misbehaved("qr_plugin_query", "returned 0 and left its table NULL");
  }
  QR_RETURN_IF_ERROR(check_tables(table, note));
  version_ = printable(table->version, 64);
  description_ = printable(table->description, 512);
  {
    ErrorCollector errors(*this);
    qr_backend *backend = nullptr;
    const qr_plugin_code code = table->create(&host_, &backend, errors.sink());
    if (Status status = errors.finish("create", code); !status.ok())
      return refused(std::move(status), ErrorId::plugin_create_failed, id_, "create failed");
    if (!backend) return misbehaved("create", "returned 0 and left its backend NULL");
    table_ = table;
    backend_ = backend;
  }
  QR_RETURN_IF_ERROR(read_devices());
  return read_options();
}

namespace {

// What is wrong with a table, as found and expected; empty: nothing. It may be older than ours (down to `first`, the
// size of its first release) or newer: slots are looked for before they are called.
String table_fault(const char *name, std::uint32_t struct_size, std::uint32_t first) {
  if (struct_size < first) return format("%s.struct_size found %u, expected at least %u", name, struct_size, first);
  if (struct_size > kMaxTableBytes || struct_size % 8)
    return format("%s.struct_size found %u, expected a multiple of 8 up to %u", name, struct_size, kMaxTableBytes);
  return {};
}

}  // namespace

Status Plugin::bad_table(const String &what) {
  const String message = format("backend %s: plugin table: %s", id_, what);
  environment_.log(QR_LOG_ERROR, QR_LOG_PLUGIN_MISBEHAVES, "plugin", message);
  return Status::error(ErrorId::plugin_bad_table, message).with("backend", id_);
}

Status Plugin::check_identity(const qr_plugin *table, const PluginNote *note) {
  if (table->magic != QR_PLUGIN_MAGIC)
    return bad_table(format("magic found 0x%llx, expected 0x%llx", table->magic, QR_PLUGIN_MAGIC));
  // Newer than this host is no fault: both keep to the smaller minor.
  if (table->abi_minor < host_.abi_minor_min || table->abi_minor_min > host_.abi_minor_max)
    return bad_table(format("abi_minor found %u to %u, expected one of %u to %u", table->abi_minor_min,
                            table->abi_minor, host_.abi_minor_min, host_.abi_minor_max));
  if (!table->id || id_ != std::string_view(table->id, strnlen(table->id, 64)))
    return bad_table(format("id found \"%s\", expected \"%s\" as in the note",
                            table->id ? printable({table->id, strnlen(table->id, 64)}).c_str() : "", id_));
  if (!table->version || !table->description) return bad_table("version or description found NULL, expected texts");
  if (note && table->blob_version != note->blob_version)
    return bad_table(
        format("blob_version found %u, expected %u as in the note", table->blob_version, note->blob_version));
  return {};
}

Status Plugin::check_tables(const qr_plugin *table, const PluginNote *note) {
#define QR_CHECK_SIZE(pointer, name, first) \
  if (const String fault = table_fault(name, (pointer)->struct_size, first); !fault.empty()) return bad_table(fault);
#define QR_CHECK_SLOT(pointer, name, slot) \
  if (!(pointer)->slot) return bad_table(#name "." #slot " found NULL, expected a function");
#define QR_CHECK_TABLE(slot) \
  if (!table->slot) return bad_table(#slot " found NULL, expected a table");

  QR_CHECK_SIZE(table, "plugin", QR_PLUGIN_FIRST_SIZE)
  QR_RETURN_IF_ERROR(check_identity(table, note));
  QR_CHECK_SLOT(table, plugin, create)
  QR_CHECK_SLOT(table, plugin, destroy)

  QR_CHECK_TABLE(device)
  QR_CHECK_SIZE(table->device, "device", QR_PLUGIN_DEVICE_API_FIRST_SIZE)
  QR_CHECK_SLOT(table->device, device, count)
  QR_CHECK_SLOT(table->device, device, info)
  if (table->compiler) {
    QR_CHECK_SIZE(table->compiler, "compiler", QR_PLUGIN_COMPILER_API_FIRST_SIZE)
    QR_CHECK_SLOT(table->compiler, compiler, check)
    QR_CHECK_SLOT(table->compiler, compiler, compile)
  }
  QR_CHECK_TABLE(context)
  QR_CHECK_SIZE(table->context, "context", QR_PLUGIN_CONTEXT_API_FIRST_SIZE)
  QR_CHECK_SLOT(table->context, context, grade)
  QR_CHECK_SLOT(table->context, context, load)
  QR_CHECK_SLOT(table->context, context, input_count)
  QR_CHECK_SLOT(table->context, context, output_count)
  QR_CHECK_SLOT(table->context, context, tensor)
  QR_CHECK_SLOT(table->context, context, destroy)
  QR_CHECK_TABLE(execution)
  QR_CHECK_SIZE(table->execution, "execution", QR_PLUGIN_EXECUTION_API_FIRST_SIZE)
  QR_CHECK_SLOT(table->execution, execution, create)
  QR_CHECK_SLOT(table->execution, execution, run)
  QR_CHECK_SLOT(table->execution, execution, destroy)
  if (table->memory) {
    QR_CHECK_SIZE(table->memory, "memory", QR_PLUGIN_MEMORY_API_FIRST_SIZE)
    if (table->memory->allocate || table->memory->import_fd || table->memory->register_pointer)
      QR_CHECK_SLOT(table->memory, memory, release)
    if ((QR_HAS_SLOT(table->memory, map) != nullptr) != (QR_HAS_SLOT(table->memory, unmap) != nullptr))
      return bad_table("memory.map and memory.unmap: found one of them, expected both or none");
  }
  if ((QR_HAS_SLOT(table->execution, submit) != nullptr) != (QR_HAS_SLOT(table->execution, wait) != nullptr))
    return bad_table("execution.submit and execution.wait: found one of them, expected both or none");
  if (table->options) {
    QR_CHECK_SIZE(table->options, "options", QR_PLUGIN_OPTION_API_FIRST_SIZE)
    QR_CHECK_SLOT(table->options, options, count)
    QR_CHECK_SLOT(table->options, options, info)
  }
#undef QR_CHECK_SIZE
#undef QR_CHECK_SLOT
#undef QR_CHECK_TABLE
  return {};
}

// ---- devices and options ------------------------------------------------------------------------

// Devices and options are tables alike: the plugin counts its rows and fills in one after the other. `name` is of the
// table.
template <class Info, class Table, class Take>
Status Plugin::read_rows(const char *name, const Table &table, std::uint64_t most, Take &&take) {
  const std::uint64_t count = table.count(backend_);
  if (count > most)
    return misbehaved(format("%s.count", name).c_str(), format("returned %llu, expected at most %llu", count, most));
  const String slot = format("%s.info", name);
  for (std::uint64_t i = 0; i < count; ++i) {
    Info info{};
    info.struct_size = sizeof info;
    ErrorCollector errors(*this);
    QR_RETURN_IF_ERROR(errors.finish(slot.c_str(), table.info(backend_, i, &info, errors.sink())));
    QR_RETURN_IF_ERROR(take(i, info));
  }
  return {};
}

namespace {

String printable_lines(std::string_view text) {
  String lines;
  for (int count = 0; !text.empty() && count < 200; ++count) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += (lines.empty() ? "" : "\n") + printable(text.substr(0, end), 1024);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace

Status Plugin::read_devices() {
  const auto take = [this](std::uint64_t i, const qr_plugin_device_info &info) -> Status {
    const auto name = checked_text(info.name), target = checked_text(info.target), why_not = checked_text(info.why_not),
               details = checked_text(info.details);
    if (!name || !target || !why_not || !details || name->empty())
      return misbehaved("device.info", format("returned 0 and left name of device %llu unset", i));
    if (info.usable && target->empty())
      return misbehaved("device.info", format("returned 0 and left target of device %llu unset", i));
    if (!info.usable && why_not->empty())
      return misbehaved("device.info", format("called device %llu not usable and gave no reason", i));
    devices_.push_back({info.usable != 0, info.memory_bytes, info.features, printable(*name), printable(*target),
                        printable(*why_not, 1024), printable_lines(*details)});
    return {};
  };
  QR_RETURN_IF_ERROR(read_rows<qr_plugin_device_info>("device", *table_->device, kMaxDevices, take));
  if (!devices_.empty()) return {};
  return Status::errorf(ErrorId::backend_no_device, "backend %s: found no device, expected at least one", id_)
      .with("backend", id_);
}

Status Plugin::read_options() {
  if (!table_->options) return {};
  const auto take = [this](std::uint64_t i, const qr_plugin_option_info &info) -> Status {
    const auto key = checked_text(info.key), values = checked_text(info.values),
               default_value = checked_text(info.default_value), help = checked_text(info.help);
    if (!key || !values || !default_value || !help || key->empty() || values->empty())
      return misbehaved("options.info", format("returned 0 and left key or values of row %llu unset", i));
    // So that the key alone says which plugin to ask about it, and two plugins cannot mean different things by one key.
    if (!key->starts_with(id_ + ".") && !environment_.knows_option(*key))
      return misbehaved("options.info", format("gave the key %s, expected one that begins with %s. or one of Quarry's",
                                               printable(*key), id_));
    if (find_option(*key)) return misbehaved("options.info", format("gave the key %s twice", printable(*key)));
    options_.push_back({info.changes_at_run_time != 0, info.applies, String(*key), String(*values),
                        String(*default_value), String(*help)});
    return {};
  };
  return read_rows<qr_plugin_option_info>("options", *table_->options, kMaxOptionRows, take);
}

const DeviceInfo *Plugin::first_usable_device(std::uint32_t *out_index) const noexcept {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (!devices_[i].usable) continue;
    if (out_index) *out_index = static_cast<std::uint32_t>(i);
    return &devices_[i];
  }
  return nullptr;
}

const OptionRow *Plugin::find_option(std::string_view key) const noexcept {
  for (const OptionRow &row : options_)
    if (row.key == key) return &row;
  return nullptr;
}

Status Plugin::no_slot(ErrorId id, const char *what) const {
  return Status::errorf(id, "backend %s: found no way to %s, expected one", id_, what).with("backend", id_);
}

Status Plugin::check_process(std::uint32_t device) const {
  if (!(devices_[device].features & QR_DEVICE_NO_FORK) || process_ == os::process_id()) return {};
  return Status::errorf(ErrorId::forked_child,
                        "backend %s: found process %d, expected %d, in which it was opened: its device %s is of no "
                        "use after fork()",
                        id_, os::process_id(), process_, devices_[device].name)
      .with("backend", id_);
}

bool Plugin::recovers() const noexcept { return QR_HAS_SLOT(table_->device, recover) != nullptr; }

Status Plugin::recover(std::uint32_t device, const qr_plugin_signal *signal) {
  if (!recovers()) return no_slot(ErrorId::cannot_recover, "bring a device back");
  ErrorCollector errors(*this);
  return errors.finish("device.recover", table_->device->recover(backend_, device, errors.sink(), signal));
}

const void *Plugin::extension(const char *id) {
  return QR_HAS_SLOT(table_, get_extension) ? table_->get_extension(backend_, id) : nullptr;
}

}  // namespace quarry::loader
