#!/usr/bin/env python3
"""ONNX's own node tests on Qualcomm's emulator: none fails, within 1 % of a result's range, which is what f16 gives.

check_htp_nodes.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES [--all | --ends] [--nodes FOLDER]

--all: every architecture but v75, which is what runs without it. --ends: the oldest and the newest, each with another quarter of the cases. --nodes: cases of a later ONNX
than Debian's (libonnx-testdata): those that this one does not have.
"""
import json
import os
import sys

from program import build, environment, finish, new_folder, require, run

NODES = "/usr/share/libonnx-testdata/data/node"
SOCS = {"v68": "SM8350", "v73": "SM8550", "v75": "SM8650", "v79": "SM8750", "v81": "SM8850"}
# What f16 cannot give, and why; of a case that failed conform says by which of its rules it is checked.
ROUNDED = {"logsoftmax_large_number", "softmax_large_number"}  # 10000 to 10003 is one number
A_STEP = {"dynamicquantizelinear", "dynamicquantizelinear_min_adjusted", "dynamicquantizelinear_max_adjusted", "qlinearmatmul_2D", "qlinearmatmul_3D"}
NO_SUCH = {"reduce_prod_default_axes_keepdims_example",  # 12 factorial
           "cast_FLOAT16_to_FLOAT", "castlike_FLOAT16_to_FLOAT", "isnan",  # NaN, and infinities, which are NaN there
           # A mask of minus infinity is an output here, which the least number stands for.
           "attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal", "attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
          "isinf", "isinf_negative", "isinf_positive"}  # on a processor with AVX2 alone the emulator has 131008 for them
RULES = {"f16: of inputs rounded to f16": ROUNDED, "f16: integers a step off": A_STEP, "f16: no such number": NO_SUCH}
# Of these a value between two operators is past what f16 has: the exponential of 60. On processors with more than AVX2 the emulator has it.
PAST_F16 = {f"test_reduce_log_sum_exp_{kind}_example_expanded" for kind in ("default_axes_keepdims", "do_not_keepdims", "keepdims", "negative_axes_keepdims")}
LEAST = {NODES: 795}  # that pass: 798 on v68, 800 on v73 and later, with AVX2 alone too


def plain(name):
    """A case's name without what says that it is the same in another form or type."""
    for ending in ("_ver18", "_expanded", "_float32", "_int8", "_uint8"):
        name = name.removesuffix(ending)
    return name.removeprefix("test_")



nodes = sys.argv[sys.argv.index("--nodes") + 1] if "--nodes" in sys.argv else NODES
if not os.path.isdir(nodes):
    print("   skipped: libonnx-testdata is not installed")
    finish()
environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu-reference"))
folder = new_folder()
names = sorted(os.listdir(nodes))
if nodes != NODES and os.path.isdir(NODES):
    names = sorted(set(names) - set(os.listdir(NODES)))
archs = [arch for arch in SOCS if arch != "v75"] if "--all" in sys.argv else ["v68", "v81"] if "--ends" in sys.argv else ["v75"]
for index, (arch, soc) in enumerate((arch, SOCS[arch]) for arch in archs):
    out = os.path.join(folder, soc + ".json")
    chosen = names[index::4] if "--ends" in sys.argv else names
    cases_of = os.path.join(folder, soc)
    os.mkdir(cases_of)
    for name in chosen:
        os.symlink(os.path.join(nodes, name), os.path.join(cases_of, name))
    run("conform", "--backend", "htp", "-O", "soc_model=" + soc, "--rtol", "0.01", "--range-floor", "0.01", "--constant-inputs", "--precision", "f16", "--json", out, cases_of, timeout=2400)
    with open(out) as file:
        cases = json.load(file)["cases"]
    failed = sorted(c["name"] + ": " + c["reason"] for c in cases if c["result"] == "failed" and not (c["name"] in PAST_F16 and "values differ" in c["reason"]))
    require(f"{arch}: none fails", not failed, failed)
    require(f"{arch}: what is refused has a reason", all(c.get("reason") for c in cases if c["result"] == "refused"))
    passed = sum(c["result"] == "passed" for c in cases)
    require(f"{arch}: as many pass as before", passed >= (LEAST.get(nodes, 0) if chosen is names else 0) and passed >= len(cases) // 4, passed)
    halves = {c["name"]: c["rule"] for c in cases if c.get("rule", "").startswith("f16:")}
    others = {name: rule for name, rule in halves.items() if plain(name) not in RULES.get(rule, ())}
    require(f"{arch}: checked against what f16 has are those that are known", not others, others)
    print(f"   {soc} ({arch}): {passed} passed, {len(failed)} failed, {len(cases) - passed - len(failed)} refused; {len(halves)} checked against what f16 has")
finish()
