#!/usr/bin/env python3
"""The first minute with the `quarry` program: what it says to somebody who types nothing, or something wrong, and what `bench` says of where it ran.

check_usage.py BUILD_DIR SHARED_DIR
"""
import json
import os
import shutil
import subprocess

from program import build, check, environment, finish, image, model, new_folder, quarry, require, run

folder = new_folder()
qrm, labels = (os.path.join(folder, name) for name in ("digits.qrm", "labels.txt"))
with open(labels, "w") as file:
    file.write("a file that stays\n")

# ---- what to do first
first = check("no arguments", run(), 2, "subcommand", "quarry run MODEL FILE", "quarry compile MODEL", "quarry doctor", "quarry --help")
require("no arguments: nothing on standard output", first.stdout == "", first.stdout)
check("help of a subcommand", run("help", "bench"), 0, "--iterations")
check("help", run("help"), 0, "Subcommands")
check("version", run("version"), 0, "quarry 0.")

# ---- wrong lines: what is expected, what was found, and the way out
WRONG = [
    # words
    (["rum"], "found 'rum'", "did you mean 'run'?"),
    (["bech", model], "found 'bech'", "did you mean 'bench'?"),
    ([model, image], "expected a subcommand", f"quarry run {model} {image}"),
    (["check-model", model], "found 'check-model'", "did you mean 'check'?"),
    (["benchmark", model], "found 'benchmark'", "here it is `quarry bench`"),
    (["help", "rum"], "found 'rum'", "did you mean 'run'?"),
    (["--threads", "0"], "found '--threads' first", "expected a subcommand before it", "quarry run ... --threads"),
    (["--verson"], "found '--verson'", "did you mean '--version'?"),
    (["run"], "found no MODEL", "expected quarry run MODEL", "`quarry run --help`"),
    (["inspect"], "found no MODEL", "expected quarry inspect MODEL"),
    (["conform"], "found no DIR", "expected quarry conform DIR"),
    (["cut", model], "found no --at", "expected quarry cut MODEL --at TENSOR"),
    (["compile", model, image], "found several models and no name", "expected -o FILE"),
    (["replay"], "found no FILE", "expected quarry replay FILE"),
    (["doctor", "please"], "found 'please' too many", "expected no more words"),
    # flags
    (["run", model, image, "--treads", "2"], "found '--treads'", "did you mean '--threads'?"),
    (["run", model, image, "--providers", "cpu"], "found '--providers'", "here it is --backend NAME"),
    (["quantize", model, "--calibrate", "pictures"], "found '--calibrate'", "here it is --calibration DIR|FILE"),
    (["quantize", model, "--calibraton", "pictures"], "found '--calibraton'", "did you mean '--calibration'?"),
    (["run", model, image, "--treads=2"], "found '--treads=2'", "did you mean '--threads'?"),
    (["run", model, image, "-treads", "2"], "found '-treads'", "did you mean '--threads'?"),
    (["run", model, image, "-threads", "2"], "found '-threads'", "expected two dashes: '--threads'"),
    (["run", model, image, "-backend", "cpu"], "found '-backend'", "expected two dashes: '--backend'"),
    (["run", model, image, "-O=threads=2"], "found '-O=threads=2'", "expected '-O threads=2' or '--option=threads=2'"),
    (["run", model, image, "--queue", "2"], "found '--queue'", "`quarry bench` has it"),
    (["run", model, image, "--cpu.isa", "avx2"], "found '--cpu.isa'", "-O KEY=VALUE", "`quarry options`"),
    (["options", "-O", "threads=2"], "found '-O'", "`quarry options --help`"),
    (["bench", model, "--queue", "2", "--sessions", "2"], "--sessions", "expected one of the two"),
    (["run", model, image, "--threads", "1", "--threads", "2"], "--threads: found it 2 times", "expected it once"),
    # values
    (["run", model, image, "--threads", "-1"], "--threads: found '-1'", "expected a whole number from 0 to 1024"),
    (["run", model, image, "--threads", "many"], "--threads: found 'many'", "expected a whole number from 0 to 1024"),
    (["run", model, image, "--threads"], "--threads: found no value", "expected --threads N"),
    (["run", model, image, "--top", "-1"], "--top: found '-1'", "expected a whole number, 0 or more"),
    (["run", model, image, "--fill", "256"], "--fill: found '256'", "expected a whole number from 0 to 255"),
    (["run", model, image, "--letterbox", "left"], "--letterbox: found 'left'", "corner"),
    (["run", model, image, "--draw", "a.png", "--score", "-1"], "--score: found '-1'", "expected"),
    (["run", model, image, "--draw", "a.png", "--overlap", "much"], "--overlap: found 'much'", "expected"),
    (["run", model, image, "--draw", "a.png", "--draw-as", "yolo"], "--draw-as: found 'yolo'", "yolox"),
    (["run", model, image, "--draw", "a.jpg"], "--draw: found 'a.jpg'", "expected a name that ends in .png"),
    (["run", model, image, "--top", "2.5"], "--top: found '2.5'", "expected a whole number"),
    (["run", model, image, "--std", "0"], "--std: found '0'", "expected numbers other than 0"),
    (["run", model, image, "--std", "nan"], "--std: found 'nan'", "expected numbers other than 0"),
    (["run", model, image, "--std", "1,2,3"], "--std: found 3 numbers", "expected 1"),
    (["run", model, image, "--mean", "a"], "--mean: found 'a'", "expected a number"),
    (["run", model, image, "--scale", "1/255"], "--scale: found '1/255'", "expected a number"),
    (["run", model, image, "--layout", "chw"], "--layout: found 'chw'", "expected auto, nchw, nhwc"),
    (["run", model, image, "--save", ""], "found an empty text for --save", "expected --save DIR"),
    (["run", model, image, "-o", "-"], "--save: found '-'", "expected a folder", "--json"),
    (["run", "", image], "found an empty text for model", "expected the name of a file"),
    (["compile", model, "-o", ""], "found an empty text for --output", "expected --output FILE"),
    (["compile", model, "-o", "-", "--profile"], "--profile: found -o -", "expected --profile=FILE"),
    (["cut", model, "--at", "a", "-o", "-", "x.qrm"], "-o: found '-'", "expected a file"),
    (["bench", model, "--iterations", "0"], "--iterations: found '0'", "expected a whole number, 1 or more"),
    (["bench", model, "--duration", "0"], "--duration: found '0'", "expected a number above 0"),
    (["bench", model, "--warmup", "-1"], "--warmup: found '-1'", "expected a whole number, 0 or more"),
    (["bench", model, "--queue", "0"], "--queue: found '0'", "expected a whole number from 1 to 64"),
    (["bench", model, "--json"], "--json: found no value", "expected --json FILE|-"),
    (["view"], "found no MODEL", "expected quarry view MODEL"),
    (["view", model, "--profil", "x.csv"], "found '--profil'", "did you mean '--profile'?"),
    (["view", model, "--profile"], "--profile: found no value", "expected --profile FILE"),
    (["view", model, "--profile", ""], "found an empty text for --profile", "expected --profile FILE"),
    (["view", model, "x.html"], "found 'x.html' too many", "expected no more than MODEL", "to write to it: -o x.html"),
    (["compile", model, "x.qrm"], "found several models and no name", "expected -o FILE", "to write to it: -o x.qrm"),
    (["compile", model, model, "-o", model], f"found '{model}' for --output", "expected another file"),
    (["compile", model, model, "-o", "-"], "-o -: found several models", "expected one"),
    (["view", model, "-o"], "--output: found no value", "expected --output FILE|-"),
    (["view", model, "--json"], "found '--json'", "`quarry view --help`"),
    (["export"], "found no MODEL", "expected quarry export MODEL --output FILE"),
    (["export", model], "found no --output", "expected quarry export MODEL --output FILE"),
    (["export", model, "out.onnx"], "found 'out.onnx' too many", "to write to it: -o out.onnx"),
    (["export", model, "-o", "out.txt"], "-o: found 'out.txt'", "expected a name that ends in .onnx or .json"),
    (["export", model, "-o", os.path.join(folder, "out.txt")], "out.txt'", "expected a name that ends in .onnx or .json"),
    (["export", model, "-o", ""], "found an empty text for --output", "expected --output FILE"),
    (["export", model, "-o", "a.onnx", "-o", "b.onnx"], "--output: found it 2 times", "expected it once"),
    (["bench", model, "--profile", "x.csv"], "found 'x.csv' too many", "to write the events to it: --profile=x.csv"),
    (["bench", model, "--plot", "x.png"], "--plot: found 'x.png'", "expected a name that ends in .svg"),
    (["chat"], "found no MODEL", "expected quarry chat MODEL"),
    (["chat", model, "--temperature", "-1"], "--temperature: found '-1'", "expected"),
    (["chat", model, "--top-k", "-1"], "--top-k: found '-1'", "expected a whole number from 0"),
    (["chat", model, "--top-p", "most"], "--top-p: found 'most'", "expected"),
    (["chat", model, "--min-p", "-0.1"], "--min-p: found '-0.1'", "expected"),
    (["chat", model, "--repetition-penalty", "x"], "--repetition-penalty: found 'x'", "expected"),
    (["chat", model, "--seed", "-1"], "--seed: found '-1'", "expected a whole number, 0 or more"),
    (["chat", model, "--max-tokens", "all"], "--max-tokens: found 'all'", "expected a whole number, 0 or more"),
    (["chat", model, "--temprature", "1"], "found '--temprature'", "did you mean '--temperature'?"),
    (["chat", model, "--template", "alpaca"], "--template: found 'alpaca'", "expected none, chatml, llama3, gemma, or a text with {prompt}"),
    (["chat", model, "--system", "brief"], "--system: found --template none", "expected one with a place for it"),
    (["chat", model, "--ids", "1", "--template", "chatml"], "--template: found no --tokenizer", "expected one, as it is a text"),
    (["chat", model, "--ids", "1,b"], "--ids: found 'b'", "expected tokens: whole numbers from 0 on", "--tokenizer FILE"),
    (["chat", model, "--stop", "END"], "--stop: found no --tokenizer", "expected one, as it is a text", "--stop-token"),
    (["chat", "-"], "found '-' for the model", "expected a file"),
    (["completion", "tcsh"], "found 'tcsh'", "expected bash, zsh, fish"),
    (["completion"], "found no SHELL", "expected quarry completion SHELL"),
    (["conform", os.path.join(folder, "none")], "is no folder", "expected one"),
    (["-V"], "found '-V'", "did you mean '--version'?"),
    # what is read is not written over
    (["view", model, "-o", model], f"found '{model}' for --output", "expected another file", "would overwrite it"),
    (["view", model, "--profile", labels, "-o", labels], f"found '{labels}' for --output", "expected another file"),
    (["export", model, "-o", model], f"found '{model}' for --output", "expected another file", "would overwrite it"),
    (["compile", model, "-o", model], f"found '{model}' for --output", "expected another file", "would overwrite it"),
    (["cut", model, "--at", "a", "-o", "x.qrm", model], f"found '{model}' for --output", "expected another file"),
    (["bench", model, "--json", model], f"found '{model}' for --json", "expected another file", "would overwrite it"),
    (["bench", model, "--input", f"x={labels}", "--json", labels], f"found '{labels}' for --json", "expected another file"),
    (["bench", model, "--json", "e.json", "--profile=e.json"], "found 'e.json' for --", "expected one for each"),
    (["conform", folder, "--json", labels, "--labels"], "found '--labels'", "expected a flag"),
    (["conform", folder, "--timeout", "soon"], "--timeout: found 'soon'", "expected a whole number"),
]
for words, *texts in WRONG:
    result = check(f"quarry {' '.join(words)}", run(*words, stdin=subprocess.DEVNULL, timeout=30), 2, "quarry: ", "found", "expected", *texts)
    require(f"quarry {' '.join(words)}: nothing on standard output", result.stdout == "", result.stdout)
    require(f"quarry {' '.join(words)}: short", len(result.stderr) < 700 and len(result.stderr.splitlines()) <= 2, result.stderr)
