// SPDX-License-Identifier: Apache-2.0
// The emulator has one VTCM for the whole process, as large as that of the SoC whose graph was prepared or loaded last:
// contexts for a SoC with another size fail from then on, or take the process with them. So one size is held at a time.
#pragma once

#include "backends/htp/soc/soc.h"

namespace quarry::htp {

class EmulatedVtcm {
 public:
  enum class For { Compile, Context };
  // Waits for compilations that hold another size, and refuses where contexts do. A device's contexts each have their
  // own: there it holds nothing.
  static Result<EmulatedVtcm> hold(const Soc &soc, For use);
  EmulatedVtcm() = default;
  EmulatedVtcm(EmulatedVtcm &&other) noexcept;
  EmulatedVtcm &operator=(EmulatedVtcm &&other) noexcept;
  ~EmulatedVtcm() { release(); }

 private:
  void release() noexcept;
  bool holds_ = false;
  For use_ = For::Compile;
};

}  // namespace quarry::htp
