#!/usr/bin/env python3
"""The `quarry` program when something comes in between: Ctrl-C, kill, typing errors, limits of the system.

check_trouble.py BUILD_DIR SHARED_DIR
"""
import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import time

from onnx_file import onnx_file, onnx_node
from program import build, check, environment, finish, has_handler, image, model, new_folder, npy, onnx_model, quarry, require, run, shared, tensor_proto

folder = new_folder()


class Stopped:
    """A command that gets a signal once `ready(process)` says so; looks like a CompletedProcess."""

    def __init__(self, ready, number, *args, group=False, **kwargs):
        with subprocess.Popen([quarry, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**environment, **kwargs}, start_new_session=True) as process:
            end = time.time() + 120
            while process.poll() is None and time.time() < end and not ready(process):
                time.sleep(0.01)
            began = time.time()
            if process.poll() is None:
                os.killpg(process.pid, number) if group else process.send_signal(number)
            try:
                self.stdout, self.stderr = process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                self.stdout, self.stderr = process.communicate()
            self.returncode, self.seconds = process.returncode, time.time() - began


def catches(number):
    """Ready once the process has a handler for the signal, and a little later."""
    def ready(process):
        if not has_handler(process, number):
            return False
        time.sleep(0.3)
        return True
    return ready


# ---- Ctrl-C in bench: what there is so far
for number in (signal.SIGINT, signal.SIGTERM):
    result = check(f"bench stopped by {number.name}", Stopped(catches(number), number, "bench", model, "--duration", "100"), -number,
                   "then interrupted", "median", "p99", "peak memory", f"stopped by {number.name}")
    result = check(f"bench --json stopped by {number.name}", Stopped(catches(number), number, "bench", model, "--duration", "100", "--sessions", "2", "--json", "-"), -number)
    figures = json.loads(result.stdout)
    require("the figures so far", figures["interrupted"] and figures["runs"] > 0 and figures["median_ms"] > 0, figures)
result = check("bench stopped within its first run", Stopped(catches(signal.SIGINT), signal.SIGINT, "bench", model, "--group", "1000000000"), -signal.SIGINT,
               "0 runs, then interrupted", "create", "peak memory")
require("a long run is not waited for", result.seconds < 60, result.seconds)
done = json.loads(check("bench that ends by itself", run("bench", model, "--iterations", "3", "--json", "-"), 0).stdout)
require("was not interrupted", done["interrupted"] is False, done)

# ---- Ctrl-C while a large graph is worked at: 50 ms on a quiet machine, which a test cannot count on
NODES, MOST_SECONDS = 150000, 2
long_chain = os.path.join(folder, "long_chain.onnx")
with open(long_chain, "wb") as out:
    out.write(onnx_file([onnx_node("Relu", [f"t{i}" if i else "x"], [f"t{i + 1}" if i + 1 < NODES else "y"], name=f"n{i}") for i in range(NODES)], [("x", 1, [4])], [("y", 1, [4])]))
sample = npy(os.path.join(folder, "sample", "x.npy"), [4])
for command, *args in (("check",), ("compile", "-o", os.path.join(folder, "long_chain.qrm")), ("run", "--zeros"), ("quantize", "-c", os.path.dirname(sample), "-o", os.path.join(folder, "quantized.onnx"))):
    backend = [] if command == "quantize" else ["--backend", "cpu"]
    late = []
    for wait in (0.1, 0.6, 1.2):
        result = Stopped(lambda process: time.sleep(wait) or True, signal.SIGINT, command, long_chain, *backend, *args)
        if result.returncode == -signal.SIGINT:
            late.append(result.seconds)
    require(f"{command} of {NODES} nodes ends soon after Ctrl-C", late and min(late) < MOST_SECONDS, late)
    print(f"{command} of {NODES} nodes ended after Ctrl-C in", ", ".join(f"{1e3 * seconds:.0f}" for seconds in late), "ms")

# ---- Ctrl-C in conform: the cases so far
suite = os.path.join(folder, "suite")
for name in ("a_wrong", "b_hangs", "c_never"):
    data = os.path.join(suite, name, "test_data_set_0")
    os.makedirs(data)
    shutil.copy(model, os.path.join(suite, name, "model.onnx"))
    with open(os.path.join(data, "input_0.pb"), "wb") as out:
        out.write(tensor_proto([1, 1, 8, 8], [0.0] * 64))
    with open(os.path.join(data, "output_0.pb"), "wb") as out:
        out.write(tensor_proto([1, 10], [99.0] * 10))
pipe = os.path.join(suite, "b_hangs", "test_data_set_0", "input_0.pb")
os.remove(pipe)
os.mkfifo(pipe)
writers = []


