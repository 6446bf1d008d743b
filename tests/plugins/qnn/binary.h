// SPDX-License-Identifier: Apache-2.0
// The stand-in's context binaries: what its libQnnHtp.so writes and its libQnnSystem.so reads.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "backends/htp/qnn/abi.h"

namespace standin {

namespace qnn = quarry::qnn;

// A tensor with what it points to.
struct HeldTensor {
  std::string name;
  std::vector<std::uint32_t> dims;
  qnn::Tensor tensor{};
  // After a move the pointers are set anew.
  qnn::Tensor &point() {
    tensor.v1.name = name.c_str();
    tensor.v1.dims = dims.data();
    return tensor;
  }
};
struct HeldGraph {
  std::string name;
  std::vector<HeldTensor> inputs, outputs;
  std::vector<std::string> nodes;
};

inline constexpr char kMagic[] = "QNN stand-in 1";

class Output {
 public:
  void number(std::uint64_t value) { bytes_.append(reinterpret_cast<const char *>(&value), sizeof value); }
  void text(const std::string &value) {
    number(value.size());
    bytes_ += value;
  }
  void tensors(std::vector<HeldTensor> &list) {
    number(list.size());
    for (HeldTensor &held : list) {
      text(held.name);
      number(held.tensor.v1.id), number(static_cast<std::uint32_t>(held.tensor.v1.type));
      number(static_cast<std::uint32_t>(held.tensor.v1.dtype)), number(held.dims.size());
      for (const std::uint32_t extent : held.dims) number(extent);
      std::uint64_t raw[sizeof(qnn::Quant) / 8];
      std::memcpy(raw, &held.tensor.v1.q, sizeof raw);
      const bool plain = held.tensor.v1.q.enc == qnn::QuantEnc::ScaleOffset;
      for (const std::uint64_t part : raw) number(plain ? part : 0);
      number(plain);
    }
  }
  std::string &bytes() { return bytes_; }

 private:
  std::string bytes_;
};

class Input {
 public:
  Input(const void *data, std::size_t size) : data_(static_cast<const char *>(data)), size_(size) {}
  bool ok() const { return ok_; }
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (size_ - at_ < 8) return ok_ = false, value;
    std::memcpy(&value, data_ + at_, 8);
    at_ += 8;
    return value;
  }
  std::string text() {
    const std::uint64_t size = number();
    if (size > size_ - at_) return ok_ = false, std::string();
    at_ += size;
    return std::string(data_ + at_ - size, size);
  }
  std::vector<HeldTensor> tensors() {
    std::vector<HeldTensor> list;
    for (std::uint64_t left = number(); ok_ && left > 0; --left) {
      HeldTensor &held = list.emplace_back();
      held.name = text();
      held.tensor.version = 1;
      held.tensor.v1.id = static_cast<std::uint32_t>(number());
      held.tensor.v1.type = static_cast<qnn::TensorType>(number());
      held.tensor.v1.dtype = static_cast<qnn::DataType>(number());
      held.tensor.v1.rank = static_cast<std::uint32_t>(number());
      for (std::uint32_t i = 0; ok_ && i < held.tensor.v1.rank; ++i)
        held.dims.push_back(static_cast<std::uint32_t>(number()));
      std::uint64_t raw[sizeof(qnn::Quant) / 8];
      for (std::uint64_t &part : raw) part = number();
      std::memcpy(&held.tensor.v1.q, raw, sizeof raw);
      if (number() == 0) held.tensor.v1.q.defined = qnn::Defined::Undef, held.tensor.v1.q.enc = qnn::QuantEnc::Undef;
    }
    return list;
  }

 private:
  const char *data_;
  std::size_t size_, at_ = 0;
  bool ok_ = true;
};

// False: it is none.
inline bool read_binary(const void *data, std::size_t size, std::uint32_t &soc, std::vector<HeldGraph> &graphs) {
  Input input(data, size);
  if (input.text() != kMagic) return false;
  soc = static_cast<std::uint32_t>(input.number());
  for (std::uint64_t left = input.number(); input.ok() && left > 0; --left) {
    HeldGraph &graph = graphs.emplace_back();
    graph.name = input.text();
    graph.inputs = input.tensors(), graph.outputs = input.tensors();
    for (std::uint64_t nodes = input.number(); input.ok() && nodes > 0; --nodes) graph.nodes.push_back(input.text());
  }
  return input.ok();
}
inline std::string write_binary(std::uint32_t soc, const std::vector<HeldGraph *> &graphs) {
  Output output;
  output.text(kMagic);
  output.number(soc), output.number(graphs.size());
  for (HeldGraph *graph : graphs) {
    output.text(graph->name);
    output.tensors(graph->inputs), output.tensors(graph->outputs);
    output.number(graph->nodes.size());
    for (const std::string &node : graph->nodes) output.text(node);
  }
  output.bytes().resize((output.bytes().size() + 4095) / 4096 * 4096);
  return output.bytes();
}

}  // namespace standin
