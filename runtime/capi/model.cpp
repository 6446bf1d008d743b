// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/capi/edge.h"
#include "runtime/compile/compile_child.h"
#include "runtime/compile/loaded_model.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

Status dim_name(const char *function, const Vector<qrm::TensorInfo> &tensors, uint64_t index, uint64_t axis,
                qr_string *out_name) {
  if (index >= tensors.size()) return index_out_of_range(function, "index", index, tensors.size());
  const qrm::TensorInfo &info = tensors[index];
  if (axis >= info.dims.size()) return index_out_of_range(function, "axis", axis, info.dims.size());
  *out_name = axis < info.dim_names.size() ? string_of(info.dim_names[axis]) : qr_string{"", 0};
  return {};
}

// qr_model_compile and qr_model_export.
qr_status *write_model(const char *function, bool compiles, const qr_model *model, const qr_options *options,
                       const qr_target *target, const qr_call_options *call) noexcept {
  const auto body = [&](const CallWatch &watch) -> Status {
    qr_target to = QR_TARGET_INIT;
    QR_RETURN_IF_ERROR(read_target(function, target, to));
    const OptionsArgument given(options, function);
    QR_RETURN_IF_ERROR(given.status());
    TargetWriter out(function, to, compiles ? "model.qrm" : "model.onnx");
    if (compiles && wants_child(given.get()))
      return out.finish(compile_in_child(*object(model), *given.get(), out, watch));
    QR_ASSIGN_OR_RETURN(const Unique<CompileJob> job,
                        CompileJob::begin(*object(model), given.get(), watch, DeviceUse::CompileOnly));
    return out.finish(compiles ? compile_to(*job, out.name(), out) : export_graphs(*job, out.name(), out));
  };
  return guard_call(object(model), call, body, function);
}

// What qr_model_compile_networks is given, checked.
struct Networks {
  Vector<Ref<const Model>> models;
  Vector<String> names;

  Status read(const char *function, const qr_network *const *from, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      qr_network one = QR_NETWORK_INIT;
      QR_RETURN_IF_ERROR(read_struct(function, "qr_network", from[i], one, QR_NETWORK_FIRST_SIZE));
      if (!one.model) return null_argument(function, "qr_network.model");
      std::string_view name;
      QR_RETURN_IF_ERROR(read_text(function, "qr_network.name", one.name, Empty::Refused, &name));
      const Model &model = *object(one.model);
      if (std::ranges::find(names, name) != names.end() ||
          (!models.empty() && &model.runtime() != &models[0]->runtime()))
        return Status::errorf(
            ErrorId::bad_argument,
            "%s: network %llu: found a second one named '%s', or a model of another runtime, expected "
            "a name of its own and models of one runtime",
            function, i, printable(name));
      models.push_back(Ref<const Model>(&model));
      names.emplace_back(name);
    }
    return {};
  }
};

}  // namespace

extern "C" {

qr_status *qr_model_open(qr_runtime *runtime, const qr_model_source *source, const qr_options *options,
                         const qr_call_options *call, qr_model **out_model) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(source);
  QR_RETURN_IF_NULL(out_model);
  return guard_call(object(runtime), call, [&](const CallWatch &watch) -> Status {
    qr_model_source from = QR_MODEL_SOURCE_INIT;
    QR_RETURN_IF_ERROR(read_struct("qr_model_open", "qr_model_source", source, from, QR_MODEL_SOURCE_FIRST_SIZE));
    QR_RETURN_IF_ERROR(watch.signal.check("qr_model_open"));
    const OptionsArgument given(options, "qr_model_open");
    QR_RETURN_IF_ERROR(given.status());
    std::string_view path;
    if (from.kind == QR_SOURCE_PATH)
      QR_RETURN_IF_ERROR(read_text("qr_model_open", "source->path", from.path, Empty::Path, &path));
    QR_RETURN_IF_ERROR(Model::check_source(from, "source"));
    QR_ASSIGN_OR_RETURN(Ref<Model> model, Model::open(Ref<Runtime>(object(runtime)), from, given.get(), watch));
    *out_model = handle_of(model.give());
    return {};
  });
}

uint64_t qr_model_input_count(const qr_model *model) { return model ? object(model)->inputs().size() : 0; }
uint64_t qr_model_output_count(const qr_model *model) { return model ? object(model)->outputs().size() : 0; }

qr_status *qr_model_input(const qr_model *model, uint64_t index, qr_tensor_info *out_info) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_info);
  return guard(object(model),
               [&] { return give_tensor_info("qr_model_input", "index", object(model)->inputs(), index, out_info); });
}

qr_status *qr_model_output(const qr_model *model, uint64_t index, qr_tensor_info *out_info) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_info);
  return guard(object(model),
               [&] { return give_tensor_info("qr_model_output", "index", object(model)->outputs(), index, out_info); });
}

qr_status *qr_model_input_dim_name(const qr_model *model, uint64_t index, uint64_t axis, qr_string *out_name) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_name);
  return guard(object(model),
               [&] { return dim_name("qr_model_input_dim_name", object(model)->inputs(), index, axis, out_name); });
}

qr_status *qr_model_output_dim_name(const qr_model *model, uint64_t index, uint64_t axis, qr_string *out_name) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_name);
  return guard(object(model),
               [&] { return dim_name("qr_model_output_dim_name", object(model)->outputs(), index, axis, out_name); });
}

