// SPDX-License-Identifier: Apache-2.0
#include "base/os/tracing.h"

#include <algorithm>

#include "base/os/trace_encoding.h"
#include "base/os/windows/system.h"

#include <evntprov.h>

namespace quarry::os {

namespace {

constexpr std::size_t kMostFields = 8, kMostText = 8 << 10;
constexpr UCHAR kProviderMetadata = 2, kEventMetadata = 1;  // kinds of descriptors
constexpr UCHAR kTraceLogging = 11;                         // the channel of events that describe themselves
// By the rule that tools have for a provider's name: of "QUARRY", as an EventSource of .NET would be numbered.
constexpr GUID kProvider = {0x3c447214, 0x010a, 0x5e4d, {0x7e, 0xc1, 0x8c, 0x8d, 0x47, 0x8c, 0x2e, 0xca}};

// Registered for as long as the library is loaded; without a listener that costs nothing.
class Provider {
 public:
  Provider() noexcept {
    if (EventRegister(&kProvider, nullptr, nullptr, &handle_) != ERROR_SUCCESS) handle_ = 0;
  }
  ~Provider() {
    if (handle_) EventUnregister(handle_);
  }
  Provider(const Provider &) = delete;
  Provider &operator=(const Provider &) = delete;
  bool is_enabled(unsigned level, TraceKeyword keyword) const noexcept {
    return handle_ && EventProviderEnabled(handle_, static_cast<UCHAR>(level), static_cast<ULONGLONG>(keyword));
  }
  void write(const EVENT_DESCRIPTOR &event, EVENT_DATA_DESCRIPTOR *data, ULONG count) const noexcept {
    EventWriteTransfer(handle_, &event, nullptr, nullptr, count, data);
  }

 private:
  REGHANDLE handle_ = 0;
};

const Provider g_provider;

EVENT_DATA_DESCRIPTOR piece(const void *data, std::size_t size, UCHAR kind = 0) noexcept {
  EVENT_DATA_DESCRIPTOR made;
  EventDataDescCreate(&made, data, static_cast<ULONG>(size));
  made.Reserved = kind;  // its lowest byte
  return made;
}

}  // namespace

bool is_traced(unsigned level, TraceKeyword keyword) noexcept { return g_provider.is_enabled(level, keyword); }

void trace(const char *event, unsigned level, TraceKeyword keyword, std::initializer_list<TraceField> fields) noexcept {
  static const TraceDescription provider("Quarry");
  const TraceDescription about(event, fields);
  if (about.size() == 0 || fields.size() > kMostFields) return;
  EVENT_DATA_DESCRIPTOR data[2 + 2 * kMostFields];
  std::uint16_t lengths[kMostFields];
  ULONG count = 0;
  data[count++] = piece(provider.data(), provider.size(), kProviderMetadata);
  data[count++] = piece(about.data(), about.size(), kEventMetadata);
  std::size_t n = 0;
  for (const TraceField &field : fields) {
    if (!field.is_text) {
      data[count++] = piece(&field.number, sizeof field.number);
      continue;
    }
    lengths[n] = static_cast<std::uint16_t>(std::min(field.text.size(), kMostText));
    data[count++] = piece(&lengths[n], sizeof lengths[n]);
    data[count++] = piece(field.text.data(), lengths[n++]);
  }
  EVENT_DESCRIPTOR described{};
  described.Channel = kTraceLogging, described.Level = static_cast<UCHAR>(level);
  described.Keyword = static_cast<ULONGLONG>(keyword);
  g_provider.write(described, data, count);
}

}  // namespace quarry::os
