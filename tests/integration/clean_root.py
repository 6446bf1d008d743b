# SPDX-License-Identifier: Apache-2.0
"""A clean Debian in a folder, as somebody has it who has just installed it: a user, the checkout (files that git knows, as they are now), nothing else; and file systems over it."""
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time

HOME = "/home/user"
SUITE = "bookworm"  # the release that the pages speak of


def called(*command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    return done.returncode, done.stdout


def must(*command, **kwargs):
    status, said = called(*command, **kwargs)
    if status != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {status}\n{said[-3000:]}")
    return said


def mirror(suite):
    """Where this machine's apt has the release from."""
    listed = called("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)", "Identifier: Packages")[1]
    return next((row.split()[0] for row in listed.splitlines() if row.split()[1:] == [suite, "main"]), "http://deb.debian.org/debian")


def trusted(path):
    """What this machine trusts and whom it asks, for a network behind a proxy with a certificate of its own."""
    for name in ("resolv.conf", "hosts", "apt/apt.conf", "ssl/certs/ca-certificates.crt"):
        if os.path.exists(f"/etc/{name}"):
            os.makedirs(os.path.dirname(f"{path}/etc/{name}"), exist_ok=True)
            shutil.copy(f"/etc/{name}", f"{path}/etc/{name}")
    for name in os.listdir("/etc/apt/apt.conf.d"):
        if "prox" in name:
            shutil.copy(f"/etc/apt/apt.conf.d/{name}", f"{path}/etc/apt/apt.conf.d/")


def why_none(work, packages):
    """Why nothing can be tried in a clean root below the folder `work`, or no packages that were made on this machine; empty where it can."""
    release = platform.freedesktop_os_release()
    if packages and release.get("VERSION_CODENAME") != SUITE:
        return f"the packages were made on {release.get('PRETTY_NAME', 'something else')}, and the clean root is Debian's {SUITE}"
    if os.geteuid() != 0:
        return "a clean root is made by root alone"
    if not shutil.which("mmdebstrap"):
        return "mmdebstrap is not installed"
    parts = [f"{work}/try/{part}" for part in ("lower", "upper", "work", "root")]
    for part in parts:
        os.makedirs(part, exist_ok=True)
    status, said = called("mount", "-t", "overlay", "overlay", "-o", "lowerdir={},upperdir={},workdir={}".format(*parts), parts[3])
    called("umount", "-l", parts[3])
    shutil.rmtree(f"{work}/try", ignore_errors=True)
    return "" if status == 0 else f"nothing can be mounted over another file system here: {(said.strip() or '?').splitlines()[0]}"


def make_base(work, root, *included):
    """The root below all others, made once; the checkout in it is new each time. Gives why there is none, or nothing."""
    path = f"{work}/base"
    if os.path.exists(f"{path}{HOME}/quarry"):
        shutil.rmtree(f"{path}{HOME}/quarry")
    else:
        if not os.path.exists(f"{path}/etc/debian_version"):
            shutil.rmtree(path, ignore_errors=True)
            status, said = called("mmdebstrap", "--variant=apt", "--dpkgopt=force-unsafe-io", "--include=" + ",".join(["ca-certificates", *included]), SUITE, path, mirror(SUITE))
            if status != 0:
                shutil.rmtree(path, ignore_errors=True)
                return f"mmdebstrap cannot make a root here: {(said.strip() or '?').splitlines()[-1]}"
        must("chroot", path, "useradd", "-m", "-d", HOME, "user")
        with open(f"{path}/etc/apt/apt.conf.d/90yes", "w", encoding="utf-8") as file:
            file.write('APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "true";\n')
    trusted(path)
    os.makedirs(f"{path}{HOME}/quarry")
    must("sh", "-c", f"cd {shlex.quote(root)} && git ls-files -z | tar -c --null --ignore-failed-read -T - 2>/dev/null | tar -x -C {path}{HOME}/quarry && chown -R 1000:1000 {path}{HOME}")
    return ""


class Root:
    """A file system over others, in which a page is followed."""

    work = ""    # the folder of them all
    ccache = ""  # a compiler's cache of this machine, or none
    caches = ""  # a folder for what the user's programs keep in ~/.cache, which all roots share; or none
    as_root = None  # a pattern: the lines of a page that are for root

    def __init__(self, name, *below):
        self.name, self.folder = name, f"{self.work}/{name}"
        self.path, self.upper = f"{self.folder}/root", f"{self.folder}/upper"
        self.layers = [self.upper, *(below[0].layers if below else [f"{self.work}/base"])]
        self.mounts = []

    def __enter__(self):
        for part in (self.path, self.upper, f"{self.folder}/work"):
            os.makedirs(part, exist_ok=True)
        must("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={':'.join(self.layers[1:])},upperdir={self.upper},workdir={self.folder}/work", self.path)
        self.mounts = [self.path]
        self.mount("/dev", "--bind")
        self.mount("/proc", "-t", "proc")
        if self.ccache:
            self.mount(self.ccache, "--bind", to="/ccache")
        if self.caches:
            os.makedirs(self.caches, exist_ok=True)
            self.mount(self.caches, "--bind", to=f"{HOME}/.cache")
            self.owned(f"{HOME}/.cache")
        return self

    def mount(self, source, *how, to=""):
        place = self.path + (to or source)
        os.makedirs(place, exist_ok=True)
        must("mount", *how, source, place)
        self.mounts.insert(0, place)

    def __exit__(self, *_):
        for place in self.mounts:
            called("umount", "-l", place)

    def environment(self, path, user):
        own = {"PATH": f"{path}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME, "LANG": "C.UTF-8",
               **{k: v for k, v in os.environ.items() if k.endswith("_proxy") or k in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}}
        if self.ccache:
            own["PATH"] = own["PATH"].replace("/usr/bin", "/usr/lib/ccache:/usr/bin", 1)
            own |= {"CCACHE_DIR": "/ccache", "CCACHE_COMPILERCHECK": "content", "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "pch_defines,time_macros", "CC": "gcc", "CXX": "g++",
                    "TMPDIR": f"{HOME}/quarry" if user == "user" else "/tmp"}
        return own

    def run(self, line, path="", **environment):
        """A line of a page, by whom it asks for, in the checkout."""
        user = "root" if self.as_root.match(line) else "user"
        begin = time.time()
        # A shell of its own for each line, but for what a venv sets.
        inner = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"] if user == "user" else []
        status, said = called("chroot", self.path, *inner, "sh", "-c", f"cd {HOME}/quarry && umask 022 && {line}", env={**self.environment(path, user), **environment})
        print(f"   {self.name}: {line[:110]}  ({time.time() - begin:.0f} s)", flush=True)
        if status != 0:
            sys.exit(f"FAILED: {self.name}: {line}: exit status {status}\n{said[-4000:]}")
        return said

    def follow(self, lines, **kwargs):
        """What stays from line to line of a terminal is kept: a venv, a folder."""
        before, said = [], ""
        for line in filter(None, (text.split("     #")[0].strip() for text in lines.splitlines())):
            if line.startswith((". ", "cd ")):
                before.append(line)
            else:
                said = self.run(" && ".join([*([] if self.as_root.match(line) else before), line]), **kwargs)
        return said

    def write(self, name, text):
        place = f"{self.path}{HOME}/{name}"
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
        self.owned(os.path.dirname(f"{HOME}/{name}"))

    def owned(self, folder):
        must("chown", "-R", "1000:1000", self.path + folder)

    def reads(self, said, expected):
        if expected not in said:
            sys.exit(f"FAILED: {self.name} ends with {said[-500:]!r}, expected {expected!r}")
        print(f"{self.name}: {said.strip().splitlines()[-1]}", flush=True)
