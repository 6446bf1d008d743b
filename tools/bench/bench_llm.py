#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decoders beside ONNX Runtime: milliseconds of processor time for each generated token behind so many others, and for a prompt of 128.

bench_llm.py MODEL.onnx... [--past 32,512] [--tokens 48] [--rounds 5] [--threads 1] [--shape TEXT] [--types model,f16,u8]

A Python that has numpy, onnxruntime and the package quarry (or PYTHONPATH=bindings/python/src, QUARRY_LIBRARY and QUARRY_BACKEND_PATH). Models are those of exporters: input_ids, attention_mask, position_ids and
past_key_values.* that Concat makes longer, or com.microsoft's GroupQueryAttention, whose caches ONNX Runtime is given with room for all (it writes them in place). Both take the same tokens, in turn, round by round; a figure is the median of
all rounds, beside it the least and the most of a round.
"""
import argparse
import os
import statistics
import time

import numpy as np
import onnxruntime

import quarry

ROOM = 1024


class Ours:
    def __init__(self, path, threads, shape, kept):
        self.name = f"quarry, {kept}"
        options = {"state": "auto", "state.capacity": ROOM, "state.type": kept, "threads": threads}
        self.session = quarry.Session(path, options={**options, **({"shape": shape} if shape else {})})
        self.wanted = [info.name for info in self.session.inputs]

    def reset(self):
        self.session.state.reset()
        self.length = 0

    def run(self, tokens):
        given = values(tokens, self.length)
        logits = self.session.run({name: given[name] for name in self.wanted})[0]
        self.length += len(tokens)
        return int(logits[0, -1].argmax())


class Theirs:
    name = "ONNX Runtime"

    def __init__(self, path, threads, shape):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        inputs = self.session.get_inputs()
        self.wanted = [info.name for info in inputs if not info.name.startswith("past")]
        self.caches = [info for info in inputs if info.name.startswith("past")]
        self.in_place = "position_ids" not in self.wanted
        self.outputs = [info.name for info in self.session.get_outputs()]

    def reset(self):
        self.length = 0
        self.kept = {}
        for info in self.caches:
            dims = [1, info.shape[1], ROOM if self.in_place else 0, info.shape[3]]
            self.kept[info.name] = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(dims, np.float16 if "16" in info.type else np.float32))

    def run(self, tokens):
        given, binding = values(tokens, self.length), self.session.io_binding()
        for name in self.wanted:
            binding.bind_cpu_input(name, given[name])
        for name, value in self.kept.items():
            binding.bind_ortvalue_input(name, value)
            if self.in_place:
                binding.bind_ortvalue_output(name.replace("past_key_values", "present"), value)
        for name in self.outputs:
            if name == "logits" or not self.in_place:
                binding.bind_output(name, "cpu")
        self.session.run_with_iobinding(binding)
        made = dict(zip([name for name in self.outputs], binding.get_outputs())) if not self.in_place else None
        if made:
            self.kept = {name: made[name.replace("past_key_values", "present")] for name in self.kept}
            logits = made["logits"]
        else:
            logits = binding.get_outputs()[-1]
        self.length += len(tokens)
        return int(logits.numpy()[0, -1].argmax())


def values(tokens, past):
    return {"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, past + len(tokens)), np.int64), "position_ids": np.arange(past, past + len(tokens), dtype=np.int64)[None]}


def timed(work):
    begin = time.process_time()
    made = work()
    return made, (time.process_time() - begin) * 1e3


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+")
    parser.add_argument("--past", default="32,512")
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shape", default="")
    parser.add_argument("--types", default="model", help="what caches are kept in (option state.type), one row of the table each")
    flags = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| model | | quarry, ms | ONNX Runtime, ms | ratio |\n|---|---|---|---|---|")
    for path in flags.models:
        types = flags.types.split(",")
        engines = [*(Ours(path, flags.threads, flags.shape, kept) for kept in types), Theirs(path, flags.threads, flags.shape)]
        cases = [("prompt of 128", None)] + [(f"token behind {past}", int(past)) for past in flags.past.split(",")]
        for title, past in cases:
            prompt = [int(token) for token in rng.integers(0, 1000, 128 if past is None else past)]
            rounds = {engine.name: [] for engine in engines}
            picked = {}
            for number in range(flags.rounds + 1):  # the first is none of the figures
                for engine in engines if number % 2 else engines[::-1]:
                    engine.reset()
                    token, took = timed(lambda: engine.run(prompt))
                    tokens = [token]
                    if past is not None:
                        each = []
                        for _ in range(flags.tokens):
                            token, one = timed(lambda: engine.run([tokens[-1]]))
                            tokens.append(token), each.append(one)
                        took = statistics.mean(each)
                    picked[engine.name] = tokens
                    if number:
                        rounds[engine.name].append(took)
            theirs = rounds[Theirs.name]
            for kept in types:
                ours = rounds[f"quarry, {kept}"]
                texts = [f"{statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f})" for times in (ours, theirs)]
                same = "" if picked[f"quarry, {kept}"] == picked[Theirs.name] else ", other tokens"
                row = title + (f", caches {kept}" if len(types) > 1 else "")
                print(f"| {os.path.basename(path)} | {row}{same} | {texts[0]} | {texts[1]} | {statistics.median(ours) / statistics.median(theirs):.2f} |", flush=True)


if __name__ == "__main__":
    main()
