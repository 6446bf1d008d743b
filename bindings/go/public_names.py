# SPDX-License-Identifier: Apache-2.0
"""The public names of a Go package, out of what `go doc -all` says: a row for each function, method, type, field and constant."""
import re

SECTION = re.compile(r"^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$")
METHOD = re.compile(r"^func \(\w* ?\*?(\w+)(?:\[.*?\])?\) (\w+)(.*)$")
FUNCTION = re.compile(r"^func (\w+)(.*)$")
FIELD = re.compile(r"^((?:\w+, )*\w+) +(\S.*)$")


def plain(text):
    return re.sub(r"\s+", " ", re.sub(r"\s*//.*$", "", text)).strip()


def declarations(said):
    """Each declaration, of one line or of several; what is written about it is indented by spaces, and left out."""
    kept, block = [], None
    for line in said.splitlines():
        if block is not None:
            block.append(line)
            if line in (")", "}"):
                kept.append(block)
                block = None
        elif re.match(r"(func|type|const|var) ", line):
            if line.endswith(("(", "{")):
                block = [line]
            else:
                kept.append([line])
    return kept


def fields(lines, name):
    for line in filter(None, map(plain, lines)):
        if FIELD.match(line):
            names, kind = FIELD.match(line).groups()
            for field in names.split(", "):
                yield f"{name}.{field}", "field " + kind
        elif re.match(r"\*?(\w+\.)?[A-Z]\w*$", line):
            yield f"{name}.{line.lstrip('*').split('.')[-1]}", "embedded " + line


def type_rows(name, text, body):
    """A type, with the fields of a struct; what an interface asks for stands in its own row, as nothing may be added to that."""
    inline = re.search(r"(struct|interface) ?\{ ?(.*?) ?\}$", text)
    if inline:
        body, text = [part for part in inline[2].split("; ") if part], text[:inline.end(1)]
    text = plain(text.removesuffix("{"))
    row = "type " + text + (" {" + "; ".join(filter(None, map(plain, body))) + "}" if "interface" in text else "")
    return {name: row, **dict([] if "interface" in text else fields(body, name))}


def public_names(said, package):
    rows = {}
    for first, *rest in declarations(said):
        if METHOD.match(first):
            kind, name, signature = METHOD.match(first).groups()
            rows[f"{package}.{kind}.{name}"] = "method " + ("*" if re.match(r"func \(\w* ?\*", first) else "") + signature.strip()
        elif first.startswith("func "):
            name, signature = FUNCTION.match(first).groups()
            rows[f"{package}.{name}"] = "func" + signature
        elif first.startswith("type "):
            name, text = re.match(r"type (\w+) ?(.*)$", first).groups()
            rows.update(type_rows(f"{package}.{name}", text, rest[:-1]))
        else:
            for line in filter(None, map(plain, rest[:-1] if rest else [first.split(" ", 1)[1]])):
                names, _, kind = line.partition(" ")
                rows[f"{package}.{names}"] = first.split(" ")[0] + (" " + kind.split(" = ")[0] if kind and not kind.startswith("=") else "")
    return rows
