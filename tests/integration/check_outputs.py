#!/usr/bin/env python3
"""What the `quarry` program writes: all of it or an error, nothing over something else, and nothing left behind.

check_outputs.py BUILD_DIR SHARED_DIR
"""
import hashlib
import json
import os
import shutil
import signal
import struct
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
    require(f"{command[0]}: reported once", result.stderr.count("standard output") == 1, result.stderr)
result = check("a closed standard output", run("inspect", qrm, stdout=None, preexec_fn=lambda: os.close(1)), 3, "standard output", "Bad file descriptor")
closed = os.path.join(folder, "closed.qrm")
check("compile with a closed standard output", run("compile", model, "-o", closed, stdout=None, preexec_fn=lambda: os.close(1)), 3, "standard output")
check("nothing was printed into the container", run("verify", closed), 0, "sound")
os.remove(closed)
check("figures that cannot be written", run("bench", qrm, "--iterations", "3", "--json", "/dev/full"), 3, "No space left on device")

# ---- results on standard output: nothing else stands there, and they are what a file gets
onnx, graph, quantized, drawing = (os.path.join(folder, name) for name in ("out.onnx", "out.json", "out.qdq.onnx", "out.png"))
images = os.path.join(digits, "images")
check("export", run("export", model, "-o", onnx), 0)
check("export of a description", run("export", model, "-o", graph), 0)
check("quantize", run("quantize", model, "-c", images, "-o", quantized), 0)
before = sorted(os.listdir(folder))
scratch = os.path.join(folder, "tmp")
os.mkdir(scratch)


def piped(name, *args, same_as=None, begins=b"", places=("-", "/dev/stdout")):
    """The bytes on standard output, for each name of it; what is said goes to standard error."""
    for place in places:
        words = [place if word == "-" else word.replace("=-", "=" + place) for word in args]
        result = subprocess.run([quarry, *words], capture_output=True, env={**environment, "TMPDIR": scratch}, timeout=300)
        good = result.returncode == 0 and len(result.stdout) > 20 and result.stdout.startswith(begins)
        if same_as:
            with open(same_as, "rb") as file:
                good = good and result.stdout == file.read()
        require(f"{name} {place}", good, (result.returncode, result.stdout[:100], result.stderr[-1000:]))
    require(f"{name}: nothing is left behind", not os.listdir(scratch), os.listdir(scratch))
    return result.stdout


piped("compile -o", "compile", model, "-o", "-", same_as=qrm)
piped("export -o", "export", model, "-o", "-", same_as=onnx)
piped("export --json -o", "export", model, "--json", "-o", "-", same_as=graph)
piped("quantize -o", "quantize", model, "-c", images, "-o", "-", same_as=quantized)
piped("quantize --backend -o", "quantize", model, "-c", images, "-b", "cpu", "-o", "-", begins=b"\x89QRM")
piped("view -o", "view", model, "-o", "-", begins=b"<!")
piped("bench --plot", "bench", qrm, "-n", "3", "--plot", "-", begins=b"<", places=("-",))
json.loads(piped("bench --json", "bench", qrm, "-n", "3", "--json", "-"))
lines = piped("run --profile=", "run", qrm, image, "--profile=-", begins=b"id,").decode().splitlines()
require("events alone", all(line.count(",") >= lines[0].count(",") for line in lines), lines[:3])
values = [i % 7 / 7 for i in range(64)]
with open(os.path.join(folder, "values.bin"), "wb") as file:
    file.write(struct.pack("<64f", *values))
from_file, from_input = (subprocess.run([quarry, "run", qrm, "--json", word], input=struct.pack("<64f", *values), capture_output=True, env=environment, timeout=300)
                         for word in (os.path.join(folder, "values.bin"), "-"))
require("an input that comes from standard input", from_input.returncode == 0 and json.loads(from_input.stdout)["runs"][0]["outputs"] == json.loads(from_file.stdout)["runs"][0]["outputs"],
        from_input.stderr)
os.remove(os.path.join(folder, "values.bin"))
# ---- a model that comes from standard input: a pipe, and a file from where it stands
with open(model, "rb") as file:
    content = file.read()
with open(qrm, "rb") as file:
    container = file.read()


def fed(name, *args, bytes_in, output=None, status=0, says=()):
    """A command with a model on a pipe, and once more on a file with something in front of it."""
    for offset in (None, 3):
        if offset is None:
            result = subprocess.run([quarry, *args], input=bytes_in, capture_output=True, env=environment, timeout=300)
        else:
            with open(os.path.join(folder, "fed"), "w+b") as file:
                file.write(b"???" + bytes_in)
                file.flush()
                os.lseek(file.fileno(), offset, os.SEEK_SET)
                result = subprocess.run([quarry, *args], stdin=file, capture_output=True, env=environment, timeout=300)
            os.remove(os.path.join(folder, "fed"))
        good = result.returncode == status and (output is None or result.stdout == output) and all(one in (result.stdout + result.stderr).decode(errors="replace") for one in says)
        require(f"{name} from standard input, {offset}", good, (result.returncode, result.stdout[:200], result.stderr[-1000:]))


