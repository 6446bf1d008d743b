# SPDX-License-Identifier: Apache-2.0
"""ONNX's own backend test suite on quarry.onnx_backend, with the counts of `quarry conform` on the same cases.

onnx_suite.py QUARRY_PROGRAM WORK
"""
import json
import os
import subprocess
import sys
import unittest
import warnings

import numpy as np
import onnx.backend.test

import quarry
import quarry.onnx_backend as backend

warnings.filterwarnings("ignore")  # the cases overflow and divide by zero on purpose
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
program, work = sys.argv[1:3]


class Suite(onnx.backend.test.BackendTest):
    """Checks as `quarry conform` does: of random numbers the type and shape; differences under 1e-5 of the outputs' range agree."""

    @classmethod
    def assert_similar_outputs(cls, ref_outputs, outputs, rtol, atol, model_dir=None):
        if Refusing.random:
            assert [(a.dtype, a.shape) for a in outputs] == [(a.dtype, a.shape) for a in ref_outputs]
            return
        with np.errstate(all="ignore"):
            arrays = [np.asarray(a).astype(np.float64) for a in ref_outputs if getattr(a, "dtype", None) not in (None, np.dtype(object)) and a.dtype.kind != "c"]
        ends = [np.append(a[np.isfinite(a)], 0.0) for a in arrays]
        reach = max([float(e.max() - e.min()) for e in ends], default=0.0)
        super().assert_similar_outputs(ref_outputs, outputs, rtol, max(atol, 1e-5 * reach), model_dir)


class Refusing(backend.Backend):
    """A refusal is a skipped test with its reason: ONNX's runner would count it as passed."""

    random = False  # has the model that was prepared last such operators?

    @classmethod
    def prepare(cls, model, device="CPU", **keywords):
        Refusing.random = any(node.op_type == "Bernoulli" or node.op_type.startswith("Random") for node in model.graph.node)
        try:
            return RefusingModel(super().prepare(model, device, **keywords))
        except (quarry.Unsupported, backend.NotSupported) as error:
            raise unittest.SkipTest(f"refused: {error}")


class RefusingModel:
    def __init__(self, prepared):
        self.prepared = prepared

    def run(self, inputs, **keywords):
        try:
            return self.prepared.run(inputs, **keywords)
        except (quarry.Unsupported, backend.NotSupported) as error:
            raise unittest.SkipTest(f"refused: {error}")


def python_results():
    suite = Suite(Refusing, __name__)
    # The models of `real` are fetched from the network; they are in ../shared/models, which `quarry conform` runs.
    tests = [t for group, case in suite.test_cases.items() if "RealModel" not in group for t in unittest.defaultTestLoader.loadTestsFromTestCase(case)
             if not t.id().endswith("_cuda")]
    outcome = unittest.TestResult()
    names = [t.id().split(".")[-1].removesuffix("_cpu") for t in tests]
    unittest.TestSuite(tests).run(outcome)
    name = lambda t: t.id().split(".")[-1].removesuffix("_cpu")  # noqa: E731
    refused = {name(t): why for t, why in outcome.skipped if why.startswith("refused")}
    skipped = {name(t) for t, why in outcome.skipped if not why.startswith("refused")}
    failed = {name(t): text.strip().splitlines()[-1] for t, text in outcome.failures + outcome.errors}
    found = {n: "refused" if n in refused else "failed" if n in failed else "passed" for n in names if n not in skipped}
    return found, {**refused, **failed}


def program_results():
    subprocess.run([sys.executable, f"{root}/tests/conformance/dump_onnx_node_tests.py", work], check=True, stdout=subprocess.DEVNULL)
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    folders = [f"{work}/node"] + [f"{data}/{name}" for name in ("simple", "pytorch-converted", "pytorch-operator") if os.path.isdir(f"{data}/{name}")]
    subprocess.run([program, "conform", "--json", f"{work}/conform.json", *folders], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {case["name"]: case["result"] for case in json.load(open(f"{work}/conform.json"))["cases"]}


def main():
    found, why = python_results()
    wanted = program_results()
    both = sorted(set(found) & set(wanted))
    differ = [n for n in both if found[n] != wanted[n]]
    for name in differ:
        print(f"FAILED {name}: {found[name]} in Python ({why.get(name, '')[:300]}), {wanted[name]} by quarry conform")
    for name in sorted(set(found) ^ set(wanted)):
        print(f"only {'in Python' if name in found else 'by quarry conform'}: {name}")
    count = lambda results: ", ".join(f"{sum(results[n] == k for n in both)} {k}" for k in ("passed", "failed", "refused"))  # noqa: E731
    print(f"{len(both)} cases of onnx {onnx.__version__}: {count(found)} in Python; {count(wanted)} by quarry conform")
    return 1 if differ or len(both) < 1500 else 0


if __name__ == "__main__":
    sys.exit(main())
