// SPDX-License-Identifier: Apache-2.0
// Blobs: what is written is read, and whatever was damaged is refused or says something that can be.
#include "backends/htp/program/blob.h"

#include "base/checked.h"
#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::htp;

namespace {

Blob sample() {
  Blob blob;
  blob.soc = 57, blob.arch = 75, blob.build_id = "v2.0", blob.binary_bytes = 4096, blob.binary_hash = 99;
  BlobGraph &graph = blob.graphs.emplace_back();
  graph.name = "main";
  graph.inputs.push_back({"x", DType::I64, {2, 3}, BlobStorage::Device, {}, 4, qnn::DataType::I32, {2, 3}});
  graph.inputs.push_back({"unread", DType::F32, {5}, BlobStorage::Unused, {}, 0, qnn::DataType::Undef, {}});
  graph.inputs.push_back({"q", DType::F32, {6}, BlobStorage::Device, {}, 6, qnn::DataType::UQ8, {6}, 0.5f, 7});
  graph.outputs.push_back({"y", DType::F32, {}, BlobStorage::Device, {}, 5, qnn::DataType::F32, {1}});
  graph.outputs.push_back({"seven", DType::U8, {1}, BlobStorage::Constant, {7}, 0, qnn::DataType::Undef, {}});
  graph.inputs[2].device_name = "q stored", graph.inputs[2].device_scale = 0.5f;
  graph.vtcm_bytes = 4 << 20, graph.spill_bytes = 65536;
  graph.nodes.push_back({1, "Conv2d, Transpose"});
  graph.nodes.push_back({3, ""});
  return blob;
}

// Of a graph whose second output has data-dependent shapes.
Blob with_region() {
  Blob whole;
  whole.soc = 57, whole.arch = 75, whole.build_id = "v2.0";
  Blob part = sample();
  part.graphs[0].inputs = {{"x", DType::F32, {6}, BlobStorage::Device, {}, 4, qnn::DataType::F32, {6}}};
  part.graphs[0].outputs = {{"z", DType::F32, {6}, BlobStorage::Device, {}, 5, qnn::DataType::F32, {6}},
                            {"mask", DType::F32, {6}, BlobStorage::Device, {}, 6, qnn::DataType::F32, {6}}};
  BlobGraph &graph = whole.graphs.emplace_back();
  graph.name = "main", graph.on_device = false;
  graph.inputs.push_back({"x", DType::F32, {6}, BlobStorage::Staged, {}, 0, qnn::DataType::Undef, {}});
  graph.outputs.push_back({"z", DType::F32, {6}, BlobStorage::Staged, {}, 0, qnn::DataType::Undef, {}});
  graph.outputs.push_back(
      {"y", DType::I64, {1, qir::kUnknownDim}, BlobStorage::Staged, {}, 0, qnn::DataType::Undef, {}});
  graph.region.qir = {1, 2, 3}, graph.region.constants = {4}, graph.region.sources = {-1, 1};
  graph.region.part = 0, graph.region.graph = 0;
  graph.region.first_inputs = {0}, graph.region.first_outputs = {0, BlobRegion::kNone};
  graph.region.reads = {2, 0}, graph.region.writes = {1};
  whole.parts.push_back(std::move(part));
  return whole;
}

}  // namespace

TEST_CASE("a dynamic region is read as it was written, and fits what is before it") {
  const auto read = read_blob(write_blob(with_region()));
  REQUIRE_OK(read);
  const BlobRegion &region = read.value().graphs[0].region;
  CHECK((region.qir == Vector<std::uint8_t>{1, 2, 3}));
  CHECK((region.constants == Vector<std::uint8_t>{4}));
  CHECK((region.sources == Vector<std::int32_t>{-1, 1}));
  CHECK((region.first_outputs == Vector<std::uint32_t>{0, BlobRegion::kNone}));
  CHECK((region.reads == Vector<std::uint32_t>{2, 0}));
  const auto refused = [](const auto &change) {
    Blob blob = with_region();
    change(blob, blob.graphs[0].region);
    const auto found = read_blob(write_blob(blob));
    return !found.ok() && found.status().id() == "QR-B0005";
  };
  CHECK_FALSE(refused([](Blob &, BlobRegion &) {}));
  CHECK(refused([](Blob &, BlobRegion &t) { t.qir.clear(); }));               // who makes y?
  CHECK(refused([](Blob &, BlobRegion &t) { t.part = BlobRegion::kNone; }));  // who makes z?
  CHECK(refused([](Blob &, BlobRegion &t) { t.part = 1; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.graph = 1; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.first_inputs = {1}; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.first_inputs = {}; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.first_outputs = {BlobRegion::kNone, BlobRegion::kNone}; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.first_outputs = {0, 0}; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.first_outputs = {0, 1}; }));  // of another type
  CHECK(refused([](Blob &, BlobRegion &t) { t.reads = {3}; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.writes = {0}; }));
  CHECK(refused([](Blob &, BlobRegion &t) { t.writes = {}; }));
  CHECK(refused([](Blob &b, BlobRegion &) { b.graphs[0].inputs[0].shape = {qir::kUnknownDim}; }));
  CHECK(refused([](Blob &b, BlobRegion &) { b.graphs[0].inputs[0].storage = BlobStorage::Unused; }));
  CHECK(refused([](Blob &b, BlobRegion &) { b.graphs[0].on_device = true; }));
  CHECK(refused([](Blob &b, BlobRegion &) { b.parts[0].graphs[0].outputs[0].shape = {qir::kUnknownDim}; }));
}

