#!/usr/bin/env python3
"""Which shapes the `quarry` program runs a model with: those of --shape, of a container's buckets, or of the files given.

check_shapes.py BUILD_DIR SHARED_DIR
"""
import json
import os
import re
import shutil
import struct

from onnx_file import F32, initializer, onnx_file, onnx_node
from program import check, finish, floats, image, new_folder, npy, onnx_model, require, run, tensor_proto

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
check("raw bytes say no shape", run("run", made, raw), 2, "[?,3] has unknown dimensions", "bind them with --shape")
check("a backend without ranges", run("run", made, raw, "--backend", "null"), 3, "QR-O0008", "option shape: batch=N", "on the command line: --shape batch=N")
check("raw bytes with --shape", run("run", made, raw, "--shape", "batch=6"), 0, "y f32[6,3]")
check("zeros have no shape", run("run", made, "--zeros"), 2, "[?,3] has unknown dimensions", "--shape")
check("zeros with --shape", run("run", made, "--zeros", "--shape", "batch=7"), 0, "y f32[7,3]")
check("several buckets and zeros", run("run", made, "--zeros", "--shape", "batch=7", "--shape", "batch=8"), 2, "[?,3]", "give the one")
check("bench: several buckets", run("bench", made, "--shape", "batch=7", "--shape", "batch=8"), 2, "[?,3]", "give the one")

# ---- ranges: one program, whose runs have the shapes of their files
ranged, chain, chain_qrm, part_qrm = (os.path.join(folder, name) for name in ("ranged.qrm", "chain.onnx", "chain.qrm", "part.qrm"))
with open(chain, "wb") as out:
    out.write(onnx_file([onnx_node("Relu", ["x"], ["m"]), onnx_node("Mul", ["m", "x"], ["y"])], [("x", F32, ["batch", 3])], [("y", F32, ["batch", 3])]))
for backend in ("cpu", "cpu-reference"):
    on = ("--backend", backend)
    check(f"compile a chain on {backend}", run("compile", chain, *on, "--shape", "batch=1..3", "-o", chain_qrm), 0)
    check(f"a range on {backend}", run("run", made, two, four, two, *on, "--shape", "batch=1..8"), 0, "y f32[2,3]", "y f32[4,3]")
    check(f"outside of a range on {backend}", run("run", made, four, *on, "--shape", "batch=1..3"), 3, "QR-R0003", "found 4 for dimension 'batch' (axis 0), expected 1..3")
    check(f"a range in a container of {backend}", run("compile", made, *on, "--shape", "x=2..4x3", "-o", ranged), 0)
    check(f"a container's range on {backend}", run("run", ranged, two, four, *on), 0, "y f32[2,3]", "y f32[4,3]")
    check(f"a container's range refuses on {backend}", run("run", ranged, npy(os.path.join(folder, "five.npy"), [5, 3]), *on), 3, "QR-R0003", "expected 2..4")
    # ---- a part of a model keeps its range, from .onnx and from a container
    for part in ("graph.watch=m", "graph.head=m", "graph.tail=m"):
        for model, shape in ((chain, ("--shape", "batch=1..3")), (chain_qrm, ())):
            what = f"{part} of {os.path.basename(model)} on {backend}"
            check(f"compile {what}", run("compile", model, *on, *shape, "-O", part, "-o", part_qrm), 0)
            for command in [(part_qrm,)] + [(model, *shape, "-O", part)] * ("tail" not in part):
                given = lambda file: [text for name in ("m", "x")["tail" not in part:] for text in ("-i", f"{name}={file}")]
                check(f"a range, {what}", run("run", *command, *given(two), *on), 0, "f32[2,3]")
                check(f"outside of a range, {what}", run("run", *command, *given(four), *on), 3, "QR-R0003", "found 4 for dimension 'batch' (axis 0), expected 1..3")
