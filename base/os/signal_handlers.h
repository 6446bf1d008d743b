// SPDX-License-Identifier: Apache-2.0
// What the program does on signals, kept from libraries that put functions of their own in their place: an OpenCL
// driver with LLVM in it does so, and a Java machine that no longer sees a SIGSEGV of its own dies by it.
#pragma once

namespace quarry::os {

// Where the program had a function for a signal, it has that again at the end of the scope. Handlers that another
// thread sets meanwhile are lost likewise: for calls that are made once.
class KeptSignalHandlers {
 public:
  KeptSignalHandlers() noexcept;
  ~KeptSignalHandlers();
  KeptSignalHandlers(const KeptSignalHandlers &) = delete;
  KeptSignalHandlers &operator=(const KeptSignalHandlers &) = delete;

 private:
  alignas(16) unsigned char room_[31 * 160];  // one of the system's structs for each signal
};

}  // namespace quarry::os
