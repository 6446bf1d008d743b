// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"
#include "runtime/compile_child.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

// What the three ways to open share: `open` gets the options.
template <class Open>
qr_status *open_model(const char *function, qr_runtime *runtime, const qr_options *options, qr_model **out_model,
                      Open open) noexcept {
  return guard(
      object(runtime),
      [&]() -> Status {
        const OptionsArgument given(options, function);
        QR_RETURN_IF_ERROR(given.status());
        QR_ASSIGN_OR_RETURN(Ref<Model> model, open(Ref<Runtime>(object(runtime)), given.get()));
        *out_model = handle_of(model.give());
        return {};
      },
      function);
}

}  // namespace

extern "C" {

qr_status *qr_model_open_path(qr_runtime *runtime, qr_string path, const qr_options *options, qr_model **out_model) {
  QR_REQUIRE(runtime);
  QR_REQUIRE(out_model);
  return open_model("qr_model_open_path", runtime, options, out_model,
                    [&](Ref<Runtime> owner, const OptionSet *given) -> Result<Ref<Model>> {
                      std::string_view text;
                      QR_RETURN_IF_ERROR(read_text("qr_model_open_path", "path", path, Empty::Allowed, &text));
                      return Model::open_path(std::move(owner), text, given);
                    });
}

qr_status *qr_model_open_fd(qr_runtime *runtime, int32_t fd, uint64_t offset, uint64_t size_bytes,
                            const qr_options *options, qr_model **out_model) {
  QR_REQUIRE(runtime);
  QR_REQUIRE(out_model);
  return open_model("qr_model_open_fd", runtime, options, out_model,
                    [&](Ref<Runtime> owner, const OptionSet *given) -> Result<Ref<Model>> {
                      if (fd < 0)
                        return Status::error(ErrorId::bad_argument,
                                             format("qr_model_open_fd: fd is %d, expected an open descriptor", fd));
                      return Model::open_fd(std::move(owner), fd, offset, size_bytes, given);
                    });
}

qr_status *qr_model_open_memory(qr_runtime *runtime, const void *data, uint64_t size_bytes, const qr_options *options,
                                qr_model **out_model) {
  QR_REQUIRE(runtime);
  QR_REQUIRE(data);
  QR_REQUIRE(out_model);
  return open_model("qr_model_open_memory", runtime, options, out_model,
                    [&](Ref<Runtime> owner, const OptionSet *given) {
                      return Model::open_memory(std::move(owner), data, size_bytes, given);
                    });
}

uint64_t qr_model_input_count(const qr_model *model) { return model ? object(model)->inputs().size() : 0; }
uint64_t qr_model_output_count(const qr_model *model) { return model ? object(model)->outputs().size() : 0; }

qr_status *qr_model_input(const qr_model *model, uint64_t index, qr_tensor_info *out_info) {
  QR_REQUIRE(model);
  QR_REQUIRE(out_info);
  return guard(object(model),
               [&] { return give_tensor_info("qr_model_input", "index", object(model)->inputs(), index, out_info); });
}

qr_status *qr_model_output(const qr_model *model, uint64_t index, qr_tensor_info *out_info) {
  QR_REQUIRE(model);
  QR_REQUIRE(out_info);
  return guard(object(model),
               [&] { return give_tensor_info("qr_model_output", "index", object(model)->outputs(), index, out_info); });
}

qr_status *qr_model_input_dim_name(const qr_model *model, uint64_t index, uint64_t axis, qr_string *out_name) {
  QR_REQUIRE(model);
  QR_REQUIRE(out_name);
  return guard(object(model), [&]() -> Status {
    const Vector<qrm::TensorInfo> &inputs = object(model)->inputs();
    if (index >= inputs.size()) return index_out_of_range("qr_model_input_dim_name", "index", index, inputs.size());
    const qrm::TensorInfo &info = inputs[index];
    if (axis >= info.dims.size()) return index_out_of_range("qr_model_input_dim_name", "axis", axis, info.dims.size());
    *out_name = axis < info.dim_names.size() ? string_of(info.dim_names[axis]) : qr_string{"", 0};
    return {};
  });
}

qr_status *qr_model_inspect(const qr_model *model, char **out_json) {
  QR_REQUIRE(model);
  QR_REQUIRE(out_json);
  return guard(object(model), [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const String json, object(model)->inspect());
    *out_json = give_text(json);
    return {};
  });
}

qr_status *qr_model_verify(const qr_model *model) {
  QR_REQUIRE(model);
  return guard(object(model), [&] { return object(model)->verify(); });
}

qr_status *qr_model_compile(const qr_model *model, const qr_options *options, qr_string path,
                            const qr_call_options *call) {
  QR_REQUIRE(model);
  return guard(object(model), [&]() -> Status {
    std::string_view file;
    QR_RETURN_IF_ERROR(read_text("qr_model_compile", "path", path, Empty::Refused, &file));
    CallWatch watch;
    QR_RETURN_IF_ERROR(read_call("qr_model_compile", call, watch));
    const OptionsArgument given(options, "qr_model_compile");
    QR_RETURN_IF_ERROR(given.status());
    if (wants_child(given.get())) return compile_in_child(*object(model), *given.get(), file, watch);
    QR_ASSIGN_OR_RETURN(const Unique<CompileJob> job,
                        CompileJob::begin(*object(model), given.get(), watch, DeviceUse::CompileOnly));
    QR_ASSIGN_OR_RETURN(const Ref<CompiledModel> compiled, CompiledModel::make(*job));
    return write_container(*job, *compiled, file);
  });
}

qr_status *qr_model_check(const qr_model *model, const qr_options *options, const qr_call_options *call,
                          char **out_json) {
  QR_REQUIRE(model);
  QR_REQUIRE(out_json);
  return guard(object(model), [&]() -> Status {
    CallWatch watch;
    QR_RETURN_IF_ERROR(read_call("qr_model_check", call, watch));
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

qr_status *qr_model_compatibility(const qr_model *model, const qr_options *options, qr_compatibility *out_grade,
                                  char **out_reason) {
  QR_REQUIRE(model);
  QR_REQUIRE(out_grade);
  QR_REQUIRE(out_reason);
  return guard(object(model), [&]() -> Status {
    if (!object(model)->is_container())
      return Status::error(ErrorId::bad_argument,
                           format("qr_model_compatibility: %s is an ONNX model, expected a container",
                                  object(model)->describe().c_str()),
                           "an ONNX model is compiled when a session is created");
    const OptionsArgument given(options, "qr_model_compatibility");
    QR_RETURN_IF_ERROR(given.status());
    QR_ASSIGN_OR_RETURN(const Unique<CompileJob> job,
                        CompileJob::begin(*object(model), given.get(), {}, DeviceUse::Run));
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
