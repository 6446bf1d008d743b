"""Files in ONNX's format, written by hand: graphs of several nodes with initializers of any type (program.onnx_model has one node and f32)."""
import struct

from program import field, varint

F32, U8, I8, U16, I16, I32, I64, BOOL, F16, F64, U32, U64, BF16, U4, I4 = 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 21, 22


def text(name, value):  # an attribute
    return field(5, field(1, name.encode()) + field(4, value if isinstance(value, bytes) else value.encode()) + b"\xa0\x01\x03")


def number(name, value):
    return field(5, field(1, name.encode()) + b"\x18" + varint(value) + b"\xa0\x01\x02")


def real(name, value):
    return field(5, field(1, name.encode()) + b"\x15" + struct.pack("<f", value) + b"\xa0\x01\x01")


def body(name, nodes, inputs, outputs, initializers=()):  # a graph as an attribute
    return field(5, field(1, name.encode()) + field(6, graph_bytes(nodes, inputs, outputs, (), initializers)) + b"\xa0\x01\x05")


def numbers(name, values):
    return field(5, field(1, name.encode()) + b"".join(b"\x40" + varint(v & (1 << 64) - 1) for v in values) + b"\xa0\x01\x07")


def value_info(name, dtype, dims):
    shape = field(2, b"".join(field(1, b"\x08" + varint(d) if isinstance(d, int) else field(2, d.encode())) for d in dims))
    return field(1, name.encode()) + field(2, field(1, b"\x08" + varint(dtype) + shape))


def onnx_node(op, inputs, outputs, attributes=b"", domain="", name="n"):
    return field(1, b"".join(field(1, i.encode()) for i in inputs) + b"".join(field(2, o.encode()) for o in outputs) + field(3, name.encode()) + field(4, op.encode()) +
                 attributes + field(7, domain.encode()))


def initializer(name, dtype, dims, data):
    return field(5, b"".join(b"\x08" + varint(d) for d in dims) + b"\x10" + varint(dtype) + field(8, name.encode()) + field(9, data))


def initializer_outside(name, dtype, dims, location):  # its data lie in a file of their own
    return field(5, b"".join(b"\x08" + varint(d) for d in dims) + b"\x10" + varint(dtype) + field(8, name.encode()) +
                 field(13, field(1, b"location") + field(2, location.encode())) + b"\x70\x01")


def graph_bytes(nodes, inputs, outputs, between, initializers):
    return b"".join(nodes) + field(2, b"g") + b"".join(initializers) + b"".join(field(11, value_info(*i)) for i in inputs) + \
        b"".join(field(12, value_info(*o)) for o in outputs) + b"".join(field(13, value_info(*v)) for v in between)


def onnx_file(nodes, inputs, outputs, between=(), initializers=(), opset=21):
    """Inputs, outputs and what is between are (name, type, shape)."""
    graph = graph_bytes(nodes, inputs, outputs, between, initializers)
    return b"\x08\x0a" + field(7, graph) + field(8, b"\x10" + varint(opset)) + b"".join(field(8, field(1, domain) + b"\x10\x01") for domain in (b"com.microsoft", b"ai.onnx.ml"))
