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
    const auto axis = index_of(quant.axis), extent = static_cast<std::size_t>(shape[axis]);
    std::size_t inner = 1;
    for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
    const std::size_t along = element / inner % extent;
    entry = along;
    if (quant.block_size > 0) {
      const auto block = static_cast<std::size_t>(quant.block_size);
      entry = (element / (inner * extent) * ((extent + block - 1) / block) + along / block) * inner + element % inner;
    }
  }
  return {constant.dtype, quant.scales[entry], quant.zero_points[entry], constant.reduced};
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

// Rounds the weights of one product, and makes up for what that does to the means of its results.
class Improver {
 public:
  Improver(const qir::Graph &graph, const Improvements &wanted, const Vector<double> &means, Job &job)
      : job_(job),
        product_(job.product),
        weights_(at(graph, job.weights->tensor)),
        means_(means),
        corrects_(wanted.bias && job.bias),
        real_(product_.terms),
        encodings_(product_.terms),
        stored_(product_.terms),
        shifts_(product_.groups * product_.outputs, 0) {
    const auto channels = weight_axis(graph.nodes[job.node], weights_.shape.size());
    const qir::Quantization &quant = job.weights->quant;
    is_one_ = quant.scales.size() == 1 ||
              (quant.block_size == 0 && channels && quant.axis == static_cast<std::int32_t>(*channels));
  }

  void run() {
    for (std::size_t g = 0; g < product_.groups; ++g)
      for (std::size_t part = 0; part < job_.parts(); ++part)
        if (!improve_part(g, part)) return;
    if (corrects_) correct_bias();
    job_.moments.clear();
  }

 private:
  // Terms of the sums of one output.
  struct Terms {
    std::size_t group, output, begin, count;
  };

  // A part of all sums of a group; false: it was stopped.
  bool improve_part(std::size_t group, std::size_t part) {
    const std::size_t begin = job_.begin_of(part), count = job_.begin_of(part + 1) - begin;
    std::optional<AdaptiveRounding> rounding;
    if (job_.rounds) rounding.emplace(job_.moments[group * job_.parts() + part], corrects_);
    for (std::size_t o = 0; o < product_.outputs; ++o) {
      if (asked_.stopped(job_.rounds ? 8 * count * count : count)) return false;
      const Terms terms{group, o, begin, count};
      read(terms);
      if (rounding) round(terms, *rounding);
      if (corrects_) add_shift(terms);
    }
    return true;
  }

  void read(const Terms &terms) {
    const auto *values = static_cast<const float *>(weights_.data.data);
    for (std::size_t t = 0; t < terms.count; ++t) {
      const std::size_t element = product_.weight(terms.group, terms.output, terms.begin + t);
      real_[t] = values[element], stored_[t] = job_.weights->stored[element];
      encodings_[t] = is_one_ && t > 0 ? encodings_[0] : encoding_of(*job_.weights, weights_.shape, element);
    }
  }

  void round(const Terms &terms, AdaptiveRounding &rounding) {
    const std::span reals(real_.data(), terms.count);
    const std::span codes(encodings_.data(), terms.count);
    const std::span integers(stored_.data(), terms.count);
    job_.before += rounding.error(reals, codes, integers);
    rounding.round(reals, codes, integers);
    job_.after += rounding.error(reals, codes, integers);
    for (std::size_t t = 0; t < terms.count; ++t)
      job_.weights->stored[product_.weight(terms.group, terms.output, terms.begin + t)] = stored_[t];
  }

  void add_shift(const Terms &terms) {
    double &shift = shifts_[terms.group * product_.outputs + terms.output];
    for (std::size_t t = 0; t < terms.count; ++t)
      shift += means_[terms.group * product_.terms + terms.begin + t] *
               (static_cast<double>(stored_[t] - encodings_[t].zero_point) * static_cast<double>(encodings_[t].scale) -
                static_cast<double>(real_[t]));
  }

