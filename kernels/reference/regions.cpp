// SPDX-License-Identifier: Apache-2.0
// Operators of detectors: regions of interest, boxes, and the inverse of max pooling.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {

using qir::kMaxRank;

namespace {

// The four pixels around a point, with weights; weights are 0 where the point is off the image.
struct Corners {
  std::int64_t pixel[4] = {};
  double weight[4] = {};
};

Corners corners_of(double y, double x, std::int64_t height, std::int64_t width) {
  if (!(y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width))) return {};
  const auto clamp = [](double *at, std::int64_t extent, std::int64_t *low, std::int64_t *high) {
    *at = std::max(*at, 0.0);
    *low = static_cast<std::int64_t>(*at);
    if (*low >= extent - 1) {
      *low = *high = extent - 1;
      *at = static_cast<double>(*low);
    } else {
      *high = *low + 1;
    }
    *at -= static_cast<double>(*low);
  };
  std::int64_t top, bottom, left, right;
  clamp(&y, height, &top, &bottom);
  clamp(&x, width, &left, &right);
  return {{top * width + left, top * width + right, bottom * width + left, bottom * width + right},
          {(1 - y) * (1 - x), (1 - y) * x, y * (1 - x), y * x}};
}

// Sorted corners of a box.
struct Box {
  float y1, x1, y2, x2;
  Box(const float *data, bool center_point) {
    if (center_point) {  // x center, y center, width, height
      x1 = data[0] - data[2] / 2, x2 = data[0] + data[2] / 2;
      y1 = data[1] - data[3] / 2, y2 = data[1] + data[3] / 2;
    } else {  // any two opposite corners, y first
      y1 = std::min(data[0], data[2]), y2 = std::max(data[0], data[2]);
      x1 = std::min(data[1], data[3]), x2 = std::max(data[1], data[3]);
    }
  }
  float area() const { return (x2 - x1) * (y2 - y1); }
};

// The boxes that were kept, corner by corner.
struct Kept {
  float *y1, *x1, *y2, *x2, *area;
  std::int64_t count = 0;

  void add(const Box &box) {
    y1[count] = box.y1, x1[count] = box.x1, y2[count] = box.y2, x2[count] = box.x2, area[count] = box.area();
    ++count;
  }
  // Whether one of them overlaps `a` too much. Some at a time, without branches.
  bool overlap(const Box &a, float threshold) const {
    constexpr std::int64_t kBlock = 32;
    const float area_a = a.area();
    if (!(area_a > 0)) return false;
    for (std::int64_t i = 0; i < count; i += kBlock) {
      std::uint32_t found = 0;
      for (std::int64_t j = i, end = std::min(count, i + kBlock); j < end; ++j) {
        const float width = std::min(a.x2, x2[j]) - std::max(a.x1, x1[j]),
                    height = std::min(a.y2, y2[j]) - std::max(a.y1, y1[j]);
        const float common = width * height, all = area_a + area[j] - common;
        found |= static_cast<std::uint32_t>((width > 0) & (height > 0) & (area[j] > 0) & (all > 0) &
                                            (common / all > threshold));
      }
      if (found) return true;
    }
    return false;
  }
};

// Greater ones are better; NaN is the worst, and of equal scores the first is best.
std::uint64_t rank_of(float score, std::int64_t at) {
  std::uint32_t key = 0;
  if (score == score) {
    const auto bits = std::bit_cast<std::uint32_t>(score + 0.0f);  // -0 is 0
    key = bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  return static_cast<std::uint64_t>(key) << 32 | (0xffffffffu - static_cast<std::uint32_t>(at));
}

Status read_float(const Context &context, std::uint32_t input, float *out) {
  const View *view = context.input(input);
  if (!view || view->count == 0) return {};
  if (view->count != 1 || view->dtype != DType::F32) {
    return qir::node_error(context.node(), ErrorId::run_value, "input %u is %s %s, expected one f32", input,
                           dtype_name(view->dtype), shape_text(view->dims, view->rank));
  }
  *out = view->as<const float>()[0];
  return {};
}

}  // namespace

