// SPDX-License-Identifier: Apache-2.0
// Where a call writes what it makes: qr_target for C++17. A path stands for itself; the rest is made by a function.
//
//   model.compile("model.qrm");
//   qr::Bytes bytes;
//   model.compile(qr::Target::in_memory(bytes));
//   model.compile(qr::Target::in_file(fd));
//   model.compile(qr::Target::by_writer(upload));   // a qr::Writer
#ifndef QUARRY_TARGET_HPP
#define QUARRY_TARGET_HPP

#include <quarry/macros_off.hpp>
#include <quarry/result.hpp>

#include <cerrno>

namespace qr {

// Owns bytes that the library made: aligned to 64, with a NUL byte behind the last one. Move-only.
class Bytes {
 public:
  Bytes() noexcept = default;
  Bytes(Bytes &&other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Bytes &operator=(Bytes &&other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Bytes() { clear(); }
  void clear() noexcept {
    qr_string_destroy(static_cast<char *>(std::exchange(data_, nullptr)));
    size_ = 0;
  }
  const void *data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::string_view view() const noexcept { return {static_cast<const char *>(data_), size_}; }
  Text to_text() &&noexcept {
    size_ = 0;
    return Text(static_cast<char *>(std::exchange(data_, nullptr)));
  }

 private:
  friend class Target;
  void *data_ = nullptr;
  std::uint64_t size_ = 0;
};

// Takes the files that a call makes, one after the other, on a thread that is inside the call. 0, or an errno, which
// fails the call. What a function throws fails it too, and comes out of the call.
class Writer {
 public:
  virtual ~Writer() = default;
  virtual int begin(std::string_view name, std::uint64_t size_bytes, std::uint64_t more) {
    (void)name, (void)size_bytes, (void)more;
    return 0;
  }
  virtual int write(const void *data, std::uint64_t size_bytes) = 0;
  // Once, behind everything: whether all files are whole; else what was written is of no use.
  virtual int end(bool committed) {
    (void)committed;
    return 0;
  }

 private:
  friend class Target;
  template <class Body>
  static std::int32_t call(void *self, Body body) noexcept {
    auto *writer = static_cast<Writer *>(self);
#if QR_HAS_EXCEPTIONS
    try {
      return body(*writer);
    } catch (...) {
      if (!writer->thrown_) writer->thrown_ = std::current_exception();
      return EIO;
    }
#else
    return body(*writer);
#endif
  }
  std::exception_ptr thrown_;
};

// Borrows all that it is made of: it is meant to be made where the call is.
class Target {
 public:
  Target(const char *path) noexcept : Target(std::string_view(path)) {}
  Target(const std::string &path) noexcept : Target(std::string_view(path)) {}
  Target(std::string_view path) noexcept {
    c_.kind = QR_TARGET_PATH;
    c_.path = to_c(path);
  }
  Target(const qr_target &target) noexcept : c_(target) {}
  // A relative path begins in this folder.
  static Target in_folder(int folder_fd, std::string_view path) noexcept {
    Target target(path);
    target.c_.folder_fd = folder_fd;
    return target;
  }
  // `name`: what the file would be called; its ending says the form where a call knows several.
  static Target in_memory(Bytes &out, std::string_view name = {}) noexcept {
    out.clear();
    qr_target c = QR_TARGET_IN_MEMORY(&out.data_, &out.size_);
    c.path = to_c(name);
    return Target(c);
  }
  static Target in_file(int fd, std::string_view name = {}) noexcept {
    qr_target c = QR_TARGET_IN_FILE(fd);
    c.path = to_c(name);
    return Target(c);
  }
  static Target by_writer(Writer &writer, std::string_view name = {}) noexcept {
    writer.thrown_ = nullptr;
    qr_target c = QR_TARGET_BY_WRITER(&writer, begin, write, end);
    c.path = to_c(name);
    Target target(c);
    target.writer_ = &writer;
    return target;
  }

  const qr_target *c() const noexcept { return &c_; }
  // After the call: what the writer threw.
  void rethrow() const {
#if QR_HAS_EXCEPTIONS
    if (writer_ && writer_->thrown_) std::rethrow_exception(std::exchange(writer_->thrown_, nullptr));
#endif
  }

 private:
  static std::int32_t begin(void *self, qr_string name, std::uint64_t size_bytes, std::uint64_t more) noexcept {
    return Writer::call(self, [&](Writer &to) { return to.begin({name.data, name.size}, size_bytes, more); });
  }
  static std::int32_t write(void *self, const void *data, std::uint64_t size_bytes) noexcept {
    return Writer::call(self, [&](Writer &to) { return to.write(data, size_bytes); });
  }
  static std::int32_t end(void *self, std::int32_t committed) noexcept {
    return Writer::call(self, [&](Writer &to) { return to.end(committed != 0); });
  }
  qr_target c_ = QR_TARGET_INIT;
  Writer *writer_ = nullptr;
};

namespace detail {

// A text by a call that writes.
template <class Call>
Result<Text> text_of(Call call) noexcept {
  Bytes bytes;
  const Target target = Target::in_memory(bytes);
  Status status(call(target.c()));
  if (!status.ok()) return Result<Text>(std::move(status));
  return Result<Text>(std::move(bytes).to_text());
}

}  // namespace detail
}  // namespace qr

#include <quarry/macros_on.hpp>
#endif
