// SPDX-License-Identifier: Apache-2.0
// Options of the htp backend and its file of backend extensions, as configurations on the stand-in for Qualcomm's
// libraries; refusals, ours and the library's.
#include <array>
#include <filesystem>

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
                    {"htp_reused_io_limit_mb", "5"},
                    {"htp.init_acceleration", "1"},
                    {"htp.dsp_memory_profiling", "1"}});
  for (const char *line :
       {"  graph.custom 2=1",       "  graph.custom 3=8",       "  graph.custom 6=4",       "  graph.optimization 3=3",
        "  graph.optimization 4=1", "  graph.optimization 5=1", "  graph.optimization 6=1", "  graph.custom 12=1",
        "  graph.custom 8=2",       "  graph.custom 4=1",       "  graph.custom 5=1",       "  graph.finalize some_key",
        "  context.custom 7=1,0",   "  context.custom 1=1,0",   "  context.custom 13=1,0",  "  context.custom 11=1,0",
        "  device.signed_pd=1",     "  context 1=200",          "  context.custom 3=25,0",  "  context.custom 6=1,0",
        "  context.custom 8=1,0",   "  context.custom 4=1,0",   "  context.custom 17=5,0"}) {
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
  refused("htp.finalize_config", "a=1,unknown_one=2", "found key unknown_one, which this library's compiler");
  // Nor is anything given that nothing reads.
  for (const auto &[key, value, other] :
       {std::array{"htp.max_spill_fill_buffer", "100", "enable_htp_spill_fill_buffer"},
        std::array{"json_qnn_graph_dir", "/tmp", "dump_json_qnn_graph"},
        std::array{"dump_qnn_ir_dlc_dir", "/tmp", "dump_qnn_ir_dlc"},
        std::array{"framework_op_trace_dir", "/tmp", "enable_framework_op_trace"},
        std::array{"htp.optrace_dir", "/tmp", "htp.optrace"}, std::array{"htp.saver_dir", "/tmp/x", "qnn_saver_path"}})
    refused(key, value, other);
  CHECK(says(failure(
                 [&] {
                   session(runtime, {{"htp.file_read_memory_budget_mb", "1"}, {"disable_file_mapped_weights", "1"}});
                 },
                 QR_INVALID_ARGUMENT),
             {"htp.file_read_memory_budget_mb and disable_file_mapped_weights", "a mapped file alone"}));
  refused("extended_udma", "1", "from v81 on");
  refused("enable_htp_weight_sharing", "1", "from v73 on", "SM8450");
}

TEST_CASE("each priority, and a mode that leaves clocks to the system") {
  const Standin standin;
  qr::Runtime runtime;
  for (const auto &[word, number] : {std::pair{"low", 0},
                                     {"normal_low", 50},
                                     {"normal_high", 150},
                                     {"high", 200},
                                     {"high_plus", 300},
                                     {"critical", 400},
                                     {"critical_plus", 500}}) {
    CAPTURE(word);
    standin.begin_log();
    session(runtime, {{"qnn_context_priority", word}});
    CHECK(standin.has("  context 1=" + std::to_string(number)));
  }
  standin.begin_log();
  qr::Session made = session(runtime, {{"htp_performance_mode", "system_settings"}});
  CHECK(run(made));
  CHECK_EQ(standin.count("vote"), 0u);
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
                 QR_UNSUPPORTED),
             {"contextCreateFromBinary with htp.io_memory_estimation=1", "1000 NotSupported"}));
}

// A session of relu_model with such a file of backend extensions, and a run of it.
static void run_with_file(qr::Runtime &runtime, const Standin &standin, const std::string &text, Pairs more = {}) {
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
}

