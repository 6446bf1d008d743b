// SPDX-License-Identifier: Apache-2.0
#include "tools/report/draw.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/console/output.h"
#include "tools/console/usage.h"
#include "tools/input/pixels.h"

namespace tools {
namespace {

struct Named {
  const char *name;
  Colour colour;
};
constexpr Named kColours[] = {{"red", {255, 64, 64}},    {"green", {64, 220, 64}},    {"blue", {80, 140, 255}},
                              {"yellow", {255, 200, 0}}, {"magenta", {230, 80, 230}}, {"cyan", {0, 210, 210}},
                              {"orange", {255, 140, 0}}, {"white", {255, 255, 255}}};
const Named &colour_of(int64_t kind) {
  return kColours[static_cast<size_t>(std::max<int64_t>(kind, 0)) % std::size(kColours)];
}

// Names of the kinds. One too many or too few would name every thing wrongly and look right.
class Names {
 public:
  Names(const std::vector<std::string> &labels, const Findings &found) : labels_(labels) {
    if (labels.empty()) return;
    const auto given = static_cast<int64_t>(labels.size());
    if (found.kinds) {
      skip_ = found.background && given == found.kinds - 1 ? 1 : 0;
      if (given + skip_ != found.kinds)
        refuse(std::to_string(found.kinds) +
               (found.background ? ", or " + std::to_string(found.kinds - 1) + " without the background" : "") +
               ", as many as the outputs (" + found.form + ") have kinds");
      return;
    }
    for (const Box &box : found.boxes) check(box.kind);
    if (found.mask)
      std::for_each(found.mask->kinds.begin(), found.mask->kinds.end(), [&](int64_t kind) { check(kind); });
  }
  std::string operator()(int64_t kind) const {
    const int64_t at = kind - skip_;
    if (labels_.empty()) return "kind " + std::to_string(kind);
    return at < 0 ? "background" : labels_[static_cast<size_t>(at)];
  }

 private:
  void check(int64_t kind) const {
    if (kind < 0 || kind >= static_cast<int64_t>(labels_.size()))
      refuse("more than " + std::to_string(kind) + ", the greatest kind among the outputs");
  }
  [[noreturn]] void refuse(const std::string &expected) const {
    throw UsageError("--labels: found " + std::to_string(labels_.size()) + " labels, expected " + expected,
                     "one name a line, in the order of the model's classes");
  }

  const std::vector<std::string> &labels_;
  int64_t skip_ = 0;
};

// For each pixel of the photograph that the input shows: body(x, y, position in the input from 0 to 1 across, and
// down).
template <class Body>
void each_pixel(const Placement &place, Body body) {
  for (int y = 0; y < place.photo_height; ++y)
    for (int x = 0; x < place.photo_width; ++x) {
      const double across = ((x + 0.5) * place.scale_x + place.left) / static_cast<double>(place.input_width);
      const double down = ((y + 0.5) * place.scale_y + place.top) / static_cast<double>(place.input_height);
      if (across >= 0 && across < 1 && down >= 0 && down < 1) body(x, y, across, down);
    }
}

size_t place_in(int64_t width, int64_t height, double across, double down) {
  return static_cast<size_t>(static_cast<int64_t>(down * static_cast<double>(height)) * width +
                             static_cast<int64_t>(across * static_cast<double>(width)));
}

}  // namespace

void DrawFlags::add_to(CLI::App &command) {
  const char *group = "Drawing";
  command
      .add_option("--draw", file,
                  "Boxes and masks that the outputs give, drawn on the picture: the PNG to write; - is standard output")
      ->type_name("FILE.png|-")
      ->check(name_with(".png"))
      ->group(group);
  finding.add_to(command, group);
}

nlohmann::json draw(const DrawFlags &flags, const Drawn &drawn, const ImageFlags &image,
                    const std::vector<std::string> &labels, const std::vector<qr::TensorInfo> &infos,
                    const std::vector<qr::Tensor> &outputs, bool show) {
  const Placement place = image_placement(drawn.photo, drawn.input, image);
  Findings found = find(infos, outputs, place, flags.finding);
  const Names name(labels, found);
  Pixels picture = load_pixels(drawn.photo, 3);
  nlohmann::json out = {{"file", flags.file}, {"form", found.form}};
  if (show) print("  drawn (%s):%s\n", found.form, found.mask || !found.boxes.empty() ? "" : " nothing was found");
  if (found.mask) {
    std::map<int64_t, int64_t> counts;
    int64_t all = 0;
    each_pixel(place, [&](int x, int y, double across, double down) {
      const int64_t kind = found.mask->kinds[place_in(found.mask->width, found.mask->height, across, down)];
      ++counts[kind], ++all;
      if (kind != 0) tint(picture, x, y, colour_of(kind).colour);
    });
    out["areas"] = nlohmann::json::array();
    for (const auto &[kind, count] : counts) {
      const double part = static_cast<double>(count) / static_cast<double>(all);
      out["areas"].push_back({{"kind", kind}, {"label", name(kind)}, {"part", part}});
      if (show) print("    %5.1f %%  %s  %s\n", 100 * part, name(kind), kind == 0 ? "as it was" : colour_of(kind).name);
    }
  } else {
    out["boxes"] = nlohmann::json::array();
    for (Box &box : found.boxes) {
      const Named &colour = colour_of(box.kind);
      if (!box.mask.empty())
        each_pixel(place, [&](int x, int y, double across, double down) {
          if (box.mask[place_in(place.input_width, place.input_height, across, down)])
            tint(picture, x, y, colour.colour);
        });
      for (double *x : {&box.left, &box.right}) *x = (*x - place.left) / place.scale_x;
      for (double *y : {&box.top, &box.bottom}) *y = (*y - place.top) / place.scale_y;
      out["boxes"].push_back({{"kind", box.kind},
                              {"label", name(box.kind)},
                              {"score", box.score},
                              {"box", {box.left, box.top, box.right, box.bottom}}});
      if (show)
        print("    %.2f  %s  [%.0f,%.0f,%.0f,%.0f]  %s\n", box.score, name(box.kind), box.left, box.top, box.right,
              box.bottom, colour.name);
    }
    // The best lies on top.
    for (auto box = found.boxes.rbegin(); box != found.boxes.rend(); ++box)
      draw_box(picture, box->left, box->top, box->right, box->bottom, colour_of(box->kind).colour);
  }
  write_bytes(flags.file, png(picture));
  if (show) print("    written to %s\n", flags.file);
  return out;
}

}  // namespace tools
