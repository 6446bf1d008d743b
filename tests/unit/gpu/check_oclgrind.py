#!/usr/bin/env python3
"""Runs a program on Oclgrind's device, which finds races and accesses out of bounds in kernels, and wrong calls of OpenCL.

check_oclgrind.py LIBRARY PROGRAM [ARGUMENTS]: LIBRARY is liboclgrind-rt.so; what it reports fails the test. It does not look for uninitialised values: what
Oclgrind 21.10 says of them differs from run to run of the same program with the same data and one thread (OCLGRIND_NUM_THREADS=1, OCLGRIND_UNINITIALIZED=1:
373, 359, 387 and 345 reports of the kernels of "what moves elements"), for it decides by memory of its own that it never wrote. Valgrind (--track-origins=yes) on
the test program: "Conditional jump or move depends on uninitialised value(s)" in oclgrind::ShadowContext::isCleanValue, "created by a heap allocation" in
oclgrind::ShadowMemory::allocate, called of Uninitialized::kernelBegin. What malloc gives is what it then reports: without malloc's caches (GLIBC_TUNABLES=
glibc.malloc.tcache_count=0) and with glibc.malloc.perturb=255, which fills new memory with zeros, there are 48 reports of one kernel in every run, with perturb=1, 723.
"""
import os
import subprocess
import sys
import tempfile

library, program = sys.argv[1], sys.argv[2:]
with tempfile.TemporaryDirectory() as folder:
    log = os.path.join(folder, "log")
    environment = dict(os.environ, QUARRY_OPENCL_PATH=library, OCLGRIND_CHECK_API="1", OCLGRIND_DATA_RACES="1",
                       OCLGRIND_LOG=log, OCLGRIND_BUILD_OPTIONS="-cl-opt-disable", OCLGRIND_MAX_ERRORS="20")
    done = subprocess.run(program, env=environment)
    told = open(log, encoding="utf-8", errors="replace").read() if os.path.exists(log) else ""
print(told)
sys.exit(1 if done.returncode != 0 or told.strip() else 0)
