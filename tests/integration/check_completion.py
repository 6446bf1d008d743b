#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Completion and manual pages of the program: every shell that is here is asked to complete words, and man is asked to read every page.

check_completion.py BUILD_DIR [SHARED]
"""
import os
import re
import shutil
import subprocess
import sys

build = os.path.abspath(sys.argv[1])
program = f"{build}/tools/quarry"
work = f"{build}/completion"
shutil.rmtree(work, ignore_errors=True)
os.makedirs(f"{work}/files/models")
for name in ("digits.onnx", "a model.onnx"):
    open(f"{work}/files/{name}", "w", encoding="utf-8").close()
# The program by its name, and nothing of the machine's own start files.
environment = {"PATH": f"{build}/tools:/usr/bin:/bin", "HOME": work, "LC_ALL": "C.UTF-8", "TERM": "dumb",
               "QUARRY_BACKEND_PATH": f"{build}/backends/cpu:{build}/backends/cpu-reference"}


def run(*command, status=0, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, **kwargs)
    if status is not None and done.returncode != status:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}, expected {status}\n{done.stdout}{done.stderr}")
    return done


commands = re.findall(r"^  (\w+) ", run(program, "--help").stdout.split("Subcommands:")[1].split("\n\n")[0], re.M)
if len(commands) < 13 or "completion" not in commands or "manual" in commands or "words" in commands:
    sys.exit(f"FAILED: --help names {commands}")
# What is asked, some of the words that must be offered, and one that must not.
CASES = [(["comp"], {"compile", "completion"}, "run"), (["run", "--lay"], {"--layout"}, "--json"), (["run", "--layout", ""], {"auto", "nchw", "nhwc"}, "rgb"),
         (["run", "--layout", "nc"], {"nchw"}, "nhwc"), (["run", "--backend", "cpu"], {"cpu", "cpu-reference"}, "compile"), (["run", "dig"], {"digits.onnx"}, "run"),
         (["run", "digits.onnx", "--sof"], {"--softmax"}, "--save"), (["run", "--save", "mo"], {"models/"}, "digits.onnx"), (["compile", "-O", "thr"], {"threads="}, "--threads"),
         (["completion", "z"], {"zsh"}, "bash"), (["verify", "--qui"], {"--quiet"}, "--json")]
scripts = {}
for shell in ("bash", "zsh", "fish"):
    scripts[shell] = f"{work}/completion.{shell}"
    text = run(program, "completion", shell).stdout
    open(scripts[shell], "w", encoding="utf-8").write(text)
    for command in commands:
        for flag in re.findall(r"(--[a-z][-a-z]+)", "\n".join(line.split("  ")[1] for line in run(program, command, "--help").stdout.splitlines() if line.startswith("  -"))):
            if flag not in text and f"-l {flag[2:]} " not in text and f"-l {flag[2:]}\n" not in text:
                sys.exit(f"FAILED: the completion of {shell} has no {flag} of quarry {command}")


def bash(words):
    script = f'''source {scripts["bash"]}
COMP_WORDS=(quarry "$@"); COMP_CWORD=$#; _quarry 2>/dev/null; printf '%s\\n' "${{COMPREPLY[@]}}"'''
    return {line + "/" if os.path.isdir(f"{work}/files/{line}") else line for line in run("bash", "-c", script, "bash", *words, cwd=f"{work}/files").stdout.split("\n")}


def fish(words):
    line = "quarry " + " ".join(words)
    found = run("fish", "--no-config", "-c", f"source {scripts['fish']}; complete -C {line!r}", cwd=f"{work}/files").stdout
    return {row.split("\t")[0] for row in found.splitlines()}


def zsh_loads():
    """zsh completes in a terminal alone; here it reads the script as its completion system does, and makes the specifications."""
    os.makedirs(f"{work}/zsh", exist_ok=True)
    shutil.copy(scripts["zsh"], f"{work}/zsh/_quarry")
    stand_in = "_arguments() { print -r -- \"$*\" } ; _describe() { print -r -- $commands }"
    found = ""
    for words in ("quarry", "run"):
        script = f"fpath=({work}/zsh $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[quarry]; {stand_in}\n" \
                 f"words=({words}); state=; service=quarry; autoload -Uz _quarry; _quarry; true"
        found += run("zsh", "-f", "-c", script, cwd=f"{work}/files").stdout
    for wanted in ("_quarry\n", "1:command:->command", "--layout=[Where the channels are]:TEXT:(auto nchw nhwc)", "*:FILE:_files"):
        if wanted not in found:
            sys.exit(f"FAILED: zsh reads {found!r}, expected {wanted!r} in it")


for shell, complete in (("bash", bash), ("fish", fish), ("zsh", None)):
    if not shutil.which(shell):
        print(f"   {shell}: not installed, its script was not tried")
        continue
    run(shell, "-n", scripts[shell])
    if shell == "zsh":
        zsh_loads()
    for words, wanted, unwanted in CASES if complete else []:
        found = complete(words)
        if not wanted <= found or unwanted in found:
            sys.exit(f"FAILED: {shell} completes 'quarry {' '.join(words)}' to {sorted(found)}, expected {sorted(wanted)} and not {unwanted}")
    print(f"   {shell}: completes as it should")

pages = f"{work}/man"
os.makedirs(pages)
run(program, "manual", "--all", pages)
if sorted(os.listdir(pages)) != sorted(["quarry.1", *(f"quarry-{command}.1" for command in commands)]):
    sys.exit(f"FAILED: pages of {os.listdir(pages)}, expected one for each of {commands}")
built = {name for name in os.listdir(f"{build}/packaging") if name.endswith(".1")}
if built and built != set(os.listdir(pages)):
    sys.exit(f"FAILED: packaging/meson.build installs {sorted(built)}, the program has pages of {commands}")
if shutil.which("groff"):
    for page in sorted(os.listdir(pages)):
        done = run("groff", "-man", "-Tutf8", "-ww", "-rLL=100n", f"{pages}/{page}")
        if done.stderr:
            sys.exit(f"FAILED: {page}: {done.stderr}")
        if page == "quarry-run.1" and not all(word in re.sub(r".\x08|\x1b\[[0-9;]*m", "", done.stdout) for word in ("quarry run", "--layout TEXT", "auto, nchw, nhwc", "Default: auto")):
            sys.exit(f"FAILED: {page} reads {done.stdout}")
    print(f"   {len(os.listdir(pages))} manual pages, read without a warning")
else:
    print("   groff is not installed: the manual pages were not read")
for arguments, said in ((["completion", "csh"], "bash"), (["manual", "fly"], "fly")):
    if said not in run(program, *arguments, status=2).stderr:
        sys.exit(f"FAILED: quarry {' '.join(arguments)} does not say '{said}'")
