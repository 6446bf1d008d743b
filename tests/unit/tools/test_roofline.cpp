// SPDX-License-Identifier: Apache-2.0
// Operations of nodes from what their events say, and what they are of a peak.
#include "tools/report/roofline.h"

#include "tests/support/check.h"

using tools::product_operations;

TEST_CASE("operations of products, from their shapes") {
  CHECK_EQ(product_operations("Conv", "ConvF32 (avx2)", "1x3x8x8 f32, 4x3x3x3 f32, 4 f32 -> 1x4x8x8 f32"),
           2.0 * 256 * 27);
  CHECK_EQ(product_operations("Conv", "DepthwiseF32 (avx2)", "1x8x8x8 f32, 8x1x3x3 f32 -> 1x8x8x8 f32"), 2.0 * 512 * 9);
  CHECK_EQ(product_operations("ConvTranspose", "", "1x8x4x4 f32, 8x2x2x2 f32 -> 1x2x8x8 f32"), 2.0 * 128 * 8);
  CHECK_EQ(product_operations("Gemm", "", "5x7 f32, 7x3 f32, 3 f32 -> 5x3 f32"), 2.0 * 15 * 7);
  CHECK_EQ(product_operations("MatMul", "", "2x5x7 f32, 2x7x3 f32 -> 2x5x3 f32"), 2.0 * 30 * 7);
  CHECK_EQ(product_operations("MatMul", "", "7 f32, 7x3 f32 -> 3 f32"), 2.0 * 3 * 7);
  CHECK_EQ(product_operations("LSTM", "", "6x1x4 f32, 1x20x4 f32, 1x20x5 f32 -> 6x1x1x5 f32"), 2.0 * 6 * (80 + 100));
  CHECK_EQ(product_operations("Softmax", "AttentionF32 (avx2)", "1x2x5x4 f32, 1x2x4x6 f32, 1x2x6x4 f32 -> 1x2x5x4 f32"),
           2.0 * 6 * 40 * 2);
  CHECK_EQ(
      product_operations("Conv", "BlockF32 (avx2)",
                         "1x2x8x8 f32, 12x2x1x1 f32, 12 f32, 12x1x3x3 f32, 12 f32, 3x12x1x1 f32, 3 f32 -> 1x3x4x4 f32"),
      2.0 * (64 * 24 + 16 * (108 + 36)));
}

TEST_CASE("what is no product, or does not say, has no operations") {
  CHECK_EQ(product_operations("Relu", "UnaryF32 (avx2)", "1x3x8x8 f32 -> 1x3x8x8 f32"), 0);
  CHECK_EQ(product_operations("Conv", "ConvF32 (avx2)", ""), 0);
  CHECK_EQ(product_operations("Conv", "ConvF32 (avx2)", "1x3x8x8 f32, ... -> 1x4x8x8 f32"), 0);
  CHECK_EQ(product_operations("Gemm", "", "x f32 -> f32"), 2);  // numbers without dimensions are single ones
}

TEST_CASE("rows are held against the peak of their numbers") {
  tools::RunTable table;
  table.sum = 2;
  for (const char *dtype : {"f32", "u8", "u16"}) {
    tools::NodeRow row;
    row.name = dtype, row.op = "Conv", row.kernel = "ConvInt (avx2)", row.time = 1, row.share = 0.5, row.calls = 1;
    row.shapes = std::string("1x4x8x8 ") + dtype + ", 8x4x1x1 i8 -> 1x8x8x8 " + dtype;
    row.has_bytes = true, row.bytes_read = 3000000, row.bytes_written = 1000000, row.gb_per_s = 4;
    table.nodes.push_back(row);
  }
  tools::ProcessorPeaks peaks;
  peaks.f32 = 0.004096, peaks.int8 = 0.008192, peaks.int16 = 0.016384, peaks.read_gb_per_s = 8;
  const auto rows = tools::roofline_rows(table, peaks);
  REQUIRE_EQ(rows.size(), 3u);
  CHECK_EQ(rows[0].gop_per_s, doctest::Approx(0.004096));
  CHECK_EQ(rows[0].of_peak, doctest::Approx(1));
  CHECK_EQ(rows[1].peak, "int8");
  CHECK_EQ(rows[1].of_peak, doctest::Approx(0.5));
  CHECK_EQ(rows[2].of_peak, doctest::Approx(0.25));
  CHECK_EQ(rows[2].of_reading, doctest::Approx(0.5));
  const std::string text = tools::roofline_text(table, peaks, 2);
  CHECK_NE(text.find("50.0 %"), std::string::npos);
  CHECK_NE(text.find("and 1 more"), std::string::npos);
  CHECK_EQ(tools::roofline_json(table, peaks)["nodes"][1]["peak"], "int8");
}

TEST_CASE("peaks are measured") {
  const char *features = "";
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) features = "avx fma avx2";
#endif
  const tools::ProcessorPeaks peaks = tools::measure_peaks(2, features);
#if defined(__x86_64__)
  CHECK_EQ(peaks.f32_by, *features ? "vfmadd231ps ymm" : "mulps, addps xmm");
#endif
  CHECK_EQ(peaks.threads, 2u);
#if defined(__x86_64__) || defined(__aarch64__)
  CHECK((peaks.f32 > 0.1 && peaks.int8 > 0.1 && peaks.int16 > 0.1));
#endif
  CHECK(peaks.read_gb_per_s > 0.05);
}
