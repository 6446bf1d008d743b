#!/usr/bin/env python3
"""Checks the tree itself: include rules, what every public function says, error ids, READMEs, leftovers.

check_tree.py SOURCE_ROOT
"""
import os
import re
import subprocess
import sys

root = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
problems = []


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as handle:
        return handle.read()


def tracked():
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True).stdout
        return [f for f in listed.splitlines() if os.path.exists(os.path.join(root, f))]
    except (OSError, subprocess.CalledProcessError):  # a release archive
        found = []
        for folder, folders, names in os.walk(root):
            folders[:] = [d for d in folders if not d.startswith((".", "build"))]
            found += [os.path.relpath(os.path.join(folder, n), root) for n in names]
        return found


files = tracked()
sources = [f for f in files if f.endswith((".h", ".hpp", ".c", ".cpp", ".inc"))]

# ---- include rules
layers, rooms, lists, of_system = [], {}, {}, {}
for line in open(os.path.join(here, "layers.txt")):
    line = line.split("#")[0].strip()
    if line.startswith("$"):
        name, words = line.split("=")
        lists[name.strip()] = words.split()
    elif line.startswith("<"):
        headers, allowed = line.split(":")
        of_system.update(dict.fromkeys(re.findall(r"<(.*?)>", headers), tuple(allowed.split())))
    elif ">" in line:
        folder, order = line.split(">")
        rooms[folder.strip()] = {room: floor for floor, level in enumerate(order.split()) for room in level.split(",")}
    elif line:
        folder, allowed = line.split(":")
        layers.append((folder.strip(), [word for given in allowed.split() for word in lists.get(given, [given])]))


def room_of(folder, path):
    rest = path[len(folder) + 1:]
    return rest.split("/")[0] if "/" in rest else "."


def out_of_order(path, include):
    """Whether the rooms of a folder that both lie in forbid this include."""
    folder = next((f for f in rooms if path.startswith(f + "/") and include.startswith(f + "/")), None)
    if not folder or "+" + include in rooms[folder]:
        return False
    order, here_, there = rooms[folder], room_of(folder, path), room_of(folder, include)
    if here_ == there:
        return False
    return here_ not in order or there not in order or order[there] > order[here_]


def kind_of(include):
    if include.startswith("quarry/"):
        return "plugin" if include == "quarry/backend.h" else "public"
    if include.startswith(("onnx/", "google/protobuf")):
        return "onnx"
    return include if "/" in include else None  # a file of the same folder


for path in sources:
    layer = next(((f, a) for f, a in layers if path.startswith(f + "/")), None)
    if not layer:
        continue
    folder, allowed = layer
    for include in re.findall(r'^\s*#\s*include\s+["<]([^">]+)[">]', read(path), re.M):
        if include in of_system and not path.startswith(of_system[include]):
            problems.append(f"{path}: must not include {include}: {of_system[include][0]} has that subject (tests/tidy/layers.txt)")
        if include.startswith(("sys/", "linux/", "asm/")) and include not in of_system:
            problems.append(f"{path}: {include}: no line of tests/tidy/layers.txt names this header of the system")
        if out_of_order(path, include):
            problems.append(f"{path}: must not include {include}: its room comes later (tests/tidy/layers.txt)")
        quoted = os.path.exists(os.path.join(root, include)) or include.startswith(("quarry/", "onnx/", "google/protobuf"))
        kind = kind_of(include)
        if not quoted or kind is None or kind.startswith(folder + "/") or kind in allowed:
            continue
        if not any(kind.startswith(a + "/") for a in allowed):
            problems.append(f"{path}: {folder} must not include {include} (tests/tidy/layers.txt)")

# ---- modules of the bindings use each other one way
uses = {}
for path in files:
    if match := re.match(r"(bindings/(?:python/src/quarry|rust/quarry/src))/(\w+)\.(py|rs)$", path):
        folder, name, kind = match.groups()
        if name not in ("lib", "__init__"):  # what gathers the others
            found = re.findall(r"^\s*from \.(\w+) import" if kind == "py" else r"\bcrate::(\w+)::", read(path), re.M)
            uses[folder, name] = sorted({(folder, one) for one in found if one != name})