TEST_CASE("the file of backend extensions") {
  const Standin standin;
  qr::Runtime runtime;
  const auto with = [&](const std::string &text, Pairs more = {}) { run_with_file(runtime, standin, text, more); };
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

  // What no option has a name for.
  with(R"({"graphs": [{"vtcm_size": 4194304, "dlbc_weights": 1, "slc_alloc_enable": 1}],
           "context_configs": {"is_persistent_binary": true, "memory_limit_hint": 7, "enable_graphs": ["test"],
                               "graph_retention_order": ["test"], "spill_fill_buffer": 0, "weights_buffer": 0},
           "graph_configs": [{"graph_name": "test", "graph_priority": "critical"}]})",
       {{"soc_model", "SM8850"}});
  for (const char *line : {"  graph.custom 10=4194304", "  graph.optimization 5=1", "  graph.optimization 7=1",
                           "  context 7=1", "  context 6=7", "  context 10=test", "  graph 3=400"}) {
    CAPTURE(line);
    CHECK(standin.has(line));
  }
  CHECK_EQ(standin.count("  graph 3=400"), 2u);  // when it is made, and when it was loaded
  CHECK_EQ(standin.count("graphSetConfig"), 1u);
}

TEST_CASE("what a file of backend extensions may not say") {
  const Standin standin;
  qr::Runtime runtime;
  const auto refused = [&](const char *text, std::initializer_list<const char *> parts, Pairs more = {}) {
    CAPTURE(text);
    CHECK(says(failure([&] { run_with_file(runtime, standin, text, more); }, QR_INVALID_ARGUMENT), parts));
  };
  refused(R"({"context_configs": {"memory_limit_hint": 1}})", {"memory_limit_hint alone", "is_persistent_binary"});
  refused(R"({"context_configs": {"is_persistent_binary": true, "graph_retention_order": ["test"]}})",
          {"graph_retention_order alone", "memory_limit_hint"});
  refused(R"({"context_configs": {"enable_graphs": ["other"]}})", {"graph 'other'", "test"});
  refused(R"({"context_configs": {"weights_buffer": 4096}})", {"weights_buffer: found 4096", "expected 0"});
  refused(R"({"context_configs": {"is_persistent_binary": 1}})", {"is_persistent_binary: found 1"});
  for (const char *const option :
       {"disable_file_mapped_weights", "ep.share_ep_contexts", "htp.data_provider", "htp_share_resource_optimization"})
    refused(R"({"context_configs": {"is_persistent_binary": true}})", {option, "one of them"}, {{option, "1"}});
  refused(R"({"graph_configs": [{"graph_priority": "high"}]})", {"graph_name"});
  refused(R"({"graph_configs": [{"graph_name": "test", "graph_priority": "top"}]})", {"found 'top'", "a priority"});
  refused(R"({"graphs": [{"slc_alloc_enable": 2}]})", {"slc_alloc_enable: found 2", "0 or 1"});
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

// QNN has one copy of its libraries in a process.
TEST_CASE("a second copy of the libraries is refused, and both are named") {
  const Standin standin;
  qr::Runtime runtime;
  const std::string first = QR_STANDIN_FOLDER, folder = "/tmp/quarry-standin-copy-" + std::to_string(getpid()),
                    link = folder + "-link";
  std::filesystem::create_directory(folder);
  for (const char *const file : {"libQnnHtp.so", "libQnnSystem.so"})
    std::filesystem::copy_file(first + "/" + file, folder + "/" + file);
  std::filesystem::rename(folder + "/libQnnHtp.so", folder + "/libRenamed.so");  // whatever its name
  std::filesystem::create_directory_symlink(first, link);
  for (const bool is_new : {false, true}) {  // of the same runtime, and of another
    qr::Runtime another;
    CHECK(says(failure(
                   [&] {
                     session(is_new ? another : runtime, {{"htp.library_path", folder + "/libRenamed.so"}});
                   },
                   QR_UNAVAILABLE),
               {"libRenamed.so: found a second copy", (first + "/libQnnHtp.so").c_str(), "one copy in a process"}));
  }
  qr::Session made = session(runtime, {{"htp.library_path", link}});  // the same file by another way
  CHECK(run(made));
  std::filesystem::remove_all(folder);
  std::filesystem::remove(link);
}
