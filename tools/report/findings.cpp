// SPDX-License-Identifier: Apache-2.0
#include "tools/report/findings.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>

#include "tools/console/command.h"
#include "tools/console/usage.h"
#include "tools/input/tensor_file.h"

namespace tools {
namespace {

struct Output {
  std::string name;
  std::vector<int64_t> dims;
  qr_dtype dtype = QR_DTYPE_UNKNOWN;
  const qr::Tensor *tensor = nullptr;

  bool real() const {
    return dtype == QR_DTYPE_F32 || dtype == QR_DTYPE_F16 || dtype == QR_DTYPE_BF16 || dtype == QR_DTYPE_F64;
  }
  std::vector<double> values() const { return to_doubles(dtype, tensor->bytes(), element_count(dims)); }
};

struct Seen {
  std::vector<Output> outputs;
  int64_t width = 0, height = 0;  // of the input

  const Output *named(const std::string &name) const {
    const auto at = std::find_if(outputs.begin(), outputs.end(), [&](const Output &o) { return o.name == name; });
    return at == outputs.end() ? nullptr : &*at;
  }
  // Cells of the grids that most detectors have, one beneath the other.
  int64_t cells() const {
    int64_t sum = 0;
    for (const int64_t stride : {8, 16, 32}) sum += (width / stride) * (height / stride);
    return sum;
  }
};

// The kind with the best score, which begins at `first` and has the next `step` elements on.
struct Best {
  int64_t kind = 0;
  double score = 0;
};
Best best(const double *first, int64_t kinds, int64_t step = 1) {
  Best out{0, first[0]};
  for (int64_t k = 1; k < kinds; ++k)
    if (first[k * step] > out.score) out = {k, first[k * step]};
  return out;
}

Box centred(double x, double y, double w, double h, const Best &is) {
  return {x - w / 2, y - h / 2, x + w / 2, y + h / 2, is.score, is.kind, {}};
}

// For each cell of the grids of strides 8, 16 and 32: body(number, column, row, stride).
template <class Body>
void each_cell(const Seen &seen, Body body) {
  int64_t number = 0;
  for (const int64_t stride : {8, 16, 32})
    for (int64_t y = 0; y < seen.height / stride; ++y)
      for (int64_t x = 0; x < seen.width / stride; ++x) body(number++, x, y, stride);
}

// A cell's box in units of its stride, from its corner; the size as exponents.
Box of_cell(const double *at, int64_t x, int64_t y, int64_t stride, const Best &is) {
  const auto s = static_cast<double>(stride);
  return centred((at[0] + static_cast<double>(x)) * s, (at[1] + static_cast<double>(y)) * s, std::exp(at[2]) * s,
                 std::exp(at[3]) * s, is);
}

bool is_table(const Output &o, int64_t rows) {
  return o.real() && o.dims.size() == 3 && o.dims[0] == 1 && o.dims[1] == rows && o.dims[2] > 5;
}

bool fits_yolox(const Seen &seen) { return seen.outputs.size() == 1 && is_table(seen.outputs[0], seen.cells()); }
Findings read_yolox(const Seen &seen, double least) {
  const std::vector<double> values = seen.outputs[0].values();
  const int64_t columns = seen.outputs[0].dims[2];
  Findings out;
  out.kinds = columns - 5;
  each_cell(seen, [&](int64_t number, int64_t x, int64_t y, int64_t stride) {
    const double *row = values.data() + number * columns;
    Best is = best(row + 5, out.kinds);
    is.score *= row[4];
    if (is.score >= least) out.boxes.push_back(of_cell(row, x, y, stride, is));
  });
  return out;
}

bool fits_yolov5(const Seen &seen) { return !seen.outputs.empty() && is_table(seen.outputs[0], 3 * seen.cells()); }
Findings read_yolov5(const Seen &seen, double least) {
  const std::vector<double> values = seen.outputs[0].values();
  const int64_t columns = seen.outputs[0].dims[2];
  Findings out;
  out.kinds = columns - 5;
  for (const double *row = values.data(), *end = row + values.size(); row != end; row += columns) {
    Best is = best(row + 5, out.kinds);
    is.score *= row[4];
    if (is.score >= least) out.boxes.push_back(centred(row[0], row[1], row[2], row[3], is));
  }
  return out;
}

bool fits_yolov8(const Seen &seen) {
  if (seen.outputs.size() != 1) return false;
  const Output &o = seen.outputs[0];
  return o.real() && o.dims.size() == 3 && o.dims[0] == 1 && o.dims[1] > 4 && o.dims[2] == seen.cells();
}
Findings read_yolov8(const Seen &seen, double least) {
  const std::vector<double> values = seen.outputs[0].values();
  const int64_t n = seen.outputs[0].dims[2];
  Findings out;
  out.kinds = seen.outputs[0].dims[1] - 4;
  for (int64_t i = 0; i < n; ++i) {
    const double *at = values.data() + i;
    const Best is = best(at + 4 * n, out.kinds, n);
    if (is.score >= least) out.boxes.push_back(centred(at[0], at[n], at[2 * n], at[3 * n], is));
  }
  return out;
}

bool fits_yunet(const Seen &seen) {
  for (const int64_t stride : {8, 16, 32})
    for (const auto &[name, columns] : {std::pair("cls_", 1), std::pair("obj_", 1), std::pair("bbox_", 4)}) {
      const Output *o = seen.named(name + std::to_string(stride));
      if (!o || !o->real() || element_count(o->dims) != (seen.width / stride) * (seen.height / stride) * columns)
        return false;
    }
  return true;
}
Findings read_yunet(const Seen &seen, double least) {
  Findings out;
  out.kinds = 1;
  std::vector<double> cls, obj, box;
  for (const int64_t stride : {8, 16, 32})
    for (const auto &[name, to] : {std::pair("cls_", &cls), std::pair("obj_", &obj), std::pair("bbox_", &box)}) {
      const std::vector<double> part = seen.named(name + std::to_string(stride))->values();
      to->insert(to->end(), part.begin(), part.end());
    }
  each_cell(seen, [&](int64_t number, int64_t x, int64_t y, int64_t stride) {
    const auto i = static_cast<size_t>(number);
    const double score = std::sqrt(std::clamp(cls[i], 0.0, 1.0) * std::clamp(obj[i], 0.0, 1.0));
    if (score >= least) out.boxes.push_back(of_cell(&box[4 * i], x, y, stride, {0, score}));
  });
  return out;
}

// Corners as parts of the input's size, and a row of scores for each box, the first for "nothing".
const Output *ssd_boxes(const Seen &seen) {
  const auto at = std::find_if(seen.outputs.begin(), seen.outputs.end(), [](const Output &o) {
    return o.real() && o.dims.size() == 3 && o.dims[0] == 1 && o.dims[2] == 4 &&
           o.name.find("box") != std::string::npos;
  });
  return at == seen.outputs.end() ? nullptr : &*at;
}
const Output *ssd_scores(const Seen &seen) {
  const Output *boxes = ssd_boxes(seen);
  const auto at = std::find_if(seen.outputs.begin(), seen.outputs.end(), [&](const Output &o) {
    return boxes && &o != boxes && o.real() && o.dims.size() == 3 && o.dims[0] == 1 && o.dims[1] == boxes->dims[1] &&
           o.dims[2] > 1;
  });
  return at == seen.outputs.end() ? nullptr : &*at;
}
bool fits_ssd(const Seen &seen) { return seen.outputs.size() == 2 && ssd_scores(seen); }
Findings read_ssd(const Seen &seen, double least) {
  const std::vector<double> boxes = ssd_boxes(seen)->values(), scores = ssd_scores(seen)->values();
  const int64_t kinds = ssd_scores(seen)->dims[2];
  const auto w = static_cast<double>(seen.width), h = static_cast<double>(seen.height);
  Findings out;
  out.kinds = kinds, out.background = true;
  for (int64_t i = 0; i < ssd_boxes(seen)->dims[1]; ++i) {
    Best is = best(scores.data() + i * kinds + 1, kinds - 1);
    const double *box = boxes.data() + 4 * i;
    if (is.score >= least)
      out.boxes.push_back({box[0] * w, box[1] * h, box[2] * w, box[3] * h, is.score, is.kind + 1, {}});
  }
  return out;
}

// As torchvision's detectors end: corners in pixels, a label and a score for each, and with Mask R-CNN a mask.
struct Detections {
  const Output *boxes = nullptr, *labels = nullptr, *scores = nullptr, *masks = nullptr;
};
Detections detections(const Seen &seen) {
  Detections out;
  for (const Output &o : seen.outputs) {
    const size_t rank = o.dims.size();
    if (o.real() && rank == 2 && o.dims[1] == 4) out.boxes = &o;
    else if (!o.real() && rank == 1) out.labels = &o;
    else if (o.real() && rank == 1) out.scores = &o;
    else if (o.real() && rank == 4 && o.dims[1] == 1 && o.dims[2] == seen.height && o.dims[3] == seen.width)
      out.masks = &o;
  }
  return out;
}
bool fits_boxes(const Seen &seen) {
  const Detections is = detections(seen);
  const auto as_many = [&](const Output *o) { return o && o->dims[0] == is.boxes->dims[0]; };
  return is.boxes && as_many(is.labels) && as_many(is.scores) && (!is.masks || as_many(is.masks));
}
Findings read_boxes(const Seen &seen, double least) {
  const Detections is = detections(seen);
  const std::vector<double> boxes = is.boxes->values(), labels = is.labels->values(), scores = is.scores->values(),
                            masks = is.masks ? is.masks->values() : std::vector<double>();
  const auto area = static_cast<size_t>(seen.width * seen.height);
  Findings out;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i] >= least)) continue;
    const double *box = &boxes[4 * i];
    out.boxes.push_back({box[0], box[1], box[2], box[3], scores[i], static_cast<int64_t>(labels[i]), {}});
    if (masks.empty()) continue;
    out.boxes.back().mask.resize(area);
    for (size_t p = 0; p < area; ++p) out.boxes.back().mask[p] = masks[i * area + p] > 0.5;
  }
  return out;
}

