#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long it takes to have a session on the htp backend, in one alternating run of one process: the library's own contextCreateFromBinary of the
container's binary and the hash over it, Quarry's session from the container, ONNX Runtime's QNN provider from an EPContext model (embedded and not) of
the same binary. Started by tools/bench_htp.sh, whose Python has onnxruntime and onnxruntime-qnn; the libraries of that package serve all.

bench_htp.py BUILD_DIR MODEL.onnx [ROUNDS [SOC]]
"""
import ctypes
import json
import mmap
import os
import statistics
import subprocess
import sys
import tempfile
import time

import onnxruntime
import onnxruntime_qnn

build, model = os.path.abspath(sys.argv[1]), sys.argv[2]
rounds, soc = int(sys.argv[3]) if len(sys.argv) > 3 else 15, sys.argv[4] if len(sys.argv) > 4 else "57"
folder = tempfile.mkdtemp(prefix="quarry-bench-")
libraries = os.environ["QUARRY_QNN_PATH"] = os.path.dirname(onnxruntime_qnn.get_qnn_htp_path())
os.environ["QUARRY_BACKEND_PATH"] = os.path.join(build, "backends", "htp")


class String(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_uint64)]


class Watch:
    """Wall time, and the processor time of the whole process, which other work on the machine changes little."""

    def __init__(self):
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def took(self):
        return time.perf_counter() - self.wall, time.process_time() - self.processor


def program(*arguments):
    subprocess.run([os.path.join(build, "tools", "quarry"), *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


container = os.path.join(folder, "model.qrm")
common = [model, "--backend", "htp", "-O", "soc_model=" + soc]
program("compile", *common, "-o", container)
for embed in ("0", "1"):
    program("run", *common, "--zeros", "-O", "ep.context_enable=1", "-O", "ep.context_embed_mode=" + embed, "-O", f"ep.context_file_path={folder}/ep{embed}.onnx")
with open(f"{folder}/ep0_htp.bin", "rb") as file:
    binary = file.read()

# ---- Quarry

class Source(ctypes.Structure):  # qr_model_source
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("path", String), ("data", ctypes.c_char_p), ("offset", ctypes.c_uint64),
                ("size_bytes", ctypes.c_uint64), ("fd", ctypes.c_int32), ("folder_fd", ctypes.c_int32), ("self", ctypes.c_void_p), ("read", ctypes.c_void_p)]


quarry = ctypes.CDLL(os.path.join(build, "runtime", "libquarry.so.0"))
quarry.qr_options_set.argtypes = [ctypes.c_void_p, String, String]
quarry.qr_model_open.argtypes = [ctypes.c_void_p, ctypes.POINTER(Source), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
quarry.qr_session_create.argtypes = [ctypes.c_void_p] * 4
for name in ("qr_runtime_create", "qr_options_create", "qr_options_set", "qr_model_open", "qr_session_create"):
    getattr(quarry, name).restype = ctypes.c_void_p
for name in ("qr_model_destroy", "qr_session_destroy"):
    getattr(quarry, name).argtypes = [ctypes.c_void_p]
runtime, options = ctypes.c_void_p(), ctypes.c_void_p()
assert not quarry.qr_runtime_create(None, ctypes.byref(runtime)) and not quarry.qr_options_create(runtime, ctypes.byref(options))
assert not quarry.qr_options_set(options, String(b"backend", 7), String(b"htp", 3))


def ours(keep=False):
    opened, session = ctypes.c_void_p(), ctypes.c_void_p()
    watch = Watch()
    source = Source(ctypes.sizeof(Source), 1, String(container.encode(), len(container)), None, 0, 0, -1, -1, None, None)
    assert not quarry.qr_model_open(runtime, source, options, None, ctypes.byref(opened))
    assert not quarry.qr_session_create(opened, options, None, ctypes.byref(session))
    took = watch.took()
    if not keep:  # one session stays, so that backend and device are there, as they are for the library's own call
        quarry.qr_session_destroy(session)
        quarry.qr_model_destroy(opened)
    return took


# ---- the library itself: slots of its table by number (backends/htp/qnn/function_table.h)
qnn = ctypes.CDLL(onnxruntime_qnn.get_qnn_htp_path())
providers, count = ctypes.c_void_p(), ctypes.c_uint32()
assert qnn.QnnInterface_getProviders(ctypes.byref(providers), ctypes.byref(count)) == 0
table = ctypes.cast(providers, ctypes.POINTER(ctypes.c_void_p))[0] + 40


def slot(number, *types):
    return ctypes.CFUNCTYPE(ctypes.c_uint64, *types)(ctypes.cast(table, ctypes.POINTER(ctypes.c_void_p))[number])


pointer = ctypes.c_void_p
backend, device = pointer(), pointer()
assert slot(1, pointer, pointer, pointer)(None, None, ctypes.byref(backend)) == 0
custom = (ctypes.c_uint32 * 4)(0, int(soc), int(soc), 0)  # the SoC at both offsets, as the layout depends on the version
config = (ctypes.c_uint64 * 2)(0, ctypes.addressof(custom))
configs = (ctypes.c_uint64 * 2)(ctypes.addressof(config), 0)
assert slot(40, pointer, pointer, pointer)(None, configs, ctypes.byref(device)) == 0
from_binary = slot(13, pointer, pointer, pointer, pointer, ctypes.c_uint64, pointer, pointer)
free = slot(14, pointer, pointer)
hash64 = ctypes.CDLL(os.environ.get("QUARRY_XXHASH", "libxxhash.so.0")).XXH3_64bits
hash64.argtypes, hash64.restype = [pointer, ctypes.c_size_t], ctypes.c_uint64


def library():
    """The bytes as they lie in the file, mapped anew: the hash over them, then the context."""
    context = pointer()
    with open(f"{folder}/ep0_htp.bin", "rb") as opened:
        watch = Watch()
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY)
        view = ctypes.c_char.from_buffer(mapped)
        at = ctypes.addressof(view)
        hash64(at, len(binary))
        hashed = watch.took()
        watch = Watch()
        assert from_binary(backend, device, None, at, len(binary), ctypes.byref(context), None) == 0
        took = watch.took()
    free(context, None)
    del view
    mapped.close()
    return took, hashed


# ---- ONNX Runtime
onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
provider = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == "QNNExecutionProvider")


def peer(path):
    session_options = onnxruntime.SessionOptions()
    session_options.log_severity_level = 3
    session_options.add_provider_for_devices([provider], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "soc_model": soc})
    watch = Watch()
    session = onnxruntime.InferenceSession(path, session_options)
    took = watch.took()
    del session
    return took


ours(keep=True)
times = {"contextCreateFromBinary": [], "hash": [], "quarry": [], "onnxruntime": [], "onnxruntime embedded": []}
for round_ in range(rounds + 1):
    took = [*library(), ours(), peer(f"{folder}/ep0.onnx"), peer(f"{folder}/ep1.onnx")]
    for name, both in zip(times, took):
        if round_ > 0:  # the first opens libraries
            times[name].append(both)
wall, cpu = ({name: statistics.median(each[which] for each in values) * 1e3 for name, values in times.items()} for which in (0, 1))


def of_library_and_hash(median):
    return round(median["quarry"] / (median["contextCreateFromBinary"] + median["hash"]), 3)


processor = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
print(json.dumps({"model": os.path.basename(os.path.dirname(os.path.abspath(model))), "binary_bytes": len(binary), "processor": processor,
                  "median_ms": {name: round(value, 2) for name, value in wall.items()}, "median_cpu_ms": {name: round(value, 2) for name, value in cpu.items()},
                  "of_library_and_hash": of_library_and_hash(wall), "of_library_and_hash_cpu": of_library_and_hash(cpu),
                  "of_onnxruntime": round(wall["quarry"] / wall["onnxruntime"], 3)}))
