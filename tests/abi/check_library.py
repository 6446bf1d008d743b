#!/usr/bin/env python3
"""What libquarry.so exports, needs and weighs.

check_library.py LIBRARY INCLUDE_DIR NM STRIP READELF SIZE_LIMIT_KB ('0': no limit, for sanitizer builds)
"""
import os
import re
import subprocess
import sys
import tempfile

library, include, nm, strip, readelf, limit_kb = sys.argv[1:7]
problems = []


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


exported = {line.split()[-1].split("@")[0] for line in output(nm, "-D", "--defined-only", library).splitlines() if line.split()[1] not in "Aa"}
declared = set()
# Libraries beside libquarry, each with a header of its own.
beside = {"quantize.h", "generate.h", "tokenizer.h", "replay.h"}
seams = {"quarry_record_begin"}  # of libquarry-replay to the htp backend: internal to a release
part = next((header[:-2] for header in beside if header[:-2] in os.path.basename(library)), "")
for header in os.listdir(os.path.join(include, "quarry")):
    if header.endswith(".h") and header != "backend.h" and (header == part + ".h" if part else header not in beside):
        declared |= set(re.findall(r"^QR_API[^;(]*?\b\*?(qr_[a-z0-9_]+)\(", open(os.path.join(include, "quarry", header)).read(), re.M))
for name in sorted(exported - declared - (seams if part == "replay" else set())):
    problems.append(f"exported but not declared in a public header: {name}")
for name in sorted(declared - exported):
    problems.append(f"declared in a public header but not exported: {name}")
needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output(readelf, "-d", library))
for name in needed:
    if part != "quantize" and ("proto" in name or "onnx" in name) or "OpenCL" in name:
        problems.append(f"needs {name}")
soname = re.findall(r"\(SONAME\).*\[(.*)\]", output(readelf, "-d", library))
major = re.search(r"#define QR_ABI_MAJOR (\d+)", open(os.path.join(include, "quarry", "version.h")).read()).group(1)
expected = f"libquarry{'-' + part if part else ''}.so.{major}"
if soname != [expected]:
    problems.append(f"soname is {soname}, expected {expected} (QR_ABI_MAJOR)")
if int(limit_kb):
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "stripped.so")
        subprocess.run([strip, "-o", stripped, library], check=True)
        size = os.path.getsize(stripped)
    print(f"{len(exported)} exports; needs {' '.join(needed)}; stripped {size / 1000:.0f} kB")
    if size >= int(limit_kb) * 1000:
        problems.append(f"stripped it has {size} bytes, allowed are {limit_kb} kB")
for problem in problems:
    print(f"FAILED {os.path.basename(library)}: {problem}")
sys.exit(1 if problems else 0)