check("plans made ahead", run("run", made, two, "--shape", "batch=1..8", "-O", "shape.prepare=1,2,8", "-O", "shape.plans=2"), 0, "y f32[2,3]")
check("plans made ahead, with spaces", run("run", made, two, "--shape", "batch=1..8", "-O", "shape.prepare= batch = 2 ; batch=3"), 0, "y f32[2,3]")
check("a plan that names a dimension twice", run("run", made, two, "--shape", "batch=1..8", "-O", "shape.prepare=batch=2,batch=3"), 3, "shape.prepare", "dimension 'batch' once in a shape")
check("a plan outside of the range", run("run", made, two, "--shape", "batch=1..8", "-O", "shape.prepare=9"), 3, "shape.prepare", "1..8")
check("check of a range", run("check", made, "--shape", "batch=1..8"), 0)
check("bench of a range", run("bench", made, "--shape", "batch=1..8", "-i", "x=" + four, "--iterations", "1"), 0)
check("a range beside a bucket", run("run", made, two, "--shape", "batch=1..8", "--shape", "batch=9"), 3, "QR-O0009", "there are other buckets")
for command in ("compile", "check", "run"):
    more = {"compile": ("-o", made + ".qrm"), "check": (), "run": ("-i", "x=" + two)}[command]
    check(f"a container's range on a backend that has none: {command}", run(command, ranged, "--backend", "null", *more), 3, "QR-C0103", "bound to a range, expected numbers", "bind shapes when compiling from the .onnx")
check("a range on a backend that has none", run("compile", made, "--backend", "null", "--shape", "batch=1..8", "-o", ranged), 3, "QR-O0009", "a program for each shape")

# ---- an input that has an initializer is an input of the run where --shape gives its shape
given, ten = os.path.join(folder, "given.onnx"), npy(os.path.join(folder, "ten.npy"), [2, 3], [10.0] * 6)
with open(given, "wb") as out:
    out.write(onnx_file([onnx_node("Add", ["x", "w"], ["y"])], [("x", F32, [2, 3]), ("w", F32, [2, 3])], [("y", F32, [2, 3])], initializers=[initializer("w", F32, [2, 3], struct.pack("<6f", *range(6)))]))
check("a default", run("run", given, two), 0, "0 1 2 3 4 5")
check("a default that is not replaced is no input", run("run", given, "-i", "x=" + two, "-i", "w=" + ten), 2, "has no input 'w'", "--shape NAME=1x3")
for backend in ("cpu", "cpu-reference"):
    check(f"a default, replaced, on {backend}", run("run", given, "--backend", backend, "-i", "x=" + two, "-i", "w=" + ten, "--shape", "w=2x3"), 0, "10 10 10 10 10 10")
check("a default, replaced by files in order", run("run", given, two, ten, "--shape", "w=2x3"), 0, "10 10 10 10 10 10")
check("bench: a default, replaced", run("bench", given, "-i", "x=" + two, "-i", "w=" + ten, "--shape", "w=2x3", "--iterations", "1"), 0)
check("a default, replaced by one number", run("run", given, two, "--shape", "w=[7]"), 0, "7 7 7 7 7 7")
picture = os.path.join(folder, "picture.onnx")
with open(picture, "wb") as out:
    out.write(onnx_model(b"Relu", dims=("n", 1, "h", "w")))
check("an image binds", run("run", picture, image), 0, "y f32[1,1,8,8]")
check("an image binds after --resize", run("run", picture, image, "--resize", "20x10"), 0, "y f32[1,1,10,20]")

# ---- photographs: upright, whatever their names
def jpeg(*exif):
    """Two blocks of 8 x 8 beside each other, grey 200 and 50; with Exif's orientation as (number, byte order)."""
    def segment(what, body):
        return b"\xff" + bytes([what]) + struct.pack(">H", len(body) + 2) + body

    def value(number):  # a difference of means: how many bits it has, as a code of 4 bits, and these; then the end of the block
        bits = abs(number).bit_length()
        return f"{bits:04b}" + (f"{number if number > 0 else number + (1 << bits) - 1:0{bits}b}" if bits else "") + "0"

    out = b"\xff\xd8"
    if exif:
        number, order = exif
        out += segment(0xE1, b"Exif\0\0" + (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "IHHHIHHI", 8, 1, 0x112, 3, 1, number, 0, 0))
    out += segment(0xDB, b"\0" + bytes([8] * 64)) + segment(0xC0, struct.pack(">BHHBBBB", 8, 8, 16, 1, 1, 0x11, 0))
    out += segment(0xC4, b"\0" + bytes([0, 0, 0, 12] + [0] * 12) + bytes(range(12))) + segment(0xC4, b"\x10" + bytes([1] + [0] * 15) + b"\0")
    bits = value(200 - 128) + value(50 - 200)
    bits += "1" * (-len(bits) % 8)
    return out + segment(0xDA, bytes([1, 1, 0, 0, 63, 0])) + bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8)) + b"\xff\xd9"


