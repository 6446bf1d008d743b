#!/usr/bin/env python3
"""`quarry run --draw`: boxes and masks of outputs, drawn on the picture.

check_draw.py BUILD_DIR SHARED_DIR
Models of constant outputs, whose boxes and areas are computed here by hand; with SHARED_DIR real detectors, whose boxes are known (check_examples.py).
"""
import json
import math
import os
import shutil
import struct

from onnx_file import F32, I64, initializer, onnx_file, onnx_node
from program import check, finish, model, new_folder, png_rows, require, run, shared, write_png

folder = new_folder()
RED, GREEN, BLUE = (255, 64, 64), (64, 220, 64), (80, 140, 255)


def place(name):
    return os.path.join(folder, name)


def constants(name, *outputs, size=(32, 32)):
    """A model that takes [1,3,H,W] and gives (name, type, shape, values), whatever it sees."""
    nodes, weights = [onnx_node("ReduceSum", ["image"], ["sum"], name="sum"), onnx_node("Mul", ["sum", "zero"], ["nothing"], name="nothing"),
                      onnx_node("Reshape", ["nothing", "one"], ["scalar"], name="scalar"), onnx_node("Cast", ["scalar"], ["whole"], b"\x2a\x09\x0a\x02to\x18\x07\xa0\x01\x02", name="whole")], []
    weights = [initializer("zero", F32, [], struct.pack("<f", 0)), initializer("one", I64, [1], struct.pack("<q", 1))]
    for output, dtype, dims, values in outputs:
        weights.append(initializer(output + "_is", dtype, dims, struct.pack(f"<{len(values)}{'f' if dtype == F32 else 'q'}", *values)))
        nodes.append(onnx_node("Add", [output + "_is", "scalar" if dtype == F32 else "whole"], [output], name=output))
    with open(place(name), "wb") as file:
        file.write(onnx_file(nodes, [("image", F32, [1, 3, *size])], [(o[0], o[1], o[2]) for o in outputs], initializers=weights))
    return place(name)


