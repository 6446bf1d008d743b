#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages that say how to get Quarry, followed word by word by somebody who has nothing: each in a clean root of this Debian, with the last commit as the
checkout, the commands and files as the page has them. Each ends with a program that reads a digit. By hand, as root: all pages take a release build each (--ccache DIR
makes that one build). Rust and Go come from this machine, as the pages send their readers to a site for them.

check_pages.py WORK [--ccache DIR] [PAGE...]      WORK: a folder for the roots; PAGE: c cpp cmake meson pkg-config deb python rust go (all)
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import time

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
arguments = sys.argv[1:]
ccache = arguments.pop(arguments.index("--ccache") + 1) if "--ccache" in arguments else ""
arguments = [a for a in arguments if a != "--ccache"]
work, wanted = os.path.abspath(arguments[0]), arguments[1:]
HOME, DIGIT = "/home/user", "the first digit is a 9"
AS_ROOT = re.compile(r"(apt-get|ldconfig|meson install)\b")


def read(*parts):
    with open(os.path.join(root, *parts), encoding="utf-8") as file:
        return file.read()


def block(page, language, number=0):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)[number]


def called(*command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    return done.returncode, done.stdout


def must(*command, **kwargs):
    status, said = called(*command, **kwargs)
    if status != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {status}\n{said[-3000:]}")


class Root:
    """A file system over others, in which a page is followed."""

    def __init__(self, name, *below):
        self.name, self.folder = name, f"{work}/{name}"
        self.path, self.upper = f"{self.folder}/root", f"{self.folder}/upper"
        self.layers = [self.upper, *(below[0].layers if below else [f"{work}/base"])]

    def __enter__(self):
        for part in (self.path, self.upper, f"{self.folder}/work"):
            os.makedirs(part, exist_ok=True)
        must("mount", "-t", "overlay", "overlay", "-o", f"lowerdir={':'.join(self.layers[1:])},upperdir={self.upper},workdir={self.folder}/work", self.path)
        self.mounts = [self.path]
        self.mount("/dev", "--bind")
        self.mount("/proc", "-t", "proc")
        return self

    def mount(self, source, *how, to=""):
        place = self.path + (to or source)
        os.makedirs(place, exist_ok=True)
        must("mount", *how, source, place)
        self.mounts.insert(0, place)

    def __exit__(self, *_):
        for place in self.mounts:
            called("umount", "-l", place)

    def run(self, line, path="", **environment):
        """A line of a page, by whom it asks for, in the checkout."""
        user = "root" if AS_ROOT.match(line) else "user"
        own = {"PATH": f"{path}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": HOME, "LANG": "C.UTF-8", **environment,
               **{k: v for k, v in os.environ.items() if k.endswith("_proxy") or k in ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}}
        if ccache:
            own["PATH"] = own["PATH"].replace("/usr/bin", "/usr/lib/ccache:/usr/bin", 1)
            own |= {"CCACHE_DIR": "/ccache", "CCACHE_COMPILERCHECK": "content", "CCACHE_NOHASHDIR": "1", "CCACHE_SLOPPINESS": "pch_defines,time_macros", "CC": "gcc", "CXX": "g++", "TMPDIR": f"{HOME}/quarry"}
            own["TMPDIR"] = own["TMPDIR"] if user == "user" else "/tmp"
        script = f"cd {HOME}/quarry && umask 022 && {line}"
        begin = time.time()
        # A shell of its own for each line, but for what a venv sets.
        inner = ["setpriv", "--reuid=1000", "--regid=1000", "--clear-groups"] if user == "user" else []
        status, said = called("chroot", self.path, *inner, "sh", "-c", script, env=own)
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
                said = self.run(" && ".join([*([] if AS_ROOT.match(line) else before), line]), **kwargs)
        return said

    def write(self, name, text):
        place = f"{self.path}{HOME}/{name}"
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
        must("chown", "-R", "1000:1000", os.path.dirname(place))

    def reads(self, said, expected=DIGIT):
        if expected not in said:
            sys.exit(f"FAILED: {self.name} ends with {said[-500:]!r}, expected {expected!r}")
        print(f"{self.name}: {said.strip().splitlines()[-1]}", flush=True)


def base():
    """A clean root, with a user and the checkout; nothing else."""
    path = f"{work}/base"
    if os.path.exists(f"{path}{HOME}/quarry"):
        shutil.rmtree(f"{path}{HOME}/quarry")
    else:
        if not os.path.exists(f"{path}/etc/debian_version"):
            must("mmdebstrap", "--variant=apt", "--include=ca-certificates" + (",ccache" if ccache else ""), "bookworm", path, "http://deb.debian.org/debian")
        must("chroot", path, "useradd", "-m", "-d", HOME, "user")
        with open(f"{path}/etc/apt/apt.conf.d/90yes", "w", encoding="utf-8") as file:
            file.write('APT::Get::Assume-Yes "true";\nAPT::Install-Recommends "true";\n')
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", f"{path}/etc/{name}")
    # What this machine trusts, for a network behind a proxy with a certificate of its own.
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", f"{path}/etc/ssl/certs/ca-certificates.crt")
    os.makedirs(f"{path}{HOME}/quarry")
    must("sh", "-c", f"git -C {shlex.quote(root)} archive HEAD | tar -x -C {path}{HOME}/quarry && chown -R 1000:1000 {path}{HOME}")


PACKAGES = read("docs", "packages.md")
INSTALL = block(PACKAGES, "sh")
CHECK = f"{HOME}/quarry/models/digits/digits.onnx {HOME}/quarry/models/digits/test_images.npy"
installed = Root("installed")


def after_install(name, page):
    """The root of a page that begins with a build as docs/packages.md has it: that is done once."""
    head = block(page, "sh")
    if not head.startswith(INSTALL):
        sys.exit(f"FAILED: {name} does not begin with the build of docs/packages.md: {head!r}")
    return Root(name, installed), head[len(INSTALL):]


def packages(name, *files):
    here = Root(name, installed)
    with here:
        for file, language in (("main.c", "c"), *files):
            here.write(f"app/{file}", block(PACKAGES, language))
        if name == "cmake":
            here.run(re.search(r"`(apt-get install cmake)`", PACKAGES)[1])
            here.reads(here.run(f"cd {HOME}/app && cmake -B out && cmake --build out && out/main {CHECK}"))
        elif name == "meson":
            here.reads(here.run(f"cd {HOME}/app && meson setup out && ninja -C out && out/main {CHECK}"))
        else:
            line = block(PACKAGES, "sh", 1).splitlines()[0]
            here.reads(here.run(f"cd {HOME}/app && {line} && ./main {CHECK}"))


def cookbook(language):
    page = read("docs", "cookbook", f"{language}.md")
    here, rest = after_install(language, page)
    with here:
        here.write(f"quarry/cookbook.{language}", "".join(re.findall(rf"^<!-- test -->\n```{language}\n(.*?)^```$", page, re.M | re.S)))
        here.reads(here.follow(rest), "profile: has nodes")


def deb():
    section = PACKAGES[PACKAGES.index("## Debian packages"):]
    with Root("deb") as here:
        here.follow(block(section, "sh"))
        here.reads(here.run(re.search(r"`(quarry run [^`]*)`", section)[1]), "0.9555      3")
        here.write("quarry/main.py", block(read("bindings", "python", "README.md"), "python"))
        here.reads(here.run("python3 main.py"))
        here.write("quarry/main.c", block(PACKAGES, "c"))
        here.reads(here.run(block(PACKAGES, "sh", 1).splitlines()[0] + f" && ./main {CHECK}"))


def python():
    page = read("bindings", "python", "README.md")
    with Root("python") as here:
        here.follow(block(page, "sh"))
        here.write("quarry/main.py", block(page, "python"))
        here.reads(here.run(". venv/bin/activate && python main.py"))


def rust():
    page = read("bindings", "rust", "README.md")
    here, _ = after_install("rust", page)
    with here:
        for name in ("rustup", "cargo"):
            here.mount(os.environ.get(f"{name.upper()}_HOME") or os.path.expanduser(f"~/.{name}"), "--bind", to=f"/opt/{name}")
        has = {"path": "/opt/cargo/bin:", "RUSTUP_HOME": "/opt/rustup", "CARGO_HOME": f"{HOME}/.cargo"}
        here.run(f"cd {HOME} && " + re.search(r"`(cargo new .*?)`", page)[1], **has)
        here.run(f"cd {HOME}/app && " + block(page, "sh", 1).strip().replace("...", f"{HOME}/quarry"), **has)
        here.write("app/src/main.rs", block(page, "rust"))
        here.reads(here.run(re.search(r"`(cargo run --manifest-path .*?)`", page)[1].replace(".../app", f"{HOME}/app"), **has))


def go():
    page = read("bindings", "go", "README.md")
    here, _ = after_install("go", page)
    with here:
        here.mount("/usr/local/go", "--bind")
        here.write("app/main.go", block(page, "go"))
        has = {"path": "/usr/local/go/bin:", "GOTOOLCHAIN": "local"}
        for line in (re.search(r"`(go mod init .*?)`", page)[1], block(page, "sh", 1).strip(), re.search(r"`(go run .*?)`", page)[1]):
            said = here.run(f"cd {HOME}/app && " + line.replace("...", f"{HOME}/quarry"), **has)
        here.reads(said)


PAGES = {"c": lambda: cookbook("c"), "cpp": lambda: cookbook("cpp"), "cmake": lambda: packages("cmake", ("CMakeLists.txt", "cmake")), "meson": lambda: packages("meson", ("meson.build", "meson")),
         "pkg-config": lambda: packages("pkg-config"), "rust": rust, "go": go, "deb": deb, "python": python}
os.makedirs(work, exist_ok=True)
base()
pages = wanted or list(PAGES)
for name in PAGES:
    subprocess.run(["rm", "-rf", f"{work}/{name}"], check=True)
if ccache:
    mounted = Root.__enter__

    def with_ccache(self):
        mounted(self)
        self.mount(os.path.abspath(ccache), "--bind", to="/ccache")
        return self
    Root.__enter__ = with_ccache
if set(pages) - {"deb", "python"}:
    with installed:
        marks = f"{work}/installed/done"  # a second run goes on behind the line that failed
        done = read(marks).splitlines() if os.path.exists(marks) else []
        for line in INSTALL.splitlines()[len(done):]:
            installed.run(line)
            with open(marks, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        installed.reads(installed.run("quarry doctor"), "cpu")
for name in pages:
    PAGES[name]()
print(len(pages), "pages were followed")
