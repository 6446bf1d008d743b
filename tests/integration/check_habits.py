#!/usr/bin/env python3
"""What people type who know other programs: help as wide as their terminal with examples that work, `-` for any file, folders of pictures, names in any
bytes; and what files that are cut off, and reasons that many nodes have, look like.

check_habits.py BUILD_DIR SHARED_DIR
"""
import base64
import ctypes
import json
import os
import re
import shutil
import struct
import subprocess

from onnx_file import F32, onnx_file, onnx_node
from program import check, digits, environment, finish, image, model, new_folder, npy, quarry, require, root, run, write_png

folder = new_folder()
images = os.path.join(digits, "images")


def at(*names):
    return os.path.join(folder, *names)


def bytes_of(path):
    with open(path, "rb") as file:
        return file.read()


def write(name, data):
    with open(at(name) if isinstance(name, str) else os.path.join(os.fsencode(folder), name), "wb") as file:
        file.write(data)


def piped(*words, data=b"", **kwargs):
    """The program with standard input from a pipe; its texts as a result of run()."""
    done = subprocess.run([quarry, *words], input=data, capture_output=True, timeout=300, env=kwargs.pop("env", environment), **kwargs)
    return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))


# ---- help
commands = [c for c in re.findall(r"^  (\w+) ", run("--help", env={**environment, "COLUMNS": "80"}).stdout.split("Subcommands:")[1].split("\n\n")[0], re.M)]
examples = {}
for width in (40, 60, 80, 120):
    for command in ["", *commands]:
        printed = run(*filter(None, [command]), "--help", env={**environment, "COLUMNS": str(width)}).stdout
        body, _, rest = printed.partition("Examples:\n")
        # A name of an option, or a word that has no blank, may be longer than a narrow terminal.
        long = [line for line in body.splitlines() if len(line) > width and " " in line.strip() and not line.startswith(("  -", "Usage:")) and len(line.split()[0]) < width
                and len(line) - len(line.rsplit(" ", 1)[1]) > width]
        require(f"help of '{command}' at {width} columns", not long, long)
        examples[command] = [line[2:] for line in rest.splitlines() if line.startswith("  quarry ") or line.startswith("  cat ")]
require("every command has examples", all(examples[c] for c in commands), [c for c in commands if not examples[c]])
check("help without a terminal", run("run", "--help", env={k: v for k, v in environment.items() if k != "COLUMNS"}), 0, "Examples:\n  quarry run model.onnx picture.jpg --labels labels.txt\n")
check("manual pages have the examples", run("manual", "bench"), 0, ".SH EXAMPLES", "quarry bench model.qrm")

# The examples as they stand, in a folder with the files that they name.
os.makedirs(at("examples", "pictures"))
os.makedirs(at("examples", "cases", "one", "test_data_set_0"))
for name in os.listdir(images):
    shutil.copy(os.path.join(images, name), at("examples", "pictures", name))
shutil.copy(model, at("examples", "model.onnx"))
shutil.copy(model, at("examples", "cases", "one", "model.onnx"))
shutil.copy(image, at("examples", "picture.jpg"))
write("examples/labels.txt", "\n".join("zero one two three four five six seven eight nine".split()).encode())
check("a container for the examples", run("compile", "model.onnx", cwd=at("examples")), 0)
check("events for the examples", run("bench", "model.onnx", "-n", "2", "--profile=events.csv", cwd=at("examples")), 0)
scores = json.loads(run("run", model, image, "--json", "--save", at("examples", "saved")).stdout)
write("examples/cases/one/test_data_set_0/input_0.pb", b"\x08\x01\x08\x01\x08\x08\x08\x08\x10\x01\x4a\x80\x02" + bytes(256))
zeros = run("run", model, "--zeros", "--save", at("examples", "zeros"), "--json")
result = bytes_of(at("examples", "zeros", "scores.npy"))[-40:]
write("examples/cases/one/test_data_set_0/output_0.pb", b"\x08\x01\x08\x0a\x10\x01\x4a\x28" + result)
with open(os.path.join(root, "tests", "capi", "decoder_model.h"), encoding="utf-8") as source:
    write("examples/decoder.onnx", bytes(map(int, re.findall(r"\d+", re.search(r"decoder_model\[\] = \{(.*?)\}", source.read(), re.S)[1]))))