def drawn(name, network, picture, *flags):
    """What JSON says, and the pixels written."""
    out = place("out.png")
    result = check(name, run("run", network, picture, "--draw", out, "--json", *flags), 0)
    if result.returncode != 0:
        return {}, []
    rows = [[tuple(line[x * channels:x * channels + 3]) for x in range(len(line) // channels)] for line, channels in png_rows(out)]
    os.remove(out)
    return json.loads(result.stdout)["runs"][0]["drawn"], rows


def require_boxes(name, told, form, *known):
    """Known: (kind, score, box)."""
    found = [(b["kind"], round(b["score"], 4), [round(v, 2) for v in b["box"]]) for b in told.get("boxes", [])]
    require(name, told.get("form") == form and found == [(k, s, [float(v) for v in b]) for k, s, b in known], told)


grey = write_png(place("grey.png"), [[(100, 100, 100)] * 64 for _ in range(32)])  # twice as wide as the inputs
# The cells of a 32x32 input: 16 of stride 8, 4 of stride 16, 1 of stride 32. Cell 5 is column 1, row 1 of the first; cell 18 is column 0, row 1 of the second.
table = [0.0] * (21 * 7)
table[5 * 7:6 * 7] = [0.5, 0.5, math.log(2), math.log(1), 0.9, 0.2, 0.8]     # centre 12, 12; 16 wide, 8 high
table[6 * 7:7 * 7] = [-0.4, 0.5, math.log(2), math.log(1), 0.9, 0.1, 0.7]    # nearly the same: suppressed
table[18 * 7:19 * 7] = [0.5, 0.5, math.log(1), math.log(0.5), 0.8, 0.9, 0.1]  # centre 8, 24; 16 wide, 8 high
yolox = constants("yolox.onnx", ("out", F32, [1, 21, 7], table))
told, rows = drawn("yolox, stretched", yolox, grey)
require_boxes("yolox, stretched", told, "yolox", (1, .72, (8, 8, 40, 16)), (0, .72, (0, 20, 32, 28)))
require("yolox: frames", rows and rows[8][20] == GREEN and rows[15][20] == GREEN and rows[12][20] == (100, 100, 100) and rows[20][1] == RED, rows[:1])
told, _ = drawn("yolox, in the corner", yolox, grey, "--letterbox", "corner")  # 64x32 is 32x16 at the top
require_boxes("yolox, in the corner", told, "yolox", (1, .72, (8, 16, 40, 32)), (0, .72, (0, 40, 32, 56)))
told, _ = drawn("yolox, in the centre", yolox, grey, "--letterbox", "centre")  # 8 rows further down
require_boxes("yolox, in the centre", told, "yolox", (1, .72, (8, 0, 40, 16)), (0, .72, (0, 24, 32, 40)))
told, _ = drawn("yolox, cropped", yolox, grey, "--resize", "64x32", "--crop", "32x32")  # 16 columns to the right
require_boxes("yolox, cropped", told, "yolox", (1, .72, (20, 8, 36, 16)), (0, .72, (16, 20, 32, 28)))
told, _ = drawn("more overlap", yolox, grey, "--overlap", "0.99")
require("more overlap", len(told.get("boxes", [])) == 3, told)
told, _ = drawn("a higher score", yolox, grey, "--score", "0.73")
require("a higher score", told.get("boxes") == [], told)

rows5 = [0.0] * (63 * 7)
rows5[7 * 40:7 * 41] = [16, 16, 8, 4, 0.9, 0.1, 1.0]
told, _ = drawn("yolov5", constants("yolov5.onnx", ("out", F32, [1, 63, 7], rows5)), grey)
require_boxes("yolov5", told, "yolov5", (1, .9, (24, 14, 40, 18)))
columns = [0.0] * (6 * 21)
for row, value in enumerate((16, 16, 8, 4, 0.3, 0.9)):
    columns[row * 21 + 3] = value
told, _ = drawn("yolov8", constants("yolov8.onnx", ("out", F32, [1, 6, 21], columns)), grey)
require_boxes("yolov8", told, "yolov8", (1, .9, (24, 14, 40, 18)))
told, _ = drawn("ssd", constants("ssd.onnx", ("scores", F32, [1, 2, 3], [.1, .1, .8, .9, .1, 0]), ("boxes", F32, [1, 2, 4], [.25, .5, .5, .75, 0, 0, 1, 1])), grey)
require_boxes("ssd", told, "ssd", (2, .8, (16, 16, 32, 24)))
mask = [1.0 if x < 16 else 0.2 for _ in range(32) for x in range(32)]
told, rows = drawn("boxes with masks", constants("boxes.onnx", ("b", F32, [1, 4], [0, 0, 31, 31]), ("l", I64, [1], [2]), ("s", F32, [1], [.75]), ("m", F32, [1, 1, 32, 32], mask)), grey)
require_boxes("boxes with masks", told, "boxes", (2, .75, (0, 0, 62, 31)))
require("boxes with masks: painted", rows and rows[16][16] == tuple((100 + c + 1) // 2 for c in BLUE) and rows[16][48] == (100, 100, 100), rows[:1])

# A convolution that distinguishes blue (kind 2) from red (kind 1) from black (kind 0): the left half of the picture is red, of the right the lower half is blue.
weights = struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 0, 1)
bias = struct.pack("<3f", .5, 0, 0)
colours = write_png(place("colours.png"), [[(255, 0, 0)] * 16 + [(0, 0, 255) if y >= 8 else (0, 0, 0)] * 16 for y in range(16)])
for name, kinds, nodes, output in (("scores", 3, [], ("scores", F32, [1, 3, 16, 16])), ("classes", 3, [onnx_node("ArgMax", ["scores"], ["classes"], b"\x2a\x0b\x0a\x04axis\x18\x01\xa0\x01\x02" +
                                                                                          b"\x2a\x0f\x0a\x08keepdims\x18\x00\xa0\x01\x02", name="argmax")], ("classes", I64, [1, 16, 16]))):
    with open(place(name + ".onnx"), "wb") as file:
        file.write(onnx_file([onnx_node("Conv", ["image", "w", "b"], ["scores"], name="conv"), *nodes], [("image", F32, [1, 3, 16, 16])], [output],
                             initializers=[initializer("w", F32, [3, 3, 1, 1], weights), initializer("b", F32, [3], bias)]))
    told, rows = drawn(name, place(name + ".onnx"), colours, *(["--draw-as", "mask"] if name == "scores" else []))  # three floats a place may be a picture
    require(name, [(a["kind"], a["part"]) for a in told.get("areas", [])] == [(0, .25), (1, .5), (2, .25)], told)
    require(name + ": painted", rows and rows[4][24] == (0, 0, 0) and rows[4][4] == tuple((p + c + 1) // 2 for p, c in zip((255, 0, 0), GREEN)) and
            rows[12][24] == tuple((p + c + 1) // 2 for p, c in zip((0, 0, 255), BLUE)), rows[:1])
one = constants("one.onnx", ("out", F32, [1, 1, 16, 16], [.9 if x < 4 else .1 for _ in range(16) for x in range(16)]))
told, _ = drawn("a mask of one kind", one, grey, "--draw-as", "mask")
require("a mask of one kind", [(a["kind"], a["part"]) for a in told.get("areas", [])] == [(0, .75), (1, .25)], told)

# ---- labels, and what cannot be drawn
with open(place("labels.txt"), "w") as file:
    file.write("cat\ndog\n")
check("labels", run("run", yolox, grey, "--draw", place("out.png"), "--labels", place("labels.txt")), 0, "0.72  dog  [8,8,40,16]  green", "0.72  cat  [0,20,32,28]  red")
os.remove(place("out.png"))
with open(place("labels.txt"), "a") as file:
    file.write("horse\n")
wrong = [("labels that do not fit", [yolox, grey, "--labels", place("labels.txt")], "found 3 labels, expected 2, as many as the outputs (yolox) have kinds"),
         ("labels too few", [place("classes.onnx"), colours, "--labels", place("two.txt")], "found 2 labels, expected more than 2"),
         ("one value a place", [one, grey], "--draw-as mask"),
         ("another form", [yolox, grey, "--draw-as", "yunet"], "expected\n    yunet: outputs cls_8"),
         ("scores of digits", [model, write_png(place("digit.png"), [[(0, 0, 0)] * 8] * 8)], "expected\n    yolox: an output"),
         ("two pictures", [yolox, grey, grey], "found 2 inputs, expected one"),
         ("no picture", [yolox, "--zeros"], "found no picture among the inputs"),
         ("letterbox and crop", [yolox, grey, "--letterbox", "corner", "--crop", "8x8"], "--letterbox: found it with --crop"),
         ("another ending", [yolox, grey, "--draw", place("out.jpg")], "expected a name that ends in .png"),
         ("a folder that is not there", [yolox, grey, "--draw", place("none/out.png")], "none/out.png")]
with open(place("two.txt"), "w") as file:
    file.write("cat\ndog\n")
for name, words, text in wrong:
    words = words if "--draw" in words else [*words, "--draw", place("out.png")]
    check(name, run("run", *words), 2, text)
    require(name + ": nothing written", not os.path.exists(place("out.png")))

# ---- real detectors
images = os.path.join(shared, "images")
cases = [("yolox_nano_416", "darknet_dog.jpg", ["--letterbox", "corner", "--color", "bgr", "--scale", "1", "--labels", os.path.join(images, "coco_80.names")],
          [("dog", (133, 206, 324, 542)), ("car", (466, 78, 691, 171)), ("bicycle", (45, 131, 571, 430))]),
         ("yunet_n_640", "face_two_people.jpg", ["--letterbox", "corner", "--fill", "0", "--color", "bgr", "--scale", "1", "--score", "0.6"],
          [("kind 0", (237, 22, 387, 227)), ("kind 0", (791, 49, 938, 257))]),
         ("ultraface_rfb_320", "face_two_people.jpg", ["--scale", "0.0078125", "--mean", "0.9921875", "--score", "0.7"],
          [("kind 1", (237, 22, 387, 227)), ("kind 1", (791, 49, 938, 257))])]
for network, photograph, flags, known in cases:
    path = os.path.join(shared, "models", network, "model.onnx")
    if not os.path.exists(path):
        print(f"   skipped: {network}: '{path}' is not there")
        continue
    told, _ = drawn(network, path, os.path.join(images, photograph), *flags)
    boxes = told.get("boxes", [])
    require(network, len(boxes) == len(known) and all(any(b["label"] == label and all(abs(v - w) < 20 for v, w in zip(b["box"], box)) for b in boxes) for label, box in known), told)
shutil.rmtree(folder, ignore_errors=True)
finish()
