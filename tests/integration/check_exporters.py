#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs that real exporters wrote (tests/exporters), beside ONNX Runtime: prompts, tokens behind them, several rows, state that a session keeps, containers.

check_exporters.py BUILD SHARED [NAME...], run by a Python that has numpy, onnx, onnxruntime and cffi.
"""
import glob
import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
for folder in ("support", "exporters"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", folder))
from feeds import Feeds, after, comes_of_encoder, kept_by, tolerance_of  # noqa: E402
from graph_file import save, unpack  # noqa: E402
from ort_session import make_session  # noqa: E402
from program import build, finish, new_folder, require, root  # noqa: E402

os.environ["QUARRY_LIBRARY"] = os.path.join(build, "runtime", "libquarry.so.0")
sys.path.insert(0, os.path.join(root, "bindings", "python", "src"))
import quarry  # noqa: E402

BACKENDS = os.environ.get("QUARRY_EXPORTERS_ON", "cpu,cpu-reference").split(",")


def differ(found, right):
    """The greatest difference as a part of the greatest value; a text where they are not alike."""
    if found.shape != right.shape:
        return f"found {found.shape}, expected {right.shape}"
    if right.dtype.kind != "f":
        return 0.0 if (found == right).all() else "other numbers"
    if right.size == 0:
        return 0.0
    wide = right.astype(np.float64)
    same = (found == right) | (np.isnan(found) & np.isnan(right))
    return float((np.abs(found.astype(np.float64) - wide) * ~same).max() / max(1e-6, np.abs(wide[np.isfinite(wide)]).max(initial=0)))


def compare(name, found, right, tolerance):
    for output, expected in right.items():
        apart = differ(np.asarray(found[output]), expected)
        require(f"{name}: {output}", not isinstance(apart, str) and apart <= tolerance, apart if isinstance(apart, str) else f"differs by {apart:.2e}, expected at most {tolerance:.0e}")


def run_of(session, given):
    return dict(zip((output.name for output in session.outputs), session.run(given)))


class Graph:
    def __init__(self, file):
        self.name = os.path.basename(file)[:-len(".onnx.xz")]
        self.folder = new_folder()
        self.path = os.path.join(self.folder, "model.onnx")
        model = unpack(file)
        self.tolerance = tolerance_of(model)
        save(model, self.path, external=self.name.startswith(("genai", "torch")))
        self.model = model

    def right(self, feed):
        return dict(zip(self.outputs, self.session.run(None, feed)))

    def conversation(self, rows):
        """Runs one after the other, each with the cache that the one before left: what is given, and what is right."""
        cache, told = None, []
        for feed in self.feeds.pieces(rows):
            given = self.feeds.with_cache(feed, cache, rows)
            right = self.right(given)
            cache = kept_by(given, right)
            told.append((given, right))
        return told

    def check(self):
        try:
            self.session = make_session(self.path, optimised=False)
            self.feeds = Feeds(self.session, self.model)
            self.outputs = [output.name for output in self.session.get_outputs()]
            told = {rows: self.conversation(rows) for rows in self.feeds.batches}
        except Exception as error:  # ONNX Runtime's own kinds of errors have no common name
            require(f"{self.name}: ONNX Runtime runs it", False, str(error)[-200:])
            return
        for backend in BACKENDS:
            self.check_on(backend, told)

    def check_on(self, backend, told):
        session = quarry.Session(quarry.Model(self.path), backend=backend)
        for rows, pieces in told.items():
            for index, (given, right) in enumerate(pieces):
                compare(f"{self.name} on {backend}, {rows} rows, run {index}", run_of(session, given), right, self.tolerance)
        container = os.path.join(self.folder, f"{backend}.qrm")
        state = self.state()
        quarry.Model(self.path).compile(container, backend=backend, **state)
        if not state:
            session = quarry.Session(quarry.Model(container), backend=backend)
            given, right = told[self.feeds.batches[-1]][0]
            compare(f"{self.name} on {backend}, container", run_of(session, given), right, self.tolerance)
            return
        for source in (self.path, container):
            session = quarry.Session(quarry.Model(source), backend=backend, **state)
            wanted = {one.name for one in session.inputs}
            left = [name for name in self.feeds.caches if name in wanted and not comes_of_encoder(name)]
            require(f"{self.name} on {backend}: all caches are state", not left, left)
            for rows, pieces in told.items():
                session.state.reset()
                for index, (given, right) in enumerate(pieces):
                    found = run_of(session, {name: value for name, value in given.items() if name in wanted})
                    compare(f"{self.name} on {backend}, state of {os.path.basename(source)}, {rows} rows, run {index}", found, {name: right[name] for name in found}, self.tolerance)

    def refusal(self, backend):
        try:
            quarry.Session(quarry.Model(self.path), backend=backend)
        except quarry.Error as error:
            return f"{error} {getattr(error, 'hint', '')}"
        return "nothing was refused"

    def state(self):
        """The option: all pairs that go by their names; of the merged decoder those of the decoder, as what is of the encoder comes of the first run alone."""
        if not self.feeds.caches:
            return {}
        if not self.feeds.has_branch:
            return {"state": "auto"}
        return {"state": ",".join(f"{name}:{after(name, self.outputs)}" for name in self.feeds.caches if not comes_of_encoder(name))}


# What is refused, and by which word.
REFUSED = {"genai-gemma2_windowed": "sliding_window_cache"}
began = time.time()
for file in sorted(glob.glob(os.path.join(root, "tests", "exporters", "graphs", "*.onnx.xz"))):
    graph_name = os.path.basename(file)[:-len(".onnx.xz")]
    if len(sys.argv) > 3 and not any(word in graph_name for word in sys.argv[3:]):
        continue
    try:
        graph = Graph(file)
        if graph_name in REFUSED:
            for backend in BACKENDS:
                found = graph.refusal(backend)
                require(f"{graph_name} on {backend}: refused", REFUSED[graph_name] in found, found)
        else:
            graph.check()
    except quarry.Error as error:
        require(graph_name, False, f"{error.id}: {str(error)[:600]}")
print(f"   {time.time() - began:.0f} s")
finish()
