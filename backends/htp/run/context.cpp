// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/context.h"

#include <algorithm>
#include <optional>

#include "backends/htp/program/binary_hash.h"
#include "backends/htp/program/metadata.h"
#include "backends/htp/run/packing.h"
#include "backends/htp/run/profile.h"
#include "backends/htp/run/sections.h"
#include "base/checked.h"
#include "base/os/path.h"

namespace quarry::htp {

namespace {

constexpr char kOther[] =
    "the binary may be of a newer library than the one here, or for another device: compile the model again";
constexpr char kNoGraph[] =
    "the emulator finds no graph in a binary that was compiled with slc_alloc_enable (htp.config_file): to run here, "
    "compile without it";
constexpr char kRefused[] = "the library's word on what was asked for counts: leave out the option that it refuses";

}  // namespace

namespace {

// How contexts of a list share, as the library numbers it.
std::uint32_t share_type(const Settings &settings) {
  const std::string_view type = settings.text("htp.share_resources_type");
  return type == "concurrent" ? 2 : type == "sequential_without_va" ? 1 : 0;
}

}  // namespace

LibraryContext::~LibraryContext() {
  for (const auto &[place, memory] : registered) (void)engine->api().memDeRegister(&memory, 1);
  if (!handle) return;
  Packing::of_process().leave(session, bytes);
  std::unique_lock lock(groups->mutex);
  // The others keep what they share; one that comes now begins a group anew. Nobody is given the handle meanwhile.
  const auto found = groups->groups.find(group);
  if (found != groups->groups.end() && found->second.first == handle) groups->groups.erase(found);
  else lock.unlock();
  (void)engine->api().contextFree(handle, nullptr);  // and then what it was provided with
}

Result<Unique<LoadedContext>> LoadedContext::load(std::shared_ptr<Engine> engine, Blob blob, Request request) {
  if (request.binary.size() != blob.binary_bytes)
    return Status::error(ErrorId::backend_bad_blob, format("htp blob: found a binary of %zu bytes, expected %llu",
                                                           request.binary.size(), blob.binary_bytes));
  if (const std::uint64_t hash = binary_hash(request.binary); hash != blob.binary_hash)
    return Status::error(
        ErrorId::backend_bad_blob,
        format("htp blob: found a binary whose hash is %016llx, expected %016llx", hash, blob.binary_hash));
  auto made = quarry::make_unique<LoadedContext>(std::move(engine), std::move(blob), std::move(request));
  if (made->blob_.binary_bytes == 0) {
    made->graphs_.resize(made->blob_.graphs.size());
    for (std::size_t i = 0; i < made->blob_.parts.size(); ++i) {
      const Request &all = made->request_;
      Request one{all.parts[i], all.settings, all.group, all.groups, all.profile, {}, all.host, all.stop};
      QR_ASSIGN_OR_RETURN(Unique<LoadedContext> part, load(made->engine_, made->blob_.parts[i], std::move(one)));
      made->parts_.push_back(std::move(part));
    }
    for (const BlobGraph &graph : made->blob_.graphs) {
      Unique<LoadedRegion> region;
      if (!graph.region.qir.empty()) {
        QR_ASSIGN_OR_RETURN(region, load_region(made->blob_, graph));
      }
      made->regions_.push_back(std::move(region));
    }
    made->request_.profile = nullptr, made->request_.stop = nullptr;
    return made;
  }
  QR_ASSIGN_OR_RETURN(const Unique<Metadata> metadata, Metadata::read(made->engine_->library(), made->request_.binary));
  if (const std::uint64_t shared = metadata->shared_weights(); shared > 0 && qnn::Library::emulates())
    return Status::error(ErrorId::backend_limit,
                         format("the binary: found %zu graphs that share %llu bytes of weights, expected graphs with "
                                "weights of their own: the library for x86 loads none that share, and ends the process",
                                metadata->graphs().size(), shared),
                         "run it on a device; to run here, compile without enable_htp_weight_sharing");
  for (const BlobGraph &graph : made->blob_.graphs) {
    if (!graph.on_device) continue;
    QR_RETURN_IF_ERROR(metadata->check(graph));
    made->spill_bytes_ = std::max(made->spill_bytes_, graph.spill_bytes);
  }
  QR_RETURN_IF_ERROR(check_power_wishes(made->settings(), made->engine_->soc()));
  Vector<std::string_view> names;
  for (const BlobGraph &graph : made->blob_.graphs) names.push_back(graph.name);
  QR_RETURN_IF_ERROR(check_switching(made->settings(), names));
  QR_ASSIGN_OR_RETURN(made->vtcm_, EmulatedVtcm::hold(made->engine_->soc(), EmulatedVtcm::For::Context));
  QR_RETURN_IF_ERROR(made->open());
  made->request_.profile = nullptr, made->request_.stop = nullptr;
  return made;
}

Status LoadedContext::enter_group(ContextGroup &out) {
  const bool shares = settings().flag("enable_htp_spill_fill_buffer"),
             shares_vtcm = settings().flag("enable_vtcm_backup_buffer_sharing");
  if (!shares && !shares_vtcm) return {};
  const char *const option = shares ? "enable_htp_spill_fill_buffer" : "enable_vtcm_backup_buffer_sharing";
  if (shares && shares_vtcm)
    return Status::error(ErrorId::option_conflict,
                         "options enable_htp_spill_fill_buffer and enable_vtcm_backup_buffer_sharing: found both, "
                         "expected one: the second shares spill-fill memory too");
  const std::uint64_t given = settings().number("htp.max_spill_fill_buffer");
  // Without a name all contexts of the process that ask for it are one group.
  ContextGroup &group = request_.groups->groups[request_.group];
  if (!group.first) group.max_spill = given > 0 ? given : spill_bytes_;
  if (spill_bytes_ > group.max_spill)
    return Status::error(
        ErrorId::backend_limit,
        format("option %s: this context needs %llu bytes of spill-fill memory, the group was made for %llu", option,
               spill_bytes_, group.max_spill),
        "create the session that needs most first, or say how much by htp.max_spill_fill_buffer");
  out = group;
  return {};
}

// The graphs that are loaded, where others are not; empty: all. A context that sessions of several networks share has
// them all.
Vector<std::string_view> LoadedContext::chosen() const {
  Vector<std::string_view> names = settings().all("file.enable_graphs");
  if (!names.empty() || settings().flag("ep.share_ep_contexts")) return names;
  for (const std::uint64_t index : request_.wanted)
    if (index < blob_.graphs.size()) names.push_back(blob_.graphs[index].name);
  return names;
}

Status LoadedContext::create_from_binary() {
  ContextGroup group;
  // From here until the group has its first context, or this one is made beside it: nobody else enters or ends it.
  std::unique_lock lock(request_.groups->mutex, std::defer_lock);
  if (settings().flag("enable_htp_spill_fill_buffer") || settings().flag("enable_vtcm_backup_buffer_sharing"))
    QR_RETURN_IF_ERROR(plugin::lock_or_stop(lock, "load"));
  QR_RETURN_IF_ERROR(enter_group(group));
  const ContextConfigs::Graphs graphs{blob_.graphs.size(), chosen()};
  ContextConfigs configs(settings(), ContextConfigs::For::Load, &group, &graphs);
  return settings().flag("ep.share_ep_contexts") ? share_or_create(configs, group) : create_from_binary(configs, group);
}

// Another session's, where it was loaded from the same binary with the same configurations.
Status LoadedContext::share_or_create(ContextConfigs &configs, const ContextGroup &group) {
  ContextGroups &all = *request_.groups;
  std::unique_lock lock(all.sharing, std::defer_lock);  // while one loads, the next waits for it
  QR_RETURN_IF_ERROR(plugin::lock_or_stop(lock, "load"));
  std::erase_if(all.shared, [](const ContextGroups::Shared &one) { return one.context.expired(); });
  const String with = request_.group + "\n" + configs.text();
  for (const ContextGroups::Shared &one : all.shared) {
    std::shared_ptr<LibraryContext> found = one.context.lock();
    if (!found || found->engine != engine_ || one.hash != blob_.binary_hash || one.bytes != blob_.binary_bytes ||
        one.with != with)
      continue;
    owner_ = std::move(found), context_ = owner_->handle;
    break;
  }
  if (!context_) {
    QR_RETURN_IF_ERROR(create_from_binary(configs, group));
    all.shared.push_back({blob_.binary_hash, blob_.binary_bytes, with, owner_});
  }
  if (settings().flag("ep.stop_share_ep_contexts")) all.shared.clear();
  return {};
}

// Whether the library too finds the binary to be made for this very device. The emulator has no answer.
Status LoadedContext::validate(std::span<const std::uint8_t> binary) {
  const qnn::Api &api = engine_->api();
  if (settings().text("htp.compatibility") != "strict" || !api.contextValidateBinary) return {};
  qnn::ContextConfig strict{};
  strict.option = qnn::ContextOpt::BinaryCompat, strict.compat = 1;
  const qnn::ContextConfig *list[] = {&strict, nullptr};
  qnn::LogLines lines;
  const qnn::Error error =
      api.contextValidateBinary(engine_->backend(), engine_->device(), list, binary.data(), binary.size());
  if (error == qnn::kOk || qnn::code_of(error) == qnn::Code::NotSupported) return {};
  return qnn::call_failed("contextValidateBinary with htp.compatibility=strict", error, &lines, kOther);
}

Status LoadedContext::create_from_binary(ContextConfigs &configs, const ContextGroup &group) {
  const qnn::Api &api = engine_->api();
  QR_RETURN_IF_ERROR(validate(request_.binary));
  std::span<const std::uint8_t> binary = request_.binary;
  Vector<std::uint8_t> copy;
  if (settings().flag("disable_file_mapped_weights")) {
    copy.assign(binary.begin(), binary.end());
    binary = copy;
  }
  owner_ = std::allocate_shared<LibraryContext>(Alloc<LibraryContext>(), engine_, request_.groups, request_.group);
  const String with = configs.text().empty() ? String() : " with " + configs.text();
  if (settings().flag("htp_share_resource_optimization")) {
    const auto graphs = std::ranges::count_if(blob_.graphs, [](const BlobGraph &graph) { return graph.on_device; });
    QR_ASSIGN_OR_RETURN(owner_->handle, ListedContext::create(*engine_, binary, static_cast<std::uint64_t>(graphs),
                                                              configs.list(), share_type(settings())));
  } else {
    qnn::LogLines lines;
    ProfiledCall profiled(*engine_, request_.profile, settings().flag("htp.optrace"),
                          settings().text("htp.optrace_dir"));
    QR_RETURN_IF_ERROR(profiled.status());
    std::optional<Interrupter::Call> interrupted;
    if (request_.stop) interrupted.emplace(engine_->interrupter(), *request_.stop, true);
    const qnn::Handle signal = interrupted ? interrupted->signal() : nullptr;
    const auto failed = [&](const String &call, qnn::Error error, const char *hint) {
      if (signal && request_.stop->stopped()) return request_.stop->status("load");
      return qnn::call_failed(call, error, &lines, hint);
    };
    if (settings().flag("htp.data_provider")) {
      if (!api.contextCreateFromBinaryWithCallback)
        return qnn::slot_missing(engine_->library(), "contextCreateFromBinaryWithCallback", "htp.data_provider");
      const String &path = engine_->library().path();
      owner_->provider = quarry::make_unique<DataProvider>(binary, path.substr(0, os::last_separator(path) + 1));
      const qnn::BinCallback callback = owner_->provider->callback();
      if (const qnn::Error error = api.contextCreateFromBinaryWithCallback(
              engine_->backend(), engine_->device(), configs.list(), &callback, binary.data(), binary.size(),
              &owner_->handle, profiled.handle(), signal))
        return failed("contextCreateFromBinaryWithCallback (htp.data_provider=1)" + with, error, kRefused);
      owner_->provider->finish();
    } else if (signal && api.contextCreateFromBinaryWithSignal) {
      if (const qnn::Error error = api.contextCreateFromBinaryWithSignal(engine_->backend(), engine_->device(),
                                                                         configs.list(), binary.data(), binary.size(),
                                                                         &owner_->handle, profiled.handle(), signal))
        return failed("contextCreateFromBinaryWithSignal" + with, error, with.empty() ? kOther : kRefused);
    } else if (const qnn::Error error =
                   api.contextCreateFromBinary(engine_->backend(), engine_->device(), configs.list(), binary.data(),
                                               binary.size(), &owner_->handle, profiled.handle())) {
      return failed("contextCreateFromBinary" + with, error, with.empty() ? kOther : kRefused);
    }
    profiled.tell("contextCreateFromBinary", nullptr);
  }
  context_ = owner_->handle;
  pack();
  if (group.max_spill > 0 && !group.first) request_.groups->groups[request_.group].first = context_;
  return {};
}

// Says in which session of the processor the context lies by first fit, which the library itself keeps to itself.
void LoadedContext::pack() {
  LibraryContext &owner = *owner_;
  owner.bytes = request_.binary.size() + spill_bytes_;
  for (const BlobGraph &graph : blob_.graphs)
    for (const auto *list : {&graph.inputs, &graph.outputs})
      for (const BlobTensor &tensor : *list)
        owner.bytes +=
            packed_size(tensor.dtype, element_count(tensor.shape.data(), tensor.shape.size()).value_or(0)).value_or(0);
  Packing &packing = Packing::of_process();
  owner.session = packing.enter(owner.bytes);
  if (!request_.host) return;
  const auto megabytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  plugin::log(
      *request_.host, owner.bytes > kSessionBytes ? QR_LOG_WARN : QR_LOG_INFO, "session",
      format("a context of %.1f MB (program, spill-fill, inputs and outputs): by first fit in session %zu of the "
             "processor, which has %.1f of %.0f MB then%s",
             megabytes(owner.bytes), owner.session, megabytes(packing.used(owner.session)), megabytes(kSessionBytes),
             owner.bytes > kSessionBytes ? ": more than there is; cut the model (quarry cut)" : ""));
}

Status LoadedContext::open() {
  const qnn::Api &api = engine_->api();
  QR_RETURN_IF_ERROR(power_.begin());
  QR_RETURN_IF_ERROR(create_from_binary());
  const Vector<std::string_view> enabled = chosen();
  for (const BlobGraph &graph : blob_.graphs) {
    qnn::LogLines lines;
    qnn::Handle handle = nullptr;
    if (!graph.on_device || (!enabled.empty() && std::ranges::find(enabled, graph.name) == enabled.end())) {
      graphs_.push_back(nullptr);
      continue;
    }
    if (const qnn::Error error = api.graphRetrieve(context_, graph.name.c_str(), &handle))
      return qnn::call_failed("graphRetrieve " + printable(graph.name), error, &lines,
                              qnn::Library::emulates() ? kNoGraph : kOther);
    QR_RETURN_IF_ERROR(give_priority(handle, graph.name));
    graphs_.push_back(handle);
  }
  const String list = sections_.empty() ? String(settings().text("htp.lora_sections")) : sections_;
  if (!list.empty()) QR_RETURN_IF_ERROR(apply_sections(list));
  return power_.end();
}

Status LoadedContext::apply_sections(std::string_view list, const String *graph) {
  if (list.empty())
    return Status::error(ErrorId::bad_option_value,
                         "option htp.lora_sections: found nothing, expected a file: sections take the place of others, "
                         "and are not taken back",
                         "apply the section that the context was made with");
  QR_ASSIGN_OR_RETURN(const Vector<Section> sections, read_section_list(list));
  for (const Section &section : sections) {
    if (graph && section.graph != *graph) continue;
    const auto found = std::ranges::find(blob_.graphs, section.graph, &BlobGraph::name);
    const std::size_t index = static_cast<std::size_t>(found - blob_.graphs.begin());
    if (index >= graphs_.size() || !graphs_[index]) {
      String known;
      for (std::size_t i = 0; i < graphs_.size(); ++i)
        if (graphs_[i]) known += (known.empty() ? "" : ", ") + printable(blob_.graphs[i].name);
      return Status::error(ErrorId::bad_option_value,
                           format("option htp.lora_sections, %s: found graph '%s', expected one of those that are "
                                  "loaded: %s",
                                  printable(list, 1000), printable(section.graph), known));
    }
    QR_RETURN_IF_ERROR(apply_section(*engine_, context_, graphs_[index], section));
  }
  sections_ = list;
  return {};
}

// What htp.config_file says of one graph; those of the context are all alike otherwise.
Status LoadedContext::give_priority(qnn::Handle graph, const String &name) {
  const std::string_view word = settings().text("file.graph_priority", name);
  const qnn::Api &api = engine_->api();
  if (word.empty()) return {};
  if (!api.graphSetConfig) return qnn::slot_missing(engine_->library(), "graphSetConfig", "htp.config_file");
  qnn::GraphConfig config{};
  config.option = qnn::GraphOpt::Priority, config.priority = read_priority(word);
  const qnn::GraphConfig *list[] = {&config, nullptr};
  qnn::LogLines lines;
  if (const qnn::Error error = api.graphSetConfig(graph, list))
    return qnn::call_failed(format("graphSetConfig %s with graph_priority=%s", printable(name), printable(word)), error,
                            &lines, kRefused);
  return {};
}

Status LoadedContext::set_priority(qnn::Priority priority) {
  for (const auto &part : parts_) QR_RETURN_IF_ERROR(part->set_priority(priority));
  const qnn::Api &api = engine_->api();
  if (!context_ || !api.contextSetConfig) return {};
  qnn::ContextConfig config{};
  config.option = qnn::ContextOpt::Priority, config.priority = priority;
  const qnn::ContextConfig *list[] = {&config, nullptr};
  qnn::LogLines lines;
  if (const qnn::Error error = api.contextSetConfig(context_, list))
    return qnn::call_failed(format("contextSetConfig with priority %u", static_cast<unsigned>(priority)), error,
                            &lines);
  return {};
}

Result<qnn::Handle> LoadedContext::registered(const plugin::ProcessorMemory &memory, std::uint64_t offset,
                                              const qnn::Tensor &tensor, std::uint64_t bytes) {
  offset += memory.offset;
  const qnn::Api &api = engine_->api();
  LibraryContext &owner = *owner_;
  const LibraryContext::RegisteredAt place{&memory, offset, tensor.v1.id};
  const std::lock_guard lock(owner.registering);
  if (const auto found = owner.registered.find(place); found != owner.registered.end())
    return qnn::Handle(found->second);
  if (!api.memRegister || !api.memDeRegister)
    return qnn::slot_missing(engine_->library(), "memRegister", "enable_htp_shared_memory_allocator");
  constexpr std::uint32_t kSharedBuffer = 1;
  qnn::HtpMemDesc shared{};
  shared.kind = kSharedBuffer, shared.size = bytes;
  shared.shared = {memory.fd, offset};
  qnn::MemDesc desc{};
  desc.shape = {tensor.v1.rank, tensor.v1.dims, nullptr};
  desc.dtype = tensor.v1.dtype;
  if (offset == 0) desc.kind = qnn::MemKind::Ion, desc.ion_fd = memory.fd;
  else desc.kind = qnn::MemKind::Custom, desc.custom = &shared;
  qnn::LogLines lines;
  qnn::Handle handle = nullptr;
  if (const qnn::Error error = api.memRegister(context_, &desc, 1, &handle))
    return qnn::call_failed("memRegister (enable_htp_shared_memory_allocator=1)", error, &lines, kRefused);
  owner.registered.emplace(place, handle);
  return handle;
}

void LoadedContext::forget(const plugin::ProcessorMemory &memory) {
  for (const auto &part : parts_) part->forget(memory);
  if (!owner_) return;
  const std::lock_guard lock(owner_->registering);
  for (auto at = owner_->registered.begin(); at != owner_->registered.end();) {
    if (at->first.memory != &memory) {
      ++at;
      continue;
    }
    (void)engine_->api().memDeRegister(&at->second, 1);
    at = owner_->registered.erase(at);
  }
}

void LoadedContext::close() noexcept {
  for (const auto &part : parts_) part->close();
  power_.forget();  // the device is freed next: no vote may reach it from here on
  leave();
}

void LoadedContext::leave() noexcept {
  generation_.fetch_add(1, std::memory_order_release);
  graphs_.clear();
  owner_.reset();
  context_ = nullptr;
}

Status LoadedContext::reopen() {
  for (const auto &part : parts_) QR_RETURN_IF_ERROR(part->reopen());
  if (blob_.binary_bytes > 0) return open();
  graphs_.resize(blob_.graphs.size());
  return {};
}

LoadedContext::~LoadedContext() {
  if (context_) (void)power_.begin();  // what is freed has the votes too; they go with the context
  parts_.clear();
  leave();
}

}  // namespace quarry::htp
