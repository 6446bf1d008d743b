#!/usr/bin/env python3
"""A static tree as an embedder has it: installed, linked into bindings/c/hello.c and bindings/cpp/digits.cpp by `pkg-config --static`, and run on
an ONNX model and on a container. The programs need no library of Quarry's at run time, and cannot open any.

check_static.py BUILD_DIR SOURCE_ROOT CONTAINER [FOLDER_OF_QNN]   (BUILD_DIR: configured with -Ddefault_library=static
-Dstatic_backends=cpu,cpu-reference,gpu,htp, all libraries built; FOLDER_OF_QNN: of Qualcomm's libraries, which htp opens where it runs)
"""
import glob
import os
import re
import shutil
import subprocess
import sys

import consumers

build, root, container = (os.path.abspath(a) for a in sys.argv[1:4])
qnn = sys.argv[4] if len(sys.argv) > 4 else None
destdir = os.path.join(build, "installed")
environment = dict(os.environ)
environment.pop("QUARRY_BACKEND_PATH", None)
environment.pop("LD_LIBRARY_PATH", None)


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != status:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
    return (done.stdout if status == 0 else done.stderr).strip()


shutil.rmtree(destdir, ignore_errors=True)
run("meson", "install", "-C", build, "--no-rebuild", "--tags", "devel", "--destdir", destdir)
pc = sorted(glob.glob(destdir + "/**/*.pc", recursive=True))
if [os.path.basename(p) for p in pc] != ["quarry-generate.pc", "quarry-prepare.pc", "quarry-quantize.pc", "quarry.pc"]:
    sys.exit(f"FAILED: installed {pc}, expected quarry-generate.pc, quarry-prepare.pc, quarry-quantize.pc and quarry.pc")
libraries = {os.path.basename(p) for p in glob.glob(destdir + "/**/lib*", recursive=True) if os.path.isfile(p)}
if libraries != {"libquarry.a", "libquarry-prepare.a", "libquarry-quantize.a", "libquarry-generate.a"}:
    sys.exit(f"FAILED: installed {sorted(libraries)}, expected libquarry.a, libquarry-prepare.a, libquarry-quantize.a and libquarry-generate.a")
# The system root is for the tree under DESTDIR alone, so protobuf's own folders are not asked for again.
environment.update(PKG_CONFIG_PATH=os.path.dirname(pc[0]), PKG_CONFIG_SYSROOT_DIR=destdir)
flags = run("pkg-config", "--static", "--cflags", "--libs", "quarry").split()
print("   pkg-config --static --libs quarry:", " ".join(f for f in flags if f.startswith("-l")))
hello, digits, quantize, generate = (f"{destdir}/{name}" for name in ("hello", "digits", "quantize", "generate"))
run("cc", "-std=c99", f"{root}/bindings/c/hello.c", "-o", hello, *flags)
run("c++", "-std=c++17", f"{root}/bindings/cpp/digits.cpp", "-o", digits, *flags)
run("c++", "-std=c++17", f"{consumers.HERE}/consumer/quantize.cpp", "-o", quantize, *run("pkg-config", "--static", "--cflags", "--libs", "quarry-quantize").split())
run("c++", "-std=c++17", f"{consumers.HERE}/consumer/generate.cpp", "-o", generate, *run("pkg-config", "--static", "--cflags", "--libs", "quarry-generate").split())
print("  ", run(quantize, f"{root}/models/digits", f"{destdir}/digits.qdq.onnx"))
print("  ", run(generate, f"{root}/models/digits/digits.onnx"))
for arguments in ((f"{root}/models/digits/digits.onnx", "cpu-reference"), (f"{root}/models/digits/digits.onnx", "cpu"), (container,)):
    print("  ", run(hello, *arguments))
print("  ", run(digits, f"{root}/models/digits", f"{root}/models/digits/digits.onnx", container).splitlines()[-1])
if consumers.check_cmake(destdir, f"{destdir}/cmake", root, ["prepare", "quantize", "generate", "backend-cpu", "backend-htp"], container):
    hello, digits, quantize, generate = (f"{destdir}/cmake/{name}" for name in ("hello", "digits", "quantize", "generate"))
for program in (hello, digits, quantize, generate):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", program))
    if any("quarry" in name for name in needed):
        sys.exit(f"FAILED: {program} needs {needed}, expected no library of Quarry's")
# htp opens Qualcomm's libraries and gpu that of OpenCL; without them nothing is opened.
undefined = [(line.split(":")[1], line.split(" U ")[1]) for line in
             run("nm", "-AC", "--undefined-only", next(p for p in glob.glob(destdir + "/**/libquarry.a", recursive=True))).splitlines() if " U " in line]
opened_by = {name for name, symbol in undefined if symbol == "dlopen"}
if opened_by != {"linux_library.cpp.o"}:
    sys.exit(f"FAILED: {sorted(opened_by)} refer to dlopen, expected base/os alone")
openers = {name for name, symbol in undefined if symbol.startswith("quarry::os::open_library(")}
# By file, or by the eight that are compiled together: htp's two, gpu's one.
own = {backend: [name for name in openers if name.startswith(f"meson-generated_quarry-{backend}-") or name.startswith(files)]
       for backend, files in (("htp", ("qnn_library", "run_shared_memory")), ("gpu", ("opencl_library",)))}
if not own["htp"] or len(own["htp"]) > 2 or len(own["gpu"]) != 1 or sum(map(len, own.values())) != len(openers):
    sys.exit(f"FAILED: {sorted(openers)} open libraries, expected htp's and gpu's own alone")
environment["QUARRY_QNN_PATH"] = os.path.join(build, "nowhere")
missing = run(hello, f"{root}/models/digits/digits.onnx", "htp", status=1)
if not all(part in missing for part in ("QR-B0006", "libQnnHtp.so", "tools/get_qnn.sh")):
    sys.exit(f"FAILED: htp without the libraries: {missing}")
environment["QUARRY_OPENCL_PATH"] = os.path.join(build, "nowhere")
missing = run(hello, f"{root}/models/digits/digits.onnx", "gpu", status=1)
if not all(part in missing for part in ("QR-B0006", "nowhere", "ocl-icd-libopencl1")):
    sys.exit(f"FAILED: gpu without the library: {missing}")
del environment["QUARRY_OPENCL_PATH"]
if glob.glob("/etc/OpenCL/vendors/*.icd"):
    print("   gpu:", run(hello, f"{root}/models/digits/digits.onnx", "gpu"))
else:
    print("   gpu: no OpenCL driver here: not run")
if qnn:
    environment["QUARRY_QNN_PATH"] = qnn
    numbers = [[float(n) for n in run(hello, *arguments).splitlines()[-1].split(":")[-1].split()]
               for arguments in ((container,), (f"{root}/models/digits/digits.onnx", "htp"), (os.path.splitext(container)[0] + "-htp.qrm", "htp"))]
    if len(numbers[0]) != 10 or any(max(abs(a - b) for a, b in zip(numbers[0], other)) > 0.03 or len(other) != 10 for other in numbers[1:]):
        sys.exit(f"FAILED: cpu and htp, from ONNX and from a container: {numbers}")
    print("   htp, from ONNX and from a container:", *(n[:3] for n in numbers[1:]))
