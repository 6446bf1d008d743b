// SPDX-License-Identifier: Apache-2.0
// Attention, linear attention and rotary embeddings.
#include <algorithm>

#include "base/real/real.h"
#include "kernels/reference/dots.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"

namespace quarry::reference {

namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// Where [batch, head, position] of Q, K, V, Y or a cache lies: packed tensors are [batch, position, head * size].
struct HeadLayout {
  std::int64_t batch, head, position;

  HeadLayout(bool packed, std::int64_t heads, std::int64_t length, std::int64_t size) noexcept
      : batch(heads * length * size), head(packed ? size : length * size), position(packed ? heads * size : size) {}
  std::int64_t at(std::int64_t b, std::int64_t h, std::int64_t p) const noexcept {
    return b * batch + h * head + p * position;
  }
};

// Keys or values of one head: the past ones, then the new ones.
template <class T>
struct Sequence {
  const T *past, *fresh;
  std::int64_t past_length, fresh_step, size;

  // Calls part(rows, step, first position, count) for each of the two parts.
  template <class Part>
  void for_parts(std::int64_t total, Part &&part) const {
    if (past_length > 0) part(past, size, std::int64_t{0}, past_length);
    if (total > past_length) part(fresh, fresh_step, past_length, total - past_length);
  }
};

// What is added to a score before softmax: the mask, and minus infinity where a position may not be looked at.
class Bias {
 public:
  Status open(Context &context, const qir::AttentionGeometry &g) {
    const qir::Node &node = context.node();
    total_ = g.total_length;
    queries_ = g.q_length;
    past_length_ = g.past_length;
    causal_ = node.get_int("is_causal", 0) != 0;
    // No window is longer than all positions.
    const std::int64_t all = g.total_length + g.q_length;
    left_ = std::min(node.get_int("left_window_size", -1), all);
    right_ = std::min(node.get_int("right_window_size", -1), all);
    valid_ = context.input(6);
    if (valid_ && (valid_->dtype != DType::I64 || valid_->count != g.batch || context.input(4))) {
      return qir::node_error(node, ErrorId::run_value, "nonpad_kv_seqlen is %s %s, expected i64 [%lld] and no past_key",
                             dtype_name(valid_->dtype), shape_text(valid_->dims, valid_->rank), g.batch);
    }
    mask_ = context.input(3);
    if (!mask_) return {};
    if (!is_real(*mask_) && mask_->dtype != DType::Bool) return type_error(context, mask_->dtype);
    const std::int64_t extents[] = {g.batch, g.q_heads, g.q_length, g.total_length};
    std::int64_t own[qir::kMaxRank];
    dense_strides(mask_->dims, mask_->rank, own);
    mask_length_ = mask_->rank == 0 ? 0 : mask_->dims[mask_->rank - 1];
    bool fits = mask_->rank >= 1 && mask_->rank <= 4 && mask_length_ <= total_;
    for (std::uint32_t i = 0; fits && i + 1 < mask_->rank; ++i) {
      const std::uint32_t axis = 4 - mask_->rank + i;
      fits = mask_->dims[i] == 1 || mask_->dims[i] == extents[axis];
      strides_[axis] = mask_->dims[i] == 1 ? 0 : own[i];
    }
    if (fits) return {};
    return qir::node_error(node, ErrorId::run_value,
                           "attn_mask is %s, expected what can be broadcast to %s (the last dimension may be shorter)",
                           shape_text(mask_->dims, mask_->rank), shape_text(extents, 4));
  }

  // For query q of head h in batch entry b: out[0..total). False: no position may be looked at.
  bool row(std::int64_t b, std::int64_t h, std::int64_t q, double *out) const noexcept {
    const std::int64_t valid =
        valid_ ? std::clamp<std::int64_t>(valid_->as<const std::int64_t>()[b], 0, total_) : total_;
    // The absolute position of the query: what is cached comes before it.
    const std::int64_t position = q + (valid_ ? valid - queries_ : past_length_);
    const std::int64_t mask_row = b * strides_[0] + h * strides_[1] + q * strides_[2];
    bool any = false;
    for (std::int64_t j = 0; j < total_; ++j) {
      const bool visible = j < valid && !(causal_ && j > position) && !(left_ >= 0 && j < position - left_) &&
                           !(right_ >= 0 && j > position + right_);
      double value = 0;
      if (mask_) {
        if (j >= mask_length_) value = kMasked;
        else if (mask_->dtype == DType::Bool) value = mask_->as<const std::uint8_t>()[mask_row + j] ? 0 : kMasked;
        else value = real_at(*mask_, mask_row + j);
      }
      out[j] = visible ? value : kMasked;
      any = any || out[j] != kMasked;
    }
    return any;
  }

