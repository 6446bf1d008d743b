#!/usr/bin/env python3
"""Trains the digits network and writes what is committed beside this script.

A small convolutional network learns scikit-learn's handwritten digits (1797 images of 8x8 pixels, 0..16), in plain NumPy, from a fixed
seed: conv 3x3x16 - ReLU - conv 3x3x32 - ReLU - max-pool 2x2 - dense 64 - ReLU - dense 10. A fifth of the images is held out, never trained on.

    python3 models/digits/train.py          # needs numpy, scikit-learn, onnx, onnxruntime; takes about a minute

Written: digits.onnx; test_images.npy (u8, 0..255), test_labels.npy; ort_scores.npy, ONNX Runtime's scores on the held-out images;
images/digit_N.png, the first held-out image of each digit.
"""
import os
import struct
import zlib

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = os.path.dirname(os.path.abspath(__file__))
rng = np.random.default_rng(20261121)


def patches(x):
    """[N,C,H,W] -> [N,H,W,C*9], 3x3 with zero padding."""
    n, c, h, w = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    columns = np.stack([padded[:, :, i:i + h, j:j + w] for i in range(3) for j in range(3)], axis=2)
    return columns.transpose(0, 3, 4, 1, 2).reshape(n, h, w, c * 9)


def unpatch(grad, shape):
    """The gradient of `patches`."""
    n, c, h, w = shape
    grad = grad.reshape(n, h, w, c, 9).transpose(0, 3, 4, 1, 2)
    out = np.zeros((n, c, h + 2, w + 2), grad.dtype)
    for k in range(9):
        out[:, :, k // 3:k // 3 + h, k % 3:k % 3 + w] += grad[:, :, k]
    return out[:, :, 1:-1, 1:-1]


def init(inputs, outputs):
    return rng.normal(0, np.sqrt(2 / inputs), (inputs, outputs)).astype(np.float32), np.zeros(outputs, np.float32)


class Net:
    def __init__(self):
        (w1, b1), (w2, b2), (w3, b3), (w4, b4) = init(9, 16), init(144, 32), init(512, 64), init(64, 10)
        self.p = [w1, b1, w2, b2, w3, b3, w4, b4]

    def forward(self, x):
        w1, b1, w2, b2, w3, b3, w4, b4 = self.p
        n = len(x)
        self.c1 = patches(x)
        self.a1 = np.maximum(self.c1 @ w1 + b1, 0)
        self.c2 = patches(self.a1.transpose(0, 3, 1, 2))
        self.a2 = np.maximum(self.c2 @ w2 + b2, 0)
        windows = self.a2.transpose(0, 3, 1, 2).reshape(n, 32, 4, 2, 4, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, 32, 4, 4, 4)
        self.best = windows.argmax(-1)
        self.flat = windows.max(-1).reshape(n, 512)
        self.a3 = np.maximum(self.flat @ w3 + b3, 0)
        return self.a3 @ w4 + b4

    def gradients(self, grad):
        w1, b1, w2, b2, w3, b3, w4, b4 = self.p
        n = len(grad)
        gw4, gb4 = self.a3.T @ grad, grad.sum(0)
        grad = (grad @ w4.T) * (self.a3 > 0)
        gw3, gb3 = self.flat.T @ grad, grad.sum(0)
        grad = (grad @ w3.T).reshape(n, 32, 4, 4)
        spread = (np.arange(4) == self.best[..., None]) * grad[..., None]
        grad = spread.reshape(n, 32, 4, 4, 2, 2).transpose(0, 1, 2, 4, 3, 5).reshape(n, 32, 8, 8).transpose(0, 2, 3, 1)
        grad = grad * (self.a2 > 0)
        flat = grad.reshape(-1, 32)
        gw2, gb2 = self.c2.reshape(-1, 144).T @ flat, flat.sum(0)
        grad = unpatch(grad @ w2.T, (n, 16, 8, 8)).transpose(0, 2, 3, 1) * (self.a1 > 0)
        flat = grad.reshape(-1, 16)
        gw1, gb1 = self.c1.reshape(-1, 9).T @ flat, flat.sum(0)
        return [gw1, gb1, gw2, gb2, gw3, gb3, gw4, gb4]


def shifted(x):
    """Each image moved by up to one pixel, as people write."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    moves = rng.integers(0, 3, (len(x), 2))
    return np.stack([padded[i, :, a:a + 8, b:b + 8] for i, (a, b) in enumerate(moves)])


def train(x, y, epochs=40, batch=64):
    net = Net()
    first, second, step = [np.zeros_like(p) for p in net.p], [np.zeros_like(p) for p in net.p], 0
    for epoch in range(epochs):
        rate = 2e-3 * 0.5 * (1 + np.cos(np.pi * epoch / epochs))
        order = rng.permutation(len(x))
        for at in range(0, len(x), batch):
            index = order[at:at + batch]
            scores = net.forward(shifted(x[index]))
            soft = np.exp(scores - scores.max(1, keepdims=True))
            soft /= soft.sum(1, keepdims=True)
            soft[np.arange(len(index)), y[index]] -= 1
            step += 1
            for p, g, m, v in zip(net.p, net.gradients(soft / len(index)), first, second):
                g = g + 1e-4 * p
                m += 0.1 * (g - m)
                v += 0.001 * (g * g - v)
                p -= (rate * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)).astype(np.float32)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: accuracy on the training images {np.mean(net.forward(x).argmax(1) == y):.4f}")
    return net


def export(net):
    w1, b1, w2, b2, w3, b3, w4, b4 = net.p
    tensors = {"conv1.weight": w1.T.reshape(16, 1, 3, 3), "conv1.bias": b1, "conv2.weight": w2.T.reshape(32, 16, 3, 3), "conv2.bias": b2,
               "dense1.weight": w3.T, "dense1.bias": b3, "dense2.weight": w4.T, "dense2.bias": b4}
    pads = {"pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    nodes = [helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["c1"], "conv1", **pads),
             helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
             helper.make_node("Conv", ["r1", "conv2.weight", "conv2.bias"], ["c2"], "conv2", **pads),
             helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
             helper.make_node("MaxPool", ["r2"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
             helper.make_node("Flatten", ["p"], ["f"], "flatten"),
             helper.make_node("Gemm", ["f", "dense1.weight", "dense1.bias"], ["d1"], "dense1", transB=1),
             helper.make_node("Relu", ["d1"], ["r3"], "relu3"),
             helper.make_node("Gemm", ["r3", "dense2.weight", "dense2.bias"], ["scores"], "dense2", transB=1)]
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [1, 10])],
                              [numpy_helper.from_array(np.ascontiguousarray(v, np.float32), k) for k, v in tensors.items()])
    model = helper.make_model(graph, producer_name="quarry models/digits/train.py", opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, os.path.join(HERE, "digits.onnx"))


def write_png(path, image):
    """An 8-bit grey PNG."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width = image.shape
    rows = b"".join(b"\0" + image[y].tobytes() for y in range(height))
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)) +
                  chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def main():
    digits = load_digits()
    pixels = np.round(digits.images * (255 / 16)).astype(np.uint8)  # what an image file holds
    train_x, test_x, train_y, test_y = train_test_split(pixels, digits.target, test_size=0.2, random_state=7, stratify=digits.target)
    as_input = lambda images: (images.astype(np.float32) / 255)[:, None]
    net = train(as_input(train_x), train_y)
    export(net)
    session = onnxruntime.InferenceSession(os.path.join(HERE, "digits.onnx"), providers=["CPUExecutionProvider"])
    scores = np.concatenate([session.run(None, {"image": image[None]})[0] for image in as_input(test_x)])
    print(f"held out: {len(test_x)} images, accuracy {np.mean(scores.argmax(1) == test_y):.4f} (ONNX Runtime {onnxruntime.__version__})")
    np.save(os.path.join(HERE, "test_images.npy"), test_x)
    np.save(os.path.join(HERE, "test_labels.npy"), test_y.astype(np.uint8))
    np.save(os.path.join(HERE, "ort_scores.npy"), scores)
    os.makedirs(os.path.join(HERE, "images"), exist_ok=True)
    for digit in range(10):
        write_png(os.path.join(HERE, "images", f"digit_{digit}.png"), test_x[np.argmax(test_y == digit)])


if __name__ == "__main__":
    main()
