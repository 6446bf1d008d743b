#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that were changed at random, opened, checked, compiled and run in processes of their own under an allocator that fills what it gives and takes back: each
must end by itself, in time and in bounds, with an answer or a reason.

mutated_models.py QUARRY [--count N] [--seed S] [--only N] [--keep FOLDER] MODEL_OR_FOLDER...

A model is a protobuf message: what is changed is one of its fields, wherever it lies (a number, a text, bytes), or a field that is said twice, or not at all.
"""
import argparse
import copy
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile

MEMORY = 4 << 30  # of address space; a session reserves some
SECONDS = 20


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128 or shift > 63:
            return value, at


def put_varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse(data):
    """[number, wire type, value] of each field; None: no message."""
    fields, at = [], 0
    try:
        while at < len(data):
            key, at = varint(data, at)
            number, wire = key >> 3, key & 7
            if number == 0 or number > 10000:
                return None
            if wire == 0:
                value, at = varint(data, at)
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                value, at = data[at:at + size], at + size
                if len(value) != size:
                    return None
            elif wire == 2:
                size, at = varint(data, at)
                value, at = data[at:at + size], at + size
                if len(value) != size:
                    return None
                inner = parse(value) if 1 < size < 1 << 20 and not value.isascii() or (size > 1 and value[:1] in b"\x08\x0a\x12\x1a") else None
                value = inner if inner else value
            else:
                return None
            fields.append([number, wire, value])
    except IndexError:
        return None
    return fields


def write(fields):
    out = []
    for number, wire, value in fields:
        out.append(put_varint(number << 3 | wire))
        if wire == 0:
            out.append(put_varint(value))
        elif wire == 2:
            value = write(value) if isinstance(value, list) else value
            out.append(put_varint(len(value)) + value)
        else:
            out.append(value)
    return b"".join(out)


def places(fields, depth=0):
    """Every list of fields with an index in it; deep ones as often as shallow ones."""
    for i, field in enumerate(fields):
        yield fields, i, depth
        if isinstance(field[2], list):
            yield from places(field[2], depth + 1)


NUMBERS = [0, 1, 2, 3, 7, 8, 9, 16, 64, 255, 256, 65535, 65537, 1 << 20, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 62), (1 << 63) - 1, 1 << 63, -1, -2,
           -3, -8, -(1 << 31), -(1 << 40)]


def mutate(r, fields, texts):
    todo = list(places(fields))
    weights = [1 + 2 * depth for _, _, depth in todo]
    holder, i, _ = r.choices(todo, weights)[0]
    if i >= len(holder):
        return
    number, wire, value = holder[i]
    kind = r.randrange(10)
    if kind == 0:
        holder.insert(i, list(holder[i]))
    elif kind == 1:
        del holder[i]
    elif kind == 2 and len(holder) > 1:
        j = r.randrange(len(holder))
        holder[i], holder[j] = holder[j], holder[i]
    elif wire == 0:
        holder[i][2] = r.choice(NUMBERS) if r.randrange(3) else value + r.choice([-1, 1])
    elif wire in (1, 5):
        holder[i][2] = r.choice([b"\0" * len(value), b"\xff" * len(value), (b"\0\0\x80\x7f" * 2)[:len(value)], (b"\0\0\xc0\xff" * 2)[:len(value)], r.randbytes(len(value))])
    elif isinstance(value, list):
        other = [f for holder, k, _ in todo if k < len(holder) for f in [holder[k]] if f[0] == number and isinstance(f[2], list)]
        if other:
            holder[i][2] = copy.deepcopy(r.choice(other)[2])  # one that holds it itself, too
    elif value:
        if len(value) < 64 and r.randrange(3):
            holder[i][2] = r.choice(texts)  # another name, another operator
        else:
            changed = bytearray(value)
            for _ in range(r.randrange(1, 4)):
                changed[r.randrange(len(changed))] = r.randrange(256)
            holder[i][2] = bytes(changed[:r.randrange(len(changed) + 1)] if r.randrange(4) == 0 else changed)


def changed(r, data):
    fields = parse(data)
    if not fields or r.randrange(20) == 0:  # the file as such
        out = bytearray(data)
        for _ in range(r.randrange(1, 6)):
            out[r.randrange(len(out))] = r.randrange(256)
        return bytes(out[:r.randrange(1, len(out) + 1)] if r.randrange(3) == 0 else out)
    texts = [f[2] for holder, i, _ in places(fields) for f in [holder[i]] if isinstance(f[2], bytes) and f[1] == 2 and 0 < len(f[2]) < 64 and f[2].isascii()]
    for _ in range(r.choice([1, 1, 1, 2, 3])):
        mutate(r, fields, texts or [b"x"])
        if not fields:
            break
    return write(fields)


def models_in(paths):
    found = []
    for path in paths:
        if os.path.isfile(path):
            found.append(path)
        for folder, _, names in os.walk(path):
            found += [os.path.join(folder, n) for n in names if n.endswith(".onnx") and os.path.getsize(os.path.join(folder, n)) < 200_000]
    return sorted(found)


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("quarry")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--only", type=int, help="the number of one model, which its name ends with")
    parser.add_argument("--keep", help="where models that fail are kept")
    given = parser.parse_args()
    seeds = models_in(given.models)
    if not seeds:
        sys.exit(f"no models in {given.models}")
    ways = [["run", "--zeros", "--backend", "cpu"], ["run", "--zeros", "--backend", "cpu-reference"], ["compile", "--check", "--backend", "cpu"], ["verify"], ["inspect"]]
    bad, ends = [], {}
    with tempfile.TemporaryDirectory() as folder:
        running = []
        def reap():
            process, path, what, perturb = running.pop(0)
            try:
                _, text = process.communicate(timeout=SECONDS)
                code = process.returncode
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                text, code = b"", "too long"
            ends[code] = ends.get(code, 0) + 1
            # What ends by itself says why; out of memory is an answer too.
            if code not in (0, 1, 2, 3, 4) or b"QR-C0010" in text:
                kept = os.path.join(given.keep or ".", os.path.basename(path))
                if given.keep:
                    os.makedirs(given.keep, exist_ok=True)
                    shutil.move(path, kept)
                again = f"GLIBC_TUNABLES=glibc.malloc.perturb={perturb} {given.quarry} {what[0]} {kept} {' '.join(what[1:])}"
                bad.append(f"ended with {code} after at most {SECONDS} s: {again}\n{text[-600:].decode(errors='replace')}")
            elif os.path.exists(path):
                os.remove(path)
        for n in range(given.count) if given.only is None else [given.only]:
            r = random.Random(given.seed * 1_000_003 + n)
            with open(r.choice(seeds), "rb") as file:
                data = changed(r, file.read())
            path = os.path.join(folder, f"m{given.seed}_{n:05d}.onnx")
            with open(path, "wb") as out:
                out.write(data)
            what, perturb = r.choice(ways), r.choice([1, 165, 221, 85])
            command = [given.quarry, what[0], path] + what[1:]
            running.append((subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=limited,
                                             env=dict(os.environ, GLIBC_TUNABLES=f"glibc.malloc.perturb={perturb}")), path, what, perturb))
            if len(running) >= given.jobs:
                reap()
        while running:
            reap()
    print(f"{sum(ends.values())} models of {len(seeds)}: " + ", ".join(f"{count} ended with {code}" for code, count in sorted(ends.items(), key=str)))
    for text in bad:
        print("FAILED", text)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