def seen(name, data):
    """The two greys as (where the bright one is, height, width)."""
    path = os.path.join(folder, name)
    with open(path, "wb") as file:
        file.write(data)
    text = check(name, run("run", picture, path, "--scale", "1", "-o", folder), 0).stdout
    high, wide = map(int, re.search(r"y f32\[1,1,(\d+),(\d+)\]", text).groups())
    values = floats(os.path.join(folder, "y.npy"))
    bright = [i for i, grey in enumerate(values) if abs(grey - 200) < 2]
    require(f"{name}: two greys", len(bright) == 64 and all(abs(grey - 200) < 2 or abs(grey - 50) < 2 for grey in values), values)
    rows, columns = {i // wide for i in bright}, {i % wide for i in bright}
    where = "left" if columns == set(range(8)) and wide == 16 else "right" if wide == 16 else "top" if rows == set(range(8)) else "bottom"
    return where, high, wide


require("a photograph without Exif", seen("plain.jpg", jpeg()) == ("left", 8, 16))
for number, where in enumerate(("left", "right", "right", "left", "top", "top", "bottom", "bottom"), 1):
    for order in "<>":
        found = seen(f"held{number}{order}.jpg", jpeg(number, order))
        require(f"a photograph of orientation {number}", found == ((where, 8, 16) if number < 5 else (where, 16, 8)), found)
        photo = os.path.join(folder, f"held{number}{order}.jpg")
        require(f"orientation {number} : the run says that it was turned", ("turned as its Exif says" in run("run", picture, photo).stdout) == (number > 1) == json.loads(run("run", picture, photo, "--json").stdout)["runs"][0].get("turned", False))
require("an orientation that there is not", seen("nine.jpg", jpeg(9, "<")) == ("left", 8, 16))
whole = jpeg(6, ">")
for size in range(2, 60):  # a block of Exif that ends early turns nothing and reads nothing behind it
    with open(os.path.join(folder, "cut.jpg"), "wb") as file:
        file.write(whole[:size])
    check(f"a photograph of {size} bytes", run("run", picture, os.path.join(folder, "cut.jpg")), 2, f"cut off after {size} bytes" if size > 2 else "is no image that can be read")
# What other writers do: bytes of 0xff before a marker, bytes between segments, no mark of the end, or half of it.
plain = jpeg()
scan = plain.index(b"\xff\xda")
for name, odd in (("filled", plain.replace(b"\xff\xc0", b"\xff\xff\xff\xc0").replace(b"\xff\xda", b"\xff\xff\xda")), ("padded", plain.replace(b"\xff\xc0", b"\0\0\xff\xc0")),
                  ("padded_behind", plain.replace(b"\xff\xc4", b"\0\xff\xc4").replace(b"\xff\xda", b"\0\0\xff\xda")),
                  ("unmarked", plain[:-2]), ("padded_unmarked", plain[:-2].replace(b"\xff\xda", b"\0\xff\xda")), ("half_marked", plain[:-1]), ("filled_end", plain[:-2] + b"\xff\xff\xd9"), ("zeros_at_end", plain[:-2] + bytes(9) + b"\xff\xd9")):
    require(f"a photograph that is {name}", seen(name + ".jpg", odd) == ("left", 8, 16))
require("a photograph that is turned and filled", seen("turned_filled.jpg", whole.replace(b"\xff\xe1", b"\xff\xff\xe1")) == ("top", 16, 8))
for data in (plain[:-3], plain[:-4], plain[:-3] + b"\xff", plain[:scan], plain[:scan + 10]):
    with open(os.path.join(folder, "cut.jpg"), "wb") as file:
        file.write(data)
    check(f"a photograph of {len(data)} bytes of {len(plain)}", run("run", picture, os.path.join(folder, "cut.jpg")), 2, f"cut off after {len(data)} bytes")
require("a picture by its bytes", seen("no_ending", jpeg()) == ("left", 8, 16))
for name, head in (("x.webp", b"RIFF\0\0\0\0WEBPVP8 "), ("x.jpg", b"RIFF\0\0\0\0WEBPVP8 "), ("x.heic", b"\0\0\0\x18ftypheic\0\0\0\0"), ("y", b"GIF89a\1\0\1\0")):
    with open(os.path.join(folder, name), "wb") as file:
        file.write(head)
    check(f"{name} is named", run("run", picture, os.path.join(folder, name)), 2, "found a picture as ", "expected PNG, JPEG or BMP" if b"WEBP" in head else "expected PNG, JPEG, WebP or BMP", "convert it")
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
