// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/runner.h"

#include "base/side_edge.h"
#include "quantize/stop.h"

namespace quarry::quantize {

Status from_library(const qr::Status &status) { return side::from_library(status); }

Result<Unique<Runner>> Runner::make(qr_runtime *runtime, const qir::Graph &graph, const Vector<std::int32_t> &outputs,
                                    unsigned threads, qr_signal *signal, std::string_view backend) {
  auto made = make_unique<Runner>();
  qir::Graph watched = graph;
  watched.outputs = outputs;
  QR_RETURN_IF_ERROR(stop_status(kStopped));
  QR_ASSIGN_OR_RETURN(made->bytes_,
                      in_prepare(signal, [&] { return qr_prepare_for_quantize()->model_bytes(watched); }));
  qr_options *options = nullptr;
  QR_RETURN_IF_ERROR(from_library(qr::Status(qr_options_create(runtime, &options))));
  made->options_ = qr::Options(options);
  QR_RETURN_IF_ERROR(from_library(made->options_.try_set("backend", std::string(backend))));
  QR_RETURN_IF_ERROR(from_library(made->options_.try_set("threads", std::to_string(threads))));
  qr_model *model = nullptr;
  const qr_model_source source = QR_MODEL_IN_MEMORY(made->bytes_.data(), made->bytes_.size());
  qr_call_options call = QR_CALL_OPTIONS_INIT;
  call.signal = signal;
  QR_RETURN_IF_ERROR(from_library(qr::Status(qr_model_open(runtime, &source, nullptr, &call, &model))));
  made->model_ = qr::Model(model);
  qr_session *session = nullptr;
  QR_RETURN_IF_ERROR(
      from_library(qr::Status(qr_session_create(made->model_.get(), made->options_.get(), &call, &session))));
  made->session_ = qr::Session(session);
  made->results_.resize(made->session_.output_count());
  return made;
}

Status Runner::run(const std::vector<qr::Tensor> &inputs, qr_signal *signal) {
  for (qr::Tensor &result : results_) result = qr::Tensor();
  Vector<const qr_tensor *> in;
  Vector<qr_tensor *> out;
  for (const qr::Tensor &tensor : inputs) in.push_back(&tensor);
  for (qr::Tensor &tensor : results_) out.push_back(&tensor);
  qr_run_options options = QR_RUN_OPTIONS_INIT;
  options.signal = signal;
  return from_library(
      qr::Status(qr_session_run(session_.get(), &options, in.data(), in.size(), out.data(), out.size())));
}

}  // namespace quarry::quantize
