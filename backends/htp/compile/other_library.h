// SPDX-License-Identifier: Apache-2.0
// A graph given to another of Qualcomm's libraries, which prepares nothing and writes files of it (dlc.h, saver.h).
#pragma once

#include "backends/htp/compile/writer.h"

namespace quarry::htp {

struct OtherLibrary {
  const qnn::Api &api;
  const char *name;                       // libQnnIr
  String subject;                         // of errors: the option and the file
  const char *hint;                       // of what it refuses
  const qnn::GraphConfig **configs = {};  // of the graph
};
Status write_elsewhere(const OtherLibrary &library, const Engine &engine, const Draft &draft, const Writer::Step &step);

}  // namespace quarry::htp