tried = 0
for command in commands:
    for line in examples[command]:
        if "tokenizer.json" in line or "calls.qrec" in line:  # check_tokenizer.py has one, where cargo is, and check_htp_record.py, where Qualcomm's libraries are
            continue
        # Where a folder of the user's own or one tensor's name is meant, it is put in.
        typed = line.replace("~/.local/share/bash-completion/completions/quarry", "completion").replace("TENSOR", "r1").replace("quarry ", f"'{quarry}' ")
        done = subprocess.run(["bash", "-ec", typed], cwd=at("examples"), capture_output=True, text=True, env=environment, timeout=300)
        tried += 1
        require(f"example: {line}", done.returncode == 0 and (done.stdout or ">" in line), (done.returncode, done.stdout[-500:], done.stderr[-500:]))
require("examples were tried", tried >= 25, tried)

# ---- - is any file, -- ends the flags
check("a picture from a pipe", piped("run", model, "-", data=bytes_of(image)), 0, "scores", "3  ")
check("a picture from standard input", run("run", model, "-", stdin=open(image, "rb")), 0, "scores", "3  ")
array = bytes_of(npy(at("x.npy"), [1, 1, 8, 8]))
check("an .npy from a pipe", piped("run", model, "-", data=array), 0, "scores")
check("an .npy from a pipe, by the input's name", piped("run", model, "--input", "image=-", data=array), 0, "scores")
check("raw bytes from a pipe", piped("run", model, "-", data=bytes(256)), 0, "scores")
check("labels from a pipe", piped("run", model, image, "--labels", "-", data=b"\n".join(b"class %d" % i for i in range(10))), 0, "class 3")
check("a picture for bench from a pipe", piped("bench", model, "-n", "2", "--input", "image=-", data=bytes_of(image)), 0, "2 runs")
check("events from a pipe", piped("view", model, "--profile", "-", "-o", at("view.html"), data=bytes_of(at("examples", "events.csv"))), 0, "with times")
shutil.copy(image, at("-odd.png"))
check("-- ends the flags", run("run", model, "--", "-odd.png", cwd=folder), 0, "-odd.png: ", "3  ")
check("-- before all", run("run", "--", model, "-odd.png", cwd=folder), 0, "-odd.png: ", "3  ")

# ---- folders of pictures
found = json.loads(check("a folder of pictures", run("run", model, images, "--json", "--top", "1"), 0).stdout)["runs"]
require("a folder of pictures: each, in the order of names", [(os.path.basename(r["inputs"]["image"]), r["outputs"][0]["top"][0]["index"]) for r in found] ==
        [(f"digit_{digit}.png", digit) for digit in range(10)], found)
check("a folder and a file", run("run", model, image, images, "--top", "1"), 0, "digit_9.png: ")
os.mkdir(at("empty"))
check("a folder as labels", run("run", model, image, "--labels", at("empty")), 2, "Is a directory")
check("a folder without pictures", run("run", model, at("empty")), 2, "run: '", "found no sample", "a picture, .npy or .pb")
two = at("two.onnx")
write("two.onnx", onnx_file([onnx_node("Add", ["a", "b"], ["y"])], [("a", F32, [2]), ("b", F32, [2])], [("y", F32, [2])]))
for sample in ("s1", "s2"):
    for name in ("a", "b"):
        npy(at("samples", sample, name + ".npy"), [2], [1.0, 2.0])
check("a folder for each sample of a model of two inputs", run("run", two, at("samples")), 0, "s1", "s2", "4.0000")

