// SPDX-License-Identifier: Apache-2.0
// The parts of a call's arguments that calls.inc names: what is written of each, and what a replay makes of that.
//   in(w, arguments)         written by a Pen before the call, read by a Lens
//   wrap(recorder, ...)      what the recorder gives the library in its stead
//   out(pen, arguments)      written when the call has succeeded
//   prepare(replay, ...)     what a replay gives the library in its stead
//   check(replay, lens, ...) what `out` wrote, beside what the replay's call gave
//   miss(replay, lens)       what `out` wrote, where the replay's call gave nothing
#pragma once

#include <tuple>

#include "backends/htp/qnn/log.h"
#include "backends/htp/record/recorder.h"
#include "backends/htp/record/replay.h"
#include "base/hash.h"

namespace quarry::record::parts {

template <std::size_t I, class T>
auto &at(T &arguments) {
  return std::get<I>(arguments);
}
template <class T>
T *&loose(const T *&pointer) {
  return const_cast<T *&>(pointer);
}
template <class T>
T *&loose(T *&pointer) {
  return pointer;
}

struct Part {
  static constexpr std::size_t kArguments = 1;
  template <std::size_t I, class W, class T>
  static void in(W &, T &) {}
  template <std::size_t I, class T>
  static void wrap(Recorder &, T &, std::uint64_t, std::uint32_t) {}
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &, T &) {}
  template <std::size_t I, class T>
  static void prepare(Replay &, T &) {}
  template <std::size_t I, class T>
  static void check(Replay &, Lens &, T &) {}
  static void miss(Replay &, Lens &) {}
};

// A pointer to where the library writes one value: a replay has room of its own for it.
template <class V>
struct Given : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    if constexpr (W::kReads) at<I>(arguments) = w.template one<V>();
  }
};

template <class V>
struct Number : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.number(at<I>(arguments));
  }
};

struct Text : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.text(at<I>(arguments));
  }
};
struct GraphName : Text {
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &, T &arguments) {
    replay.name_next(at<I>(arguments));
  }
};

template <Kind kKind>
struct Object : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.handle(kKind, at<I>(arguments));
  }
};
struct Objects : Part {  // of shared memory, which a replay has not
  static constexpr std::size_t kArguments = 2;
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.number(at<I + 1>(arguments));
    w.some(loose(at<I>(arguments)), at<I + 1>(arguments), [&](qnn::Handle &one) { w.handle(Kind::Memory, one); });
  }
  template <std::size_t I, class T>
  static void out(Recorder &recorder, Pen &, T &arguments) {
    for (std::uint32_t i = 0; i < at<I + 1>(arguments); ++i) recorder.forget_memory(at<I>(arguments)[i]);
  }
};
template <Kind kKind>
struct Made : Given<qnn::Handle> {
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    pen.handle(kKind, *at<I>(arguments));
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &lens, T &arguments) {
    std::uint64_t recorded = 0;
    lens.number(recorded);
    replay.made(kKind, recorded, *at<I>(arguments));
  }
  static void miss(Replay &replay, Lens &lens) {
    std::uint64_t recorded = 0;
    lens.number(recorded);
    replay.forget(kKind, recorded);
  }
};

template <class C>
struct Configs : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    walk_configs(w, at<I>(arguments));
  }
};

struct Operation : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    walk(w, at<I>(arguments));
  }
};

struct TensorMade : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    if constexpr (W::kReads) at<I>(arguments) = w.template one<qnn::Tensor>();
    walk(w, *at<I>(arguments), Content::Static);
  }
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    pen.number(at<I>(arguments)->v1.id);
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &lens, T &arguments) {
    std::uint32_t recorded = 0;
    lens.number(recorded);
    replay.made_tensor(recorded, at<I>(arguments)->v1.id);
  }
};

struct TensorsRead : Part {
  static constexpr std::size_t kArguments = 2;
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    walk_tensors(w, loose(at<I>(arguments)), at<I + 1>(arguments), Content::Given);
  }
};
struct TensorsWritten : Part {
  static constexpr std::size_t kArguments = 2;
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    walk_tensors(w, at<I>(arguments), at<I + 1>(arguments), Content::Room);
  }
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    if (kNotifies<T>) return;  // they come later
    for (std::uint32_t i = 0; i < at<I + 1>(arguments); ++i) pen.written(at<I>(arguments)[i]);
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &lens, T &arguments) {
    if (!kNotifies<T>) replay.compare(lens, at<I>(arguments), at<I + 1>(arguments));
  }

 private:
  template <class T>
  static constexpr bool kNotifies = std::is_same_v<std::tuple_element_t<std::tuple_size_v<T> - 2, T>, qnn::NotifyFn>;
};
// Behind the tensors, a profile and a signal.
struct Notified : Part {
  static constexpr std::size_t kArguments = 2;
  template <std::size_t I, class T>
  static void wrap(Recorder &recorder, T &arguments, std::uint64_t call, std::uint32_t function) {
    at<I + 1>(arguments) = recorder.expect_notice(at<I>(arguments), at<I + 1>(arguments), at<I - 4>(arguments),
                                                  at<I - 3>(arguments), call, function);
    at<I>(arguments) = Recorder::take_notice;
  }
  template <std::size_t I, class T>
  static void prepare(Replay &replay, T &arguments) {
    at<I>(arguments) = Replay::take_notice;
    at<I + 1>(arguments) = &replay;
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &, T &arguments) {
    replay.wait_for_run(at<I - 4>(arguments), at<I - 3>(arguments));
  }
};

