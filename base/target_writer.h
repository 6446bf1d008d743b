// SPDX-License-Identifier: Apache-2.0
// What a call makes, to where its qr_target says: a path, memory, a descriptor or a writer of the caller's. Asks
// whether to stop (base/stop.h) as it goes.
#pragma once

#include "base/file_sink.h"
#include "base/new_file.h"
#include "quarry/target.h"

namespace quarry {

class TargetWriter final : public FileSink {
 public:
  // What the kind needs is there; texts are UTF-8. `function` begins messages.
  static Status check(const char *function, const qr_target &target);

  // `target` was checked. `fallback`: the name of a file that it does not name. `subject` begins messages about a path.
  TargetWriter(const char *function, const qr_target &target, std::string_view fallback,
               NewFile::Outlasts outlasts = NewFile::Outlasts::Disk, std::string_view subject = {});
  ~TargetWriter();
  TargetWriter(const TargetWriter &) = delete;
  TargetWriter &operator=(const TargetWriter &) = delete;

  // Of the main file, without folders.
  std::string_view name() const noexcept { return name_; }
  Status begin(std::string_view name, std::uint64_t size, std::uint64_t more) override;
  Status write(const void *data, std::uint64_t size) override;
  std::uint64_t bytes() const noexcept { return bytes_; }  // of all files that began
  Status whole() override;
  // Nothing more comes. `made`: how the work ended; where it failed, or this does, all is taken back that can be.
  Status finish(Status made);

 private:
  Status put(const void *data, std::uint64_t size);
  Status put_zeros(std::uint64_t size);
  Status commit();
  std::uint64_t take_back() noexcept;  // how many bytes cannot be
  Status told(std::int32_t answer, const char *member);

  const char *const function_;
  const qr_target to_;
  const NewFile::Outlasts outlasts_;
  std::string_view folder_, name_;
  bool begun_ = false, done_ = false;
  std::uint64_t left_ = 0, bytes_ = 0;  // of the file that was begun; of all
  NewFiles files_;                      // PATH, DESCRIPTOR
  NewFile *file_ = nullptr;             // of those
  char *block_ = nullptr;               // MEMORY
  std::uint64_t size_ = 0;              // of it
};

// A file at a path, of which the caller's program knows by an option.
qr_target target_at(std::string_view path) noexcept;

}  // namespace quarry
