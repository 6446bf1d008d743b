# SPDX-License-Identifier: Apache-2.0
"""What each place of a photograph belongs to: a network that gives scores [1, kinds, height, width], as DeepLab, LR-ASPP
and U-Net do, for pictures normalised as ImageNet's. Kind 0 is the background and stays as it is.

    python segment.py MODEL IMAGE OUT.png [LABELS]
"""
import sys

import numpy as np
from PIL import Image

import quarry

COLOURS = np.array([[255, 64, 64], [64, 220, 64], [80, 140, 255], [255, 200, 0], [230, 80, 230]])


def main(model: str, image_file: str, out: str, labels_file: str = "") -> None:
    image = Image.open(image_file).convert("RGB")
    with quarry.Session(model) as session:
        _, _, height, width = session.inputs[0].shape
        small = np.asarray(image.resize((width, height), Image.Resampling.BILINEAR), np.float32) / 255
        pixels = (small - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
        scores = session.run(np.ascontiguousarray(pixels.transpose(2, 0, 1)[None], np.float32))[0][0]
    labels = open(labels_file, encoding="utf-8").read().splitlines() if labels_file else [str(k) for k in range(len(scores))]
    if len(labels) != len(scores):
        sys.exit(f"segment: found {len(labels)} labels for {len(scores)} kinds")

    # Scores lie over the whole picture, often more coarsely: each pixel has the kind that is best at its place.
    best = scores.argmax(0)
    rows, columns = np.arange(image.height) * best.shape[0] // image.height, np.arange(image.width) * best.shape[1] // image.width
    kinds = best[rows[:, None], columns]
    for kind, count in zip(*np.unique(kinds, return_counts=True)):
        print(f"{labels[kind]} {100 * count / kinds.size:.1f} %")
    photograph = np.asarray(image).astype(int)
    painted = np.where((kinds > 0)[..., None], (photograph + COLOURS[kinds % 5] + 1) // 2, photograph)
    Image.fromarray(painted.astype(np.uint8)).save(out)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:5])
    except quarry.Error as error:
        sys.exit(str(error))
