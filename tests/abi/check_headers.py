#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header by itself, included twice, in C99, C11 and C++17 (the C++ headers in C++17 without exceptions and in C++20 with them), with every warning on and -Wpadded: no hole in any struct.
All of them together in every standard that the compilers know; and beside macros of other headers (foreign_macros.txt, and X11's own where it is installed) that were
defined before, and that are defined after.

check_headers.py CC CXX INCLUDE_DIR alone|macros      what the first sentence says, or the rest of it
"""
import concurrent.futures
import os
import subprocess
import sys

cc, cxx, include, part = sys.argv[1:5]
folder = os.path.join(include, "quarry")
pool = concurrent.futures.ThreadPoolExecutor(os.cpu_count())
waiting = []  # (name, result to come, should it pass)


def compile_text(compiler, language, standard, text, extra=()):
    command = compiler.split() + [f"-std={standard}", "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-pedantic", "-Wpadded", "-Wconversion",
                                  "-Werror", "-I", include, *extra, "-"]
    return subprocess.run(command, input=text, text=True, capture_output=True)


def judge(name, *what, should_pass=True):
    if (part == "macros") == ("acro" in name or name.startswith(("everything", "X11"))):
        waiting.append((name, pool.submit(compile_text, *what), should_pass))


def knows(compiler, language, standard):
    return compile_text(compiler, language, standard, "extern int not_empty;\n").returncode == 0


def including(names):
    return "".join(f"#include <quarry/{name}>\n" for name in names)


HPP = ["-Wno-padded"]
MODES = ("-fexceptions", "-fno-exceptions")
everything = sorted(os.listdir(folder))
c_headers = [name for name in everything if name.endswith(".h")]
# The two that lay macros aside and put them back are parts of the others.
cpp_headers = [name for name in everything if name.endswith(".hpp") and not name.startswith("macros_")]
for header in c_headers:
    text = including([header] * 2) + "extern int not_empty;\n"
    for standard in ("c99", "c11"):
        judge(f"{header} {standard}", cc, "c", standard, text)
    judge(f"{header} c++17", cxx, "c++", "c++17", text)
for header in cpp_headers:
    text = including([header] * 2) + "extern int not_empty;\n"
    for standard, mode in (("c++17", "-fno-exceptions"), ("c++20", "-fexceptions")):  # all together has the other two
        judge(f"{header} {standard} {mode}", cxx, "c++", standard, text, [*HPP, mode])

# The _INIT macros initialise every field, in both languages, without a warning.
names = []
for header in c_headers:
    for line in open(os.path.join(folder, header)):
        if line.startswith("#define QR_") and "_INIT" in line.split()[1]:
            names.append(line.split()[1])
structs = "".join(f"extern {n[:-5].lower()} v{i};\n{n[:-5].lower()} v{i} = {n};\n" for i, n in enumerate(names))
c_body = including(c_headers) + structs
USE = """
int use(qr::Session &session, qr::Signal &signal) {
  float values[4] = {};
  const qr::Tensor in[1] = {qr::Tensor::of(values, {2, 2})};
  qr::Tensor out[1];
  signal.set_timeout(std::chrono::seconds(1));
  qr::Profile profile;
  profile.clear();
  const qr::CallStatus status = session.try_run(in, out, &signal, &profile);
  const qr::Result<float *> data = out[0].try_data<float>();
  return status.ok() && data.ok() && session.try_inputs().ok() && qr::Quantizer::try_options().ok() && qr::Sampler::try_create().ok();
}
"""
cpp_body = including(cpp_headers) + "int use(qr::Session &session, qr::Signal &signal);\n" + USE
for standard in ("c99", "gnu99", "c11", "c17", "gnu17", "c2x"):
    if knows(cc, "c", standard):
        judge(f"everything of C in {standard}", cc, "c", standard, c_body)
for standard in ("c++98", "gnu++98", "c++11", "c++14", "c++17", "gnu++17", "c++20", "c++2b"):
    if knows(cxx, "c++", standard):
        judge(f"everything of C in {standard}", cxx, "c++", standard, c_body, ["-Wno-long-long"])
for standard in ("c++17", "gnu++17", "c++20", "c++2b"):
    for mode in MODES if standard in ("c++17", "c++20") else MODES[:1]:
        if knows(cxx, "c++", standard):
            judge(f"everything of C++ in {standard} {mode}", cxx, "c++", standard, cpp_body, [*HPP, mode])
judge("everything of C++ without run-time types", cxx, "c++", "c++17", cpp_body, [*HPP, "-fno-exceptions", "-fno-rtti"])

# Macros of others, before and after; those that were there before are there still.
foreign = []
for line in open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "foreign_macros.txt")):
    if not line.startswith(("#", "[")):
        foreign += line.split()
nonsense = "".join(f"#undef {n.rstrip('()')}\n#define {n.replace('()', '(...)')} ]] a macro of another header [[\n" for n in foreign)
still = "".join(f"#ifndef {n.rstrip('()')}\n#error {n.rstrip('()')} was taken away\n#endif\n" for n in foreign)
for language, compiler, standard, body, extra in (("c", cc, "c99", c_body, []), ("c++", cxx, "c++17", c_body, []),
                                                  *(("c++", cxx, "c++17", cpp_body, [*HPP, mode]) for mode in MODES)):
    headers, _, use = body.rpartition("#include")
    at = use.index("\n") + 1
    headers, use = headers + "#include" + use[:at], use[at:]
    what = f"{'C++ headers' if body is cpp_body else 'C headers'} in {standard} {' '.join(extra[1:])}"
    judge(f"macros of others before the {what}", compiler, language, standard, nonsense + headers + still + use, extra)
    judge(f"macros of others after the {what}", compiler, language, standard, headers + nonsense + use, extra)
for header in cpp_headers + c_headers:
    judge(f"macros of others before {header}", cxx, "c++", "c++17", nonsense + including([header]) + still, HPP)
x11 = "#include <X11/Xlib.h>\n#include <X11/Xutil.h>\n"
if compile_text(cxx, "c++", "c++17", x11).returncode == 0:
    headers, use = cpp_body.split("int use", 1)
    judge("X11 before", cxx, "c++", "c++17", x11 + headers + "Status of_x11;\nint use" + use, HPP)
    judge("X11 after", cxx, "c++", "c++17", headers + x11 + "Status of_x11;\nint use" + use, HPP)
    judge("X11 and the name that is its macro", cxx, "c++", "c++17", headers + x11 + "int use(qr::Status *);\n", HPP, should_pass=False)
else:
    print("X11 is not installed: its own headers were not tried")

# The check itself works: a struct with a hole must be refused, and a word of ours that is a macro.
judge("a struct with a hole", cc, "c", "c11", "#include <quarry/types.h>\nstruct hole { uint32_t a; void *b; };\n", should_pass=False)
judge("a macro that is in the way", cxx, "c++", "c++17", "#define Tensor ]] nonsense [[\n" + including(["quarry.hpp"]), HPP, should_pass=False)

passed = failed = 0
for name, result, should_pass in waiting:
    good = (result.result().returncode == 0) == should_pass
    passed += good
    failed += not good
    if not good:
        print(f"FAILED {name}\n{result.result().stderr[:4000]}")
print(f"{passed} passed, {failed} failed")
sys.exit(1 if failed else 0)