struct Binary : Part {
  static constexpr std::size_t kArguments = 2;
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.bytes(at<I>(arguments), at<I + 1>(arguments), true);
  }
};
struct SectionTaken : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    if constexpr (W::kReads) at<I>(arguments) = w.template one<qnn::CtxBuffer>();
    qnn::CtxBuffer &buffer = *loose(at<I>(arguments));
    const void *data = buffer.raw.data;
    w.number(buffer.version), w.number(buffer.mem);
    w.bytes(data, buffer.raw.bytes, true);
    buffer.raw.data = const_cast<void *>(data);
  }
};
struct SizeGiven : Given<qnn::BinSize> {
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    pen.number(*at<I>(arguments));
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &, T &arguments) {
    replay.binary_room(*at<I>(arguments));
  }
};
// Room, its size, and how much of it was written: a sum of it, as whoever loads it gives it whole.
struct BinaryGiven : Part {
  static constexpr std::size_t kArguments = 3;
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.number(at<I + 1>(arguments));
    if constexpr (W::kReads) at<I + 2>(arguments) = w.template one<qnn::BinSize>();
  }
  template <std::size_t I, class T>
  static void prepare(Replay &replay, T &arguments) {
    at<I + 1>(arguments) = replay.binary_room();
    at<I>(arguments) = replay.room_for_binary();
  }
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    const qnn::BinSize written = *at<I + 2>(arguments);
    pen.number(written);
    pen.number(hash64(at<I>(arguments), written));
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &lens, T &arguments) {
    std::uint64_t size = 0, sum = 0;
    lens.number(size), lens.number(sum);
    const qnn::BinSize written = *at<I + 2>(arguments);
    replay.binary(size == written && sum == hash64(at<I>(arguments), written));
  }
};

struct LogTaken : Part {
  template <std::size_t I, class T>
  static void wrap(Recorder &recorder, T &arguments, std::uint64_t, std::uint32_t) {
    at<I>(arguments) = recorder.hear(at<I>(arguments));
  }
  template <std::size_t I, class T>
  static void prepare(Replay &, T &arguments) {
    at<I>(arguments) = qnn::write_log;
  }
};

// ---- measurements: they differ from run to run, so nothing of them is compared

struct Event : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.event(at<I>(arguments));
  }
};
struct EventsGiven : Part {
  static constexpr std::size_t kArguments = 2;
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    if constexpr (W::kReads) {
      at<I>(arguments) = w.template one<const std::uint64_t *>();
      at<I + 1>(arguments) = w.template one<std::uint32_t>();
    }
  }
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    const std::uint32_t count = *at<I + 1>(arguments);
    pen.number(count);
    for (std::uint32_t i = 0; i < count; ++i) pen.event((*at<I>(arguments))[i]);
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &lens, T &arguments) {
    std::uint32_t count = 0;
    lens.number(count);
    for (std::uint32_t i = 0; i < count && !lens.why(); ++i) {
      std::uint64_t recorded = 0;
      lens.number(recorded);
      if (i < *at<I + 1>(arguments)) replay.made_event(recorded, (*at<I>(arguments))[i]);
    }
  }
};
struct EventObject : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    if constexpr (W::kReads) at<I>(arguments) = w.template one<qnn::ExtEventData>();
    w.number(at<I>(arguments)->version);
  }
};
struct EventGiven : Given<qnn::EventData> {
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    const qnn::EventData &data = *at<I>(arguments);
    pen.number(data.type), pen.number(data.unit), pen.number(data.value), pen.text(data.ident);
  }
};

// ---- memory that the library shares with this process: a replay's tensors lie in memory of its own