Status kernel_roi_align(Context &context) {
  const View &in = *context.input(0), &rois = *context.input(1), &batches = *context.input(2);
  View &out = *context.output(0);
  const qir::Node &node = context.node();
  const std::int64_t channels = in.dims[1], height = in.dims[2], width = in.dims[3];
  const std::int64_t rows = node.get_int("output_height", 1), columns = node.get_int("output_width", 1);
  const std::int64_t ratio = node.get_int("sampling_ratio", 0);
  const double scale = node.get_float("spatial_scale", 1.0F);
  const bool half_pixel = node.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  const bool average = node.get_string("mode", "avg") == "avg";
  if (batches.count * 4 != rois.count || out.count != batches.count * channels * rows * columns) {
    return qir::node_error(node, ErrorId::run_value,
                           "rois are %s with %lld batch indices, expected 4 numbers per index",
                           shape_text(rois.dims, rois.rank), batches.count);
  }
  if (out.count == 0) return {};
  Status status;
  Poll poll(context);
  const bool known = dispatch<float, double>(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    for (std::int64_t r = 0; r < batches.count; ++r) {
      const std::int64_t batch = integer_at(batches, r);
      double edge[4];  // x1, y1, x2, y2
      for (int i = 0; i < 4; ++i)
        edge[i] = static_cast<double>(rois.as<const T>()[4 * r + i]) * scale - (half_pixel ? 0.5 : 0.0);
      double roi_width = edge[2] - edge[0], roi_height = edge[3] - edge[1];
      if (!half_pixel) roi_width = std::max(roi_width, 1.0), roi_height = std::max(roi_height, 1.0);
      const double bin_height = roi_height / static_cast<double>(rows),
                   bin_width = roi_width / static_cast<double>(columns);
      if (batch < 0 || batch >= in.dims[0] || !(std::fabs(bin_height) < 1e6 && std::fabs(bin_width) < 1e6)) {
        status = qir::node_error(node, ErrorId::run_value,
                                 "found region %lld of image %lld, [%g, %g, %g, %g], expected image 0 to %lld and a "
                                 "region of sensible size",
                                 r, batch, edge[0], edge[1], edge[2], edge[3], in.dims[0] - 1);
        return;
      }
      const std::int64_t grid_height = ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(bin_height));
      const std::int64_t grid_width = ratio > 0 ? ratio : static_cast<std::int64_t>(std::ceil(bin_width));
      const double points = std::max(static_cast<double>(grid_height) * static_cast<double>(grid_width), 1.0);
      for (std::int64_t bin = 0; bin < rows * columns; ++bin) {
        if (poll.stopped(16)) return;
        const double top = edge[1] + static_cast<double>(bin / columns) * bin_height;
        const double left = edge[0] + static_cast<double>(bin % columns) * bin_width;
        for (std::int64_t c = 0; c < channels; ++c) {
          const T *image = in.as<const T>() + (batch * channels + c) * height * width;
          double result = average ? 0 : -std::numeric_limits<double>::infinity();
          for (std::int64_t i = 0; i < grid_height; ++i) {
            const double y = top + (static_cast<double>(i) + 0.5) * bin_height / static_cast<double>(grid_height);
            for (std::int64_t j = 0; j < grid_width; ++j) {
              if (poll.stopped(16)) return;
              const double x = left + (static_cast<double>(j) + 0.5) * bin_width / static_cast<double>(grid_width);
              const Corners corners = in.count > 0 ? corners_of(y, x, height, width) : Corners();
              for (int k = 0; k < 4; ++k) {
                const double value =
                    corners.weight[k] == 0 ? 0 : corners.weight[k] * static_cast<double>(image[corners.pixel[k]]);
                result = average ? result + value
                                 : std::max(result, value);  // max is of the weighted corners, as ONNX has it
              }
            }
          }
          if (average) result /= points;
          else if (grid_height <= 0 || grid_width <= 0) result = 0;
          out.as<T>()[(r * channels + c) * rows * columns + bin] = static_cast<T>(result);
        }
      }
    }
  });
  return known ? std::move(status) : type_error(context, in.dtype);
}

