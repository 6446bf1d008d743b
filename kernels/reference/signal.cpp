// SPDX-License-Identifier: Apache-2.0
// Signal processing: discrete Fourier transforms, window functions, the mel filter bank.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/real/real.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

struct Complex {
  double re, im;
};
Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

// A transform of one length. Lengths are split by their small factors; what is left is the defining sum, or where that
// is long a convolution, made of transforms whose length is a power of two (Bluestein).
class Fourier {
 public:
  Fourier(Context &context, std::int64_t length, bool inverse)
      : poll_(context), length_(length), roots_(room(context, length)), work_(room(context, length)) {
    const auto told = [&] { return stopped_ = stopped_ || context.stopped(); };  // (large rooms take long)
    if (told()) return;
    for (std::int64_t k = 0; k < length && !poll_.stopped(16); ++k) roots_[k] = root(k, length, inverse);
    for (std::int64_t factor = least_factor(length); factor > 1; factor = least_factor(length)) length /= factor;
    if (length <= kLongSum) return;
    core_ = length;
    padded_ = 1;
    while (padded_ < 2 * core_ - 1) padded_ *= 2;
    for (Complex **buffer : {&long_roots_, &filter_, &row_, &row_work_}) {
      if (told()) return;
      *buffer = room(context, padded_);
    }
    chirp_ = room(context, core_);
    if (told()) return;
    for (std::int64_t k = 0; k < padded_ && !poll_.stopped(16); ++k) long_roots_[k] = root(k, padded_, false);
    std::int64_t square = 0;  // k * k modulo 2 core_
    for (std::int64_t k = 0; k < core_ && !poll_.stopped(16); ++k) {
      chirp_[k] = root(square, 2 * core_, inverse);
      square = (square + 2 * k + 1) % (2 * core_);
    }
    for (std::int64_t k = core_; k <= padded_ - core_ && !poll_.stopped(1); ++k) filter_[k] = {0, 0};
    for (std::int64_t k = 0; k < core_ && !poll_.stopped(1); ++k) {
      const Complex value = {chirp_[k].re / static_cast<double>(padded_), -chirp_[k].im / static_cast<double>(padded_)};
      filter_[k] = value;
      if (k > 0) filter_[padded_ - k] = value;
    }
    split_by_two(filter_, row_work_, padded_, long_roots_, padded_);
  }
  static Complex *room(Context &context, std::int64_t length) {
    return static_cast<Complex *>(context.unfilled_scratch(static_cast<std::uint64_t>(length) * sizeof(Complex)));
  }
  // Unscaled; `data` has `length` entries.
  void run(Complex *data) const {
    if (!stopped_) run(data, work_, length_);
  }

 private:
  static constexpr std::int64_t kSmallFactor = 31, kLongSum = 64;