 private:
  const View *mask_ = nullptr, *valid_ = nullptr;
  std::int64_t mask_length_ = 0, strides_[4] = {};  // strides of batch, head and query in the mask
  std::int64_t total_ = 0, queries_ = 0, past_length_ = 0, left_ = -1, right_ = -1;
  bool causal_ = false;
};

// past and fresh positions after each other, as [batch, heads, total, size].
void write_present(View *present, const View *past, const View &fresh, const qir::AttentionGeometry &g,
                   std::int64_t size) {
  if (!present) return;
  const HeadLayout to(false, g.kv_heads, g.total_length, size), old(false, g.kv_heads, g.past_length, size),
      from(g.packed, g.kv_heads, g.kv_length, size);
  for (std::int64_t b = 0; b < g.batch; ++b) {
    for (std::int64_t h = 0; h < g.kv_heads; ++h) {
      for (std::int64_t i = 0; i < g.total_length * size; ++i) {
        const std::int64_t j = i / size;
        const double value = j < g.past_length ? real_at(*past, old.at(b, h, j) + i % size)
                                               : real_at(fresh, from.at(b, h, j - g.past_length) + i % size);
        set_real(*present, to.at(b, h, 0) + i, value);
      }
    }
  }
}

struct AttentionCall {
  qir::AttentionGeometry g;
  Bias bias;
  double scale = 1, softcap = 0;
  std::int64_t shown = 0;  // qk_matmul_output_mode
};

// One head of one batch entry. scores and biases: room for total_length; sums: for v_head_size.
template <class T, class V>
void attend(Context &context, const AttentionCall &call, std::int64_t b, std::int64_t h, double *scores, double *biases,
            double *sums) {
  const qir::AttentionGeometry &g = call.g;
  const View &q = *context.input(0), &k = *context.input(1), &v = *context.input(2);
  const View *past_key = context.input(4), *past_value = context.input(5);
  View *y = context.output(0), *shown = context.output(3);
  const std::int64_t kv_head = h / (g.q_heads / g.kv_heads);
  const HeadLayout q_at(g.packed, g.q_heads, g.q_length, g.head_size),
      y_at(g.packed, g.q_heads, g.q_length, g.v_head_size);
  const HeadLayout k_at(g.packed, g.kv_heads, g.kv_length, g.head_size),
      v_at(g.packed, g.kv_heads, g.kv_length, g.v_head_size);
  const HeadLayout past_k_at(false, g.kv_heads, g.past_length, g.head_size),
      past_v_at(false, g.kv_heads, g.past_length, g.v_head_size);
  const Sequence<T> keys = {past_key ? past_key->as<const T>() + past_k_at.at(b, kv_head, 0) : nullptr,
                            k.as<const T>() + k_at.at(b, kv_head, 0), g.past_length, k_at.position, g.head_size};
  const Sequence<V> values = {past_value ? past_value->as<const V>() + past_v_at.at(b, kv_head, 0) : nullptr,
                              v.as<const V>() + v_at.at(b, kv_head, 0), g.past_length, v_at.position, g.v_head_size};

  for (std::int64_t i = 0; i < g.q_length; ++i) {
    if (context.stopped()) return;
    const auto show = [&](std::int64_t mode) {
      if (!shown || call.shown != mode) return;
      for (std::int64_t j = 0; j < g.total_length; ++j)
        set_real(*shown, ((b * g.q_heads + h) * g.q_length + i) * g.total_length + j, scores[j]);
    };
    const T *query = q.as<const T>() + q_at.at(b, h, i);
    keys.for_parts(g.total_length, [&](const T *rows, std::int64_t step, std::int64_t first, std::int64_t count) {
      dots(rows, step, count, query, g.head_size, scores + first);
    });
    const bool any = call.bias.row(b, h, i, biases);
    for (std::int64_t j = 0; j < g.total_length; ++j) scores[j] *= call.scale;
    show(0);
    if (call.softcap > 0) {
      for (std::int64_t j = 0; j < g.total_length; ++j) scores[j] = call.softcap * real::tanh(scores[j] / call.softcap);
    }
    show(1);
    double greatest = kMasked, sum = 0;
    for (std::int64_t j = 0; j < g.total_length; ++j) {
      scores[j] = biases[j] == kMasked ? kMasked : scores[j] + biases[j];
      if (!(scores[j] <= greatest)) greatest = scores[j];
    }
    show(2);
    for (std::int64_t j = 0; j < g.total_length; ++j) {
      scores[j] = any && greatest != kMasked && biases[j] != kMasked ? real::exp(scores[j] - greatest) : 0;
      sum += scores[j];
    }
    for (std::int64_t j = 0; j < g.total_length && sum != 0; ++j) scores[j] /= sum;
    show(3);
    if (!y) continue;
    std::fill_n(sums, g.v_head_size, 0.0);
    values.for_parts(g.total_length, [&](const V *rows, std::int64_t step, std::int64_t first, std::int64_t count) {
      for (std::int64_t j = 0; j < count; ++j) {
        if (biases[first + j] == kMasked) continue;  // what may not be looked at has no say, be it NaN
        const double share = scores[first + j];
        for (std::int64_t c = 0; c < g.v_head_size; ++c) sums[c] += share * static_cast<double>(rows[j * step + c]);
      }
    });
    for (std::int64_t c = 0; c < g.v_head_size; ++c) set_real(*y, y_at.at(b, h, i) + c, sums[c]);
  }
}

}  // namespace