def circle(module, way):
    if module in way:
        return way[way.index(module):] + [module]
    return next((found for one in uses.get(module, []) if (found := circle(one, way + [module]))), None)


circles = {frozenset(found): found for module in sorted(uses) if (found := circle(module, []))}
for found in circles.values():
    problems.append(f"{found[0][0]}: modules use each other in a circle: {' -> '.join(name for _, name in found)}")

# ---- public functions: thread tag, errors, since, an ownership word for every pointer
for path in sorted(f for f in files if re.match(r"include/quarry/\w+\.h$", f) and not f.endswith("backend.h")):
    text = read(path)
    for match in re.finditer(r"/\*((?:[^*]|\*(?!/))*)\*/\s*(QR_API[^;]*;)", text):
        comment, declaration = match.groups()
        name = re.search(r"(qr_\w+)\(", declaration).group(1)
        for tag in ("@thread", "@errors", "@since"):
            if tag not in comment:
                problems.append(f"{path}: {name} has no {tag}")
        if not re.search(r"@thread\s+\[(thread-safe|exclusive:\w+|in-callback)\]", comment):
            problems.append(f"{path}: {name}: unknown thread tag")
        for parameter in re.search(r"\((.*)\)", declaration, re.S).group(1).split(","):
            if "*" not in parameter:
                continue
            word = parameter.split("*")[-1].split("[")[0].strip()
            text_of = re.search(rf"@param\s+{word}\b(.*?)(?=@|\Z)", comment, re.S)
            if not text_of:
                problems.append(f"{path}: {name}: parameter {word} is not described")
            elif not re.search(r"\b(borrow(s|ed)|takes|gives)\b", text_of.group(1)) and not re.search(r"(uint64_t|qr_string|qr_compatibility|qr_profile_event) \*", parameter):
                problems.append(f"{path}: {name}: parameter {word} has no ownership word")
    undocumented = len(re.findall(r"^QR_API", text, re.M)) - len(re.findall(r"\*/\s*QR_API", text))
    if undocumented:
        problems.append(f"{path}: {undocumented} functions without a comment")

# ---- error ids: unique, used, produced by a test, documented
rows = re.findall(r'^QR_ERROR\((\w+), "(QR-\w\d{4})"', read("base/error_ids.inc"), re.M)
for column in (0, 1):
    values = [row[column] for row in rows]
    for value in sorted({v for v in values if values.count(v) > 1}):
        problems.append(f"base/error_ids.inc: {value} stands twice")
code = "\n".join(read(f) for f in sources if not f.startswith("tests/") and not f.endswith("error_ids.inc"))


