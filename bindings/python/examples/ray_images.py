# SPDX-License-Identifier: Apache-2.0
"""Scores a folder of images with Ray Data: actors that each hold a session, so that a model is loaded once in each.

    python ray_images.py model.onnx FOLDER [ACTORS]

The model takes one image of 1xCxHxW floats. Needs ray (requirements-ray.txt). On a cluster, the model's path is one that all machines see.
"""
import sys
from typing import Dict

import numpy as np
import ray
from PIL import Image

import quarry


class Scorer:
    """Made once in each actor; the session stays there."""

    def __init__(self, model: str) -> None:
        self.session = quarry.Session(model, threads=1)
        _, self.channels, self.height, self.width = self.session.inputs[0].shape

    def __call__(self, batch: Dict[str, np.ndarray]) -> Dict[str, np.ndarray]:
        scores = [self.session.run(self.prepared(image))[0][0] for image in batch["image"]]
        return {"path": batch["path"], "label": np.array([s.argmax() for s in scores]), "score": np.array([s.max() for s in scores])}

    def prepared(self, image: np.ndarray) -> np.ndarray:
        shown = Image.fromarray(image.squeeze()).convert("L" if self.channels == 1 else "RGB").resize((self.width, self.height))
        pixels = np.asarray(shown, np.float32) / 255
        return np.ascontiguousarray(pixels.reshape(self.height, self.width, self.channels).transpose(2, 0, 1)[None])


def main(model: str, folder: str, actors: int = 2) -> None:
    images = ray.data.read_images(folder, include_paths=True)
    scored = images.map_batches(Scorer, fn_constructor_args=(model,), batch_size=16, concurrency=actors)
    for row in sorted(scored.take_all(), key=lambda row: row["path"]):
        print(f"{row['path']}: {row['label']} ({row['score']:.2f})")


if __name__ == "__main__":
    wanted = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    # On this machine alone; each actor takes one of the processors that Ray counts, and reading needs some too.
    ray.init(num_cpus=wanted + 2, include_dashboard=False, log_to_driver=False)
    main(sys.argv[1], sys.argv[2], wanted)
