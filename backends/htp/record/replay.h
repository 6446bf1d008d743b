// SPDX-License-Identifier: Apache-2.0
// Makes the calls of a record again, one after the other, of any library, and holds what it gives beside what the
// record has. Or makes none, and reads every argument.
#pragma once

#include <condition_variable>
#include <mutex>

#include "backends/htp/qnn/library.h"
#include "backends/htp/record/lens.h"

namespace quarry::record {

// One call whose code or output is another than the record's, or one that was left out.
struct Finding {
  std::uint64_t call;
  std::uint32_t function;
  String what;
};

struct Outcome {
  std::uint64_t made = 0, runs = 0, outputs = 0, output_bytes = 0, refused = 0, binaries = 0, other_binaries = 0;
  std::uint64_t differing = 0, left_out = 0, line_count = 0;
  Vector<Finding> differences, skipped;  // the first of them
  Vector<Finding> errors;                // calls that failed in the record and here alike
  std::uint64_t unfinished = 0;          // the call that had not returned when the record ended; 0: none
};

class Replay final : public Names {
 public:
  enum class Unfinished : std::uint8_t { LeaveOut, Make };
  // `library` nullptr: no call is made.
  Replay(const Reader &reader, std::shared_ptr<const qnn::Library> library, Unfinished unfinished)
      : reader_(reader), library_(std::move(library)), unfinished_(unfinished) {}

  Status run();
  const Outcome &outcome() const noexcept { return outcome_; }
  static const char *function_name(std::uint32_t function) noexcept;  // "graphExecute"

  // ---- Names
  bool handle(Kind kind, std::uint64_t recorded, qnn::Handle *out) const override;
  std::uint32_t tensor(std::uint64_t graph, std::uint32_t recorded) const override;
  bool event(std::uint64_t recorded, std::uint64_t *out) const override;
  std::uint32_t power(std::uint32_t recorded) const override;
  bool is_wide() const override { return !library_ || library_->device_config_is_wide(); }
  bool runs() const override { return library_ != nullptr; }

  // ---- for parts.h, within a call
  void made(Kind kind, std::uint64_t recorded, qnn::Handle here);
  // The number was another object's before, which must not be taken for it.
  void forget(Kind kind, std::uint64_t recorded) { handles_.erase({kind, recorded}); }
  void forget_contexts();
  void made_tensor(std::uint32_t recorded, std::uint32_t here) { tensors_[{graph_, recorded}] = here; }
  void made_event(std::uint64_t recorded, std::uint64_t here) { events_[recorded] = here; }
  void made_power(std::uint32_t recorded, std::uint32_t here) { powers_[recorded] = here; }
  void name_next(const char *name) { next_name_ = name ? name : ""; }
  void compare(Lens &lens, const qnn::Tensor *out, std::uint32_t count);
  qnn::BinSize binary_room() const noexcept { return binary_room_; }
  void binary_room(qnn::BinSize size) { binary_room_ = size; }
  void *room_for_binary();
  void binary(bool is_same) { ++outcome_.binaries, outcome_.other_binaries += !is_same; }
  void take_infra(void *infra) { infra_ = static_cast<const qnn::HtpInfra *>(infra); }
  static void take_notice(void *self, qnn::NotifyStatus status);
  void wait_for_run(const qnn::Tensor *out, std::uint32_t count);
  void expect_contexts(const qnn::CtxParams **list);
  void wait_for_contexts();

  // ---- for calls.cpp
  struct Made {
    const Reader::Entry *call, *gave;  // gave nullptr: it had not returned
  };
  // Whether the call is to be made, as far as its arguments say.
  bool may_make(const Made &made, const Lens &lens);
  void leave_out(const Made &made, String why);
  void differs(const Made &made, String what);
  // Compares what it returned. True: what it gave can be compared, too.
  bool returned(const Made &made, qnn::Error error);
  template <class Table>
  const Table *table() const noexcept {
    if constexpr (std::is_same_v<Table, qnn::Api>) return &library_->api();
    else return infra_;
  }
  const Reader &reader() const noexcept { return reader_; }

 private:
  Status check_weights() const;
  void index();
  Vector<const Reader::Entry *> notices_of(std::uint64_t call) const;

  struct Reported {
    std::uint32_t place, what;
    qnn::Handle context, graph;
    qnn::Error status;
  };
  struct Listed {
    Replay *self;
    std::uint32_t place;
  };
  using TensorKey = std::pair<std::uint64_t, std::uint32_t>;

  const Reader &reader_;
  const std::shared_ptr<const qnn::Library> library_;
  const Unfinished unfinished_;
  Outcome outcome_;
  HashMap<std::uint64_t, const Reader::Entry *> returns_;
  HashMultimap<std::uint64_t, const Reader::Entry *> notices_;
  OrderedMap<std::pair<Kind, std::uint64_t>, qnn::Handle> handles_;
  HashMap<std::uint64_t, String> names_;  // of graphs
  OrderedMap<TensorKey, std::uint32_t> tensors_;
  HashMap<std::uint64_t, std::uint64_t> events_;
  HashMap<std::uint32_t, std::uint32_t> powers_;
  const qnn::HtpInfra *infra_ = nullptr;
  Vector<std::uint8_t> binary_;
  qnn::BinSize binary_room_ = 0;
  String next_name_;
  Made current_ = {};
  std::uint64_t graph_ = 0;
  const qnn::LogLines *lines_ = nullptr;
  // What the library reports from threads of its own.
  std::mutex mutex_;
  std::condition_variable came_;
  bool has_notice_ = false;
  qnn::Error notice_ = 0;
  Vector<Reported> reports_;
  Vector<Unique<Vector<Listed>>> listed_;
};

}  // namespace quarry::record
