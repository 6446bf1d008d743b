#!/usr/bin/env python3
"""The htp backend on Qualcomm's own library and emulator, as a user meets it: found or missing, compiled, run, damaged.

check_htp.py BUILD_DIR SHARED_DIR [FOLDER_OF_THE_LIBRARIES]   (without the folder: what can be seen without them)
"""
import glob
import json
import os
import random
import sys

from program import build, check, digits, environment, finish, image, model, new_folder, require, root, run, shared

libraries = sys.argv[3] if len(sys.argv) > 3 else None
folder = new_folder()
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu", "cpu-reference"))

# ---- without the libraries, or with something else in their place
environment["QUARRY_QNN_PATH"] = os.path.join(folder, "nowhere")
check("doctor without the libraries", run("doctor"), 0, "htp", "tools/get_qnn.sh", "QUARRY_QNN_PATH")
check("compile without the libraries", run("compile", model, "--backend", "htp", "-o", os.path.join(folder, "x.qrm")), 3, "QR-B0008", "libQnnHtp.so", "get_qnn.sh")
require("no container without the libraries", not os.path.exists(os.path.join(folder, "x.qrm")))
fake = os.path.join(folder, "libQnnHtp.so")
with open(fake, "wb") as out:
    out.write(b"no library")
check("a file that is no library", run("compile", model, "--backend", "htp", "-O", "htp.library_path=" + folder, "-o", os.path.join(folder, "x.qrm")), 3, "no ELF file",
      "a shared library for")
with open(next(p for p in glob.glob(os.path.join(build, "runtime", "libquarry.so*")) if os.path.isfile(p) and "symbols" not in p), "rb") as source, open(fake, "wb") as out:
    other = bytearray(source.read())
    other[18:20] = b"\xa4\x00"  # e_machine: Hexagon
    out.write(other)
check("a library for the device's own processor", run("compile", model, "--backend", "htp", "-O", "htp.library_path=" + fake, "-o", os.path.join(folder, "x.qrm")), 3,
      "found a file for Hexagon")
os.remove(fake)
check("a SoC that is none", run("compile", model, "--backend", "htp", "-O", "soc_model=SM1", "-o", os.path.join(folder, "x.qrm")), 3, "soc_model", "SM1", "SM8650")
if not libraries:
    finish()

# ---- with them
environment["QUARRY_QNN_PATH"] = libraries
report = json.loads(check("doctor --json", run("doctor", "--json"), 0).stdout)
htp = next(b for b in report["backends"] if b["id"] == "htp")
require("doctor: the device is usable, and an emulator", "emulated" in json.dumps(htp) and "QNN v" in json.dumps(htp), htp)

check("an option that nothing is done with", run("compile", model, "--backend", "htp", "-O", "enable_htp_monolithic_lstm=1", "-o", os.path.join(folder, "x.qrm")), 3,
      "enable_htp_monolithic_lstm", "found '1'", "expected '0'")
made = []
for name in ("one.qrm", "two.qrm"):
    made.append(os.path.join(folder, name))
    check("compile", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8650", "-o", made[-1]), 0, "SM8650")
with open(made[0], "rb") as one, open(made[1], "rb") as two:
    whole = one.read()
    require("two processes make the same container", whole == two.read())
right = 0
for digit in range(10):
    shown = os.path.join(digits, "images", f"digit_{digit}.png")
    result = run("run", made[0], shown, "--backend", "htp", "--json")
    require(f"run digit {digit}", result.returncode == 0, result.stderr)
    right += json.loads(result.stdout)["runs"][0]["outputs"][0]["top"][0]["index"] == digit
require("the digits are recognised", right == 10, right)

# ---- whatever is damaged is refused before the library sees it
random.seed(1)
refused = 0
damaged = os.path.join(folder, "damaged.qrm")
for round_ in range(20):
    content = bytearray(whole)
    content[random.randrange(len(content) // 4, len(content))] ^= 1 << random.randrange(8)
    with open(damaged, "wb") as out:
        out.write(content)
    result = run("run", damaged, image, "--backend", "htp", "-O", "container.verify=all", "-O", "context.recompile=never")
    require(f"damaged container {round_}", result.returncode in (0, 3) and "Traceback" not in result.stderr, (result.returncode, result.stderr))
    refused += result.returncode == 3
require("most damage is found", refused >= 15, refused)
finish()