// Y = softmax(softcap(scale * Q K^T) + bias) V. Everything is computed in double, which softmax_precision asks no more
// of.
Status kernel_attention(Context &context) {
  const qir::Node &node = context.node();
  const View &q = *context.input(0), &k = *context.input(1), &v = *context.input(2);
  const View *past_key = context.input(4), *past_value = context.input(5);
  AttentionCall call;
  qir::AttentionGeometry &g = call.g;
  if ((past_key == nullptr) != (past_value == nullptr))
    return qir::node_error(node, ErrorId::run_value, "one of past_key and past_value is there, expected both or none");
  QR_RETURN_IF_ERROR(qir::resolve_attention(node, dims_of(q), dims_of(k), dims_of(v),
                                            past_key ? dims_of(*past_key) : qir::Dims(), &g));
  QR_RETURN_IF_ERROR(check_real(context, past_key, "past_key", {g.batch, g.kv_heads, g.past_length, g.head_size}));
  QR_RETURN_IF_ERROR(
      check_real(context, past_value, "past_value", {g.batch, g.kv_heads, g.past_length, g.v_head_size}));
  if (k.dtype != q.dtype || (past_key && past_key->dtype != q.dtype)) return type_error(context, k.dtype);
  if (past_value && past_value->dtype != v.dtype) return type_error(context, past_value->dtype);
  if (g.kv_heads < 1 || g.q_heads % g.kv_heads != 0) {
    return qir::node_error(node, ErrorId::run_value, "%lld query heads do not divide among %lld key heads", g.q_heads,
                           g.kv_heads);
  }
  QR_RETURN_IF_ERROR(call.bias.open(context, g));
  const qir::Attribute *scale = node.find("scale");
  call.scale = scale ? static_cast<double>(scale->f) : 1 / std::sqrt(static_cast<double>(g.head_size));
  call.softcap = static_cast<double>(node.get_float("softcap", 0));
  call.shown = node.get_int("qk_matmul_output_mode", 0);

  const std::int64_t heads = g.batch * g.q_heads, room = 2 * g.total_length + g.v_head_size;
  double *scratch = static_cast<double *>(context.scratch(static_cast<std::uint64_t>(heads * room) * sizeof(double)));
  bool known = false;
  dispatch<float, double>(q.dtype, [&](auto q_tag) {
    known = dispatch<float, double>(v.dtype, [&](auto v_tag) {
      parallel(context, heads, [&](std::int64_t task) {
        double *scores = scratch + task * room;
        attend<decltype(q_tag), decltype(v_tag)>(context, call, task / g.q_heads, task % g.q_heads, scores,
                                                 scores + g.total_length, scores + 2 * g.total_length);
      });
    });
  });
  if (!known) return type_error(context, q.dtype);
  write_present(context.output(1), past_key, k, g, g.head_size);
  write_present(context.output(2), past_value, v, g, g.v_head_size);
  return {};
}

