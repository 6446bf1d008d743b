// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/record/calls.h"

#include "backends/htp/record/parts.h"

namespace quarry::record {

namespace {

template <std::uint32_t kFunction, class Table, auto kSlot, class Parts, class Signature>
struct Replayed;
template <std::uint32_t kFunction, class Table, auto kSlot, class Parts, class... A>
struct Replayed<kFunction, Table, kSlot, Parts, qnn::Error (*)(A...)> {
  static void make(Replay &replay, const Replay::Made &made) {
    Lens lens(replay.reader(), replay, made.call->content);
    std::tuple<A...> arguments{};
    Parts::each([&]<class P, std::size_t I>() { P::template in<I>(lens, arguments); });
    const bool had_ended_well = made.gave && made.gave->head.code == qnn::kOk;
    if (gives(replay, made, lens, arguments, had_ended_well)) {
      Lens gave(replay.reader(), replay, made.gave->content);
      Parts::each([&]<class P, std::size_t I>() { P::template check<I>(replay, gave, arguments); });
      if (gave.why()) replay.leave_out(made, gave.why());
    } else if (had_ended_well && replay.runs()) {
      Lens gave(replay.reader(), replay, made.gave->content);
      Parts::each([&]<class P, std::size_t I>() { P::miss(replay, gave); });
    }
  }

 private:
  // Makes the call. True: it has given what can be held beside the record's.
  static bool gives(Replay &replay, const Replay::Made &made, const Lens &lens, std::tuple<A...> &arguments,
                    bool had_ended_well) {
    if constexpr (Parts::template has<parts::MemoryTaken>() || Parts::template has<parts::Objects>())
      if (had_ended_well && replay.runs() && !lens.why())
        return replay.leave_out(made, "memory that is shared: its tensors lie in plain memory here"), false;
    if (!replay.may_make(made, lens)) return false;
    const Table *const table = replay.table<Table>();
    if (!table || !(table->*kSlot)) return replay.differs(made, "the library has no such function"), false;
    Parts::each([&]<class P, std::size_t I>() { P::template prepare<I>(replay, arguments); });
    return replay.returned(made, call(replay, *table, arguments, had_ended_well));
  }
  static qnn::Error call(Replay &, const Table &table, std::tuple<A...> &arguments, bool had_ended_well) {
    if constexpr (Parts::template has<parts::Provider>())
      if (had_ended_well && table.contextCreateFromBinary) {
        auto &[backend, device, configs, provider, binary, size, context, profile, signal] = arguments;
        return table.contextCreateFromBinary(backend, device, configs, binary, size, context, profile);
      }
    return std::apply(table.*kSlot, arguments);
  }
};

using namespace parts;
constexpr Function kFunctions[] = {
#define QR_QNN_CALL(number, slot, ...) \
  {number, #slot,                      \
   Replayed<number, qnn::Api, &qnn::Api::slot, parts::List<__VA_ARGS__>, decltype(qnn::Api::slot)>::make},
#define QR_HTP_CALL(number, slot, ...)                                             \
  {number, #slot,                                                                  \
   Replayed<number, qnn::HtpInfra, &qnn::HtpInfra::slot, parts::List<__VA_ARGS__>, \
            decltype(qnn::HtpInfra::slot)>::make},
#include "backends/htp/record/calls.inc"
#undef QR_QNN_CALL
#undef QR_HTP_CALL
};

}  // namespace

const Function *find_function(std::uint32_t number) noexcept {
  for (const Function &one : kFunctions)
    if (one.number == number) return &one;
  return nullptr;
}

}  // namespace quarry::record
