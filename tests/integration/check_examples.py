#!/usr/bin/env python3
"""The programs of examples/, in C++ and (with a Python that has the package quarry and Pillow) in Python, against answers that are known.

check_examples.py BUILD_DIR SHARED_DIR [PYTHON]
Where the answers come from: the photographs' contents, boxes and scores as ONNX Runtime with the model's own pre- and post-processing gave them
(shared/models/MANIFEST.md), the speech and the tokens from ONNX Runtime 1.32 on the same input.
"""
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import wave

from onnx_file import F32, I64, initializer, number, onnx_file, onnx_node
from program import build, environment, field, finish, new_folder, png_rows, require, root, shared, write_png

models, images = os.path.join(shared, "models"), os.path.join(shared, "images")
python = sys.argv[3] if len(sys.argv) > 3 else None
folder = new_folder()


def run_both(name, *args):
    """What each form of an example prints, and what it says beside."""
    forms = {"C++": [os.path.join(build, "examples", "example-" + name)]}
    if python:
        forms["Python"] = [python, os.path.join(root, "examples", name, name + ".py")]
    for form, command in forms.items():
        done = subprocess.run([*command, *args], capture_output=True, text=True, env=environment, timeout=300)
        require(f"{name} in {form}", done.returncode == 0, done.stderr[-2000:])
        if done.returncode == 0:
            yield form, done.stdout, done.stderr


def run(name, *args):
    return ((form, printed) for form, printed, _ in run_both(name, *args))


def overlap(a, b):
    both = max(0, min(a[2], b[2]) - max(a[0], b[0])) * max(0, min(a[3], b[3]) - max(a[1], b[1]))
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return both / (area[0] + area[1] - both)


def model(name):
    return os.path.join(models, name, "model.onnx")


# ---- classify
expected = {"kitten_224.png": "tabby", "mushroom.png": "mushroom", "goldfish.jpg": "goldfish", "coral_hot_dog.jpg": "hotdog", "ji_banana_0.jpg": "banana",
            "ji_dog_0.jpg": "malamute"}
files = [os.path.join(images, name) for name in expected]
for network in ("mobilenetv2_1.0_224_google_f32", "mobilenetv2_1.0_224_google_uint8_qdq"):
    for form, printed in run("classify", model(network), os.path.join(images, "imagenet_labels_1001.txt"), *files):
        for line, (name, label) in zip(printed.splitlines(), expected.items()):
            require(f"classify in {form}: {name}", line.startswith(os.path.join(images, name)) and f": {label}" in line, line)
short = subprocess.run([os.path.join(build, "examples", "example-classify"), model("mobilenetv2_1.0_224_google_f32"), os.path.join(images, "imagenet_synset_1000.txt"), files[0]],
                       capture_output=True, text=True, env=environment, timeout=300)
require("labels that do not fit", short.returncode == 2 and "found 1000 labels for 1001 scores" in short.stderr, short)

# ---- detect
cases = [("yolox_nano_416", "darknet_dog.jpg", [("dog", .83, (133, 206, 324, 542)), ("car", .81, (466, 78, 691, 171)), ("bicycle", .81, (45, 131, 571, 430))]),
         ("yolox_nano_416", "darknet_person.jpg", [("person", .88, (188, 97, 276, 374)), ("dog", .87, (62, 263, 200, 351)), ("horse", .87, (403, 138, 602, 344))]),
         ("yunet_n_640", "face_two_people.jpg", [("face", .93, (237, 22, 387, 227)), ("face", .93, (791, 49, 938, 257))])]
for network, photograph, known in cases:
    out = os.path.join(folder, "out.png")
    for form, printed in run("detect", model(network), os.path.join(images, photograph), out, os.path.join(images, "coco_80.names")):
        found = [(m[1], float(m[2]), tuple(map(float, m[3].split(",")))) for m in re.finditer(r"^(.+) ([\d.]+) \[(.*)\]$", printed, re.M)]
        for label, score, box in known:
            best = max((f for f in found if f[0] == label), key=lambda f: overlap(f[2], box), default=None)
            require(f"detect in {form}: {photograph}: {label}", best and overlap(best[2], box) > 0.85 and abs(best[1] - score) < 0.06, (printed, label))
        # Only what is barely seen comes and goes with the way a picture is resized.
        require(f"detect in {form}: {photograph}: nothing else", all(score < 0.5 for label, score, _ in found if label not in [k[0] for k in known]), printed)
        require(f"detect in {form}: {photograph}: not twice", len([f for f in found if f[1] >= 0.5]) == len(known), printed)
        with open(out, "rb") as file:
            head = file.read(24)
        require(f"detect in {form}: a PNG", head[:8] == b"\x89PNG\r\n\x1a\n" and min(struct.unpack(">II", head[16:24])) > 300, head)
        os.remove(out)

for name, network, words in (("detect", "yolox_nano_416", "found 1000 labels for 80 kinds"), ):
    for command in filter(None, ([os.path.join(build, "examples", "example-" + name)], [python, os.path.join(root, "examples", name, name + ".py")] if python else None)):
        done = subprocess.run([*command, model(network), files[0], os.path.join(folder, "out.png"), os.path.join(images, "imagenet_synset_1000.txt")], capture_output=True, text=True, env=environment, timeout=300)
        require("labels that do not fit: " + command[-1], done.returncode != 0 and words in done.stderr and not os.path.exists(os.path.join(folder, "out.png")), done)