// Turns pairs of elements of every head by the angle whose cosine and sine the caches hold for the position; elements
// past rotary_embedding_dim stay as they are.
Status kernel_rotary_embedding(Context &context) {
  const qir::Node &node = context.node();
  const View &x = *context.input(0), &cosines = *context.input(1), &sines = *context.input(2);
  const View *positions = context.input(3);
  if (x.rank != 3 && x.rank != 4) {
    return qir::node_error(node, ErrorId::run_value,
                           "X is %s, expected [batch,length,hidden] or [batch,heads,length,size]",
                           shape_text(x.dims, x.rank));
  }
  const bool packed = x.rank == 3, interleaved = node.get_int("interleaved", 0) != 0;
  const std::int64_t batch = x.dims[0], length = x.dims[packed ? 1 : 2],
                     heads = packed ? node.get_int("num_heads", 0) : x.dims[1];
  if (packed && (heads < 1 || x.dims[2] % heads != 0)) {
    return qir::node_error(node, ErrorId::run_value, "%lld elements do not divide into num_heads %lld", x.dims[2],
                           heads);
  }
  const std::int64_t size = packed ? x.dims[2] / heads : x.dims[3];
  const std::int64_t turned =
                         node.get_int("rotary_embedding_dim", 0) == 0 ? size : node.get_int("rotary_embedding_dim", 0),
                     half = turned / 2;
  if (turned < 0 || turned > size || turned % 2 != 0) {
    return qir::node_error(node, ErrorId::run_value,
                           "%lld elements of heads of %lld are to be turned, expected an even number of at most that",
                           turned, size);
  }
  for (const View *cache : {&cosines, &sines}) {
    if (positions) {
      QR_RETURN_IF_ERROR(check_real(context, cache, "the cache", {cache->rank == 0 ? 0 : cache->dims[0], half}));
    } else {
      QR_RETURN_IF_ERROR(check_real(context, cache, "the cache", {batch, length, half}));
    }
  }
  if (positions) {
    const std::int64_t expected[] = {batch, length}, known = std::min(cosines.dims[0], sines.dims[0]);
    if (positions->dtype != DType::I64 || positions->count != batch * length) {
      return qir::node_error(node, ErrorId::run_value, "position_ids is %s %s, expected i64 %s",
                             dtype_name(positions->dtype), shape_text(positions->dims, positions->rank),
                             shape_text(expected, 2));
    }
    for (std::int64_t i = 0; i < positions->count; ++i) {
      const std::int64_t position = positions->as<const std::int64_t>()[i];
      if (position < 0 || position >= known) {
        return qir::node_error(node, ErrorId::run_value, "found position %lld, expected 0 to %lld", position,
                               known - 1);
      }
    }
  }
  View *y = context.output(0);
  if (!y) return {};
  const HeadLayout at(packed, heads, length, size);
  const bool known = dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, batch * length, [&](std::int64_t token) {
      const std::int64_t b = token / length, p = token % length;
      const std::int64_t angle = (positions ? positions->as<const std::int64_t>()[token] : token) * half;
      for (std::int64_t h = 0; h < heads; ++h) {
        const T *from = x.as<const T>() + at.at(b, h, p);
        T *to = y->as<T>() + at.at(b, h, p);
        for (std::int64_t i = 0; i < half; ++i) {
          const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : half + i;
          const double c = real_at(cosines, angle + i), s = real_at(sines, angle + i);
          const double a = static_cast<double>(from[first]), e = static_cast<double>(from[second]);
          to[first] = static_cast<T>(c * a - s * e);
          to[second] = static_cast<T>(s * a + c * e);
        }
        std::copy(from + turned, from + size, to + turned);
      }
    });
  });
  return known ? Status() : type_error(context, x.dtype);
}

