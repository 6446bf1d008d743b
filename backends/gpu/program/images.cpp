// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/program/images.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/kernels/params.h"
#include "backends/gpu/program/compiled_plan.h"
#include "base/checked.h"

namespace quarry::gpu {

namespace {

constexpr std::int32_t kLayouts[] = {kRowsOfLeft, kPanelsOfRight, kRightAsRows, kLineOfLeft};
// What every device with images has (OpenCL 1.2, full profile).
constexpr std::size_t kSmallestLimit = 8192;

bool has_images(std::uint32_t kernel) {
  return kernel == static_cast<std::uint32_t>(Kernel::MatMulTile) ||
         kernel == static_cast<std::uint32_t>(Kernel::ConvTile);
}
// Where field IMAGES is among the plan's numbers.
std::size_t field_index(const Step &step) {
  const std::size_t offset = step.kernel == static_cast<std::uint32_t>(Kernel::MatMulTile)
                                 ? offsetof(MatMulTileParams, IMAGES)
                                 : offsetof(ConvTileParams, IMAGES);
  return step.numbers + offset / sizeof(std::int64_t);
}
std::size_t operand_of(std::int32_t layout) { return (layout & images_of_operand(0)) != 0 ? 0 : 1; }
std::uint64_t element_of(DType dtype) { return dtype == DType::F16 ? 2 : 4; }

bool takes(const opencl::Device *device, std::int32_t layout, const ImageSize &size, String *why) {
  const std::size_t width = device ? device->image_width : kSmallestLimit,
                    height = device ? device->image_height : kSmallestLimit;
  if ((layout & kRowImages) != 0 && device && (!device->views_images() || kRowTexels % device->image_pitch != 0))
    return false;
  if (static_cast<std::uint64_t>(size.width) <= width && static_cast<std::uint64_t>(size.height) <= height) return true;
  if (why)
    *why = format("found an image of %lld x %lld texels, expected at most %zu x %zu", size.width, size.height, width,
                  height);
  return false;
}

}  // namespace

ImageSize row_image_size(std::uint64_t bytes, DType dtype) {
  return {kRowTexels, static_cast<std::int64_t>(row_image_bytes(bytes, element_of(dtype)) /
                                                (static_cast<std::uint64_t>(kRowTexels) * 4 * element_of(dtype)))};
}

std::int32_t *image_field(Plan &plan, const Step &step) {
  return has_images(step.kernel) ? &plan.numbers[field_index(step)] : nullptr;
}
std::int32_t image_layouts(const Plan &plan, const Step &step) {
  return has_images(step.kernel) ? plan.numbers[field_index(step)] : 0;
}

bool form_with_images(const Plan &plan, const Step &step, std::int32_t layouts, Vector<StepOperand> &operands,
                      Vector<std::int32_t> &fields, Form &out) {
  if (!form_of(plan, step, operands, out)) return false;
  if (!has_images(step.kernel)) return true;
  fields.assign(out.fields.begin(), out.fields.end());
  fields[field_index(step) - step.numbers] = layouts;
  out.fields = fields;
  return true;
}

std::int32_t possible_images(const Plan &plan, const Step &step, const opencl::Device *device, String *why) {
  if (!has_images(step.kernel) || (device && !device->has_images)) return 0;
  Vector<StepOperand> operands;
  Vector<std::int32_t> fields;
  std::int32_t found = 0;
  for (const std::int32_t layout : kLayouts) {
    Form form;
    Bounds bounds;
    const std::size_t o = operand_of(layout);
    if (!form_with_images(plan, step, layout, operands, fields, form) || !find_bounds(form, bounds).ok()) continue;
    const Value &value = plan.values[plan.operands[step.first_operand + o].value];
    const bool as_rows = (layout & kRowImages) != 0;
    if (value.storage != (as_rows ? StorageKind::Arena : StorageKind::Constant)) continue;
    if (takes(device, layout, as_rows ? row_image_size(value.bytes, operands[o].dtype) : bounds.images[o], why))
      found |= layout;
  }
  return found;
}

std::int32_t images_on(const Plan &plan, const Step &step, const opencl::Device &device) {
  std::int32_t layouts = image_layouts(plan, step);
  if (layouts == 0) return 0;
  layouts &= possible_images(plan, step, &device);
  for (std::size_t o = 0; o < 2; ++o) {
    if ((layouts & kRowImages & images_of_operand(o)) == 0) continue;
    const Operand &operand = plan.operands[step.first_operand + o];
    const Value &value = plan.values[operand.value];
    const std::uint64_t element = element_of(static_cast<DType>(operand.dtype));
    // A view that does not begin or end where it has to: the buffer is read.
    if (value.offset % (4 * element * std::max<std::uint32_t>(device.image_base, 1)) != 0 ||
        value.index >= plan.pieces.size() ||
        !range_fits(value.offset, row_image_bytes(value.bytes, element), plan.pieces[value.index]))
      layouts &= ~images_of_operand(o);
  }
  return layouts;
}

Status finish_images(Plan &plan) {
  Vector<bool> told(plan.paths.size(), false);
  bool any = false;
  for (const Step &step : plan.steps) {
    if (image_layouts(plan, step) == 0) continue;
    any = true;
    if (step.source < 0 || index_of(step.source) >= told.size()) continue;
    const auto source = index_of(step.source);
    if (told[source]) continue;
    told[source] = true;
    const String text = String(plan.names.data() + plan.paths[source].text) + ", images";
    plan.paths[source].text = static_cast<std::uint32_t>(plan.names.size());
    plan.names.insert(plan.names.end(), text.begin(), text.end());
    plan.names.push_back('\0');
  }
  return any ? assign_offsets(plan) : Status();
}

Result<String> fit_images(Plan &plan, const Target &target, const opencl::Device *device) {
  String note, first;
  std::size_t count = 0, too_large = 0;
  if (target.images != Images::All) return note;
  for (const Step &step : plan.steps) {
    std::int32_t *const field = image_field(plan, step);
    if (!field) continue;
    String why;
    *field = possible_images(plan, step, device, &why);
    if (*field != 0) ++count;
    if (why.empty()) continue;
    if (too_large++ == 0) first = format("'%s': %s", plan.names.data() + step.name, why);
  }
  QR_RETURN_IF_ERROR(finish_images(plan));
  if (too_large > 0)
    note =
        format("%zu products read images, %zu read as buffers what is too large for one; %s", count, too_large, first);
  return note;
}

// ---- constants ------------------------------------------------------------------------------------

std::uint64_t ConstantImages::Entry::bytes() const noexcept {
  return static_cast<std::uint64_t>(size.width) * static_cast<std::uint64_t>(size.height) * 4 * element_of(dtype);
}

ConstantImages constant_images(const Plan &plan, std::span<const std::int32_t> layouts,
                               std::span<const Bounds> bounds) {
  ConstantImages out;
  HashMultimap<std::uint32_t, std::size_t> of_value;  // entries
  out.of_operands.assign(plan.steps.size() * 2, -1);
  out.as_buffer.assign(plan.values.size(), false);
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    const Step &step = plan.steps[s];
    for (std::size_t o = 0; o < step.operand_count; ++o) {
      const Operand &operand = plan.operands[step.first_operand + o];
      const std::int32_t layout = layouts[s] & kConstantImages & images_of_operand(o);
      if (layout == 0) {
        out.as_buffer[operand.value] = true;
        continue;
      }
      const ImageSize &size = bounds[s].images[o];
      // Rows are of K elements; panels of as many steps as the image has rows. The left is a matrix multiplication's.
      const std::int64_t steps = layout == kRowsOfLeft
                                     ? read_params<MatMulTileParams>(std::span(plan.numbers).subspan(step.numbers)).K
                                     : size.height;
      const ConstantImages::Entry entry{operand.value, layout, static_cast<DType>(operand.dtype), steps, size};
      const auto [first, last] = of_value.equal_range(operand.value);
      const auto same = std::find_if(first, last, [&](const auto &one) {
        const ConstantImages::Entry &other = out.entries[one.second];
        return other.layout == entry.layout && other.dtype == entry.dtype && other.steps == entry.steps &&
               other.size.width == size.width && other.size.height == size.height;
      });
      const std::size_t entry_index = same == last ? out.entries.size() : same->second;
      out.of_operands[s * 2 + o] = static_cast<std::int32_t>(entry_index);
      if (same != last) continue;
      of_value.emplace(operand.value, entry_index);
      out.entries.push_back(entry);
    }
  }
  return out;
}

