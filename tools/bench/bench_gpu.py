#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the gpu backend on one OpenCL device beside the cpu backend on the same machine. Started by `tools/bench.sh --backend gpu`.

For each generated network: creation of a session from .onnx with an empty cache of the driver's (cold) and from a container (warm), kernels handed over in
a run, and the median run on gpu and on cpu (processes that alternate). Then the kernels that take the longest, summed over all networks, with what they
reach of the device: of the rate at which it copies (Relu of 64 MB) and of the rate of its best product here (MatMul of 1024 x 1024 x 1024). Operations are
counted for products and convolutions (two for each product), bytes as the operands and results that the node has. Writes a page named after the device.
"""
import argparse
import datetime
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get("QUARRY_SHARED", os.path.join(ROOT, "..", "shared"))
NETWORKS = ["squeezenet11", "mobilenet_v2", "resnet18", "resnet50", "vit_b16", "bert_base_128"]
WARM = 0.2  # of the cold creation, at most


def arguments():
    parser = argparse.ArgumentParser(prog="tools/bench.sh --backend gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--generator", default=os.path.join(SHARED, "bench", "gen_models.py"), help="makes the networks: FILE --out DIR NAME...")
    parser.add_argument("--models", metavar="DIR", help="folder with the networks as NAME.onnx instead")
    parser.add_argument("--only", nargs="+", default=NETWORKS, metavar="NAME", help="these networks only")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each backend that alternate (default: 3)")
    parser.add_argument("--seconds", type=float, default=2, help="of timed runs in each (default: 2)")
    parser.add_argument("--option", "-O", action="append", default=[], metavar="KEY=VALUE", help="option for sessions on gpu")
    parser.add_argument("--out", metavar="DIR", default=os.path.join(ROOT, "docs", "performance"), help="folder for the page")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a warm creation takes more than a fifth of the cold one")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def device_name(program):
    """What doctor says of the first usable device of gpu."""
    for backend in json.loads(run([program, "doctor", "--json"]))["backends"]:
        for device in backend.get("devices", []):
            if backend["id"] == "gpu" and device.get("usable"):
                return device["name"], device.get("details", "")
    sys.exit("gpu: found no usable OpenCL device (`quarry doctor` says why)")


BYTES = {"f64": 8, "i64": 8, "u64": 8, "f32": 4, "i32": 4, "u32": 4, "f16": 2, "bf16": 2, "i16": 2, "u16": 2}  # others: 1


def tensors(text):
    """"1x3x8 f32, 4 f32" as [(shape, bytes)]."""
    found = []
    for extents, dtype in re.findall(r"([0-9x]*) ?\b([a-z]+[0-9]+|bool)\b", text):
        dims = [int(extent) for extent in extents.split("x") if extent]
        found.append((dims, math.prod(dims) * BYTES.get(dtype, 1)))
    return found


def work_of(node):
    """(operations, bytes) of a node of a profile; no operations: it is no product."""
    before, _, behind = node.get("shapes", "").partition(" -> ")
    inputs, outputs = tensors(before), tensors(behind)
    if not outputs:
        return 0, 0
    moved = sum(size for _, size in inputs + outputs)
    result, operator = math.prod(outputs[0][0]), node["operator"]
    is_product = node.get("kernel", "").startswith(("conv", "matmul"))
    if operator in ("Conv", "ConvTranspose", "Gemm", "MatMul") and not is_product:  # lays an operand out: what the node says is not its own
        return 0, 0
    if len(inputs) < 2 or not is_product:
        return 0, moved
    first, second = inputs[0][0], inputs[1][0]
    if operator == "Conv":
        return 2 * result * math.prod(second[1:]), moved
    if operator == "ConvTranspose":
        return 2 * math.prod(first) * math.prod(second[1:]), moved
    if operator == "Gemm":
        return 2 * math.prod(second) * outputs[0][0][0], moved
    if operator == "MatMul" and first:
        return 2 * result * first[-1], moved
    return 0, moved


def rates(args):
    """What the device reaches: (bytes a second of a copy, operations a second of a product)."""
    import numpy
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    def longest(name, node, inputs, outputs, constants=()):
        graph = helper.make_graph([node], name, [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in inputs],
                                  [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in outputs], list(constants))
        path = os.path.join(args.work, name + ".onnx")
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        cache = tempfile.mkdtemp(dir=args.work)
        try:
            nodes = bench(args, path, "gpu", cache, ["--profile"])["profile"]["tables"][0]["nodes"]
        finally:
            shutil.rmtree(cache, ignore_errors=True)
        return max(nodes, key=lambda n: n["ms"])

    side, count = 1024, 16 << 20
    copy = longest("probe_copy", helper.make_node("Relu", ["x"], ["y"]), [("x", [count])], [("y", [count])])
    weights = numpy_helper.from_array(numpy.ones((side, side), numpy.float32), "w")
    product = longest("probe_product", helper.make_node("MatMul", ["x", "w"], ["y"]), [("x", [side, side])], [("y", [side, side])], [weights])
    return 2 * 4 * count / copy["ms"] * 1e3, 2 * side**3 / product["ms"] * 1e3


def with_cache(folder):
    """The environment in which PoCL and NVIDIA's driver keep what they compiled in `folder`."""
    return dict(os.environ, POCL_CACHE_DIR=folder, CUDA_CACHE_PATH=folder)


def bench(args, model, backend, cache, more=()):
    command = [args.program, "bench", model, "--backend", backend, "--duration", str(args.seconds), "--json", "-", *more]
    for option in args.option if backend == "gpu" else []:
        command += ["--option", option]
    return json.loads(run(command, env=with_cache(cache)))


