// SPDX-License-Identifier: Apache-2.0
// The functions of quarry/quantize.h in this program, each handing its call on to the library of that name.
#include "tools/command/quantize_library.h"

#include <quarry/quantize.h>

#include "tools/console/side_library.h"

namespace tools {
namespace {

// QR_QUANTIZE_CALL(name, parameters, arguments)
#define QR_QUANTIZE_CALLS                                                                                              \
  QR_QUANTIZE_CALL(uint64_t, qr_quantize_option_count, (), ())                                                         \
  QR_QUANTIZE_CALL(qr_status *, qr_quantize_option_at, (uint64_t index, qr_quantize_option * out), (index, out))       \
  QR_QUANTIZE_CALL(                                                                                                    \
      qr_status *, qr_quantizer_open,                                                                                  \
      (qr_runtime * runtime, const qr_model_source *source, const qr_call_options *call, qr_quantizer **out),          \
      (runtime, source, call, out))                                                                                    \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_set, (qr_quantizer * self, qr_string key, qr_string value),               \
                   (self, key, value))                                                                                 \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_input_count,                                                              \
                   (qr_quantizer * self, const qr_call_options *call, uint64_t *out), (self, call, out))               \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_input, (qr_quantizer * self, uint64_t index, qr_tensor_info * out),       \
                   (self, index, out))                                                                                 \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_add_sample,                                                               \
                   (qr_quantizer * self, const qr_tensor *const *inputs, uint64_t count, const qr_call_options *call), \
                   (self, inputs, count, call))                                                                        \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_sample_count, (qr_quantizer * self, uint64_t * out), (self, out))         \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_save,                                                                     \
                   (qr_quantizer * self, const qr_target *target, qr_string note, const qr_call_options *call),        \
                   (self, target, note, call))                                                                         \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_restore,                                                                  \
                   (qr_quantizer * self, const qr_model_source *source, const qr_call_options *call, char **out),      \
                   (self, source, call, out))                                                                          \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_write,                                                                    \
                   (qr_quantizer * self, const qr_target *target, const qr_call_options *call), (self, target, call))  \
  QR_QUANTIZE_CALL(qr_status *, qr_quantizer_report,                                                                   \
                   (qr_quantizer * self, qr_string format, const qr_target *target, const qr_call_options *call),      \
                   (self, format, target, call))                                                                       \
  QR_QUANTIZE_CALL(void, qr_quantizer_destroy, (qr_quantizer * self), (self))

struct QuantizeCalls {
#define QR_QUANTIZE_CALL(result, name, parameters, arguments) result(*name) parameters;
  QR_QUANTIZE_CALLS
#undef QR_QUANTIZE_CALL
};
QuantizeCalls quantize_calls;  // of this program's one thread of commands; filled once

}  // namespace

void open_quantize_library() {
  if (quantize_calls.qr_quantizer_destroy) return;
  const SideLibrary library(QR_QUANTIZE_FILE, "quarry quantize",
                            "install libquarry-quantize beside libquarry (in a build folder: `ninja`)");
#define QR_QUANTIZE_CALL(result, name, parameters, arguments) \
  quantize_calls.name = reinterpret_cast<result(*) parameters>(library.function(#name));
  QR_QUANTIZE_CALLS
#undef QR_QUANTIZE_CALL
}

}  // namespace tools

extern "C" {
#define QR_QUANTIZE_CALL(result, name, parameters, arguments) \
  result name parameters { return tools::quantize_calls.name arguments; }
QR_QUANTIZE_CALLS
#undef QR_QUANTIZE_CALL
}
