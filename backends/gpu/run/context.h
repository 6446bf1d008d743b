// SPDX-License-Identifier: Apache-2.0
// A loaded plan: its program built, its constants in device memory. Shared by executions.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/gpu/engine/engine.h"
#include "backends/gpu/opencl/pocl.h"
#include "backends/gpu/program/blob.h"
#include "backends/gpu/program/images.h"
#include "backends/gpu/run/constant_pool.h"

namespace quarry::gpu {

// The kernels of a plan.
struct PlanSource {
  String text;
  Vector<std::uint32_t> kernels;  // per step
  Vector<Bounds> bounds;
  Vector<std::int32_t> images;  // per step: those that the device reads
  Vector<bool> checks;          // per step: whether it reports indices that name no element
};
// Without a device: of one without images.
PlanSource source_of(const Plan &plan, const opencl::Device *device = nullptr);

class LoadedContext : public HeapObject {
 public:
  // `note` gets what the user should know: that the binary was of no use, and why. `lock`: where the driver needs one
  // to build this program, it is left there. `stop` may be null. `pool`: constants are shared with other plans of it.
  static Result<Unique<LoadedContext>> load(std::shared_ptr<const Engine> engine, Blob blob,
                                            std::span<const qir::Bytes> segments, const plugin::StopToken *stop,
                                            String *note, opencl::BuildLock *lock = nullptr,
                                            ConstantPool *pool = nullptr);
  LoadedContext(std::shared_ptr<const Engine> engine, Blob blob) : engine_(std::move(engine)), blob_(std::move(blob)) {}

  // After the device was lost: the same in another context of OpenCL. The segments of `load` are still there.
  Status reopen(std::shared_ptr<const Engine> engine);

  const Engine &engine() const noexcept { return *engine_; }
  const std::shared_ptr<const Engine> &shared_engine() const noexcept { return engine_; }
  const Plan &plan() const noexcept { return blob_.plan; }
  const DynamicRegion &region() const noexcept { return blob_.region; }
  // The model's.
  const Vector<Io> &inputs() const noexcept {
    return blob_.region.qir.empty() ? blob_.plan.inputs : blob_.region.inputs;
  }
  const Vector<Io> &outputs() const noexcept {
    return blob_.region.qir.empty() ? blob_.plan.outputs : blob_.region.outputs;
  }
  const PlanSource &source() const noexcept { return source_; }
  cl_program program() const noexcept { return program_.get(); }
  // Of a constant.
  cl_mem constant(std::uint32_t value) const noexcept {
    return pooled_[value] ? pooled_[value]->get() : constants_[value].get();
  }
  // Of an operand of a step that reads a constant as one; null: it does not.
  cl_mem image(std::size_t step, std::size_t operand) const noexcept {
    const std::int32_t at = operand < 2 ? image_of_operands_[step * 2 + operand] : -1;
    return at < 0 ? nullptr : images_[index_of(at)]->get();
  }

 private:
  Status build(const plugin::StopToken *stop, String *note, opencl::BuildLock &lock);
  // Of a constant, on the host.
  const std::uint8_t *contents_of(const Value &value) const noexcept {
    return static_cast<const std::uint8_t *>(segments_[value.index].data) + value.offset;
  }
  Status load_constants(ConstantPool *pool);
  Status load_images(const ConstantImages &images, ConstantPool *pool);

  std::shared_ptr<const Engine> engine_;
  Blob blob_;
  Vector<qir::Bytes> segments_;  // the container's
  PlanSource source_;
  opencl::Program program_;
  Vector<opencl::Memory> pieces_, constants_;
  Vector<PooledMemory> pooled_;  // per value; null: it is in a piece
  Vector<PooledMemory> images_;
  Vector<std::int32_t> image_of_operands_;
};

}  // namespace quarry::gpu
