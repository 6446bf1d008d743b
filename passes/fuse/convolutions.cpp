// SPDX-License-Identifier: Apache-2.0
// Convolutions as other ones that read less: behind SpaceToDepth one over the image itself; those of few channels that
// lie beside one another as one.
#include <algorithm>
#include <cstring>
#include <optional>

#include "graph/infer/infer.h"
#include "passes/edit.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

namespace {

constexpr std::int64_t kFewChannels = 4;  // of an image that a convolution reads as it lies
constexpr std::int64_t kMostBlock = 16;
constexpr std::int64_t kFewOutputs = 16;  // less than a vector, of the longest ones

bool plain(const qir::Graph &graph, std::int32_t id) {
  return at(graph, id).dtype == DType::F32 && !at(graph, id).quant;
}

// A convolution of f32 images with constant weights, one for each output channel of a bias or none.
bool is_conv(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != Op::Conv || !plain(graph, node.inputs[0]) || !plain(graph, node.outputs[0])) return false;
  const qir::Shape &w = at(graph, node.inputs[1]).shape;
  const std::int32_t bias = node.inputs[2];
  return at(graph, node.inputs[0]).shape.size() == 4 && w.size() == 4 && qir::constant_floats(graph, node.inputs[1]) &&
         (bias == qir::kAbsent || (qir::constant_floats(graph, bias) && at(graph, bias).shape == qir::Shape{w[0]}));
}

class Pass {
 public:
  Pass(qir::Graph &graph, Store &store, bool dry_run, Vector<Joined> *found)
      : graph_(graph), store_(store), look_only_(dry_run), found_(found) {}

  void read_images();
  void join_siblings();
  void join_depthwise();

 private:
  // One of the parts of SpaceToDepth: every step-th pixel of every step-th row of a tensor, from a first one on.
  struct Phase {
    std::int32_t of = qir::kAbsent;
    std::int64_t start[2] = {0, 0}, step[2] = {1, 1};
  };
  // For each channel of the image before, the one that lies there in row y, column x of a block.
  struct Depth {
    std::int32_t image = qir::kAbsent;
    std::int64_t block = 0;
    Vector<std::int64_t> channels;  // [y][x]: the first of as many as the image has
    Vector<std::int32_t> nodes;     // that nobody needs any more
  };
  // `nodes` gets those that nobody else reads; nullptr: somebody does.
  std::optional<Phase> phase_of(const qir::Uses &uses, std::int32_t id, Vector<std::int32_t> *nodes,
                                int slices = 4) const;
  std::optional<Depth> depth_of(const qir::Uses &uses, std::int32_t id) const;
  bool read_image(Rewriting &to, const qir::Node &conv, const Depth &depth) const;
  bool same_window(const qir::Node &a, const qir::Node &b) const;
  void emit_joined(Rewriting &to, const Vector<std::int32_t> &nodes, std::int32_t x, bool depthwise) const;
  std::int32_t floats(Rewriting &to, std::string_view name, const qir::Shape &shape, float **values) const;
  void join(const Vector<Vector<std::int32_t>> &groups, bool depthwise);

  qir::Graph &graph_;
  Store &store_;
  const bool look_only_;
  Vector<Joined> *const found_;
};

// A new constant of zeros.
std::int32_t Pass::floats(Rewriting &to, std::string_view name, const qir::Shape &shape, float **values) const {
  std::uint64_t bytes = sizeof(float);
  for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
  const std::int32_t id = to.tensor(name, DType::F32, shape);
  *values = static_cast<float *>(store_.allocate(bytes));
  std::memset(*values, 0, bytes);
  at(graph_, id).is_constant = true;
  at(graph_, id).data = {*values, bytes};
  return id;
}

std::optional<Pass::Phase> Pass::phase_of(const qir::Uses &uses, std::int32_t id, Vector<std::int32_t> *nodes,
                                          int slices) const {
  const std::int32_t made = uses.maker(id);
  if (made < 0 || graph_.nodes[index_of(made)].op != Op::Slice) return Phase{id, {0, 0}, {1, 1}};
  if (slices == 0) return std::nullopt;
  const qir::Node &node = graph_.nodes[index_of(made)];
  const qir::Shape &shape = at(graph_, node.inputs[0]).shape;
  qir::IntList lists[4];
  for (std::size_t i = 1; i < node.inputs.size() && i <= 4; ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    const qir::Tensor &list = at(graph_, node.inputs[i]);
    if (!list.is_constant ||
        !qir::read_ints(node, i, {true, list.dtype, list.shape, &list.quant, list.data}, &lists[i - 1]).ok())
      return std::nullopt;
  }
  qir::SliceGeometry slice;
  if (shape.size() != 4 || !qir::resolve_slice(node, shape, lists[0], lists[1], lists[2], lists[3], &slice).ok())
    return std::nullopt;
  if (!uses.used_once(id)) nodes = nullptr;
  if (nodes) nodes->push_back(made);
  std::optional<Phase> phase = phase_of(uses, node.inputs[0], nodes, slices - 1);
  if (!phase) return std::nullopt;
  for (std::size_t d = 0; d < 4; ++d) {
    if (slice.step[d] < 1 || slice.step[d] > kMostBlock) return std::nullopt;
    if (d < 2) {
      if (slice.start[d] != 0 || slice.step[d] != 1 || slice.extent[d] != shape[d]) return std::nullopt;
      continue;
    }
    phase->start[d - 2] += slice.start[d] * phase->step[d - 2];
    phase->step[d - 2] *= slice.step[d];
  }
  return phase;
}