# ---- arrays as NumPy writes them
values = [float(i) for i in range(6)]
write("mat.onnx", onnx_file([onnx_node("Identity", ["x"], ["y"])], [("x", F32, [2, 3])], [("y", F32, [2, 3])]))
npy(at("plain.npy"), [2, 3], values)
plain = bytes_of(at("plain.npy"))
write("big.npy", plain[:-24].replace(b"<f4", b">f4") + struct.pack(">6f", *values))
write("fortran.npy", plain[:-24].replace(b"False", b"True ") + struct.pack("<6f", 0, 3, 1, 4, 2, 5))
for name in ("plain", "big", "fortran"):
    check(f"an .npy that is {name}", run("run", at("mat.onnx"), at(name + ".npy")), 0, "0 1 2 3 4 5")

# ---- names in any bytes
odd = b"\xe9t\xe9"
os.mkdir(os.path.join(os.fsencode(folder), odd))
write(odd + b"/\xff.onnx", bytes_of(model))
write(odd + b"/\xfe.png", bytes_of(image))
for words in ([b"run", odd + b"/\xff.onnx", odd + b"/\xfe.png"], [b"compile", odd + b"/\xff.onnx"], [b"inspect", odd + b"/\xff.qrm"], [b"verify", odd + b"/\xff.qrm"],
              [b"bench", odd + b"/\xff.qrm", b"-n", b"2", b"--json", odd + b"/b.json"], [b"export", odd + b"/\xff.qrm", b"-o", odd + b"/\xfd.onnx"],
              [b"check", odd + b"/\xfd.onnx", b"--json"], [b"view", odd + b"/\xfd.onnx", b"-o", odd + b"/\xfd.html"], [b"cut", odd + b"/\xfd.onnx", b"--at", b"r1"],
              [b"quantize", odd + b"/\xfd.onnx", b"-c", odd, b"-o", odd + b"/\xfc.onnx"], [b"diff", b"--random", odd + b"/\xfd.onnx", odd + b"/\xff.qrm"]):
    check(f"{words}", piped(*words, cwd=folder), 0)
check("a name in any bytes that is not there", piped(b"run", odd + b"/none.onnx", image, cwd=folder), 3, "none.onnx'", "No such file", "check the path")
for flag, words in (("--resume", [b"quantize", odd + b"/\xfd.onnx", b"-c", odd, b"-o", odd + b"/\xfb.onnx", b"--resume", odd + b"/r\xff.state"]),
                    ("--backend-path", [b"doctor", b"--backend-path", odd]), ("--backend-path", [b"run", model.encode(), b"--zeros", b"--backend-path", odd])):
    check(f"{flag} of a name in any bytes", piped(*words, cwd=folder), 0)
check("an option that names a file in any bytes", piped(b"run", model.encode(), b"--zeros", b"-O", b"profiling_level=basic", b"-O", b"profiling_file_path=" + odd + b"/\xf8.csv", cwd=folder), 0)
write(odd + b"/\xf7.json", b"{}")
check("a file of overrides in any bytes", piped(b"quantize", odd + b"/\xfd.onnx", b"-c", odd, b"-o", odd + b"/\xf6.onnx", b"--overrides", odd + b"/\xf7.json", cwd=folder), 0)
check("an option that names none", piped(b"run", model.encode(), b"--zeros", b"-O", b"thread_pool=\xf8", cwd=folder), 3, "QR-C0009", "option thread_pool: the value is not UTF-8")
check("constants beside a model of a name in any bytes", piped(b"export", odd + b"/\xff.onnx", b"--external-data", b"-o", odd + b"/\xfa.onnx", cwd=folder), 3,
      "error QR-C0009", "which a model cannot say", "give the model a name in UTF-8")
require("names in any bytes: what was written", sorted(os.listdir(os.path.join(os.fsencode(folder), odd))) == sorted(
    [b"\xff.onnx", b"\xfe.png", b"\xff.qrm", b"b.json", b"\xfd.onnx", b"\xfd.html", b"\xfd.head.qrm", b"\xfd.tail.qrm", b"\xfc.onnx", b"\xfb.onnx", b"\xf8.csv", b"\xf7.json", b"\xf6.onnx"]),
    os.listdir(os.path.join(os.fsencode(folder), odd)))

