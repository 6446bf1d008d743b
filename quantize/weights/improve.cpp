// SPDX-License-Identifier: Apache-2.0
#include "quantize/weights/improve.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "quantize/parallel.h"
#include "quantize/plan/rules.h"
#include "quantize/stop.h"
#include "quantize/weights/products.h"
#include "quantize/weights/rounding.h"

namespace quarry::quantize {
namespace {

using qir::at;

constexpr std::size_t kMostTerms = 2304;                    // 3 x 3 x 256: longer sums are looked at in parts
constexpr std::size_t kMostBytes = std::size_t{512} << 20;  // of moments that are kept at a time
constexpr std::size_t kRowsOfSample = 256, kRowsForMeans = 128;

struct Job {
  std::size_t node;
  Product product;
  Constant *weights, *bias;  // bias: nullptr where there is none that can be corrected
  bool rounds;
  Vector<InputMoments> moments;  // of each group: of each part of the sum
  double before = 0, after = 0;  // error of results
  double moved = 0;              // of a bias, in parts of its unit; the most

  std::size_t parts() const { return rounds ? (product.terms + kMostTerms - 1) / kMostTerms : 1; }
  std::size_t begin_of(std::size_t part) const { return product.terms * part / parts(); }
  std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t p = 0; p < parts(); ++p) {
      const std::size_t terms = begin_of(p + 1) - begin_of(p);
      sum += product.groups * terms * (rounds ? terms + 1 : 1) * sizeof(double);
    }
    return sum;
  }
};

// The encoding of an element: per tensor, per channel or by blocks.
Encoding encoding_of(const Constant &constant, const qir::Shape &shape, std::size_t element) {
  const qir::Quantization &quant = constant.quant;
  std::size_t entry = 0;
  if (quant.scales.size() > 1 || quant.block_size > 0) {
    const auto axis = static_cast<std::size_t>(quant.axis), extent = static_cast<std::size_t>(shape[axis]);
    std::size_t inner = 1;
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
    const std::size_t along = element / inner % extent;
    entry = along;
    if (quant.block_size > 0) {
      const auto block = static_cast<std::size_t>(quant.block_size);
      entry = (element / (inner * extent) * ((extent + block - 1) / block) + along / block) * inner + element % inner;
    }
  }
  return {constant.dtype, quant.scales[entry], quant.zero_points[entry]};
}

Constant *constant_of(Plan *plan, std::size_t node, std::size_t input) {
  return const_cast<Constant *>(plan->constant(node, input));
}

// Weights that several nodes read have one form for all: what is best for one need not be for the others.
bool is_shared(const Plan &plan, const Constant &constant) {
  return std::ranges::count_if(plan.constants, [&](const Constant &one) { return one.tensor == constant.tensor; }) > 1;
}

Vector<Job> jobs_of(const qir::Graph &graph, const Improvements &wanted, Plan *plan) {
  Vector<Job> jobs;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const qir::Node &node = graph.nodes[n];
    Constant *weights = constant_of(plan, n, 1);
    if (!weights || weights->stored.empty() || is_shared(*plan, *weights)) continue;
    const std::optional<Product> product = product_of(graph, node);
    if (!product) continue;
    Constant *bias = constant_of(plan, n, 2);
    const bool is_plain =
        node.op != qir::Op::Gemm || (node.get_float("alpha", 1) == 1 && node.get_float("beta", 1) == 1);
    const bool fits = bias && is_plain && !is_shared(*plan, *bias) && bias->dtype == DType::I32 &&
                      bias->stored.size() == product->groups * product->outputs;
    if (wanted.rounding || fits) jobs.push_back({n, *product, weights, fits ? bias : nullptr, wanted.rounding, {}});
  }
  return jobs;
}

void improve(const qir::Graph &graph, const Improvements &wanted, const Vector<double> &means, Job &job) {
  const qir::Tensor &weights = at(graph, job.weights->tensor);
  const auto *values = static_cast<const float *>(weights.data.data);
  const Product &product = job.product;
  const bool corrects = wanted.bias && job.bias;
  // Whether the terms of a sum have one encoding.
  const auto channels = weight_axis(graph.nodes[job.node], weights.shape.size());
  const bool is_one =
      job.weights->quant.scales.size() == 1 || (job.weights->quant.block_size == 0 && channels &&
                                                job.weights->quant.axis == static_cast<std::int32_t>(*channels));
  Vector<float> real(product.terms);
  Vector<Encoding> encodings(product.terms);
  Vector<std::int32_t> stored(product.terms);
  Vector<double> shifts(product.groups * product.outputs, 0);  // of the means of the results
  SeldomAsked asked;
  for (std::size_t g = 0; g < product.groups; ++g)
    for (std::size_t part = 0; part < job.parts(); ++part) {
      const std::size_t begin = job.begin_of(part), count = job.begin_of(part + 1) - begin;
      std::optional<AdaptiveRounding> rounding;
      if (job.rounds) rounding.emplace(job.moments[g * job.parts() + part], corrects);
      const std::span reals(real.data(), count);
      const std::span codes(encodings.data(), count);
      const std::span integers(stored.data(), count);
      for (std::size_t o = 0; o < product.outputs; ++o) {
        if (asked.stopped(job.rounds ? 8 * count * count : count)) return;
        for (std::size_t t = 0; t < count; ++t) {
          const std::size_t element = product.weight(g, o, begin + t);
          real[t] = values[element], stored[t] = job.weights->stored[element];
          encodings[t] = is_one && t > 0 ? encodings[0] : encoding_of(*job.weights, weights.shape, element);
        }
        if (rounding) {
          job.before += rounding->error(reals, codes, integers);
          rounding->round(reals, codes, integers);
          job.after += rounding->error(reals, codes, integers);
          for (std::size_t t = 0; t < count; ++t) job.weights->stored[product.weight(g, o, begin + t)] = stored[t];
        }
        double &shift = shifts[g * product.outputs + o];
        for (std::size_t t = 0; corrects && t < count; ++t)
          shift += means[g * product.terms + begin + t] *
                   (static_cast<double>(stored[t] - encodings[t].zero_point) * static_cast<double>(encodings[t].scale) -
                    static_cast<double>(real[t]));
      }
    }
  for (std::size_t output = 0; corrects && output < shifts.size(); ++output) {
    const qir::Quantization &unit = job.bias->quant;
    const auto step = static_cast<double>(unit.scales[output % unit.scales.size()]);
    const double corrected = static_cast<double>(job.bias->stored[output]) - std::nearbyint(shifts[output] / step);
    if (!(std::fabs(corrected) < 2147483647.0)) continue;
    job.bias->stored[output] = static_cast<std::int32_t>(corrected);
    job.moved = std::max(job.moved, std::fabs(shifts[output]));
  }
  job.moments.clear();
}

}  // namespace

