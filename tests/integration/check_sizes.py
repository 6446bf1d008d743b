#!/usr/bin/env python3
"""Sizes against tests/tidy/budgets.txt: a release build, and what an app takes of it for one instruction set: the cpu plugin alone, and with --programs bindings/c/hello.c
linked statically with the cpu backend and without ONNX, of a release build and of one for size. That program runs a container, too: what is small must work.

check_sizes.py BUILD_DIR SOURCE_ROOT WORK_DIR CONTAINER [--programs]   (BUILD_DIR: a release build with all instruction sets)

Builds in WORK_DIR-plugin, WORK_DIR-static (beside BUILD_DIR and with its options: ccache has most of them) and WORK_DIR-small.
"""
import glob
import os
import shutil
import subprocess
import sys

build, root, work, container = (os.path.abspath(a) for a in sys.argv[1:5])
ISA = "avx2"  # the one that most machines have


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}, expected 0\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def configured(folder, build_type, *options):
    if not os.path.exists(os.path.join(folder, "build.ninja")):
        run("meson", "setup", folder, root, "--buildtype=" + build_type, "-Dwerror=true", "-Dprepare=false", "-Dtests=false", f"-Dkernel_isas={ISA}", *options)
    return folder


shared = configured(f"{work}-plugin", "release")
run("ninja", "-C", shared, "backends/cpu/quarry-backend-cpu.so")


def hello(name, build_type, *options):
    """bindings/c/hello.c, linked with what such a build makes."""
    static = configured(f"{work}-{name}", build_type, *options, "-Ddebug=false", "-Ddefault_library=static", "-Dstatic_backends=cpu")
    run("ninja", "-C", static, "runtime/libquarry.a", "generate/libquarry-generate.a")
    destdir, program = f"{work}/installed-{name}", f"{work}/hello-{name}"
    shutil.rmtree(destdir, ignore_errors=True)
    run("meson", "install", "-C", static, "--no-rebuild", "--tags", "devel", "--destdir", destdir)
    environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(glob.glob(destdir + "/**/quarry.pc", recursive=True)[0]), PKG_CONFIG_SYSROOT_DIR=destdir)
    flags = run("pkg-config", "--static", "--cflags", "--libs", "quarry", env=environment).split()
    run("cc", "-std=c99", "-Os", f"{root}/bindings/c/hello.c", "-o", program, *flags, "-Wl,--gc-sections", "-Wl,-z,pack-relative-relocs")
    if ISA in open("/proc/cpuinfo", encoding="utf-8").read():
        told = run(program, container, "cpu")
        if "f32, 40 bytes" not in told:
            sys.exit(f"FAILED: {program} {container}: found {told!r}, expected ten numbers")
    return program


programs = [f"one-isa/hello={hello('static', 'release')}", f"one-isa/hello-for-size={hello('small', 'minsize', '-Db_lto=true')}"] if "--programs" in sys.argv else []
lacks = ["--lacks", "musl/*"] + ([] if programs else ["--lacks", "one-isa/hello*"])
also = [f"one-isa/quarry-backend-cpu.so={shared}/backends/cpu/quarry-backend-cpu.so", *programs]
print(run("tools/sizes.py", build, "--check", "--top", "12", *(word for file in also for word in ("--also", file)), *lacks, cwd=root), end="")
