// SPDX-License-Identifier: Apache-2.0
// The functions of quarry/generate.h that this program calls, each handing its call on to the library of that name.
#include "tools/chat/generate_library.h"

#include <quarry/generate.h>

#include "tools/console/side_library.h"

namespace tools {
namespace {

// QR_GENERATE_CALL(result, name, parameters, arguments)
#define QR_GENERATE_CALLS                                                                                           \
  QR_GENERATE_CALL(                                                                                                 \
      qr_status *, qr_generator_create,                                                                             \
      (qr_session * session, const qr_generator_options *options, const qr_call_options *call, qr_generator **out), \
      (session, options, call, out))                                                                                \
  QR_GENERATE_CALL(qr_status *, qr_generator_prompt,                                                                \
                   (qr_generator * self, const int64_t *tokens, uint64_t count, const qr_run_options *options),     \
                   (self, tokens, count, options))                                                                  \
  QR_GENERATE_CALL(qr_status *, qr_generator_run,                                                                   \
                   (qr_generator * self, const qr_run_options *options, const qr_token_sink *sink, uint64_t *count, \
                    qr_end_reason *end),                                                                            \
                   (self, options, sink, count, end))                                                               \
  QR_GENERATE_CALL(qr_status *, qr_generator_sequence, (qr_generator * self, qr_sequence_info * out), (self, out))  \
  QR_GENERATE_CALL(void, qr_generator_destroy, (qr_generator * self), (self))

struct GenerateCalls {
#define QR_GENERATE_CALL(result, name, parameters, arguments) result(*name) parameters;
  QR_GENERATE_CALLS
#undef QR_GENERATE_CALL
};
GenerateCalls generate_calls;  // of this program's one thread of commands; filled once

}  // namespace

void open_generate_library() {
  if (generate_calls.qr_generator_destroy) return;
  const SideLibrary library(QR_GENERATE_FILE, "quarry chat",
                            "install libquarry-generate beside libquarry (in a build folder: `ninja`)");
#define QR_GENERATE_CALL(result, name, parameters, arguments) \
  generate_calls.name = reinterpret_cast<result(*) parameters>(library.function(#name));
  QR_GENERATE_CALLS
#undef QR_GENERATE_CALL
}

}  // namespace tools

extern "C" {
#define QR_GENERATE_CALL(result, name, parameters, arguments) \
  result name parameters { return tools::generate_calls.name arguments; }
QR_GENERATE_CALLS
#undef QR_GENERATE_CALL
}