uint64_t qr_model_property_count(const qr_model *model) { return model ? object(model)->property_count() : 0; }

qr_status *qr_model_property(const qr_model *model, uint64_t index, qr_string *out_key, qr_string *out_value) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_key);
  QR_RETURN_IF_NULL(out_value);
  return guard(object(model), [&]() -> Status {
    const uint64_t count = object(model)->property_count();
    if (index >= count) return index_out_of_range("qr_model_property", "index", index, count);
    const auto [key, value] = object(model)->property(index);
    *out_key = string_of(key);
    *out_value = string_of(value);
    return {};
  });
}

qr_status *qr_model_inspect(const qr_model *model, const qr_call_options *call, char **out_json) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_json);
  return guard_call(object(model), call, [&](const CallWatch &watch) -> Status {
    QR_ASSIGN_OR_RETURN(const String json, object(model)->inspect(watch.signal));
    *out_json = give_text(json);
    return {};
  });
}

qr_status *qr_model_verify(const qr_model *model, const qr_call_options *call) {
  QR_RETURN_IF_NULL(model);
  return guard_call(object(model), call,
                    [&](const CallWatch &watch) -> Status { return object(model)->verify(watch); });
}

qr_status *qr_model_compile(const qr_model *model, const qr_options *options, const qr_target *target,
                            const qr_call_options *call) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(target);
  return write_model("qr_model_compile", true, model, options, target, call);
}

qr_status *qr_model_compile_networks(const qr_network *const *networks, uint64_t count, const qr_options *options,
                                     const qr_target *target, const qr_call_options *call) {
  QR_RETURN_IF_NULL(networks);
  QR_RETURN_IF_NULL(target);
  const char *const function = "qr_model_compile_networks";
  if (count == 0 || !networks[0] || !networks[0]->model) return give(null_argument(function, "networks[0]"));
  return guard_call(object(networks[0]->model), call, [&](const CallWatch &watch) -> Status {
    qr_target to = QR_TARGET_INIT;
    QR_RETURN_IF_ERROR(read_target(function, target, to));
    const OptionsArgument given(options, function);
    QR_RETURN_IF_ERROR(given.status());
    Networks all;
    QR_RETURN_IF_ERROR(all.read(function, networks, count));
    if (wants_child(given.get()))
      return Status::error(ErrorId::bad_option_value,
                           "option compile.process: found child, expected own: several networks are compiled here");
    Vector<Unique<CompileJob>> jobs;
    for (const Ref<const Model> &model : all.models) {
      QR_ASSIGN_OR_RETURN(Unique<CompileJob> job,
                          CompileJob::begin(*model, given.get(), watch, DeviceUse::CompileOnly));
      jobs.push_back(std::move(job));
    }
    TargetWriter out(function, to, "model.qrm");
    return out.finish(compile_networks_to(jobs, all.names, out.name(), out));
  });
}

qr_status *qr_model_export(const qr_model *model, const qr_options *options, const qr_target *target,
                           const qr_call_options *call) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(target);
  return write_model("qr_model_export", false, model, options, target, call);
}

qr_status *qr_model_check(const qr_model *model, const qr_options *options, const qr_call_options *call,
                          char **out_json) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_json);
  return guard_call(object(model), call, [&](const CallWatch &watch) -> Status {
    const OptionsArgument given(options, "qr_model_check");
    QR_RETURN_IF_ERROR(given.status());
    String json;
    if (wants_child(given.get())) {
      QR_ASSIGN_OR_RETURN(json, check_in_child(*object(model), *given.get(), watch));
    } else {
      QR_ASSIGN_OR_RETURN(const Unique<CompileJob> job,
                          CompileJob::begin(*object(model), given.get(), watch, DeviceUse::CompileOnly));
      QR_ASSIGN_OR_RETURN(json, check_report(*job));
    }
    *out_json = give_text(json);
    return {};
  });
}

qr_status *qr_model_compatibility(const qr_model *model, const qr_options *options, const qr_call_options *call,
                                  qr_compatibility *out_grade, char **out_reason) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_grade);
  QR_RETURN_IF_NULL(out_reason);
  return guard_call(object(model), call, [&](const CallWatch &watch) -> Status {
    if (!object(model)->is_container())
      return Status::hinted(ErrorId::bad_argument, "an ONNX model is compiled when a session is created",
                            "qr_model_compatibility: %s is an ONNX model, expected a container",
                            object(model)->describe().c_str());
    const OptionsArgument given(options, "qr_model_compatibility");
    QR_RETURN_IF_ERROR(given.status());
    QR_ASSIGN_OR_RETURN(const Unique<CompileJob> job,
                        CompileJob::begin(*object(model), given.get(), watch, DeviceUse::Run));
    QR_ASSIGN_OR_RETURN(const GradedContext graded, grade_contexts(*job));
    if (!graded.context && graded.grade.grade != QR_PLUGIN_GRADE_RECOMPILE) return no_context(*job);
    const loader::Grade grade = session_grade(*job, graded);
    *out_reason = give_text(grade.reason);
    *out_grade = grade.grade;
    return {};
  });
}

void qr_model_destroy(qr_model *model) {
  if (!model) return;
  AllocatorScope scope(memory_of(object(model)));
  object(model)->release();
}

}  // extern "C"