std::optional<Pass::Depth> Pass::depth_of(const qir::Uses &uses, std::int32_t id) const {
  const std::int32_t made = uses.maker(id);
  if (made < 0 || !uses.used_once(id)) return std::nullopt;
  const qir::Node &node = graph_.nodes[index_of(made)];
  const qir::Shape &shape = at(graph_, id).shape;
  Depth depth;
  if (node.op == Op::SpaceToDepth) {
    if (!plain(graph_, node.inputs[0])) return std::nullopt;
    depth.image = node.inputs[0];
    depth.block = node.get_int("blocksize", 0);
    const std::int64_t channels = at(graph_, depth.image).shape[1];
    if (node.get_string("mode", "DCR") != "DCR" || channels > kFewChannels || depth.block > kMostBlock)
      return std::nullopt;
    for (std::int64_t i = 0; i < depth.block * depth.block; ++i) depth.channels.push_back(i * channels);
  } else if (node.op == Op::Concat) {
    if (node.get_int("axis", 0) != 1 && node.get_int("axis", 0) != -3) return std::nullopt;
    if (node.inputs.size() > kMostBlock * kMostBlock) return std::nullopt;
    while (depth.block * depth.block < static_cast<std::int64_t>(node.inputs.size())) ++depth.block;
    if (depth.block < 2 || depth.block * depth.block != static_cast<std::int64_t>(node.inputs.size()))
      return std::nullopt;
    depth.channels.assign(node.inputs.size(), -1);
    std::int64_t channel = 0;
    for (const std::int32_t part : node.inputs) {
      const std::optional<Phase> phase = phase_of(uses, part, &depth.nodes);
      if (!phase || (depth.image != qir::kAbsent && phase->of != depth.image)) return std::nullopt;
      depth.image = phase->of;
      for (std::size_t d = 0; d < 2; ++d)
        if (phase->step[d] != depth.block || phase->start[d] >= depth.block) return std::nullopt;
      depth.channels[index_of(phase->start[0] * depth.block + phase->start[1])] = channel;
      channel += at(graph_, part).shape[1];
    }
    if (std::ranges::find(depth.channels, -1) != depth.channels.end()) return std::nullopt;
  } else {
    return std::nullopt;
  }
  const qir::Shape &image = at(graph_, depth.image).shape;
  if (!plain(graph_, depth.image) || image.size() != 4 || image[1] > kFewChannels || depth.block < 2 ||
      depth.block > kMostBlock || image[2] != shape[2] * depth.block || image[3] != shape[3] * depth.block ||
      shape[1] != image[1] * depth.block * depth.block)
    return std::nullopt;
  depth.nodes.push_back(made);
  return depth;
}

// The taps of one channel of a block's pixel, where they lie in the kernel for the image.
void spread_taps(const float *from, const qir::Shape &w, std::int64_t block, std::int64_t pixel, float *to) {
  for (std::int64_t tap = 0; tap < w[2] * w[3]; ++tap) {
    const std::int64_t y = tap / w[3] * block + pixel / block, x = tap % w[3] * block + pixel % block;
    to[y * w[3] * block + x] = from[tap];
  }
}