  static Complex root(std::int64_t k, std::int64_t length, bool inverse) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(length);
    return {real::cos(angle), inverse ? real::sin(angle) : -real::sin(angle)};
  }
  // 1: no small one, or nothing is left to be split.
  static std::int64_t least_factor(std::int64_t n) {
    for (std::int64_t factor = 2; factor <= kSmallFactor && factor < n; ++factor)
      if (n % factor == 0) return factor;
    return 1;
  }
  void split_by_two(Complex *data, Complex *work, std::int64_t n, const Complex *roots, std::int64_t length) const {
    if (n == 1 || poll_.stopped(n)) return;
    if (n == 2) {
      const Complex first = data[0];
      data[0] = first + data[1], data[1] = first - data[1];
      return;
    }
    const std::int64_t half = n / 2, turn = length / n;
    for (std::int64_t i = 0; i < half && !poll_.stopped(1); ++i) {
      work[i] = data[2 * i];
      work[half + i] = data[2 * i + 1];
    }
    split_by_two(work, data, half, roots, length);
    split_by_two(work + half, data + half, half, roots, length);
    for (std::int64_t k = 0; k < half && !poll_.stopped(1); ++k) {
      const Complex odd = work[half + k] * roots[k * turn];
      data[k] = work[k] + odd;
      data[half + k] = work[k] - odd;
    }
  }

  void run(Complex *data, Complex *work, std::int64_t n) const {
    if (poll_.stopped(n)) return;
    const std::int64_t turn = length_ / n;  // root k of this length is roots_[k * turn]
    if ((n & (n - 1)) == 0) return split_by_two(data, work, n, roots_, length_);
    const std::int64_t factor = least_factor(n);
    if (factor == 1) {
      if (n == core_) return convolve(data);
      for (std::int64_t k = 0; k < n; ++k) {
        Complex sum = {0, 0};
        std::int64_t phase = 0;  // j * k modulo n
        for (std::int64_t j = 0; j < n; ++j) {
          sum = sum + data[j] * roots_[phase * turn];
          phase += k;
          if (phase >= n) phase -= n;
        }
        work[k] = sum;
      }
      std::copy_n(work, n, data);
      return;
    }
    const std::int64_t part = n / factor;
    for (std::int64_t f = 0; f < factor; ++f)
      for (std::int64_t i = 0; i < part && !poll_.stopped(1); ++i) work[f * part + i] = data[i * factor + f];
    for (std::int64_t f = 0; f < factor; ++f) run(work + f * part, data + f * part, part);
    for (std::int64_t k = 0; k < part && !poll_.stopped(factor); ++k) {
      for (std::int64_t f = 1; f < factor; ++f) work[f * part + k] = work[f * part + k] * roots_[f * k * turn];
      for (std::int64_t out = 0; out < factor; ++out) {
        Complex sum = work[k];
        std::int64_t phase = 0;  // f * out modulo factor
        for (std::int64_t f = 1; f < factor; ++f) {
          phase += out;
          if (phase >= factor) phase -= factor;
          sum = sum + work[f * part + k] * roots_[phase * part * turn];
        }
        data[out * part + k] = sum;
      }
    }
  }

  // j * k = (j * j + k * k - (k - j) * (k - j)) / 2: of what the data and the chirp come to, a convolution with its
  // inverse is the transform but for the chirp.
  void convolve(Complex *data) const {
    for (std::int64_t i = 0; i < core_ && !poll_.stopped(1); ++i) row_[i] = data[i] * chirp_[i];
    for (std::int64_t i = core_; i < padded_ && !poll_.stopped(1); ++i) row_[i] = {0, 0};
    split_by_two(row_, row_work_, padded_, long_roots_, padded_);
    for (std::int64_t i = 0; i < padded_ && !poll_.stopped(1); ++i) {  // back: forwards with the parts exchanged
      const Complex value = row_[i] * filter_[i];
      row_[i] = {value.im, value.re};
    }
    split_by_two(row_, row_work_, padded_, long_roots_, padded_);
    for (std::int64_t i = 0; i < core_ && !poll_.stopped(1); ++i) data[i] = Complex{row_[i].im, row_[i].re} * chirp_[i];
  }

  mutable Poll poll_;
  bool stopped_ = false;  // before there was all room
  std::int64_t length_, core_ = 0, padded_ = 0;
  Complex *roots_, *work_;
  Complex *long_roots_ = nullptr, *chirp_ = nullptr, *filter_ = nullptr, *row_ = nullptr, *row_work_ = nullptr;
};

// How many of a transform's values are kept: with `onesided` only those that the rest follow from.
std::int64_t kept_bins(std::int64_t length, bool onesided) { return onesided ? length / 2 + 1 : length; }

Status length_error(const Context &context, const char *what, std::int64_t found) {
  return qir::node_error(context.node(), ErrorId::run_value, "found %s %lld, expected 1 or more", what, found);
}

// sum of a * cos(...) terms, for size positions of one period, or for a period that ends on the last position.
Status window(Context &context, double a0, double a1, double a2) {
  std::int64_t size;
  QR_RETURN_IF_ERROR(read_integer(context, 0, 0, &size));
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, &size, 1, &out));
  const bool periodic = context.node().get_int("periodic", 1) != 0;
  const double period = static_cast<double>(periodic ? size : std::max<std::int64_t>(size - 1, 1));
  const bool known = dispatch_number(out->dtype, [&](auto tag) {
    using T = decltype(tag);
    // The second half is the first one backwards.
    const std::int64_t mirror = periodic ? size : size - 1;
    Poll poll(context);
    for (std::int64_t i = 0; i <= mirror / 2 && i < size && !poll.stopped(16); ++i) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
      const double value = a0 - a1 * real::cos(angle) + (a2 == 0 ? 0 : a2 * real::cos(2 * angle));
      out->as<T>()[i] = cast_to<T>(value);
      if (mirror - i < size) out->as<T>()[mirror - i] = out->as<T>()[i];
    }
  });
  return known ? Status() : type_error(context, out->dtype);
}

}  // namespace

