#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""record.py on changed copies of the headers: additions pass with a new record, everything else is refused until docs/abi-changes.md names it.

test_record.py CC INCLUDE_DIR ABI_TXT ABI_CHANGES_MD
"""
import os
import shutil
import subprocess
import sys
import tempfile

compiler, include, record, changes = sys.argv[1:5]
script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "record.py")
failed = 0


class Copy:
    def __init__(self, folder):
        self.include, self.record, self.changes = (os.path.join(folder, name) for name in ("include", "abi.txt", "abi-changes.md"))
        shutil.copytree(include, self.include)
        shutil.copy(record, self.record)
        shutil.copy(changes, self.changes)

    def edit(self, header, old, new):
        path = os.path.join(self.include, "quarry", header)
        text = open(path).read()
        assert old in text, f"{header} has no {old!r} any more: change this test with it"
        open(path, "w").write(text.replace(old, new, 1))

    def run(self, command):
        result = subprocess.run([sys.executable, script, command, compiler, self.include, self.record, self.changes], capture_output=True, text=True)
        return result.returncode == 0, result.stdout + result.stderr


def expect(name, good, said):
    global failed
    if not good:
        failed += 1
        print(f"FAILED {name}: {said}")


MAP = "  qr_plugin_code (*map)("
BREAKS = [  # header, old, new, what the refusal names
    ("options.h", "  qr_string scope; ", "  qr_string range; ", "qr_option_info.scope"),
    ("options.h", "  uint64_t applies; ", "  int64_t applies; ", "qr_option_info.applies"),
    ("options.h", "  qr_string help; ", "  uint64_t more; qr_string help; ", "qr_option_info.more"),
    ("types.h", "#define QR_BUSY 14", "#define QR_BUSY 16", "QR_BUSY"),
    ("types.h", "#define QR_DTYPE_I2 26\n", "", "QR_DTYPE_I2"),
    ("profile.h", "} qr_profile_counter;", "  uint64_t hash;\n} qr_profile_counter;", "qr_profile_counter.hash"),
    ("types.h", "typedef int32_t qr_dtype", "typedef uint32_t qr_dtype", "qr_dtype"),
    ("status.h", "QR_API const char *qr_status_hint(const qr_status *status);", "", "qr_status_hint"),
    ("signal.h", "void qr_signal_set_timeout(qr_signal *signal, uint64_t", "void qr_signal_set_timeout(qr_signal *signal, int64_t", "qr_signal_set_timeout"),
    ("backend.h", MAP, "  qr_plugin_code (*lock)(qr_backend *backend);\n" + MAP, "qr_plugin_memory_api.map"),
    ("backend.h", "int32_t is_output, uint64_t index,", "uint32_t is_output, uint64_t index,", "qr_plugin_context_api.tensor"),
    ("backend.h", '#define QR_PLUGIN_NOTE_NAME "Quarry"', '#define QR_PLUGIN_NOTE_NAME "quarry"', "QR_PLUGIN_NOTE_NAME"),
    ("backend.h", "#define QR_PLUGIN_ABI_MINOR 2u", "#define QR_PLUGIN_ABI_MINOR 1u", "QR_PLUGIN_ABI_MINOR"),
]
with tempfile.TemporaryDirectory() as folder:
    copy = Copy(folder)
    for header, old, new, symbol in BREAKS:
        copy.edit(header, old, new)
    for command in ("check", "update"):
        passed, said = copy.run(command)
        refusals = [line for line in said.splitlines() if "not an addition" in line]
        for header, old, new, symbol in BREAKS:
            expect(f"{command} after {new!r}", not passed and any(f" {symbol}: " in line for line in refusals), said)

with tempfile.TemporaryDirectory() as folder:
    copy = Copy(folder)
    header, old, new, symbol = BREAKS[0]
    copy.edit(header, old, new)
    with open(copy.changes, "a") as out:
        out.write(f"- `{symbol.split('.')[0]}`: for a test.\n")
    passed, said = copy.run("check")
    expect("reported, but not recorded", not passed and "abi-record" in said, said)
    passed, said = copy.run("update")
    expect("told", passed, said)
    passed, said = copy.run("check")
    expect("reported and recorded", passed, said)
    copy.edit(header, new, old)  # back again is a break too, and the line is used up
    passed, said = copy.run("update")
    expect("reported once, broken twice", not passed, said)

ADDITIONS = [
    ("options.h", "} qr_option_info;", "  uint64_t later;\n} qr_option_info;"),
    ("backend.h", "} qr_plugin_memory_api;", "  void (*later)(qr_backend *backend);\n} qr_plugin_memory_api;"),
    ("backend.h", "#define QR_PLUGIN_ABI_MINOR 2u", "#define QR_PLUGIN_ABI_MINOR 3u"),
    ("types.h", "#define QR_BUSY 14", "#define QR_LATER 16\n#define QR_BUSY 14"),
    ("status.h", "QR_API void qr_status_destroy", "QR_API void qr_status_later(qr_status *status);\nQR_API void qr_status_destroy"),
]
with tempfile.TemporaryDirectory() as folder:
    copy = Copy(folder)
    for header, old, new in ADDITIONS:
        copy.edit(header, old, new)
    passed, said = copy.run("check")
    expect("not recorded", not passed and "behind by 7 additions" in said and "not an addition" not in said, said)
    passed, said = copy.run("update")
    expect("recorded", passed, said)
    passed, said = copy.run("check")
    expect("checked", passed, said)

with tempfile.TemporaryDirectory() as folder:
    copy = Copy(folder)
    passed, said = copy.run("check")
    expect("as recorded", passed, said)
    copy.edit("signal.h", "uint64_t timeout_ns);", "uint64_t nanoseconds);")
    passed, said = copy.run("check")
    expect("the name of a parameter is no part of the interface", passed, said)
    # No line allows a struct that is smaller than its first release, or one without a first size.
    copy.edit("options.h", "  uint64_t applies; ", "  ")
    copy.edit("call.h", "#define QR_PROGRESS_FIRST_SIZE 24u", "")
    with open(copy.changes, "a") as out:
        out.write("- `qr_option_info`, `QR_PROGRESS_FIRST_SIZE`: for a test.\n")
    passed, said = copy.run("update")
    expect("smaller than its first size", not passed and "qr_option_info: found 88 bytes, expected at least its first size, 96" in said, said)
    expect("no first size", "qr_progress: found no QR_PROGRESS_FIRST_SIZE" in said, said)

print(f"{len(BREAKS)} breaks, {len(ADDITIONS)} additions: {failed} failed")
sys.exit(1 if failed else 0)
