// SPDX-License-Identifier: Apache-2.0
// What of an ONNX model needs no shapes to be checked: that all data are there and whole, and each value is made by
// somebody.
#include <utility>

#include "base/stop.h"
#include "formats/onnx/model.h"
#include "formats/onnx/reasons.h"

namespace quarry::onnx_import {
namespace {

class Verifier {
 public:
  explicit Verifier(Model &model) : external_(model.external()) {}

  struct Names {
    const Names *outer = nullptr;
    StringSet made;
    bool contains(std::string_view name) const {
      for (const Names *names = this; names; names = names->outer)
        if (names->made.contains(name)) return true;
      return false;
    }
  };

  void graph(const pb::GraphProto &graph, const Names *outer) {
    Names names{outer, {}};
    for (const auto &input : graph.input()) names.made.emplace(input.name());
    for (const auto &one : graph.initializer()) {
      if (stop_asked()) return;
      names.made.emplace(one.name());
      tensor(one, format("initializer '%s'", printable(one.name())));
    }
    for (const auto &one : graph.sparse_initializer()) {
      if (stop_asked()) return;
      names.made.emplace(one.values().name());
      sparse(one, format("sparse initializer '%s'", printable(one.values().name())));
    }
    nodes(graph.node(), names);
    for (const auto &output : graph.output()) made(output.name(), names);
  }

  void function(const pb::FunctionProto &function) {
    Names names;
    for (const auto &input : function.input()) names.made.emplace(input);
    nodes(function.node(), names);
    for (const auto &output : function.output()) made(output, names);
  }

  Reasons reasons;

 private:
  // Each with a store of its own: a model may be larger than memory.
  void tensor(const pb::TensorProto &proto, std::string_view subject) {
    Store store;
    if (auto read = read_tensor(proto, external_, store, subject); !read.ok()) reasons.add(read.take_status(), subject);
  }
  void sparse(const pb::SparseTensorProto &proto, std::string_view subject) {
    Store store;
    if (auto read = read_sparse_tensor(proto, external_, store, subject); !read.ok())
      reasons.add(read.take_status(), subject);
  }
  void made(std::string_view name, const Names &names) {
    if (!names.contains(name))
      reasons.add(ErrorId::onnx_invalid, format("output '%s'", printable(name)), "is made by no node");
  }

  void attribute(const pb::AttributeProto &from, std::string_view node, const Names &names) {
    const auto subject = [&] { return String(node) + ": attribute '" + printable(from.name()) + "'"; };
    if (from.has_t()) tensor(from.t(), subject());
    for (const auto &one : from.tensors()) tensor(one, subject());
    if (from.has_sparse_tensor()) sparse(from.sparse_tensor(), subject());
    if (from.has_g()) graph(from.g(), &names);
    for (const auto &body : from.graphs()) graph(body, &names);
  }

  template <class List>
  void nodes(const List &list, Names &names) {
    // In whatever order: the importer sorts them.
    for (const pb::NodeProto &node : list) {
      if (stop_asked()) return;
      for (const auto &output : node.output()) names.made.emplace(output);
    }
    for (const pb::NodeProto &node : list) {
      if (stop_asked()) return;
      const String subject = format("%s '%s'", printable(node.op_type()), printable(node.name()));
      for (int i = 0; i < node.input_size(); ++i)
        if (!node.input(i).empty() && !names.contains(node.input(i)))
          reasons.add(ErrorId::onnx_invalid, subject,
                      format("input %d '%s' is made by no node, input or initializer", i, printable(node.input(i))));
      if (Status status = take_file_of_ep_context(node, external_); !status.ok()) reasons.add(status, subject);
      for (const pb::AttributeProto &one : node.attribute()) attribute(one, subject, names);
    }
  }

  ExternalData &external_;
};

}  // namespace

Status Model::verify() {
  Verifier verifier(*this);
  verifier.graph(proto_.graph(), nullptr);
  for (const pb::FunctionProto &function : proto_.functions()) verifier.function(function);
  QR_RETURN_IF_ERROR(stop_status("verifying the model"));
  return verifier.reasons.status();
}

}  // namespace quarry::onnx_import