# ---- files that are cut off say so
whole = bytes_of(model)
for size in (200, 5000, len(whole) - 1):
    write("cut.onnx", whole[:size])
    check(f"an .onnx of {size} bytes", run("inspect", at("cut.onnx")), 3, "QR-O0001", "the model is cut off", f"found {size} bytes", "cut.onnx")
container = bytes_of(at("examples", "model.qrm"))
for size in (100, len(container) // 2, len(container) - 1):
    write("cut.qrm", container[:size])
    check(f"a .qrm of {size} bytes", run("inspect", at("cut.qrm")), 3, "QR-M0001", f"found {size} bytes", "it is cut off", "cut.qrm")
write("cut.onnx", b"hello\n" * 400)
result = check("a text that is no .onnx", run("inspect", at("cut.onnx")), 3, "error QR-")
require("a text that is no .onnx: not cut off", "cut off" not in result.stderr, result.stderr)
write_png(at("large.png"), [[((x * 7) % 256, (y * 5) % 256, (x * y) % 256) for x in range(64)] for y in range(64)])
pictures = {"png": bytes_of(at("large.png"))}
pictures["bmp"] = b"BM" + struct.pack("<IHHIIiiHHIIiiII", 54 + 3 * 64, 0, 0, 54, 40, 8, 8, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(3 * 64)
for kind, data in pictures.items():
    write("whole." + kind, data)
    check(f"a whole {kind}", run("run", model, at("whole." + kind)), 0, "scores")
    for size in (60, len(data) // 2, len(data) - 13):
        write("cut." + kind, data[:size])
        check(f"a {kind} of {size} bytes", run("run", model, at("cut." + kind)), 2, f"cut off after {size} bytes", "cut." + kind)
for claimed in (2, 1000, -54):  # writers do not agree on what the size in a BMP's head counts
    write("claims.bmp", b"BM" + struct.pack("<I", len(pictures["bmp"]) + claimed) + pictures["bmp"][6:])
    check(f"a BMP whose head says {claimed} bytes more", run("run", model, at("claims.bmp")), 0, "scores")
write("deep.npy", plain.replace(b"<f4", b">c8"))
check("an .npy of a type that there is not", run("run", at("mat.onnx"), at("deep.npy")), 2, "element type '>c8'")
# A WebP without loss: the same pixels as a PNG give the same, in colour and in grey; with Exif's 6 it is turned to the right.
webp = base64.b64decode("UklGRjIAAABXRUJQVlA4TCUAAAAvD8ABALkyRPQ/dlH/6H9AQds2TKCUP9G3ARiICYgJAHYFuv8BAA==")
exif = base64.b64decode("UklGRmYAAABXRUJQVlA4WAoAAAAIAAAADwAABwAAVlA4TCUAAAAvD8ABALkyRPQ/dlH/6H9AQds2TKCUP9G3ARiICYgJAHYFuv8BAEVYSUYaAAAATU0AKgAAAAgAAQESAAMAAAABAAYA"
                        "AAAAAAA=")
rows = [[(x * 16, y * 32, x * y % 256) for x in range(16)] for y in range(8)]
write_png(at("upright.png"), rows)
write_png(at("turned.png"), [[rows[7 - x][y] for x in range(8)] for y in range(16)])
for name, data in (("upright.webp", webp), ("turned.webp", exif), ("turned.picture", b"RIFF" + struct.pack("<I", len(exif) - 2) + exif[8:76] + b"EXIF" + struct.pack("<I", 32) + b"Exif\0\0" + exif[84:]), ("cut.webp", webp[:-1])):
    write(name, data)
try:
    ctypes.CDLL("libwebp.so.7")
    has_webp = True
except OSError:
    has_webp = False
if has_webp:
    for channels in (1, 3):
        write("open.onnx", onnx_file([onnx_node("Identity", ["x"], ["y"])], [("x", F32, [1, channels, "h", "w"])], [("y", F32, [1, channels, "h", "w"])]))
        seen = {}
        for name in ("upright.png", "upright.webp", "turned.png", "turned.webp", "turned.picture"):
            check(f"{name} in {channels} channels", run("run", at("open.onnx"), at(name), "--save", at("seen")), 0)
            seen[name] = bytes_of(at("seen", "y.npy"))
        require(f"a WebP in {channels} channels", seen["upright.webp"] == seen["upright.png"] != seen["turned.png"])
        require(f"a WebP that is turned, in {channels} channels", seen["turned.webp"] == seen["turned.png"] == seen["turned.picture"])
    check("a WebP that is cut off", run("run", at("open.onnx"), at("cut.webp")), 2, f"cut off after {len(webp) - 1} bytes")
else:
    check("a WebP without libwebp", run("run", model, at("upright.webp")), 2, "found a picture as WebP", "libwebp is not on this machine", "libwebp7")
array = bytes_of(at("plain.npy"))
for size in (20, 130, len(array) - 1):
    write("cut.npy", array[:size])
    check(f"an .npy of {size} bytes", run("run", at("mat.onnx"), at("cut.npy")), 2, "cut off", "cut.npy")

# ---- a reason once, with its count
nodes = [onnx_node("Frob", ["x" if i == 0 else f"v{i - 1}"], [f"v{i}"]) for i in range(20)] + [onnx_node("Blah", ["v19"], ["y"])]
write("frob.onnx", onnx_file(nodes, [("x", F32, [2])], [("y", F32, [2])]))
result = check("a reason that many nodes have", run("run", at("frob.onnx"), "--zeros"), 3, "Frob", "(20 nodes", "Blah")
require("a reason that many nodes have stands once", result.stderr.count("  reason: ") == 2, result.stderr)
result = check("check: a reason once", run("check", model, "--backend", "null"), 1, "refused relu1, relu2, relu3 (Relu, 3 nodes): QR-B0002", "refused pool (MaxPool)")
require("check: as many lines as reasons", len(re.findall("^refused ", result.stdout, re.M)) == 5, result.stdout)
result = check("run: a reason once", run("run", model, "--zeros", "--backend", "null"), 3, "(3 nodes: relu1, relu2, relu3)", "node pool (MaxPool)")
require("run: as many lines as reasons", result.stderr.count("  reason: ") == 5, result.stderr)

check("a hint is typed as it stands", run("run", model, image, "-O", "graph.head=none"), 3, "QR-C0102", "`quarry check MODEL --json`")

# ---- what compile and view leave, and where
shutil.copy(model, at("empty", "d.onnx"))
check("compile says what is in the container", run("compile", at("empty", "d.onnx")), 0, "d.qrm", "are the program", "the portable graph", "container.keep_graph=0")
result = check("compile without the graph", run("compile", at("empty", "d.onnx"), "-O", "container.keep_graph=0", "-o", at("small.qrm")), 0)
require("compile without the graph says no more", "keep_graph" not in result.stdout, result.stdout)
check("compile to .onnx asks", run("compile", at("empty", "d.onnx"), "-o", at("x.onnx")), 2, "which is for ONNX Runtime", f"-o {at('x.qrm')}", f"quarry export {at('empty', 'd.onnx')} -o {at('x.onnx')}")
os.mkdir(at("work"))
check("view writes where somebody works", run("view", at("empty", "d.onnx"), cwd=at("work")), 0, "d.html: 9 nodes")
require("view leaves the model's folder alone", os.listdir(at("work")) == ["d.html"] and sorted(os.listdir(at("empty"))) == ["d.onnx", "d.qrm"], os.listdir(at("empty")))

shutil.rmtree(os.fsencode(folder))
finish()
