#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes src/quarry/_abi.py, cffi's own form of quarry.cdef for ABI mode: it is read at import without a C parser.

make_abi.py [--check]      needs cffi; quarry.cdef is written by tools/generate_bindings.py
"""
import os
import sys
import tempfile

import cffi

here = os.path.dirname(os.path.abspath(__file__))
target = os.path.join(here, "src", "quarry", "_abi.py")
ffi = cffi.FFI()
ffi.set_source("quarry._abi", None)
ffi.cdef("".join(line for line in open(os.path.join(here, "quarry.cdef"), encoding="utf-8") if not line.startswith("//")))
with tempfile.TemporaryDirectory() as folder:
    made = os.path.join(folder, "_abi.py")
    ffi.emit_python_code(made)
    text = open(made, encoding="utf-8").read()
text = "# SPDX-License-Identifier: Apache-2.0\n# Written by bindings/python/make_abi.py, never by hand.\n" + text
if "--check" in sys.argv[1:]:
    if open(target, encoding="utf-8").read() != text:
        sys.exit("FAILED: src/quarry/_abi.py is not what quarry.cdef says: run bindings/python/make_abi.py")
else:
    open(target, "w", encoding="utf-8").write(text)
