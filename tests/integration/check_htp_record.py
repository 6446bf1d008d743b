#!/usr/bin/env python3
"""Records of the htp backend's calls (option htp.record) and `quarry replay`, on Qualcomm's own library.

check_htp_record.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

from program import build, check, environment, finish, model, new_folder, quarry, require, root, run

folder = new_folder()
libraries = os.path.abspath(sys.argv[3])
standin = os.path.join(build, "tests", "plugins", "qnn")
environment["QUARRY_QNN_PATH"] = libraries
environment["QUARRY_BACKEND_PATH"] = os.path.join(build, "backends", "htp")
container = os.path.join(folder, "model.qrm")


def at(name):
    return os.path.join(folder, name)


def on_htp(*words):
    return (*words, "--backend", "htp", "-O", "soc_model=SM8650")


# ---- a session is recorded from its compilation on, and made again by another process
check("a session is recorded", run(*on_htp("run", model), "--zeros", "-O", "htp.record=" + at("session.qrec")), 0)
check("and made again", run("replay", at("session.qrec")), 0, "with weights", "1 runs with 1 outputs (40 B)", "nothing differs")
report = json.loads(check("as JSON", run("replay", at("session.qrec"), "--json"), 0).stdout)
require("every call is made", report["replayed"]["calls"] == report["recorded"]["calls"] > 50 and report["left_out"] == 0 and report["differing"] == 0, report)
require("and gives the same context binary", report["replayed"]["binaries"] == 1 and report["replayed"]["other_binaries"] == 0, report)
listed = json.loads(check("its calls are listed", run("replay", at("session.qrec"), "--list", "--json", "--library", "/nowhere"), 0).stdout)
names = [one["function"] for one in listed["list"] if "function" in one]
require("in their order", names[:3] == ["logCreate", "backendCreate", "deviceCreate"] and names.index("graphFinalize") < names.index("contextGetBinary") < names.index("contextCreateFromBinary") < names.index("graphExecute"), names)
require("with what the library said", any("SM8650" in one.get("line", "") for one in listed["list"]), listed["list"])
check("readable, too", run("replay", at("session.qrec"), "--list"), 0, "graphExecute", "the library says")
check("a library that is not there", run("replay", at("session.qrec"), "--library", "/nowhere/libQnnHtp.so"), 3, "/nowhere/libQnnHtp.so", "No such file")
# Another library: the stand-in prepares the graph, and takes no binary but its own.
check("another library's answers differ", run("replay", at("session.qrec"), "--library", standin), 1, "the first:", "contextCreateFromBinary: it returned 30010", "recorded success", "context binaries have other bytes",
      "left out: call", "graphExecute: it is of something that no call before it has made here")

# ---- a container that was compiled elsewhere; profiles; votes; several runs
check("compile", run(*on_htp("compile", model), "-o", container), 0)
check("a loaded context is recorded", run("bench", container, "--backend", "htp", "--iterations", "20", "-O", "htp_performance_mode=burst", "-O", "htp.record=" + at("bench.qrec")), 0)
report = json.loads(check("and made again", run("replay", at("bench.qrec"), "--json"), 0).stdout)
require("every run of it", report["replayed"]["runs"] >= 20 and report["differing"] == 0 and report["left_out"] == 0, report)
require("inputs and outputs of equal runs are in it once", os.path.getsize(at("bench.qrec")) < 2 * os.path.getsize(container), os.path.getsize(at("bench.qrec")))
profiled = run(*on_htp("run", model), "--zeros", "--profile", "-O", "profiling_level=linting", "-O", "htp.record=" + at("profile.qrec"))
check("profiles", profiled, 0)
check("and made again", run("replay", at("profile.qrec")), 0, "nothing differs")

# ---- the record of a call that failed says the same error
failing = run("compile", model, "--backend", "htp", "-O", "soc_model=SM8850", "-O", "htp_bf16_enable=1", "-O", "skip_backend_op_validation=1", "-O", "htp.record=" + at("failing.qrec"), "-o", container)
check("a call that the library refuses", failing, 3, "tensorCreateGraphTensor", "1000 NotSupported")
check("fails again", run("replay", at("failing.qrec")), 0, "1 failed in the record and here alike", "as recorded: call", "tensorCreateGraphTensor: 1000 NotSupported", "nothing differs")
check("and does not in another library", run("replay", at("failing.qrec"), "--library", standin), 1, "tensorCreateGraphTensor: it returned success, recorded 1000 NotSupported")

# ---- a process that is killed leaves all that it did
environment_here = dict(environment)
process = subprocess.Popen([quarry, *on_htp("bench", model), "--iterations", "1000000", "-O", "htp.record=" + at("killed.qrec")], env=environment_here, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for _ in range(600):
    if os.path.exists(at("killed.qrec")) and os.path.getsize(at("killed.qrec")) > 330000:
        break
    time.sleep(0.1)
check("two processes, one file", run(*on_htp("run", model), "--zeros", "-O", "htp.record=" + at("killed.qrec")), 3, "another process records into", "compile.process=child")
process.send_signal(signal.SIGKILL)
process.wait()
report = json.loads(run("replay", at("killed.qrec"), "--json").stdout)
require("what it did is made again", report["replayed"]["runs"] > 0 and report["differing"] == 0, report["replayed"])

# ---- without weights
quiet = at("quiet.qrec")
check("without weights", run(*on_htp("run", model), "--zeros", "-O", "htp.record=" + quiet, "-O", "htp.record_weights=0"), 0)
require("it is small", os.path.getsize(quiet) < os.path.getsize(at("session.qrec")) / 5, os.path.getsize(quiet))
check("it cannot be made again", run("replay", quiet), 3, "weights were left out", "htp.record_weights=1")
listed = json.loads(check("but listed", run("replay", quiet, "--list", "--json"), 0, "left_out_bytes").stdout)
require("how much is left out", listed["recorded"]["left_out_bytes"] > 100000 and not listed["recorded"]["weights"], listed["recorded"])
with open(at("session.qrec"), "rb") as file:
    whole = file.read()
with open(quiet, "rb") as file:
    rest = file.read()
# Entries of bytes: a head of 24 bytes (kind, reserved, size, sum), then size, sum and whether they follow.
secrets, place = [], 152
while place + 24 <= len(whole):
    kind, size = struct.unpack_from("<I4xQ", whole, place)
    if kind == 1 and size > 24 + 256:
        secrets.append(whole[place + 48 : place + 24 + size])
    place += 24 + size
inputs = 64 * 4 + 64  # an input of zeros, and what is no longer than parameters of operations
require("there are weights in the other", sum(map(len, secrets)) > 100000, len(secrets))
require("no weight is in it", not any(secret[:64] in rest for secret in secrets if len(secret) > inputs and len(set(secret[:64])) > 8), "found one")

# ---- records that are damaged, and files that are none
for name, bytes_, status, words in (("cut", whole[:-5], 1, ("ends in the midst of an entry", "nothing differs")), ("changed", whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:], 3, ("whose sum is another at byte",)),
                                    ("newer", whole[:8] + b"\x02" + whole[9:], 3, ("found a record of version 2, expected 1",)), ("empty", b"", 3, ("found no record of calls",))):
    with open(at(name), "wb") as file:
        file.write(bytes_)
    check("a record that is " + name, run("replay", at(name)), status, *words)
check("no file", run("replay", at("nowhere")), 3, "nowhere", "No such file")
check("no record", run("replay", model), 3, "found no record of calls")
check("no other file is replaced", run(*on_htp("run", model), "--zeros", "-O", "htp.record=" + container), 3, "that is no record", "expected a new file or an older record")
check("no folder for it", run(*on_htp("run", model), "--zeros", "-O", "htp.record=/nowhere/a.qrec"), 3, "htp.record", "No such file")
check("a full disk", run(*on_htp("run", model), "--zeros", "-O", "htp.record=/dev/full"), 3, "that is no record")

# ---- Qualcomm's saver
for option in ("backend_type=saver", "backend_path=/a/libQnnSaver.so"):
    check(option, run("run", model, "-O", option, "--zeros"), 3, 'backend "saver"', "htp.record")
saver = os.path.join(libraries, "libQnnSaver.so")
if os.path.exists(saver):
    saved = os.path.join(folder, "saved")
    os.mkdir(saved)
    for library in (saver, libraries):
        check("qnn_saver_path", run(*on_htp("compile", model), "-O", "qnn_saver_path=" + library, "-O", "htp.saver_dir=" + saved, "-o", at("saved.qrm")), 0)
        require("two files", sorted(os.listdir(saved)) == ["digits_SM8650_calls.c", "digits_SM8650_data.bin"], os.listdir(saved))
        with open(os.path.join(saved, "digits_SM8650_calls.c"), encoding="utf-8") as file:
            calls = file.read()
        nodes = json.loads(check("the container", run("inspect", at("saved.qrm"), "--json"), 0).stdout)["contexts"][0]["programs"][0]["about"]["graphs"][0]["nodes"]
        require("with every node", calls.count("graphAddNode(") >= nodes - 1 and calls.count("graphFinalize(") == 1 and '"digits"' in calls, (nodes, calls.count("graphAddNode(")))
        require("and the constants", os.path.getsize(os.path.join(saved, "digits_SM8650_data.bin")) > 50000, os.listdir(saved))
        for name in os.listdir(saved):
            os.remove(os.path.join(saved, name))
    check("two machines", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8550,SM8650", "-O", "qnn_saver_path=" + saver, "-O", "htp.saver_dir=" + saved, "-o", at("saved.qrm")), 0)
    require("two files each", len(os.listdir(saved)) == 4, os.listdir(saved))
    check("a folder that is not there", run(*on_htp("compile", model), "-O", "qnn_saver_path=" + saver, "-O", "htp.saver_dir=/nowhere/at/all", "-o", at("saved.qrm")), 3, "htp.saver_dir", "/nowhere/at/all")
    check("the folder alone", run(*on_htp("compile", model), "-O", "htp.saver_dir=" + saved, "-o", at("saved.qrm")), 3, "nothing reads without qnn_saver_path")
    check("another library", run(*on_htp("compile", model), "-O", "qnn_saver_path=" + os.path.join(libraries, "libQnnIr.so"), "-o", at("saved.qrm")), 3, "libQnnIr.so", "the saver")
else:
    print("   skipped: Qualcomm's saver: there is no " + saver)

# ---- whatever the backend calls is recorded: a function that calls.inc lacks is not there for a session that records
with open(os.path.join(root, "backends", "htp", "record", "calls.inc"), encoding="utf-8") as file:
    told = set(re.findall(r"^QR_(?:QNN|HTP)_CALL\(\d+, (\w+),", file.read(), re.M))
called = set()
for where, _, files in os.walk(os.path.join(root, "backends", "htp")):
    for name in files:
        if name.endswith((".cpp", ".h")) and "/record" not in where and name not in ("dlc.cpp", "library.cpp", "metadata.cpp", "layout.cpp"):
            with open(os.path.join(where, name), encoding="utf-8") as file:
                called |= set(re.findall(r"(?:\bapi(?:_|\(\))?(?:\.|->)|infra_->)((?:backend|context|graph|tensor|log|profile|mem|device|signal|create|destroy|set)[A-Z]\w+)\(", file.read()))
require("all that the backend calls is recorded", len(called) > 30 and called <= told, sorted(called - told))
finish()
