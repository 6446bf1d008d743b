# SPDX-License-Identifier: Apache-2.0
"""The public items of a crate, out of what rustdoc says as JSON: a row for each, with its signature in Rust's own words."""

KNOWN_FORMAT = 57  # of the JSON: another one has other names


def last(path):
    return path.split("::")[-1]


def arguments(given):
    """<'_, T, Item = U> of a path."""
    if not given:
        return ""
    if "parenthesized" in given:
        inside = given["parenthesized"]
        return f"({', '.join(map(kind, inside['inputs']))})" + (f" -> {kind(inside['output'])}" if inside["output"] else "")
    words = []
    for argument in given.get("angle_bracketed", {}).get("args", []):
        if argument == "infer":
            words.append("_")
        elif "lifetime" in argument:
            words.append(argument["lifetime"])
        else:
            words.append(kind(argument["type"]) if "type" in argument else argument["const"]["expr"])
    for fixed in given.get("angle_bracketed", {}).get("constraints", []):
        how = fixed["binding"]
        words.append(fixed["name"] + (f" = {kind(how['equality']['type'])}" if "equality" in how else ": " + bounds(how["constraint"])))
    return f"<{', '.join(words)}>" if words else ""


def of_trait(trait):
    return last(trait.get("path") or trait.get("name")) + arguments(trait.get("args"))


def bounds(of):
    words = []
    for bound in of:
        if "trait_bound" in bound:
            words.append({"none": "", "maybe": "?", "maybe_const": "~const "}[bound["trait_bound"]["modifier"]] + of_trait(bound["trait_bound"]["trait"]))
        elif "outlives" in bound:
            words.append(bound["outlives"])
        else:
            words.append("use<..>")
    return " + ".join(words)


def reference(of):
    return "&" + (of["lifetime"] + " " if of["lifetime"] else "") + ("mut " if of["is_mutable"] else "") + kind(of["type"])


def qualified(of):
    trait = of["trait"] and (of["trait"].get("path") or of["trait"].get("name"))
    return f"<{kind(of['self_type'])} as {last(trait)}>::{of['name']}" if trait else f"{kind(of['self_type'])}::{of['name']}"


KINDS = {
    "resolved_path": lambda t: of_trait(t),
    "generic": lambda t: t,
    "primitive": lambda t: t,
    "tuple": lambda t: f"({', '.join(map(kind, t))})",
    "slice": lambda t: f"[{kind(t)}]",
    "array": lambda t: f"[{kind(t['type'])}; {t['len']}]",
    "impl_trait": lambda t: "impl " + bounds(t),
    "raw_pointer": lambda t: ("*mut " if t["is_mutable"] else "*const ") + kind(t["type"]),
    "borrowed_ref": reference,
    "dyn_trait": lambda t: "dyn " + " + ".join([of_trait(b["trait"]) for b in t["traits"]] + ([t["lifetime"]] if t["lifetime"] else [])),
    "function_pointer": lambda t: "fn" + call(t["sig"]),
    "qualified_path": qualified,
}


def kind(of):
    (name, rest), = of.items()
    return KINDS[name](rest)


def call(signature):
    words = [f"{name}: {kind(of)}" for name, of in signature["inputs"]]
    return f"({', '.join(words)})" + (f" -> {kind(signature['output'])}" if signature["output"] else "")


def generics(of):
    words = []
    for parameter in of["params"]:
        how = parameter["kind"]
        if "lifetime" in how:
            words.append(parameter["name"])
        elif "type" in how and not how["type"]["is_synthetic"]:
            words.append(parameter["name"] + (": " + bounds(how["type"]["bounds"]) if how["type"]["bounds"] else ""))
        elif "const" in how:
            words.append(f"const {parameter['name']}: {kind(how['const']['type'])}")
    where = [f"{kind(w['bound_predicate']['type'])}: {bounds(w['bound_predicate']['bounds'])}" for w in of["where_predicates"] if "bound_predicate" in w]
    return (f"<{', '.join(words)}>" if words else "") + (" where " + ", ".join(where) if where else "")


