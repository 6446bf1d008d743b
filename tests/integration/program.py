"""What the checks of the `quarry` program share: running it, and counting what was as expected.

Each check file is called with BUILD_DIR SHARED_DIR.
"""
import os
import signal
import struct
import subprocess
import sys
import tempfile
import zlib

build, shared = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
digits = os.path.join(root, "models", "digits")
quarry = os.path.join(build, "tools", "quarry")
environment = {k: v for k, v in os.environ.items() if k != "QUARRY_BACKEND_PATH"}  # a build tree finds its own backends
passed = failed = 0
# Whoever runs this in the background may have had these ignored, and a child inherits that; with a handler it gets the default.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

model = os.path.join(digits, "digits.onnx")
image = os.path.join(digits, "images", "digit_3.png")


def new_folder():
    return tempfile.mkdtemp(prefix="quarry-program-")


def run(*args, **kwargs):
    kwargs.setdefault("stdout", subprocess.PIPE)
    kwargs.setdefault("stderr", subprocess.PIPE)
    return subprocess.run([quarry, *args], text=True, env=kwargs.pop("env", environment), timeout=kwargs.pop("timeout", 300), **kwargs)


def check(name, result, status, *texts):
    """The exit status, and every text in what was printed (stdout and stderr)."""
    printed = (result.stdout or "") + (result.stderr or "")
    missing = [t for t in texts if t not in printed]
    foreign = [t for t in ("std::", "basic_", "iostream", "terminate called", "json.exception") if t in printed]  # texts of the C++ library
    require(name, result.returncode == status and not missing and not foreign,
            f"status {result.returncode} (expected {status}), missing {missing}, not for users {foreign}\n{printed[-2000:]}")
    return result


def require(name, condition, found=""):
    global passed, failed
    passed, failed = passed + bool(condition), failed + (not condition)
    if not condition:
        print(f"   FAILED {name}: {found}")


def has_handler(process, number):
    """Whether a process has a handler for a signal at this moment."""
    try:
        with open(f"/proc/{process.pid}/status") as status:
            caught = next((int(line.split()[1], 16) for line in status if line.startswith("SigCgt")), 0)
    except OSError:
        return False
    return bool(caught & 1 << (number - 1))


# ---- files in ONNX's format, written by hand
def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, payload):  # a length-delimited protobuf field
    return bytes([number << 3 | 2]) + varint(len(payload)) + payload


def onnx_model(op, *initializers, attributes=b"", opset=17, dims=(2,), name=b"n"):
    """y = op(x, initializers...), f32; a dimension is a number or a name."""
    def value(tensor):
        shape = field(2, b"".join(field(1, b"\x08" + varint(d) if isinstance(d, int) else field(2, d.encode())) for d in dims))
        return field(1, tensor) + field(2, field(1, b"\x08\x01" + shape))
    node = field(1, b"x") + b"".join(field(1, tensor) for tensor, _ in initializers) + field(2, b"y") + field(3, name) + field(4, op) + attributes
    graph = field(1, node) + field(2, b"g") + b"".join(field(5, t) for _, t in initializers) + field(11, value(b"x")) + field(12, value(b"y"))
    return b"\x08\x08" + field(7, graph) + field(8, b"\x10" + bytes([opset]))


def tensor_proto(dims, values):
    return b"".join(b"\x08" + varint(d) for d in dims) + b"\x10\x01" + field(9, struct.pack(f"<{len(values)}f", *values))


def floats(path):
    """The f32 values of a .npy."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - 10 - size) // 4}f", data[10 + size:])


def npy(path, dims, values=None, letter="f"):
    """f32, or what a letter of struct says, as NumPy stores them; zeros where no values are given."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    shape = "(" + "".join(f"{d}," for d in dims) + ")"
    header = ("{'descr': '" + {"f": "<f4", "q": "<i8", "Q": "<u8", "i": "<i4"}[letter] + "', 'fortran_order': False, 'shape': " + shape + ", }").encode()
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    count = 1
    for d in dims:
        count *= d
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + (struct.pack(f"<{count}{letter}", *values) if values else bytes(struct.calcsize(f"<{count}{letter}"))))
    return path


# ---- pictures
def png_rows(path):
    """Rows of RGB bytes of a PNG of 8 bits, not interlaced: (bytes, channels) each."""
    with open(path, "rb") as file:
        raw = file.read()
    at, parts = 8, b""
    while at < len(raw):
        size, kind = struct.unpack(">I4s", raw[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", raw[at + 8:at + 18])
        if kind == b"IDAT":
            parts += raw[at + 8:at + 8 + size]
        at += 12 + size
    channels, lines, last = {2: 3, 6: 4}[colour], zlib.decompress(parts), bytes(width * 4)
    for y in range(height):
        line = bytearray(lines[y * (width * channels + 1) + 1:(y + 1) * (width * channels + 1)])
        kind = lines[y * (width * channels + 1)]
        for i in range(len(line)):
            a, b, c = line[i - channels] if i >= channels else 0, last[i], last[i - channels] if i >= channels else 0
            paeth = min((a, b, c), key=lambda v: (abs(a + b - c - v), (a, b, c).index(v)))
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        last = bytes(line)
        yield last, channels


def write_png(path, rows):
    """Rows of (red, green, blue)."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as out:
        out.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 2, 0, 0, 0)) +
                  chunk(b"IDAT", zlib.compress(b"".join(b"\0" + bytes(value for pixel in row for value in pixel) for row in rows))) + chunk(b"IEND", b""))
    return path


def finish():
    print(f"   {passed} checks passed, {failed} failed")
    sys.exit(1 if failed else 0)