Vector<std::uint8_t> texels_of(const ConstantImages::Entry &entry, const std::uint8_t *from) {
  Vector<std::uint8_t> out(entry.bytes());
  const auto element = element_of(entry.dtype), width = static_cast<std::uint64_t>(entry.size.width),
             height = static_cast<std::uint64_t>(entry.size.height), steps = static_cast<std::uint64_t>(entry.steps);
  if (entry.layout == kRowsOfLeft) {
    for (std::uint64_t y = 0; y < height; ++y)
      std::memcpy(out.data() + y * width * 4 * element, from + y * steps * element, steps * element);
    return out;
  }
  const std::uint64_t row = kPanel * element;
  for (std::uint64_t panel = 0; panel < width * 4 / kPanel; ++panel)
    for (std::uint64_t k = 0; k < height; ++k)
      std::memcpy(out.data() + k * width * 4 * element + panel * row, from + (panel * height + k) * row, row);
  return out;
}

std::int64_t bytes_for_images(const Plan &plan, const opencl::Device &device) {
  if (std::ranges::none_of(plan.steps, [&](const Step &step) { return image_layouts(plan, step) != 0; })) return 0;
  Vector<std::int32_t> layouts;
  Vector<Bounds> bounds;
  Vector<StepOperand> operands;
  Vector<std::int32_t> fields;
  for (const Step &step : plan.steps) {
    layouts.push_back(images_on(plan, step, device));
    Form form;
    if (!form_with_images(plan, step, layouts.back(), operands, fields, form) ||
        !find_bounds(form, bounds.emplace_back()).ok())
      return 0;
  }
  const ConstantImages images = constant_images(plan, layouts, bounds);
  std::int64_t more = 0;
  Vector<bool> spared(plan.values.size(), false);
  for (const ConstantImages::Entry &entry : images.entries) {
    more += static_cast<std::int64_t>(entry.bytes());
    if (images.as_buffer[entry.value] || spared[entry.value]) continue;
    spared[entry.value] = true;
    more -= static_cast<std::int64_t>(plan.values[entry.value].bytes);
  }
  return more;
}

}  // namespace quarry::gpu
