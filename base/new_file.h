// SPDX-License-Identifier: Apache-2.0
// The one writer of files: whatever Quarry writes goes through here, and tests/tidy holds the tree to it.
//
// A regular file appears at its place whole or not at all. Until it is whole it has no name, or one beside its place
// that nobody can foretell; a failure, a stop and the end of the object remove it. Then it takes the place of what is
// there: who has the old file open keeps its bytes, and of several writers of one path each puts a whole file there.
// The new file has the mode of the old one, or what the umask leaves; a file that may not be written is not replaced.
// Where the path is a symbolic link, what it points to is replaced and the link stays.
// Devices, pipes and descriptors of this process (/dev/null, a FIFO, /dev/stdout) are written where they are. Who waits
// for a pipe's reader, or writes much, asks whether to stop (base/stop.h).
#pragma once

#include "base/open_fd.h"
#include "base/status.h"

namespace quarry {

class NewFile {
 public:
  // Late: no name until it is whole, so that even a process that is killed leaves nothing behind. Early: another name
  // beside its place until then, for file systems that know no nameless files.
  enum class Naming : std::uint8_t { Late, Early };
  // Disk: after a loss of power the old file is there, or the whole of the new one.
  enum class Outlasts : std::uint8_t { Process, Disk };

  // `subject` begins messages: "option x".
  explicit NewFile(std::string_view subject = {}, Naming naming = Naming::Late) : subject_(subject), naming_(naming) {}
  ~NewFile();
  NewFile(const NewFile &) = delete;
  NewFile &operator=(const NewFile &) = delete;

  // `folder`: where a relative path begins; -1: in the working folder.
  Status open(std::string_view path, int folder = -1);
  // Another's descriptor, written from its position on.
  Status open_descriptor(int fd);
  Status write(const void *data, std::uint64_t size);  // long runs of zeros become holes
  Status zeros(std::uint64_t size);
  // No more writing: what can fail for want of room has failed.
  Status close(Outlasts what);
  // Takes its place, after close.
  Status put_in_place();
  // Of a descriptor: a regular file gets its length and position back. How many bytes cannot be taken back.
  std::uint64_t take_back() noexcept;

  // Early also where Late was asked for and there are no nameless files here.
  Naming naming() const noexcept { return naming_; }

 private:
  friend class NewFiles;
  // These give an errno, or 0.
  int find_place();
  int open_in_place(bool is_process_link);
  int create();
  int take_name();
  Status write_run(const char *from, std::uint64_t size);
  Status name_it();
  Status copy_to_named();
  int link_to(const char *name) const;
  // Nobody reads meanwhile what the old file kept to itself.
  std::uint32_t new_mode() const noexcept { return replaces_ ? 0600 : 0666; }
  Status fail(int number, const char *doing) const;
  void keep_old();  // so that undo brings it back
  void undo() noexcept;

  String subject_, path_;
  Naming naming_;
  Outlasts outlasts_ = Outlasts::Process;
  bool in_place_ = false;  // a device, pipe or descriptor: written where it is
  bool may_wait_ = false;  // a pipe, socket or device: it takes bytes when it has room
  bool replaces_ = false;  // a file is there, of that owner and mode
  bool placed_ = false;
  std::uint32_t owner_ = 0, group_ = 0, mode_ = 0;
  OpenFd folder_, fd_;
  String name_;             // in folder_
  String temporary_, old_;  // in folder_ too; empty: none
  std::uint64_t at_ = 0;
  std::uint64_t begin_ = 0, end_ = 0;  // of a descriptor of a regular file: its position and length before
};

// Several files that belong together: all of them appear, or none; of several writers of the same paths all files are
// of one. Only a process that is killed in that moment, or a reader that looks, sees a part.
class NewFiles {
 public:
  explicit NewFiles(std::string_view subject = {}) : subject_(subject) {}
  // Open; lives as long as this. `fd`: another's descriptor, and no path; -1: none.
  Result<NewFile *> add(std::string_view path, int folder = -1, int fd = -1);
  Status put_in_place(NewFile::Outlasts what);  // of all: after this nothing more is written

 private:
  String subject_;
  Vector<Unique<NewFile>> files_;
};

// A file of which everything is there.
Status write_file(std::string_view path, std::string_view bytes, std::string_view subject = {},
                  NewFile::Outlasts what = NewFile::Outlasts::Process);

}  // namespace quarry