with open(onnx, "rb") as file:
    exported = file.read()
with open(quantized, "rb") as file:
    as_quantized = file.read()
fed("compile", "compile", "-", "-o", "-", bytes_in=content, output=container)
fed("export", "export", "-", "-o", "-", bytes_in=content, output=exported)
fed("quantize", "quantize", "-", "-c", images, "-o", "-", bytes_in=content, output=as_quantized)
fed("run", "run", "-", image, bytes_in=container, says=["scores"])
fed("inspect", "inspect", "-", bytes_in=container, says=["scores"])
fed("verify", "verify", "-", bytes_in=container, says=["-: sound"])
fed("check", "check", "-", bytes_in=content, says=["cpu"])
fed("view", "view", "-", "-o", "-", bytes_in=content, says=["<!"])
fed("bench", "bench", "-", "-n", "3", bytes_in=container, says=["3 runs"])
fed("diff", "diff", "-", qrm, "--random", bytes_in=content)
fed("nothing", "inspect", "-", bytes_in=b"", status=3, says=["QR-F0006"])
fed("no name to make another of", "compile", "-", bytes_in=content, status=2, says=["-o FILE"])
check("standard input twice", run("run", "-", "-"), 2, "found '-' for 2 files", "read once")
# A reader that goes away, and a call that is stopped, leave no process and no file.
for args in (("compile", model, "-o", "-"), ("export", model, "-o", "-")):
    reads, writes = os.pipe()
    os.close(reads)
    result = subprocess.run([quarry, *args], stdout=writes, stderr=subprocess.PIPE, env=environment, timeout=300)
    os.close(writes)
    require(f"{args[0]} to nobody", result.returncode == 3 and b"Broken pipe" in result.stderr, result)
check("two results", run("bench", qrm, "-n", "3", "--json", "-", "--plot", "-"), 2, "expected one for each")
check("parts are files", run("cut", model, "--at", "x", "-o", "-", "b.qrm"), 2, "each part is one of its own")
check("constants beside nothing", run("export", model, "-o", "-", "--external-data"), 2, "--external-data")
check("a name says what it is", run("export", model, "-o", onnx, "--json"), 2, "--json")
require("results on standard output make no file", sorted(os.listdir(folder)) == sorted(before + ["tmp"]), os.listdir(folder))
os.rmdir(scratch)
for name in (onnx, graph, quantized):
    os.remove(name)

# ---- files that are there: mode, link, what lies beside
os.mkdir(os.path.join(folder, "real"))
for name, args in {"c.qrm": ("compile", model, "-o"), "e.onnx": ("export", model, "-o"), "q.onnx": ("quantize", model, "-c", images, "-o"), "v.html": ("view", model, "-o"),
                   "b.json": ("bench", qrm, "-n", "3", "--json"), "p.svg": ("bench", qrm, "-n", "3", "--plot"), "r.html": ("quantize", model, "-c", images, "-o", os.path.join(folder, "x.onnx"), "--report"),
                   "t.csv": ("run", qrm, image, "--profile=")}.items():
    path, target = os.path.join(folder, name), os.path.join(folder, "real", name)
    words = [*args[:-1], args[-1] + path] if args[-1].endswith("=") else [*args, path]
    with open(target, "w") as file:
        file.write("old")
    os.chmod(target, 0o600)
    os.symlink(os.path.join("real", name), path)
    check(f"{args[0]} over a link", run(*words), 0)
    with open(target, "rb") as file:
        require(f"{name}: the link stays, and what it points to is new and nobody else's", os.path.islink(path) and file.read() != b"old" and os.stat(target).st_mode & 0o777 == 0o600,
                (os.path.islink(path), oct(os.stat(target).st_mode)))
    os.remove(path)
require("nothing lies beside them", not [one for one in os.listdir(folder) + os.listdir(os.path.join(folder, "real")) if one.startswith(".")], os.listdir(folder))
shutil.rmtree(os.path.join(folder, "real"))
os.remove(os.path.join(folder, "x.onnx"))

# ---- run --save: every result has a file of its own
def saved(name, *args, status=0):
    """The outputs' files by run, as the program names them."""
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
check("the file is named", run("run", qrm, image, "--save", out), 0, f"saved as {out}/scores.npy")
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