class Items:
    """Walks a crate from its root."""

    def __init__(self, said):
        self.index, self.rows = said["index"], {}
        self.visit(str(said["root"]), "")

    def add(self, name, text):
        self.rows[name] = text

    def visit(self, number, path):
        item = self.index.get(str(number))
        if item is None or item["visibility"] not in ("public", "default"):
            return
        (what, inner), = item["inner"].items()
        if what == "use":
            self.used(inner, path)
            return
        name = f"{path}::{item['name']}" if path else item["name"]
        if what == "module":
            for child in inner["items"]:
                self.visit(child, name)
        elif what in ("struct", "enum", "union", "trait"):
            self.type(what, name, item, inner)
        elif what == "function":
            words = [word for word in ("const", "unsafe", "async") if inner["header"].get(f"is_{word}")]
            self.add(name, " ".join([*words, "fn"]) + generics(inner["generics"]) + call(inner["sig"]))
        elif what in ("constant", "static", "assoc_const", "struct_field"):
            self.add(name, f"{what} " + kind(inner["type"] if "type" in inner else inner))
        elif what == "variant":
            self.add(name, what + self.content(inner["kind"]))
        elif what in ("type_alias", "assoc_type"):
            self.add(name, what + (f" {kind(inner['type'])}" if inner.get("type") else ""))
        else:
            self.add(name, what)

    def used(self, inner, path):
        target = inner.get("id")
        if target is not None and str(target) in self.index:
            if inner["is_glob"]:
                for child in self.index[str(target)]["inner"]["module"]["items"]:
                    self.visit(child, path)
                return
            renamed = dict(self.index[str(target)], name=inner["name"], visibility="public")
            self.index = {**self.index, str(target): renamed}
            self.visit(target, path)
        else:
            self.add(f"{path}::{inner['name']}", f"use {inner['source']}")

    def closed(self, what, item, plain, children):
        """The names that nothing may be added to: what users build, match wholly or implement."""
        if "non_exhaustive" in item["attrs"] or (what == "struct" and (not plain or plain["has_stripped_fields"])):
            return ""
        asked = [self.index[str(child)] for child in children]
        if what == "trait":
            asked = [child for child in asked if not child["inner"].get("function", {}).get("has_body")]
        return " {" + ", ".join(child["name"] for child in asked) + "}"

    def type(self, what, name, item, inner):
        plain = inner["kind"].get("plain") if isinstance(inner.get("kind"), dict) else None
        children = inner["items"] if what == "trait" else inner["variants"] if what == "enum" else plain["fields"] if plain else inner.get("fields", [])
        self.add(name, what + generics(inner["generics"]) + (": " + bounds(inner["bounds"]) if inner.get("bounds") else "") + self.closed(what, item, plain, children))
        for child in children:
            self.visit(child, name)
        for number in inner.get("impls", []):
            self.implemented(number, name)

    def content(self, of):
        if of == "plain":
            return ""
        numbers = of["tuple"] if "tuple" in of else of["struct"]["fields"]
        fields = [self.index[str(number)] for number in numbers if number is not None]
        texts = [("" if "tuple" in of else f"{field['name']}: ") + kind(field["inner"]["struct_field"]) for field in fields]
        return f"({', '.join(texts)})"

    def implemented(self, number, name):
        inner = self.index[str(number)]["inner"]["impl"]
        if inner["blanket_impl"] or inner["is_negative"]:
            return
        if inner["trait"] is None:
            for child in inner["items"]:
                self.visit(child, name)
            return
        trait = of_trait(inner["trait"])
        # Who may be on another thread is a promise; the other auto traits are the compiler's own affair.
        if not trait.startswith("Structural") and (not inner["is_synthetic"] or trait in ("Send", "Sync")):
            self.add(f"{name} as {trait}", "impl")


def public_items(said):
    return Items(said).rows
