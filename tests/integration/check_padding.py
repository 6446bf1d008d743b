#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of fixed shapes: runs that are smaller (`shape.pad`), and state that grows in one, on cpu and on Qualcomm's emulator, beside ONNX Runtime.

check_padding.py BUILD SHARED [FOLDER_OF_QUALCOMM'S_LIBRARIES], run by a Python that has numpy, onnx, onnxruntime and cffi.
"""
import os
import sys

import numpy as np
from onnx import TensorProto as T

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from decoders import Network, batched_decoder, decoder, streaming  # noqa: E402
from ort_session import make_session  # noqa: E402
from program import build, check, environment, finish, new_folder, require, root, run  # noqa: E402

os.environ["QUARRY_LIBRARY"] = os.path.join(build, "runtime", "libquarry.so.0")
if len(sys.argv) > 3:
    environment["QUARRY_QNN_PATH"] = os.environ["QUARRY_QNN_PATH"] = sys.argv[3]
sys.path.insert(0, os.path.join(root, "bindings", "python", "src"))
import quarry  # noqa: E402

folder = new_folder()
BACKENDS = {"cpu": ({"backend": "cpu"}, 2e-5)}
if len(sys.argv) > 3:
    BACKENDS["htp"] = ({"backend": "htp", "soc_model": "SM8650"}, 6e-3)
PAD = {"shape.pad": "seq:attention_mask"}


def words(options):
    return [text for key, value in options.items() for text in ("-O", f"{key}={value}")]


def refused(name, id, *texts, model, **options):
    try:
        quarry.Session(quarry.Model(model), **options)
    except quarry.Error as error:
        found = f"{error} {getattr(error, 'hint', '')}"
        require(name, error.id == id and all(text in found for text in texts), found)
    else:
        require(name, False, "nothing was refused")


# ---- runs that are smaller than their bucket
def encoder(name, anonymous=False, mask=T.INT64, nodes=None, extra=()):
    """A block as BERT's. anonymous: its output has another name for the dimension, as exporters give one. nodes: more of them, by the network."""
    n, heads, size = Network(folder, np.random.default_rng(1)), 2, 16
    width = heads * size
    x = n.node("Gather", n.weights(50, width), "input_ids")
    if mask == T.INT64:
        hidden = n.node("Unsqueeze", n.node("Equal", "attention_mask", n.const(np.array(0))), n.const(np.array([1, 2])))
        added = n.node("Where", hidden, n.const(np.array(-10000, np.float32)), n.const(np.array(0, np.float32)))
    else:
        added = n.node("Unsqueeze", "attention_mask", n.const(np.array([1, 2])))

    def head_first(rows):
        return n.node("Transpose", n.node("Reshape", rows, n.const(np.array([0, 0, heads, size]))), perm=[0, 2, 1, 3])

    q, k, v = (head_first(n.node("MatMul", x, n.weights(width, width))) for _ in range(3))
    scores = n.node("Mul", n.node("MatMul", q, n.node("Transpose", k, perm=[0, 1, 3, 2])), n.const(np.array(size ** -0.5, np.float32)))
    seen = n.node("MatMul", n.node("Softmax", n.node("Add", scores, added), axis=-1), v)
    joined = n.node("Reshape", n.node("Transpose", seen, perm=[0, 2, 1, 3]), n.const(np.array([0, 0, width])))
    n.node("Add", x, n.node("MatMul", joined, n.weights(width, width)), outputs=["hidden"])
    n.node("Tanh", n.node("Gather", "hidden", n.const(np.array(0)), axis=1), outputs=["pooled"])
    if nodes:
        nodes(n)
    inputs = [("input_ids", T.INT64, ["batch", "seq"]), ("attention_mask", mask, ["batch", "seq"])]
    outputs = [("hidden", T.FLOAT, ["batch", "hidden_dim_1" if anonymous else "seq", width]), ("pooled", T.FLOAT, ["batch", width]), *extra]
    return n.save(name, inputs, outputs)


def runs_of(path, mask=np.int64):
    session = make_session(path)
    rng = np.random.default_rng(2)
    for count in (37, 64, 5, 100, 128, 37, 1):
        kept = np.ones((1, count))
        kept[:, count - count // 4:] = 0  # the caller's own padding
        given = {"input_ids": rng.integers(0, 50, (1, count)), "attention_mask": kept.astype(np.int64) if mask == np.int64 else (10000 * (kept - 1)).astype(np.float32)}
        yield count, given, session.run(None, given)


TWO = "batch=1,seq=64;batch=1,seq=128"
named, float_mask = encoder("encoder"), encoder("float_mask", mask=T.FLOAT)
anonymous = encoder("anonymous", True)
for backend, (on, tolerance) in BACKENDS.items():
    container = os.path.join(folder, f"{backend}.qrm")
    check(f"{backend}: compile", run("compile", named, "-o", container, *words(on), "--shape", "batch=1,seq=64", "--shape", "batch=1,seq=128"), 0)
    cases = {"names": (named, {"shape": TWO, **PAD}), "no name": (anonymous, {"shape": TWO, **PAD}), "one bucket": (anonymous, {"shape": "batch=1,seq=128", **PAD}), "container": (container, PAD),
             "a number": (named, {"shape": TWO, "shape.pad": "seq:attention_mask=0,seq:input_ids=7"}), "mask of floats": (float_mask, {"shape": TWO, "shape.pad": "seq:attention_mask=-10000"})}
    for name, (path, options) in cases.items():
        session = quarry.Session(quarry.Model(path), **on, **options)
        require(f"{backend}, {name}: shapes", [i.shape for i in session.inputs] == [(1, None), (1, None)], session.inputs)
        profile = quarry.Profile()
        for count, given, right in runs_of(float_mask if path == float_mask else named, np.float32 if path == float_mask else np.int64):
            found = session.run(given, profile=profile)
            for one, other in zip(found, right):
                require(f"{backend}, {name}: {count}", one.shape == other.shape and np.abs(one - other).max() < tolerance, f"{one.shape} {other.shape} {np.abs(one - other).max() if one.shape == other.shape else ''}")
        told = [event.attributes.get("graph", "") for event in profile if event.name == "run"]
        report = session.report()["padding"]
        if name == "one bucket":
            require(f"{backend}: profile", "seq: 37 of 128, 71 % padding" in told and report["runs"] == 6, f"{told} {report}")
        else:
            require(f"{backend}: profile", "seq: 37 of 64, 42 % padding" in told and "seq: 100 of 128, 22 % padding" in told and "" in told, told)
            require(f"{backend}: report", report["runs"] == 5 and report["last"] == "seq: 1 of 64, 98 % padding" and report["dimensions"] == [{"name": "seq", "ran": 1, "of": 64}], report)
    # A queue has rooms of its own for each run.
    session = quarry.Session(quarry.Model(container), **on, **PAD, queue_depth=4)
    waiting = []
    for count, given, right in runs_of(named):
        if len(waiting) == 4:
            waiting.pop(0)()
        outputs = [np.zeros(one.shape, np.float32) for one in right]
        ticket = session.submit(given, out=outputs)

        def ended(ticket=ticket, outputs=outputs, right=right, count=count):
            ticket.wait()
            require(f"{backend}, queued: {count}", all(np.abs(a - b).max() < tolerance for a, b in zip(outputs, right)))
        waiting.append(ended)
    for one in waiting:
        one()
    # ---- the program
    count, given, right = next(runs_of(named))
    files = []
    for name, value in given.items():
        np.save(os.path.join(folder, name + ".npy"), value)
        files += ["-i", f"{name}={os.path.join(folder, name)}.npy"]
    check(f"{backend}: without the option", run("run", container, *words(on), *files), 3, "QR-R0003", "found [1,37], expected [1,64] or [1,128]", "shape.pad")
    out = new_folder()
    check(f"{backend}: quarry run", run("run", container, *words(on), *words(PAD), *files, "-o", out), 0, "hidden f32[1,37,32]", "padded: 1 runs, the last seq: 37 of 64, 42 % padding")
    require(f"{backend}: quarry run's file", np.abs(np.load(os.path.join(out, "hidden.npy")) - right[0]).max() < tolerance)
    check(f"{backend}: quarry bench", run("bench", container, *words(on), *words(PAD), *files, "-n", "3"), 0, "seq: 37 of 64, 42 % padding")
    # ---- what cannot be
    for name, options, texts in (
            ("no such input", {"shape.pad": "seq:mask"}, ("no input 'mask'",)),
            ("no such dimension", {"shape.pad": "length:attention_mask"}, ("no dimension 'length'", "batch, seq")),
            ("no input of it", {"shape.pad": "seq"}, ("DIMENSION:INPUT",)),
            ("no number", {"shape.pad": "seq:attention_mask=many"}, ("found 'many'", "i64")),
            ("not of the type", {"shape.pad": "seq:input_ids=0.5"}, ("found '0.5'", "i64"))):
        refused(f"{backend}, {name}", "QR-C0102", *texts, model=container, **on, **options)
    half = encoder("half", nodes=lambda n: n.node("Slice", "hidden", n.const(np.array([0])), n.const(np.array([2 ** 40])), n.const(np.array([1])), n.const(np.array([2])), outputs=["half"]),
                   extra=[("half", T.FLOAT, ["batch", "half_dim_1", 32])])
    refused(f"{backend}, a size that cannot be cut", "QR-C0102", "output 'half' has 32 or 64 on axis 1", "quarry cut", model=half, **on, shape=TWO, **PAD)
    session = quarry.Session(quarry.Model(container), **on, **PAD)
    for name, shapes, text in (("larger than all", [(1, 129), (1, 129)], "found 129 for dimension 'seq' (axis 1), expected 1..128"), ("two sizes", [(1, 5), (1, 6)], "expected 5, as input input_ids has it"),
                               ("another batch", [(2, 5), (2, 5)], "found 2 for dimension 'batch' (axis 0), expected 1"), ("nothing", [(1, 0), (1, 0)], "expected 1..128")):
        try:
            session.run([np.zeros(shape, np.int64) for shape in shapes])
            require(f"{backend}, {name}", False, "it ran")
        except quarry.Error as error:
            require(f"{backend}, {name}", error.id == "QR-R0003" and text in str(error), error)
refused("a range", "QR-C0102", "runs of a range need no padding", model=named, shape="batch=1,seq=1..64", **PAD)
n = Network(folder, np.random.default_rng(1))
n.node("NonZero", "x", outputs=["y"])
refused("a size that a run finds", "QR-C0102", "only a run knows", model=n.save("sized", [("x", T.FLOAT, ["seq"])], [("y", T.INT64, [1, "found"])]), shape="seq=8", **{"shape.pad": "seq:x"})

# ---- state of programs whose shapes are numbers
CAPACITY = 16
path = batched_decoder(Network(folder, np.random.default_rng(5)), "batched")
whole = make_session(path)


def logits(tokens, kept):
    """Of all tokens, from the start, without a cache."""
    batch, count = tokens.shape
    given = {"input_ids": tokens, "attention_mask": kept, "position_ids": np.arange(count)[None].repeat(batch, 0)}
    given.update({i.name: np.zeros((batch, 3, 0, 8), np.float32) for i in whole.get_inputs() if i.name.startswith("past")})
    return whole.run(["logits"], given)[0]


def drive(name, sessions, counts, batch, tolerance, steps=80):
    """Random runs, rewinds, forks, saves and loads, in turn on clones, beside the whole from its start."""
    rng = np.random.default_rng(3)
    empty = np.zeros((batch, 0), np.int64)
    now, forks, saved, worst = (empty, empty), [], None, 0
    session = sessions[0]
    for _ in range(steps):
        state, what = session.state, rng.integers(0, 11)
        tokens, kept = now
        require(f"{name}: length", state.length == tokens.shape[1], f"{state.length} {tokens.shape}")
        if what < 6:
            count = int(rng.choice(counts))
            if tokens.shape[1] + count > CAPACITY:
                length = int(rng.integers(0, CAPACITY - count + 1))
                state.rewind(length)
                tokens, kept = tokens[:, :length], kept[:, :length]
            new, seen = rng.integers(0, 40, (batch, count)), np.ones((batch, count), np.int64)
            seen[:, 0] = rng.integers(0, 4) > 0 or count == 1  # one that the caller's mask hides
            place = np.arange(tokens.shape[1], tokens.shape[1] + count)[None].repeat(batch, 0)
            now = np.concatenate([tokens, new], 1), np.concatenate([kept, seen], 1)
            found, right = session.run({"input_ids": new, "attention_mask": now[1], "position_ids": place})[0], logits(*now)[:, -count:]
            shown = now[1].cumsum(1)[:, -count:] > 0  # (a row that sees nothing is no answer)
            worst = max(worst, float(np.abs(found - right)[shown].max() / np.abs(right).max()))
        elif what == 6:
            length = int(rng.integers(0, tokens.shape[1] + 1))
            state.rewind(length)
            now = tokens[:, :length], kept[:, :length]
        elif what == 7:
            forks.append((state.fork(), now))
        elif what == 8 and forks:
            other = forks.pop(int(rng.integers(0, len(forks))))
            forks.append((state, now))
            session.state, now = other
        elif what == 9 and (saved is None or rng.integers(0, 2)):
            saved = bytes(state.save()), now
        elif what == 9:
            state.load(saved[0])
            now = saved[1]
        elif what == 10:
            other = sessions[int(rng.integers(0, len(sessions)))]
            other.state, session = state, other
    require(f"{name}: beside the whole", worst < tolerance, worst)


def cache_of(session):
    return np.concatenate([session.state[tensor.input] for tensor in session.state.tensors], 3)


for backend, (on, tolerance) in BACKENDS.items():
    past = f",past_sequence_length={CAPACITY}" if backend == "cpu" else ""  # (htp's capacity is state.capacity)
    keeps = {"state": "auto", "state.capacity": str(CAPACITY), **on}
    one, two = f"batch=1,seq=1,total=17{past}", f"batch=2,seq=1,total=17{past};batch=2,seq=4,total=20{past}"
    container = os.path.join(folder, f"decoder_{backend}.qrm")
    check(f"{backend}: compile a decoder", run("compile", path, "-o", container, *words(keeps), "--shape", one), 0)
    for source, shape in ((path, {"shape": one}), (container, {})):
        session = quarry.Session(quarry.Model(source), **keeps, **shape)
        require(f"{backend}: what is left to give", [i.shape for i in session.inputs] == [(1, 1), (1, None), (1, 1)], session.inputs)
        drive(f"{backend}, {os.path.basename(source)}", [session, session.clone()], [1], 1, tolerance)
    session = quarry.Session(quarry.Model(path), **keeps, shape=two)
    drive(f"{backend}, two programs", [session, session.clone()], [1, 4], 2, tolerance)
    padded = {"shape.pad": "seq:input_ids"}
    session = quarry.Session(quarry.Model(path), **keeps, shape=two, **padded, warm_up="1")
    drive(f"{backend}, padded", [session, session.clone()], [1, 2, 3, 4], 2, tolerance)
    # ---- a window, whose entries are those that the whole has
    session = quarry.Session(quarry.Model(path), **keeps, shape=one, **{"state.window": "5", "state.sink": "2"})
    rows = []
    for step in range(40):
        length = session.state.length
        session.run({"input_ids": np.array([[step]]), "attention_mask": np.ones((1, length + 1), np.int64), "position_ids": np.array([[step]])})
        state = cache_of(session)
        if step < 7:
            rows = state
        else:
            require(f"{backend}: a window at {step}", state.shape[2] == 7 and np.array_equal(state[:, :, :2], rows[:, :, :2]) and np.array_equal(state[:, :, 2:6], before[:, :, -4:]), state.shape)
        before = state
    require(f"{backend}: dropped", session.state.dropped == 33, session.state.dropped)
    # ---- errors that lose nothing
    session = quarry.Session(quarry.Model(path), **keeps, shape=one)
    for step in range(CAPACITY):
        session.run({"input_ids": np.array([[step]]), "attention_mask": np.ones((1, step + 1), np.int64), "position_ids": np.array([[step]])})
    state = cache_of(session)
    for name, id, mask in (("full", "QR-R0024", CAPACITY + 1), ("a mask that is short", "QR-R0003", CAPACITY), ("a mask that is long", "QR-R0003", CAPACITY + 2)):
        try:
            session.run({"input_ids": np.array([[1]]), "attention_mask": np.ones((1, mask), np.int64), "position_ids": np.array([[1]])})
            require(f"{backend}, {name}", False, "it ran")
        except quarry.Error as error:
            require(f"{backend}, {name}", error.id == id, error)
    require(f"{backend}: nothing is lost", session.state.length == CAPACITY and np.array_equal(cache_of(session), state))
    refused(f"{backend}: another capacity", "QR-R0021", "expected 16, which the program was compiled for", model=container, **{**keeps, "state.capacity": "32"})
    nothing = decoder(Network(folder, np.random.default_rng(4)), "no_mask")
    shape = f"seq=1{past}"
    refused(f"{backend}: no mask", "QR-R0022", "expected a mask", "attention_mask", model=nothing, **keeps, shape=shape)
    blind = batched_decoder(Network(folder, np.random.default_rng(5)), "blind", positions="mask")
    refused(f"{backend}: no positions", "QR-R0022", "position_ids", "shape.pad=DIMENSION:MASK", model=blind, **keeps, shape=one)
    session = quarry.Session(quarry.Model(blind), **keeps, shape=one, **{"shape.pad": "total:attention_mask"})
    for step in range(6):
        found = session.run({"input_ids": np.array([[step]]), "attention_mask": np.ones((1, step + 1), np.int64)})[0]
        right = logits(np.arange(step + 1)[None], np.ones((1, step + 1), np.int64))[:, -1:]
        require(f"{backend}: positions of the mask", np.abs(found - right).max() < tolerance * np.abs(right).max(), np.abs(found - right).max())
    # ---- what keeps its size needs no mask, and is not padded
    for kind in ("GRU", "LSTM"):
        recurrent, pieces = streaming(Network(folder, np.random.default_rng(4)), kind.lower(), kind)
        pieces = [np.random.default_rng(6).standard_normal((2, 6, 3)).astype(np.float32) for _ in range(5)]
        shape = "batch=2,frames=3"
        session, beside = quarry.Session(quarry.Model(recurrent), **on, state="auto", shape=shape), make_session(recurrent, optimised=False)
        kept = {i.name: np.zeros([2 if d == "batch" else d for d in i.shape], np.float32) for i in beside.get_inputs() if i.name != "x"}
        names = [o.name for o in beside.get_outputs()]
        history = []
        for number, piece in enumerate(pieces):
            history.append((session.state.fork(), dict(kept)))
            right = dict(zip(names, beside.run(None, {"x": piece, **kept})))
            kept = {name: right[name + ("_out" if name == "conv_cache" else "n")] for name in kept}
            found = session.run({"x": piece})[0]
            require(f"{backend}, {kind}: {number}", np.abs(found - right["y"]).max() < tolerance, np.abs(found - right["y"]).max())
        saved = session.state.save()
        last = session.run({"x": pieces[0]})[0]
        session.state.load(saved)
        require(f"{backend}, {kind}: loaded", np.array_equal(session.run({"x": pieces[0]})[0], last))
        session.state = history[2][0]
        found, right = session.run({"x": pieces[2]})[0], beside.run(["y"], {"x": pieces[2], **history[2][1]})[0]
        require(f"{backend}, {kind}: forked", np.abs(found - right).max() < tolerance, np.abs(found - right).max())
        session.state.reset()
        found, right = session.run({"x": pieces[0]})[0], beside.run(["y"], {"x": pieces[0], **history[0][1]})[0]
        require(f"{backend}, {kind}: reset", np.abs(found - right).max() < tolerance, np.abs(found - right).max())
        refused(f"{backend}, {kind}: padded", "QR-C0102", "keeps its size", model=recurrent, **on, state="auto", shape=shape, **{"shape.pad": "frames:x"})
finish()
