// SPDX-License-Identifier: Apache-2.0
// Where the bytes of a container go. Inside formats/qrm only.
#pragma once

#include "formats/qrm/qrm.h"

namespace quarry::qrm {

class Writer::Sink {
 public:
  virtual Status write(const void *data, std::uint64_t size) = 0;
  virtual Status zeros(std::uint64_t size) = 0;

 protected:
  ~Sink() = default;
};

// A new file that takes the place of `path` on commit, whole and flushed to disk, and is gone otherwise. Who has the
// old file open keeps its bytes.
class FileSink final : public Writer::Sink {
 public:
  // Late: the file has no name until it is whole, so that even a process that is killed leaves nothing behind. Early:
  // it has another name beside its place until then, for file systems that know no nameless files.
  enum class Naming : std::uint8_t { Late, Early };
  FileSink(std::string_view path, Naming naming) : path_(path), naming_(naming) {}
  FileSink(const FileSink &) = delete;
  FileSink &operator=(const FileSink &) = delete;
  ~FileSink();

  Status open();
  Status write(const void *data, std::uint64_t size) override;  // pages of zeros become holes
  Status zeros(std::uint64_t size) override;
  Status commit();

  // Early also where Late was asked for and open() found that there are no nameless files here.
  Naming naming() const noexcept { return naming_; }

 private:
  Status write_run(const char *from, std::uint64_t size);
  Status give_name();
  template <class Take>
  Status take_name(const char *doing, Take &&take);
  Status fail(int number, const char *doing) const;

  String path_, folder_;
  String temporary_;  // its name for now; empty: none
  Naming naming_;
  OpenFd fd_;
  std::uint64_t at_ = 0;
};

}  // namespace quarry::qrm
