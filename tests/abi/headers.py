# SPDX-License-Identifier: Apache-2.0
"""Reads the public headers: a small parser of the C that they are written in (one declaration per field, `typedef struct name {...} name;`)."""
import os
import re
import subprocess
import tempfile

# Of this build alone, or of the release: no part of the binary interface.
NOT_RECORDED = re.compile(r"QUARRY_\w+_H|QR_API|QR_MUST_USE|QR_PLUGIN_EXPORT|QR_PLUGIN_FLAVOUR_BIT_\w+|QR_PLUGIN_BUILD_\w+|QR_VERSION_\w+|\w+_INIT")


class Struct:
    def __init__(self, name, frozen):
        self.name, self.frozen, self.fields = name, frozen, []  # fields: (name, type)
        self.size, self.places = 0, {}  # places: name -> (offset, size)

    def grows(self):
        return not self.frozen and bool(self.fields) and self.fields[0][0] == "struct_size"


class Headers:
    def __init__(self):
        self.structs, self.constants, self.texts, self.functions, self.types = {}, {}, {}, {}, {}


def squeezed(text):
    return re.sub(r"\s*([(),;*])\s*", r"\1", re.sub(r"\s+", " ", text)).replace("*", " *").replace(",", ", ").strip()


def nameless(declaration):
    """A signature without the names of its parameters: those are no part of the interface."""
    return re.sub(r"(?<=[ *])[a-z_0-9]+(?=[,)])", "", squeezed(declaration)).replace(" ,", ",").replace(" )", ")")


def field_of(declaration):
    text = squeezed(declaration)
    function = re.search(r"\(\s*\*(\w+)\)", text)
    name = function.group(1) if function else re.search(r"(\w+)(\[\w+\])?$", text).group(1)
    return name, re.sub(r"\s+", " ", nameless(re.sub(rf"\b{name}\b(?=\)|\[|$)", "", text, count=1))).strip()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def parse(folder, names=None):
    found = Headers()
    for header in names or sorted(n for n in os.listdir(folder) if n.endswith(".h")):
        raw = open(os.path.join(folder, header)).read()
        frozen = set()
        for comment, name in re.findall(r"/\*((?:(?!\*/).)*)\*/\s*(?:#define[^\n]*\n)*typedef struct (\w+) \{", raw, re.S):
            if "FROZEN" in comment:
                frozen.add(name)
        text = re.sub(r"\\\n", " ", without_comments(raw))
        for name, value in re.findall(r"^#define (QR_\w+) (.+)$", text, re.M):
            if not NOT_RECORDED.fullmatch(name):
                value = value.strip()
                (found.texts if value.startswith('"') else found.constants)[name] = value
        text = re.sub(r"^\s*#.*$", "", text, flags=re.M).replace('extern "C" {', "")
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", text, re.S):
            found.structs[name] = Struct(name, name in frozen)
            found.structs[name].fields = [field_of(line) for line in body.split(";") if line.strip()]
        text = re.sub(r"typedef struct (\w+) \{.*?\} \1;", "", text, flags=re.S)
        for declaration in text.split(";"):
            declaration = squeezed(declaration)
            if declaration.startswith("QR_API"):
                declaration = declaration.replace("QR_API ", "").replace("QR_MUST_USE ", "")
                found.functions[re.search(r"(\w+)\(", declaration).group(1)] = nameless(declaration)
            elif declaration.startswith("typedef"):
                name = re.search(r"\(\s*\*(\w+)\)", declaration) or re.search(r"(\w+)$", declaration)
                found.types[name.group(1)] = nameless(declaration[len("typedef "):])
    return found


def measure(found, compiler, include_dirs, headers=("quarry.h", "quantize.h", "generate.h", "tokenizer.h", "replay.h", "backend.h")):
    """Fills in sizes, offsets and values: what the compiler says."""
    lines = [f"#include <quarry/{name}>" for name in headers]
    lines += ["#include <stddef.h>", "#include <stdio.h>",
              '#define VALUE(name) (name) < 0 ? printf("%s %lld\\n", #name, (long long)(name)) : printf("%s %llu\\n", #name, (unsigned long long)(name));',
              "int main(void) {"]
    lines += [f"  VALUE({name})" for name in found.constants]
    for struct in found.structs.values():
        lines.append(f'  printf("{struct.name} %zu\\n", sizeof({struct.name}));')
        for name, _ in struct.fields:
            lines.append(f'  printf("{struct.name}.{name} %zu %zu\\n", offsetof({struct.name}, {name}), sizeof((({struct.name} *)0)->{name}));')
    lines += ["  return 0;", "}"]
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "measure")
        source = os.path.join(folder, "measure.c")
        open(source, "w").write("\n".join(lines) + "\n")
        subprocess.run([*compiler.split(), "-w", *[f"-I{d}" for d in include_dirs], source, "-o", program], check=True)
        output = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        name, *numbers = line.split()
        if name in found.constants:
            found.constants[name] = numbers[0]
        elif name in found.structs:
            found.structs[name].size = int(numbers[0])
        else:
            struct, field = name.split(".")
            found.structs[struct].places[field] = (int(numbers[0]), int(numbers[1]))
    return found
