// SPDX-License-Identifier: Apache-2.0
// A context that the library makes of a list (contextCreateFromBinaryListAsync), and what it reports: of each graph
// and of the context, in any order, some of it after the call has returned.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>

#include "backends/htp/qnn/function_table.h"
#include "base/status.h"

namespace quarry::htp {

class Engine;

class ListedContext {
 public:
  // `notices`: how many there will be.
  explicit ListedContext(std::uint64_t notices) : left_(notices) {}

  // The engine owns it until every notice has come: the library has its address. `type`: how contexts share.
  static Result<qnn::Handle> create(Engine &engine, std::span<const std::uint8_t> binary, std::uint64_t graphs,
                                    const qnn::ContextConfig **configs, std::uint32_t type);
  // Whether no notice is to come.
  bool is_done() const;
  // What came when nobody waited any more; null: nothing.
  qnn::Handle orphan() noexcept;

 private:
  void tell(qnn::Handle context, bool is_context, qnn::Error error) noexcept;
  Result<qnn::Handle> wait();

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::uint64_t left_;
  bool has_context_ = false, is_waited_for_ = true;
  qnn::Handle context_ = nullptr;
  qnn::Error error_ = qnn::kOk;
};

}  // namespace quarry::htp
