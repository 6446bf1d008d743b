// SPDX-License-Identifier: Apache-2.0
// Which handles are alive and in what each was made. A call with a dead one, an object that ends before what is in it,
// and two calls at once on what takes one end the process, as they may with the real library.
#pragma once

#include "backends/htp/qnn/abi.h"

namespace standin {

void born(quarry::qnn::Handle object, const char *what, quarry::qnn::Handle in = nullptr);
void dies(quarry::qnn::Handle object, const char *call);  // nothing that was made in it may live
void must_live(quarry::qnn::Handle object, const char *call);

// For as long as a call is inside of an object.
class Inside {
 public:
  Inside(quarry::qnn::Handle object, const char *call);
  ~Inside();
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;

 private:
  quarry::qnn::Handle object_;
};

}  // namespace standin