require("what is read stays", open(labels).read() == "a file that stays\n" and os.path.getsize(model) > 100_000)
# Options of the library, whose ids stay.
check("a misspelt option", run("run", model, image, "-O", "treads=2"), 3, "QR-C0101", "treads", "threads", "`quarry options`")
check("a list does not swallow the file behind it", run("run", model, "--mean", "0.5", "--std", "0.5", image), 0, "scores")

# ---- what those words do where they make sense
check("--threads 0", run("run", model, image, "--threads", "0"), 0, "scores")
check("--top 0", run("run", model, image, "--top", "0"), 0, "scores")
check("the option warm_up", run("run", model, image, "-O", "warm_up=1"), 0, "scores")
check("the option warm_up, misspelt", run("run", model, image, "-O", "warmup=1"), 3, "QR-C0101", "warm_up")
check("compile", run("compile", model, "-o", qrm), 0)
check("compile a container in its place", run("compile", qrm, "-o", qrm), 0)
check("compile", run("compile", model, "-o", qrm), 0)
piped = subprocess.run([quarry, "compile", model, "-o", "-"], capture_output=True, env=environment, timeout=120)
require("compile -o -: the container is all there is on standard output", piped.returncode == 0 and piped.stdout == open(qrm, "rb").read(),
        (piped.returncode, len(piped.stdout), piped.stderr))
