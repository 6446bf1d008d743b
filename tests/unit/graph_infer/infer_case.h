// SPDX-License-Identifier: Apache-2.0
// One node, its inputs, and what inference says about it as one line: "f32[1,16,8,8] i64[?]", or "QR-G0004 Conv 'n':
// ...".
#pragma once

#include <cstring>
#include <initializer_list>
#include <list>

#include "base/checked.h"
#include "graph/graph.h"

namespace quarry::qir::test {

class InferCase {
 public:
  explicit InferCase(Op op, std::size_t outputs = 1) {
    node_.op = op;
    node_.name = "n";
    node_.outputs.assign(outputs, 0);
  }
  InferCase &set(const char *name, std::int64_t value) { return node_.set(name, value), *this; }
  InferCase &set(const char *name, int value) { return set(name, std::int64_t{value}); }
  InferCase &set(const char *name, float value) { return node_.set(name, value), *this; }
  InferCase &set(const char *name, const char *value) { return node_.set(name, std::string_view(value)), *this; }
  InferCase &set(const char *name, std::initializer_list<std::int64_t> value) {
    return node_.set(name, Vector<std::int64_t>(value)), *this;
  }
  InferCase &in(DType dtype, std::initializer_list<std::int64_t> shape) {
    InferValue value;
    value.present = true;
    value.dtype = dtype;
    value.shape = shape;
    return push(std::move(value));
  }
  InferCase &f32(std::initializer_list<std::int64_t> shape) { return in(DType::F32, shape); }
  InferCase &absent() { return push(InferValue()); }
  // A list or number whose value is known.
  InferCase &ints(std::initializer_list<std::int64_t> values) {
    return known(DType::I64, values, {static_cast<std::int64_t>(values.size())});
  }
  InferCase &number(std::int64_t value) { return known(DType::I64, {value}, {}); }
  InferCase &floats(std::initializer_list<float> values) {
    return known(DType::F32, values, {static_cast<std::int64_t>(values.size())});
  }
  InferCase &real(float value) { return known(DType::F32, {value}, {}); }
  InferCase &flags(std::initializer_list<bool> values) {
    return known(DType::Bool, values, {static_cast<std::int64_t>(values.size())});
  }
  // The input before is quantised.
  InferCase &quantised() {
    quants_.push_back(Quantization{{0.5f}, {3}, 0, 0});
    inputs_.back().quant = &quants_.back();
    return *this;
  }

  Node &node() { return node_; }
  const Vector<InferValue> &inputs() const { return inputs_; }

  String text() const {
    Vector<InferType> outputs;
    if (Status status = infer_node(node_, inputs_, outputs); !status.ok())
      return format("%.*s %.*s", static_cast<int>(status.id().size()), status.id().data(),
                    static_cast<int>(status.message().size()), status.message().data());
    String all;
    for (const InferType &output : outputs) {
      if (!all.empty()) all += ' ';
      all += dtype_name(output.dtype);
      all += shape_text(output.shape.data(), output.shape.size());
    }
    return all;
  }

 private:
  InferCase &push(InferValue value) {
    node_.inputs.push_back(value.present ? 0 : kAbsent);
    inputs_.push_back(std::move(value));
    return *this;
  }
  template <class T>
  InferCase &known(DType dtype, std::initializer_list<T> values, std::initializer_list<std::int64_t> shape) {
    in(dtype, shape);
    Vector<char> &bytes = bytes_.emplace_back(values.size() * sizeof(T) + 1);
    if (values.size() > 0) std::memcpy(bytes.data(), values.begin(), values.size() * sizeof(T));
    inputs_.back().value = {bytes.data(), values.size() * sizeof(T)};
    return *this;
  }

  Node node_;
  Vector<InferValue> inputs_;
  std::list<Vector<char>> bytes_;
  std::list<std::optional<Quantization>> quants_;
};

#define CHECK_INFERS(one_case, expected) CHECK_EQ(String((one_case).text()), String(expected))

}  // namespace quarry::qir::test
