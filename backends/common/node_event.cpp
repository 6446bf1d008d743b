// SPDX-License-Identifier: Apache-2.0
#include "backends/common/node_event.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "backends/common/plugin_support.h"

namespace quarry::plugin {

void ShapesText::append(std::string_view part) noexcept {
  std::memcpy(text_ + size_, part.data(), part.size());
  size_ += part.size();
}

void ShapesText::add(bool is_output, DType dtype, const std::int64_t *dims, std::size_t rank) noexcept {
  const bool first_output = is_output && !any_output_;
  any_output_ |= is_output;
  if (full_ && !first_output) return;
  char own[21 * QR_PLUGIN_MAX_RANK], *end = own;  // 20 characters for each dimension, and the cross behind it
  for (std::size_t d = 0; d < std::min<std::size_t>(rank, QR_PLUGIN_MAX_RANK); ++d) {
    if (d > 0) *end++ = 'x';
    end = std::to_chars(end, end + 20, dims[d]).ptr;
  }
  const std::string_view separator = first_output ? (size_ > 0 ? " -> " : "-> ") : size_ > 0 ? ", " : "";
  const std::string_view extents = rank == 0 ? "scalar" : std::string_view(own, static_cast<std::size_t>(end - own));
  const std::string_view type = dtype_name(dtype);
  // What is kept free is for ", ..." among the inputs and " -> ..." behind them.
  constexpr std::size_t kKept = 12;
  full_ = size_ + separator.size() + extents.size() + 1 + type.size() + kKept > kRoom;
  append(separator);
  if (full_) return append("...");
  append(extents);
  append(" ");
  append(type);
}

qr_plugin_event node_event(const NodeRun &ran) noexcept {
  qr_plugin_event event{};
  event.struct_size = sizeof event;
  event.level = QR_PLUGIN_PROFILE_DETAILED;
  event.id = ran.id;
  event.clock = QR_PLUGIN_CLOCK_HOST;
  event.begin = ran.begin_ns;
  event.end = ran.end_ns;
  event.node = ran.node;
  event.name = text(ran.name);
  event.kind = text("node");
  event.op = text(ran.op);
  return event;
}

void report_node(const qr_profile_sink &profile, const NodeRun &ran) noexcept {
  if (!wants_nodes(&profile)) return;
  qr_plugin_event event = node_event(ran);
  qr_plugin_attribute attributes[3];
  const qr_plugin_counter counters[] = {{text("bytes read"), text("bytes"), ran.bytes_read},
                                        {text("bytes written"), text("bytes"), ran.bytes_written}};
  if (wants_node_facts(&profile)) {
    const auto add = [&](std::string_view key, std::string_view value) {
      if (!value.empty()) attributes[event.attribute_count++] = {text(key), text(value)};
    };
    add("kernel", ran.kernel);
    add("shapes", ran.shapes);
    add("fused", ran.fused);
    event.attributes = attributes;
    event.counters = counters;
    event.counter_count = std::size(counters);
  }
  profile.event(profile.self, &event);
}

}  // namespace quarry::plugin
