// SPDX-License-Identifier: Apache-2.0
// Small ONNX models for tests, made field by field.
#pragma once

#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "formats/onnx/proto.h"

namespace quarry::test {

class ModelText {
 public:
  explicit ModelText(std::int64_t opset = 13) {
    proto.set_ir_version(8);
    auto *import = proto.add_opset_import();
    import->set_domain("");
    import->set_version(opset);
    proto.mutable_graph()->set_name("test");
  }

  ::onnx::ModelProto proto;

  // dims: -1 is the symbol "n".
  static void fill(::onnx::ValueInfoProto *info, const std::string &name, int dtype,
                   std::initializer_list<std::int64_t> dims) {
    info->set_name(name);
    auto *tensor = info->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(dtype);
    for (const std::int64_t dim : dims) {
      auto *to = tensor->mutable_shape()->add_dim();
      if (dim >= 0) to->set_dim_value(dim);
      else to->set_dim_param("n");
    }
    tensor->mutable_shape();
  }
  void input(const std::string &name, std::initializer_list<std::int64_t> dims, int dtype = 1) {
    fill(proto.mutable_graph()->add_input(), name, dtype, dims);
  }
  void output(const std::string &name, std::initializer_list<std::int64_t> dims = {}, int dtype = 1) {
    auto *info = proto.mutable_graph()->add_output();
    fill(info, name, dtype, dims);
    if (dims.size() == 0) info->mutable_type()->mutable_tensor_type()->clear_shape();
  }

  template <class T>
  void constant(const std::string &name, int dtype, std::initializer_list<std::int64_t> dims,
                const std::vector<T> &values) {
    auto *tensor = proto.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(dtype);
    for (const std::int64_t dim : dims) tensor->add_dims(dim);
    tensor->set_raw_data(std::string(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)));
  }
  void floats(const std::string &name, std::initializer_list<std::int64_t> dims, const std::vector<float> &values) {
    constant(name, 1, dims, values);
  }
  void ints(const std::string &name, const std::vector<std::int64_t> &values) {
    constant(name, 7, {static_cast<std::int64_t>(values.size())}, values);
  }

  ::onnx::NodeProto *node(const std::string &op, std::initializer_list<std::string> inputs,
                          std::initializer_list<std::string> outputs, const std::string &domain = "") {
    return add_node(proto.mutable_graph()->add_node(), op, inputs, outputs, domain);
  }
  static ::onnx::NodeProto *add_node(::onnx::NodeProto *made, const std::string &op,
                                     std::initializer_list<std::string> inputs,
                                     std::initializer_list<std::string> outputs, const std::string &domain = "") {
    made->set_op_type(op);
    made->set_domain(domain);
    for (const auto &name : inputs) made->add_input(name);
    for (const auto &name : outputs) made->add_output(name);
    return made;
  }
  static void set(::onnx::NodeProto *node, const std::string &name, std::int64_t value) {
    auto *to = attribute(node, name, ::onnx::AttributeProto_AttributeType_INT);
    to->set_i(value);
  }
  static void set(::onnx::NodeProto *node, const std::string &name, float value) {
    attribute(node, name, ::onnx::AttributeProto_AttributeType_FLOAT)->set_f(value);
  }
  static void set(::onnx::NodeProto *node, const std::string &name, const char *value) {
    attribute(node, name, ::onnx::AttributeProto_AttributeType_STRING)->set_s(value);
  }
  static void set(::onnx::NodeProto *node, const std::string &name, const std::vector<std::int64_t> &values) {
    auto *to = attribute(node, name, ::onnx::AttributeProto_AttributeType_INTS);
    for (const std::int64_t value : values) to->add_ints(value);
  }
  static void set_floats(::onnx::NodeProto *node, const std::string &name, const std::vector<float> &values) {
    auto *to = attribute(node, name, ::onnx::AttributeProto_AttributeType_FLOATS);
    for (const float value : values) to->add_floats(value);
  }
  static ::onnx::GraphProto *graph(::onnx::NodeProto *node, const std::string &name) {
    return attribute(node, name, ::onnx::AttributeProto_AttributeType_GRAPH)->mutable_g();
  }

  std::string bytes() const { return proto.SerializeAsString(); }

 private:
  static ::onnx::AttributeProto *attribute(::onnx::NodeProto *node, const std::string &name,
                                           ::onnx::AttributeProto_AttributeType type) {
    auto *to = node->add_attribute();
    to->set_name(name);
    to->set_type(type);
    return to;
  }
};

}  // namespace quarry::test