// The output with a score for each kind at each position, or the kind itself.
const Output *mask_output(const Seen &seen, bool one_kind) {
  for (const Output &o : seen.outputs) {
    const std::vector<int64_t> &d = o.dims;
    if (!o.real() && ((d.size() == 3 && d[0] == 1) || (d.size() == 4 && d[0] == 1 && d[1] == 1)) &&
        d[d.size() - 1] > 1 && d[d.size() - 2] > 1)
      return &o;
    // Three values at a position are a picture as likely as scores; one is anything.
    if (o.real() && d.size() == 4 && d[0] == 1 && d[2] > 1 && (one_kind || (d[1] > 1 && d[1] != 3 && d[3] > 1)))
      return &o;
  }
  return nullptr;
}
bool fits_mask(const Seen &seen) { return mask_output(seen, false); }
Findings read_mask(const Seen &seen, double) {
  const Output &o = *mask_output(seen, true);
  const std::vector<double> values = o.values();
  Findings out;
  Mask &mask = out.mask.emplace();
  const size_t rank = o.dims.size();
  const bool last = o.real() && o.dims[3] < o.dims[1] && o.dims[3] < o.dims[2];
  mask.height = o.dims[last ? 1 : rank - 2], mask.width = o.dims[last ? 2 : rank - 1];
  const int64_t area = mask.width * mask.height;
  mask.kinds.resize(static_cast<size_t>(area));
  if (!o.real()) {
    std::transform(values.begin(), values.end(), mask.kinds.begin(), [](double v) { return static_cast<int64_t>(v); });
    return out;
  }
  const int64_t kinds = o.dims[last ? 3 : 1];
  // Of one kind: probabilities, or what a sigmoid makes them of.
  const bool probable = std::all_of(values.begin(), values.end(), [](double v) { return v >= 0 && v <= 1; });
  out.kinds = std::max<int64_t>(kinds, 2);
  out.background = kinds == 1;
  for (int64_t p = 0; p < area; ++p)
    mask.kinds[static_cast<size_t>(p)] =
        kinds == 1 ? values[static_cast<size_t>(p)] > (probable ? 0.5 : 0)
                   : best(values.data() + (last ? p * kinds : p), kinds, last ? 1 : area).kind;
  return out;
}

