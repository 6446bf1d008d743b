#!/usr/bin/env python3
"""What the `quarry` program writes: all of it or an error, nothing over something else, and nothing left behind.

check_outputs.py BUILD_DIR SHARED_DIR
"""
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

from program import (check, digits, environment, field, finish, has_handler, image, model, new_folder, npy, onnx_model, quarry, require, run,
                     tensor_proto, varint)

folder = new_folder()
qrm = os.path.join(folder, "digits.qrm")
check("compile", run("compile", model, "-o", qrm), 0)

# ---- standard output that cannot be written
case = os.path.join(folder, "suite", "case")
os.makedirs(os.path.join(case, "test_data_set_0"))
shutil.copy(model, os.path.join(case, "model.onnx"))
with open(os.path.join(case, "test_data_set_0", "input_0.pb"), "wb") as out:
    out.write(tensor_proto([1, 1, 8, 8], [0.0] * 64))
with open(os.path.join(case, "test_data_set_0", "output_0.pb"), "wb") as out:
    out.write(tensor_proto([1, 10], [99.0] * 10))
commands = [("--help",), ("--version",), ("run", "--help"), ("run", qrm, image), ("run", qrm, image, "--json"), ("run", qrm, image, "--profile"), ("compile", model, "-o", qrm),
            ("compile", model, "--check"), ("compile", model, "--check", "--json"), ("inspect", qrm), ("inspect", model), ("inspect", qrm, "--json"),
            ("verify", qrm), ("conform", case), ("conform", case, "--json", "-"), ("conform", case, "--list"),
            ("bench", qrm, "--iterations", "3"), ("bench", qrm, "--iterations", "3", "--json", "-"), ("doctor",), ("doctor", "--json"),
            ("options",), ("options", "--json"), ("options", "--markdown"), ("ops",), ("ops", "--json"), ("ops", "--markdown")]
for command in commands:
    with open("/dev/full", "w") as full:
        result = check(f"{' '.join(command[:1] + command[2:])} > /dev/full", run(*command, stdout=full), 3, "standard output", "No space left on device")
    require(f"{command[0]}: told once", result.stderr.count("standard output") == 1, result.stderr)
result = check("a closed standard output", run("inspect", qrm, stdout=None, preexec_fn=lambda: os.close(1)), 3, "standard output", "Bad file descriptor")
closed = os.path.join(folder, "closed.qrm")
check("compile with a closed standard output", run("compile", model, "-o", closed, stdout=None, preexec_fn=lambda: os.close(1)), 3, "standard output")
check("nothing was printed into the container", run("verify", closed), 0, "sound")
os.remove(closed)
check("figures that cannot be written", run("bench", qrm, "--iterations", "3", "--json", "/dev/full"), 3, "No space left on device")

# ---- run --save: every result has a file of its own
def saved(name, *args, status=0):
    """The outputs' files by run, as the program tells them."""
    result = check(name, run("run", *args, "--json"), status)
    files = [output["file"] for one in json.loads(result.stdout)["runs"] for output in one["outputs"]]
    require(name + ": files of their own", len(set(files)) == len(files) and all(os.path.isfile(f) for f in files), files)
    return files


inputs = []
for digit in (0, 3, 7):
    os.makedirs(os.path.join(folder, f"in{digit}"))
    inputs.append(shutil.copy(os.path.join(digits, "images", f"digit_{digit}.png"), os.path.join(folder, f"in{digit}", "digit.png")))
out = os.path.join(folder, "out")
files = saved("inputs with one name in several folders", qrm, *inputs, "--save", out)
require("their results differ", len({open(f, "rb").read() for f in files}) == 3, files)
require("names say where from", [os.path.basename(f) for f in files] == ["digit.png.scores.npy", "digit.png.scores-2.npy", "digit.png.scores-3.npy"], files)
check("the file is told", run("run", qrm, image, "--save", out), 0, f"saved as {out}/scores.npy")
require("a file given twice", len(saved("a file given twice", qrm, image, image, "--save", out)) == 2)


def two_outputs(*names):
    shape = field(2, field(1, b"\x08\x02"))
    def value(name):
        return field(1, name) + field(2, field(1, b"\x08\x01" + shape))
    nodes = b"".join(field(1, field(1, b"x") + field(2, name) + field(3, b"n%d" % i) + field(4, op)) for i, (name, op) in enumerate(zip(names, (b"Relu", b"Neg"))))
    graph = nodes + field(2, b"g") + field(11, value(b"x")) + b"".join(field(12, value(name)) for name in names)
    return b"\x08\x08" + field(7, graph) + field(8, b"\x10" + bytes([17]))


made = os.path.join(folder, "made.onnx")
for title, names in {"odd names": (b"a/b", b"a_b"), "a line break": (b"a\nb", b".."), "long names": (b"n" * 300, b"n" * 301), "many bytes": ("ä".encode() * 200, b"q")}.items():
    with open(made, "wb") as file:
        file.write(two_outputs(*names))
    files = saved(f"outputs with {title}", made, "--zeros", "--save", os.path.join(folder, "odd"))
    require(f"{title} stay in the folder", len(files) == 2 and all(os.path.dirname(f) == os.path.join(folder, "odd") for f in files), files)
    require(f"{title}: no control characters", all(ord(c) >= 32 for f in files for c in f), files)

# An input that lies where an output would go is read, not written.
with open(made, "wb") as file:
    file.write(onnx_model(b"Neg"))
own = npy(os.path.join(folder, "own", "y.npy"), [2])
before = hashlib.sha256(open(own, "rb").read()).digest()
files = saved("an input in the folder of the outputs", made, own, "--save", os.path.dirname(own))
require("the input stays", hashlib.sha256(open(own, "rb").read()).digest() == before and files[0].endswith("y-2.npy"), files)
check("--save into a file", run("run", qrm, image, "--save", made), 2, "no folder")

# ---- stopped: the folder of a container holds it or nothing
weights = b"".join(b"\x08" + varint(d) for d in (4096, 4096)) + b"\x10\x01" + field(8, b"w") + field(9, os.urandom(4 * 4096 * 4096))
with open(made, "wb") as file:
    file.write(onnx_model(b"Add", (b"w", weights), dims=(4096, 4096)))
place = os.path.join(folder, "place")
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    ends = []
    for delay in (0, 0.05, 0.15, 0.3, None):  # after compiling began; None: once a file is there
        os.makedirs(place)
        process = subprocess.Popen([quarry, "compile", made, "-o", os.path.join(place, "made.qrm")], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        end = time.time() + 60
        while process.poll() is None and time.time() < end and not (os.listdir(place) if delay is None else has_handler(process, number)):
            time.sleep(0.001)
        time.sleep(delay or 0)
        if process.poll() is None:
            process.send_signal(number)
        stdout, stderr = process.communicate(timeout=120)
        left = os.listdir(place)
        shutil.rmtree(place)
        require(f"compile stopped by {number.name} leaves nothing", set(left) <= {"made.qrm"}, left)
        require(f"compile is ended by {number.name} or is done", process.returncode in (0, -number) and (process.returncode or not stderr), (process.returncode, stdout, stderr))
        ends.append("stopped by " + number.name in stderr)
    require(f"compile is ended by {number.name}", any(ends), ends)
shutil.rmtree(folder)
finish()
