# SPDX-License-Identifier: Apache-2.0
"""What is in a photograph: a MobileNet of Google's, whose 1001 classes begin with "background".

    python classify.py MODEL LABELS IMAGE...
"""
import sys

import numpy as np
from PIL import Image

import quarry


def main(model: str, labels_file: str, *images: str) -> None:
    with open(labels_file, encoding="utf-8") as file:
        labels = file.read().splitlines()
    with quarry.Session(model) as session:
        _, _, height, width = session.inputs[0].shape
        for path in images:
            image = Image.open(path).convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
            pixels = (np.asarray(image, np.float32) - 128) / 128
            scores = session.run(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None]))[0].ravel()
            if len(labels) != len(scores):
                sys.exit(f"found {len(labels)} labels for {len(scores)} scores")
            best = np.argsort(-scores)[:3]
            print(f"{path}:", ", ".join(f"{labels[i]} {scores[i]:.2f}" for i in best))


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except quarry.Error as error:
        sys.exit(str(error))
