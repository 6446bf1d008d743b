// SPDX-License-Identifier: Apache-2.0
// A binary in the library: loaded with the session's configurations, its memory registered, and loaded anew after the
// device was lost.
#pragma once

#include <atomic>
#include <map>

#include "backends/common/processor_memory.h"
#include "backends/htp/engine/emulated_vtcm.h"
#include "backends/htp/engine/engine.h"
#include "backends/htp/program/blob.h"
#include "backends/htp/run/data_provider.h"
#include "backends/htp/run/dynamic_region.h"
#include "backends/htp/settings/config.h"
#include "backends/htp/settings/power.h"

namespace quarry::htp {

struct LibraryContext;

// What the contexts of a runtime know of each other.
class ContextGroups {
 public:
  std::recursive_mutex mutex;      // a context may end while another is made
  StringMap<ContextGroup> groups;  // the first context of each group that shares buffers
  // What sessions with ep.share_ep_contexts have loaded, by binary and what it was loaded with.
  struct Shared {
    std::uint64_t hash, bytes;
    String with;
    std::weak_ptr<LibraryContext> context;
  };
  std::mutex sharing;
  Vector<Shared> shared;
};

// A context of the library's; several sessions may use it.
struct LibraryContext {
  LibraryContext(std::shared_ptr<Engine> of, ContextGroups *all, std::string_view of_group)
      : engine(std::move(of)), groups(all), group(of_group) {}
  ~LibraryContext();
  LibraryContext(const LibraryContext &) = delete;
  LibraryContext &operator=(const LibraryContext &) = delete;
  const std::shared_ptr<Engine> engine;
  ContextGroups *const groups;
  const String group;
  qnn::Handle handle = nullptr;
  std::uint64_t bytes = 0;        // what it takes of a session of the processor, by its plan
  std::size_t session = 0;        // which one, by first fit
  Unique<DataProvider> provider;  // what the library has of it stays until the context has ended
  // Memory that the library has a handle for.
  struct RegisteredAt {
    const plugin::ProcessorMemory *memory;
    std::uint64_t offset;
    std::uint32_t tensor;
    auto operator<=>(const RegisteredAt &) const = default;
  };
  std::mutex registering;
  std::map<RegisteredAt, qnn::Handle, std::less<>, Alloc<std::pair<const RegisteredAt, qnn::Handle>>> registered;
};

class LoadedContext : public HeapObject {
 public:
  struct Request {
    std::span<const std::uint8_t> binary;  // stays until the object ends; its hash must be the blob's
    Settings settings;
    String group;  // context.group; empty: none
    ContextGroups *groups;
    const qr_profile_sink *profile = nullptr;          // of this call alone
    Vector<std::span<const std::uint8_t>> parts = {};  // likewise, of a blob of parts
    const qr_host *host = nullptr;                     // what dynamic regions run on
    const plugin::StopToken *stop = nullptr;           // of this call alone; nullptr: nobody ends it
    Vector<std::uint64_t> wanted = {};                 // graphs of the blob that will be run; empty: all
  };
  static Result<Unique<LoadedContext>> load(std::shared_ptr<Engine> engine, Blob blob, Request request);
  LoadedContext(std::shared_ptr<Engine> engine, Blob blob, Request &&request)
      : engine_(engine),
        blob_(std::move(blob)),
        request_(std::move(request)),
        power_(std::move(engine), read_power_wishes(request_.settings)) {}  // by load() alone
  ~LoadedContext();

  const Blob &blob() const noexcept { return blob_; }
  const Engine &engine() const noexcept { return *engine_; }
  const Settings &settings() const noexcept { return request_.settings; }
  // Counts how often it was closed: handles of the library's from before are gone.
  std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_acquire); }
  qnn::Handle graph(std::size_t index) const noexcept { return graphs_[index]; }
  LoadedContext &part(std::size_t index) noexcept { return *parts_[index]; }
  // Of a graph that has one; else null.
  const LoadedRegion *region(std::size_t graph) const noexcept {
    return graph < regions_.size() ? regions_[graph].get() : nullptr;
  }
  const qr_host &host() const noexcept { return *request_.host; }
  Power &power() noexcept { return power_; }
  Status set_priority(qnn::Priority priority);
  // What the file of htp.lora_sections names, for all its graphs or for one of them; from now on after a loss of the
  // device too.
  Status apply_sections(std::string_view list, const String *graph = nullptr);

  // The library's handle for a tensor in shared memory; made once for each.
  Result<qnn::Handle> registered(const plugin::ProcessorMemory &memory, std::uint64_t offset, const qnn::Tensor &tensor,
                                 std::uint64_t bytes);
  void forget(const plugin::ProcessorMemory &memory);  // it is released

  // Held while handles of submitted runs are given back, and from close() to reopen(): not both at once.
  std::mutex &life() noexcept { return life_; }
  // For what only the runs of the context know of its engine.
  Engine &engine() noexcept { return *engine_; }

  // After the device was lost: before the engine is opened again, and after it.
  void close() noexcept;
  Status reopen();

 private:
  Status open();
  void leave() noexcept;
  void pack();
  Status validate(std::span<const std::uint8_t> binary);
  Status create_from_binary();
  Status create_from_binary(ContextConfigs &configs, const ContextGroup &group);
  Status share_or_create(ContextConfigs &configs, const ContextGroup &group);
  Status give_priority(qnn::Handle graph, const String &name);
  Status enter_group(ContextGroup &out);
  Vector<std::string_view> chosen() const;

  std::shared_ptr<Engine> engine_;
  Blob blob_;
  Request request_;
  Power power_;
  EmulatedVtcm vtcm_;
  std::shared_ptr<LibraryContext> owner_;
  qnn::Handle context_ = nullptr;  // the owner's
  std::atomic<std::uint32_t> generation_{0};
  std::uint64_t spill_bytes_ = 0;
  Vector<qnn::Handle> graphs_;
  String sections_;  // the file that htp.lora_sections named last
  Vector<Unique<LoadedContext>> parts_;
  Vector<Unique<LoadedRegion>> regions_;
  std::mutex life_;
};

}  // namespace quarry::htp
