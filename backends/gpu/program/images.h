// SPDX-License-Identifier: Apache-2.0
// Operands of matrix multiplications that kernels read as images (ImageLayout): which can be, on which device, and
// where that pays. Weights become images of their own when a plan is loaded; a value between steps is read through a
// view of the buffer that it lies in. What a device cannot read so it reads as a buffer.
#pragma once

#include "backends/gpu/opencl/device.h"
#include "backends/gpu/program/plan.h"
#include "backends/gpu/program/target.h"

namespace quarry::gpu {

// Field IMAGES of a step of the plan's; null: its kernel reads none.
std::int32_t *image_field(Plan &plan, const Step &step);
std::int32_t image_layouts(const Plan &plan, const Step &step);

// The view of a value of the arena.
ImageSize row_image_size(std::uint64_t bytes, DType dtype);

// A step's form with other images than it says; `operands` and `fields` keep what the form points to.
bool form_with_images(const Plan &plan, const Step &step, std::int32_t layouts, Vector<StepOperand> &operands,
                      Vector<std::int32_t> &fields, Form &out);

// All layouts that fit a step, one at most for each operand. Without a device: one of the smallest limits. `why`: gets
// why an operand that lies right is too much for the device.
std::int32_t possible_images(const Plan &plan, const Step &step, const opencl::Device *device, String *why = nullptr);
// Of those that the step says: what the device does, for a plan whose values have their offsets.
std::int32_t images_on(const Plan &plan, const Step &step, const opencl::Device &device);

// Images where Target says all, and where values lie then. The note is empty, or says what is too large.
Result<String> fit_images(Plan &plan, const Target &target, const opencl::Device *device);
// Gives values their offsets again, and says of nodes that they read images.
Status finish_images(Plan &plan);

// Constants of a plan that are images, and those that somebody reads as buffers.
struct ConstantImages {
  struct Entry {
    std::uint32_t value;
    std::int32_t layout;
    DType dtype;
    std::int64_t steps;  // of the sum
    ImageSize size;
    std::uint64_t bytes() const noexcept;
  };
  Vector<Entry> entries;
  Vector<std::int32_t> of_operands;  // two per step: which entry; -1: none
  Vector<bool> as_buffer;            // per value
};
ConstantImages constant_images(const Plan &plan, std::span<const std::int32_t> layouts, std::span<const Bounds> bounds);
// The texels of an image of a constant, which has all elements that bounds say.
Vector<std::uint8_t> texels_of(const ConstantImages::Entry &entry, const std::uint8_t *from);
// By how much the weights are more in memory (less: negative) for being images there.
std::int64_t bytes_for_images(const Plan &plan, const opencl::Device &device);

}  // namespace quarry::gpu
