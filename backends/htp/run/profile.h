// SPDX-License-Identifier: Apache-2.0
// What the library measures of a call, as events: numbers of the whole call as counters of one event, its parts (nodes
// of a graph, phases of a compilation) as events below. Names and units are the library's own.
#pragma once

#include "backends/htp/engine/engine.h"
#include "backends/htp/program/blob.h"
#include "quarry/backend.h"

namespace quarry::htp {

class ProfiledCall {
 public:
  // `sink` may be null: nothing is measured then. `traces` (htp.optrace): the library makes a trace of its own too, for
  // which it reports less of nodes; in a compilation it writes files into the working folder (trace_folder.h).
  // `folder`: for the objects that a device traces; empty: they are not kept.
  ProfiledCall(const Engine &engine, const qr_profile_sink *sink, bool traces = false, std::string_view folder = {});
  ~ProfiledCall();
  ProfiledCall(const ProfiledCall &) = delete;
  ProfiledCall &operator=(const ProfiledCall &) = delete;

  Status status() const { return error_ ? qnn::call_failed("profileCreate", error_, nullptr) : Status(); }
  qnn::Handle handle() const noexcept { return handle_; }  // for the call; nullptr: not measured
  void abandon() noexcept { handle_ = nullptr; }           // the engine was closed meanwhile
  // After the call. `nodes`: of the graph, by whose names parts are found; may be null. `trace`: the file that the
  // library has written.
  void tell(std::string_view call, const Vector<BlobNode> *nodes, std::string_view trace = {});

 private:
  void report_part(std::uint64_t id, std::uint64_t parent, const Vector<BlobNode> *nodes, std::uint64_t &at);
  Vector<std::uint64_t> parts_of(std::uint64_t id) const;
  String keep_object(std::uint64_t id, std::string_view call) const;
  String names_of(const Vector<std::uint64_t> &events) const;

  const Engine &engine_;
  const qr_profile_sink *sink_;
  String folder_;
  qnn::Handle handle_ = nullptr;
  qnn::Error error_ = qnn::kOk;
  std::uint64_t begin_ns_ = 0, last_id_ = 0;
};

}  // namespace quarry::htp
