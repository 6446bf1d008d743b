#!/usr/bin/env python3
"""The htp backend's options, performance profiles, measured calls and shared buffers on Qualcomm's own library: what it takes, and what it says of the rest.

check_htp_run.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import csv
import json
import os
import subprocess
import sys

from program import build, check, environment, finish, new_folder, require, run, shared

folder = new_folder()
environment["QUARRY_QNN_PATH"] = os.path.abspath(sys.argv[3])
environment["QUARRY_BACKEND_PATH"] = os.path.join(build, "backends", "htp")
model = os.path.join(shared, "models", "resnet8_cifar10_int8_qdq", "model.onnx")
container = os.path.join(folder, "model.qrm")
other = os.path.join(folder, "other.qrm")


def compiled(*options, to=other, soc="SM8650"):
    return run("compile", model, "--backend", "htp", "-O", "soc_model=" + soc, *[a for o in options for a in ("-O", o)], "-o", to)


def ran(*options, of=container):
    return run("run", of, "--backend", "htp", "--zeros", "-O", "context.recompile=never", *[a for o in options for a in ("-O", o)])


check("compile", compiled(to=container), 0)
plain = os.path.getsize(container)

# ---- what a compilation takes: each option alone
for option in ("vtcm_mb=4", "htp.hvx_threads=2", "htp.dlbc=1", "htp.fold_relu_activation_into_conv_off=1", "htp.short_depth_conv_on_hmx_off=1",
               "htp.weights_packing=1", "htp.sparse_weights=1", "htp_graph_finalization_optimization_mode=1", "htp_graph_finalization_optimization_mode=2",
               "htp_graph_finalization_optimization_mode=3", "enable_htp_weight_sharing=1", "enable_htp_prepare_only=1", "htp.lora_weight_sharing=1", "htp.signed_pd=1",
               "enable_htp_fp16_precision=0", "offload_graph_io_quantization=0"):
    check("compile with " + option, compiled(option), 0)
check("compile with compressed weights", compiled("htp.dlbc_weights=1"), 0)
require("compressed weights make another binary", os.path.getsize(other) > plain * 3 // 2, (os.path.getsize(other), plain))
check("VTCM in bytes from v81 on", compiled("htp.vtcm_bytes=2097152", soc="SM8850"), 0)
for soc, vtcm in (("SM8650", 8), ("SM8350", 4), ("SM7325", 2)):
    check(f"all the VTCM of {soc}", compiled(soc=soc), 0)
    check(f"it is in the binary for {soc}", run("inspect", other), 0, f"vtcm_bytes {vtcm << 20}")
check("floats on a SoC that has none", run("check", os.path.join(shared, "cases", "F04_conv_pad_ge_kernel", "model.onnx"), "--backend", "htp", "-O", "soc_model=SM7325"), 1,
      "found floating point, which this SoC has not", "quarry quantize")
check("extended_udma from v81 on", compiled("extended_udma=1", soc="SM8850"), 0)
check("extended_udma before", compiled("extended_udma=1"), 3, "extended_udma", "v81")
check("two cores where there is one: the library's word", compiled("htp.num_cores=2"), 3, "graphFinalize", "htp.num_cores=2", "1002 Memory")
check("too much fast memory", compiled("vtcm_mb=9"), 3, "vtcm_mb", "found 9", "at most 8")
config = os.path.join(folder, "config.json")
with open(config, "w") as file:
    file.write('{"graphs": [{"vtcm_mb": 2, "hvx_threads": 2, "O": 3, "dlbc": 1}], "devices": [{"soc_model": 69, "pd_session": "unsigned", "cores": [{"perf_profile": "burst"}]}]}')
check("the file of backend extensions", run("compile", model, "--backend", "htp", "-O", "htp.config_file=" + config, "-o", other), 0, "SM8750")
whole = {"graphs": [{"graph_names": ["g"], "vtcm_size": 2097152, "hvx_threads": 2, "O": 2, "dlbc": 1, "weights_packing": True, "num_cores": 1,
                     "short_depth_conv_on_hmx_off": True, "fold_relu_activation_into_conv_off": True}],
         "devices": [{"device_id": 0, "core_type": 0, "core_id": [0], "soc_model": 87, "dsp_arch": "v81", "pd_session": "unsigned", "use_client_context": False}],
         "context": {"weight_sharing_enabled": False, "file_read_memory_budget_in_mb": 4, "lora_weight_sharing": False},
         "graph_configs": [{"graph_name": "g", "graph_priority": "high_plus"}]}
with open(config, "w") as file:
    json.dump(whole, file)
check("what a file of backend extensions may say", run("compile", model, "--backend", "htp", "-O", "htp.config_file=" + config, "-o", other), 0, "SM8850")
check("it is in the binary", run("inspect", other), 0, "vtcm_bytes 2097152", "hvx_threads 2", "optimization 2")
check("and such a context runs", run("run", other, "--backend", "htp", "-O", "htp.config_file=" + config, "--zeros"), 0)
for key, value, error in (("slc_alloc_enable", 2, "0 or 1"), ("dlbc_weights", 1, None), ("slc_alloc_enable", 1, None)):
    whole["graphs"][0][key] = value
    with open(config, "w") as file:
        json.dump(whole, file)
    check("with " + key, run("compile", model, "--backend", "htp", "-O", "htp.config_file=" + config, "-o", other), *((3, key, error) if error else (0,)))
    whole["graphs"][0].pop(key)
check("which the emulator does not load", run("run", other, "--backend", "htp", "-O", "context.recompile=never", "--zeros"), 3, "graphRetrieve g", "6003", "compile without it")
with open(config, "w") as file:
    file.write('{"graphs": [{"vtcm": 2}]}')
check("a mistake in it", compiled("htp.config_file=" + config), 3, "line 1", "'vtcm' in graphs", "vtcm_mb")

# ---- what loading and running takes, and what the emulator refuses
for option in ("qnn_context_priority=low", "qnn_context_priority=normal_low", "qnn_context_priority=normal", "qnn_context_priority=normal_high", "qnn_context_priority=high",
               "qnn_context_priority=high_plus", "qnn_context_priority=critical", "qnn_context_priority=critical_plus", "htp_performance_mode=system_settings", "htp.file_read_memory_budget_mb=25", "disable_file_mapped_weights=1", "rpc_control_latency=100",
               "htp.rpc_polling_time=5000", "htp.adaptive_polling_time=5", "htp.hmx_timeout_us=1000", "htp.core_id=1", "ep.dynamic.workload_type=Efficient",
               "qnn.htp_perf_mode=high_performance", "qnn.htp_perf_mode_post_run=power_saver", "qnn.rpc_control_latency=50"):
    check("run with " + option, ran(option), 0)
for profile in ("burst", "sustained_high_performance", "high_performance", "balanced", "low_balanced", "high_power_saver", "power_saver", "low_power_saver", "extreme_power_saver"):
    check("run with profile " + profile, ran("htp_performance_mode=" + profile), 0)
for option, call, word in (("htp.io_memory_estimation=1", "contextCreateFromBinary with", "5010 ContextConfig"), ("htp.init_acceleration=1", "contextCreateFromBinary with", "5010 ContextConfig"),
                           ("htp.dsp_memory_profiling=1", "contextCreateFromBinary with", "1000 NotSupported"), ("htp.data_provider=1", "contextCreateFromBinaryWithCallback", "1000 NotSupported"),
                           ("enable_htp_spill_fill_buffer=1", "contextCreateFromBinary with", "5010 ContextConfig"),
                           ("enable_vtcm_backup_buffer_sharing=1", "contextCreateFromBinary with", "1000 NotSupported"),
                           ("htp_share_resource_optimization=1", "contextCreateFromBinaryListAsync", "1000 NotSupported"),
                           ("htp.hmx_timeout_us=5", "setPowerConfig of option 4", "13001 PowerArgument")):
    check("the emulator refuses " + option, ran(option), 3, option.split("=")[0].replace("htp.hmx_timeout_us", "setPowerConfig"), call, word)
check("an option that nothing is done with", ran("enable_dx12_shared_memory_allocator=1"), 3, "enable_dx12_shared_memory_allocator", "does not do")

# ---- measured calls: the library's names and units, our tree
for level, names, node in (("basic", ["QNN (execute) time=", "Accelerator (execute) time=", "QNN (load binary) time="], False),
                           ("detailed", ["Accelerator (execute) time (cycles)=", "Num times yield occured=", "Time for initial VTCM acquire="], True),
                           ("linting", ["Accelerator (critical path execute) time (cycles)=", "Wait (Scheduler) time="], True), ("optrace", ["Wait (Scheduler) time="], True)):
    path = os.path.join(folder, level + ".csv")
    check("profile " + level, ran("profiling_level=" + level, "profiling_file_path=" + path), 0)
    with open(path) as file:
        rows = list(csv.DictReader(file))
    counters = "; ".join(r["counters"] for r in rows)
    require(f"profile {level}: the library's names", all(n in counters for n in names[:2 if level == "basic" else None]), counters[:1000])
    nodes = [r for r in rows if r["kind"] == "node"]
    require(f"profile {level}: nodes", bool(nodes) == node, len(nodes))
    if node:
        convolutions = [r for r in nodes if "Conv2d" in r["op"] and int(r["node"]) >= 0 and r["clock"] == "device_cycles" and int(r["duration"]) > 0]
        require(f"profile {level}: cycles of the model's convolutions", len(convolutions) >= 8, len(convolutions))
require("nothing is written into the working folder", not [f for f in os.listdir(".") if f.endswith("_schematic.bin")])

# ---- threads, cycles, memory: in one process
binary = os.path.join(build, "tests", "plugins", "test_htp_real")
result = subprocess.run([binary, "-s=0"], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, timeout=300)
require("eight threads, 200 cycles, memory", result.returncode == 0, result.stdout[-3000:])
print("".join("   " + line.split("MESSAGE: ")[1] + "\n" for line in result.stdout.splitlines() if "MESSAGE: grown" in line), end="")
finish()
