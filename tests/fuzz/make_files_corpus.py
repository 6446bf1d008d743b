# SPDX-License-Identifier: Apache-2.0
"""Writes the tensors and images of corpus/files, with NumPy, onnx and Pillow. They are committed, so this runs only when they change:
make_files_corpus.py FOLDER"""
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

folder = Path(sys.argv[1])
values = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
for dtype in ("float32", "float16", "uint8", "int64", "bool"):
    np.save(folder / f"{dtype}.npy", values.astype(dtype))
np.save(folder / "scalar.npy", np.float64(3))
np.save(folder / "empty.npy", np.zeros((0, 3), np.int32))
with open(folder / "version_2.npy", "wb") as out:
    np.lib.format.write_array(out, values, version=(2, 0))
(folder / "raw.pb").write_bytes(numpy_helper.from_array(values, "x").SerializeToString())
for name, dtype, given in (("floats", TensorProto.FLOAT, [1.5, -2, 3]), ("halves", TensorProto.FLOAT16, [1, 2, 3]), ("bytes", TensorProto.UINT8, [1, 2, 255]),
                           ("longs", TensorProto.INT64, [1, -2, 3])):
    (folder / f"{name}.pb").write_bytes(helper.make_tensor(name, dtype, [3], given).SerializeToString())
y, x = np.mgrid[0:9, 0:11]
picture = np.stack([x * 20, y * 25, (x + y) * 10], axis=-1).astype(np.uint8)
colour, grey = Image.fromarray(picture), Image.fromarray(picture[:, :, 0])
colour.save(folder / "colour.png"), grey.save(folder / "grey.png"), colour.quantize(8).save(folder / "palette.png")
colour.convert("RGBA").save(folder / "alpha.png"), grey.convert("1").save(folder / "bits.png")
colour.save(folder / "colour.jpg", quality=80), grey.save(folder / "grey.jpg"), colour.save(folder / "progressive.jpg", progressive=True)
colour.save(folder / "colour.bmp"), grey.save(folder / "grey.bmp"), colour.quantize(8).save(folder / "palette.bmp")
# What once got past the checks.
magic = b"\x93NUMPY\x01\x00"


def npy(header, data=b""):
    return magic + len(header).to_bytes(2, "little") + header + data


(folder / "nothing_after_descr.npy").write_bytes(npy(b"{'descr':"))
(folder / "shape_overflows.npy").write_bytes(npy(b"{'descr': '<f8', 'fortran_order': False, 'shape': (288230376151711745,), }", bytes(8)))
wide = bytearray((folder / "colour.bmp").read_bytes())
wide[18:26] = (40000).to_bytes(4, "little") * 2
(folder / "wide.bmp").write_bytes(wide)
tall = bytearray(wide)
tall[18:26] = (1).to_bytes(4, "little") + (32000).to_bytes(4, "little")
(folder / "tall.bmp").write_bytes(tall)
