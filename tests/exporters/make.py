#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Has the exporters make the graphs of graphs/ anew (README.md: what they need).

make.py WORK [--into FOLDER] [optimum|torch|genai]-NAME...

WORK is a folder for what the exporters write, which stays. Without names: all that the installed packages can make.
"""
import argparse
import importlib
import importlib.metadata
import os
import shutil
import sys
import traceback

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
from graph_file import pack  # noqa: E402

EXPORTERS = {"optimum": ("by_optimum", ("optimum-onnx", "transformers", "torch")), "torch": ("by_torch", ("torch", "transformers", "onnxscript")), "genai": ("by_genai", ("onnxruntime-genai", "transformers", "onnxruntime"))}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("work")
parser.add_argument("--into", default=os.path.join(here, "graphs"))
parser.add_argument("names", nargs="*")
args = parser.parse_args()
os.makedirs(args.into, exist_ok=True)
failed = []
for exporter, (module, packages) in EXPORTERS.items():
    wanted = [name.partition("-")[2] for name in args.names if name.partition("-")[0] == exporter]
    if args.names and not wanted:
        continue
    by = importlib.import_module(module)
    made_by = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    for name in by.MODELS:
        if wanted and name not in wanted and "" not in wanted:
            continue
        folder = os.path.join(args.work, exporter, name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        try:
            for graph, path in by.export(name, folder):
                to = os.path.join(args.into, f"{exporter}-{graph}.onnx.xz")
                pack(path, to, made_by)
                print(f"made {exporter}-{graph}: {os.path.getsize(to)} bytes", flush=True)
        except Exception as error:  # the next one may go
            failed.append(f"{exporter}-{name}")
            with open(os.path.join(args.work, f"{exporter}-{name}.log"), "w", encoding="utf-8") as log:
                traceback.print_exc(file=log)
            print(f"not made: {exporter}-{name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
sys.exit(1 if failed else 0)
