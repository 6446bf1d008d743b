#!/usr/bin/env python3
"""Which shapes the `quarry` program runs a model with: those of --shape, of a container's buckets, or of the files given.

check_shapes.py BUILD_DIR SHARED_DIR
"""
import os
import shutil

from program import check, finish, image, new_folder, npy, onnx_model, require, run, tensor_proto

folder = new_folder()
made = os.path.join(folder, "made.onnx")
with open(made, "wb") as out:
    out.write(onnx_model(b"Relu", dims=("batch", 3)))
two, four, wrong = (npy(os.path.join(folder, f"{name}.npy"), dims) for name, dims in {"two": [2, 3], "four": [4, 3], "wrong": [2, 5]}.items())
proto = os.path.join(folder, "five.pb")
with open(proto, "wb") as out:
    out.write(tensor_proto([5, 3], [0.0] * 15))
raw = os.path.join(folder, "six.raw")
with open(raw, "wb") as out:
    out.write(b"\0" * 4 * 6 * 3)

# ---- an .onnx whose dimensions are symbolic takes them from its files
check("an .npy binds", run("run", made, two), 0, "y f32[2,3]")
check("a .pb binds", run("run", made, "--input", "x=" + proto), 0, "y f32[5,3]")
check("each file has its shape", run("run", made, two, four, two), 0, "y f32[2,3]", "y f32[4,3]")
check("what does not fit the declared shape", run("run", made, wrong), 3, "QR-O0009", "[batch,3]")
check("--shape has the first word", run("run", made, two, "--shape", "batch=4"), 3, "4")
check("--shape and files that agree", run("run", made, two, "--shape", "x=2x3"), 0, "y f32[2,3]")
check("raw bytes say no shape", run("run", made, raw), 3, "QR-O0008", "option shape: batch=N", "on the command line: --shape batch=N")
check("raw bytes with --shape", run("run", made, raw, "--shape", "batch=6"), 0, "y f32[6,3]")
check("zeros have no shape", run("run", made, "--zeros"), 3, "QR-O0008", "--shape batch=N")
check("zeros with --shape", run("run", made, "--zeros", "--shape", "batch=7"), 0, "y f32[7,3]")
check("several buckets and zeros", run("run", made, "--zeros", "--shape", "batch=7", "--shape", "batch=8"), 2, "[?,3]", "give the one")
check("bench: several buckets", run("bench", made, "--shape", "batch=7", "--shape", "batch=8"), 2, "[?,3]", "give the one")
picture = os.path.join(folder, "picture.onnx")
with open(picture, "wb") as out:
    out.write(onnx_model(b"Relu", dims=("n", 1, "h", "w")))
check("an image binds", run("run", picture, image), 0, "y f32[1,1,8,8]")
check("an image binds after --resize", run("run", picture, image, "--resize", "20x10"), 0, "y f32[1,1,10,20]")
check("an image binds after --crop", run("run", picture, image, "--resize", "16", "--crop", "12x6"), 0, "y f32[1,1,6,12]")

# ---- the buckets of a container
qrm = os.path.join(folder, "made.qrm")
check("compile buckets", run("compile", made, "-o", qrm, "--shape", "batch=2", "--shape", "batch=4"), 0, "2 graphs")
for command in (("run", qrm, "--zeros"), ("bench", qrm, "--iterations", "3")):
    check(f"{command[0]}: which bucket", run(*command), 2, "[?,3]", "choose a bucket", "batch=2 or batch=4")
    for shape in ("batch=4", "x=4x3", "batch=4,x=4x3"):
        check(f"{command[0]}: the bucket {shape}", run(*command, "--shape", shape), 0, "y f32[4,3]" if command[0] == "run" else "3 runs")
    check(f"{command[0]}: a bucket that is not there", run(*command, "--shape", "batch=3"), 2, "no bucket 'batch=3'", "batch=2 or batch=4")
    check(f"{command[0]}: two buckets at once", run(*command, "--shape", "batch=2", "--shape", "batch=4"), 2, "expected one", "batch=2 or batch=4")
check("files choose the bucket", run("run", qrm, two, four), 0, "y f32[2,3]", "y f32[4,3]")
check("raw bytes and a bucket", run("run", qrm, raw, "--shape", "batch=4"), 2, "72 bytes", "48 bytes")
check("raw bytes without a bucket", run("run", qrm, raw), 2, "[?,3]", "choose a bucket", "batch=2 or batch=4")
os.truncate(raw, 4 * 4 * 3)
check("raw bytes of the bucket", run("run", qrm, raw, "--shape", "batch=4"), 0, "y f32[4,3]")
one = os.path.join(folder, "one.qrm")
check("compile one shape", run("compile", made, "-o", one, "--shape", "batch=2"), 0, "1 graph")
check("a container of one shape", run("run", one, "--zeros"), 0, "y f32[2,3]")
check("its shape by name", run("run", one, "--zeros", "--shape", "batch=2"), 0, "y f32[2,3]")
check("another shape", run("run", one, "--zeros", "--shape", "x=4x3"), 2, "no bucket 'x=4x3'", "batch=2")
require("images left alone", os.path.exists(image))
shutil.rmtree(folder)
finish()
