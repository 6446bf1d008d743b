// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/record/replay.h"

#include <algorithm>
#include <chrono>

#include "backends/htp/qnn/log.h"
#include "backends/htp/record/calls.h"
#include "base/stop.h"

namespace quarry::record {

namespace {

constexpr std::size_t kMostFindings = 20;
constexpr std::chrono::seconds kMostWait{600};  // for what the library said it would report

bool ended_by_signal(qnn::Error error) {
  switch (qnn::code_of(error)) {
    case qnn::Code::GraphAborted:
    case qnn::Code::GraphTimeout:
    case qnn::Code::ContextAborted:
    case qnn::Code::ContextTimeout: return true;
    default: return false;
  }
}

String code_text(std::uint64_t code) { return code == qnn::kOk ? String("success") : qnn::error_text(code); }

void keep(Vector<Finding> &list, std::uint64_t &count, const Replay::Made &made, String what) {
  ++count;
  if (list.size() < kMostFindings) list.push_back({made.call->head.call, made.call->head.function, std::move(what)});
}

}  // namespace

const char *Replay::function_name(std::uint32_t function) noexcept {
  const Function *const found = find_function(function);
  return found ? found->name : "an unknown function";
}

Status Replay::check_weights() const {
  if (reader_.keeps_weights()) return {};
  return Status::error(
      ErrorId::backend_limit,
      format("the record: found %llu bytes of weights left out, expected all of them", reader_.left_out()),
      "record again with htp.record_weights=1; without weights its calls can only be listed");
}

void Replay::index() {
  for (const Reader::Entry &entry : reader_.entries()) {
    if (entry.kind == EntryKind::Return) returns_[entry.head.call] = &entry;
    if (entry.kind == EntryKind::Notice) notices_.emplace(entry.head.call, &entry);
    if (entry.kind == EntryKind::Line) ++outcome_.line_count;
  }
}

Vector<const Reader::Entry *> Replay::notices_of(std::uint64_t call) const {
  Vector<const Reader::Entry *> found;
  const auto [first, last] = notices_.equal_range(call);
  for (auto at = first; at != last; ++at) found.push_back(at->second);
  return found;
}

Status Replay::run() {
  if (library_) QR_RETURN_IF_ERROR(check_weights());
  index();
  for (const Reader::Entry &entry : reader_.entries()) {
    if (entry.kind != EntryKind::Call) continue;
    QR_RETURN_IF_ERROR(stop_status("replay"));
    const auto found = returns_.find(entry.head.call);
    current_ = {&entry, found == returns_.end() ? nullptr : found->second};
    if (!current_.gave) outcome_.unfinished = entry.head.call;
    const Function *const function = find_function(entry.head.function);
    if (!function || (current_.gave && current_.gave->head.function != entry.head.function))
      return Status::error(ErrorId::unknown_format,
                           format("the record: found function %u in call %llu, expected one that records have",
                                  entry.head.function, entry.head.call),
                           "replay it with the release of Quarry that wrote it");
    next_name_.clear();
    const qnn::LogLines lines;
    lines_ = &lines;
    function->make(*this, current_);
  }
  return {};
}

bool Replay::may_make(const Made &made, const Lens &lens) {
  graph_ = lens.graph();
  if (made.call->head.flags & kPartly)
    return leave_out(made, "it is not in the record wholly: an argument of a kind that records have not"), false;
  if (lens.why()) return leave_out(made, format("its entry cannot be read: %s", lens.why())), false;
  if (!library_) return false;
  if (!made.gave && unfinished_ == Unfinished::LeaveOut) return false;
  if (made.gave && ended_by_signal(made.gave->head.code))
    return leave_out(made, "it was ended by a signal while it ran"), false;
  for (const Reader::Entry *const notice : notices_of(made.call->head.call))
    if (ended_by_signal(notice->head.code)) return leave_out(made, "it was ended by a signal while it ran"), false;
  if (lens.is_stranger()) return leave_out(made, "it is of something that no call before it has made here"), false;
  if (lens.lacks_weights()) return leave_out(made, "weights that were left out"), false;
  return true;
}

void Replay::leave_out(const Made &made, String why) {
  keep(outcome_.skipped, outcome_.left_out, made, std::move(why));
}

void Replay::differs(const Made &made, String what) {
  const String said = lines_ ? lines_->text() : String();
  if (!said.empty()) what += "; the library says: " + said;
  keep(outcome_.differences, outcome_.differing, made, std::move(what));
}

bool Replay::returned(const Made &made, qnn::Error error) {
  ++outcome_.made;
  if (!made.gave) return false;
  const std::uint64_t recorded = made.gave->head.code;
  if (qnn::code_of(recorded) != qnn::code_of(error)) {
    differs(made, format("it returned %s, recorded %s", code_text(error), code_text(recorded)));
    return false;
  }
  if (error != qnn::kOk) {
    keep(outcome_.errors, outcome_.refused, made, code_text(error));
    return false;
  }
  return true;
}

// ---- names

bool Replay::handle(Kind kind, std::uint64_t recorded, qnn::Handle *out) const {
  if (!library_) return true;
  const auto found = handles_.find({kind, recorded});
  if (found == handles_.end()) return false;
  *out = found->second;
  return true;
}
std::uint32_t Replay::tensor(std::uint64_t graph, std::uint32_t recorded) const {
  const auto found = tensors_.find(TensorKey(graph, recorded));
  return found == tensors_.end() ? recorded : found->second;
}
bool Replay::event(std::uint64_t recorded, std::uint64_t *out) const {
  if (!library_) return true;
  const auto found = events_.find(recorded);
  if (found == events_.end()) return false;
  *out = found->second;
  return true;
}
std::uint32_t Replay::power(std::uint32_t recorded) const {
  const auto found = powers_.find(recorded);
  return found == powers_.end() ? recorded : found->second;
}

void Replay::made(Kind kind, std::uint64_t recorded, qnn::Handle here) {
  handles_[{kind, recorded}] = here;
  if (kind != Kind::Graph) return;
  // The library gives the number of what was freed again: this is another object, whose tensors have their own ids.
  tensors_.erase(tensors_.lower_bound(TensorKey(recorded, 0)), tensors_.upper_bound(TensorKey(recorded, UINT32_MAX)));
  names_.erase(recorded);
  if (!next_name_.empty()) names_[recorded] = next_name_;
}

// ---- outputs

void Replay::compare(Lens &lens, const qnn::Tensor *out, std::uint32_t count) {
  ++outcome_.runs;
  String found;
  for (std::uint32_t i = 0; i < count; ++i) {
    const void *data = nullptr;
    std::uint64_t size = 0;
    std::uint32_t id = 0;
    lens.number(id), lens.bytes(data, size, false);
    if (lens.why()) return leave_out(current_, format("its outputs cannot be read: %s", lens.why()));
    const qnn::Buf &here = out[i].v1.buf;
    ++outcome_.outputs;
    outcome_.output_bytes += size;
    const auto *const want = static_cast<const std::uint8_t *>(data), *const have =
                                                                          static_cast<const std::uint8_t *>(here.data);
    if (size != here.bytes || (size > 0 && (!want || !have))) {
      if (found.empty()) found = format("output %u: found %u bytes, recorded %llu", i, here.bytes, size);
      continue;
    }
    std::uint64_t differing = 0, first = 0;
    for (std::uint64_t k = 0; k < size; ++k)
      if (want[k] != have[k] && differing++ == 0) first = k;
    if (differing > 0 && found.empty())
      found = format("output %u (tensor %u): byte %llu is %02x, recorded %02x; %llu of %llu bytes differ", i, id, first,
                     have[first], want[first], differing, size);
  }
  if (found.empty()) return;
  const auto graph = names_.find(graph_);
  differs(current_, graph == names_.end() ? found : format("graph '%s', ", printable(graph->second)) + found);
}

void *Replay::room_for_binary() {
  binary_.assign(binary_room_, 0);
  return binary_.data();
}

// ---- what comes from the library's threads

void Replay::take_notice(void *self, qnn::NotifyStatus status) {
  Replay &replay = *static_cast<Replay *>(self);
  const std::lock_guard lock(replay.mutex_);
  replay.has_notice_ = true, replay.notice_ = status.error;
  replay.came_.notify_all();
}

void Replay::wait_for_run(const qnn::Tensor *out, std::uint32_t count) {
  std::unique_lock lock(mutex_);
  if (!came_.wait_for(lock, kMostWait, [this] { return has_notice_; }))
    return differs(current_, "nothing was reported of its end");
  has_notice_ = false;
  const auto notices = notices_of(current_.call->head.call);
  if (notices.empty()) return leave_out(current_, "the record ends before what was reported of its end");
  if (qnn::code_of(notices[0]->head.code) != qnn::code_of(notice_))
    return differs(current_,
                   format("it reported %s, recorded %s", code_text(notice_), code_text(notices[0]->head.code)));
  if (notice_ != qnn::kOk) return;
  Lens lens(reader_, *this, notices[0]->content);
  compare(lens, out, count);
}

void Replay::expect_contexts(const qnn::CtxParams **list) {
  reports_.clear();
  std::uint32_t count = 0;
  while (list && list[count]) ++count;
  listed_.push_back(quarry::make_unique<Vector<Listed>>());
  Vector<Listed> &all = *listed_.back();
  for (std::uint32_t i = 0; i < count; ++i) all.push_back({this, i});
  for (std::uint32_t i = 0; i < count; ++i) {
    auto &one = const_cast<qnn::CtxParams &>(*list[i]).v1;  // the Lens's own
    one.arg = &all[i];
    one.fn = [](qnn::Handle context, qnn::Handle graph, const char *, std::uint32_t what, void *self,
                qnn::Error status) {
      const Listed &listed = *static_cast<const Listed *>(self);
      const std::lock_guard lock(listed.self->mutex_);
      listed.self->reports_.push_back({listed.place, what, context, graph, status});
      listed.self->came_.notify_all();
    };
  }
}

namespace {

constexpr std::uint32_t kContext = 1;  // what a report is of

// What a recorder writes of a report.
struct ListedNotice {
  explicit ListedNotice(Lens &lens) { lens.number(place), lens.number(what), lens.number(context), lens.number(graph); }
  std::uint32_t place = 0, what = 0;
  std::uint64_t context = 0, graph = 0;
};

}  // namespace

void Replay::forget_contexts() {
  for (const Reader::Entry *const notice : notices_of(current_.call->head.call)) {
    Lens lens(reader_, *this, notice->content);
    forget(Kind::Context, ListedNotice(lens).context);
  }
}

void Replay::wait_for_contexts() {
  const auto notices = notices_of(current_.call->head.call);
  std::unique_lock lock(mutex_);
  if (!came_.wait_for(lock, kMostWait, [&] { return reports_.size() >= notices.size(); }))
    return differs(current_, format("it reported %zu times, recorded %zu times", reports_.size(), notices.size()));
  for (const Reader::Entry *const notice : notices) {
    Lens lens(reader_, *this, notice->content);
    const ListedNotice told(lens);
    const std::uint32_t place = told.place, what = told.what;
    const std::uint64_t context = told.context;
    const auto same = std::ranges::find_if(
        reports_, [&](const Reported &one) { return one.place == place && (what != kContext || one.what == what); });
    if (same == reports_.end()) return differs(current_, format("nothing was reported of context %u", place));
    if (what != kContext) continue;
    if (qnn::code_of(same->status) != qnn::code_of(notice->head.code))
      return differs(current_, format("of context %u it reported %s, recorded %s", place, code_text(same->status),
                                      code_text(notice->head.code)));
    if (context && same->context) handles_[{Kind::Context, context}] = same->context;
  }
}

}  // namespace quarry::record
