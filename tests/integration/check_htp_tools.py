#!/usr/bin/env python3
"""What surrounds the htp backend: several SoCs in a container, cuts and comparisons, EPContext models, damage, what doctor and inspect say.

check_htp_tools.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import json
import os
import shutil
import sys

from program import build, check, environment, finish, image, model, new_folder, require, run

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu", "cpu-reference"))
folder = new_folder()


def path(name):
    return os.path.join(folder, name)


# ---- several SoCs: a context each, the one that is asked for is taken
several = path("several.qrm")
check("compile for several SoCs", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8550,SM8650,57,SM8750", "-O", "container.keep_graph=0", "-o", several), 0,
      "SM8550", "SM8650", "SM8750")
contexts = json.loads(run("inspect", several, "--json").stdout)["contexts"]
require("a context each, and one for two names of a SoC", [c["target"] for c in contexts] == ["SM8550", "SM8650", "SM8750"], contexts)
require("each says what it is for", [c["options"]["soc_model"] for c in contexts] == ["SM8550", "SM8650", "SM8750"], contexts)
for asked, taken in (("0", "SM8550"), ("SM8650", "SM8650"), ("57", "SM8650"), ("SM8850,SM8750", "SM8750")):
    check("taken: " + asked, run("run", several, image, "--backend", "htp", "-O", "soc_model=" + asked, "-v"), 0, f"that for {taken} is the best: optimal")
check("none for the SoC", run("run", several, image, "--backend", "htp", "-O", "soc_model=SM8850"), 3, "QR-M0011", "asked for was SM8850", "was not kept")
check("one SoC of several is none", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8550,SM1", "-o", path("x.qrm")), 3, "soc_model", "SM1")
check("check for several SoCs", run("check", model, "--backend", "htp", "-O", "soc_model=SM8350,SM8650"), 0, "0 refused")

# ---- check, cut, diff
check("diff with the emulator", run("diff", model, "--backend", "htp", "--backend-b", "cpu-reference", "-O", "soc_model=SM8650", "--input", image), 0, "9 tensors agree")
check("cut for two backends", run("cut", model, "--at", "p", "--backend", "htp,cpu", "-O", "soc_model=SM8650", "-o", path("head.qrm"), path("tail.qrm")), 0, "backend htp")
check("run the head", run("run", path("head.qrm"), image, "--backend", "htp", "--save", path("head")), 0)
check("run the tail", run("run", path("tail.qrm"), path("head/p.npy"), "--backend", "cpu"), 0, "     3  \n      5")

shutil.rmtree(folder)
finish()
