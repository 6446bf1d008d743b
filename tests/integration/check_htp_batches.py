#!/usr/bin/env python3
"""Runs of several batches on the htp backend (`shape=N=2..8`): which models are taken, that each row is what a run of its own gives, and what is refused by name.

check_htp_batches.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import os
import random
import struct
import sys

from onnx_file import BOOL, F32, I64, initializer, number, numbers, onnx_file, onnx_node
from program import build, check, environment, finish, new_folder, npy, require, run

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu-reference"))
folder = new_folder()
random.seed(5)
path, container, target = (os.path.join(folder, name) for name in ("m.onnx", "m.qrm", "out"))
HTP = ("--backend", "htp", "-O", "soc_model=SM8650")
LAST = (1 << 64) - 1  # the attribute axis of -1


def count_of(dims):
    count = 1
    for d in dims:
        count *= d
    return count


def floats(name, *dims):
    return initializer(name, F32, dims, struct.pack(f"<{count_of(dims)}f", *(random.uniform(-1, 1) for _ in range(count_of(dims)))))


def ints(name, *values):
    return initializer(name, I64, (len(values),), struct.pack(f"<{len(values)}q", *values))


def written(nodes, inputs, outputs, constants):
    with open(path, "wb") as file:
        file.write(onnx_file(nodes, inputs, outputs, (), constants, 21))


def given(inputs, rows):
    words = []
    for name, dtype, dims in inputs:
        dims = [rows, *dims[1:]]
        values = [random.randrange(4) if dtype == I64 else random.uniform(-1, 1) for _ in range(count_of(dims))]
        words += ["-i", f"{name}={npy(os.path.join(folder, name + '.npy'), dims, values, 'q' if dtype == I64 else 'f')}"]
    return words


def outputs_of(*words):
    check(" ".join(words[:4]), run("run", *words, "-o", target), 0)
    found = {}
    for name in sorted(os.listdir(target)):
        with open(os.path.join(target, name), "rb") as file:
            data = file.read()
        head = data[10:10 + struct.unpack_from("<H", data, 8)[0]].decode()
        letter = {"f4": "f", "i8": "q", "b1": "?"}[head.split("'descr': '")[1][1:3]]
        body = data[10 + len(head):]
        found[name] = (head.split("'shape': ")[1].split(")")[0], struct.unpack(f"<{len(body) // struct.calcsize(letter)}{letter}", body))
        os.remove(os.path.join(target, name))
    return found


def taken(title, nodes, inputs, outputs, *constants):
    """As cpu-reference gives it, for one, two and three batches of two rows, from ONNX and from a container."""
    written(nodes, inputs, outputs, constants)
    check(f"{title}: compile", run("compile", path, *HTP, "--shape", "N=2..6", "-o", container), 0)
    for rows in (2, 4, 6):
        words = given(inputs, rows)
        right = outputs_of(path, "--backend", "cpu-reference", *words)
        for way, model in (("a container", (container,)), ("ONNX", (path, "--shape", "N=2..6"))):
            if way == "ONNX" and rows != 4:
                continue
            made = outputs_of(*model, *HTP, *words)
            close = made.keys() == right.keys() and all(a[0] == b[0] and all(abs(u - v) <= 0.02 for u, v in zip(a[1], b[1])) for a, b in zip(made.values(), right.values()))
            require(f"{title}: {rows} rows from {way}", close, (made, right))


def refused(title, words, nodes, inputs, outputs, *constants):
    written(nodes, inputs, outputs, constants)
    for command in ("compile", "check"):
        check(f"{title}: {command}", run(command, path, *HTP, "--shape", "N=2..8", *(["-o", container] if command == "compile" else [])), 3, "QR-O0008", "dimension N: found 2..8, expected one number", words, "bind it: shape=N=2")


SIZE = [onnx_node("Shape", ["x"], ["size"], number("start", 0) + number("end", 1), name="size"), onnx_node("Concat", ["size", "rest"], ["to"], number("axis", 0), name="to")]
taken("layers", [onnx_node("Gemm", ["x", "w", "b"], ["a"], number("transB", 1), name="a"), onnx_node("Relu", ["a"], ["r"], name="r"), onnx_node("Softmax", ["r"], ["y"], number("axis", LAST))],
      [("x", F32, ("N", 8))], [("y", F32, ("N", 4))], floats("w", 4, 8), floats("b", 4))
taken("an image", [onnx_node("Conv", ["x", "w"], ["a"], numbers("pads", [1, 1, 1, 1]), name="a"), onnx_node("GlobalAveragePool", ["a"], ["g"], name="g"), onnx_node("Flatten", ["g"], ["y"])],
      [("x", F32, ("N", 3, 8, 8))], [("y", F32, ("N", 4))], floats("w", 4, 3, 3, 3))
taken("attention", [onnx_node("MatMul", ["x", "w"], ["q"], name="q"), onnx_node("Transpose", ["x"], ["k"], numbers("perm", [0, 2, 1]), name="k"), onnx_node("MatMul", ["q", "k"], ["s"], name="s"),
                    onnx_node("Softmax", ["s"], ["p"], number("axis", LAST), name="p"), onnx_node("MatMul", ["p", "x"], ["y"])], [("x", F32, ("N", 5, 8))], [("y", F32, ("N", 5, 8))], floats("w", 8, 8))
taken("a shape of its shape", [*SIZE, onnx_node("Reshape", ["x", "to"], ["r"], name="r"), onnx_node("Transpose", ["r"], ["y"], numbers("perm", [0, 2, 1]))], [("x", F32, ("N", 12))], [("y", F32, ("N", 4, 3))], ints("rest", 3, 4))
taken("rows of rows", [onnx_node("Reshape", ["x", "to"], ["r"], name="r"), onnx_node("MatMul", ["r", "w"], ["y"])], [("x", F32, ("N", 3, 4))], [("y", F32, ("M", 5))], ints("to", -1, 4), floats("w", 4, 5))
taken("a constant for each row", [*SIZE, onnx_node("Expand", ["c", "to"], ["e"], name="e"), onnx_node("Concat", ["e", "x"], ["k"], number("axis", 1), name="k"), onnx_node("Add", ["k", "p"], ["y"])],
      [("x", F32, ("N", 3, 4))], [("y", F32, ("N", 4, 4))], ints("rest", 1, 4), floats("c", 1, 1, 4), floats("p", 1, 4, 4))
taken("words", [onnx_node("Gather", ["w", "x"], ["y"])], [("x", I64, ("N", 3))], [("y", F32, ("N", 3, 6))], floats("w", 4, 6))
taken("two inputs and integers", [onnx_node("Add", ["x", "z"], ["y"], name="add"), onnx_node("ArgMax", ["x"], ["i"], number("axis", LAST), name="arg"), onnx_node("Greater", ["z", "x"], ["g"], name="greater"),
                                  onnx_node("Transpose", ["t"], ["u"], numbers("perm", [0, 2, 1]))],
      [("x", F32, ("N", 4)), ("z", F32, ("N", 1)), ("t", I64, ("N", 2, 3))], [("y", F32, ("N", 4)), ("i", I64, ("N", 1)), ("g", BOOL, ("N", 4)), ("u", I64, ("N", 3, 2))])
taken("stored as bytes", [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"), onnx_node("Relu", ["d"], ["r"], name="r"),
                          onnx_node("QuantizeLinear", ["r", "s", "z"], ["p"], name="p"), onnx_node("DequantizeLinear", ["p", "s", "z"], ["y"])], [("x", F32, ("N", 4))], [("y", F32, ("N", 4))],
      initializer("s", F32, (), struct.pack("<f", 0.01)), initializer("z", 2, (), b"\x80"))
taken("eight axes", [onnx_node("Sigmoid", ["x"], ["y"])], [("x", F32, ("N", 1, 3, 2, 2, 2, 1, 2))], [("y", F32, ("N", 1, 3, 2, 2, 2, 1, 2))])

MIXES = "may mix the rows of a batch"
plain = [("x", F32, ("N", 4))], [("y", F32, ("N", 4))]
refused("a mean of the batch", MIXES, [onnx_node("ReduceMean", ["x", "a"], ["m"], number("keepdims", 1), name="m"), onnx_node("Sub", ["x", "m"], ["y"])], *plain, ints("a", 0))
refused("a sum along the batch", MIXES, [onnx_node("CumSum", ["x", "a"], ["y"])], *plain, initializer("a", I64, (), struct.pack("<q", 0)))
refused("a Softmax of the batch", f"node n (Softmax) {MIXES}", [onnx_node("Softmax", ["x"], ["y"], number("axis", 0))], *plain)
refused("the batch as a number", f"node n (Mul) {MIXES}", [*SIZE[:1], onnx_node("Cast", ["size"], ["c"], number("to", F32), name="c"), onnx_node("Mul", ["x", "c"], ["y"])], *plain)
refused("rows in another order", MIXES, [onnx_node("Slice", ["x", "s", "e", "a", "d"], ["y"])], *plain, ints("s", -1), ints("e", -99), ints("a", 0), ints("d", -1))
refused("rows as columns", MIXES, [onnx_node("Reshape", ["x", "to"], ["y"])], [("x", F32, ("N", 4))], [("y", F32, (4, "M"))], ints("to", 4, -1))
refused("each row by each", MIXES, [onnx_node("Transpose", ["x"], ["t"], numbers("perm", [1, 0]), name="t"), onnx_node("MatMul", ["x", "t"], ["y"])], [("x", F32, ("N", 4))], [("y", F32, ("N", "M"))])
refused("places of maxima", "node n (MaxPool) " + MIXES, [onnx_node("MaxPool", ["x"], ["y", "i"], numbers("kernel_shape", [2, 2]))], [("x", F32, ("N", 1, 4, 4))], [("y", F32, ("N", 1, 3, 3)), ("i", I64, ("N", 1, 3, 3))])
refused("the second axis", "it is not the first axis of input x", [onnx_node("Relu", ["x"], ["y"])], [("x", F32, (3, "N"))], [("y", F32, (3, "N"))])
refused("an input without it", "it is not the first axis of input z", [onnx_node("Add", ["x", "z"], ["y"])], [("x", F32, ("N", 4)), ("z", F32, (1, 4))], [("y", F32, ("N", 4))])
refused("an output without it", "output z has not the batch as its first axis", [onnx_node("Relu", ["x"], ["y"], name="r"), onnx_node("Identity", ["c"], ["z"])], [("x", F32, ("N", 4))], [("y", F32, ("N", 4)), ("z", F32, (2,))], floats("c", 2))

# ---- runs that are no multiple, too many, or of two sizes; two dimensions; what inspect says
inputs = [("x", F32, ("N", 4)), ("z", F32, ("N", 4))]
written([onnx_node("Add", ["x", "z"], ["y"])], inputs, [("y", F32, ("N", 4))], [])
check("compile", run("compile", path, *HTP, "--shape", "N=2..8", "-o", container), 0)
check("no multiple", run("run", container, *HTP, *given(inputs, 3)), 3, "QR-R0003", "input x: found 3 in its first axis, expected a multiple of 2, up to 8", "fill the batch up")
check("too many", run("run", container, *HTP, *given(inputs, 10)), 3, "QR-R0003", "found 10 in its first axis")
check("two sizes", run("run", container, *HTP, *given(inputs[:1], 2), *given(inputs[1:], 4)), 3, "QR-R0003", "input z: found 4 in its first axis, expected 2, as input x has it")
check("another shape", run("run", container, *HTP, *given([("x", F32, ("N", 5))], 2), *given(inputs[1:], 2)), 3, "QR-R0003", "input x: found [2,5], expected [?,4]")
check("bench a batch", run("bench", container, *HTP, "--batch", "4", "-n", "2"), 0, "rows a second, 4 a run")
check("bench no batch", run("bench", container, *HTP, "-n", "2"), 2, "--batch", "the range is N=2..8")
check("inspect", run("inspect", container, "--json"), 0, '"batches"')
written([onnx_node("Relu", ["x"], ["y"])], [("x", F32, ("N", "S"))], [("y", F32, ("N", "S"))], [])
check("two dimensions", run("compile", path, *HTP, "--shape", "N=1..4,S=1..9", "-o", container), 3, "QR-O0008", "N is another one", "bind it: shape=N=1,S=1")
check("not bound at all", run("compile", path, *HTP, "-o", container), 3, "QR-O0008", "bind it: shape=N=1,S=1")
finish()
