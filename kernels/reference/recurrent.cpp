// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM. A sequence is one direction of one batch entry; sequences are independent of each other. States
// stay doubles from step to step.
#include "base/real/real.h"
#include "kernels/reference/dots.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"

namespace quarry::reference {

namespace {

// ---- activations --------------------------------------------------------------------------------

enum class Function : std::uint8_t {
  Relu,
  Tanh,
  Sigmoid,
  Affine,
  LeakyRelu,
  ThresholdedRelu,
  ScaledTanh,
  HardSigmoid,
  Elu,
  Softsign,
  Softplus
};

struct FunctionRow {
  const char *name;
  Function function;
  int parameters;  // 1: alpha; 2: alpha and beta
  float alpha, beta;
};
constexpr FunctionRow kFunctions[] = {
    {"Relu", Function::Relu, 0, 0, 0},
    {"Tanh", Function::Tanh, 0, 0, 0},
    {"Sigmoid", Function::Sigmoid, 0, 0, 0},
    {"Affine", Function::Affine, 2, 1, 0},
    {"LeakyRelu", Function::LeakyRelu, 1, 0.01f, 0},
    {"ThresholdedRelu", Function::ThresholdedRelu, 1, 1, 0},
    {"ScaledTanh", Function::ScaledTanh, 2, 1, 1},
    {"HardSigmoid", Function::HardSigmoid, 2, 0.2f, 0.5f},
    {"Elu", Function::Elu, 1, 1, 0},
    {"Softsign", Function::Softsign, 0, 0, 0},
    {"Softplus", Function::Softplus, 0, 0, 0},
};

constexpr double kNoClip = std::numeric_limits<double>::infinity();

struct Activation {
  Function function = Function::Tanh;
  double alpha = 0, beta = 0;
  double clip = kNoClip;

  double operator()(double x) const noexcept {
    if (x > clip) x = clip;
    if (x < -clip) x = -clip;
    switch (function) {
      case Function::Relu: return x < 0 ? 0 : x;
      case Function::Tanh: return real::tanh(x);
      case Function::Sigmoid: return 1 / (1 + real::exp(-x));
      case Function::Affine: return alpha * x + beta;
      case Function::LeakyRelu: return x < 0 ? alpha * x : x;
      case Function::ThresholdedRelu: return x < alpha ? 0 : x;
      case Function::ScaledTanh: return alpha * real::tanh(beta * x);
      case Function::HardSigmoid: return std::min(std::max(alpha * x + beta, 0.0), 1.0);
      case Function::Elu: return x < 0 ? alpha * real::expm1(x) : x;
      case Function::Softsign: return x / (1 + std::abs(x));
      case Function::Softplus: return x > 0 ? x + real::log1p(real::exp(-x)) : real::log1p(real::exp(x));
    }
    return x;
  }
};

bool same_name(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

constexpr std::size_t kMaxActivations = 3;

// The activations of all directions, in order. Entries of activation_alpha and activation_beta belong to the functions
// that take them, in order.
Status read_activations(const qir::Node &node, std::int64_t directions, std::initializer_list<const char *> usual,
                        Activation *out) {
  const Vector<String> *names = node.get_strings("activations");
  const Vector<float> *alphas = node.get_floats("activation_alpha"), *betas = node.get_floats("activation_beta");
  const std::size_t count = static_cast<std::size_t>(directions) * usual.size();
  if (names && names->empty()) names = nullptr;
  if (names && names->size() != count) {
    return qir::node_error(node, ErrorId::qir_attribute, "activations names %zu functions, expected %zu", names->size(),
                           count);
  }
  const float clip = node.get_float("clip", 0);
  std::size_t alpha = 0, beta = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name =
        names ? std::string_view((*names)[i]) : std::string_view(usual.begin()[i % usual.size()]);
    const auto *row = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const FunctionRow &each) { return same_name(each.name, name); });
    if (row == std::end(kFunctions)) {
      return qir::node_error(node, ErrorId::qir_attribute, "'%s' is no activation of recurrent operators",
                             printable(name));
    }
    out[i] = {row->function, static_cast<double>(row->alpha), static_cast<double>(row->beta)};
    if (row->parameters >= 1 && alphas && alpha < alphas->size())
      out[i].alpha = static_cast<double>((*alphas)[alpha++]);
    if (row->parameters >= 2 && betas && beta < betas->size()) out[i].beta = static_cast<double>((*betas)[beta++]);
    if (clip > 0) out[i].clip = static_cast<double>(clip);
  }
  return {};
}

// ---- sequences ----------------------------------------------------------------------------------

// One direction's parameters; biases and peepholes are nullptr where absent.
template <class T>
struct Direction {
  const T *w, *r;            // [gates * hidden, input], [gates * hidden, hidden]
  const T *w_bias, *r_bias;  // [gates * hidden] each
  const T *peepholes;        // [3 * hidden]
  const Activation *activations;
};