Status kernel_max_roi_pool(Context &context) {
  const View &in = *context.input(0), &rois = *context.input(1);
  View &out = *context.output(0);
  const qir::Node &node = context.node();
  const Vector<std::int64_t> &shape = *node.get_ints("pooled_shape");
  const std::int64_t channels = in.dims[1], height = in.dims[2], width = in.dims[3], rows = shape[0],
                     columns = shape[1];
  const std::int64_t count = rois.count / 5;
  const double scale = node.get_float("spatial_scale", 1.0F);
  if (out.count != count * channels * rows * columns) {
    return qir::node_error(node, ErrorId::run_value, "rois are %s for output %s", shape_text(rois.dims, rois.rank),
                           shape_text(out.dims, out.rank));
  }
  if (out.count == 0) return {};
  Status status;
  // Where the bins of a region begin and end, and the rows of a row of bins joined.
  struct Span {
    std::int64_t begin, end;
  };
  auto *const spans = static_cast<Span *>(context.scratch(static_cast<std::uint64_t>(rows + columns) * sizeof(Span)));
  void *const joined = context.scratch(static_cast<std::uint64_t>(width) * in.width);
  const bool known = dispatch<float, double>(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    // NaN is more than any number.
    const auto more = [](T a, T b) { return (a > b) | (a != a) ? a : b; };
    for (std::int64_t r = 0; r < count && !context.stopped(); ++r) {
      const T *roi = rois.as<const T>() + 5 * r;  // batch, x1, y1, x2, y2
      double edge[4];
      bool sensible = roi[0] >= 0 && roi[0] < static_cast<T>(in.dims[0]);
      for (int i = 0; i < 4; ++i) {
        edge[i] = std::round(static_cast<double>(roi[1 + i]) * scale);
        sensible &= std::fabs(edge[i]) < 1e9;
      }
      if (!sensible) {
        status =
            qir::node_error(node, ErrorId::run_value,
                            "found region %lld of image %g, expected image 0 to %lld and a region of sensible size", r,
                            static_cast<double>(roi[0]), in.dims[0] - 1);
        return;
      }
      const double region_height = std::max(edge[3] - edge[1] + 1, 1.0),
                   region_width = std::max(edge[2] - edge[0] + 1, 1.0);
      const auto bound = [](double at, double start, std::int64_t extent) {
        return std::clamp<std::int64_t>(static_cast<std::int64_t>(at + start), 0, extent);
      };
      // Of whole numbers, divided last: a seventh of 29 times 7 is more than 29.
      const auto fill_spans = [&](Span *to, std::int64_t bins, double size, double start, std::int64_t extent) {
        const auto parts = static_cast<double>(bins);
        for (std::int64_t i = 0; i < bins; ++i)
          to[i] = {bound(std::floor(static_cast<double>(i) * size / parts), start, extent),
                   bound(std::ceil(static_cast<double>(i + 1) * size / parts), start, extent)};
      };
      Span *const across = spans + rows;
      fill_spans(spans, rows, region_height, edge[1], height);
      fill_spans(across, columns, region_width, edge[0], width);
      const std::int64_t left = across[0].begin, right = std::max(left, across[columns - 1].end);
      T *const greatest = static_cast<T *>(joined), *to = out.as<T>() + r * channels * rows * columns;
      for (std::int64_t c = 0; c < channels; ++c) {
        const T *image = in.as<const T>() + (static_cast<std::int64_t>(roi[0]) * channels + c) * height * width;
        for (std::int64_t row = 0; row < rows; ++row) {
          const auto [top, bottom] = spans[row];
          if (top < bottom) std::copy(image + top * width + left, image + top * width + right, greatest + left);
          for (std::int64_t y = top + 1; y < bottom; ++y) {
            const T *const next = image + y * width;
            for (std::int64_t x = left; x < right; ++x) greatest[x] = more(next[x], greatest[x]);
          }
          for (std::int64_t column = 0; column < columns; ++column) {
            const auto [begin, end] = across[column];
            T best = 0;  // of an empty bin
            if (top < bottom && begin < end) best = greatest[begin];
            for (std::int64_t x = begin + 1; top < bottom && x < end; ++x) best = more(greatest[x], best);
            *to++ = best;
          }
        }
      }
    }
  });
  return known ? std::move(status) : type_error(context, in.dtype);
}

