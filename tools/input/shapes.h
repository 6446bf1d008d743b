// SPDX-License-Identifier: Apache-2.0
// The shapes that a model runs with: what --shape says, the shape buckets of a container, or the files given.
#pragma once

#include <quarry/quarry.hpp>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tools {

bool is_known(const std::vector<int64_t> &dims);  // no dimension is symbolic

// What --shape takes for the inputs whose declared dimensions are not all known and that `dims` gives some for, in the
// inputs' order: "image=1x3x224x224,length=1"; empty where there is nothing to bind.
std::string binding_text(const std::vector<qr::TensorInfo> &inputs, const std::vector<std::vector<int64_t>> &dims);

// The buckets of a container, and the one that --shape chooses. Of an .onnx, whose --shape the library binds, nothing.
class Buckets {
 public:
  // Looks into the model only where `shapes` or a symbolic dimension make it necessary. Throws UsageError for a --shape
  // that is none of a container's.
  Buckets(const qr::Model &model, const std::vector<std::string> &shapes);

  bool of_container() const { return container_; }
  // The model's inputs, with the shapes of the chosen bucket.
  const std::vector<qr::TensorInfo> &inputs() const { return inputs_; }
  // For an input without data whose dimensions are not all known.
  [[noreturn]] void refuse_unknown(const qr::TensorInfo &input) const;

 private:
  struct Bucket {
    std::string name;
    std::vector<std::vector<int64_t>> dims;  // one shape per input
  };
  void choose(const std::string &shape);
  // Inputs that have an initializer, where a part gives their shape: inputs of the session.
  void add_defaults(const nlohmann::json &defaults, const std::vector<std::string> &parts);
  std::string list() const;

  std::vector<qr::TensorInfo> inputs_;
  std::vector<Bucket> buckets_;
  bool container_ = false;
  size_t asked_ = 0;
};

}  // namespace tools