// A state S [d_k, d_v] per key head goes from token to token:
//   S = exp(decay) * S (gated rules); v = beta * (v - S^T k) (delta rules); S += k v^T;
// and every query head of the group reads scale * S^T q.
Status kernel_linear_attention(Context &context) {
  const qir::Node &node = context.node();
  const View &q = *context.input(0), &k = *context.input(1), &v = *context.input(2);
  const View *past = context.input(3), *decay = context.input(4), *beta = context.input(5);
  const std::string_view rule = node.get_string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", corrected = rule == "delta" || rule == "gated_delta";
  const std::int64_t q_heads = node.get_int("q_num_heads", 0), heads = node.get_int("kv_num_heads", 0);
  if (heads < 1 || q_heads < 1 || q_heads % heads != 0 || q.rank != 3 || v.rank != 3 || q.dims[2] % q_heads != 0 ||
      v.dims[2] % heads != 0) {
    return qir::node_error(node, ErrorId::run_value,
                           "found query %s, value %s, %lld query heads and %lld key heads; expected "
                           "[batch,length,heads*size] and query heads in groups",
                           shape_text(q.dims, q.rank), shape_text(v.dims, v.rank), q_heads, heads);
  }
  if (gated != (decay != nullptr) || corrected != (beta != nullptr)) {
    return qir::node_error(node, ErrorId::run_value, "update_rule '%s' %s decay and %s beta", printable(rule),
                           gated ? "needs" : "takes no", corrected ? "needs" : "takes no");
  }
  const std::int64_t batch = q.dims[0], length = q.dims[1], group = q_heads / heads, d_k = q.dims[2] / q_heads,
                     d_v = v.dims[2] / heads;
  QR_RETURN_IF_ERROR(check_real(context, &q, "the query", {batch, length, q_heads * d_k}));
  QR_RETURN_IF_ERROR(check_real(context, &k, "the key", {batch, length, heads * d_k}));
  QR_RETURN_IF_ERROR(check_real(context, &v, "the value", {batch, length, heads * d_v}));
  QR_RETURN_IF_ERROR(check_real(context, past, "past_state", {batch, heads, d_k, d_v}));
  const bool decay_per_key = decay && decay->rank == 3 && decay->dims[2] != heads,
             beta_shared = beta && beta->rank == 3 && beta->dims[2] == 1;
  QR_RETURN_IF_ERROR(check_real(context, decay, "the decay", {batch, length, decay_per_key ? heads * d_k : heads}));
  QR_RETURN_IF_ERROR(check_real(context, beta, "beta", {batch, length, beta_shared ? 1 : heads}));
  const float given = node.get_float("scale", 0);
  const double scale = given == 0 ? 1 / std::sqrt(static_cast<double>(d_k)) : static_cast<double>(given);
  View *y = context.output(0), *present = context.output(1);

  const std::int64_t room = d_k * d_v + d_v;
  double *scratch =
      static_cast<double *>(context.scratch(static_cast<std::uint64_t>(batch * heads * room) * sizeof(double)));
  parallel(context, batch * heads, [&](std::int64_t task) {
    const std::int64_t b = task / heads, h = task % heads;
    double *state = scratch + task * room, *row = state + d_k * d_v;
    for (std::int64_t i = 0; past && i < d_k * d_v; ++i) state[i] = real_at(*past, task * d_k * d_v + i);
    // row = S^T x
    const auto read = [&](const View &view, std::int64_t first) {
      std::fill_n(row, d_v, 0.0);
      for (std::int64_t i = 0; i < d_k; ++i) {
        const double x = real_at(view, first + i);
        for (std::int64_t j = 0; j < d_v; ++j) row[j] += x * state[i * d_v + j];
      }
    };
    for (std::int64_t t = 0; t < length; ++t) {
      if (context.stopped()) return;
      const std::int64_t token = b * length + t, key = (token * heads + h) * d_k, value = (token * heads + h) * d_v;
      for (std::int64_t i = 0; gated && i < d_k; ++i) {
        const double factor = real::exp(real_at(*decay, decay_per_key ? key + i : token * heads + h));
        for (std::int64_t j = 0; j < d_v; ++j) state[i * d_v + j] *= factor;
      }
      if (corrected) read(k, key);
      const double rate = corrected ? real_at(*beta, beta_shared ? token : token * heads + h) : 1;
      for (std::int64_t j = 0; j < d_v; ++j)
        row[j] = corrected ? rate * (real_at(v, value + j) - row[j]) : real_at(v, value + j);
      for (std::int64_t i = 0; i < d_k; ++i) {
        const double x = real_at(k, key + i);
        for (std::int64_t j = 0; j < d_v; ++j) state[i * d_v + j] += x * row[j];
      }
      for (std::int64_t member = 0; y && member < group; ++member) {
        const std::int64_t reader = token * q_heads + h * group + member;
        read(q, reader * d_k);
        for (std::int64_t j = 0; j < d_v; ++j) set_real(*y, reader * d_v + j, scale * row[j]);
      }
    }
    for (std::int64_t i = 0; present && i < d_k * d_v; ++i) set_real(*present, task * d_k * d_v + i, state[i]);
  });
  return {};
}

}  // namespace quarry::reference