def measure(args, name, model, kernels):
    cache = tempfile.mkdtemp(dir=args.work)  # of the driver: empty
    try:
        first = bench(args, model, "gpu", cache, ["--profile"])
        container = os.path.join(args.work, name + "-gpu.qrm")
        command = [args.program, "compile", model, "--backend", "gpu", "-o", container]
        run(command + [part for option in args.option for part in ("--option", option)], env=with_cache(cache))
        rounds = [(bench(args, container, "gpu", cache), bench(args, model, "cpu", cache)) for _ in range(args.rounds)]
    finally:
        shutil.rmtree(cache, ignore_errors=True)
    for table in first["profile"]["tables"]:
        for node in table["nodes"]:
            entry = kernels.setdefault(node.get("kernel", "?"), {"ms": 0.0, "worst": 0.0, "where": "", "operations": 0, "bytes": 0})
            operations, moved = work_of(node)
            entry["ms"] += node["ms"]
            entry["operations"] += operations
            entry["bytes"] += moved
            if node["ms"] > entry["worst"]:
                entry["worst"], entry["where"] = node["ms"], f"{name}, {node['operator']} {node.get('shapes', '')}"
    gpu = statistics.median(r[0]["median_ms"] for r in rounds)
    cpu = statistics.median(r[1]["median_ms"] for r in rounds)
    ratio = statistics.median(r[0]["median_ms"] / r[1]["median_ms"] for r in rounds)
    return {"network": name, "cold_ms": first["create_ms"] + first["first_ms"], "warm_ms": rounds[0][0]["create_ms"] + rounds[0][0]["first_ms"],
            "cold_create_ms": first["create_ms"], "warm_create_ms": statistics.median(r[0]["create_ms"] for r in rounds),
            "launches": first["kernels"]["launches"], "steps": first["kernels"]["nodes"], "gpu_ms": gpu, "cpu_ms": cpu, "ratio": ratio}


def main():
    args = arguments()
    os.makedirs(args.work, exist_ok=True)
    name, details = device_name(args.program)
    folder = args.models or args.work
    if not args.models:
        run([sys.executable, args.generator, "--out", args.work, *args.only])
    rows, kernels = [], {}
    bandwidth, product_rate = rates(args)
    print(f"copies {bandwidth / 1e9:.1f} GB/s, products {product_rate / 1e9:.1f} GFLOP/s", flush=True)
    for network in args.only:
        model = os.path.join(folder, network + ".onnx")
        if not os.path.exists(model):
            continue
        rows.append(measure(args, network, model, kernels))
        print("{network}: cold {cold_create_ms:.0f} ms, warm {warm_create_ms:.0f} ms, {launches:.0f} launches, gpu {gpu_ms:.1f} ms, cpu {cpu_ms:.1f} ms, ratio {ratio:.2f}".format(**rows[-1]), flush=True)
    page = os.path.join(args.out, "gpu-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") + ".md")
    kept = ""
    if os.path.exists(page):
        with open(page, encoding="utf-8") as handle:
            # What stands behind the last table.
            kept = re.split(r"\n\|[^\n]*\|\n\n", handle.read().partition("## The worst kernels")[2])[-1]
    lines = [f"# gpu on {name}", "", f"Measured by `tools/bench.sh --backend gpu` on {datetime.date.today()}: " + "; ".join(details.split("\n")[2:4]) + ".", "",
             "| network | create, cold | create, warm | warm / cold | kernels a run | steps | run on gpu | run on cpu | gpu / cpu |", "|---|---|---|---|---|---|---|---|---|"]
    for row in rows:
        lines.append("| {network} | {cold_create_ms:.0f} ms | {warm_create_ms:.1f} ms | {part:.3f} | {launches:.0f} | {steps} | {gpu_ms:.2f} ms | {cpu_ms:.2f} ms | {ratio:.2f} |".format(
            part=row["warm_create_ms"] / row["cold_create_ms"], **row))
    lines += ["", f"Geometric mean of gpu / cpu: {math.exp(statistics.fmean(math.log(row['ratio']) for row in rows)):.2f}. Cold: from .onnx, nothing compiled before. Warm: from a container.", "",
              "## The worst kernels", "", f"The device copies {bandwidth / 1e9:.1f} GB/s (Relu of 64 MB), and its best product here does {product_rate / 1e9:.1f} GFLOP/s (MatMul of 1024 x 1024 x 1024).", "",
              "| kernel | ms in a run of each network | GFLOP/s | of the product's rate | GB/s | of the copy's rate | the longest node |", "|---|---|---|---|---|---|---|"]
    for kernel, entry in sorted(kernels.items(), key=lambda item: -item[1]["ms"])[:6]:
        operations, moved = entry["operations"] / entry["ms"] * 1e3, entry["bytes"] / entry["ms"] * 1e3
        lines.append(f"| {kernel} | {entry['ms']:.1f} | {operations / 1e9:.1f} | {operations / product_rate:.0%} | {moved / 1e9:.1f} | {moved / bandwidth:.0%} | {entry['worst']:.2f} ms: {entry['where']} |")
    lines += ["", kept.strip() or "(Explained by hand here.)", ""]
    os.makedirs(args.out, exist_ok=True)
    with open(page, "w", encoding="utf-8") as handle:
        handle.write("\n".join(lines))
    print(f"{page} written")
    missed = [row["network"] for row in rows if row["warm_create_ms"] > WARM * row["cold_create_ms"]]
    if missed:
        print(f"warm creation takes more than a fifth of the cold one: {', '.join(missed)}")
    sys.exit(1 if args.check and missed else 0)


main()
