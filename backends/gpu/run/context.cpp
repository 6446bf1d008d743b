// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/context.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/gpu/kernels/text.h"
#include "base/hash.h"

namespace quarry::gpu {

using opencl::check;

namespace {

// Smaller ones lie together in a piece.
constexpr std::uint64_t kPooled = 4096;

// Another process may have it that was stopped: then the program is built without it.
constexpr auto kLongestWait = std::chrono::minutes(10);

Status wait_for(opencl::BuildLock &lock, const plugin::StopToken *stop) {
  const auto begun = std::chrono::steady_clock::now();
  while (!lock.hold()) {
    if (stop && stop->stopped()) return stop->status("load");
    if (std::chrono::steady_clock::now() - begun > kLongestWait) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return {};
}

}  // namespace

PlanSource source_of(const Plan &plan, const opencl::Device *device) {
  PlanSource out;
  ProgramText text;
  Vector<StepOperand> operands;
  Vector<std::int32_t> fields;
  for (const Step &step : plan.steps) {
    Form form;
    Bounds bounds;
    const std::int32_t images = device ? images_on(plan, step, *device) : 0;
    if (!form_with_images(plan, step, images, operands, fields, form) || !find_bounds(form, bounds).ok())
      continue;  // was checked before
    out.images.push_back(images);
    out.checks.push_back(checks_indices(form));
    out.kernels.push_back(text.kernel(form));
    out.bounds.push_back(bounds);
  }
  out.text = text.text();
  return out;
}

Status LoadedContext::build(const plugin::StopToken *stop, String *note, opencl::BuildLock &lock) {
  if (plan().steps.empty()) return {};
  const std::uint64_t hash = hash64(source_.text.data(), source_.text.size());
  lock = opencl::BuildLock::of(engine_->device(), hash);
  QR_RETURN_IF_ERROR(wait_for(lock, stop));
  if (blob_.binary_bytes > 0) {
    const qir::Bytes &binary = segments_.back();
    if (blob_.device != engine_->device().identity()) {
      *note = format("the kernels' binary is of %s, this is %s", printable(blob_.device),
                     printable(engine_->device().identity()));
    } else if (blob_.source_hash != hash) {
      *note = "the kernels' binary is of another release of the backend";
    } else if (hash64(binary.data, binary.size) != blob_.binary_hash) {
      return Status::error(ErrorId::backend_bad_blob,
                           "gpu blob: found a binary with another sum, expected that of the blob");
    } else if (const String flaw =
                   opencl::flaw_of_binary({static_cast<const std::uint8_t *>(binary.data), binary.size});
               !flaw.empty()) {
      *note = "the kernels' binary was taken from the driver with " + flaw;
    } else {
      auto built = engine_->build(binary);
      if (built.ok()) {
        program_ = std::move(*built);
        return {};
      }
      *note = "the driver did not take the kernels' binary: " + String(built.status().message());
    }
    *note +=
        "; they were compiled from their source, which takes longer: compile the model on this device to spare that";
  }
  QR_ASSIGN_OR_RETURN(program_, engine_->build(source_.text));
  return {};
}

Status LoadedContext::load_images(const ConstantImages &images, ConstantPool *pool) {
  image_of_operands_ = images.of_operands;
  for (const ConstantImages::Entry &entry : images.entries) {
    const Value &value = plan().values[entry.value];
    const std::uint8_t *const from = contents_of(value);
    ConstantPool::Key key;
    if (pool) {
      key = {hash64(from, value.bytes), value.bytes, entry.layout, static_cast<std::int32_t>(entry.dtype), entry.steps};
      if (PooledMemory there = pool->find(key)) {
        images_.push_back(std::move(there));
        continue;
      }
    }
    const Vector<std::uint8_t> texels = texels_of(entry, from);
    QR_ASSIGN_OR_RETURN(opencl::Memory made, engine_->image(entry.size, entry.dtype, texels.data(), nullptr));
    images_.push_back(pool ? pool->add(key, std::move(made))
                           : quarry::make_shared<const opencl::Memory>(std::move(made)));
  }
  return {};
}

Status LoadedContext::load_constants(ConstantPool *pool) {
  const Plan &p = plan();
  constants_.resize(p.values.size()), pooled_.resize(p.values.size());
  const ConstantImages images = constant_images(p, source_.images, source_.bounds);
  QR_RETURN_IF_ERROR(load_images(images, pool));
  constexpr std::uint32_t kOwn = UINT32_MAX;  // in place of a piece
  struct Upload {
    std::uint32_t value, piece;
    std::uint64_t offset;
    ConstantPool::Key key;
  };
  Vector<Upload> uploads;
  Vector<std::uint64_t> sizes;
  const std::uint64_t largest =
      std::min(kLargestPiece, std::max<std::uint64_t>(engine_->device().max_allocation, kAlign));
  for (std::uint32_t v = 0; v < p.values.size(); ++v) {
    const Value &value = p.values[v];
    if (value.storage != StorageKind::Constant || value.bytes == 0 || !images.as_buffer[v]) continue;
    if (pool && value.bytes >= kPooled) {
      const ConstantPool::Key key = {hash64(contents_of(value), value.bytes), value.bytes};
      pooled_[v] = pool->find(key);
      if (!pooled_[v]) uploads.push_back({v, kOwn, 0, key});
      continue;
    }
    const std::uint64_t bytes = (value.bytes + kAlign - 1) / kAlign * kAlign;
    if (sizes.empty() || sizes.back() + bytes > largest) sizes.push_back(0);
    uploads.push_back({v, static_cast<std::uint32_t>(sizes.size() - 1), sizes.back(), {}});
    sizes.back() += bytes;
  }
  for (const std::uint64_t bytes : sizes) {
    QR_ASSIGN_OR_RETURN(opencl::Memory piece, engine_->memory(bytes, "weights"));
    pieces_.push_back(std::move(piece));
  }
  if (uploads.empty()) return {};
  const opencl::Library &cl = engine_->library();
  QR_ASSIGN_OR_RETURN(const opencl::Queue queue, engine_->queue(false, "normal"));
  for (const Upload &upload : uploads) {
    const Value &value = p.values[upload.value];
    opencl::Memory memory;
    if (upload.piece == kOwn) {
      QR_ASSIGN_OR_RETURN(memory, engine_->memory(value.bytes, "weights"));
    } else {
      QR_ASSIGN_OR_RETURN(memory, engine_->part(pieces_[upload.piece], upload.offset, value.bytes));
    }
    QR_RETURN_IF_ERROR(check("EnqueueWriteBuffer",
                             cl->EnqueueWriteBuffer(queue.get(), memory.get(), CL_TRUE, 0, value.bytes,
                                                    contents_of(value), 0, nullptr, nullptr),
                             "weights"));
    if (upload.piece == kOwn) pooled_[upload.value] = pool->add(upload.key, std::move(memory));
    else constants_[upload.value] = std::move(memory);
  }
  return check("Finish", cl->Finish(queue.get()));
}

Result<Unique<LoadedContext>> LoadedContext::load(std::shared_ptr<const Engine> engine, Blob blob,
                                                  std::span<const qir::Bytes> segments, const plugin::StopToken *stop,
                                                  String *note, opencl::BuildLock *lock, ConstantPool *pool) {
  auto made = quarry::make_unique<LoadedContext>(std::move(engine), std::move(blob));
  made->source_ = source_of(made->plan(), &made->engine_->device());
  made->segments_.assign(segments.begin(), segments.end());
  opencl::BuildLock own;
  QR_RETURN_IF_ERROR(made->build(stop, note, lock ? *lock : own));
  own.release();
  QR_RETURN_IF_ERROR(made->load_constants(pool));
  return made;
}

Status LoadedContext::reopen(std::shared_ptr<const Engine> engine) {
  constants_.clear(), pieces_.clear(), images_.clear(), pooled_.clear();
  program_ = opencl::Program();
  engine_ = std::move(engine);
  String note;  // was reported when it was loaded
  opencl::BuildLock lock;
  QR_RETURN_IF_ERROR(build(nullptr, &note, lock));
  lock.release();
  return load_constants(nullptr);
}

}  // namespace quarry::gpu
