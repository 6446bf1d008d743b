#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pages that say how to get Quarry, followed word by word by somebody who has nothing: each in a clean root of this Debian, with the
checkout, the commands and files as the page has them. Each ends with a program that reads a digit. By hand, as root: all pages take a release build each (--ccache DIR
makes that one build). Rust and Go come from this machine, as the pages send their readers to a site for them.

--packages DIR plays a newcomer who has the Debian packages (of tools/make_deb.sh, in DIR) in place of a build, which takes two minutes: the packages, the wheel, a program
in each language; then, where all of that is installed, every snippet of the docs: errors, quantising, viewing, in each language (check_snippets.py).

check_pages.py WORK [--ccache DIR] [--packages DIR] [PAGE...]
    WORK: a folder for the roots; PAGE: c cpp cmake meson pkg-config deb python rust go snippets (all but snippets; of packages: c cpp pkg-config rust go python snippets)
Exit status 77: no clean root can be made here; the last line says why.
"""
import os
import re
import shutil
import subprocess
import sys

from clean_root import HOME, Root, make_base, why_none

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
arguments = sys.argv[1:]


def after(flag):
    """What stands behind a flag, which is taken away; or nothing."""
    if flag not in arguments:
        return ""
    value = arguments.pop(arguments.index(flag) + 1)
    arguments.remove(flag)
    return os.path.abspath(value)


Root.ccache, packages_of = after("--ccache"), after("--packages")
if not arguments or arguments[0].startswith("-"):
    sys.exit(__doc__)
Root.work, wanted = os.path.abspath(arguments[0]), arguments[1:]
Root.as_root = re.compile(r"(apt-get|ldconfig|meson install|tools/install_packages\.sh)\b")
work, DIGIT = Root.work, "the first digit is a 9"


def read(*parts):
    with open(os.path.join(root, *parts), encoding="utf-8") as file:
        return file.read()


def block(page, language, number=0):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)[number]


PACKAGES = read("docs", "packages.md")
INSTALL = block(PACKAGES, "sh")
DEBIAN = PACKAGES[PACKAGES.index("## Debian packages"):]
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
            here.reads(here.run(f"cd {HOME}/app && cmake -B out && cmake --build out && out/main {CHECK}"), DIGIT)
        elif name == "meson":
            here.reads(here.run(f"cd {HOME}/app && meson setup out && ninja -C out && out/main {CHECK}"), DIGIT)
        else:
            line = block(PACKAGES, "sh", 1).splitlines()[0]
            here.reads(here.run(f"cd {HOME}/app && {line} && ./main {CHECK}"), DIGIT)


def cookbook(language):
    page = read("docs", "cookbook", f"{language}.md")
    here, rest = after_install(language, page)
    with here:
        here.write(f"quarry/cookbook.{language}", "".join(re.findall(rf"^<!-- test -->\n```{language}\n(.*?)^```$", page, re.M | re.S)))
        here.reads(here.follow(rest), "profile: has nodes")


def deb():
    with Root("deb", *([installed] if packages_of else [])) as here:
        if not packages_of:
            here.follow(block(DEBIAN, "sh"))
        here.reads(here.run(re.search(r"`(quarry run [^`]*)`", DEBIAN)[1]), "0.9555      3")
        here.reads(here.run(re.search(r"`(quarry explain [^`]*)`", read("docs", "guide.md"))[1]), "What to do: ")
        here.write("quarry/main.py", block(read("bindings", "python", "README.md"), "python"))
        here.reads(here.run("python3 main.py"), DIGIT)
        here.write("quarry/main.c", block(PACKAGES, "c"))
        here.reads(here.run(block(PACKAGES, "sh", 1).splitlines()[0] + f" && ./main {CHECK}"), DIGIT)


wheel = Root("python", *([installed] if packages_of else []))


def python():
    page = read("bindings", "python", "README.md")
    lines, has = block(page, "sh"), {}
    if packages_of:  # what a build needs is not wanted by whom has one, as the page says
        lines, has = re.sub(r"^(apt-get|tools/install_packages\.sh)\b.*\n", "", lines, flags=re.M), {re.search(r"`(QUARRY_PREFIX)=DIR` takes an installed tree in its place", page)[1]: "/usr"}
    with wheel as here:
        here.follow(lines, **has)
        here.write("quarry/main.py", block(page, "python"))
        here.reads(here.run(". venv/bin/activate && python main.py"), DIGIT)


def have_rust(here):
    """Rust of this machine in a root, and what a line there needs to find it; nothing where there is none."""
    homes = {name: os.environ.get(f"{name.upper()}_HOME") or os.path.expanduser(f"~/.{name}") for name in ("rustup", "cargo")}
    if not os.path.exists(f"{homes['cargo']}/bin/cargo"):
        return {}
    for name, home in homes.items():
        here.mount(home, "--bind", to=f"/opt/{name}")
    return {"path": "/opt/cargo/bin:", "RUSTUP_HOME": "/opt/rustup", "CARGO_HOME": f"{HOME}/.cargo"}


def have_go(here):
    if not os.path.exists("/usr/local/go/bin/go"):
        return {}
    here.mount("/usr/local/go", "--bind")
    return {"path": "/usr/local/go/bin:", "GOTOOLCHAIN": "local"}


def cannot(name, why):
    print(f"{name}: not followed: {why}", flush=True)
    left_out.append(name)


def rust():
    page = read("bindings", "rust", "README.md")
    here, _ = after_install("rust", page)
    with here:
        has = have_rust(here)
        if not has:
            return cannot("rust", "Debian's Rust is too old, and this machine has none by rustup")
        here.run(f"cd {HOME} && " + re.search(r"`(cargo new .*?)`", page)[1], **has)
        here.run(f"cd {HOME}/app && " + block(page, "sh", 1).strip().replace("...", f"{HOME}/quarry"), **has)
        here.write("app/src/main.rs", block(page, "rust"))
        here.reads(here.run(re.search(r"`(cargo run --manifest-path .*?)`", page)[1].replace(".../app", f"{HOME}/app"), **has), DIGIT)


def go():
    page = read("bindings", "go", "README.md")
    here, _ = after_install("go", page)
    with here:
        has = have_go(here)
        if not has:
            return cannot("go", "Debian's Go is too old, and this machine has none in /usr/local/go")
        here.write("app/main.go", block(page, "go"))
        for line in (re.search(r"`(go mod init .*?)`", page)[1], block(page, "sh", 1).strip(), re.search(r"`(go run .*?)`", page)[1]):
            said = here.run(f"cd {HOME}/app && " + line.replace("...", f"{HOME}/quarry"), **has)
        here.reads(said, DIGIT)


def snippets():
    """Every snippet of the docs, by the packages and the wheel."""
    with Root("snippets", wheel) as here:
        rust_has, go_has = have_rust(here), have_go(here)
        if rust_has:
            here.run(f"cd {HOME}/quarry/bindings/rust && cargo fetch --locked", **rust_has)
        has = {**rust_has, **go_has, "path": rust_has.get("path", "") + go_has.get("path", "")}
        for check in ("check_docs_code.py", "check_snippets.py"):
            here.reads(here.run(f"python3 tests/integration/{check} /usr {HOME}/{check} --python venv/bin/python", **has), " ran, ")


def install():
    """The tree that most pages begin with: a build, or the packages in its place."""
    lines = (block(DEBIAN, "sh", 1) if packages_of else INSTALL).splitlines()
    with installed:
        if packages_of:
            shutil.copytree(packages_of, f"{installed.path}{HOME}/quarry/dist", ignore=lambda _, names: [n for n in names if not n.endswith(".deb")], dirs_exist_ok=True)
            installed.owned(f"{HOME}/quarry/dist")
        marks = f"{work}/installed/done"  # a second run goes on behind the line that failed
        done = read(marks).splitlines() if os.path.exists(marks) else []
        for line in lines[len(done):]:
            installed.run(line)
            with open(marks, "a", encoding="utf-8") as file:
                file.write(line + "\n")
        installed.reads(installed.run("quarry doctor"), "cpu")


PAGES = {"c": lambda: cookbook("c"), "cpp": lambda: cookbook("cpp"), "cmake": lambda: packages("cmake", ("CMakeLists.txt", "cmake")), "meson": lambda: packages("meson", ("meson.build", "meson")),
         "pkg-config": lambda: packages("pkg-config"), "rust": rust, "go": go, "deb": deb, "python": python, "snippets": snippets}
left_out = []
os.makedirs(work, exist_ok=True)
no_root = why_none(work, packages_of) or make_base(work, root, *(["ccache"] if Root.ccache else []))
if no_root:
    print(no_root)
    sys.exit(77)
pages = wanted or (["deb", "c", "cpp", "pkg-config", "rust", "go", "python", "snippets"] if packages_of else [name for name in PAGES if name != "snippets"])
for name in PAGES:
    subprocess.run(["rm", "-rf", f"{work}/{name}"], check=True)
if packages_of:
    Root.caches = f"{work}/caches"
    subprocess.run(["rm", "-rf", f"{work}/installed", Root.caches], check=True)
if packages_of or set(pages) - {"deb", "python"}:
    install()
for name in pages:
    PAGES[name]()
print(len(pages) - len(left_out), "pages were followed" + (f"; not followed: {', '.join(left_out)}" if left_out else ""))
