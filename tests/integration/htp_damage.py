#!/usr/bin/env python3
"""1,000 damaged containers, in one process: each is refused, or its session has nothing of what was damaged.

htp_damage.py LIBQUARRY CONTAINER OPTION=VALUE...
"""
import ctypes
import json
import random
import sys


class String(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_uint64)]


def string(text):
    return String(text.encode(), len(text))


class Source(ctypes.Structure):  # qr_model_source
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("path", String), ("data", ctypes.c_char_p), ("offset", ctypes.c_uint64),
                ("size_bytes", ctypes.c_uint64), ("fd", ctypes.c_int32), ("folder_fd", ctypes.c_int32), ("self", ctypes.c_void_p), ("read", ctypes.c_void_p)]


def in_memory(content):
    return Source(ctypes.sizeof(Source), 2, String(None, 0), content, 0, len(content), -1, -1, None, None)


quarry = ctypes.CDLL(sys.argv[1])
quarry.qr_options_set.argtypes = [ctypes.c_void_p, String, String]
quarry.qr_model_open.argtypes = [ctypes.c_void_p, ctypes.POINTER(Source), ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
quarry.qr_session_create.argtypes = [ctypes.c_void_p] * 4
for name in ("qr_runtime_create", "qr_options_create", "qr_options_set", "qr_model_open", "qr_session_create", "qr_model_inspect"):
    getattr(quarry, name).restype = ctypes.c_void_p
for name in ("qr_model_destroy", "qr_session_destroy", "qr_status_destroy"):
    getattr(quarry, name).argtypes = [ctypes.c_void_p]
    getattr(quarry, name).restype = None
quarry.qr_status_id.restype = ctypes.c_char_p
quarry.qr_status_id.argtypes = [ctypes.c_void_p]

with open(sys.argv[2], "rb") as file:
    whole = file.read()
runtime, options = ctypes.c_void_p(), ctypes.c_void_p()
assert not quarry.qr_runtime_create(None, ctypes.byref(runtime))
assert not quarry.qr_options_create(runtime, ctypes.byref(options))
for pair in sys.argv[3:]:
    key, value = pair.split("=", 1)
    assert not quarry.qr_options_set(options, string(key), string(value))


def attempt(content):
    """The error's id; empty: a session was made."""
    model, session = ctypes.c_void_p(), ctypes.c_void_p()
    status = quarry.qr_model_open(runtime, in_memory(content), options, None, ctypes.byref(model))
    if not status:
        status = quarry.qr_session_create(model, options, None, ctypes.byref(session))
    found = quarry.qr_status_id(status).decode() if status else ""
    if status:
        quarry.qr_status_destroy(status)
    quarry.qr_session_destroy(session)
    quarry.qr_model_destroy(model)
    return found


def segments():
    model, text = ctypes.c_void_p(), ctypes.c_char_p()
    assert not quarry.qr_model_open(runtime, in_memory(whole), options, None, ctypes.byref(model))
    quarry.qr_model_inspect.argtypes = [ctypes.c_void_p] * 3
    assert not quarry.qr_model_inspect(model, None, ctypes.byref(text))
    return [(s["kind"], s["name"], s["offset"], s["size"]) for s in json.loads(text.value)["segments"]]


assert attempt(whole) == "", "the container itself is refused"
vital = [(offset, size) for kind, name, offset, size in segments() if name.startswith("htp")]  # the binary and the blob
random.seed(11)
ids, taken, wrong = {}, 0, []
for round_ in range(1000):
    content = bytearray(whole)
    if round_ % 10 == 9:
        content = content[:random.randrange(len(content))]
        at = -1
    else:
        offset, size = random.choice(vital) if round_ % 10 < 7 else (0, len(whole))
        at = offset + random.randrange(size)
        if round_ % 2:
            content[at] ^= 1 << random.randrange(8)
        else:
            content[at:at + 16] = random.randbytes(min(16, offset + size - at))
    inside = any(offset <= at < offset + size for offset, size in vital)
    found = attempt(bytes(content))
    ids[found] = ids.get(found, 0) + 1
    taken += found == ""
    if found == "" and bytes(content) != whole and (inside or at < 0):
        wrong.append((round_, at))
print(json.dumps({"taken": taken, "taken_with_a_damaged_binary": wrong, "ids": ids}))
sys.exit(1 if wrong else 0)
