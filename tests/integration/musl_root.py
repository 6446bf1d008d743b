# SPDX-License-Identifier: Apache-2.0
"""A file system with musl and CPython in it and nothing of glibc's: musl as Debian's next release has it, CPython 3.11 out of PyPI's freeze-core, whose programs hold it
linked with musl, its standard library from this machine, zlib from Debian's source."""
import glob
import os
import platform
import shutil
import subprocess
import sys
import sysconfig

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))

# CPython is in a program that runs what was frozen with it; this one calls its own main function in it.
LAUNCHER = """#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
  void *python = dlopen("libpython.so", RTLD_NOW | RTLD_GLOBAL);
  int (*run)(int, char **) = python ? (int (*)(int, char **))dlsym(python, "Py_BytesMain") : 0;
  return run ? run(argc, argv) : (fprintf(stderr, "%s\\n", dlerror()), 1);
}
"""
ZLIB = "adler32 crc32 deflate infback inffast inflate inftrees trees zutil compress uncompr gzclose gzlib gzread gzwrite".split()
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}


def must(*command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def pip(cross, *arguments):
    must(f"{cross}/../venv/bin/python", "-m", "pip", "--disable-pip-version-check", "-q", *arguments)


def for_musl(machine):
    """What pip takes as that machine's with musl and Python 3.11."""
    return ["--only-binary=:all:", "--platform", f"musllinux_1_2_{machine}", "--implementation", "cp", "--python-version", "3.11"]


def make(path, cross, machine):
    """At `path`, once; `cross`: the folder of tools/cross/zig/zig.sh."""
    if os.path.exists(f"{path}/usr/bin/python3"):
        return
    shutil.rmtree(path, ignore_errors=True)
    work = f"{path}.parts"
    shutil.rmtree(work, ignore_errors=True)
    for folder in (work, *(f"{path}/{name}" for name in ("lib", "usr/bin", "usr/lib", "proc", "dev", "tmp", "site"))):
        os.makedirs(folder)
    apt = f"{root}/tools/cross/private_apt.sh"
    must(apt, f"{cross}/../apt", "deb", "trixie", "download", f"musl:{DEBIAN[machine]}", cwd=work)
    must("dpkg", "-x", glob.glob(f"{work}/musl_*.deb")[0], f"{work}/musl")
    shutil.copy(os.path.realpath(f"{work}/musl/usr/lib/{machine}-linux-musl/libc.so"), f"{path}/lib/ld-musl-{machine}.so.1")
    must(apt, f"{cross}/../apt", "deb-src", "bookworm", "source", "--download-only", "zlib", cwd=work)
    os.makedirs(f"{work}/zlib")
    must("tar", "-xf", glob.glob(f"{work}/zlib_*.orig.tar.*")[0], "-C", f"{work}/zlib", "--strip-components=1")
    must(f"{cross}/bin/cc", "-O1", "-w", "-shared", "-fPIC", "-DHAVE_UNISTD_H", "-Wl,-soname,libz.so.1", *(f"{work}/zlib/{name}.c" for name in ZLIB), "-o", f"{path}/usr/lib/libz.so.1")
    pip(cross, "download", "--no-deps", "--require-hashes", "-r", f"{here}/musl_python.txt", "-d", work, *for_musl(machine))
    must("python3", "-m", "zipfile", "-e", glob.glob(f"{work}/freeze_core-*.whl")[0], f"{work}/frozen")
    for library in glob.glob(f"{work}/frozen/freeze_core.libs/*"):
        shutil.copy(library, f"{path}/usr/lib")
    shutil.copy(glob.glob(f"{work}/frozen/freeze_core/bases/console-cpython-311-*")[0], f"{path}/usr/lib/libpython.so")
    standard = f"{path}/usr/lib/python3.11"
    shutil.copytree(sysconfig.get_path("stdlib") if sys.version_info[:2] == (3, 11) else "/usr/lib/python3.11", standard, symlinks=True,
                    ignore=shutil.ignore_patterns("site-packages", "dist-packages", "lib-dynload", "test", "__pycache__", "sitecustomize.py"))
    shutil.copytree(f"{work}/frozen/freeze_core/lib", f"{standard}/lib-dynload")
    with open(f"{standard}/_sysconfigdata__linux_{machine}-linux-musl.py", "w", encoding="utf-8") as out:
        out.write(f"build_time_vars = {{'EXT_SUFFIX': '.cpython-311-{machine}-linux-musl.so', 'SOABI': 'cpython-311-{machine}-linux-musl'}}\n")
    with open(f"{work}/python.c", "w", encoding="utf-8") as out:
        out.write(LAUNCHER)
    must(f"{cross}/bin/cc", "-O1", "-dynamic", f"{work}/python.c", "-o", f"{path}/usr/bin/python3")
    shutil.rmtree(work)


def command(path, machine, *what):
    """What runs a program in it: as root of the file system on a machine of its own, else under qemu, which opens files there first."""
    if machine != platform.machine():
        return [f"qemu-{machine}", "-L", path, path + what[0], *what[1:]]
    mounted = 'mount -t proc proc "$1/proc" && mount --bind /dev "$1/dev" && exec chroot "$@"'
    return ["unshare", "--mount", "sh", "-c", mounted, "sh", path, *what]