def reads_the_pipe(process):
    """The worker that runs b_hangs has opened it; from then on it waits for bytes that do not come."""
    try:
        writers.append(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        assert error.errno == errno.ENXIO, error
        return False
    return True


scratch = os.path.join(folder, "scratch")
os.mkdir(scratch)
for title, number, group, flags in (("Ctrl-C", signal.SIGINT, True, ()), ("kill", signal.SIGTERM, False, ("--compiled",))):
    result = check(f"conform stopped by {title}", Stopped(reads_the_pipe, number, "conform", suite, "--jobs", "1", *flags, group=group, TMPDIR=scratch), -number,
                   "failed a_wrong", "0 passed, 1 failed, 0 refused, 2 not run: interrupted", f"stopped by {number.name}")
    require("conform does not wait for the case", result.seconds < 60, result.seconds)
    try:
        os.write(writers[-1], b"x")
        require("no worker is left", False, "somebody still reads the case's file")
    except BrokenPipeError:
        require("no worker is left", True)
    os.close(writers.pop())
    require("no file is left", os.listdir(scratch) == [], os.listdir(scratch))
result = check("conform --json stopped", Stopped(reads_the_pipe, signal.SIGINT, "conform", suite, "--jobs", "1", "--json", "-"), -signal.SIGINT)
report = json.loads(result.stdout)
require("the report so far", (report["failed"], report["not_run"], len(report["cases"])) == (1, 2, 1), report)
os.close(writers.pop())
check("conform --compiled cleans up", run("conform", os.path.join(suite, "a_wrong"), "--compiled", env={**environment, "TMPDIR": scratch}), 1, "1 failed")
require("no file is left", os.listdir(scratch) == [], os.listdir(scratch))
ignored = subprocess.Popen([quarry, "bench", model, "--iterations", "20"], env=environment, stdout=subprocess.PIPE, text=True,
                           preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
while ignored.poll() is None:
    ignored.send_signal(signal.SIGINT)
    time.sleep(0.01)
require("a signal that the caller ignores stays ignored", ignored.returncode == 0 and "20 runs\n" in ignored.stdout.read(), ignored.returncode)

# ---- typing errors
for typed, meant in {"comple": "compile", "bnech": "bench", "option": "options", "verfy": "verify"}.items():
    check(f"subcommand {typed}", run(typed), 2, f"found '{typed}'", "expected a subcommand", f"did you mean '{meant}'?")
result = check("a subcommand far from all", run("frobnicate"), 2, "found 'frobnicate'", "run, compile", "quarry --help")
require("no guess", "did you mean" not in result.stderr, result.stderr)
check("a flag", run("run", model, image, "--thread", "2"), 2, "did you mean '--threads'?")
for typed, meant in {"cpuu": "cpu", "cpu_reference": "cpu-reference", "nul": "null"}.items():
    check(f"backend {typed}", run("run", model, image, "--backend", typed), 3, "QR-L0001", f'did you mean "{meant}"?')

# ---- limits of the system
def limited(kind, value):
    return lambda: resource.setrlimit(kind, (value, value))


# The largest file that the process may write: an error, no end by SIGXFSZ, and nothing is left behind.
small = os.path.join(folder, "small.qrm")
check("no room for a container", run("compile", model, "-o", small, preexec_fn=limited(resource.RLIMIT_FSIZE, 50_000)), 3, "QR-F0007", "small.qrm")
require("an unfinished container is removed", not [name for name in os.listdir(folder) if "small" in name], os.listdir(folder))
check("no descriptors for the workers", run("conform", os.path.join(suite, "a_wrong"), preexec_fn=limited(resource.RLIMIT_NOFILE, 5)), 3,
      "pipe to a worker", "Too many open files", "this process may have 5")
big = os.path.join(folder, "big.onnx")
with open(big, "wb") as out:
    out.write(onnx_model(b"Relu", dims=(16384, 16384)))
for title, args in {"zeros": ("run", big, "--zeros"), "made values": ("bench", big)}.items():
    check(f"no memory for {title}", run(*args, preexec_fn=limited(resource.RLIMIT_AS, 800 << 20)), 3, "out of memory", "found no room for", "bytes")
sparse = os.path.join(folder, "sparse.raw")
with open(sparse, "wb") as out:
    out.truncate(1 << 30)
if "asan" not in environment.get("LD_PRELOAD", ""):
    check("no memory for a file", run("run", model, sparse, preexec_fn=limited(resource.RLIMIT_AS, 800 << 20)), 3, "sparse.raw", "out of memory", "1073741824 bytes")

# ---- a process that compiles (option compile.process)
apart = ("compile", model, "--backend", "cpu", "-O", "compile.process=child", "-o", os.path.join(folder, "apart.qrm"))
check("compiling in a child", run(*apart), 0, "backend cpu")
alone = os.path.join(folder, "alone")  # libquarry without what belongs to it
os.makedirs(alone)
shutil.copy(os.path.join(build, "runtime", "libquarry.so.0"), alone)
stored = os.path.join(folder, "apart.qrm")
check("no quarry-compiler", run(*apart[:1], stored, *apart[2:-1], os.path.join(folder, "again.qrm"), env={**environment, "LD_LIBRARY_PATH": alone, "QUARRY_BACKEND_PATH": os.path.join(build, "backends", "cpu")}), 3,
      "QR-B0010", "no program quarry-compiler", alone, "set the option to own")
ready = lambda process: os.path.exists(f"/proc/{process.pid}/task/{process.pid}/children") and open(f"/proc/{process.pid}/task/{process.pid}/children").read().strip()
large = os.path.join(shared, "models", "tashkeel_transformer_f32", "model.onnx")
if os.path.exists(large):
    stopped = Stopped(ready, signal.SIGINT, *apart[:1], large, "--shape", "batch=1,seq=64", *apart[2:])
    require("Ctrl-C while a child compiles", stopped.returncode == -signal.SIGINT and stopped.seconds < 10 and "error" not in stopped.stderr, (stopped.returncode, stopped.seconds, stopped.stderr))

# ---- folders where files are expected
check("a folder as an input that holds none", run("run", model, folder), 2, folder, "found no file for input 'image'")
check("a folder as a named input", run("run", model, "--input", "image=" + folder), 2, folder, "Is a directory")
check("a folder as labels", run("run", model, image, "--labels", folder), 2, folder, "Is a directory")
check("no such labels", run("run", model, image, "--labels", os.path.join(folder, "none")), 2, "No such file")
shutil.rmtree(folder)
finish()