// What a cell sees and changes in one step: `from_x` is X W^T + bias for all gates; h and c are the states; `work` has
// room for twice the gates.
struct StepState {
  std::int64_t hidden;
  const double *from_x;
  double *h, *c, *work;
};

template <class T>
void add_bias(double *values, const T *bias, std::int64_t count) noexcept {
  for (std::int64_t i = 0; bias && i < count; ++i) values[i] += static_cast<double>(bias[i]);
}

// Runs all sequences of a node with `gates` gates. cell(direction, state) makes one step.
template <class T, class Cell>
void run_sequences(Context &context, const qir::RnnGeometry &g, std::int64_t gates, const Activation *activations,
                   std::size_t per_direction, Cell &&cell) {
  const auto data = [&](std::uint32_t input) -> const T * {
    return context.input(input) ? context.input(input)->as<const T>() : nullptr;
  };
  const T *x = data(0), *w = data(1), *r = data(2), *bias = data(3), *peepholes = data(7);
  const View *lengths = context.input(4), *initial_h = context.input(5), *initial_c = context.input(6);
  View *y = context.output(0), *y_h = context.output(1), *y_c = context.output(2);
  const std::int64_t hidden = g.hidden, wide = gates * hidden, room = g.input + 2 * hidden + 3 * wide;
  double *scratch = static_cast<double *>(
      context.scratch(static_cast<std::uint64_t>(g.directions * g.batch * room) * sizeof(double)));

  parallel(context, g.directions * g.batch, [&](std::int64_t task) {
    const std::int64_t d = task / g.batch, b = task % g.batch;
    const Direction<T> direction = {w + d * wide * g.input,
                                    r + d * wide * hidden,
                                    bias ? bias + d * 2 * wide : nullptr,
                                    bias ? bias + (d * 2 + 1) * wide : nullptr,
                                    peepholes ? peepholes + d * 3 * hidden : nullptr,
                                    activations + index_of(d) * per_direction};
    const bool backwards = g.reverse || d == 1;
    const std::int64_t length = lengths ? lengths->as<const std::int32_t>()[b] : g.sequence;
    const std::int64_t state_at = (g.batch_first ? b * g.directions + d : d * g.batch + b) * hidden;
    double *input = scratch + task * room, *from_x = input + g.input;
    const StepState state = {hidden, from_x, from_x + wide, from_x + wide + hidden, from_x + wide + 2 * hidden};
    for (std::int64_t i = 0; i < hidden; ++i) {
      if (initial_h) state.h[i] = real_at(*initial_h, state_at + i);
      if (initial_c) state.c[i] = real_at(*initial_c, state_at + i);
    }
    for (std::int64_t step = 0; step < g.sequence; ++step) {
      if (context.stopped()) return;
      const std::int64_t t = step < length && backwards ? length - 1 - step : step;
      const std::int64_t y_at =
          (g.batch_first ? (b * g.sequence + t) * g.directions + d : (t * g.directions + d) * g.batch + b) * hidden;
      if (step >= length) {  // padding
        for (std::int64_t i = 0; y && i < hidden; ++i) set_real(*y, y_at + i, 0);
        continue;
      }
      const T *from = x + (g.batch_first ? b * g.sequence + t : t * g.batch + b) * g.input;
      std::copy_n(from, g.input, input);
      dots(direction.w, g.input, wide, input, g.input, from_x);
      add_bias(from_x, direction.w_bias, wide);
      cell(direction, state);
      for (std::int64_t i = 0; y && i < hidden; ++i) set_real(*y, y_at + i, state.h[i]);
    }
    for (std::int64_t i = 0; i < hidden; ++i) {
      if (y_h) set_real(*y_h, state_at + i, state.h[i]);
      if (y_c) set_real(*y_c, state_at + i, state.c[i]);
    }
  });
}

