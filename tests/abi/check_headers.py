#!/usr/bin/env python3
"""Each public header by itself, included twice, in C99, C11 and C++17 (the C++ headers in C++20 too, with exceptions and without), with every warning on and -Wpadded: no hole in any struct.

check_headers.py CC CXX INCLUDE_DIR
"""
import os
import subprocess
import sys

cc, cxx, include = sys.argv[1:4]
folder = os.path.join(include, "quarry")
passed = failed = 0


def compile_text(compiler, language, standard, text, extra=()):
    command = compiler.split() + [f"-std={standard}", "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Wpadded", "-Wconversion",
                                  "-Werror", "-I", include, *extra, "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True)


def judge(name, result, should_pass=True):
    global passed, failed
    good = (result.returncode == 0) == should_pass
    passed += good
    failed += not good
    if not good:
        print(f"FAILED {name}\n{result.stderr}")


for header in sorted(os.listdir(folder)):
    text = f"#include <quarry/{header}>\n#include <quarry/{header}>\nextern int not_empty;\n"
    if header.endswith(".h"):
        for standard in ("c99", "c11"):
            judge(f"{header} {standard}", compile_text(cc, "c", standard, text))
        judge(f"{header} c++17", compile_text(cxx, "c++", "c++17", text))
    if header.endswith(".hpp"):
        for standard in ("c++17", "c++20"):
            for mode in ("-fexceptions", "-fno-exceptions"):
                judge(f"{header} {standard} {mode}", compile_text(cxx, "c++", standard, text, ["-Wno-padded", mode]))

# The _INIT macros initialise every field, in both languages, without a warning.
names = []
for header in sorted(os.listdir(folder)):
    if header.endswith(".h"):
        for line in open(os.path.join(folder, header)):
            if line.startswith("#define QR_") and "_INIT" in line.split()[1]:
                names.append(line.split()[1])
body = "#include <quarry/quarry.h>\n#include <quarry/quantize.h>\n" + "".join(f"{n[:-5].lower()} v{i} = {n};\n" for i, n in enumerate(names))
judge("INIT macros, C99", compile_text(cc, "c", "c99", body))
judge("INIT macros, C++17", compile_text(cxx, "c++", "c++17", body))
# The check itself works: a struct with a hole must be refused.
judge("a struct with a hole", compile_text(cc, "c", "c11", "#include <quarry/types.h>\nstruct hole { uint32_t a; void *b; };\n"), should_pass=False)
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
