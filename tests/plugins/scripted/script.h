// SPDX-License-Identifier: Apache-2.0
// What the scripted backend is to do: the option "scripted.script", words with ';' between, each `word` or
// `word=value`.
//
//   grade=N              compile: the context will be graded N (1 optimal ... 4 incompatible)
//   slow_check=MS        check, compile, load, run: take so long, polling the signal every millisecond
//   slow_compile=MS  slow_load=MS  slow_run=MS
//   sleep_run=MS         run: sleeps so long, and looks at nothing but the signal's descriptor
//   fail_compile=1       compile fails once its time is over; 2: it refuses, whatever check said
//   die_compile=SIGNAL   compile ends the process by this signal
//   stuck_compile=MS     compile sleeps so long, and looks at nothing
//   orphan_compile=MS    compile leaves a process that lives so long, with every descriptor of this one
//   fail_at=N            the Nth run (from 1) of an execution fails
//   lose_at=N            the device is lost at the Nth run (from 1) of an execution, and stays lost
//   stay_lost=N          the first N recoveries fail
//   no_memory            registering and importing memory fails
//   wrong=WAY            run: "unset" leaves output 0 unset, "silent" fails without a reason, "bytes" lies about
//                        used_bytes, "moved" puts output 0 elsewhere than asked; export_onnx: "name" gives a file the
//                        name of a path, "short" leaves out its last byte, "long" writes one too many
#pragma once

#include <cstdint>
#include <string_view>

#include "base/alloc.h"
#include "base/status.h"

namespace quarry::scripted {

struct Script {
  std::uint64_t grade = 1;
  std::uint64_t slow_check = 0, slow_compile = 0, slow_load = 0, slow_run = 0;  // milliseconds
  std::uint64_t sleep_run = 0;
  std::uint64_t fail_compile = 0, die_compile = 0, stuck_compile = 0, orphan_compile = 0, fail_at = 0;
  std::uint64_t lose_at = 0, stay_lost = 0;
  bool no_memory = false;
  String wrong;

  static Result<Script> parse(std::string_view text);
};

}  // namespace quarry::scripted
