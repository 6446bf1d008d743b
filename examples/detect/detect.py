# SPDX-License-Identifier: Apache-2.0
"""Where things are in a photograph: YOLOX (one output: 80 kinds of things), or YuNet (twelve: faces).

    python detect.py MODEL IMAGE OUT.png [LABELS]
"""
import sys
from typing import Dict, List, Tuple

import numpy as np
from PIL import Image, ImageDraw

import quarry

Boxes = Tuple[np.ndarray, np.ndarray, np.ndarray]  # [left, top, right, bottom] each; scores; kinds
COLOURS = ["#ff4040", "#40dc40", "#508cff", "#ffc800", "#e650e6"]


def decode(raw: np.ndarray, size: int, stride: int) -> np.ndarray:
    """A cell of the grid of one stride says: centre from its corner, in strides; size as exponents."""
    columns = size // stride
    cells = np.arange(columns * columns)
    centre = (raw[:, :2] + np.stack([cells % columns, cells // columns], 1)) * stride
    half = np.exp(raw[:, 2:4]) * stride / 2
    return np.concatenate([centre - half, centre + half], 1)


def yolox(output: np.ndarray, size: int) -> Boxes:
    rows = [(size // stride) ** 2 for stride in (8, 16, 32)]
    parts = np.split(output[0], np.cumsum(rows)[:-1])
    boxes = np.concatenate([decode(part, size, stride) for part, stride in zip(parts, (8, 16, 32))])
    scores = output[0, :, 4:5] * output[0, :, 5:]
    return boxes, scores.max(1), scores.argmax(1)


def yunet(outputs: Dict[str, np.ndarray], size: int) -> Boxes:
    boxes = np.concatenate([decode(outputs[f"bbox_{stride}"][0], size, stride) for stride in (8, 16, 32)])
    scores = np.concatenate([np.sqrt(outputs[f"cls_{s}"].clip(0, 1) * outputs[f"obj_{s}"].clip(0, 1)).ravel() for s in (8, 16, 32)])
    return boxes, scores, np.zeros(len(scores), np.int64)


def best_of(found: Boxes, least: float, most: float) -> List[int]:
    """Non-maximum suppression: of boxes of one kind that overlap, the best."""
    boxes, scores, kinds = found
    order = [i for i in np.argsort(-scores) if scores[i] > least]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: List[int] = []
    for i in order:
        def overlap(k: int) -> float:
            low, high = np.maximum(boxes[i, :2], boxes[k, :2]), np.minimum(boxes[i, 2:], boxes[k, 2:])
            both = float(np.prod((high - low).clip(0)))
            return both / float(area[i] + area[k] - both)
        if all(kinds[k] != kinds[i] or overlap(k) <= most for k in kept):
            kept.append(i)
    return kept


def main(model: str, image_file: str, out: str, labels_file: str = "") -> None:
    labels = open(labels_file, encoding="utf-8").read().splitlines() if labels_file else []
    image = Image.open(image_file).convert("RGB")
    with quarry.Session(model) as session:
        size = session.inputs[0].shape[3]
        names = [output.name for output in session.outputs]
        faces = len(names) == 12
        # Letterbox: the whole picture, proportions kept, in the corner at the top left; planes of blue, green, red.
        scale = min(size / image.width, size / image.height)
        small = image.resize((int(image.width * scale), int(image.height * scale)), Image.Resampling.BILINEAR)
        pixels = np.full((1, 3, size, size), 0 if faces else 114, np.float32)
        pixels[0, :, :small.height, :small.width] = np.asarray(small)[:, :, ::-1].transpose(2, 0, 1)
        outputs = dict(zip(names, session.run(pixels)))
    if labels and not faces and len(labels) != outputs[names[0]].shape[2] - 5:
        sys.exit(f"detect: found {len(labels)} labels for {outputs[names[0]].shape[2] - 5} kinds")
    found = yunet(outputs, size) if faces else yolox(outputs[names[0]], size)
    draw = ImageDraw.Draw(image)
    for i in best_of(found, 0.6 if faces else 0.35, 0.3 if faces else 0.45):
        left, top, right, bottom = found[0][i] / scale
        kind = int(found[2][i])
        label = "face" if faces else labels[kind] if labels else str(kind)
        print(f"{label} {found[1][i]:.2f} [{left:.0f},{top:.0f},{right:.0f},{bottom:.0f}]")
        draw.rectangle([left, top, right, bottom], outline=COLOURS[kind % 5], width=3)
        words = f" {label} {found[1][i]:.2f} "
        draw.rectangle(draw.textbbox((left, top), words), fill=COLOURS[kind % 5])
        draw.text((left, top), words, fill="black")
    image.save(out)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:5])
    except quarry.Error as error:
        sys.exit(str(error))