# ---- segment: a convolution that distinguishes red (kind 1) and blue (kind 2) from black, half as fine as the photograph
with open(os.path.join(folder, "colours.onnx"), "wb") as file:
    file.write(onnx_file([onnx_node("Conv", ["image", "w", "b"], ["fine"], name="conv"), onnx_node("MaxPool", ["fine"], ["scores"], b"".join(
        field(5, field(1, key) + b"\x40\x02" * 2 + b"\xa0\x01\x07") for key in (b"kernel_shape", b"strides")), name="pool")], [("image", F32, [1, 3, 32, 32])], [("scores", F32, [1, 3, 16, 16])],
        initializers=[initializer("w", F32, [3, 3, 1, 1], struct.pack("<9f", 0, 0, 0, 1, 0, 0, 0, 0, 1)), initializer("b", F32, [3], struct.pack("<3f", 0, 0, 0))]))
colours = write_png(os.path.join(folder, "colours.png"), [[(255, 0, 0)] * 32 + [(0, 0, 255) if y >= 32 else (0, 0, 0)] * 32 for y in range(64)])
with open(os.path.join(folder, "labels.txt"), "w", encoding="utf-8") as file:
    file.write("nothing\nred\nblue\n")
out = os.path.join(folder, "out.png")
for form, printed in run("segment", os.path.join(folder, "colours.onnx"), colours, out, os.path.join(folder, "labels.txt")):
    require(f"segment in {form}", printed.splitlines() == ["nothing 25.0 %", "red 50.0 %", "blue 25.0 %"], printed)
    rows = [[tuple(line[x * channels:x * channels + 3]) for x in range(64)] for line, channels in png_rows(out)]
    require(f"segment in {form}: painted", rows[8][48] == (0, 0, 0) and rows[8][8] == (160, 110, 32) and rows[56][48] == (40, 70, 255), (rows[8][48], rows[8][8], rows[56][48]))
    os.remove(out)

# ---- speech: a vowel (pulses through three resonances) between two silences
sound, resonances, seed = [], [[0.0, 0.0] for _ in range(3)], 1
for n in range(32000):
    seed, t = (seed * 1103515245 + 12345) % 2**31, n / 16000
    pitch = 120 + 20 * math.sin(2 * math.pi * 3 * t)
    pulse = (1.0 if 0.5 <= t < 1.5 and n * pitch / 16000 % 1 < pitch / 16000 else 0.0) + (seed / 2**31 - 0.5) * 0.002
    value = 0.0
    for state, (frequency, width) in zip(resonances, ((700, 80), (1200, 90), (2600, 120))):
        r = math.exp(-math.pi * width / 16000)
        state[:] = pulse + 2 * r * math.cos(2 * math.pi * frequency / 16000) * state[0] - r * r * state[1], state[0]
        value += state[0] * (1 - r)
    sound.append(int(max(-1, min(1, value * 1.5)) * 32767))
recording = os.path.join(folder, "vowel.wav")
with wave.open(recording, "wb") as file:
    file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
    file.writeframes(struct.pack(f"<{len(sound)}h", *sound))
for form, printed in run("speech", model("silero_vad_16k_op15"), recording):
    require(f"speech in {form}", "speech from 0.58 to 0.93 s" in printed and "10 of 62 frames are speech, mean probability 0.180" in printed, printed)

# ---- llm: the first ten tokens of a story; what follows is what the model would have said
prompt = "1 3 34 9 22 4 3 18 20 7"
story = prompt + " 9 3 5 3 6 10 16 4 25 3 6 8 4 13 4 3 17 5 12 3 5 3 14 10"
for form, printed in run("llm", model("babyllama105_kv_f32"), "24", *prompt.split()):
    require(f"llm in {form}", printed.split() == story.split(), printed)

# ---- speculative: the text of the model alone, whoever drafts: the model itself, or one that counts and is wrong nearly always
counts = struct.pack(f"<{105 * 105}f", *(float(column == (row + 1) % 105) for row in range(105) for column in range(105)))
with open(os.path.join(folder, "counts.onnx"), "wb") as file:
    file.write(onnx_file([onnx_node("Gather", ["table", "input_ids"], ["logits"], name="logits"), onnx_node("Gather", ["rows", "input_ids"], ["x"], name="row"),
                          onnx_node("Concat", ["past", "x"], ["present"], number("axis", 1), name="keep")], [("input_ids", I64, [1, "n"]), ("past", F32, [1, "k", 1])],
                         [("logits", F32, [1, "n", 105]), ("present", F32, [1, "m", 1])],
                         initializers=[initializer("table", F32, [105, 105], counts), initializer("rows", F32, [105, 1], bytes(420))]))
for draft, least, most in ((model("babyllama105_kv_f32"), 5, 5), (os.path.join(folder, "counts.onnx"), 15, 24)):
    for form, printed, told in run_both("speculative", model("babyllama105_kv_f32"), draft, "24", *prompt.split()):
        require(f"speculative in {form}", printed.split() == story.split(), printed)
        require(f"speculative in {form}: runs", least <= int(told.split()[0]) <= most, told)
shutil.rmtree(folder, ignore_errors=True)
finish()