Status kernel_non_max_suppression(Context &context) {
  const View &boxes = *context.input(0);   // [batch, box, 4]
  const View &scores = *context.input(1);  // [batch, class, box]
  const bool center_point = context.node().get_int("center_point_box", 0) != 0;
  std::int64_t limit = 0;
  float iou_threshold = 0, score_threshold = 0;
  const View *limit_view = context.input(2), *score_view = context.input(4);
  if (limit_view && limit_view->count > 0) QR_RETURN_IF_ERROR(read_integer(context, 2, 0, &limit));
  QR_RETURN_IF_ERROR(read_float(context, 3, &iou_threshold));
  QR_RETURN_IF_ERROR(read_float(context, 4, &score_threshold));
  const bool use_scores = score_view && score_view->count > 0;
  const std::int64_t batches = scores.dims[0], classes = scores.dims[1], count = scores.dims[2];
  if (boxes.count != batches * count * 4) {
    return qir::node_error(context.node(), ErrorId::run_value, "boxes are %s for scores %s",
                           shape_text(boxes.dims, boxes.rank), shape_text(scores.dims, scores.rank));
  }
  if (count > UINT32_MAX) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %lld boxes, expected at most 4294967295", count);
  }
  auto *const ranks =
      static_cast<std::uint64_t *>(context.scratch(static_cast<std::uint64_t>(count) * sizeof(std::uint64_t)));
  const std::int64_t most = std::clamp<std::int64_t>(limit, 0, count);
  auto *const room = static_cast<float *>(context.scratch(static_cast<std::uint64_t>(most) * 5 * sizeof(float)));
  Vector<std::int64_t> selected;  // batch, class, box
  Poll poll(context);
  for (std::int64_t row = 0; limit > 0 && row < batches * classes && !context.stopped(); ++row) {
    const std::int64_t batch = row / classes;
    const float *score = scores.as<const float>() + row * count;
    const float *box = boxes.as<const float>() + batch * count * 4;
    std::int64_t candidates = 0;
    for (std::int64_t i = 0; i < count; ++i)
      if (!use_scores || score[i] > score_threshold) ranks[candidates++] = rank_of(score[i], i);
    std::make_heap(ranks, ranks + candidates);  // few of them are looked at
    Kept kept{room, room + most, room + 2 * most, room + 3 * most, room + 4 * most};
    for (; candidates > 0 && kept.count < most && !poll.stopped(16 + kept.count); --candidates) {
      const auto at = static_cast<std::int64_t>(0xffffffffu - static_cast<std::uint32_t>(ranks[0]));
      std::pop_heap(ranks, ranks + candidates);
      const Box next(box + 4 * at, center_point);
      if (kept.overlap(next, iou_threshold)) continue;
      kept.add(next);
      selected.insert(selected.end(), {batch, row % classes, at});
    }
  }
  const std::int64_t dims[] = {static_cast<std::int64_t>(selected.size() / 3), 3};
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, 2, &out));
  std::copy(selected.begin(), selected.end(), out->as<std::int64_t>());
  return {};
}

Status kernel_max_unpool(Context &context) {
  const View &in = *context.input(0), &indices = *context.input(1);
  qir::Window window;
  QR_RETURN_IF_ERROR(qir::resolve_unpool(context.node(), dims_of(in), &window));
  // Indices count elements of the tensor that was pooled; output_shape may ask for a larger one around it.
  std::int64_t pooled[kMaxRank] = {in.dims[0], in.dims[1]}, dims[kMaxRank];
  std::copy_n(window.out, window.rank, pooled + 2);
  std::copy_n(pooled, in.rank, dims);
  qir::IntList shape;
  QR_RETURN_IF_ERROR(read_list(context, 2, &shape));
  if (context.input(2)) std::copy_n(shape.values, std::min(shape.size, in.rank), dims);
  bool fits = indices.count == in.count && (!context.input(2) || shape.size == in.rank);
  for (std::uint32_t i = 0; i < in.rank; ++i) fits &= dims[i] >= pooled[i];
  if (!fits) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "input %s with indices %s unpools to %s, which does not fit %s",
                           shape_text(in.dims, in.rank), shape_text(indices.dims, indices.rank),
                           shape_text(pooled, in.rank), shape_text(dims, in.rank));
  }
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, in.rank, &out));
  if (out->count == 0) return {};
  const std::uint64_t zero = 0;
  fill(context, *out, &zero);
  std::int64_t strides[kMaxRank];
  dense_strides(dims, in.rank, strides);
  const std::int64_t total = product(pooled, 0, in.rank);
  const bool same_positions = std::equal(pooled, pooled + in.rank, dims);
  const auto *const at = indices.as<const std::int64_t>();
  const auto move = [&](auto unit) -> Status {
    const auto *const from = in.as<const decltype(unit)>();
    auto *const out_data = out->as<decltype(unit)>();
    for (std::int64_t i = 0; i < in.count; ++i) {
      std::int64_t rest = at[i], to = 0;
      if (rest < 0 || rest >= total) {
        return qir::node_error(context.node(), ErrorId::run_value, "found index %lld, expected 0 to %lld", rest,
                               total - 1);
      }
      if (same_positions) {
        to = rest;
      } else {
        for (std::uint32_t axis = in.rank; axis-- > 0; rest /= pooled[axis]) to += rest % pooled[axis] * strides[axis];
      }
      out_data[to] = from[i];
    }
    return {};
  };
  switch (in.width) {
    case 1: return move(std::uint8_t{});
    case 2: return move(std::uint16_t{});
    case 4: return move(std::uint32_t{});
    case 8: return move(std::uint64_t{});
    default: return type_error(context, in.dtype);
  }
}

}  // namespace quarry::reference
