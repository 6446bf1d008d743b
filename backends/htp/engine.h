// SPDX-License-Identifier: Apache-2.0
// A QNN backend object with a device for one SoC: what contexts are made in. Ids of tensors are counted per engine, so
// a compilation has one of its own and gives the same binary every time.
#pragma once

#include "backends/htp/qnn/library.h"
#include "backends/htp/qnn/log.h"
#include "backends/htp/soc/soc.h"

namespace quarry::htp {

class Engine {
 public:
  static Result<std::shared_ptr<Engine>> make(std::shared_ptr<const qnn::Library> library, const Soc &soc,
                                              bool signed_domain);
  // Whether there is a device: opens it as it is, for no SoC in particular.
  static Status probe(std::shared_ptr<const qnn::Library> library);
  explicit Engine(std::shared_ptr<const qnn::Library> library) : library_(std::move(library)) {}  // by make() alone
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  const qnn::Library &library() const noexcept { return *library_; }
  const qnn::Api &api() const noexcept { return library_->api(); }
  qnn::Handle backend() const noexcept { return backend_; }
  qnn::Handle device() const noexcept { return device_; }

 private:
  Status open(const qnn::DeviceConfig **configs, const String &what);
  std::shared_ptr<const qnn::Library> library_;
  qnn::Handle log_ = nullptr, backend_ = nullptr, device_ = nullptr;
};

}  // namespace quarry::htp