// Taps of a block's pixels stand where those pixels lie.
bool Pass::read_image(Rewriting &to, const qir::Node &conv, const Depth &depth) const {
  const qir::Shape w = at(graph_, conv.inputs[1]).shape;
  const std::int64_t channels = at(graph_, depth.image).shape[1], b = depth.block, kh = w[2] * b, kw = w[3] * b;
  qir::ConvGeometry g;
  if (!qir::resolve_conv(conv, at(graph_, conv.inputs[0]).shape, w, &g).ok() || g.group != 1) return false;
  for (std::size_t i = 0; i < 2; ++i)
    if (g.dilation[i] != 1 || g.pad_begin[i] < 0 || g.pad_end[i] < 0 || g.kernel[i] > 64 || g.stride[i] > 64)
      return false;
  float *values;
  const std::int32_t weights = floats(to, conv.name + "/weights", {w[0], channels, kh, kw}, &values);
  const float *from = qir::constant_floats(graph_, conv.inputs[1]);
  for (std::int64_t m = 0; m < w[0] && !look_only_; ++m)
    for (std::int64_t i = 0; i < b * b; ++i)
      for (std::int64_t c = 0; c < channels; ++c)
        spread_taps(from + (m * w[1] + depth.channels[index_of(i)] + c) * w[2] * w[3], w, b, i,
                    values + (m * channels + c) * kh * kw);
  Vector<std::int32_t> inputs{depth.image, weights};
  if (const std::int32_t bias = conv.inputs[2]; bias != qir::kAbsent) inputs.push_back(bias);
  qir::Node &made = to.emit(Op::Conv, conv, std::move(inputs), conv.outputs[0]);
  made.set("kernel_shape", Vector<std::int64_t>{kh, kw});
  made.set("strides", Vector<std::int64_t>{g.stride[0] * b, g.stride[1] * b});
  made.set("pads", Vector<std::int64_t>{g.pad_begin[0] * b, g.pad_begin[1] * b, g.pad_end[0] * b, g.pad_end[1] * b});
  return true;
}

void Pass::read_images() {
  HashMap<std::size_t, Depth> found;
  Vector<bool> gone(graph_.nodes.size(), false);
  {
    const qir::Uses uses(graph_);
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (is_conv(graph_, graph_.nodes[n]))
        if (std::optional<Depth> depth = depth_of(uses, graph_.nodes[n].inputs[0])) found.emplace(n, std::move(*depth));
  }
  if (found.empty()) return;
  Rewriting to(graph_, store_);
  for (std::size_t n = 0; n < to.old.size() && !stop_asked(); ++n) {
    const auto depth = found.find(n);
    if (depth == found.end() || !read_image(to, to.old[n], depth->second)) {
      to.keep(std::move(to.old[n]));
      continue;
    }
    for (const std::int32_t node : depth->second.nodes) {
      gone[index_of(node)] = true;
      if (found_) found_->push_back({to.graph.nodes[index_of(node)].source, to.old[n].source});
    }
  }
  qir::compact(graph_, gone);
}

bool Pass::same_window(const qir::Node &a, const qir::Node &b) const {
  const auto same = [&](const char *name) {
    const auto *const x = a.get_ints(name), *const y = b.get_ints(name);
    return x && y ? *x == *y : x == y;
  };
  const qir::Shape &v = at(graph_, a.inputs[1]).shape, &w = at(graph_, b.inputs[1]).shape;
  return std::equal(v.begin() + 1, v.end(), w.begin() + 1, w.end()) && same("strides") && same("pads") &&
         same("dilations") && a.get_string("auto_pad", "") == b.get_string("auto_pad", "");
}

// One node for all of them, and a Split behind it.
void Pass::emit_joined(Rewriting &to, const Vector<std::int32_t> &nodes, std::int32_t x, bool depthwise) const {
  const auto node = [&](std::int32_t n) -> const qir::Node & { return to.old[index_of(n)]; };
  const qir::Node &first = node(nodes[0]);
  std::int64_t channels = 0;
  bool biased = false;
  Vector<std::int64_t> parts;
  Vector<std::int32_t> outputs;
  for (const std::int32_t n : nodes) {
    parts.push_back(at(graph_, node(n).inputs[1]).shape[0]);
    channels += parts.back();
    biased |= node(n).inputs[2] != qir::kAbsent;
    outputs.push_back(node(n).outputs[0]);
  }
  qir::Shape w = at(graph_, first.inputs[1]).shape, y = at(graph_, first.outputs[0]).shape;
  w[0] = y[1] = channels;
  float *weights, *bias = nullptr;
  Vector<std::int32_t> inputs{x, floats(to, first.name + "/weights", w, &weights)};
  if (biased) inputs.push_back(floats(to, first.name + "/bias", {channels}, &bias));
  for (const std::int32_t n : nodes) {
    const qir::Bytes data = at(graph_, node(n).inputs[1]).data;
    if (!look_only_) std::memcpy(weights, data.data, data.size);
    weights += data.size / sizeof(float);
    const std::int64_t count = at(graph_, node(n).inputs[1]).shape[0];
    if (const std::int32_t b = node(n).inputs[2]; b != qir::kAbsent)
      std::memcpy(bias, at(graph_, b).data.data, static_cast<std::size_t>(count) * sizeof(float));
    if (bias) bias += count;
    if (n != nodes[0] && found_) found_->push_back({node(n).source, first.source});
  }
  const std::int32_t joined = to.tensor(first.name + "/joined", DType::F32, y);
  qir::Node &conv = to.emit(Op::Conv, first, std::move(inputs), joined);
  conv.attributes = first.attributes;
  if (depthwise) conv.set("group", channels);
  const std::int32_t lengths = to.integers(first.name + "/parts", parts);
  qir::Node &split = to.emit(Op::Split, first, {joined, lengths}, outputs[0]);
  split.outputs = outputs;
  split.set("axis", std::int64_t{1});
}