  void correct_bias() {
    for (std::size_t output = 0; output < shifts_.size(); ++output) {
      const qir::Quantization &unit = job_.bias->quant;
      const auto step = static_cast<double>(unit.scales[output % unit.scales.size()]);
      const double corrected = static_cast<double>(job_.bias->stored[output]) - std::nearbyint(shifts_[output] / step);
      if (!(std::fabs(corrected) < 2147483647.0)) continue;
      job_.bias->stored[output] = static_cast<std::int32_t>(corrected);
      job_.moved = std::max(job_.moved, std::fabs(shifts_[output]));
    }
  }

  Job &job_;
  const Product &product_;
  const qir::Tensor &weights_;
  const Vector<double> &means_;
  const bool corrects_;
  bool is_one_;  // the terms of a sum have one encoding
  Vector<float> real_;
  Vector<Encoding> encodings_;
  Vector<std::int32_t> stored_;
  Vector<double> shifts_;  // of the means of the results
  SeldomAsked asked_;
};

// Jobs that are done at a time.
using JobSpan = std::span<Job>;

// Room for what samples show of their inputs, and these inputs.
Vector<std::int32_t> begin_moments(const qir::Graph &graph, const InputMeans &means, JobSpan jobs) {
  Vector<std::int32_t> tensors;
  for (Job &job : jobs) {
    if (!job.rounds && !means.of_node[job.node].empty()) continue;
    for (std::size_t g = 0; g < job.product.groups; ++g)
      for (std::size_t part = 0; part < job.parts(); ++part)
        job.moments.emplace_back(job.begin_of(part + 1) - job.begin_of(part), job.rounds);
    const std::int32_t input = graph.nodes[job.node].inputs[0];
    if (std::ranges::find(tensors, input) == tensors.end()) tensors.push_back(input);
  }
  return tensors;
}

void add_moments(const qir::Graph &graph, std::span<const float> values, Job &job) {
  SeldomAsked asked;
  const auto add_row = [&](std::size_t group, std::span<const float> row) {
    if (asked.stopped(job.rounds ? row.size() * std::min(row.size(), kMostTerms) : row.size())) return;
    for (std::size_t part = 0; part < job.parts(); ++part) {
      const std::size_t from = job.begin_of(part), count = job.begin_of(part + 1) - from;
      job.moments[group * job.parts() + part].add(row.subspan(from, count));
    }
  };
  gather_rows(graph, graph.nodes[job.node], job.product, values, job.rounds ? kRowsOfSample : kRowsForMeans, add_row);
}

Vector<double> means_of(const Job &job) {
  Vector<double> means;
  for (const InputMoments &moments : job.moments)
    for (std::size_t t = 0; t < moments.terms(); ++t) means.push_back(moments.mean(t));
  return means;
}

Status improve_jobs(const qir::Graph &graph, const Feed &feed, const Improvements &wanted, InputMeans *means,
                    JobSpan jobs) {
  const Vector<std::int32_t> tensors = begin_moments(graph, *means, jobs);
  Status looked;
  const auto look = [&](std::size_t place, std::span<const float> values) {
    if (!looked.ok()) return;
    looked = in_parallel(jobs.size(), wanted.threads, wanted.signal, [&](std::size_t i) {
      if (!jobs[i].moments.empty() && graph.nodes[jobs[i].node].inputs[0] == tensors[place])
        add_moments(graph, values, jobs[i]);
    });
  };
  if (!tensors.empty()) QR_RETURN_IF_ERROR(feed(tensors, look));
  QR_RETURN_IF_ERROR(std::move(looked));  // before what is half done counts as known
  return in_parallel(jobs.size(), wanted.threads, wanted.signal, [&](std::size_t i) {
    Vector<double> &of_job = means->of_node[jobs[i].node];
    if (!jobs[i].moments.empty()) of_job = means_of(jobs[i]);
    Improver(graph, wanted, of_job, jobs[i]).run();
  });
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
    QR_RETURN_IF_ERROR(improve_jobs(graph, feed, wanted, means, JobSpan(jobs).subspan(first, end - first)));
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
