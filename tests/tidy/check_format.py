#!/usr/bin/env python3
"""Holds every source file to .clang-format. Tables (*.inc) are laid out by hand.

check_format.py SOURCE_ROOT
"""
import re
import shutil
import subprocess
import sys

WANTED = "14"  # Debian 12's; another version lays code out in other ways

root = sys.argv[1]
tool = shutil.which(f"clang-format-{WANTED}") or shutil.which("clang-format")
if not tool:
    print("skipped: clang-format is not installed (apt-get install clang-format)")
    sys.exit(77)
version = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout
if not re.search(rf"\bversion {WANTED}\.", version):
    print(f"skipped: found {version.strip()}, expected version {WANTED}")
    sys.exit(77)
try:
    listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.c", "*.cpp", "*.h", "*.hpp"],
                            check=True, capture_output=True, text=True).stdout.splitlines()
except (OSError, subprocess.CalledProcessError):
    print("skipped: not a git checkout, which knows what is a source file")
    sys.exit(77)
listed = [f for f in listed if not f.startswith("tests/golden/")]
found = subprocess.run([tool, "--dry-run", "-Werror", "--ferror-limit=1", *listed], cwd=root, capture_output=True, text=True)
files = sorted({line.split(":")[0] for line in found.stderr.splitlines() if ": error: " in line})
for name in files:
    print(f"FAILED {name}: run clang-format -i {name}")
print(f"{len(listed)} files, {len(files)} problems")
sys.exit(1 if found.returncode else 0)