// By each part that a Split makes: what was split.
HashMap<std::int32_t, std::int32_t> split_inputs(const qir::Graph &graph) {
  HashMap<std::int32_t, std::int32_t> made;
  for (const qir::Node &node : graph.nodes) {
    if (node.op != Op::Split) continue;
    for (const std::int32_t part : node.outputs) made.emplace(part, node.inputs[0]);
  }
  return made;
}

void Pass::join(const Vector<Vector<std::int32_t>> &groups, bool depthwise) {
  if (groups.empty()) return;
  Vector<std::int32_t> group_of(graph_.nodes.size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g)
    for (const std::int32_t n : groups[g]) group_of[index_of(n)] = static_cast<std::int32_t>(g);
  const HashMap<std::int32_t, std::int32_t> split_of =
      depthwise ? split_inputs(graph_) : HashMap<std::int32_t, std::int32_t>();
  Rewriting to(graph_, store_);
  for (std::size_t n = 0; n < to.old.size() && !stop_asked(); ++n) {
    if (group_of[n] < 0) {
      to.keep(std::move(to.old[n]));
      continue;
    }
    const Vector<std::int32_t> &group = groups[index_of(group_of[n])];
    if (static_cast<std::size_t>(std::ranges::min(group)) != n) continue;
    const std::int32_t x = to.old[n].inputs[0];
    emit_joined(to, group, depthwise ? split_of.at(x) : x, depthwise);
  }
}

void Pass::join_siblings() {
  Vector<Vector<std::int32_t>> groups;
  HashMap<std::int32_t, Vector<std::size_t>> of_input;  // groups that have begun
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    const qir::Node &node = graph_.nodes[n];
    if (!is_conv(graph_, node) || node.get_int("group", 1) != 1) continue;
    const qir::Shape &w = at(graph_, node.inputs[1]).shape;
    if (w[0] >= kFewOutputs || w[1] < 2 || at(graph_, node.inputs[0]).is_constant) continue;
    Vector<std::size_t> &begun = of_input[node.inputs[0]];
    const auto group = std::ranges::find_if(
        begun, [&](std::size_t g) { return same_window(graph_.nodes[index_of(groups[g][0])], node); });
    if (group != begun.end()) {
      groups[*group].push_back(static_cast<std::int32_t>(n));
    } else {
      begun.push_back(groups.size());
      groups.push_back({static_cast<std::int32_t>(n)});
    }
  }
  std::erase_if(groups, [](const Vector<std::int32_t> &group) { return group.size() < 2; });
  join(groups, false);
}

// Each part of a Split along the channels filtered by itself, all by the same window.
void Pass::join_depthwise() {
  Vector<Vector<std::int32_t>> groups;
  const qir::Uses uses(graph_);
  for (const qir::Node &split : graph_.nodes) {
    if (split.op != Op::Split || split.get_int("axis", 0) != 1 || split.outputs.size() < 2) continue;
    Vector<std::int32_t> group;
    for (const std::int32_t part : split.outputs) {
      if (part == qir::kAbsent || !uses.used_once(part)) break;
      const std::int32_t n = uses.users(part)[0];
      const qir::Node &node = graph_.nodes[index_of(n)];
      if (!is_conv(graph_, node)) break;
      const qir::Shape &w = at(graph_, node.inputs[1]).shape;
      if (w[1] != 1 || w[0] != at(graph_, part).shape[1] || node.get_int("group", 1) != w[0] || w[0] >= kFewOutputs ||
          (!group.empty() && !same_window(graph_.nodes[index_of(group[0])], node)))
        break;
      group.push_back(n);
    }
    if (group.size() == split.outputs.size()) groups.push_back(std::move(group));
  }
  join(groups, true);
}

}  // namespace

void simplify_convolutions(qir::Graph &graph, Store &store, bool dry_run, Vector<Joined> *found) {
  Pass pass(graph, store, dry_run, found);
  pass.read_images();
  pass.join_siblings();
  pass.join_depthwise();
}

}  // namespace quarry::passes
