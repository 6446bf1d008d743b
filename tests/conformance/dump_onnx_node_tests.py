#!/usr/bin/env python3
"""Writes the node tests of the installed `onnx` package as folders.

The newest packages build their node tests in code and ship no files. The layout written is ONNX's own:
OUT/node/<case>/model.onnx, test_data_set_*/input_*.pb and output_*.pb, which `quarry conform` reads.
"""
import argparse
import os
import shutil
import sys
import warnings

warnings.filterwarnings("ignore")  # the cases overflow and divide by zero on purpose


def to_proto(value, value_info):
    from onnx import TensorProto, numpy_helper

    kind = value_info.type.WhichOneof("value")
    name = value_info.name
    if isinstance(value, TensorProto):
        return value
    if kind == "sequence_type":
        return numpy_helper.from_list(value, name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, name)
    if kind == "map_type":
        return numpy_helper.from_dict(value, name)
    return numpy_helper.from_array(value, name)


def write_values(folder, prefix, values, infos):
    for index, value in enumerate(values):
        with open(os.path.join(folder, f"{prefix}_{index}.pb"), "wb") as handle:
            handle.write(to_proto(value, infos[index]).SerializeToString())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", help="folder to write; an existing OUT/node is replaced")
    args = parser.parse_args()

    import onnx
    from onnx.backend.test.loader import load_model_tests

    root = os.path.join(args.out, "node")
    shutil.rmtree(root, ignore_errors=True)
    written, failed = 0, []
    for case in load_model_tests(kind="node"):
        folder = os.path.join(root, case.name)
        os.makedirs(folder)
        try:
            with open(os.path.join(folder, "model.onnx"), "wb") as handle:
                handle.write(case.model.SerializeToString())
            for index, (inputs, outputs) in enumerate(case.data_sets):
                data = os.path.join(folder, f"test_data_set_{index}")
                os.makedirs(data)
                write_values(data, "input", inputs, case.model.graph.input)
                write_values(data, "output", outputs, case.model.graph.output)
            written += 1
        except Exception as error:  # a case that onnx itself cannot serialise is reported, never half written
            shutil.rmtree(folder)
            failed.append(f"{case.name}: {error}")
    print(f"onnx {onnx.__version__}: {written} cases written to {root}")
    for line in failed:
        print(f"  not written: {line}", file=sys.stderr)
    return 0 if written else 1


if __name__ == "__main__":
    sys.exit(main())
