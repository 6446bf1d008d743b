// SPDX-License-Identifier: Apache-2.0
// Options of the htp backend and its file of backend extensions, as configurations on the stand-in for Qualcomm's
// libraries; refusals, ours and the library's.
#include <array>

#include "backends/htp/qnn/function_table.h"
#include "tests/plugins/standin_fixture.h"

using namespace quarry::test;

namespace {

std::string write_file(const std::string &text) {
  const std::string path = "/tmp/quarry-standin-" + std::to_string(getpid()) + ".json";
  std::ofstream(path) << text;
  return path;
}

}  // namespace

TEST_CASE("options of graph, context and device become configurations") {
  const Standin standin;
  qr::Runtime runtime;
  session(runtime, {{"soc_model", "SM8850"},
                    {"vtcm_mb", "8"},
                    {"htp.hvx_threads", "4"},
                    {"htp_graph_finalization_optimization_mode", "3"},
                    {"htp.dlbc", "1"},
                    {"htp.dlbc_weights", "1"},
                    {"htp.sparse_weights", "1"},
                    {"htp.weights_packing", "1"},
                    {"htp.num_cores", "2"},
                    {"htp.fold_relu_activation_into_conv_off", "1"},
                    {"htp.short_depth_conv_on_hmx_off", "1"},
                    {"htp.finalize_config", "some_key=7"},
                    {"enable_htp_prepare_only", "1"},
                    {"enable_htp_weight_sharing", "1"},
                    {"htp.lora_weight_sharing", "1"},
                    {"extended_udma", "1"},
                    {"htp.signed_pd", "1"},
                    {"qnn_context_priority", "high"},
                    {"htp.file_read_memory_budget_mb", "25"},
                    {"htp.io_memory_estimation", "1"},
                    {"htp.init_acceleration", "1"},
                    {"htp.dsp_memory_profiling", "1"}});
  for (const char *line :
       {"  graph.custom 2=1",       "  graph.custom 3=8",       "  graph.custom 6=4",       "  graph.optimization 3=3",
        "  graph.optimization 4=1", "  graph.optimization 5=1", "  graph.optimization 6=1", "  graph.custom 12=1",
        "  graph.custom 8=2",       "  graph.custom 4=1",       "  graph.custom 5=1",       "  graph.finalize some_key",
        "  context.custom 7=1,0",   "  context.custom 1=1,0",   "  context.custom 13=1,0",  "  context.custom 11=1,0",
        "  device.signed_pd=1",     "  context 1=200",          "  context.custom 3=25,0",  "  context.custom 6=1,0",
        "  context.custom 8=1,0",   "  context.custom 4=1,0"}) {
    CAPTURE(line);
    CHECK(standin.has(line));
  }
  standin.begin_log();
  session(runtime, {{"htp.vtcm_bytes", "4194304"}, {"soc_model", "SM8850"}});
  CHECK(standin.has("  graph.custom 10=4194304"));
  CHECK_FALSE(standin.has("  graph.custom 3=0"));
  session(runtime, {});
  CHECK(standin.has("  graph.custom 3=0"));  // all that the SoC has, which is not what the library takes by itself
}

TEST_CASE("what the library would take and not do is refused") {
  const Standin standin;
  qr::Runtime runtime;
  const auto refused = [&](const char *key, const char *value, const char *part, const char *soc = "SM8650") {
    CHECK(says(failure(
                   [&] {
                     session(runtime, {{key, value}, {"soc_model", soc}});
                   },
                   QR_INVALID_ARGUMENT),
               {key, part}));
  };
  refused("vtcm_mb", "9", "at most 8");
  refused("vtcm_mb", "5", "at most 4", "SM8350");
  refused("htp.vtcm_bytes", "8388609", "at most 8388608", "SM8850");
  refused("htp.vtcm_bytes", "65536", "before v81");
  refused("htp.finalize_config", "some_key", "'some_key' in some_key");
  refused("htp.finalize_config", "a=1,=2", "'=2'");
  refused("htp.finalize_config", "a=1,b=x", "'b=x'");
  // Nor is anything given that nothing reads.
  for (const auto &[key, value, other] :
       {std::array{"htp.max_spill_fill_buffer", "100", "enable_htp_spill_fill_buffer"},
        std::array{"json_qnn_graph_dir", "/tmp", "dump_json_qnn_graph"},
        std::array{"dump_qnn_ir_dlc_dir", "/tmp", "dump_qnn_ir_dlc"},
        std::array{"framework_op_trace_dir", "/tmp", "enable_framework_op_trace"},
        std::array{"htp.optrace_dir", "/tmp", "htp.optrace"}})
    refused(key, value, other);
  refused("extended_udma", "1", "from v81 on");
  refused("enable_htp_weight_sharing", "1", "from v73 on", "SM8450");
}

TEST_CASE("what the library's words mean stands before them, and a way out") {
  const char *const rows[][3] = {
      {"incorrect Rank", "found as many axes as it has not the operation for", "by a Reshape before and behind it"},
      {"mismatching data", "found operands of types that differ", "cast one of them"},
      {"datatypes", "found types that it has not the operation for", "cast before the node"},
      {"incorrect Value", "found a dimension or a parameter that it does not take", "give the operands other shapes"},
      {"something else", "found a form that it has not the operation for", "quarry cut"}};
  for (const auto &[words, found, way_out] : rows) {
    const Standin standin("refuse=ElementWiseNeuron;refuse=Relu;refuse=ReluMinMax;words=" + std::string(words));
    qr::Runtime runtime;
    CAPTURE(words);
    CHECK(says(failure([&] { session(runtime); }, QR_UNSUPPORTED), {found, words, way_out}));
  }
}