struct MemoryTaken : Part {
  static constexpr std::size_t kArguments = 3;
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.number(at<I + 1>(arguments));
    w.some(loose(at<I>(arguments)), at<I + 1>(arguments), [&](qnn::MemDesc &desc) {
      w.number(desc.shape.rank), w.number(desc.dtype), w.number(desc.kind);
      walk_each(w, desc.shape.dims, desc.shape.rank);
    });
    if constexpr (W::kReads)
      at<I + 2>(arguments) =
          static_cast<qnn::Handle *>(w.zeros(at<I>(arguments) ? sizeof(qnn::Handle) * at<I + 1>(arguments) : 0));
  }
  template <std::size_t I, class T>
  static void out(Recorder &recorder, Pen &pen, T &arguments) {
    for (std::uint32_t i = 0; i < at<I + 1>(arguments); ++i) {
      pen.handle(Kind::Memory, at<I + 2>(arguments)[i]);
      recorder.map_memory(at<I + 2>(arguments)[i], at<I>(arguments)[i]);
    }
  }
};
// What hands out the parts of a binary is the program's. A replay has none: it refuses, where the record's call failed
// too, and else gives the whole binary.
struct Provider : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    std::uint32_t kind = 0;
    if constexpr (!W::kReads) kind = at<I>(arguments)->kind;
    w.number(kind);
    if constexpr (W::kReads) {
      qnn::BinCallback *const made = w.template one<qnn::BinCallback>();
      made->kind = kind, made->version = 1;
      made->dma.provide = [](qnn::BinRequest, qnn::BinDmaReply *, void *) -> qnn::Error { return 1000; };
      made->dma.release = [](qnn::BinDmaMem, void *) -> qnn::Error { return 1000; };
      at<I>(arguments) = made;
    }
  }
};

struct ContextList : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.list(at<I>(arguments), [&](qnn::CtxParams &one) {
      w.number(one.version);
      if (one.version != 1) return w.fail("a context of a list of another version");
      walk_configs(w, one.v1.config);
      w.bytes(one.v1.bin, one.v1.bytes, true);
      w.handle(Kind::Profile, one.v1.profile);
    });
  }
  template <std::size_t I, class T>
  static void wrap(Recorder &recorder, T &arguments, std::uint64_t call, std::uint32_t function) {
    at<I>(arguments) = recorder.expect_contexts(at<I>(arguments), call, function);
  }
  template <std::size_t I, class T>
  static void prepare(Replay &replay, T &arguments) {
    replay.expect_contexts(at<I>(arguments));
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &, T &) {
    replay.wait_for_contexts();
  }
  static void miss(Replay &replay, Lens &) { replay.forget_contexts(); }
};

// ---- what the device is, and votes for its clocks

struct PlatformGiven : Given<const qnn::PlatformInfo *> {
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    pen.handle(Kind::Platform, const_cast<qnn::PlatformInfo *>(*at<I>(arguments)));
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &lens, T &arguments) {
    std::uint64_t recorded = 0;
    lens.number(recorded);
    replay.made(Kind::Platform, recorded, const_cast<qnn::PlatformInfo *>(*at<I>(arguments)));
  }
};
struct PlatformTaken : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    qnn::Handle handle = const_cast<qnn::PlatformInfo *>(at<I>(arguments));
    w.handle(Kind::Platform, handle);
    at<I>(arguments) = static_cast<const qnn::PlatformInfo *>(handle);
  }
};
struct Infrastructure : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    if constexpr (W::kReads) at<I>(arguments) = w.template one<void *>();
  }
  template <std::size_t I, class T>
  static void out(Recorder &recorder, Pen &, T &arguments) {
    *const_cast<void **>(at<I>(arguments)) = recorder.infra_before(*at<I>(arguments));
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &, T &arguments) {
    replay.take_infra(*at<I>(arguments));
  }
};
struct Power : Part {
  template <std::size_t I, class W, class T>
  static void in(W &w, T &arguments) {
    w.power_id(at<I>(arguments));
  }
};
struct PowerMade : Given<std::uint32_t> {
  template <std::size_t I, class T>
  static void out(Recorder &, Pen &pen, T &arguments) {
    pen.number(*at<I>(arguments));
  }
  template <std::size_t I, class T>
  static void check(Replay &replay, Lens &lens, T &arguments) {
    std::uint32_t recorded = 0;
    lens.number(recorded);
    replay.made_power(recorded, *at<I>(arguments));
  }
};

// All arguments of a call, one part after another.
template <class... P>
struct List {
  template <class F>
  static void each(F f) {
    each_from<0, P...>(f);
  }
  template <class Which>
  static constexpr bool has() {
    return (std::is_same_v<Which, P> || ...);
  }

 private:
  template <std::size_t I, class F>
  static void each_from(F &) {}
  template <std::size_t I, class First, class... Rest, class F>
  static void each_from(F &f) {
    f.template operator()<First, I>();
    each_from<I + First::kArguments, Rest...>(f);
  }
};

}  // namespace quarry::record::parts