Status kernel_dft(Context &context) {
  const View &in = *context.input(0);
  const bool inverse = context.node().get_int("inverse", 0) != 0, onesided = context.node().get_int("onesided", 0) != 0;
  std::int64_t axis_given, length;
  std::size_t axis;
  QR_RETURN_IF_ERROR(read_integer(context, 2, -2, &axis_given));
  QR_RETURN_IF_ERROR(qir::resolve_axis(context.node(), axis_given, in.rank, &axis));
  if (in.rank < 2 || axis + 1 == in.rank || in.dims[in.rank - 1] < 1 || in.dims[in.rank - 1] > 2) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "found axis %lld of %s, expected a signal axis and a last dimension of 1 or 2", axis_given,
                           shape_text(in.dims, in.rank));
  }
  const std::int64_t parts = in.dims[in.rank - 1];
  const bool to_real = inverse && onesided;
  QR_RETURN_IF_ERROR(read_integer(context, 1, to_real ? 2 * (in.dims[axis] - 1) : in.dims[axis], &length));
  if (length < 1) return length_error(context, "length", length);
  std::int64_t dims[kMaxRank];
  std::copy_n(in.dims, in.rank, dims);
  dims[axis] = to_real ? length : kept_bins(length, onesided);
  dims[in.rank - 1] = to_real ? 1 : 2;
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, in.rank, &out));
  if (out->count == 0) return {};

  const std::int64_t outer = product(in.dims, 0, axis), inner = product(in.dims, axis + 1, in.rank - 1);
  const std::int64_t used = std::min(in.dims[axis], to_real ? kept_bins(length, true) : length);
  const Fourier fourier(context, length, inverse);
  Complex *row = Fourier::room(context, length);
  const double scale = inverse ? 1 / static_cast<double>(length) : 1;
  const bool known = dispatch<float, double>(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t o = 0; o < outer && !context.stopped(); ++o) {
      for (std::int64_t j = 0; j < inner && !context.stopped(); ++j) {
        Poll poll(context);
        for (std::int64_t i = used; i < length && !poll.stopped(1); ++i) row[i] = {0, 0};
        for (std::int64_t i = 0; i < used && !poll.stopped(1); ++i) {
          const T *value = in.as<const T>() + ((o * in.dims[axis] + i) * inner + j) * parts;
          row[i] = {static_cast<double>(value[0]), parts == 2 ? static_cast<double>(value[1]) : 0.0};
          // The other half of a real signal's spectrum mirrors the first; the middle and the start are real.
          if (to_real && i > 0 && length - i > i) row[length - i] = {row[i].re, -row[i].im};
          if (to_real && (i == 0 || 2 * i == length)) row[i].im = 0;
        }
        fourier.run(row);
        for (std::int64_t i = 0; i < dims[axis] && !poll.stopped(1); ++i) {
          T *to = out->as<T>() + ((o * dims[axis] + i) * inner + j) * dims[in.rank - 1];
          to[0] = static_cast<T>(row[i].re * scale);
          if (!to_real) to[1] = static_cast<T>(row[i].im * scale);
        }
      }
    }
  });
  return known ? Status() : type_error(context, in.dtype);
}

Status kernel_stft(Context &context) {
  const View &in = *context.input(0);  // [batch, time] or [batch, time, 1 or 2]
  const View *shape = context.input(2);
  const bool onesided = context.node().get_int("onesided", 1) != 0;
  const std::int64_t parts = in.rank == 3 ? in.dims[2] : 1;
  if ((in.rank != 3 && in.rank != 2) || parts < 1 || parts > 2 || (shape && shape->rank != 1)) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "found signal %s, expected [batch,length] or [batch,length,1 or 2]",
                           shape_text(in.dims, in.rank));
  }
  const std::int64_t batch = in.dims[0], time = in.dims[1];
  std::int64_t step, length;
  QR_RETURN_IF_ERROR(read_integer(context, 1, 0, &step));
  QR_RETURN_IF_ERROR(read_integer(context, 3, shape ? shape->count : time, &length));
  if (step < 1) return length_error(context, "frame step", step);
  if (length < 1) return length_error(context, "frame length", length);
  if (length > time || (shape && shape->count != length)) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "found frame length %lld and window length %lld, expected the same and at most %lld", length,
                           shape ? shape->count : 0, time);
  }
  const std::int64_t frames = (time - length) / step + 1, bins = kept_bins(length, onesided);
  const std::int64_t dims[] = {batch, frames, bins, 2};
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, 4, &out));
  if (out->count == 0) return {};
  const Fourier fourier(context, length, false);
  Complex *row = Fourier::room(context, length);
  const bool known = dispatch<float, double>(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    T *to = out->as<T>();
    for (std::int64_t frame = 0; frame < batch * frames && !context.stopped(); ++frame) {
      const T *from = in.as<const T>() + (frame / frames * time + frame % frames * step) * parts;
      for (std::int64_t i = 0; i < length; ++i) {
        const double weight = shape ? static_cast<double>(shape->as<const T>()[i]) : 1.0;
        row[i] = {static_cast<double>(from[i * parts]) * weight,
                  parts == 2 ? static_cast<double>(from[i * parts + 1]) * weight : 0.0};
      }
      fourier.run(row);
      for (std::int64_t k = 0; k < bins; ++k) {
        *to++ = static_cast<T>(row[k].re);
        *to++ = static_cast<T>(row[k].im);
      }
    }
  });
  return known ? Status() : type_error(context, in.dtype);
}