// Checks the operands and runs cell(direction, state) for f32 and f64. `usual`: the default activations.
template <class Cell>
Status recurrent(Context &context, std::int64_t gates, std::initializer_list<const char *> usual, Cell &&cell) {
  const qir::Node &node = context.node();
  const View &x = *context.input(0), &w = *context.input(1), &r = *context.input(2);
  qir::RnnGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_rnn(node, dims_of(x), dims_of(w), dims_of(r), &g));
  const std::int64_t first = g.batch_first ? g.batch : g.directions, second = g.batch_first ? g.directions : g.batch;
  QR_RETURN_IF_ERROR(check_real(context, &x, "X", {x.dims[0], x.dims[1], g.input}));
  QR_RETURN_IF_ERROR(check_real(context, &w, "W", {g.directions, gates * g.hidden, g.input}));
  QR_RETURN_IF_ERROR(check_real(context, &r, "R", {g.directions, gates * g.hidden, g.hidden}));
  QR_RETURN_IF_ERROR(check_real(context, context.input(3), "B", {g.directions, 2 * gates * g.hidden}));
  QR_RETURN_IF_ERROR(check_real(context, context.input(5), "initial_h", {first, second, g.hidden}));
  QR_RETURN_IF_ERROR(check_real(context, context.input(6), "initial_c", {first, second, g.hidden}));
  QR_RETURN_IF_ERROR(check_real(context, context.input(7), "P", {g.directions, 3 * g.hidden}));
  for (const std::uint32_t i : {1u, 2u, 3u, 7u}) {
    if (context.input(i) && context.input(i)->dtype != x.dtype) return type_error(context, context.input(i)->dtype);
  }
  if (const View *lengths = context.input(4)) {
    if (lengths->dtype != DType::I32) return type_error(context, lengths->dtype);
    if (lengths->count != g.batch) {
      return qir::node_error(node, ErrorId::run_value,
                             "sequence_lens has %lld entries, expected %lld (one per batch entry)", lengths->count,
                             g.batch);
    }
    for (std::int64_t b = 0; b < g.batch; ++b) {
      const std::int64_t length = integer_at(*lengths, b);
      if (length < 0 || length > g.sequence) {
        return qir::node_error(node, ErrorId::run_value, "sequence_lens has %lld, expected 0 to %lld", length,
                               g.sequence);
      }
    }
  }
  Activation activations[2 * kMaxActivations];
  QR_RETURN_IF_ERROR(read_activations(node, g.directions, usual, activations));
  dispatch<float, double>(
      x.dtype, [&](auto tag) { run_sequences<decltype(tag)>(context, g, gates, activations, usual.size(), cell); });
  return {};
}

}  // namespace

// h = f(X W^T + h R^T + biases)
Status kernel_rnn(Context &context) {
  return recurrent(context, 1, {"Tanh"}, [](const auto &direction, const StepState &s) {
    dots(direction.r, s.hidden, s.hidden, s.h, s.hidden, s.work);
    add_bias(s.work, direction.r_bias, s.hidden);
    for (std::int64_t i = 0; i < s.hidden; ++i) s.h[i] = direction.activations[0](s.from_x[i] + s.work[i]);
  });
}

// Gates z (update), r (reset), h (new state); h = (1 - z) * new + z * h.
Status kernel_gru(Context &context) {
  const bool before_reset = context.node().get_int("linear_before_reset", 0) != 0;
  return recurrent(context, 3, {"Sigmoid", "Tanh"}, [before_reset](const auto &direction, const StepState &s) {
    const std::int64_t n = s.hidden;
    const Activation &f = direction.activations[0], &g = direction.activations[1];
    double *from_h = s.work, *update = s.work + 3 * n, *reset = update + n, *kept = reset + n;
    dots(direction.r, n, 2 * n, s.h, n, from_h);
    if (before_reset) dots(direction.r + 2 * n * n, n, n, s.h, n, from_h + 2 * n);
    add_bias(from_h, direction.r_bias, 2 * n);
    for (std::int64_t i = 0; i < n; ++i) {
      update[i] = f(s.from_x[i] + from_h[i]);
      reset[i] = f(s.from_x[n + i] + from_h[n + i]);
      kept[i] = reset[i] * s.h[i];
    }
    if (!before_reset) dots(direction.r + 2 * n * n, n, n, kept, n, from_h + 2 * n);
    add_bias(from_h + 2 * n, direction.r_bias ? direction.r_bias + 2 * n : nullptr, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const double recurrent_part = from_h[2 * n + i] * (before_reset ? reset[i] : 1);
      s.h[i] = (1 - update[i]) * g(s.from_x[2 * n + i] + recurrent_part) + update[i] * s.h[i];
    }
  });
}

// Gates i (input), o (output), f (forget), c (new cell); c = f * c + i * new, h = o * act(c). The peepholes P[iof] look
// at the cell: i and f at the one before, o at the new one. input_forget couples the gates: f = 1 - i.
Status kernel_lstm(Context &context) {
  const bool coupled = context.node().get_int("input_forget", 0) != 0;
  return recurrent(context, 4, {"Sigmoid", "Tanh", "Tanh"}, [coupled](const auto &direction, const StepState &s) {
    const std::int64_t n = s.hidden;
    const Activation &f = direction.activations[0], &g = direction.activations[1];
    Activation h = direction.activations[2];
    h.clip = kNoClip;  // clip bounds what comes from products, not the cell: as ONNX Runtime reads it
    double *gate = s.work;
    dots(direction.r, n, 4 * n, s.h, n, gate);
    add_bias(gate, direction.r_bias, 4 * n);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto peephole = [&](std::int64_t which, double cell) {
        return direction.peepholes ? static_cast<double>(direction.peepholes[which * n + i]) * cell : 0.0;
      };
      const double before = s.c[i];
      const double in = f(s.from_x[i] + gate[i] + peephole(0, before));
      const double forget = coupled ? 1 - in : f(s.from_x[2 * n + i] + gate[2 * n + i] + peephole(2, before));
      s.c[i] = forget * before + in * g(s.from_x[3 * n + i] + gate[3 * n + i]);
      s.h[i] = f(s.from_x[n + i] + gate[n + i] + peephole(1, s.c[i])) * h(s.c[i]);
    }
  });
}

}  // namespace quarry::reference
