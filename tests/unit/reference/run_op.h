// SPDX-License-Identifier: Apache-2.0
// One operator with literal tensors, and its result as text:
//   CHECK_EQ(RunOp(qir::Op::Add).in<float>({2}, {1, 2}).in<float>({1}, {3}).text(), "f32 [2] 4 5");
// Several outputs are joined by "; ", a failure is its id and message.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>

#include "backends/cpu-reference/interpreter.h"
#include "kernels/reference/tensors.h"
#include "tests/support/check.h"

namespace quarry::test {

// Short names for tables of literals: a test of kernels begins with `using namespace quarry::test`.
using qir::Op;
using i8 = std::int8_t;
using u8 = std::uint8_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using u64 = std::uint64_t;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

class RunOp {
 public:
  explicit RunOp(qir::Op op, std::size_t outputs = 1) {
    node_.op = op;
    node_.name = "node";
    for (std::size_t i = 0; i < outputs; ++i) node_.outputs.push_back(static_cast<std::int32_t>(100 + i));
  }
  qir::Node &node() { return node_; }
  template <class V>
  RunOp &set(const char *attribute, V value) {
    if constexpr (std::is_same_v<V, int>) node_.set(attribute, std::int64_t{value});
    else if constexpr (std::is_same_v<V, double>) node_.set(attribute, static_cast<float>(value));
    else if constexpr (std::is_same_v<V, const char *>) node_.set(attribute, std::string_view(value));
    else node_.set(attribute, value);
    return *this;
  }
  RunOp &set(const char *attribute, std::initializer_list<std::int64_t> values) {
    node_.set(attribute, Vector<std::int64_t>(values));
    return *this;
  }
  template <class T>
  RunOp &in(std::initializer_list<std::int64_t> shape, std::initializer_list<T> values) {
    return packed(reference::DTypeOf<T>::value, qir::Shape(shape), values.begin(), values.size() * sizeof(T));
  }
  RunOp &packed(DType dtype, const qir::Shape &shape, const void *data, std::size_t size) {
    const auto *bytes = static_cast<const std::uint8_t *>(data);
    Input &input = inputs_.emplace_back(dtype, shape, Vector<std::uint8_t>(bytes, bytes + size));
    input.bytes.reserve(1);  // data is never nullptr
    return *this;
  }
  RunOp &packed(DType dtype, std::initializer_list<std::int64_t> shape, std::initializer_list<std::uint8_t> bytes) {
    return packed(dtype, qir::Shape(shape), bytes.begin(), bytes.size());
  }
  // Makes the last input quantised, per tensor.
  RunOp &quantized(float scale, std::int32_t zero_point) {
    inputs_.back().quant = qir::Quantization{{scale}, {zero_point}, 0, 0};
    return *this;
  }
  RunOp &absent() {
    inputs_.emplace_back();
    return *this;
  }
  // The outputs' types where they are quantised.
  RunOp &gives(DType dtype, float scale, std::int32_t zero_point) {
    types_.push_back({dtype, qir::Quantization{{scale}, {zero_point}, 0, 0}});
    return *this;
  }

  Status run() {
    Vector<reference::ConstView> views;
    node_.inputs.clear();
    for (const Input &input : inputs_) {
      const bool present = input.dtype != DType::Unknown;
      node_.inputs.push_back(present ? static_cast<std::int32_t>(views.size()) : qir::kAbsent);
      views.push_back({present, input.dtype, input.shape, &input.quant, input.bytes.data()});
    }
    return reference::run_node(node_, views, outputs_, types_.empty() ? nullptr : &types_);
  }
  const Vector<reference::OwnedTensor> &outputs() const { return outputs_; }

  std::string text() {
    if (const Status status = run(); !status.ok())
      return std::string(status.id()) + " " + std::string(status.message());
    std::string text;
    for (const reference::OwnedTensor &output : outputs_) {
      if (!text.empty()) text += "; ";
      text +=
          std::string(dtype_name(output.dtype)) + " " + shape_text(output.shape.data(), output.shape.size()).c_str();
      const std::size_t count =
          static_cast<std::size_t>(element_count(output.shape.data(), output.shape.size()).value_or(0));
      const bool known = reference::dispatch_any(output.dtype, [&](auto tag) {
        if (dtype_bits(output.dtype) != 8 * sizeof(tag)) return;
        for (std::size_t i = 0; i < count; ++i) {
          text += " ";
          text += number(reinterpret_cast<const decltype(tag) *>(output.data.data())[i]);
        }
      });
      if (known && dtype_bits(output.dtype) >= 8) continue;
      for (const std::uint8_t byte : output.data) text += format(" %02x", byte).c_str();
    }
    return text;
  }

 private:
  struct Input {
    DType dtype = DType::Unknown;
    qir::Shape shape;
    Vector<std::uint8_t> bytes;
    std::optional<qir::Quantization> quant;
    Input() = default;
    Input(DType type, qir::Shape extents, Vector<std::uint8_t> data)
        : dtype(type), shape(std::move(extents)), bytes(std::move(data)) {}
  };
  template <class T>
  static std::string number(T value) {
    if (value != value) return "nan";  // whatever its sign
    if constexpr (std::is_floating_point_v<T>) return format("%.6g", static_cast<double>(value)).c_str();
    else return std::to_string(value);
  }

  qir::Node node_;
  Vector<Input> inputs_;
  Vector<reference::OutputType> types_;
  Vector<reference::OwnedTensor> outputs_;
};

}  // namespace quarry::test
