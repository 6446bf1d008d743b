// SPDX-License-Identifier: Apache-2.0
// Any bytes -> QIR, with a segment of constants at hand. What is read is valid, can be printed, and is the same when
// written and read again; its outline takes what the reader takes, and has the same nodes.
#include <cstdlib>

#include "graph/io/outline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
  using namespace quarry;
  alignas(64) static const unsigned char kConstants[4096] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  const qir::Bytes segment{kConstants, sizeof kConstants};
  const Result<qir::Graph> graph = qir::read_graph({data, size}, &segment, 1);
  if (!graph.ok()) return 0;
  const Result<qir::Outline> outline = qir::Outline::read({data, size}, {&segment, 1});
  if (!outline.ok() || outline.value().node_count() != graph.value().nodes.size()) std::abort();
  qir::ConstantPool pool;
  const Result<Vector<std::uint8_t>> written = qir::write_graph(graph.value(), pool);
  if (!written.ok()) std::abort();
  void *constants = allocate_block(pool.size(), 64);
  pool.write_to(constants);
  const qir::Bytes again_segment{constants, pool.size()};
  const Result<qir::Graph> again = qir::read_graph({written.value().data(), written.value().size()}, &again_segment, 1);
  if (!again.ok() || qir::print_graph(again.value()) != qir::print_graph(graph.value())) std::abort();
  free_block(constants);
  return 0;
}