double rounding_cost(const qir::Graph &graph, std::size_t samples) {
  constexpr double kSweeps = 8;
  double sum = 0;
  for (const qir::Node &node : graph.nodes) {
    const std::optional<Product> product = product_of(graph, node);
    if (!product) continue;
    const double terms = static_cast<double>(std::min(product->terms, kMostTerms));
    const double parts = static_cast<double>((product->terms + kMostTerms - 1) / kMostTerms);
    const double rows = static_cast<double>(kRowsOfSample * samples) / 2;
    sum += static_cast<double>(product->groups) * parts * terms * terms *
           (rows + kSweeps * static_cast<double>(product->outputs));
  }
  return sum;
}

Status improve_weights(const qir::Graph &graph, const Feed &feed, const Improvements &wanted, InputMeans *means,
                       Plan *plan, Vector<Change> *changes) {
  if (!wanted.rounding && !wanted.bias) return {};
  means->of_node.resize(graph.nodes.size());
  Vector<Job> jobs = jobs_of(graph, wanted, plan);
  for (std::size_t first = 0; first < jobs.size();) {
    // As many products at a time as there is room for their moments; the samples run once for each such part.
    std::size_t end = first, bytes = 0;
    while (end < jobs.size() && (end == first || bytes + jobs[end].bytes() <= kMostBytes)) bytes += jobs[end++].bytes();
    Vector<std::int32_t> tensors;
    for (std::size_t i = first; i < end; ++i) {
      Job &job = jobs[i];
      if (!job.rounds && !means->of_node[job.node].empty()) continue;
      for (std::size_t g = 0; g < job.product.groups; ++g)
        for (std::size_t part = 0; part < job.parts(); ++part)
          job.moments.emplace_back(job.begin_of(part + 1) - job.begin_of(part), job.rounds);
      const std::int32_t input = graph.nodes[job.node].inputs[0];
      if (std::ranges::find(tensors, input) == tensors.end()) tensors.push_back(input);
    }
    Status looked;
    const auto look = [&](std::size_t place, std::span<const float> values) {
      if (!looked.ok()) return;
      looked = in_parallel(end - first, wanted.threads, wanted.signal, [&](std::size_t i) {
        Job &job = jobs[first + i];
        const qir::Node &node = graph.nodes[job.node];
        if (job.moments.empty() || node.inputs[0] != tensors[place]) return;
        SeldomAsked asked;
        gather_rows(graph, node, job.product, values, job.rounds ? kRowsOfSample : kRowsForMeans,
                    [&](std::size_t group, std::span<const float> row) {
                      if (asked.stopped(job.rounds ? row.size() * std::min(row.size(), kMostTerms) : row.size()))
                        return;
                      for (std::size_t part = 0; part < job.parts(); ++part) {
                        const std::size_t from = job.begin_of(part), count = job.begin_of(part + 1) - from;
                        job.moments[group * job.parts() + part].add(row.subspan(from, count));
                      }
                    });
      });
    };
    if (!tensors.empty()) QR_RETURN_IF_ERROR(feed(tensors, look));
    QR_RETURN_IF_ERROR(std::move(looked));  // before what is half done counts as known
    QR_RETURN_IF_ERROR(in_parallel(end - first, wanted.threads, wanted.signal, [&](std::size_t i) {
      Job &job = jobs[first + i];
      Vector<double> &of_job = means->of_node[job.node];
      if (!job.moments.empty()) {
        of_job.clear();
        for (const InputMoments &moments : job.moments)
          for (std::size_t t = 0; t < moments.terms(); ++t) of_job.push_back(moments.mean(t));
      }
      improve(graph, wanted, of_job, job);
    }));
    first = end;
  }
  for (const Job &job : jobs) {
    if (!changes) break;
    const String &name = graph.nodes[job.node].name;
    if (wanted.rounding && job.before > 0)
      changes->push_back({"weights rounded adaptively", name,
                          format("the error of its results is %.0f %% of that of the nearest integers",
                                 100 * job.after / job.before)});
    if (wanted.bias && job.bias && job.moved > 0)
      changes->push_back({"bias corrected", name, format("by up to %.3g", job.moved)});
  }
  return {};
}

}  // namespace quarry::quantize
