#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quarry chat by tokens: decoders with random weights beside ONNX Runtime, which is given all tokens each time and keeps nothing.

check_generate.py BUILD SHARED, run by a Python that has numpy, onnx and onnxruntime. check_tokenizer.py has texts.
"""
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import onnxruntime

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from decoders import Network, batched_decoder, decoder, grouped_decoder, with_mask  # noqa: E402
from ort_session import make_session  # noqa: E402
from program import build, check, environment, finish, model, new_folder, quarry, require, run, shared  # noqa: E402

folder = new_folder()
rng = np.random.default_rng(11)
PROMPT = [3, 17, 29, 5, 11]


def text(tokens):
    return ",".join(map(str, tokens))


def read(printed):
    return [[int(word) for word in line.split()] for line in printed.splitlines()]


def greedy(path, tokens, count):
    """What ONNX Runtime picks, from the start for each token."""
    session, out = make_session(path, optimised=False), list(tokens)
    for _ in range(count):
        given = {"input_ids": np.array([out]), "attention_mask": np.ones((1, len(out)), np.int64), "seqlens_k": np.array([len(out) - 1], np.int32), "total_sequence_length": np.array(len(out), np.int32)}
        for info in session.get_inputs():
            if info.name not in given:
                dims = [d if isinstance(d, int) else 0 for d in info.shape]
                given[info.name] = np.zeros(dims, np.float16 if "16" in info.type else np.float32)
        names = [info.name for info in session.get_inputs()]
        out.append(int(session.run(["logits"], {name: given[name] for name in names})[0][0, -1].argmax()))
    return out[len(tokens):]


def compare(name, path, reference, *flags, backends=("cpu", "cpu-reference")):
    expected = greedy(reference, PROMPT, 12)
    for backend in backends:
        found = check(f"{name} on {backend}", run("chat", path, "--backend", backend, "--ids", text(PROMPT), "--max-tokens", "12", *flags), 0).stdout
        require(f"{name} on {backend}: tokens", read(found) == [expected], (found, expected))
    return expected


def lines(*prompts, words=(), path=None):
    """Prompts by standard input, one conversation."""
    done = subprocess.run([quarry, "chat", path, *words], input="\n".join(map(text, prompts)) + "\n", capture_output=True, text=True, env=environment, timeout=120)
    return done


path = decoder(Network(folder, rng), "decoder")
expected = compare("decoder", path, path)
compare("decoder of f16", half := decoder(Network(folder, rng), "half", half=True), half, backends=("cpu",))
check("compiled", run("compile", path, "-O", "state=auto", "-o", os.path.join(folder, "decoder.qrm")), 0)
compare("decoder from a container", os.path.join(folder, "decoder.qrm"), path)

# ---- several requests in one batch: the text of each is that of the request alone
path_of_batch = batched_decoder(Network(folder, rng), "batched")
asked = [([3, 17, 29], 9), ([5], 30), ([8, 1, 12, 30, 2, 2, 7], 4), ([11, 4], 17), ([39, 6, 6, 1], 12), ([20], 1)]
done = subprocess.run([os.path.join(build, "examples", "example-batch"), path_of_batch, "3", *(f"{text(tokens)}:{count}" for tokens, count in asked)], capture_output=True, text=True, env=environment, timeout=120)
check("a batch", done, 0)
for (tokens, count), found in zip(asked, read(done.stdout)):
    alone = check("alone", run("chat", path_of_batch, "--shape", "batch=1", "--ids", text(tokens), "--max-tokens", str(count)), 0).stdout
    require(f"a request of {len(tokens)} and {count} tokens", found[:len(tokens)] == tokens and read(alone) == [found[len(tokens):]], (found, alone))
runs = re.findall(r"(\d+) runs for (\d+) tokens", done.stderr)
require("runs of a batch", len(runs) == 1 and int(runs[0][1]) == 73 and 30 <= int(runs[0][0]) <= 45, done.stderr)

# ---- a conversation goes on behind what was said, and runs its new end alone
done = check("two prompts", lines(PROMPT, [8, 9], words=["--max-tokens", "4", "--stats"], path=path), 0)
first, second = read(done.stdout)
require("the second answer", second == greedy(path, PROMPT + first + [8, 9], 4) and first == expected[:4], (first, second))
stats = re.findall(r"prompt of (\d+) tokens, (\d+) of them known; first token after ([\d.]+) ms; (\d+) tokens, ([\d.]+) tokens/s; ended by (.*)", done.stderr)
require("what --stats says", [(row[0], row[1], row[3], row[5]) for row in stats] == [("5", "0", "4", "--max-tokens"), ("11", "8", "4", "--max-tokens")], done.stderr)

# ---- what is drawn
draws = [run("chat", path, "--ids", text(PROMPT), "--max-tokens", "30", "--temperature", "1.5", "--seed", str(seed), "--backend", backend).stdout
         for seed, backend in ((1, "cpu"), (1, "cpu"), (2, "cpu"), (1, "cpu-reference"))]
require("a seed gives the same again", draws[0] == draws[1] == draws[3] != draws[2] and len(read(draws[0])[0]) == 30, draws)
for flags in (["--top-k", "1"], ["--top-p", "0.0001"], ["--min-p", "1"]):
    found = run("chat", path, "--ids", text(PROMPT), "--max-tokens", "12", "--temperature", "1", *flags).stdout
    require(f"{flags} leaves the most probable", read(found) == [expected], found)
found = read(run("chat", path, "--ids", text(PROMPT), "--max-tokens", "12", "--repetition-penalty", "1000").stdout)[0]
require("no token comes twice", len(set(PROMPT + found)) == len(PROMPT + found), found)

# ---- why it ends
stop = [token for i, token in enumerate(expected) if token not in expected[:i]][-1]
done = run("chat", path, "--ids", text(PROMPT), "--max-tokens", "12", "--stop-token", str(stop), "--stats")
require("a stop token", read(done.stdout) == [expected[:expected.index(stop)]] and "ended by a stop token" in done.stderr, (done.stdout, done.stderr))
done = check("the context is full", run("chat", path, "--ids", text(PROMPT), "-O", "state.capacity=9", "--max-tokens", "0"), 0, "the context is full at 9 tokens", "state.capacity")
require("tokens until the context is full", read(done.stdout) == [expected[:5]], done.stdout)
check("a prompt that has no room", run("chat", path, "--ids", text(PROMPT), "-O", "state.capacity=3"), 3, "QR-R0024", "found 5 tokens, expected at most the 3")

# ---- GroupQueryAttention with lengths of the run: a cache that grows, its lengths given or of a mask; and one of constant size, one token a run
reference = grouped_decoder(Network(folder, np.random.default_rng(5)), "grouped")
compare("lengths that are given", reference, reference)
compare("lengths of a mask", with_mask(reference, os.path.join(folder, "masked.onnx")), reference)
check("compiled", run("compile", reference, "-O", "state=auto", "-o", os.path.join(folder, "grouped.qrm")), 0)
compare("lengths that are given, from a container", os.path.join(folder, "grouped.qrm"), reference)
open_batch = grouped_decoder(Network(folder, np.random.default_rng(5)), "open_batch", batch="batch_size")
compare("any batch", open_batch, reference)
compare("any batch, lengths of a mask", with_mask(open_batch, os.path.join(folder, "masked_batch.onnx")), reference)

# Rows of different lengths, as ONNX Runtime has them: what counts of each row is what its length says.
session = onnxruntime.InferenceSession(open_batch, providers=["CPUExecutionProvider"])
draw = np.random.default_rng(6)
for batch, past, new, counts in ((1, 0, 5, [5]), (1, 5, 1, [6]), (1, 5, 3, [8]), (3, 0, 5, [5, 5, 5]), (3, 5, 1, [6, 6, 6]), (3, 0, 5, [5, 3, 2]), (3, 6, 1, [7, 4, 2])):
    feeds = {"input_ids": draw.integers(0, 40, (batch, new)), "seqlens_k": np.array(counts, np.int32) - 1, "total_sequence_length": np.array(max(counts), np.int32),
             **{f"past_key_values.0.{kv}": draw.standard_normal((batch, 2, past, 16)).astype(np.float32) for kv in ("key", "value")}}
    expected_rows = dict(zip((o.name for o in session.get_outputs()), session.run(None, feeds)))
    words = []
    for name, value in feeds.items():
        np.save(os.path.join(folder, f"rows_{name}.npy"), value)
        words += ["-i", f"{name}={os.path.join(folder, f'rows_{name}.npy')}"]
    for backend in ("cpu", "cpu-reference"):
        to = os.path.join(folder, f"rows_{batch}_{past}_{new}_{counts[-1]}_{backend}")
        check(f"rows of {counts} behind {past}, {backend}", run("run", open_batch, "--backend", backend, "-o", to, *words), 0)
        found_rows = {name: np.load(os.path.join(to, name + ".npy")) for name in expected_rows}
        worst = 0.0
        for row, count in enumerate(counts):
            rows = min(new, count)  # of a row of the first tokens that is shorter
            worst = max(worst, np.abs(found_rows["logits"][row, :rows] - expected_rows["logits"][row, :rows]).max(),
                        *(np.abs(found_rows[f"present.0.{kv}"][row, :, :count] - expected_rows[f"present.0.{kv}"][row, :, :count]).max() for kv in ("key", "value")))
        require(f"rows of {counts} behind {past}, {backend}: numbers", worst < 2e-5, worst)
cached = grouped_decoder(Network(folder, np.random.default_rng(5)), "cached", length=24, tokens=1)
grouped = compare("a cache of constant size", cached, reference)
done = check("a cache of constant size is full", run("chat", cached, "--ids", text(PROMPT), "--max-tokens", "0"), 0, "full at 24 tokens")
require("tokens until the cache is full", read(done.stdout)[0] == greedy(reference, PROMPT, 20), done.stdout)

# ---- a real model
story = os.path.join(shared, "models", "babyllama105_kv_f32", "model.onnx")
if os.path.exists(story):
    begin = "1 3 34 9 22 4 3 18 20 7"
    known = "9 3 5 3 6 10 16 4 25 3 6 8 4 13 4 3 17 5 12 3 5 3 14 10"
    found = check("a small Llama", run("chat", story, "--ids", begin, "--max-tokens", "24"), 0).stdout
    require("a small Llama: tokens", found.split() == known.split(), found)
else:
    print(f"   a small Llama: skipped, there is no {story}")

# ---- Ctrl-C ends an answer and not the program
program = subprocess.Popen([quarry, "chat", path, "--max-tokens", "0", "--stats", "-O", "state.capacity=100000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           env=environment)
for prompt in (b"3,1\n", b"7\n"):
    program.stdin.write(prompt)
    program.stdin.flush()
    started = program.stdout.read(8)  # it is in the midst of an answer
    program.send_signal(signal.SIGINT)
    said = program.stderr.readline()
    require("Ctrl-C ends an answer", len(started) == 8 and b"ended by Ctrl-C" in said, (started, said))
    program.stdout.readline()
    time.sleep(0.1)
    require("and not the program", program.poll() is None)
program.stdin.close()
require("the end of the input ends the program", program.wait(timeout=60) == 0)

# ---- what is refused
check("no decoder", run("chat", model, "--ids", "1"), 3, "QR-R0032", "found the input")
check("a decoder whose cache the session does not keep", run("chat", path, "-O", "state=past_key_values.0.key:present.0.key", "--ids", "1"), 3, "QR-R0032", "past_key_values.0.value")
check("a token that there is not", run("chat", path, "--ids", "99"), 3, "QR-C0007", "found 99, expected one under 40")
check("names that are not there", run("chat", path, "--ids", "1", "--names", "input_ids=tokens"), 3, "QR-R0032", "'tokens'")
check("the tokenizer's library is missing", run("chat", path, "--tokenizer", "x.json", env={**environment, "QUARRY_TOKENIZER_LIBRARY": os.path.join(folder, "none.so")}), 3, "bindings/tokenizer/build.py", "--ids")
finish()
