// SPDX-License-Identifier: Apache-2.0
// The host's services of one run, for the interpreter. Whoever runs programs inside a plugin uses it.
#pragma once

#include <algorithm>

#include "backends/common/node_event.h"
#include "backends/common/plugin_support.h"
#include "backends/cpu-reference/interpreter.h"

namespace quarry::reference {

// What profiles call the kernel of a node that runs here.
inline constexpr std::string_view kProfiledKernel = "reference";

class HostEnvironment final : public Environment {
 public:
  // `events`: how many the run has reported before, and then with these; nullptr: it begins here.
  HostEnvironment(const qr_host &host, const qr_run_request &request, std::uint64_t *events = nullptr) noexcept
      : host_(host), request_(request), stop_(request.signal, host), events_(events ? events : &own_events_) {}

  void parallel_for(std::uint64_t count, void (*body)(void *, std::uint64_t, std::uint64_t), void *context) override {
    const qr_host_threads *threads = request_.threads;
    if (!threads || threads->worker_count < 2 || count < 2) return Environment::parallel_for(count, body, context);
    struct Call {
      void (*body)(void *, std::uint64_t, std::uint64_t);
      void *context;
    } call{body, context};
    // Some stretches per worker, so that a slow one does not keep the others waiting.
    const std::uint64_t grain = std::max<std::uint64_t>(1, count / (std::uint64_t{threads->worker_count} * 4));
    threads->parallel_for(
        threads->self, count, grain,
        [](void *user, std::uint64_t begin, std::uint64_t end, std::uint32_t) {
          const Call &c = *static_cast<const Call *>(user);
          c.body(c.context, begin, end);
        },
        &call);
  }
  bool stopped() const noexcept override { return stop_.stopped(); }
  Status stop_reason() override { return stop_.status("run"); }
  bool profiled() const noexcept override { return plugin::wants_nodes(request_.profile); }
  std::uint64_t clock_ns() noexcept override { return host_.clock_ns(host_.self); }
  void node_ran(const NodeRan &ran) override {
    plugin::NodeRun told{.id = ++*events_,
                         .node = ran.node.source,
                         .name = ran.node.name,
                         .op = qir::op_name(ran.node.op),
                         .begin_ns = ran.begin_ns,
                         .end_ns = ran.end_ns,
                         .kernel = kProfiledKernel};
    plugin::ShapesText shapes;
    if (plugin::wants_node_facts(request_.profile)) {
      for (const RanTensor &input : ran.inputs) {
        shapes.input(input.dtype, input.dims, input.rank);
        told.bytes_read += input.bytes;
      }
      for (const RanTensor &output : ran.outputs) {
        shapes.output(output.dtype, output.dims, output.rank);
        told.bytes_written += output.bytes;
      }
      told.shapes = shapes.view();
    }
    plugin::report_node(*request_.profile, told);
  }

 private:
  const qr_host &host_;
  const qr_run_request &request_;
  plugin::StopToken stop_;
  std::uint64_t own_events_ = 0, *events_;
};

}  // namespace quarry::reference
