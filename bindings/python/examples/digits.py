# SPDX-License-Identifier: Apache-2.0
"""Reads handwritten digits: every held-out image of models/digits, compared to its label and to ONNX Runtime's stored scores.

    python digits.py models/digits
"""
import sys

import numpy as np

import quarry


def main(folder: str) -> int:
    images = np.load(f"{folder}/test_images.npy").reshape(-1, 1, 1, 8, 8).astype(np.float32) / 255
    labels = np.load(f"{folder}/test_labels.npy")
    expected = np.load(f"{folder}/ort_scores.npy").reshape(-1, 10)
    with quarry.Session(f"{folder}/digits.onnx") as session:
        scores = np.concatenate([session.run(image)[0] for image in images])
    right = int((scores.argmax(1) == labels).sum())
    same = int((scores.argmax(1) == expected.argmax(1)).sum())
    print(f"{right} of {len(labels)} right ({100 * right / len(labels):.1f} %); {same} answers equal to ONNX Runtime's, "
          f"scores differ by at most {np.abs(scores - expected).max():.1e}")
    return 0 if right * 100 >= len(labels) * 97 and same == len(labels) else 1


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "models/digits"))
    except quarry.Error as error:
        sys.exit(str(error))