Status kernel_hann_window(Context &context) { return window(context, 0.5, 0.5, 0); }
Status kernel_hamming_window(Context &context) { return window(context, 25.0 / 46, 21.0 / 46, 0); }
Status kernel_blackman_window(Context &context) { return window(context, 0.42, 0.5, 0.08); }

Status kernel_mel_weight_matrix(Context &context) {
  std::int64_t bands, length, rate;
  QR_RETURN_IF_ERROR(read_integer(context, 0, 0, &bands));
  QR_RETURN_IF_ERROR(read_integer(context, 1, 0, &length));
  QR_RETURN_IF_ERROR(read_integer(context, 2, 0, &rate));
  double edge[2] = {};
  for (std::uint32_t i = 0; i < 2; ++i) {
    const View &view = *context.input(3 + i);
    const bool known = view.count == 1 && dispatch<float, double>(view.dtype, [&](auto tag) {
                         edge[i] = static_cast<double>(view.as<decltype(tag)>()[0]);
                       });
    if (!known) return type_error(context, view.dtype);
  }
  if (bands < 0 || length < 0 || rate < 1 || !(edge[0] >= 0 && edge[0] <= edge[1] && edge[1] < 1e12)) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "found %lld bands of %lld points at %lld Hz from %g to %g Hz", bands, length, rate, edge[0],
                           edge[1]);
  }
  const std::int64_t bins = length / 2 + 1, dims[] = {bins, bands};
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, 2, &out));
  if (out->count == 0) return {};
  const std::uint64_t zero = 0;
  fill(context, *out, &zero);
  const auto mel = [](double hertz) { return 2595 * real::log10(1 + hertz / 700); };
  const double low = mel(edge[0]), step = (mel(edge[1]) - low) / static_cast<double>(bands + 2);
  // The spectrum bin of edge i; band b rises from edge b to b + 1 and falls to b + 2.
  const auto bin_of = [&](std::int64_t i) {
    const double hertz = 700 * (real::pow(10, (low + static_cast<double>(i) * step) / 2595) - 1);
    return static_cast<std::int64_t>(
        std::min(std::floor((static_cast<double>(length) + 1) * hertz / static_cast<double>(rate)), 1e18));
  };
  if (bin_of(bands) >= bins) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "found an upper edge of %g Hz, expected at most half of %lld Hz", edge[1], rate);
  }
  const bool known = dispatch_number(out->dtype, [&](auto tag) {
    using T = decltype(tag);
    std::int64_t left, center = bin_of(0), right = bin_of(1);
    Poll poll(context);
    for (std::int64_t band = 0; band < bands; ++band) {
      left = center, center = right, right = bin_of(band + 2);
      const auto put = [&](std::int64_t bin, double value) {
        if (bin < bins) out->as<T>()[bin * bands + band] = cast_to<T>(value);
      };
      if (left == center) put(center, 1);
      for (std::int64_t bin = left; left < center && bin <= center && !poll.stopped(4); ++bin)
        put(bin, static_cast<double>(bin - left) / static_cast<double>(center - left));
      for (std::int64_t bin = center; bin < std::min(right, bins) && !poll.stopped(4); ++bin)
        put(bin, static_cast<double>(right - bin) / static_cast<double>(right - center));
    }
  });
  return known ? Status() : type_error(context, out->dtype);
}

}  // namespace quarry::reference
