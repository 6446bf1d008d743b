# SPDX-License-Identifier: Apache-2.0
"""What mcs cannot be asked for: two builds that are equal, and an assembly of netstandard 2.0.

mcs knows the .NET Framework's assemblies alone, so what it compiles refers to mscorlib 4.0. The package uses nothing of it that netstandard 2.0 has not, and takes nothing
from other assemblies: with the one reference renamed it is what the SDK's compiler would make. The format is ECMA-335, II.24.
"""
import hashlib
import struct
import sys

MSCORLIB = (b"mscorlib", (4, 0, 0, 0), bytes.fromhex("b77a5c561934e089"))
NETSTANDARD = (b"netstandard", (2, 0, 0, 0), bytes.fromhex("cc7b13ffcd2ddd51"))


def streams(data):
    """Of the metadata: name -> (where, size)."""
    root = data.find(b"BSJB")
    if root < 0 or data.find(b"BSJB", root + 1) >= 0:
        sys.exit("FAILED: found no metadata in the assembly, or two, expected one")
    at = root + 16 + struct.unpack_from("<I", data, root + 12)[0]
    found = {}
    for _ in range(struct.unpack_from("<H", data, at + 2)[0]):
        offset, size = struct.unpack_from("<II", data, at + 4)
        end = data.index(b"\0", at + 12)
        found[bytes(data[at + 12:end])] = (root + offset, size)
        at += 8 + (end - (at + 12) + 4) // 4 * 4
    return found


def text_at(data, heap, word):
    """Where a whole name is in the heap of names."""
    begin, size = heap
    at = data.index(b"\0" + word + b"\0", begin, begin + size)
    return at + 1 - begin


def for_netstandard(data):
    """The assembly with netstandard 2.0 in place of mscorlib."""
    data = bytearray(data)
    found = streams(data)
    names, blobs, (tables, size) = found[b"#Strings"], found[b"#Blob"], found[b"#~"]
    wide = data[tables + 6]  # 1: indices of names have four bytes, 4: those of blobs
    row = "<4HI" + ("I" if wide & 4 else "H") + ("I" if wide & 1 else "H")
    name = text_at(data, names, MSCORLIB[0])
    begins = [at for at in range(tables, tables + size - struct.calcsize(row))
              if struct.unpack_from(row, data, at)[:5] == (*MSCORLIB[1], 0) and struct.unpack_from(row, data, at)[6] == name]
    if len(begins) != 1:
        sys.exit(f"FAILED: found {len(begins)} references to mscorlib, expected one")
    token = struct.unpack_from(row, data, begins[0])[5]
    key = blobs[0] + token
    if data[key:key + 9] != b"\x08" + MSCORLIB[2]:
        sys.exit("FAILED: found another key of mscorlib than the .NET Framework's")
    data[key + 1:key + 9] = NETSTANDARD[2]
    struct.pack_into(row, data, begins[0], *NETSTANDARD[1], 0, token, text_at(data, names, NETSTANDARD[0]))
    return repeatable(data)


def repeatable(data):
    """Without the time of the compilation; the module's identity comes from its content."""
    data = bytearray(data)
    header = struct.unpack_from("<I", data, 60)[0]
    struct.pack_into("<I", data, header + 8, 0)
    guids, _ = streams(data)[b"#GUID"]
    data[guids:guids + 16] = bytes(16)
    data[guids:guids + 16] = hashlib.sha256(data).digest()[:16]
    return bytes(data)
