# SPDX-License-Identifier: Apache-2.0
"""With the settings that tools/setup.sh gives ccache, an object is made anew when a header changes that only the precompiled header includes.

check_ccache.py ROOT COMPILER...
"""
import os
import shutil
import subprocess
import sys
import tempfile

root, compiler = sys.argv[1], [c for c in sys.argv[2:] if os.path.basename(c) != "ccache"]
if not shutil.which("ccache"):
    print("there is no ccache here")
    sys.exit(77)
if "g++" not in subprocess.run([*compiler, "--version"], capture_output=True, text=True).stdout and os.path.basename(compiler[0]) not in ("c++", "g++"):
    print(f"{compiler[0]} makes precompiled headers of another kind")
    sys.exit(77)

# $0 is what setup.sh finds the tree by; the variables that a user's shell has do not count.
settings = subprocess.run(["sh", "-c", f'. "{root}/tools/setup.sh"; env', f"{root}/tools/test.sh"], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}).stdout
settings = dict(line.split("=", 1) for line in settings.splitlines() if line.startswith("CCACHE_"))

with tempfile.TemporaryDirectory() as folder:
    environment = {"PATH": os.environ["PATH"], "CCACHE_DIR": os.path.join(folder, "cache"), **settings}

    def built(number):
        """What the program prints, built in a folder made anew as meson does it: a fresh checkout of other headers."""
        work = os.path.join(folder, "work")
        shutil.rmtree(work, ignore_errors=True)
        os.makedirs(os.path.join(work, "made"))
        os.mkdir(os.path.join(work, "pch"))
        files = {"value.h": f"inline int value() {{ return {number}; }}\n", "pch/all.h": '#include "value.h"\n',
                 "main.cpp": '#include <cstdio>\nint main() { std::printf("%d\\n", value()); }\n'}
        for name, text in files.items():
            with open(os.path.join(work, name), "w") as out:
                out.write(text)
        for arguments in (["-I.", "-x", "c++-header", "pch/all.h", "-o", "made/all.h.gch", "-MD", "-MF", "all.d"],
                          ["-Imade", "-I.", "-fpch-preprocess", "-include", "all.h", "-c", "main.cpp", "-o", "main.o", "-MD", "-MF", "main.d"]):
            subprocess.run(["ccache", *compiler, *arguments], cwd=work, env=environment, check=True)
        subprocess.run([*compiler, "main.o", "-o", "main"], cwd=work, check=True)
        return subprocess.run([os.path.join(work, "main")], capture_output=True, text=True, check=True).stdout.strip()

    for wanted in ("1", "2", "1"):
        found = built(wanted)
        if found != wanted:
            sys.exit(f"a header with {wanted} gave the object of one with {found}")
    hits = subprocess.run(["ccache", "--print-stats"], env=environment, capture_output=True, text=True, check=True).stdout
    if "direct_cache_hit\t2" not in hits:
        sys.exit(f"the third build, like the first, should come from the cache; ccache counts:\n{hits}")
