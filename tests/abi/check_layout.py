#!/usr/bin/env python3
"""The layout program's output equals layout.txt. A difference is an ABI change: see COMPATIBILITY.md before touching the file.

check_layout.py PROGRAM EXPECTED
"""
import difflib
import subprocess
import sys

found = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines()
expected = open(sys.argv[2]).read().splitlines()
changes = list(difflib.unified_diff(expected, found, "layout.txt", "this build", lineterm="", n=0))
print("\n".join(changes) if changes else f"{len(found)} sizes and offsets as before")
sys.exit(1 if changes else 0)