folders = set(os.listdir(folder))
piped = subprocess.run([quarry, "compile", model, "-o", "-"], stdout=open("/dev/full", "wb"), stderr=subprocess.PIPE, text=True, timeout=120,
                       env={**environment, "TMPDIR": folder})
require("compile -o - onto a full disk", piped.returncode == 3 and "standard output" in piped.stderr, (piped.returncode, piped.stderr))
require("compile -o - leaves nothing behind", set(os.listdir(folder)) == folders, os.listdir(folder))

# ---- bench says where it ran
report = json.loads(check("bench --json", run("bench", qrm, "--iterations", "3", "--json", "-"), 0).stdout)
where = report["environment"]
lines = open("/proc/cpuinfo").read().splitlines() if os.path.exists("/proc/cpuinfo") else []
processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
require("bench: processor", processor is None or where["processor"] == processor, where)
require("bench: processors", where["processors_usable"] == len(os.sched_getaffinity(0)) and where["processors_online"] == os.cpu_count(), where)
governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
require("bench: governor", where["governor"] == (open(governor).read().strip() if os.path.exists(governor) else None), where)

require("bench: version", "quarry " + where["version"] == run("--version").stdout.strip(), where)
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True).stdout.strip() if shutil.which("git") else ""
require("bench: commit", where["commit"] == "unknown" or not head or len(where["commit"].split("-")[0]) >= 7, where)
require("bench: peak memory", report["peak_rss_source"] == "VmHWM" and report["peak_rss_kb"] > 1000, report)
pinned = json.loads(run("bench", qrm, "--iterations", "3", "--json", "-", preexec_fn=lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})).stdout)
require("bench: processors that may be used", pinned["environment"]["processors_usable"] == 1 and pinned["threads"] == 1, pinned)
# Without /proc, as in some containers: a namespace of its own, where this user may make one. The linker's $ORIGIN comes from /proc too.
script = f"umount -l /proc && exec '{quarry}' bench '{qrm}' --iterations 3 --json -"
hidden = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True, timeout=120,
                        env={**environment, "QUARRY_BACKEND_PATH": os.path.join(build, "backends", "cpu"),
                             "LD_LIBRARY_PATH": ":".join(os.path.join(build, part) for part in ("runtime", "quantize"))}) if shutil.which("unshare") else None
if hidden and "unshare" not in hidden.stderr and "umount" not in hidden.stderr:
    require("bench without /proc", hidden.returncode == 0, (hidden.returncode, hidden.stderr))
    if hidden.returncode == 0:
        report = json.loads(hidden.stdout)
        require("bench without /proc: peak memory", report["peak_rss_source"] == "ru_maxrss" and report["peak_rss_kb"] > 1000, report)
        require("bench without /proc: what is not known is null", report["environment"]["processor"] is None, report["environment"])
else:
    print("   without /proc: not tried, this user may make no namespace")

shutil.rmtree(folder)
finish()
