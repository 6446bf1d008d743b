// SPDX-License-Identifier: Apache-2.0
// Scales and zero points against values that were worked out by hand, the rows of the tables, and options.
#include "quantize/ranges/grid.h"

#include <cmath>
#include <limits>

#include "graph/ops/quantization.h"
#include "quantize/plan/rules.h"
#include "quantize/settings/settings.h"
#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::quantize;

namespace {

bool near(double a, double b) { return std::fabs(a - b) <= 1e-7 * std::fmax(1.0, std::fabs(b)); }

}  // namespace

TEST_CASE("an encoding of a range holds both its ends and 0") {
  const Encoding a = encode({-1.0, 3.0}, {DType::U8, false});
  CHECK(near(static_cast<double>(a.scale), 4.0 / 255));
  CHECK(a.zero_point == 64);  // 63.75
  const Encoding above = encode({2.0, 5.1}, {DType::U8, false});
  CHECK(above.zero_point == 0);
  CHECK(near(static_cast<double>(above.scale), 5.1 / 255));
  const Encoding below = encode({-2.55, -1.0}, {DType::U8, false});
  CHECK(below.zero_point == 255);
  CHECK(near(static_cast<double>(below.scale), 0.01));
  const Encoding wide = encode({-1.0, 1.0}, {DType::U16, false});
  CHECK(wide.zero_point == 32768);
  CHECK(near(static_cast<double>(wide.scale), 2.0 / 65535));
  const Encoding signed8 = encode({-1.0, 3.0}, {DType::I8, false});
  CHECK(signed8.zero_point == -64);
  CHECK(signed8.scale == a.scale);
}

TEST_CASE("a symmetric encoding has 0 in the middle") {
  const Encoding a = encode({-1.0, 2.54}, {DType::I8, true});
  CHECK(a.zero_point == 0);
  CHECK(near(static_cast<double>(a.scale), 0.02));
  const Encoding b = encode({-1.27, 0.5}, {DType::U8, true});
  CHECK(b.zero_point == 128);
  CHECK(near(static_cast<double>(b.scale), 0.01));
  const Encoding four = encode({-0.7, 0.2}, {DType::I4, true});
  CHECK(four.zero_point == 0);
  CHECK(near(static_cast<double>(four.scale), 0.1));
}

// 255 * 64 * 2 fits into 16 bits, 255 * 65 * 2 does not.
TEST_CASE("a reduced encoding of 8 bits uses 7 of them") {
  const Encoding a = encode({-1.28, 0.5}, {DType::I8, true, true});
  CHECK(a.zero_point == 0);
  CHECK(near(static_cast<double>(a.scale), 0.02));
  const Encoding b = encode({-0.27, 1.0}, {DType::U8, false, true});
  CHECK(b.zero_point == 27);
  CHECK(near(static_cast<double>(b.scale), 0.01));
  const float values[] = {-9, 9};
  std::int32_t stored[2];
  quantize_values(values, a, stored);
  CHECK(stored[0] == -64);
  CHECK(stored[1] == 64);
  quantize_values(values, b, stored);
  CHECK(stored[0] == 0);
  CHECK(stored[1] == 127);
  CHECK(!encode({-1.0, 1.0}, {DType::U16, false, true}).reduced);
}

TEST_CASE("a range of no width, or of the greatest numbers, still has a scale that is a number") {
  const Encoding none = encode({0.0, 0.0}, {DType::U8, false});
  CHECK(none.scale == 1);
  CHECK(none.zero_point == 0);
  const double most = static_cast<double>(std::numeric_limits<float>::max());
  const Encoding wide = encode({-most, most}, {DType::U8, false});
  CHECK(std::isfinite(wide.scale));
  CHECK(std::isfinite(covered(wide).high));
  CHECK(wide.zero_point > 100);
  const Encoding tiny = encode({0.0, 1e-44}, {DType::U16, false});
  CHECK(tiny.scale >= std::numeric_limits<float>::min());
}

TEST_CASE("values are rounded to the nearest step and end where the type does") {
  const Encoding e{DType::U8, 0.5f, 10};
  CHECK(covered(e).low == -5.0);
  CHECK(covered(e).high == 122.5);
  CHECK(rounded(1.2, e) == 1.0);
  CHECK(rounded(1.3, e) == 1.5);
  CHECK(rounded(-9.0, e) == -5.0);
  CHECK(rounded(1e9, e) == 122.5);
}

TEST_CASE("an array of values becomes the integers that each becomes by itself") {
  std::vector<float> values = {0, -0.0f, NAN, INFINITY, -INFINITY, 1e30f, -1e30f, 1e-40f};
  for (int i = -3000; i <= 3000; ++i) values.push_back(static_cast<float>(i) * 0.025f);  // ties among them
  for (const Encoding &encoding : {Encoding{DType::U8, 0.05f, 3},
                                   {DType::I8, 0.05f, 0},
                                   {DType::U16, 0.001f, 32768},
                                   {DType::I16, 0.003f, 0},
                                   {DType::I4, 0.5f, 0},
                                   {DType::I32, 1e-7f, 0}}) {
    std::vector<std::int32_t> stored(values.size());
    quantize_values(values, encoding, stored.data());
    for (std::size_t i = 0; i < values.size(); ++i)
      REQUIRE_EQ(static_cast<std::int64_t>(stored[i]),
                 qir::quantized_value(values[i], encoding.scale, encoding.zero_point, encoding.dtype));
  }
}

TEST_CASE("an option is known, its value is one of those in the table, or the error names them") {
  Settings settings;
  CHECK(settings.activations == DType::U8);
  CHECK(settings.weights == DType::Unknown);
  CHECK(settings.per_channel);
  CHECK(settings.set("activations", "u16").ok());
  CHECK(settings.activations == DType::U16);
  CHECK(settings.set("float_nodes", "a,b").ok());
  CHECK(settings.float_nodes.size() == 2);
  CHECK(!settings.set("float_nodes", "a,,b").ok());
  CHECK(settings.set("percentile", "99.5").ok());
  CHECK(settings.range.percentile == 99.5);
  const Status unknown = settings.set("activation", "u8");
  CHECK(unknown.id() == "QR-C0101");
  CHECK(unknown.message().find("\"activations\"") != std::string_view::npos);
  for (const auto &[key, value] : {std::pair<const char *, const char *>{"activations", "u9"},
                                   {"percentile", "101"},
                                   {"percentile", "x"},
                                   {"evaluate", "-1"},
                                   {"per_channel", "2"},
                                   {"range", ""}}) {
    const Status bad = settings.set(key, value);
    CHECK(bad.id() == "QR-C0102");
    CHECK(bad.message().find(key) != std::string_view::npos);
  }
  CHECK(settings.weight_grid(DType::I8).symmetric);
  CHECK(!settings.weight_grid(DType::U8).symmetric);
}
