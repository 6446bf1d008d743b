// SPDX-License-Identifier: Apache-2.0
#include "tools/input/shapes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/console/command.h"

namespace tools {
namespace {

std::string extents_text(const std::vector<int64_t> &dims) {
  std::string text;
  for (const int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

// A dimension that is no number is symbolic.
std::vector<int64_t> extents_of_json(const nlohmann::json &dims) {
  std::vector<int64_t> extents;
  for (const nlohmann::json &dim : dims) extents.push_back(dim.is_number() ? dim.get<int64_t>() : QR_DIM_UNKNOWN);
  return extents;
}

std::vector<std::string> parts_of(const std::string &text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

}  // namespace

bool is_known(const std::vector<int64_t> &dims) {
  return std::none_of(dims.begin(), dims.end(), [](int64_t dim) { return dim < 0; });
}

std::string binding_text(const std::vector<qr::TensorInfo> &inputs, const std::vector<std::vector<int64_t>> &dims) {
  std::string text;
  for (size_t i = 0; i < inputs.size() && i < dims.size(); ++i)
    if (inputs[i].dims != dims[i] && !dims[i].empty() && is_known(dims[i]))
      text += (text.empty() ? "" : ",") + inputs[i].name + "=" + extents_text(dims[i]);
  return text;
}

Buckets::Buckets(const qr::Model &model, const std::vector<std::string> &shapes)
    : inputs_(model.inputs()), asked_(shapes.size()) {
  // What adapters fill is no input of a session; it stands behind all others.
  std::erase_if(inputs_, [](const qr::TensorInfo &input) { return input.name.starts_with("quarry.lora_"); });
  if (shapes.empty() &&
      std::all_of(inputs_.begin(), inputs_.end(), [](const qr::TensorInfo &input) { return is_known(input.dims); }))
    return;
  const nlohmann::json info = nlohmann::json::parse(model.inspect());
  container_ = info.value("kind", "") != "onnx";
  if (!container_) {
    // What has its value already is no input of the session; what takes the place of an initializer is one.
    for (const std::string &shape : shapes)
      for (const std::string &part : parts_of(shape))
        std::erase_if(inputs_, [&](const qr::TensorInfo &input) { return part.starts_with(input.name + "=["); });
    if (shapes.size() == 1) add_defaults(info["onnx"].value("defaults", nlohmann::json::array()), parts_of(shapes[0]));
    return;
  }
  for (const nlohmann::json &graph : info["graphs"]) {
    Bucket &bucket = buckets_.emplace_back();
    bucket.name = graph.value("name", "");
    for (const nlohmann::json &dims : graph["input_dims"]) bucket.dims.push_back(extents_of_json(dims));
  }
  if (shapes.size() > 1)
    throw UsageError("--shape: found " + std::to_string(shapes.size()) +
                         " of them, expected one for a container, whose " + "buckets are made already",
                     "it has " + list());
  if (!shapes.empty()) choose(shapes[0]);
}

void Buckets::add_defaults(const nlohmann::json &defaults, const std::vector<std::string> &parts) {
  for (const nlohmann::json &one : defaults) {
    qr::TensorInfo input;
    input.name = one["name"].get<std::string>();
    const auto named = std::find_if(parts.begin(), parts.end(), [&](const std::string &part) {
      return part.starts_with(input.name + "=") && !part.starts_with(input.name + "=[");
    });
    if (named == parts.end()) continue;
    for (int number = 1; number < 64 && input.dtype == QR_DTYPE_UNKNOWN; ++number)
      if (one["dtype"] == qr_dtype_name(static_cast<qr_dtype>(number))) input.dtype = static_cast<qr_dtype>(number);
    input.dims = extents_of_json(one["shape"]);
    inputs_.push_back(std::move(input));
  }
}

// A bucket fits when it has each part of the text: the words that it was made with, or the shape of an input.
void Buckets::choose(const std::string &shape) {
  const auto fits = [&](const Bucket &bucket) {
    std::vector<std::string> has = parts_of(bucket.name);
    for (size_t i = 0; i < inputs_.size() && i < bucket.dims.size(); ++i)
      has.push_back(inputs_[i].name + "=" + extents_text(bucket.dims[i]));
    const std::vector<std::string> wanted = parts_of(shape);
    return std::all_of(wanted.begin(), wanted.end(),
                       [&](const std::string &part) { return std::find(has.begin(), has.end(), part) != has.end(); });
  };
  const auto found = std::find_if(buckets_.begin(), buckets_.end(), fits);
  if (found == buckets_.end())
    throw UsageError("--shape: the container has no bucket '" + shape + "'; it has " + list(),
                     "other shapes need another container: quarry compile model.onnx --shape ...");
  if (std::find_if(found + 1, buckets_.end(), fits) != buckets_.end())
    throw UsageError("--shape: '" + shape + "' fits several buckets of the container, expected one of " + list());
  for (size_t i = 0; i < inputs_.size() && i < found->dims.size(); ++i) inputs_[i].dims = found->dims[i];
}

std::string Buckets::list() const {
  std::string text;
  for (const Bucket &bucket : buckets_) {
    std::string shape;
    for (size_t i = 0; i < inputs_.size() && i < bucket.dims.size(); ++i)
      shape += (shape.empty() ? "" : ",") + inputs_[i].name + "=" + extents_text(bucket.dims[i]);
    text += (text.empty() ? "" : " or ") + (bucket.name.empty() ? shape : bucket.name);
  }
  return text;
}

void Buckets::refuse_unknown(const qr::TensorInfo &input) const {
  const std::string what = "input '" + input.name + "' " + shape_text(input.dims) + " has unknown dimensions";
  if (container_ && buckets_.size() == 1)
    throw UsageError(what,
                     "a run says them: give the input's file (-i), or bench a batch (--batch); the range is " + list());
  if (container_) throw UsageError(what, "choose a bucket of the container with --shape: " + list());
  if (asked_ > 1) throw UsageError(what, "each --shape is a bucket: give the one to use");
  throw UsageError(what, "bind them with --shape");
}

}  // namespace tools
