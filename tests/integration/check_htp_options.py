#!/usr/bin/env python3
"""Options of the htp backend that write files, that count before others, or that are refused, on Qualcomm's own library.

check_htp_options.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import csv
import json
import os
import re
import subprocess
import sys

from program import build, check, environment, finish, model, new_folder, require, root, run

folder = new_folder()
environment["QUARRY_QNN_PATH"] = os.path.abspath(sys.argv[3])
environment["QUARRY_BACKEND_PATH"] = os.path.join(build, "backends", "htp")
container = os.path.join(folder, "model.qrm")


def made(name):
    path = os.path.join(folder, name)
    os.mkdir(path)
    return path


def compiled(*options, soc="SM8650", **how):
    return run("compile", model, "--backend", "htp", "-O", "soc_model=" + soc, *[a for o in options for a in ("-O", o)], "-o", container, **how)


# ---- which of two options counts, and is reported
told = "which soc_model names and which counts"
check("soc_model before htp_arch, reported", compiled("htp_arch=73"), 0, "warning", "htp_arch=73 is not that of SM8650 (57, v75), " + told, "for SM8650")
for options, soc in ((("htp_arch=75",), "SM8650"), (("htp_arch=75", "device_id=0"), "57"), (("htp_arch=79",), "0")):
    result = check("nothing to report", compiled(*options, soc=soc), 0, "for " + ("SM8750" if soc == "0" else "SM8650"))
    require("nothing is reported where options agree", "warning" not in result.stderr, result.stderr)
check("several SoCs before htp_arch", compiled("htp_arch=73", soc="SM8550,SM8650"), 0, "htp_arch=73 is not that of SM8650", told)
# One value, or one for each SoC.
check("VTCM of each SoC", compiled("vtcm_mb=2,4", "htp_arch=73,75", soc="SM8550,SM8650"), 0)
found = json.loads(check("in its container", run("inspect", container, "--json"), 0).stdout)["contexts"]
require("each has its own", [(c["options"]["soc_model"], c["options"]["vtcm_mb"], c["options"]["htp_arch"]) for c in found] == [("SM8550", "2", "73"), ("SM8650", "4", "75")], found)
require("of which the library knows", [g["vtcm_bytes"] >> 20 for c in found for p in c["programs"] for g in p["about"]["graphs"]] == [2, 4], found)
check("asked for as one of them", run("run", container, "--backend", "htp", "--zeros", "-v", "-O", "soc_model=SM8650", "-O", "vtcm_mb=4"), 0)
check("too few", compiled("vtcm_mb=2,4", soc="SM8550,SM8650,SM8750"), 3, "option vtcm_mb: found 2 values", "one for each of the 3 machines of option soc_model")
check("too many", compiled("htp_arch=73,75", soc="SM8550"), 3, "option htp_arch: found 2 values, expected one, for one machine")
check("one that is too much for its SoC", compiled("vtcm_mb=2,9", soc="SM8550,SM8650"), 3, "option vtcm_mb: found 9 for SM8650")
check("none of the values", compiled("vtcm_mb=2,x", soc="SM8550,SM8650"), 3, 'option vtcm_mb: found "x"', "an integer from 0 to 1024")
check("none of the words", compiled("htp_arch=73,74", soc="SM8550,SM8650"), 3, 'option htp_arch: found "74"')
check("a device that is not there, whatever the SoC", compiled("htp_arch=75", "device_id=1"), 3, "found 1 devices", "device_id 1")

# ---- the library's trace: where the option says, and nowhere else
working, traces = made("working"), made("traces")
profile = os.path.join(folder, "profile.csv")
measured = ["--profile=" + profile, "-O", "profiling_level=optrace", "-O", "htp.optrace=1"]
check("no folder for the trace", run("compile", model, "--backend", "htp", *measured, "-o", container, cwd=working), 3, "htp.optrace_dir", "found ''", "expected a folder")
check("a folder that is none", run("compile", model, "--backend", "htp", *measured, "-O", "htp.optrace_dir=/nowhere/at/all", "-o", container, cwd=working), 3, "htp.optrace_dir",
      "/nowhere/at/all", "No such file or directory")
check("the library's trace", run("compile", model, "--backend", "htp", *measured, "-O", "htp.optrace_dir=" + traces, "-o", container, cwd=working), 0)
require("the working folder stays empty", not os.listdir(working), os.listdir(working))
schematics = [name for name in os.listdir(traces) if name.endswith("_schematic.bin") and os.path.getsize(os.path.join(traces, name)) > 0]
require("the trace is where the option says", len(schematics) == 1, os.listdir(traces))
with open(profile) as file:
    attributes = [row["attributes"] for row in csv.DictReader(file) if row["name"] == "graphFinalize"]
require("the profile names the file", attributes == ["optrace=" + os.path.join(traces, schematics[0] if schematics else "?")], attributes)

# ---- what is compiled, as files
dumps = made("dumps")
check("dumps", compiled("dump_json_qnn_graph=1", "json_qnn_graph_dir=" + dumps, "enable_framework_op_trace=1", "framework_op_trace_dir=" + dumps, soc="SM8650,SM8750"), 0)
require("a file for each SoC", sorted(os.listdir(dumps)) == [f"digits_{soc}{end}" for soc in ("SM8650", "SM8750") for end in (".json", "_op_trace.json")], os.listdir(dumps))
with open(os.path.join(dumps, "digits_SM8650.json")) as file:
    graph = json.load(file)
nodes, tensors = graph["graph"]["nodes"], graph["graph"]["tensors"]
require("every tensor of a node is there", all(name in tensors for node in nodes.values() for name in (*node["input_names"], *node["output_names"], *node["tensor_params"].values())), nodes)
require("operations of the library", graph["op_types"] == sorted({node["type"] for node in nodes.values()}) and "Conv2d" in graph["op_types"], graph["op_types"])
convolution = next(node for node in nodes.values() if node["type"] == "Conv2d")
require("a convolution's parameters", {"stride", "pad_amount"} <= set(convolution["tensor_params"]) and "group" in convolution["scalar_params"], convolution)
with open(os.path.join(dumps, "digits_SM8650_op_trace.json")) as file:
    traced = json.load(file)["nodes"]
require("each operation and the node it is of", [one["qnn_node"] for one in traced] == list(nodes) and any(one["onnx_node"] for one in traced), traced)
dlc = made("dlc")
check("a DLC file for each SoC", compiled("dump_qnn_ir_dlc=1", "dump_qnn_ir_dlc_dir=" + dlc, soc="SM8650,SM8750"), 0)
require("their names", sorted(os.listdir(dlc)) == ["digits_SM8650.dlc", "digits_SM8750.dlc"], os.listdir(dlc))
# The system library's own reader takes them: slot 8 of its table, which begins at 32.
reads = """
import ctypes, sys
lib, first, count = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_uint32()
lib.QnnSystemInterface_getProviders(ctypes.byref(first), ctypes.byref(count))
slot = ctypes.cast(ctypes.cast(first, ctypes.POINTER(ctypes.c_void_p))[0] + 32 + 8 * 8, ctypes.POINTER(ctypes.c_void_p))[0]
dlc = ctypes.c_void_p()
sys.exit(int(ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(slot)(None, sys.argv[2].encode(), ctypes.byref(dlc)) != 0))
"""
libraries = os.path.abspath(sys.argv[3])
for name in sorted(os.listdir(dlc)):
    status = subprocess.run([sys.executable, "-c", reads, os.path.join(libraries, "libQnnSystem.so"), os.path.join(dlc, name)], timeout=60).returncode
    require("the library's own reader takes " + name, status == 0 and os.path.getsize(os.path.join(dlc, name)) > 100000, status)
require("and no other file", subprocess.run([sys.executable, "-c", reads, os.path.join(libraries, "libQnnSystem.so"), container], timeout=60).returncode != 0)
check("the library that writes them, by its folder", compiled("dump_qnn_ir_dlc=1", "dump_qnn_ir_dlc_dir=" + dlc, "qnn_ir_backend_path=" + libraries), 0)
check("one that is not there", compiled("dump_qnn_ir_dlc=1", "qnn_ir_backend_path=/nowhere/libQnnIr.so"), 3, "/nowhere/libQnnIr.so", "No such file")
check("another library", compiled("dump_qnn_ir_dlc=1", "qnn_ir_backend_path=" + os.path.join(libraries, "libQnnHtp.so")), 3, "found QNN backend 6", "expected backend 9, IR")
check("a folder that is not there", compiled("dump_qnn_ir_dlc=1", "dump_qnn_ir_dlc_dir=/nowhere"), 3, "dump_qnn_ir_dlc_dir", "/nowhere/digits_SM8650.dlc", "6022")
check("a folder that is not there", compiled("dump_json_qnn_graph=1", "json_qnn_graph_dir=/nowhere"), 3, "json_qnn_graph_dir", "/nowhere/digits_SM8650.json", "No such file")

# ---- what is refused, and why
for option, reason in (("enable_htp_monolithic_lstm=1", "unrolled"), ("enable_htp_graph_splitting=1", "as a whole"), ("enable_block_quant_weight_optimization=1", "blocks"),
                       ("htp_graph_splitting_num_prepare_threads=2", "as a whole"), ("op_affinity=a.json", "quarry cut"), ("genie_log_level=info", "a state of the session"),
                       ("num_graph_prepare_threads=2", "no partitions"), ("dump_qnn_ep_input_graph=1", "graph.watch"),
                       ("ep.context_model_external_initializers_file_name=a.bin", "scales and zero points alone")):
    key = option.split("=")[0]
    check("refused: " + key, compiled(option), 3, "option " + key, "does not do", reason, "leave the option out")
for value in "01":
    check("a session loads what was compiled in any case", compiled("enable_htp_prepare_and_load=" + value), 0)
check("a package that is not there: the library's word", compiled("op_packages=MyOp:/nowhere/libmine.so:Mine"), 3, "backendRegisterOpPackage", "/nowhere/libmine.so", "4005")
check("compile", compiled(), 0)
check("a package that is not there, where is loaded", run("run", container, "--backend", "htp", "--zeros", "-O", "context.recompile=never", "-O", "op_packages=MyOp:/nowhere/libmine.so:Mine"), 3,
      "op_packages")
for option, reason in (("enable_dx12_shared_memory_allocator=1", "Windows"),):
    key = option.split("=")[0]
    check("refused: " + key, run("run", container, "--backend", "htp", "--zeros", "-O", option), 3, "option " + key, "does not do", reason)
check("more threads than there are", compiled("htp.hvx_threads=5"), 3, "htp.hvx_threads", "found 5 for SM8650", "at most 4")
check("a key that the library's compiler does not know", compiled("htp.finalize_config=O=1,foo=3"), 3, "htp.finalize_config", "found key foo", "does not know")
check("bf16 before v81", compiled("htp_bf16_enable=1"), 3, "htp_bf16_enable", "from v81 on")
check("bf16 on a SoC without it: the library's word", compiled("htp_bf16_enable=1", soc="SM8850"), 3, "doesn't support BF16")
check("nodes are not asked about", compiled("htp_bf16_enable=1", "skip_backend_op_validation=1", soc="SM8850"), 3, "tensorCreateGraphTensor", "BFLOAT16 is unsupported")
check("an overflow that cannot be clamped", compiled("enable_htp_fp16_clamp_overflow=1", soc="SM8850"), 3, "enable_htp_fp16_clamp_overflow", "from v81 on", "131008")

# ---- every key of ONNX Runtime's provider, as its library has them as words, is a row of the table of the document
with open(os.path.join(libraries, "libonnxruntime_providers_qnn.so"), "rb") as file:
    words = {word.decode() for word in re.findall(rb"(?<=\x00)[a-z][a-z0-9_.]{4,60}(?=\x00)", file.read())}
beginnings = ("htp_", "qnn_", "qnn.", "enable_", "disable_", "vtcm_", "soc_", "rpc_", "dump_", "json_", "op_", "offload_", "skip_", "num_graph_", "extended_", "profiling_", "device_id", "backend_", "ep.", "session.",
              "framework_", "genie_", "kvcache_", "is_multi_", "stop_", "share_")
others = {"op_mappings", "op_types", "qnn_subgraphs", "soc_traces"}  # of files that it writes
keys = {word for word in words if word.startswith(beginnings) and not word.endswith(".cc")} - others
with open(os.path.join(os.path.dirname(__file__), "..", "..", "backends", "htp", "document.tsv"), encoding="utf-8") as file:
    table = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
told = {key.strip() for row in table for key in row[1].split(",")}
require("the provider's library has keys", len(keys) > 55, sorted(keys))
require("each is in backends/htp/document.tsv", not keys - told, sorted(keys - told))
known = {row["key"] for row in json.loads(run("options", "--json").stdout)} if not keys - told else set()
unknown = {key for key in keys if key not in known}
missing = []
for section, key, state, how, test in table:  # a row that works has a test: on the emulator where that is said, else on the stand-in
    file, _, said = test.partition(":")
    if not test and state in ("refused", "own"):
        continue
    with open(os.path.join(root, file or "."), encoding="utf-8") as source:
        if said not in source.read() or not said or (state == "here" and re.search(r"test_htp_(?!real)", file)):
            missing.append((key, state, test))
require("each row has its test", not missing, missing)
refused = {key.strip() for row in table if row[2] == "refused" for key in row[1].split(",")}
require("what is no option is called refused", unknown <= refused, sorted(unknown - refused))
finish()
