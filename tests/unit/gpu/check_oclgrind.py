#!/usr/bin/env python3
"""Runs a program on Oclgrind's device, which finds races, accesses out of bounds and values that nobody wrote in kernels, and wrong calls of OpenCL.

check_oclgrind.py LIBRARY LAYER PROGRAM [ARGUMENTS]: LIBRARY is liboclgrind-rt.so; what it reports fails the test. LAYER (tests/plugins/opencl) stands before it and
keeps two faults of Oclgrind 21.10 from telling of values that were written (src/plugins/Uninitialized.cpp): it notes what was written of a buffer under the buffer's
number, keeps that when the buffer is released, and gives the number to the next one; and it notes no more than the host wrote last, however large the buffer is. What lies
behind that is "uninitialised" whoever wrote it. So no buffer is released, and those that are written in part are written as a whole. Memory that malloc gives is filled
(glibc.malloc.perturb): Oclgrind decides by some that it never wrote, which would otherwise differ from run to run. Its look for values that nobody wrote ends the process at the first texel of an image that a kernel
reads, and it takes what an atomic function finds for such a value where an ordinary read of the same place is none; so the cases with "images" or "atomics" in their names run
without it, after all others.
"""
import os
import subprocess
import sys
import tempfile

library, layer, program = sys.argv[1], sys.argv[2], sys.argv[3:]


def check(cases, more):
    """(It ended well, what Oclgrind reported) of some of the cases."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        environment = dict(os.environ, QUARRY_OPENCL_PATH=layer, CL_REAL=library, CL_SCRIPT="whole=1", OCLGRIND_CHECK_API="1", OCLGRIND_DATA_RACES="1", OCLGRIND_LOG=log,
                           OCLGRIND_BUILD_OPTIONS="-cl-opt-disable", OCLGRIND_MAX_ERRORS="20", GLIBC_TUNABLES="glibc.malloc.tcache_count=0:glibc.malloc.perturb=1", **more)
        done = subprocess.run([*program, *cases], env=environment)
        told = open(log, encoding="utf-8", errors="replace").read() if os.path.exists(log) else ""
    print(told)
    return done.returncode == 0 and not told.strip()


# What times kernels that other cases run is of no use on an interpreter, and took two thirds of the time.
TIMED = "*quickest*,*that are measured*"
buffers = check(["--test-case-exclude=*images*,*atomics*," + TIMED], {"OCLGRIND_UNINITIALIZED": "1"})
sys.exit(0 if check(["--test-case=*images*,*atomics*", "--test-case-exclude=" + TIMED], {}) and buffers else 1)
