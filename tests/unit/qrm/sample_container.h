// SPDX-License-Identifier: Apache-2.0
// A container with everything that one can have, made from the sample graph.
#pragma once

#include "formats/qrm/qrm.h"
#include "tests/unit/graph/sample_graph.h"

namespace quarry::test {

struct SampleContainer {
  SampleGraph sample;
  qir::ConstantPool pool;
  Vector<std::uint8_t> qir;
  String blob = "a backend's own bytes";
  Vector<float> packed{1.f, 2.f, 3.f};
  qrm::Writer writer;
  qrm::Metadata metadata;

  explicit SampleContainer(std::uint32_t align = qrm::Writer::kPageAlign) {
    Result<Vector<std::uint8_t>> written = qir::write_graph(sample.graph, pool);
    if (!written.ok()) std::abort();
    qir = std::move(*written);
    const std::uint32_t weights = *writer.add_segment("constants", pool, align);
    const std::uint32_t graph = *writer.add_segment(qrm::SegmentKind::Graph, "graph", {qir.data(), qir.size()}, 64);
    const std::uint32_t packed_segment =
        *writer.add_segment(qrm::SegmentKind::Weights, "packed", {packed.data(), packed.size() * 4}, align);
    const std::uint32_t blob_segment =
        *writer.add_segment(qrm::SegmentKind::Blob, "blob", {blob.data(), blob.size()}, 64);

    metadata.producer = "quarry test";
    metadata.source = "by hand";
    metadata.created_by = {{"backend", "cpu-reference"}, {"container.keep_graph", "1"}};
    metadata.inputs.push_back({"image", DType::F32, {qir::kUnknownDim, 1, 8, 8}, {"batch", "", "", ""}, {}});
    metadata.outputs.push_back({"limited", DType::F32, {qir::kUnknownDim, 3}, {}, {}});
    qrm::GraphInfo one;
    one.name = "image=1x1x8x8";
    one.input_dims = {{1, 1, 8, 8}};
    one.output_dims = {{1, 3}};
    one.qir_segment = graph;
    one.segments = {weights};
    qrm::GraphInfo two;  // a bucket whose graph was not kept
    two.name = "image=2x1x8x8";
    two.input_dims = {{2, 1, 8, 8}};
    two.output_dims = {{qir::kUnknownDim, 3}};
    metadata.graphs = {one, two};
    qrm::ContextInfo context;
    context.backend = "cpu-reference";
    context.backend_version = "0.1.0";
    context.target = "x86_64-linux";
    context.blob_version = 7;
    context.options = {{"cpu.threads", "2"}};
    for (std::uint32_t i = 0; i < 2; ++i)
      context.programs.push_back({{i}, blob_segment, {packed_segment, weights}, "key", {1, 2, 3, 4, 5}});
    metadata.contexts.push_back(context);
    metadata.user = {{"author", "Zo\xc3\xab"}, {"empty", ""}};
  }
  SampleContainer(const SampleContainer &) = delete;
  SampleContainer &operator=(const SampleContainer &) = delete;

  Vector<std::uint8_t> bytes() const {
    Result<Vector<std::uint8_t>> written = writer.write_memory(metadata);
    if (!written.ok()) {
      std::fprintf(stderr, "%s\n", String(written.status().message()).c_str());
      std::abort();
    }
    return std::move(*written);
  }
};

}  // namespace quarry::test