TEST_CASE("a blob is read as it was written") {
  const Blob written = sample();
  const Vector<std::uint8_t> bytes = write_blob(written);
  const auto read = read_blob(bytes);
  REQUIRE_OK(read);
  const Blob &blob = read.value();
  CHECK_EQ(blob.soc, 57u);
  CHECK_EQ(blob.binary_hash, 99u);
  REQUIRE_EQ(blob.graphs.size(), 1u);
  const BlobGraph &graph = blob.graphs[0];
  CHECK_EQ(graph.inputs[0].id, 4u);
  CHECK((graph.inputs[0].shape == qir::Shape{2, 3}));
  CHECK(graph.inputs[1].storage == BlobStorage::Unused);
  CHECK_EQ(graph.inputs[2].scale, 0.5f);
  CHECK_EQ(graph.inputs[2].zero_point, 7);
  CHECK_EQ(graph.inputs[2].device_name, "q stored");
  CHECK_EQ(graph.spill_bytes, 65536u);
  CHECK_EQ(graph.vtcm_bytes, std::uint64_t{4 << 20});
  CHECK((graph.outputs[1].constant == Vector<std::uint8_t>{7}));
  CHECK_EQ(graph.nodes[0].text, "Conv2d, Transpose");
}

void check_damaged(const Vector<std::uint8_t> &bytes) {
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const auto read = read_blob({bytes.data(), size});
    CHECK_MESSAGE(!read.ok(), size, " bytes");
    CHECK_EQ(read.status().id(), "QR-B0005");
  }
  Vector<std::uint8_t> longer = bytes;
  longer.push_back(0);
  CHECK_FALSE(read_blob(longer).ok());
  // One byte changed: refused, or shapes and sizes that fit each other.
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const std::uint8_t value : {0x00, 0x01, 0x7f, 0xff}) {
      Vector<std::uint8_t> other = bytes;
      other[at] = value;
      const auto read = read_blob(other);
      if (!read.ok()) {
        CHECK_EQ(read.status().id(), "QR-B0005");
        continue;
      }
      for (const BlobGraph &graph : read.value().graphs) {
        for (const auto *list : {&graph.inputs, &graph.outputs}) {
          for (const BlobTensor &tensor : *list) {
            if (tensor.storage == BlobStorage::Staged) continue;
            const auto count = element_count(tensor.shape.data(), tensor.shape.size());
            REQUIRE(count.has_value());
            std::int64_t device = 1;
            for (const std::uint32_t extent : tensor.device_dims) device *= extent;
            if (tensor.storage == BlobStorage::Device) CHECK_EQ(device, htp::is_pairs(tensor) ? 2 * *count : *count);
            if (tensor.storage == BlobStorage::Constant)
              CHECK_EQ(tensor.constant.size(), packed_size(tensor.dtype, *count));
          }
        }
      }
    }
  }
}

TEST_CASE("damaged blobs") {
  check_damaged(write_blob(sample()));
  check_damaged(write_blob(with_region()));
}

// The library takes buffers without a look at their size, so a blob must not promise it larger ones than callers give.
TEST_CASE("types that a run could not copy are refused") {
  const auto refused = [](const auto &change) {
    Blob blob = sample();
    change(blob);
    return !read_blob(write_blob(blob)).ok();
  };
  CHECK_FALSE(refused([](Blob &) {}));
  CHECK(refused([](Blob &b) { b.graphs[0].inputs[0].dtype = DType::U8; }));   // 1 byte here, 4 there
  CHECK(refused([](Blob &b) { b.graphs[0].inputs[0].dtype = DType::U64; }));  // unsigned here, signed there
  CHECK(refused([](Blob &b) { b.graphs[0].inputs[0].dtype = DType::I4; }));
  CHECK(refused([](Blob &b) { b.graphs[0].outputs[0].device_dtype = qnn::DataType::F16; }));
  CHECK(refused([](Blob &b) { b.graphs[0].inputs[2].scale = 0; }));  // f32 here, bytes there
  CHECK(refused([](Blob &b) { b.graphs[0].inputs[2].scale = -1; }));
  CHECK(refused([](Blob &b) { b.graphs[0].inputs[2].zero_point = 70000; }));
  CHECK(refused([](Blob &b) { b.graphs[0].outputs[0].scale = 1; }));  // f32 on both sides
  CHECK(refused([](Blob &b) {                                         // past what the library counts bytes in
    b.graphs[0].outputs[0].shape = {1 << 30};
    b.graphs[0].outputs[0].device_dims = {1u << 30};
  }));
  CHECK(refused([](Blob &b) { b.graphs[0].on_device = false; }));
  CHECK(refused([](Blob &b) { b.binary_bytes = 0; }));
}
