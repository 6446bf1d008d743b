#!/usr/bin/env python3
"""Runs a program on Oclgrind's device, which finds races, accesses out of bounds and values that nobody wrote in kernels, and wrong calls of OpenCL.

check_oclgrind.py LIBRARY LAYER PROGRAM: LIBRARY is liboclgrind-rt.so; what it reports fails the test. LAYER (tests/plugins/opencl) stands before it and
keeps two faults of Oclgrind 21.10 from reporting values that were written (src/plugins/Uninitialized.cpp): it notes what was written of a buffer under the buffer's
number, keeps that when the buffer is released, and gives the number to the next one; and it notes no more than the host wrote last, however large the buffer is. What lies
behind that is "uninitialised" whoever wrote it. So no buffer is released, and those that are written in part are written as a whole. Memory that malloc gives is filled
(glibc.malloc.perturb): Oclgrind decides by some that it never wrote, which would otherwise differ from run to run. Each test case has a process of its own: what Oclgrind
knows of values outlives programs, and after many of them it took written values for unwritten ones (the same kernels and buffers alone were clean). Its look for values that
nobody wrote ends the process at the first texel of an image that a kernel reads, and it takes what an atomic function finds for such a value where an ordinary read of the
same place is none; so the cases with "images" or "atomics" in their names run without it.
"""
import os
import re
import subprocess
import sys
import tempfile
import time

library, layer, program = sys.argv[1:4]
# What times kernels that other cases run is of no use on an interpreter, and took two thirds of the time.
TIMED = ("quickest", "that are measured")


def reports(case):
    """What Oclgrind reports of one case, and what failed."""
    more = {} if "images" in case or "atomics" in case else {"OCLGRIND_UNINITIALIZED": "1"}
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        environment = dict(os.environ, QUARRY_OPENCL_PATH=layer, CL_REAL=library, CL_SCRIPT="whole=1", OCLGRIND_CHECK_API="1", OCLGRIND_DATA_RACES="1", OCLGRIND_LOG=log,
                           OCLGRIND_BUILD_OPTIONS="-cl-opt-disable", OCLGRIND_MAX_ERRORS="20", GLIBC_TUNABLES="glibc.malloc.tcache_count=0:glibc.malloc.perturb=1", **more)
        # A comma divides filters of doctest's.
        done = subprocess.run([program, "--test-case=" + case.replace(",", "\\,")], env=environment, capture_output=True, text=True, errors="replace")
        told = open(log, encoding="utf-8", errors="replace").read() if os.path.exists(log) else ""
    ran = re.search(r"test cases:\s*(\d+) \|", done.stdout)
    if done.returncode != 0 or not ran or ran.group(1) != "1":
        told += f"\n{done.stdout}{done.stderr}\nexit status {done.returncode}, expected 0 and one case"
    return told.strip()


listed = subprocess.run([program, "--list-test-cases"], capture_output=True, text=True, check=True).stdout.splitlines()
cases = [line for line in listed if line and not line.startswith(("[", "=")) and not any(word in line for word in TIMED)]
if len(cases) < 20:
    sys.exit(f"FAILED: {program} --list-test-cases: found {len(cases)} cases, expected 20 or more")
failed = 0
for case in cases:
    begun = time.monotonic()
    told = reports(case)
    failed += bool(told)
    print(f"{'FAILED' if told else 'ok'}: {case} ({time.monotonic() - begun:.0f} s)" + (f"\n{told}" if told else ""), flush=True)
print(f"{len(cases) - failed} cases passed, {failed} failed")
sys.exit(1 if failed else 0)
