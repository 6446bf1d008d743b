# SPDX-License-Identifier: Apache-2.0
"""Started by tools/bench_htp.sh: session creation on htp, ours and ONNX Runtime's.

bench_htp.py BUILD MODEL.onnx ROUNDS        the measurement
bench_htp.py --theirs MODEL.onnx [OUT]      in a process of its own: makes the EPContext file OUT, or times sessions from one
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

SOC = "SM8650"
SOC_NUMBER = "57"


def session(path, **entries):
    import onnxruntime
    import onnxruntime_qnn

    onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
    devices = [d for d in onnxruntime.get_ep_devices() if d.ep_name == "QNNExecutionProvider"]
    times = []
    for _ in range(1 if entries else 4):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        for key, value in entries.items():
            options.add_session_config_entry("ep." + key, value)
        options.add_provider_for_devices(devices[:1], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "soc_model": SOC_NUMBER})
        begin = time.perf_counter()
        made = onnxruntime.InferenceSession(path, options)
        times.append((time.perf_counter() - begin) * 1e3)
        del made
    return {"first": times[0], "session": statistics.median(times[1:] or times)}


def theirs(*arguments):
    done = subprocess.run([sys.executable, __file__, "--theirs", *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"bench_htp: ONNX Runtime: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), os.uname().machine)


def main(build, model, rounds):
    folder = tempfile.mkdtemp(prefix="quarry-bench-htp-")
    qrm = os.path.join(folder, "model.qrm")
    subprocess.run([os.path.join(build, "tools", "quarry"), "compile", model, "--backend", "htp", "-O", "soc_model=" + SOC, "-o", qrm], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    contexts = {}
    for name, embedded in (("not embedded", "0"), ("embedded", "1")):
        contexts[name] = os.path.join(folder, f"context{embedded}.onnx")
        theirs(model, contexts[name], embedded)
    ours, them = [], {name: [] for name in contexts}
    for _ in range(rounds):
        done = subprocess.run([os.path.join(build, "tests", "bench", "htp-load"), qrm, "9"], capture_output=True, text=True, check=True)
        ours.append(json.loads(done.stdout.strip().splitlines()[-1]))
        for name, path in contexts.items():
            them[name].append(theirs(path))
    middle = lambda rows, key: statistics.median(row[key] for row in rows)
    print(f"\n{os.path.basename(os.path.dirname(model))} for {SOC}, a binary of {ours[0]['binary_bytes'] / 1e6:.1f} MB, {rounds} rounds, on {cpu_name()}; milliseconds\n")
    print("| | first session of a process | the following |\n|---|---|---|")
    print(f"| ours, from .qrm | {middle(ours, 'first'):.1f} | {middle(ours, 'session'):.1f} |")
    print(f"| the library alone: contextCreateFromBinary, and the hash of the bytes | | {middle(ours, 'library'):.1f} + {middle(ours, 'hash'):.1f} |")
    for name, rows in them.items():
        print(f"| ONNX Runtime's QNN provider, EPContext {name} | {middle(rows, 'first'):.1f} | {middle(rows, 'session'):.1f} |")
    print(f"\nours / (the library + hash): {middle(ours, 'ratio'):.2f} (limit 1.15)")
    for name, rows in them.items():
        ratios = [ours[i]["session"] / rows[i]["session"] for i in range(rounds)]
        print(f"ours / ONNX Runtime, {name}: {statistics.median(ratios):.2f} (limit 0.50)")


if __name__ == "__main__":
    if sys.argv[1] == "--theirs":
        if len(sys.argv) == 5:
            print(json.dumps(session(sys.argv[2], **{"context_enable": "1", "context_file_path": sys.argv[3], "context_embed_mode": sys.argv[4]})))
        else:
            print(json.dumps(session(sys.argv[2])))
    else:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