TEST_CASE("a configuration that is refused is named, with the library's word") {
  const Standin standin("fail=graphCreate:6000");
  qr::Runtime runtime;
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.hvx_threads", "63"}});
                 },
                 QR_INTERNAL),
             {"graphCreate test with", "htp.hvx_threads=63", "6000 GraphArgument"}));
  standin.tell("fail=contextCreate:5010");
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"enable_htp_weight_sharing", "1"}});
                 },
                 QR_INTERNAL),
             {"contextCreate with enable_htp_weight_sharing=1", "5010 ContextConfig"}));
  standin.tell("fail=contextCreateFromBinary:1000");
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.io_memory_estimation", "1"}});
                 },
                 QR_INTERNAL),
             {"contextCreateFromBinary with htp.io_memory_estimation=1", "1000 NotSupported"}));
}

TEST_CASE("the file of backend extensions") {
  const Standin standin;
  qr::Runtime runtime;
  const auto with = [&](const std::string &text, Pairs more = {}) {
    const std::string path = write_file(text);
    more.emplace_back("htp.config_file", path);
    standin.begin_log();
    qr::Options given(runtime);
    given.set("backend", "htp");
    for (const auto &[key, value] : more) given.set(key, value);
    const std::string model = relu_model();
    const qr::Model opened(runtime, model.data(), model.size());
    qr::Session made(opened, &given);
    CHECK(run(made));
    unlink(path.c_str());
  };
  const char *const whole = R"({
    "graphs": [{"graph_names": ["test"], "vtcm_mb": 2, "hvx_threads": 3, "O": 2, "dlbc": 1, "weights_packing": true,
                "num_cores": 1, "short_depth_conv_on_hmx_off": true, "fold_relu_activation_into_conv_off": true}],
    "devices": [{"device_id": 0, "core_id": [0], "core_type": 0, "soc_model": 69, "dsp_arch": "v79",
                 "pd_session": "signed", "use_client_context": false,
                 "cores": [{"perf_profile": "balanced", "rpc_control_latency": 60, "rpc_polling_time": 10,
                            "hmx_timeout_us": 5, "adaptive_polling_time": 8}]}],
    "context": {"weight_sharing_enabled": true, "max_spill_fill_buffer_for_group": 100000, "group_id": 0,
                "file_read_memory_budget_in_mb": 9, "io_memory_estimation": true, "init_acceleration": true,
                "lora_weight_sharing": true},
    "memory": {"mem_type": "shared_buffer"}})";
  with(whole);
  for (const char *line :
       {"  graph.custom 3=2", "  graph.custom 6=3", "  graph.optimization 3=2", "  graph.optimization 4=1",
        "  graph.custom 12=1", "  graph.custom 4=1", "  graph.custom 5=1", "  device.soc=69", "  device.signed_pd=1",
        "  context.custom 1=1,0", "  context.custom 13=1,0", "  context.custom 3=9,0", "  context.custom 6=1,0",
        "  context.custom 8=1,0", "  context.custom 2=0,100000", "vote option=2 value=60", "vote option=4 value=5",
        "vote option=6 value=8"}) {
    CAPTURE(line);
    CHECK(standin.has(line));
  }
  CHECK_EQ(standin.count("vote dcvs=1/0 mode=10 sleep_latency=1/1000"), 3u);  // balanced: loading, the run, the end
  // What is given beside the file counts before it.
  with(whole, {{"vtcm_mb", "5"}});
  CHECK(standin.has("  graph.custom 3=5"));
  with(R"({"groupContext": {"share_resources": true}})");
  CHECK_EQ(standin.count("contextCreateFromBinaryListAsync"), 1u);

  const auto refused = [&](const char *text, std::initializer_list<const char *> parts) {
    CAPTURE(text);
    CHECK(says(failure([&] { with(text); }, QR_INVALID_ARGUMENT), parts));
  };
  refused("{\"graphs\": [{\"vtcm\": 3}]}", {"line 1", "'vtcm' in graphs", "vtcm_mb"});
  refused(R"({"graphs": [{"graph_names": ["test"]}, {"graph_names": ["another"], "vtcm_mb": 2}]})",
          {"graph_names 'another'", "graphs of this model: test"});
  refused(R"({"graphs": [{"graph_names": ["test"], "O": 99}]})", {"found 99 for option htp_graph_finalization"});
  refused(R"({"graphs": [{"graph_names": ["test"], "vtcm_mb": 5}]})", {"vtcm_mb: found 5", "at most 4"});
  refused(R"({"context": {"max_spill_fill_buffer_for_group": 100000}})", {"enable_htp_spill_fill_buffer"});
  refused("{\"graphs\": 3}", {"graphs: found 3, expected an array"});
  refused("{\n\"context\": {\"io_memory_estimation\": 1}}", {"line 2", "found 1, expected true or false"});
  refused("{\"devices\": [{\"cores\": [{\"perf_profile\": \"fast\"}]}]}", {"perf_profile: found 'fast'"});
  refused("{\"devices\": [{\"use_client_context\": true}]}", {"expected false"});
  refused("{\"devices\": [{\"profiling_level\": \"linting\"}]}", {"profiling_level", "the option profiling_level"});
  refused("{\"graphs\": [{\"O\": 9}]}", {"found 9 for option htp_graph_finalization_optimization_mode"});
  refused("{\"backend_extensions\": {}}", {"config_file_path"});
  refused("{\"memory\": {}, \"memory\": {}}", {"'memory' twice"});
  refused("{\"memory\": {}", {"found the end"});
  refused("[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]", {"fewer levels"});
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.config_file", "/nowhere/x.json"}});
                 },
                 QR_INVALID_ARGUMENT),
             {"htp.config_file", "/nowhere/x.json"}));
}
