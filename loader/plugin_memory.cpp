// SPDX-License-Identifier: Apache-2.0
// The checked calls of the memory table.
#include "loader/checks.h"
#include "loader/plugin.h"

namespace quarry::loader {

Result<Unique<Registration>> Plugin::finish_registration(const char *slot, qr_plugin_code code, ErrorCollector &errors,
                                                         const qr_plugin_memory_info &info, qr_registration *handle,
                                                         const qr_plugin_memory_request &request) {
  QR_RETURN_IF_ERROR(errors.finish(slot, code));
  if (!handle) return misbehaved(slot, "returned 0 and left its registration NULL");
  const auto release = [&] { table_->memory->release(backend_, handle); };
  if (!info.data && !request.data && !(request.flags & QR_PLUGIN_MEMORY_NO_HOST_POINTER)) {
    release();
    return misbehaved(slot, "returned 0 and left its data NULL");
  }
  Unique<Registration> registration;
  try {
    registration = make_unique<Registration>();
  } catch (...) {
    release();
    throw;
  }
  registration->plugin_ = shared_from_this();
  registration->handle_ = handle;
  registration->data_ = request.data ? request.data : info.data;
  registration->size_ = request.size_bytes;
  registration->coherent_ = info.coherent != 0;
  return registration;
}

namespace {

qr_plugin_memory_info empty_info() noexcept { return {sizeof(qr_plugin_memory_info), 1, nullptr}; }

}  // namespace

Result<Unique<Registration>> Plugin::allocate(const qr_plugin_memory_request &request) {
  const auto slot = QR_HAS_SLOT(table_->memory, allocate);
  if (!slot) return Unique<Registration>();
  qr_plugin_memory_info info = empty_info();
  qr_registration *handle = nullptr;
  ErrorCollector errors(*this);
  const qr_plugin_code code = slot(backend_, &request, &info, &handle, errors.sink());
  return finish_registration("memory.allocate", code, errors, info, handle, request);
}

Result<Unique<Registration>> Plugin::import_fd(const qr_plugin_memory_request &request) {
  const auto slot = QR_HAS_SLOT(table_->memory, import_fd);
  if (!slot) return no_slot(ErrorId::memory_unsupported, "import file descriptors");
  qr_plugin_memory_info info = empty_info();
  qr_registration *handle = nullptr;
  ErrorCollector errors(*this);
  const qr_plugin_code code = slot(backend_, &request, &info, &handle, errors.sink());
  return finish_registration("memory.import_fd", code, errors, info, handle, request);
}

Result<Unique<Registration>> Plugin::register_pointer(const qr_plugin_memory_request &request) {
  const auto slot = QR_HAS_SLOT(table_->memory, register_pointer);
  if (!slot) return Unique<Registration>();
  qr_plugin_memory_info info = empty_info();
  qr_registration *handle = nullptr;
  ErrorCollector errors(*this);
  const qr_plugin_code code = slot(backend_, &request, &info, &handle, errors.sink());
  return finish_registration("memory.register_pointer", code, errors, info, handle, request);
}

Registration::~Registration() {
  if (handle_) plugin_->table_->memory->release(plugin_->backend_, handle_);
}

Result<void *> Registration::map(std::uint32_t access) {
  const auto slot = QR_HAS_SLOT(plugin_->table_->memory, map);
  if (!slot) return plugin_->no_slot(ErrorId::memory_unsupported, "map memory of the device");
  void *data = nullptr;
  ErrorCollector errors(*plugin_);
  QR_RETURN_IF_ERROR(errors.finish("memory.map", slot(plugin_->backend_, handle_, access, &data, errors.sink())));
  if (!data) return plugin_->misbehaved("memory.map", "returned 0 and left its data NULL");
  return data;
}

Status Registration::unmap() {
  const auto slot = QR_HAS_SLOT(plugin_->table_->memory, unmap);
  ErrorCollector errors(*plugin_);
  return errors.finish("memory.unmap", slot(plugin_->backend_, handle_, errors.sink()));
}

Status Registration::begin_access(std::uint32_t access) {
  const auto slot = QR_HAS_SLOT(plugin_->table_->memory, begin_access);
  if (coherent_ || !slot) return {};
  ErrorCollector errors(*plugin_);
  return errors.finish("memory.begin_access", slot(plugin_->backend_, handle_, access, errors.sink()));
}

Status Registration::end_access(std::uint32_t access) {
  const auto slot = QR_HAS_SLOT(plugin_->table_->memory, end_access);
  if (coherent_ || !slot) return {};
  ErrorCollector errors(*plugin_);
  return errors.finish("memory.end_access", slot(plugin_->backend_, handle_, access, errors.sink()));
}

Result<Registration::File> Registration::export_fd() {
  const auto slot = QR_HAS_SLOT(plugin_->table_->memory, export_fd);
  if (!slot) return plugin_->no_slot(ErrorId::memory_unsupported, "give memory as a file descriptor");
  File file;
  ErrorCollector errors(*plugin_);
  QR_RETURN_IF_ERROR(
      errors.finish("memory.export_fd", slot(plugin_->backend_, handle_, &file.fd, &file.offset, errors.sink())));
  if (file.fd < 0) return plugin_->misbehaved("memory.export_fd", "returned 0 and left its descriptor unset");
  return file;
}

}  // namespace quarry::loader
