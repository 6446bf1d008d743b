#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Caches that are kept in another type than the model's (option state.type), beside ONNX Runtime, which is given what the session keeps.

check_state_types.py BUILD SHARED [FOLDER_OF_QUALCOMM'S_LIBRARIES], run by a Python that has numpy, onnx, onnxruntime and cffi.
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from decoders import Network, attention_decoder, batched_decoder, decoder, grouped_decoder, streaming  # noqa: E402
from ort_session import make_session  # noqa: E402
from program import build, check, finish, new_folder, require, root, run  # noqa: E402

if len(sys.argv) > 3:
    os.environ["QUARRY_QNN_PATH"] = sys.argv[3]
os.environ["QUARRY_LIBRARY"] = os.path.join(build, "runtime", "libquarry.so.0")
sys.path.insert(0, os.path.join(root, "bindings", "python", "src"))
import quarry  # noqa: E402

folder = new_folder()
rng = np.random.default_rng(11)
LOGITS = {"f16": 2e-3, "bf16": 2e-2, "u8": 3e-2}  # as a part of the largest
BYTES = {"f16": 2, "bf16": 2, "u8": 1}
SCALES = ".state_scales"


def refused(name, id, *texts, model, **options):
    try:
        quarry.Session(model, **options)
    except quarry.Error as error:
        found = f"{error} {getattr(error, 'hint', '')}"
        require(name, error.id == id and all(text in found for text in texts), found)
    else:
        require(name, False, "nothing was refused")


def values(session, tokens, past):
    """What runs of `session` take: tokens [batch, new] behind `past`, of one length in all rows."""
    batch, new = tokens.shape
    given = {"input_ids": tokens, "seqlens_k": np.full(batch, past + new - 1, np.int32), "total_sequence_length": np.array(past + new, np.int32)}
    return {info.name: given[info.name] for info in session.inputs}


def kept_as_reals(state):
    """By the name of the input: what the state stands for, and the step of what it is rounded to."""
    raw = {pair.input: state[pair.input] for pair in state.tensors}
    made = {}
    for name, value in raw.items():
        if name.endswith(SCALES):
            continue
        if value.dtype == np.uint8:
            scales = raw[name + SCALES]
            made[name] = ((value.astype(np.float32) - 128) * scales, scales)
        elif value.dtype == np.float32 or value.dtype == np.float16:
            made[name] = (value.astype(np.float32), np.abs(value.astype(np.float32)) * 2.0**-10 + 1e-7)
        else:  # bf16, as numpy's module of it or as its bits
            bits = value.view(np.uint16).astype(np.uint32) << 16
            made[name] = (bits.view(np.float32), np.abs(bits.view(np.float32)) * 2.0**-7)
    return made


def held(session):
    return sum(pair.bytes for pair in session.state.tensors)


def runs(name, path, pieces, kind, backend="cpu", dtype=np.float32):
    """Each run's logits, and the new entries that the session keeps of it, beside ONNX Runtime's, whose past is what the session kept."""
    theirs = make_session(path, optimised=False)
    outputs = [output.name for output in theirs.get_outputs()]
    session = quarry.Session(path, backend=backend, **{"state": "auto", "state.type": kind, "state.capacity": 64})
    wide = quarry.Session(path, backend=backend, **{"state": "auto", "state.capacity": 64})
    past, worst, off = 0, 0.0, 0.0
    for tokens in pieces:
        given = values(session, tokens, past)
        if past:
            kept = {key: value.astype(dtype) for key, (value, _) in kept_as_reals(session.state).items()}
        else:
            kept = {i.name: np.zeros([d if isinstance(d, int) else tokens.shape[0] if "batch" in d else 0 for d in i.shape], dtype) for i in theirs.get_inputs() if i.name.startswith("past")}
        right = dict(zip(outputs, theirs.run(None, {**given, **kept})))
        found = session.run(given)[0]
        wide.run(given)
        worst = max(worst, float(np.abs(found - right["logits"]).max() / np.abs(right["logits"]).max()))
        for key, (value, step) in kept_as_reals(session.state).items():
            new = right[key.replace("past_key_values", "present")][:, :, past:].astype(np.float32)
            # Half a step, and what f32 (or the model's f16) is off; the first layer's alone, which attention has no part in.
            if ".0." in key:
                off = max(off, float((np.abs(value[:, :, past:] - new) / (np.broadcast_to(step, value.shape)[:, :, past:] * 0.51 + (2e-5 if dtype == np.float32 else 1e-2))).max()))
        past += tokens.shape[1]
    require(f"{name}, {kind} on {backend}: logits", worst < LOGITS[kind] * (1 if dtype == np.float32 else 2), f"differ by {worst:.1e}")
    require(f"{name}, {kind} on {backend}: what is kept", 0 < off <= 1, f"{off:.2f} of what rounding allows")
    require(f"{name}, {kind} on {backend}: length", session.state.length == past, session.state.length)
    types = {pair.dtype.name.lower() for pair in session.state.tensors if not pair.input.endswith(SCALES)}
    require(f"{name}, {kind} on {backend}: types", types == {kind}, types)
    size = np.dtype(dtype).itemsize
    row = kept_as_reals(session.state)["past_key_values.0.key"][0].shape[-1]
    ratio, expected = held(session) / held(wide), (BYTES[kind] + (4 / row if kind == "u8" else 0)) / size
    require(f"{name}, {kind} on {backend}: bytes", abs(ratio - expected) < 0.03, f"{ratio:.3f} of the model's, expected {expected:.3f}")
    return session


models = {
    "decoder": (decoder(Network(folder, rng), "decoder"), 1),
    "grouped": (grouped_decoder(Network(folder, rng), "grouped"), 1),
    "open batch": (grouped_decoder(Network(folder, rng), "open_batch", batch="batch_size"), 1),
    "two rows": (grouped_decoder(Network(folder, rng), "two_rows", batch="batch_size"), 2),
}
for name, (path, batch) in models.items():
    pieces = [rng.integers(0, 40, (batch, count)) for count in (5, 1, 1, 3 if batch == 1 else 1, 1)]  # (ONNX Runtime takes several tokens of one row alone)
    for kind in LOGITS:
        for backend in ("cpu", "cpu-reference"):
            runs(name, path, pieces, kind, backend)
for kind in ("bf16", "u8"):
    runs("f16 decoder", decoder(Network(folder, rng), "f16_decoder", half=True), [rng.integers(0, 40, (1, count)) for count in (5, 1, 2)], kind, dtype=np.float16)

# ---- what a state does else
path = models["decoder"][0]
tokens = [rng.integers(0, 40, (1, count)) for count in (6, 1, 1, 2, 1)]
for kind in LOGITS:
    options = {"state": "auto", "state.type": kind, "state.capacity": 64}
    session = quarry.Session(path, **options)
    first = [session.run({"input_ids": piece})[0].copy() for piece in tokens]
    session.state.rewind(7)
    again = [session.run({"input_ids": piece})[0].copy() for piece in tokens[2:]]
    require(f"{kind}: rewound, the same bits", all((a == b).all() for a, b in zip(first[2:], again)))
    saved = session.state.save()
    fork = session.state.fork()
    one = session.run({"input_ids": tokens[1]})[0].copy()
    session.state = fork
    require(f"{kind}: forked, the same bits", (session.run({"input_ids": tokens[1]})[0] == one).all())
    session.state.load(saved)
    require(f"{kind}: loaded, the same bits", session.state.length == 11 and (session.run({"input_ids": tokens[1]})[0] == one).all())
    other = quarry.Session(path, **{"state": "auto", "state.capacity": 64})
    try:
        other.state.load(saved)
        require(f"{kind}: of another type", False, "it was loaded")
    except quarry.Error as error:
        require(f"{kind}: of another type", error.id.startswith("QR-R00"), error.id)
    container = os.path.join(folder, f"{kind}.qrm")
    check(f"{kind}: compiled", run("compile", path, "-o", container, "-O", "state=auto", "-O", f"state.type={kind}", "-O", "state.capacity=64"), 0)
    from_container = quarry.Session(container, **{"state": "auto", "state.capacity": 64})
    require(f"{kind}: from a container, the same bits", all((from_container.run({"input_ids": piece})[0] == right).all() for piece, right in zip(tokens, first)))
    quarry.Session(container, **options)
    refused(f"{kind}: a container of it, asked otherwise", "QR-C0103", "state.type", f'"{kind}"', model=container, **{"state": "auto", "state.type": "f32"})
    slides = {"state.sink": 2, "state.window": 5}
    by = [quarry.Session(path, backend=backend, **options, **slides) for backend in ("cpu", "cpu-reference")]
    results = [[one.run({"input_ids": piece})[0].copy() for piece in tokens] for one in by]
    require(f"{kind}: a window", max(float(np.abs(a - b).max()) for a, b in zip(*results)) < 0.02 * float(np.abs(results[0][0]).max()) and by[0].state.length == 7 and by[0].state.dropped == 4, by[0].state.dropped)

# ---- attention reads what is kept as it lies, and one plan serves many lengths
for name in ("decoder", "grouped", "open batch"):
    for kind in ("model", *LOGITS):
        session = quarry.Session(models[name][0], threads=1, **{"state": "auto", "state.type": kind, "state.capacity": 64})
        session.run(values(session, rng.integers(0, 40, (1, 5)), 0))
        for past in range(5, 60):
            session.run(values(session, rng.integers(0, 40, (1, 1)), past))
        plans = session.report()["plans"]
        require(f"{name}, {kind}: plans", plans["made"] <= 16, plans)
        times = session.profile(values(session, rng.integers(0, 40, (1, 1)), 60), runs=1)
        layers = sum(pair.input.endswith(".key") for pair in session.state.tensors)
        casts, copies = (sum(node.calls for node in times if node.kernel.startswith(kernel)) for kernel in ("Cast", "Copy"))
        new = 2 * layers * {"model": 0, "u8": 1}.get(kind, 1)
        require(f"{name}, {kind}: nothing casts a cache", casts <= new, f"{casts} casts, expected at most {new}")
        require(f"{name}, {kind}: nothing copies a cache", copies <= 2 * layers * (2 if kind == "u8" else 1) + 1, f"{copies} copies")

# ---- programs of fixed shapes
path = batched_decoder(Network(folder, np.random.default_rng(5)), "batched")
theirs = make_session(path)
tokens = rng.integers(0, 40, (1, 10))
bound = {"state": "auto", "state.capacity": "16"}
programs = {"cpu": ({"backend": "cpu"}, "batch=1,seq=1,total=17,past_sequence_length=16", LOGITS)}
if len(sys.argv) > 3:
    programs["htp"] = ({"backend": "htp", "soc_model": "SM8650"}, "batch=1,seq=1,total=17", {"f16": 6e-3, "u8": 3e-2})
for backend, (on, shape, tolerances) in programs.items():
    for kind, tolerance in tolerances.items():
        session = quarry.Session(path, shape=shape, **on, **bound, **{"state.type": kind})
        for step in range(tokens.shape[1]):
            found = session.run({"input_ids": tokens[:, step:step + 1], "attention_mask": np.ones((1, step + 1), np.int64), "position_ids": np.array([[step]])})[0]
            given = {"input_ids": tokens[:, :step + 1], "attention_mask": np.ones((1, step + 1), np.int64), "position_ids": np.arange(step + 1)[None]}
            given.update({i.name: np.zeros([d if isinstance(d, int) else 1 if d == "batch" else 0 for d in i.shape], np.float32) for i in theirs.get_inputs() if i.name.startswith("past")})
            right = theirs.run(["logits"], given)[0][:, -1:]
            require(f"{backend}, fixed, {kind}: token {step}", np.abs(found - right).max() < tolerance * np.abs(right).max(), np.abs(found - right).max() / np.abs(right).max())
        require(f"{backend}, fixed, {kind}: types", session.state.tensors[0].dtype.name.lower() == kind)
try:
    gpu = quarry.Session(models["decoder"][0], backend="gpu", **{"state": "auto", "state.type": "f16", "state.capacity": 64})
except quarry.Error as error:
    print(f"   on gpu: skipped, {error}")
else:
    runs("decoder", models["decoder"][0], [rng.integers(0, 40, (1, count)) for count in (5, 1, 1)], "f16", "gpu")
    runs("decoder", models["decoder"][0], [rng.integers(0, 40, (1, count)) for count in (5, 1)], "u8", "gpu")

# ---- what is refused, and what is kept as it is
path = models["decoder"][0]
refused("no state", "QR-C0103", "state.type", "option state", model=path, **{"state.type": "f16"})
refused("a type that there is not", "QR-C0102", "state.type", "u8", model=path, **{"state": "auto", "state.type": "f8"})
attention = attention_decoder(Network(folder, rng), "attention")
refused("a past that an operator joins", "QR-R0021", "present.0.key", "Concat", model=attention, **{"state": "auto", "state.type": "u8"})
narrow, whole = (quarry.Session(attention, **{"state": "auto", "state.type": kind}) for kind in ("f16", "model"))
for piece in (rng.integers(0, 40, (1, count)) for count in (6, 1, 2)):
    a, b = (one.run({"input_ids": piece})[0] for one in (narrow, whole))
    require("the same in f16", np.abs(a - b).max() < 2e-3 * np.abs(b).max())
path, pieces = streaming(Network(folder, rng), "gru", "GRU")
gru = quarry.Session(path, **{"state": "auto", "state.type": "f16"})
gru.run({gru.inputs[0].name: pieces[0]})
require("what keeps its size keeps its type", gru.state.tensors[0].dtype.name.lower() == "f32", gru.state.tensors[0].dtype)
finish()