struct Form {
  const char *name, *expects;
  bool (*fits)(const Seen &);
  Findings (*read)(const Seen &, double least);
};
constexpr Form kForms[] = {
    {"yolox", "an output [1, cells of strides 8, 16, 32; 5 + kinds]", fits_yolox, read_yolox},
    {"yolov5", "an output [1, 3 boxes for each of the cells of strides 8, 16, 32; 5 + kinds]", fits_yolov5,
     read_yolov5},
    {"yolov8", "an output [1, 4 + kinds, cells of strides 8, 16, 32]", fits_yolov8, read_yolov8},
    {"yunet", "outputs cls_8, obj_8, bbox_8, and so for 16 and 32", fits_yunet, read_yunet},
    {"ssd", "outputs [1, boxes, 4], with 'box' in its name, and [1, boxes, kinds]", fits_ssd, read_ssd},
    {"boxes", "outputs [boxes, 4], labels [boxes], scores [boxes], and masks [boxes, 1, height, width] or none",
     fits_boxes, read_boxes},
    {"mask", "an output of floats [1, kinds, height, width] or of integers [1, height, width]", fits_mask, read_mask},
};

double overlap(const Box &a, const Box &b) {
  const double w = std::min(a.right, b.right) - std::max(a.left, b.left);
  const double h = std::min(a.bottom, b.bottom) - std::max(a.top, b.top), both = w > 0 && h > 0 ? w * h : 0;
  const auto area = [](const Box &box) { return (box.right - box.left) * (box.bottom - box.top); };
  return both > 0 ? both / (area(a) + area(b) - both) : 0;
}

