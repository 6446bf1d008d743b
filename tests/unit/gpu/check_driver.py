#!/usr/bin/env python3
"""Runs a program on the OpenCL driver that QUARRY_TEST_OPENCL_DRIVER names, beside the machine's own: a folder with `vendors` (the driver's .icd file) and `lib` (its
libraries). Intel's for processors, which computes float16 and dot products of integers, makes such a folder of the wheels intel-opencl-rt, intel-cmplr-lib-rt and tbb: their
files lib*/*.so* and *.rtl go into lib, and a file vendors/intel.icd has the path of lib/libintelocl.so.

check_driver.py PROGRAM [ARGUMENTS]"""
import os
import subprocess
import sys

folder = os.environ.get("QUARRY_TEST_OPENCL_DRIVER")
if not folder:
    print("QUARRY_TEST_OPENCL_DRIVER names no other OpenCL driver: not run")
    sys.exit(77)
for part in ("vendors", "lib"):
    if not os.path.isdir(os.path.join(folder, part)):
        sys.exit(f"QUARRY_TEST_OPENCL_DRIVER: found no folder {part} in {folder}, expected vendors and lib")
libraries = [os.path.join(folder, "lib")] + [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
environment = dict(os.environ, OCL_ICD_VENDORS=os.path.join(folder, "vendors"), LD_LIBRARY_PATH=":".join(libraries))
sys.exit(subprocess.run(sys.argv[1:], env=environment).returncode)
