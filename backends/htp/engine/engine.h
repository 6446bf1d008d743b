// SPDX-License-Identifier: Apache-2.0
// A QNN backend object with a device for one SoC: what contexts are made in. A compilation has one of its own; the
// library numbers tensors and graphs for the process, so two compilations of one process differ in these.
#pragma once

#include <atomic>
#include <mutex>

#include "backends/htp/engine/interrupter.h"
#include "backends/htp/engine/listed_context.h"
#include "backends/htp/engine/op_packages.h"
#include "backends/htp/qnn/library.h"
#include "backends/htp/qnn/log.h"
#include "backends/htp/soc/soc.h"

namespace quarry::htp {

class Engine {
 public:
  static Result<std::shared_ptr<Engine>> make(std::shared_ptr<const qnn::Library> library, const Soc &soc,
                                              bool signed_domain, Vector<OpPackage> packages = {});
  // Whether the library has a device at all, whatever its SoC.
  static Status probe(std::shared_ptr<const qnn::Library> library);
  Engine(std::shared_ptr<const qnn::Library> library, const Soc *soc, bool signed_domain, Vector<OpPackage> packages)
      : library_(std::move(library)),
        soc_(soc),
        signed_domain_(signed_domain),
        packages_(std::move(packages)) {}  // by make() alone
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  const qnn::Library &library() const noexcept { return *library_; }
  const qnn::Api &api() const noexcept { return library_->api(); }
  qnn::Handle backend() const noexcept { return backend_; }
  qnn::Handle device() const noexcept { return device_; }
  const Soc &soc() const noexcept { return *soc_; }  // not of a probe
  Interrupter &interrupter() const noexcept { return *interrupter_; }
  // Runs on the library's own threads: until it has refused one.
  bool may_run_async() const noexcept { return library_->api().graphExecuteAsync && !refused_async_; }
  void refused_async() noexcept { refused_async_ = true; }
  // Until the library has reported all of it.
  void keep(std::shared_ptr<ListedContext> listed);

  // After the device was lost: what was made in the engine is gone and must be made again. Nobody else uses it now.
  Status reopen();

 private:
  Status open();
  Status register_packages();
  void close() noexcept;
  std::shared_ptr<const qnn::Library> library_;
  const Soc *soc_;  // nullptr: as the library has it
  bool signed_domain_;
  Vector<OpPackage> packages_;
  qnn::Handle log_ = nullptr, backend_ = nullptr, device_ = nullptr;
  Unique<Interrupter> interrupter_;
  std::atomic<bool> refused_async_{false};
  std::mutex listing_;
  Vector<std::shared_ptr<ListedContext>> listed_;
};

}  // namespace quarry::htp
