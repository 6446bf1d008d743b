#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the bindings take from the headers in include/quarry: declarations for Python's cffi, for Rust and for C#.

generate_bindings.py [--check]      (--check writes nothing and fails where a file is not what the headers say)
"""
import os
import re
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(root, "tests", "abi"))
import headers  # noqa: E402

FOLDER = os.path.join(root, "include", "quarry")
# In the order in which they need each other; backend.h is for plugins.
NAMES = ["version.h", "types.h", "status.h", "runtime.h", "options.h", "signal.h", "target.h", "profile.h", "call.h", "tensor.h", "model.h", "memory.h", "session.h", "state.h", "adapter.h"]
RUST_NAMES = {"self": "self_", "type": "type_"}  # words of the language
RUST_TYPES = {"void": "c_void", "char": "c_char", "uint32_t": "u32", "int32_t": "i32", "uint64_t": "u64", "int64_t": "i64", "float": "f32", "double": "f64"}
CSHARP_TYPES = {"char": "byte", "uint32_t": "uint", "int32_t": "int", "uint64_t": "ulong", "int64_t": "long"}
CSHARP_CONSTANTS = {"u32": "uint", "i32": "int", "u64": "ulong", "i64": "long"}
GENERATED = "Written by tools/generate_bindings.py from include/quarry, never by hand."


def number(text):
    """The value of a constant and the type that its form, or its suffix, gives it."""
    match = re.fullmatch(r"\(?(-?(?:0x[0-9a-f]+|\d+))(u|ll|ull)?\)?", text.strip(), re.I)
    if not match:
        sys.exit(f"FAILED: '{text}' is no plain number")
    return int(match[1], 0), {None: None, "u": "u32", "ll": "i64", "ull": "u64"}[match[2]]


class Declared:
    """What one header declares, in its order: (kind, name, comment, content)."""

    def __init__(self, header):
        self.rows = []
        text = re.sub(r"\\\n", " ", open(os.path.join(FOLDER, header), encoding="utf-8").read())
        token = re.compile(
            r"/\*(?P<comment>.*?)\*/|^#define (?P<macro>QR_\w+) (?P<value>[^\n]+?)(?P<said>[ \t]*/\*[^\n]*\*/)?$|"
            r"typedef struct (?P<struct>\w+) \{(?P<body>.*?)\} (?P=struct);|typedef struct (?P<opaque>\w+) (?P=opaque);|"
            r"typedef int32_t (?P<alias>\w+);|QR_API (?P<function>[^;{]+);", re.S | re.M)
        comment, alias = "", None
        for match in token.finditer(text):
            kind = match.lastgroup if match.lastgroup != "body" else "struct"
            if match["comment"] is not None:
                comment = match["comment"]
                if comment.startswith(("@", " SPDX")):
                    comment = ""
                continue
            if match["macro"]:
                if not headers.NOT_RECORDED.fullmatch(match["macro"]) or match["macro"].startswith("QR_VERSION_"):
                    self.rows.append(("constant", match["macro"], (match["said"] or "").strip(" /*"), (number(match["value"]), alias)))
                continue
            alias = match["alias"]
            if match["struct"]:
                self.rows.append(("struct", match["struct"], comment, self.fields(match["body"])))
            elif match["opaque"]:
                self.rows.append(("opaque", match["opaque"], "", None))
            elif match["alias"]:
                self.rows.append(("alias", match["alias"], comment, None))
            elif match["function"]:
                declaration = headers.squeezed(match["function"].replace("QR_MUST_USE ", ""))
                self.rows.append(("function", re.search(r"(\w+)\(", declaration)[1], comment, declaration))
            else:
                sys.exit(f"FAILED: {header}: {kind}: {match[0]}")
            comment = ""

    @staticmethod
    def fields(body):
        plain = [f"{line}" for line in headers.without_comments(body).split(";") if line.strip()]
        return [headers.squeezed(line) for line in plain]


def declared(*more):
    return [row for name in NAMES + list(more) for row in Declared(name).rows]


def constant_type(name, content):
    """As Rust names it: what its suffix or its alias says, or what the fields are that it is for."""
    (_, suffix), alias = content
    wide = name.startswith("QR_OPTION_") and not name.endswith("_SIZE")
    return suffix or ("i32" if alias else "u64" if wide else "u32")


def recorded(name):
    """Size and offsets of a struct, as tests/abi/abi.txt has them."""
    record = open(os.path.join(root, "tests", "abi", "abi.txt"), encoding="utf-8").read()
    size = re.search(rf"^struct {name} (\d+)", record, re.M)
    if not size:
        sys.exit(f"FAILED: tests/abi/abi.txt has no struct {name}: `ninja -C build abi-record` brings it up to date first")
    return int(size[1]), re.findall(rf"^field {name}\.(\w+) (\d+) ", record, re.M)


# ---- Python: what ffi.cdef takes

def python(rows):
    opaque, lines = set(), []
    for kind, name, _, content in rows:
        if kind == "constant":
            lines.append(f"#define {name} {content[0][0]}")
        elif kind == "alias":
            lines.append(f"typedef int32_t {name};")
        elif kind == "opaque":
            lines.append(f"typedef struct {name} {name};")
        elif kind == "struct":
            opaque.add(name)
            lines += [f"typedef struct {name} {{", *[f"  {field};" for field in content], f"}} {name};"]
        else:
            lines.append(f"{content};")
    return f"// SPDX-License-Identifier: Apache-2.0\n// {GENERATED}\n" + "\n".join(lines) + "\n"


# ---- Rust

def rust_type(text):
    words = [word for word in re.findall(r"\w+|\*", text) if word != "struct"]
    const = words[0] == "const"
    base = words[1] if const else words[0]
    found = RUST_TYPES.get(base, base)
    for word in words[2 if const else 1:]:
        if word == "*":
            found, const = f"*{'const' if const else 'mut'} {found}", False
        elif word == "const":
            const = True
        else:
            sys.exit(f"FAILED: cannot read the type '{text}'")
    return found


def rust_parameters(text):
    found = []
    for parameter in split_parameters(text):
        if parameter == "void":
            continue
        if "(" in parameter:
            name = re.search(r"\( ?\*(\w+)\)", parameter)[1]
            found.append(f"{name}: {rust_function(parameter)}")
        else:
            name = re.search(r"(\w+)$", parameter)[1]
            found.append(f"{RUST_NAMES.get(name, name)}: {rust_type(parameter[:-len(name)])}")
    return ", ".join(found)


def split_parameters(text):
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def rust_function(field):
    match = re.fullmatch(r"(.+?)\( ?\*\w+\)\((.*)\)", field)
    result = "" if match[1].strip() == "void" else f" -> {rust_type(match[1])}"
    return f"Option<unsafe extern \"C\" fn({rust_parameters(match[2])}){result}>"


def rust_field(field):
    if "(" in field:
        return re.search(r"\( ?\*(\w+)\)", field)[1], rust_function(field)
    array = re.search(r"(\w+)\[(\w+)\]$", field)
    if array:
        return array[1], f"[{rust_type(field[:array.start()])}; {array[2]} as usize]"
    name = re.search(r"(\w+)$", field)[1]
    return RUST_NAMES.get(name, name), rust_type(field[:-len(name)])


def rust_comment(comment, indent=""):
    lines = [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
    lines = [line for line in lines if not re.fullmatch(r"-*", line)]
    if not lines:
        return []
    return [f"{indent}/// ```text", *[f"{indent}/// {line}".rstrip() for line in lines], f"{indent}/// ```"]


def rust(rows, uses):
    """uses: what the types that the rows do not declare come from."""
    out = ["// SPDX-License-Identifier: Apache-2.0", f"// {GENERATED}", uses, *([""] if rows[0][0] == "constant" else [])]
    functions, structs = [], {}
    for kind, name, comment, content in rows:
        if kind == "constant":
            (value, _), alias = content
            written = hex(value) if value > 0xffffffff else str(value)
            out += [f"/// {comment.replace('[', '').replace(']', '')}"] if comment else []
            out.append(f"pub const {name}: {alias if alias and not content[0][1] else constant_type(name, content)} = {written};")
        elif kind == "alias":
            out += ["", *rust_comment(comment), f"pub type {name} = i32;"]
        elif kind == "opaque":
            out += ["", "#[repr(C)]", f"pub struct {name} {{", "    _opaque: [u8; 0],", "    _marker: core::marker::PhantomData<(*mut u8, core::marker::PhantomPinned)>,", "}"]
        elif kind == "struct":
            structs[name] = [rust_field(field) for field in content]
            out += ["", *rust_comment(comment), "#[repr(C)]", "#[derive(Clone, Copy)]", f"pub struct {name} {{"]
            out += [f"    pub {field}: {type_}," for field, type_ in structs[name]]
            out.append("}")
        else:
            match = re.fullmatch(r"(.+?)(\w+)\((.*)\)", content)
            result = "" if match[1].strip() == "void" else f" -> {rust_type(match[1])}"
            functions += ["", *rust_comment(comment, "    "), f"    pub fn {name}({rust_parameters(match[3])}){result};"]
    out += ["", "unsafe extern \"C\" {", *functions[1:], "}", "", "/// Sizes and offsets as tests/abi/abi.txt has them: another layout does not compile.", "const _: () = {"]
    for name in structs:
        size, offsets = recorded(name)
        out.append(f"    assert!(size_of::<{name}>() == {size});")
        for field, offset in offsets:
            out.append(f"    assert!(core::mem::offset_of!({name}, {RUST_NAMES.get(field, field)}) == {offset});")
    return "\n".join(out + ["};", ""])


# ---- C#

def csharp_name(name):
    return f"@{name}" if name in ("event", "object", "params", "ref", "string", "base", "in", "out", "is", "lock") else name


def csharp_type(text, opaque):
    """Of pointers the type alone counts; what nobody looks into is an IntPtr."""
    words = [word for word in re.findall(r"\w+|\*", text) if word not in ("struct", "const")]
    stars = words[1:]
    if any(star != "*" for star in stars):
        sys.exit(f"FAILED: cannot read the type '{text}'")
    if words[0] in opaque:
        return "IntPtr" + "*" * (len(stars) - 1)
    return CSHARP_TYPES.get(words[0], words[0]) + "*" * len(stars)


def csharp_parameters(text, opaque):
    found = []
    for parameter in split_parameters(text):
        if parameter == "void":
            continue
        name = re.search(r"\( ?\*(\w+)\)" if "(" in parameter else r"(\w+)$", parameter)[1]
        found.append(f"{'IntPtr' if '(' in parameter else csharp_type(parameter[:-len(name)], opaque)} {csharp_name(name)}")
    return ", ".join(found)


def csharp_struct(name, fields, opaque, sizes):
    """The struct, and a delegate for each function that it points to."""
    lines, delegates = ["    [StructLayout(LayoutKind.Sequential)]", f"    internal unsafe struct {name} {{"], []
    for field in fields:
        array = re.search(r"(\w+)\[(\w+)\]$", field)
        if "(" in field:
            match = re.fullmatch(r"(.+?)\( ?\*(\w+)\)\((.*)\)", field)
            lines.append(f"        public IntPtr {csharp_name(match[2])};")
            delegates += ["", "    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]",
                          f"    internal unsafe delegate {csharp_type(match[1], opaque)} {name}_{match[2]}({csharp_parameters(match[3], opaque)});"]
        elif array:
            lines.append(f"        public fixed {csharp_type(field[:array.start()], opaque)} {array[1]}[{sizes[array[2]]}];")
        else:
            field_name = re.search(r"(\w+)$", field)[1]
            lines.append(f"        public {csharp_type(field[:-len(field_name)], opaque)} {csharp_name(field_name)};")
    return ["", *lines, "    }", *delegates]


def csharp(rows, every, owner="Native"):
    """rows: of the class `owner`; every: what else they name."""
    opaque = {name for kind, name, _, _ in every if kind == "opaque"}
    CSHARP_TYPES.update({name: "int" for kind, name, _, _ in every if kind == "alias"})
    sizes = {name: content[0][0] for kind, name, _, content in every if kind == "constant"}
    constants, functions, structs = [], [], []
    for kind, name, _, content in rows:
        if kind == "constant":
            value = content[0][0]
            constants.append(f"        public const {CSHARP_CONSTANTS[constant_type(name, content)]} {name} = {hex(value) if value > 0xffffffff else value};")
        elif kind == "struct":
            structs += csharp_struct(name, content, opaque, sizes)
        elif kind == "function":
            match = re.fullmatch(r"(.+?)(\w+)\((.*)\)", content)
            functions += ["", "        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]",
                          f"        public static extern {csharp_type(match[1], opaque)} {name}({csharp_parameters(match[3], opaque)});"]
    return "\n".join(["// SPDX-License-Identifier: Apache-2.0", f"// {GENERATED}", "// What each means, and who owns what, say the headers.", "using System;", "using System.Runtime.InteropServices;", "",
                      "#pragma warning disable 649, 169 // fields that only the library sets, and those that nobody looks at", "", "namespace Quarry {",
                      f"    internal static unsafe partial class {owner} {{", *constants, *functions, "    }", *structs, "}", ""])


def csharp_layouts(rows):
    """For a test: another layout of a struct is a broken call."""
    out = ["// SPDX-License-Identifier: Apache-2.0", f"// {GENERATED}", "namespace Quarry {", "    /// <summary>Sizes and offsets as tests/abi/abi.txt has them: a struct, its size, then fields and where they begin.</summary>",
           "    internal static class Layouts {", "        internal static readonly object[][] Rows = {"]
    for kind, name, _, _ in rows:
        if kind == "struct":
            size, offsets = recorded(name)
            out.append(f"            new object[] {{typeof({name}), {size}, {', '.join(f'{chr(34)}{field}{chr(34)}, {offset}' for field, offset in offsets)}}},")
    return "\n".join(out + ["        };", "    }", "}", ""])


def main():
    rows = declared()
    wanted = {"bindings/python/quarry.cdef": python(declared("quantize.h", "generate.h", "tokenizer.h")), "bindings/rust/quarry-sys/src/bindings.rs": rust(rows, "use core::ffi::{c_char, c_void};"),
              "bindings/rust/quarry-sys/src/quantize.rs": rust(Declared("quantize.h").rows, "use crate::bindings::*;\nuse core::ffi::c_char;"),
              "bindings/rust/quarry-sys/src/generate.rs": rust(Declared("generate.h").rows, "use crate::bindings::*;\nuse core::ffi::c_void;"),
              "bindings/csharp/src/Native.cs": csharp(rows, rows), "bindings/csharp/tests/Layouts.cs": csharp_layouts(declared("generate.h", "tokenizer.h"))}
    for part in ("generate", "tokenizer"):  # in libraries of their own
        wanted[f"bindings/csharp/src/Native{part.capitalize()}.cs"] = csharp(Declared(f"{part}.h").rows, declared("generate.h", "tokenizer.h"), f"Native{part.capitalize()}")
    old = []
    for path, text in wanted.items():
        full = os.path.join(root, path)
        if os.path.exists(full) and open(full, encoding="utf-8").read() == text:
            continue
        old.append(path)
        if "--check" not in sys.argv[1:]:
            os.makedirs(os.path.dirname(full), exist_ok=True)
            open(full, "w", encoding="utf-8").write(text)
    if old and "--check" in sys.argv[1:]:
        sys.exit(f"FAILED: not what include/quarry says: {', '.join(old)}; run tools/generate_bindings.py")
    print(f"{len([r for r in rows if r[0] == 'function'])} functions, {len([r for r in rows if r[0] == 'constant'])} constants; {'written: ' + ', '.join(old) if old else 'all up to date'}")


if __name__ == "__main__":
    main()