def without_comments(path):  # an id in a comment is not expected by anything
    text = read(path)
    if path.endswith((".c", ".cpp", ".h", ".inc")):
        # Strings are taken first, so that what looks like a comment in one stays.
        return re.sub(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', lambda m: m[1] or " ", text, flags=re.S)
    return re.sub(r'""".*?"""|^\s*#[^\n]*', " ", text, flags=re.S | re.M)


tests = "\n".join(without_comments(f) for f in files if f.startswith("tests/") and f != "tests/tidy/untested_ids.txt" and
                  f.endswith((".c", ".cpp", ".h", ".inc", ".py", ".sh", ".txt")))
errors_page = read("docs/errors.md") if "docs/errors.md" in files else ""
# Ids that no input can produce in this release, with why; tests/plugins covers their code by review only.
unreachable = dict(line.split(": ", 1) for line in read("tests/tidy/untested_ids.txt").splitlines() if line and not line.startswith("#"))
words_of_code = set(re.findall(r"\w+", code))
for name, number in rows:
    if name not in words_of_code and number not in code:
        problems.append(f"base/error_ids.inc: nothing produces {name} ({number})")
    if number not in tests and number not in unreachable:
        problems.append(f"{number} ({name}): no test expects it")
    if number not in errors_page:
        problems.append(f"docs/errors.md has no {number}: run tools/generate_docs.py")

# ---- functions that texts name, and the bindings' tables that put names of their languages for them, are there
NO_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
named = set(re.findall(r"\bqr_\w+", NO_TEXT.sub(" ", "\n".join(read(f) for f in sources if not f.startswith("tests/")))))
TABLES = ["bindings/python/src/quarry/errors.py", "bindings/go/errors.go", "bindings/rust/quarry/src/error.rs", "bindings/csharp/src/HintTexts.cs"]
for path in [f for f in sources if not f.startswith(("tests/", "backends/gpu/kernels/"))] + TABLES:  # those write OpenCL, with functions of its own
    for text in re.findall(r'"(?:[^"\\\n]|\\.)*"', read(path)):
        for name in sorted(set(re.findall(r"\bqr_[a-z]\w*", text)) - named):
            problems.append(f"{path}: {text} names {name}, which is not there")

# ---- the library's texts speak of functions and options; what to type on the command line says the program
for path in sources:
    in_program = path.startswith("tools/")
    if path.startswith(("tests/", "bindings/")):
        continue
    for number, line in enumerate(read(path).splitlines(), 1):
        if '"' not in line and "std" not in line or line.lstrip().startswith(("//", "*", "/*")):
            continue
        for text in re.findall(r'"(?:[^"\\]|\\.)*"', line):
            if not in_program and re.search(r"(^|[^-\w])--[a-z]|\bquarry (run|compile|bench|conform)\b", text[1:-1]):
                problems.append(f"{path}:{number}: {text} speaks of the command line")
        # Through `print`, a write that fails is reported.
        if in_program and path.endswith(".cpp") and path != "tools/console/output.cpp" and re.search(r"std::(printf|puts|putchar|cout)\b|\bstdout\)", line):
            problems.append(f"{path}:{number}: {line.strip()}: use print of output.h")

# ---- new_file.cpp of base/os is the one writer of files; what else opens one for writing stands here with the reason
writes = re.compile(r'\bf(?:d|re)?open\([^;]*,\s*"(?:[wa]|r[be]*\+)|\bofstream\b|\bfstream\b(?!>)|\bO_(?:CREAT|TRUNC|TMPFILE|WRONLY|RDWR)\b|\bcreat\(|\bmkostemp|\bmkstemp|(?:std|(?<!\w))::rename\(|\brenameat2?\(|\b(?:CREATE_NEW|CREATE_ALWAYS|OPEN_ALWAYS|TRUNCATE_EXISTING)\b|\b(?:MoveFileExW|ReplaceFileW)\(')
allowed_writes = {
    "base/os/linux/growing_file.cpp": r"return OpenFd\(::open\(path",  # a record of calls: read after a crash
    "base/os/windows/growing_file.cpp": r"OPEN_ALWAYS",  # likewise
    "base/os/windows/file_lock.cpp": r"OPEN_ALWAYS",  # likewise
    "base/os/windows/shared_memory.cpp": r"CREATE_NEW",  # memory that Windows has as a file
    "base/os/linux/file_lock.cpp": r"return OpenFd\(::open\(path",  # a lock: it has no contents
    "base/os/linux/file_making.cpp": r"O_TMPFILE",  # of new_file.cpp: a file without a name
    "base/os/macos/shared_memory.cpp": r"shm_open",  # memory
    "base/os/linux/console.cpp": r"/dev/null|fdopen\(fd, \"w\"\)",  # descriptors 0 to 2 are there; standard output under another number
}
for path in sources:
    if path.startswith(("tests/", "docs/", "base/os/linux/new_file.cpp", "base/os/windows/new_file.cpp")):
        continue
    for number, line in enumerate(read(path).splitlines(), 1):
        if not any(word in line for word in ("open", "fstream", "O_", "creat(", "temp", "rename", "CREATE_", "OPEN_ALWAYS", "TRUNCATE_", "MoveFile", "ReplaceFile")):
            continue
        code_of = line.split("//")[0]
        if writes.search(code_of) and not re.search(allowed_writes.get(path, r"$^"), code_of):
            problems.append(f"{path}:{number}: {line.strip()}: files are written by base/new_file.h")

# ---- what differs between systems differs in base/os (and in the public headers, which have none of it around them)
for path in sources:
    if path.startswith(("base/os/", "include/quarry/", "tests/")) or path == "tests/tidy/check_tree.py":
        continue
    for number, line in enumerate(read(path).splitlines(), 1):
        if line.startswith("#") and ("_WIN32" in line or "__APPLE__" in line):
            problems.append(f"{path}:{number}: {line.strip()}: what differs between systems stands in base/os")

# ---- operands by number: qir::Operands and qir::at have no end, and nothing goes around them
for path in sources:
    if path.startswith("tests/") or path in ("graph/graph.h", "graph/graph.cpp", "graph/io/print.cpp"):
        continue
    for number, line in enumerate(read(path).splitlines(), 1):
        if "puts" not in line and "tensors[" not in line:
            continue
        if re.search(r"(?<!draft_)(?<!draft)(\.|->)tensors\[static_cast<std::size_t>", line):
            problems.append(f"{path}:{number}: {line.strip()}: use qir::at, which knows kAbsent")
        if re.search(r"\b(inputs|outputs)\.(data|begin|front|back)\(\)\[|\bnode\w*(\(\w*\))?(\.|->)(inputs|outputs)\.(front|back)\(\)", line) and ".empty()" not in line:
            problems.append(f"{path}:{number}: {line.strip()}: operands by number go through qir::Operands")

# ---- every public header is installed
for path in sources:
    if path.startswith("include/quarry/") and f"'{path[len('include/'):]}'" not in read("include/meson.build"):
        problems.append(f"include/meson.build: {path} is not installed")

# ---- every folder with sources has a README; no leftovers
folders = {os.path.dirname(f) for f in sources}
# Files that are compiled together: as many as fill the last object too make meson 1.0 ask for an object more in static builds, which is not there.
meson_files = {path: read(path) for path in files if path.endswith("meson.build")}
listed = {name: len(re.findall(r"'[^']+\.cpp'", names)) for text in meson_files.values() for name, names in re.findall(r"^(\w+) = files\((.*?)\)", text, re.M | re.S)}
for path, text in sorted(meson_files.items()):
    for name, taken, rest in re.findall(r"static_library\('([\w-]+)',(.*?)override_options:([^\n]*)", text, re.S):
        size = re.search(r"'unity_size=(\d+)'", rest)
        size = int(size[1]) if size else 8 if "together" in rest else 0
        taken = taken.split("include_directories:")[0]
        count = len(re.findall(r"'[^']+\.cpp'", taken)) + sum(listed.get(word, 0) for word in re.findall(r"(?<!')\b[a-z_]+\b(?!')", taken))
        if size and count and count % size == 0:
            problems.append(f"{path}: {name}: found {count} files, {size} compiled together, expected no multiple: give it another unity_size")

for folder in sorted(folders):
    parts = folder.split("/")
    if not any(os.path.exists(os.path.join(root, *parts[:n], "README.md")) for n in range(len(parts), max(len(parts) - (4 if folder.startswith("tests/abi/") else 2), 0), -1)):
        problems.append(f"{folder}: no README.md here or one folder up")
leftovers = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
for path in sources:
    text = read(path)
    for number, line in enumerate(text.splitlines() if leftovers.search(text) else (), 1):
        if leftovers.search(line):
            problems.append(f"{path}:{number}: {line.strip()}")
    if not path.startswith("tests/golden") and "SPDX-License-Identifier: Apache-2.0" not in text[:200]:
        problems.append(f"{path}: no SPDX line")

for problem in problems:
    print(f"FAILED {problem}")
print(f"{len(sources)} source files, {len(rows)} error ids, {len(problems)} problems")
sys.exit(1 if problems else 0)
