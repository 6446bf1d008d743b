#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The snippets of the docs that are no whole programs: README.md, docs/ and the bindings' READMEs. A piece of code is put into a frame that has the names it
speaks of, compiled against an installed tree and run; a line of the program's is run in a folder with files of the names that it has. A snippet that is in no
list of this file fails, so that none goes stale. (Whole programs: check_docs_code.py, check_pages.py and the bindings' own checks.)

check_snippets.py PREFIX WORK [--python PYTHON]     PREFIX: of `meson install --destdir`; PYTHON: one that has the package `quarry`
"""
import glob
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap

from docs_code import WAYS, environment, root, work
from onnx_file import F32, onnx_file, onnx_node

failed, passed, skipped = [], 0, set()

# ---- frames: what stands before and behind a piece of code
C = """#include <quarry/quarry.h>
#include <stdio.h>
#include <string.h>
static qr_string key(const char *text) { return (qr_string){text, QR_NUL_TERMINATED}; }
#define value key
int main(void) {
  (void)key;
"""
TENSORS = """static float pixels[150528];
qr_tensor image = {.struct_size = sizeof image, .dtype = QR_DTYPE_F32, .rank = 4, .dims = {1, 3, 224, 224}, .data = pixels, .size_bytes = sizeof pixels};
qr_tensor scores = QR_TENSOR_INIT;
"""
ONE = TENSORS + "const qr_tensor *inputs[] = {&image}; qr_tensor *outputs[] = {&scores};\n"
OPENED = """qr_runtime *runtime; qr_model *model; qr_session *session;
qr_status *opened = qr_runtime_create(NULL, &runtime);
if (!opened) opened = qr_model_open(runtime, &(qr_model_source)QR_MODEL_AT("model.onnx"), NULL, NULL, &model);
if (!opened) opened = qr_session_create(model, NULL, NULL, &session);
if (opened) return 2;
"""
STATUS = "qr_status *status = NULL;\n"
C_END = "return status ? (fprintf(stderr, \"%s\\n\", qr_status_message(status)), 1) : 0;\n}\n"
CPP = """#include <quarry/quarry.hpp>
#include <array>
#include <cstdio>
#include <string>
#include <vector>
[[maybe_unused]] static int report(const qr::Status &status) { std::fprintf(stderr, "%s\\n", status.message()); return 1; }
int main() {
  [[maybe_unused]] std::vector<float> image(150528);
"""
PYTHON = """import asyncio
import numpy as np
import quarry
image = np.zeros((1, 3, 224, 224), np.float32)
samples = [np.random.RandomState(i).rand(1, 3, 224, 224).astype(np.float32) for i in range(3)]
"""
RUST = """use quarry::{Model, Runtime, Session, TensorRef};
fn main() -> quarry::Result<()> {
    let image = vec![0.0f32; 150528];
"""
RUST_QUANTIZE = """use quarry::{Call, Quantizer, Runtime, Target, TensorRef};
fn main() -> quarry::Result<()> {
    let (runtime, mut images) = (Runtime::new()?, vec![vec![0.0f32; 150528]; 2]);
    (images[0][7], images[1][9]) = (1.0, -1.0);
"""
GO = """package main

import (
	"context"
	"log"

	"quarry.dev/quarry"
)

func main() {
	ctx, image := context.Background(), make([]float32, 150528)
"""
GO_QUANTIZE = """package main

import (
	"context"
	"log"

	"quarry.dev/quarry"
	"quarry.dev/quarry/quantize"
)

func main() {
	ctx, images := context.Background(), [][]float32{make([]float32, 150528), make([]float32, 150528)}
	images[0][7], images[1][9] = 1, -1
	runtime, err := quarry.NewRuntime()
	if err != nil {
		log.Fatal(err)
	}
	defer runtime.Close()
"""
# Each piece by its page, language and number among the page's unmarked ones of that language.
FRAMES = {
    ("README.md", "c", 0): (C, C_END.replace("return status", "if (scores.data == NULL) return 3;\nreturn status")),
    # A model that keeps nothing: what it says.
    ("docs/guide.md", "c", 0): (C + ONE + OPENED + STATUS, "return strcmp(qr_status_id(status), \"QR-R0023\");\n}\n"),
    # A model that is no decoder: what it says.
    ("docs/guide.md", "c", 1): ("#include <quarry/generate.h>\n" + C + OPENED + STATUS, "return strcmp(qr_status_id(status), \"QR-R0032\");\n}\n"),
    ("docs/guide.md", "c", 2): (C + OPENED + STATUS, "if (!status && size < 100) return 3;\nqr_string_destroy(data);\n" + C_END),
    ("docs/guide.md", "c", 3): (C + ONE, C_END),
    ("docs/guide.md", "c", 4): (C + TENSORS + OPENED + STATUS + """float room[2][3];
qr_tensor results[2] = {QR_TENSOR_INIT, QR_TENSOR_INIT};
for (int i = 0; i < 2; ++i) results[i].data = room[i], results[i].size_bytes = sizeof room[i];
(void)scores;
const qr_tensor *inputs[2][1] = {{&image}, {&image}};
qr_tensor *outputs[2][1] = {{&results[0]}, {&results[1]}};
""", C_END),
    ("docs/guide.md", "c", 5): (C + OPENED + STATUS, C_END),
    ("docs/guide.md", "c", 6): (C + ONE + OPENED, "return 0;\n}\n"),
    ("docs/guide.md", "c", 7): (C + OPENED + STATUS + "qr_options *options;\nstatus = qr_options_create(runtime, &options);\nif (!status) status =\n", C_END),
    ("docs/embedding.md", "cpp", 0): (CPP, "return outputs.size() == 1 ? 0 : 3;\n}\n"),
    ("docs/embedding.md", "cpp", 1): (CPP, "return 0;\n}\n"),
    ("docs/quantize/program.md", "cpp", 0): ("#include <quarry/quantize.hpp>\n" + CPP + "std::vector<std::vector<float>> images(3, image);\nimages[1][7] = 1, images[2][9] = -1;\n",
                                             "return json.size() > 100 ? 0 : 3;\n}\n"),
    ("docs/quantize/program.md", "go", 0): (GO_QUANTIZE, "if err != nil || len(report) < 100 {\n\t\tlog.Fatal(err)\n\t}\n}\n"),
    ("docs/quantize/program.md", "rust", 0): (RUST_QUANTIZE, "assert!(report.len() > 100);\nOk(())\n}\n"),
    ("docs/embedding.md", "python", 0): (PYTHON, "assert scores.shape == (1, 3)\n"),
    ("docs/embedding.md", "rust", 0): (RUST, "assert_eq!(scores.len(), 3);\nOk(())\n}\n"),
    ("docs/embedding.md", "go", 0): (GO, "if err != nil || len(scores) != 3 {\n\t\tlog.Fatal(err)\n\t}\n}\n"),
    ("bindings/python/README.md", "python", 1): (PYTHON, ""),
    ("bindings/python/README.md", "python", 2): (PYTHON, ""),
    ("bindings/python/README.md", "python", 3): (PYTHON, ""),
}
# Those that another check runs, or nobody can.
ELSEWHERE = {
    ("README.md", "sh", 0): "they are the build and the tests themselves",
    ("docs/cookbook/c.md", "sh", 0): "check_docs_code.py compiles as it says",
    ("docs/cookbook/cpp.md", "sh", 0): "check_docs_code.py compiles as it says",
    ("docs/embedding.md", "sh", 0): "check_pages.py",
    ("docs/packages.md", "sh", 0): "check_pages.py", ("docs/packages.md", "sh", 1): "check_pages.py", ("docs/packages.md", "sh", 2): "check_pages.py",
    ("docs/packages.md", "sh", 3): "check_pages.py", ("docs/packages.md", "sh", 4): "check_pages.py", ("docs/packages.md", "c", 0): "check_pages.py",
    ("docs/performance.md", "sh", 0): "its lines of the program's are run below; tools/bench.sh takes an hour",
    ("docs/quantize.md", "sh", 0): "its lines of the program's are run below",
    ("docs/plugin-author-guide.md", "cpp", 0): "parts of a plugin's functions: backends/null is the whole", ("docs/plugin-author-guide.md", "cpp", 1): "likewise",
    ("bindings/python/README.md", "sh", 0): "check_pages.py", ("bindings/python/README.md", "python", 0): "bindings/python/check.py",
    ("bindings/rust/README.md", "sh", 0): "check_pages.py", ("bindings/rust/README.md", "sh", 1): "bindings/rust/check.py",
    ("bindings/rust/README.md", "rust", 0): "bindings/rust/check.py",
    ("bindings/go/README.md", "sh", 0): "check_pages.py", ("bindings/go/README.md", "sh", 1): "bindings/go/check.py", ("bindings/go/README.md", "go", 0): "bindings/go/check.py",
    ("bindings/java/README.md", "sh", 0): "bindings/java/check.py builds the JAR so",
    ("bindings/csharp/README.md", "sh", 0): "bindings/csharp/check.py builds the package so", ("bindings/csharp/README.md", "sh", 1): "bindings/csharp/check.py",
}
PAGES = ["README.md", *sorted(os.path.relpath(p, root) for p in glob.glob(f"{root}/docs/**/*.md", recursive=True)),
         *sorted(os.path.relpath(p, root) for p in glob.glob(f"{root}/bindings/*/README.md"))]
BLOCK = re.compile(r"^(<!-- test -->\n)?```(\w*)\n(.*?)^```$", re.M | re.S)


def complain(where, why):
    failed.append(where)
    print(f"   FAILED {where}: {why}")


def page_text(page):
    with open(f"{root}/{page}", encoding="utf-8") as file:
        return file.read()


def new_folder(name):
    folder = f"{work}/{name}"
    os.makedirs(folder)
    nodes = [onnx_node("GlobalAveragePool", ["input"], ["pooled"], name="pool"), onnx_node("Flatten", ["pooled"], ["scores"], name="flatten")]
    with open(f"{folder}/model.onnx", "wb") as file:
        file.write(onnx_file(nodes, [("input", F32, [1, 3, 224, 224])], [("scores", F32, [1, 3])]))
    shutil.copy(f"{root}/models/digits/digits.onnx", folder)
    for stem in ("model", "digits"):
        subprocess.run(["quarry", "compile", f"{stem}.onnx"], cwd=folder, env=environment, check=True, capture_output=True)
    return folder


def piece(page, language, number, code):
    """Puts the code into its frame and runs it."""
    global passed
    before, behind = FRAMES[page, language, number]
    where = f"{page}, its piece {number + 1} of {language}"
    way, can = WAYS[language]
    if not can():
        skipped.add(language)
        return
    if language == "python":
        # What is for a device of another machine may say that it is not here, and nothing else.
        lines = [f"try: {line}\nexcept quarry.Error as error: assert error.id[:4] in ('QR-B', 'QR-L'), error" if '"htp"' in line else line for line in code.splitlines()]
        code = "\n".join(lines)
        if "await" in code:
            code, behind = "async def snippet():\n" + textwrap.indent(code + "\n" + behind, "    ") + "\nasyncio.run(snippet())\n", ""
        code += "\n"
    try:
        way(new_folder(f"{page.replace('/', '-')[:-3]}-{language}-{number}"), before + code + behind)
        passed += 1
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        complain(where, error)


# ---- lines of the program's
# Files of these names are there; others are made by their ending.
DOES_NOT_RUN_HERE = re.compile(r"htp|gpu|adapter|calls\.qrec|\bfoo\b|yolox|squeezenet|MODEL|\bDIR\b|--target|COMMAND|ID\b|\.\.\.|--mean 0\.485|--resize 256|_ctx")
# What a line says whose words are wrong, whatever there is on this machine.
WRONG_WORDS = re.compile(r"expected a flag|expected a subcommand|too many, expected|did you mean|QR-C0101|expected it once|expected KEY=VALUE|found no value")


def stand_in(folder, word):
    """A file for a word of a line that names one."""
    path = os.path.join(folder, word)
    if os.path.exists(path) or not re.fullmatch(r"[\w./-]+", word):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    digit = f"{root}/models/digits/images/digit_3.png"
    sources = {".png": digit, ".jpg": digit, ".onnx": f"{folder}/model.onnx", ".qrm": f"{folder}/model.qrm"}
    ending = os.path.splitext(word)[1]
    if word.endswith("/"):
        shutil.copytree(f"{root}/models/digits/images", path, dirs_exist_ok=True)
    elif ending in sources:
        shutil.copy(sources[ending], path)
    elif ending in (".txt", ".names"):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(f"class {i}" for i in range(3)))
    elif ending == ".npy":
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3, 224, 224), }"
        with open(path, "wb") as file:
            file.write(b"\x93NUMPY\x01\0" + bytes([len(header), 0]) + header + bytes(4 * 150528))


def program_line(folder, page, line):
    global passed
    line = re.sub(r"\s+#.*", "", line)
    words = shlex.split(line)
    results = {words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-o", "--output", "--json", "--report", "--draw", "--plot", "--resume")}
    for word in words[1:]:
        if word not in results and not word.startswith("-"):
            stand_in(folder, word)
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    runs_here = not DOES_NOT_RUN_HERE.search(line)
    if WRONG_WORDS.search(done.stderr) or (runs_here and done.returncode != 0):
        complain(f"{page}: {line}", f"exit status {done.returncode}\n{done.stderr[-600:]}")
    else:
        passed += 1


if __name__ == "__main__":
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    seen, lines = set(), 0
    for page in PAGES:
        numbers = {}
        folder = None
        for marked, language, code in BLOCK.findall(page_text(page)):
            for line in re.findall(r"^(?:\$ )?(quarry [a-z].*)$", code, re.M):
                if marked or language not in ("", "sh"):
                    continue
                folder = folder or new_folder(page.replace("/", "-")[:-3] + "-lines")
                lines += 1
                program_line(folder, page, line)
            if marked or language not in ("c", "cpp", "python", "rust", "go", "sh"):
                continue
            number = numbers[language] = numbers.get(language, -1) + 1
            seen.add((page, language, number))
            if (page, language, number) in FRAMES:
                piece(page, language, number, code)
            elif (page, language, number) not in ELSEWHERE:
                complain(f"{page}, its piece {number + 1} of {language}", "nobody runs it: put `<!-- test -->` before it, or a frame into tests/integration/check_snippets.py")
    for gone in sorted({*FRAMES, *ELSEWHERE} - seen):
        complain(f"{gone}", "the list has a snippet that is on no page")
    if lines < 25:
        complain("lines of the program's", f"found {lines}, expected 25")
    print(f"   {passed} snippets of the docs ran, {lines} of them lines of the program's, {len(failed)} failed" + (f"; not tried here: {', '.join(sorted(skipped))}" if skipped else ""))
    sys.exit(1 if failed else 0)
