#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""State that a session keeps, through the program: decoders and streaming models piece by piece, beside ONNX Runtime.

check_state.py BUILD SHARED, run by a Python that has numpy, onnx and onnxruntime.
"""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from decoders import Network, attention_decoder, decoder, streaming  # noqa: E402
from ort_session import make_session  # noqa: E402
from program import build, check, finish, new_folder, require, run, shared  # noqa: E402

folder = new_folder()
rng = np.random.default_rng(4)


def by_onnx_runtime(path, pieces, fixed=None, window=None):
    """The first output of each piece, with the state carried by hand. window: (first, last) entries that are kept along axis 2."""
    session = make_session(path, optimised=False)
    given = {i.name: i for i in session.get_inputs()}
    first = next(iter(given))
    names = [o.name for o in session.get_outputs()]

    def renamed(name):
        for a, b in (("past_key_values", "present"), ("past", "present")):
            if a in name:
                return name.replace(a, b)
        return next(o for o in (name + "_out", name + "n", name + "N") if o in names)

    fixed = fixed or {}
    kept = {}
    for name, info in given.items():
        if name == first or name in fixed:
            continue
        dims = [d if isinstance(d, int) else 0 if "past" in d else pieces[0].shape[0] for d in info.shape]
        kept[name] = np.zeros(dims, np.float16 if "16" in info.type else np.float32)
    results = []
    for piece in pieces:
        found = dict(zip(names, session.run(None, {first: piece, **fixed, **kept})))
        kept = {name: found[renamed(name)] for name in kept}
        if window:
            kept = {name: value if value.shape[2] <= sum(window) else np.concatenate([value[:, :, :window[0]], value[:, :, -window[1]:]], 2) for name, value in kept.items()}
        results.append(found[names[0]])
    return results, sum(value.nbytes for value in kept.values())


def compare(name, path, pieces, *flags, backends=("cpu", "cpu-reference"), fixed=None, growing=True, tolerance=2e-4, window=None):
    expected, kept_bytes = by_onnx_runtime(path, pieces, fixed, window)
    if window:
        run_flags = ("-O", f"state.sink={window[0]}", "-O", f"state.window={window[1]}")
    else:
        run_flags = ()
    files = []
    for index, piece in enumerate(pieces):
        files.append(os.path.join(folder, f"{name}_{index}.npy"))
        np.save(files[-1], piece)
    container = os.path.join(folder, name + ".qrm")
    for backend in backends:
        check(f"{name} on {backend}: compiled", run("compile", path, "-o", container, "--backend", backend, "-O", "state=auto", *flags), 0)
        for source in (path, container):
            out = new_folder()
            bound = (flags if source == path else ()) + run_flags
            result = check(f"{name} on {backend}", run("run", source, "--state", "auto", "--backend", backend, *bound, "--save", out, "--json", *files), 0)
            if result.returncode != 0:
                continue
            report = json.loads(result.stdout)
            worst = 0
            for one, right in zip(report["runs"], expected):
                found = np.load(one["outputs"][0]["file"])
                require(f"{name}: shape", found.shape == right.shape, f"{found.shape} {right.shape}")
                worst = max(worst, float(np.abs(found - right).max() / max(1e-6, np.abs(right).max())))
            require(f"{name} on {backend} from {os.path.basename(source)}", worst < tolerance, f"differs by {worst:.2e}")
            length = sum(piece.shape[1] for piece in pieces) if growing else 0
            length = min(length, sum(window)) if window else length
            require(f"{name}: length", report["state"]["length"] == length, str(report["state"]))
            require(f"{name}: bytes", report["state"]["bytes"] >= kept_bytes, str(report["state"]))


def by_plans(name, path, pieces, most, *flags):
    """One plan serves many lengths, and what a profile is taken of makes one for each: the same bits."""
    files = []
    for index, piece in enumerate(pieces):
        files.append(os.path.join(folder, f"{name}_piece_{index}.npy"))
        np.save(files[-1], piece)
    results, made = [], []
    for more in ((), (f"--profile={os.path.join(folder, name + '.csv')}", "--threads", "1")):
        result = check(f"{name}: {'profiled' if more else 'one plan for many lengths'}", run("run", path, "--state", "auto", "--save", new_folder(), "--json", *flags, *more, *files), 0)
        if result.returncode != 0:
            return
        report = json.loads(result.stdout[:result.stdout.rindex("}") + 1])
        results.append([np.load(one["outputs"][0]["file"]).tobytes() for one in report["runs"]])
        made.append(report["plans"]["made"])
    differ = [index for index, (a, b) in enumerate(zip(*results)) if a != b]
    require(f"{name}: the same bits", not differ, f"runs {differ[:5]} differ")
    require(f"{name}: plans", made[0] <= most and made[1] >= len({(p.shape, i) for i, p in enumerate(pieces)}) - 1, f"{made}, expected at most {most} and one for each run")


path, pieces = decoder(Network(folder, rng), "decoder"), [rng.integers(0, 40, (1, count)) for count in (5, 1, 1, 3, 1, 1, 2)]
compare("decoder", path, pieces)
by_plans("lengths", path, [rng.integers(0, 40, (1, count)) for count in [5] + 140 * [1]], 12)
by_plans("lengths_in_turn", path, [rng.integers(0, 40, (1, count)) for count in [5] + 30 * [1, 4, 1, 2]], 40)
by_plans("lengths_of_four", path, [rng.integers(0, 40, (1, count)) for count in [5] + 70 * [4]], 30)
by_plans("lengths_to_the_end", path, [rng.integers(0, 40, (1, count)) for count in [5] + 95 * [1]], 40, "-O", "state.capacity=100")
compare("window", path, [rng.integers(0, 40, (1, count)) for count in [5, 1, 1, 1, 4] + 60 * [1]], "-O", "state.capacity=16", window=(2, 7))
check("pairs are listed", run("inspect", path), 0, "past_key_values.0.key -> present.0.key, grows along axis 2")
ids = os.path.join(folder, "decoder_0.npy")
# Whoever keeps the caches himself begins with empty ones too: no option says so.
caches = []
for name in (f"past_key_values.{layer}.{kv}" for layer in range(2) for kv in ("key", "value")):
    np.save(os.path.join(folder, name + ".npy"), np.zeros((1, 3, 0, 8), np.float32))
    caches += ["-i", f"{name}={os.path.join(folder, name)}.npy"]
container = os.path.join(folder, "by_hand.qrm")
check("a container of any length", run("compile", path, "-o", container), 0)
for source in (path, container):
    out = new_folder()
    check(f"empty caches of the caller's, {os.path.basename(source)}", run("run", source, "-i", f"input_ids={ids}", *caches, "-o", out), 0)
    require("empty caches of the caller's", np.abs(np.load(os.path.join(out, "logits.npy")) - by_onnx_runtime(path, pieces[:1])[0][0]).max() < 2e-4)
check("a cache with a least length", run("run", path, "--shape", "past_sequence_length=1..", "-i", f"input_ids={ids}", *caches), 3, "QR-R0003", "expected 1 or more")
check("full", run("run", path, "--state", "auto", "-O", "state.capacity=8", ids, ids), 3, "QR-R0024", "state.capacity")
check("what it is", run("run", path, "--state", "auto", ids, ids), 0, "state: 4 pairs, length 10 of 2048")
if os.path.isdir(os.path.join(build, "backends", "htp", "quarry-backend-htp.so.p")):
    check("refused", run("compile", path, "-O", "state=auto", "--backend", "htp", "-O", "soc_model=SM8650", "--shape", "seq=1", "-o", os.path.join(folder, "htp.qrm")), 3, "QR-R0022", "cpu")
# gpu takes ranges, so a cache grows there too: in two memories of the host's in turn.
if any(device["usable"] for one in json.loads(run("doctor", "--json").stdout)["backends"] if one["id"] == "gpu" for device in one["devices"]):
    compare("decoder", path, pieces, backends=("gpu",))
    compare("gru", *streaming(Network(folder, rng), "gru", "GRU"), backends=("gpu",), growing=False)
    compare("window", path, [rng.integers(0, 40, (1, count)) for count in (5, 1, 4, 1, 1)], "-O", "state.capacity=16", backends=("gpu",), window=(2, 5))
else:
    print("   on gpu: skipped, there is no device")
# What Attention keeps lies where it stays: behind the first run no step copies all of it.
attention, tokens = attention_decoder(Network(folder, rng), "attention"), [rng.integers(0, 40, (1, count)) for count in (5, 1, 1, 2, 1)]
compare("attention", attention, tokens)
by_plans("attention_lengths", attention, [rng.integers(0, 40, (1, count)) for count in [5] + 80 * [1]], 10)
profile = os.path.join(folder, "attention.csv")
check("attention, profiled", run("run", attention, "--state", "auto", f"--profile={profile}", *(os.path.join(folder, f"attention_{index}.npy") for index in range(5))), 0)
with open(profile, encoding="utf-8") as file:
    copies = [line for line in file if ",output,node,Copy," in line]
require("copies of a cache", len(copies) == 2, copies)
check("no pairs", run("run", os.path.join(folder, "decoder.onnx"), "--state", "input_ids:logits", ids), 3, "QR-R0021")
compare("halves", decoder(Network(folder, rng), "halves", half=True), pieces, tolerance=5e-3)
for kind in ("GRU", "LSTM"):
    compare(kind.lower(), *streaming(Network(folder, rng), kind.lower(), kind), growing=False)
models = os.path.join(shared, "models")
if os.path.isdir(models):
    pieces = [rng.integers(1, 105, (1, count)) for count in (7, 1, 1, 2, 1)]
    compare("babyllama", os.path.join(models, "babyllama105_kv_f32", "model.onnx"), pieces)
    rate = {"sr": np.array(16000)}
    pieces = [rng.standard_normal((1, 512)).astype(np.float32) for _ in range(4)]
    compare("silero", os.path.join(models, "silero_vad_16k_op15", "model.onnx"), pieces, "--shape", "input=1x512,sr=[16000]", fixed=rate, growing=False, tolerance=2e-3)
finish()