// Non-maximum suppression: of boxes of one kind that overlap, the best.
std::vector<Box> best_of(std::vector<Box> boxes, double most) {
  const auto wrong = [](const Box &b) { return !std::isfinite(b.left + b.top + b.right + b.bottom); };
  boxes.erase(std::remove_if(boxes.begin(), boxes.end(), wrong), boxes.end());
  std::stable_sort(boxes.begin(), boxes.end(), [](const Box &a, const Box &b) { return a.score > b.score; });
  std::vector<Box> kept;
  for (Box &box : boxes)
    if (std::none_of(kept.begin(), kept.end(),
                     [&](const Box &k) { return k.kind == box.kind && overlap(k, box) > most; }))
      kept.push_back(std::move(box));
  return kept;
}

}  // namespace

void FindingFlags::add_to(CLI::App &command, const char *group) {
  std::vector<std::string> words{"auto"};
  for (const Form &known : kForms) words.emplace_back(known.name);
  command.add_option("--draw-as", form, "What the outputs are (default: as their shapes say)")
      ->check(one_of(words))
      ->capture_default_str()
      ->group(group);
  command.add_option("--score", least_score, "The least score of a box that is drawn")
      ->check(number(Sign::NotNegative))
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
  command
      .add_option("--overlap", most_overlap,
                  "Of boxes of one kind that share more than this part of both, the best alone is drawn")
      ->check(number(Sign::NotNegative))
      ->capture_default_str()
      ->type_name("NUMBER")
      ->group(group);
}

Findings find(const std::vector<qr::TensorInfo> &infos, const std::vector<qr::Tensor> &outputs, const Placement &place,
              const FindingFlags &flags) {
  Seen seen;
  seen.width = place.input_width, seen.height = place.input_height;
  std::string found;
  for (size_t i = 0; i < outputs.size(); ++i) {
    seen.outputs.push_back({infos[i].name, outputs[i].shape(), outputs[i].dtype, &outputs[i]});
    found += (found.empty() ? "" : ", ") + infos[i].name + " " + qr_dtype_name(outputs[i].dtype) +
             shape_text(seen.outputs.back().dims);
  }
  const bool any = flags.form == "auto";
  std::string expected;
  for (const Form &form : kForms) {
    if (!any && flags.form != form.name) continue;
    if (form.fits(seen) || (!any && form.read == read_mask && mask_output(seen, true))) {
      Findings out = form.read(seen, flags.least_score);
      out.form = form.name;
      out.boxes = best_of(std::move(out.boxes), flags.most_overlap);
      return out;
    }
    expected += std::string("\n    ") + form.name + ": " + form.expects;
  }
  throw UsageError("--draw: found outputs " + found + " for an input of " + std::to_string(seen.width) + "x" +
                       std::to_string(seen.height) + ", expected" + expected,
                   any ? "--draw-as mask takes an output of one or three values a place too"
                       : "--draw-as auto finds the form by the shapes");
}

}  // namespace tools
