#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the folder that mkdocs builds the site from: docs/*.md as they are, the guide cut into pages, a page for each error id, and the reference from
the headers.

make_site.py WORK      writes WORK/src and WORK/mkdocs.yml; WORK/src/api is Doxygen's, where there is one
"""
import os
import posixpath
import re
import shutil
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, os.path.join(root, "tools"))
import generate_bindings  # noqa: E402

# Pages beyond docs/, by their path in the tree and on the site.
ELSEWHERE = {"README.md": "index.md", "ARCHITECTURE.md": "project/architecture.md", "COMPATIBILITY.md": "project/compatibility.md",
             "CONTRIBUTING.md": "project/contributing.md", "SECURITY.md": "project/security.md", "CHANGELOG.md": "project/changelog.md",
             "bindings/python/README.md": "bindings/python/README.md", "bindings/rust/README.md": "bindings/rust/README.md",
             "bindings/go/README.md": "bindings/go/README.md", "bindings/README.md": "bindings/README.md",
             "bindings/tokenizer/README.md": "bindings/tokenizer/README.md", "examples/README.md": "examples/README.md"}
# The pages that docs/guide.md is cut into: file, title, and its headings. A heading that is not named goes with the one above it.
GUIDE = [("ten-minutes", "Ten minutes", ["1. Install", "2. Run a model", "4. Link it"]),
         ("compile", "Compile", ["3. Compile it", "In a process of its own", "While it is in use", "On another machine than it was compiled for"]),
         ("deploy", "Deploy", ["5. Choose the backend when you deploy"]),
         ("profile", "Profile", ["Profiles", "Where the time goes", "How near to the peak"]),
         ("see", "See and export a model", ["See a model", "Take the graph elsewhere"]),
         ("threads", "Threads and queues", ["The first run", "Threads", "Queued runs"]),
         ("generate", "Text generation", ["Text generation"]), ("memory", "Memory", ["Memory"]), ("errors", "Errors", ["Errors"]), ("fork", "fork", ["fork"]),
         ("test", "Test without the device", ["6. Test without the device"])]
# Pages that are one wide table: without a table of contents beside it.
WIDE = {"options.md", "operators.md", "htp_operators.md", "coming-from.md", "comparison.md"}
LANGUAGES = [("c", "C"), ("cpp", "C++"), ("python", "Python"), ("rust", "Rust"), ("go", "Go")]


def read(*parts):
    with open(os.path.join(root, *parts), encoding="utf-8") as file:
        return file.read()


def slug(heading):
    """As Python-Markdown's toc makes it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", re.sub(r"[`*]", "", heading)).strip().lower())


class Site:
    def __init__(self):
        self.pages = {}    # path on the site: text
        self.places = {}   # path in the tree: path on the site
        self.anchors = {}  # (path in the tree, anchor): path on the site, for a file that was cut
        self.extra = []    # nav of pages that are made

    def add(self, source, place):
        self.pages[place], self.places[source] = read(source), place

    # ---- the guide

    def guide(self):
        text = re.sub(r"^# .*\n", "", read("docs", "guide.md"), flags=re.M)
        wanted = [heading for _, _, headings in GUIDE for heading in headings]
        parts, fence, title = {"": []}, False, ""
        for line in text.splitlines():
            fence ^= line.startswith("```")
            heading = line.lstrip("#").strip()
            if not fence and re.match(r"##+ ", line) and heading in wanted:
                title = heading
                parts[title] = []
            else:
                parts[title].append(line)
        if gone := set(wanted) - set(parts):
            sys.exit(f"FAILED: docs/guide.md has no longer the headings {sorted(gone)} that make_site.py cuts it at")
        for name, title, headings in GUIDE:
            place = f"guide/{name}.md"
            out = [f"# {title}"]
            for heading in headings:
                if heading != title and len(headings) > 1 and not (heading == headings[0] and heading.endswith("it")):
                    out += ["", "## " + re.sub(r"^\d\. ", "", heading) + f" {{ #{slug(heading)} }}"]
                out += parts[heading]
                self.anchors["docs/guide.md", slug(heading)] = place
                self.anchors["docs/guide.md", slug(re.sub(r"^\d\. ", "", heading))] = place
                for line in parts[heading]:
                    if re.match(r"###+ ", line):
                        self.anchors["docs/guide.md", slug(line.lstrip("#"))] = place
            self.pages[place] = "\n".join(out) + "\n"
        self.places["docs/guide.md"] = "guide/ten-minutes.md"

    # ---- a page for each error id

    def errors(self):
        text = read("docs", "errors.md")
        intro, table, nav = text[:text.index("\n## ")], [], []
        for area in re.split(r"^## ", text, flags=re.M)[1:]:
            area_name, _, body = area.partition("\n")
            table += ["", f"## {area_name}", "", "| id | what | code |", "|---|---|---|"]
            pages = []
            for entry in re.split(r"^### ", body, flags=re.M)[1:]:
                head, _, rest = entry.partition("\n")
                number, _, name = head.partition(" ")
                code = re.search(r"^\*(\w+)\*$", rest, re.M)[1]
                rest = re.sub(r"^\*\w+\*$\n", "", rest, count=1, flags=re.M).strip()
                example = re.search(r"^For example: (.*)$", rest, re.M)
                hint = re.search(r"^What to do: (.*)$", rest, re.M)
                cause = re.sub(r"^(?:What to do|For example): .*$\n?", "", rest, flags=re.M).strip()
                page = [f"# {number}: {name}", "", f"Code: [`QR_{code}`](../reference/types.md#qr_{code.lower()})", ""]
                page += ["## What it says", "", "```text", f"{number}: {example[1].strip('`')}", "```", ""] if example else []
                if not cause:
                    sys.exit(f"FAILED: docs/errors.md: {number} has no text under its heading: why it comes, and what to do then")
                cause = self.relinked("docs/errors.md", f"errors/{number}.md", cause)
                page += ["## Why", "", cause, ""]
                page += ["## What to do", "", hint[1][0].upper() + hint[1][1:], ""] if hint else []
                page += [f"All ids: [errors](../errors.md). How a program reads an error: [guide](../guide/errors.md).", ""]
                place = f"errors/{number}.md"
                self.pages[place] = "\n".join(page)
                self.anchors["docs/errors.md", slug(head)] = place
                pages.append({f"{number} {name}": place})
                table.append(f"| [{number}](errors/{number}.md) | {name} | {code} |")
            nav.append({area_name: pages})
        self.pages["errors.md"] = intro + "\n" + "\n".join(table) + "\n"
        self.places["docs/errors.md"] = "errors.md"
        return nav

    # ---- the headers

    def reference(self):
        where = {}
        rows = {name: generate_bindings.Declared(name).rows for name in generate_bindings.NAMES}
        for header, declared in rows.items():
            for kind, name, _, _ in declared:
                if kind in ("function", "struct", "constant"):
                    where.setdefault(name, f"{header[:-2]}.md#{name.lower()}")
        for declared in rows.values():
            for kind, name, _, _ in declared:  # objects are described at the head of their page
                if kind == "opaque" and name[3:] + ".h" in rows:
                    where.setdefault(name, f"{name[3:]}.md")
        for header, declared in rows.items():
            page = header[:-2]
            first = re.search(r"\A/\* SPDX[^\n]*\*/\n(?:/\*(.*?)\*/)?", read("include", "quarry", header), re.S)
            about = self.prose(first[1] or "", where, page)
            out = [f"# quarry/{header}", "", about, ""]
            functions = [row for row in declared if row[0] == "function"]
            structs = [row for row in declared if row[0] == "struct"]
            constants = [row for row in declared if row[0] == "constant" and not re.search(r"_(FIRST_SIZE|INIT)$", row[1])]
            if functions:
                out += ["| function | |", "|---|---|"]
                out += [f"| [`{name}`](#{name.lower()}) | {self.brief(comment)} |" for _, name, comment, _ in functions] + [""]
            for _, name, comment, content in functions:
                declaration = content.replace("QR_API ", "").replace("* *", "**")
                if len(declaration) > 100:
                    declaration = declaration.replace("(", "(\n    ", 1).replace(", ", ",\n    ")
                out += [f"## {name}", "", "```c", declaration + ";", "```", "", self.documented(comment, where, page), ""]
            for _, name, comment, content in structs:
                out += [f"## {name}", "", self.prose(comment, where, page), "", "```c", f"typedef struct {name} {{", *[f"  {field};" for field in content], f"}} {name};", "```", ""]
            if constants:
                out += ["## Constants", "", "| name | value | |", "|---|---|---|"]
                out += [f"| <span id=\"{name.lower()}\"></span>`{name}` | {hex(value[0][0]) if value[0][0] > 0xffff else value[0][0]} | {self.cell(comment)} |" for _, name, comment, value in constants] + [""]
            self.pages[f"reference/{page}.md"] = "\n".join(out)
        return where

    @staticmethod
    def plain(comment):
        lines = [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
        return [line for line in lines if not re.fullmatch(r"-+.*-{4,}|-*", line)]

    @staticmethod
    def cell(text):
        text = " ".join(re.sub(r"^ ?\* ?", "", line) for line in text.splitlines())
        return text.strip(" /*").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")

    def brief(self, comment):
        text = self.cell(" ".join(line for line in self.plain(comment) if not line.startswith("@")).split(". ")[0])
        return re.split(r" @\w", text)[0].rstrip(".")

    @staticmethod
    def linked(text, where, page):
        def link(match):
            name = match[0]
            if name not in where or re.search(r"_INIT$", name):
                return f"`{name}`"
            target = where[name].removeprefix(page + ".md") or "#"
            return f"`{name}`" if target == "#" else f"[`{name}`]({target})"
        text = text.replace("<", "&lt;").replace("*", "\\*").replace("[", "\\[")
        return re.sub(r"\b[qQ][rR]_\w+\b", link, text)

    def prose(self, comment, where, page):
        return self.linked("\n".join(self.plain(comment)), where, page)

    def documented(self, comment, where, page):
        """The text of a function's comment, and what is behind its @words as a table."""
        text, rows, tag = [], [], None
        for line in self.plain(comment):
            match = re.match(r"@(\w+)\s*(.*)", line)
            if match:
                rows.append([match[1], match[2]])
            elif rows:
                rows[-1][1] += " " + line.strip()
            else:
                text.append(line)
        out = [self.linked("\n".join(text), where, page), ""]
        names = {"thread": "threads", "errors": "errors", "since": "since", "return": "gives"}
        if rows:
            out += ["| argument | |" if rows[0][0] == "param" else "| | |", "|---|---|"]
            for tag, value in rows:
                if tag == "param":
                    name, _, value = value.partition(" ")
                    tag = f"`{name}`"
                value = self.linked(value.strip().replace("|", "\\|"), where, page)
                out.append(f"| {names.get(tag, tag)} | {value} |")
        return "\n".join(out)

    # ---- links

    def resolve(self, source, place, target):
        """A link of a file in the tree, as the site has it."""
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target) or (not path and source not in ("docs/guide.md", "docs/errors.md")):
            return target
        full = posixpath.normpath(posixpath.join(posixpath.dirname(source), path)) if path else source
        to = self.anchors.get((full, anchor)) or self.places.get(full)
        if full == "docs/errors.md" and (full, anchor) in self.anchors:
            anchor = ""
        # A page of the site alone, as a page of docs/ names it: ../reference/session.md.
        if not to and full.removeprefix("docs/") in self.pages:
            to = full.removeprefix("docs/")
        if not to and os.path.isdir(os.path.join(root, full)):
            beside = full.removeprefix("docs/") + ".md"  # docs/performance/ is introduced by docs/performance.md
            to = self.places.get(full + "/README.md") or (beside if beside in self.pages else None)
        if not to:
            if not os.path.isfile(os.path.join(root, full)):
                sys.exit(f"FAILED: {source}: the link '{target}' leads nowhere")
            to = "files/" + full + (".txt" if full.endswith(".md") else "")  # a file of the tree: it lies beside the pages
            self.places[full] = to
        return posixpath.relpath(to, posixpath.dirname(place) or ".") + ("#" + anchor if anchor else "")

    def relinked(self, source, place, text):
        pieces = re.split(r"(^```.*?^```$|`[^`\n]*`)", text, flags=re.M | re.S)
        for i in range(0, len(pieces), 2):  # what is no code
            pieces[i] = re.sub(r"\]\(([^)\s]+)\)", lambda m: f"]({self.resolve(source, place, m[1])})", pieces[i])
        return "".join(pieces)

    def write(self, work):
        source_of = {place: source for source, place in self.places.items()}
        source_of.update({f"guide/{name}.md": "docs/guide.md" for name, _, _ in GUIDE})
        source = os.path.join(work, "src")
        for place, text in self.pages.items():
            if place in source_of and not place.startswith("errors"):
                text = self.relinked(source_of[place], place, text)
            text = re.sub(r"^<!-- test -->\n", "", text, flags=re.M)
            if place in WIDE or place.startswith("performance/"):
                text = "---\nhide: [toc]\n---\n" + text
            os.makedirs(os.path.dirname(os.path.join(source, place)), exist_ok=True)
            with open(os.path.join(source, place), "w", encoding="utf-8") as file:
                file.write(text)
        for origin, place in self.places.items():
            if place.startswith("files/") or not place.endswith(".md"):
                os.makedirs(os.path.dirname(os.path.join(source, place)), exist_ok=True)
                shutil.copy(os.path.join(root, origin), os.path.join(source, place))


def nav_text(items, indent=0):
    out = []
    for item in items:
        (title, content), = item.items()
        if isinstance(content, str):
            out.append(f"{' ' * indent}- \"{title}\": {content}")
        else:
            out += [f"{' ' * indent}- \"{title}\":", *nav_text(content, indent + 4)]
    return out


def main():
    work = os.path.abspath(sys.argv[1])
    site = Site()
    api = os.path.isdir(os.path.join(work, "src", "api"))
    for source, place in ELSEWHERE.items():
        site.add(source, place)
    for folder, _, names in os.walk(os.path.join(root, "docs")):
        for name in names:
            source = os.path.relpath(os.path.join(folder, name), root).replace(os.sep, "/")
            if source in ("docs/guide.md", "docs/errors.md"):
                continue
            if name.endswith(".md"):
                site.add(source, source[5:])
            elif name.endswith((".svg", ".png")):
                site.places[source] = source[5:]
    site.guide()
    error_nav = site.errors()
    site.reference()
    site.write(work)
    shutil.copy(os.path.join(here, "site.css"), os.path.join(work, "src", "site.css"))
    measured = sorted(page for page in site.pages if page.startswith("performance/"))
    title = lambda page: re.search(r"^# (.*)", site.pages[page], re.M)[1]
    reference = [{f"quarry/{name}": f"reference/{name[:-2]}.md"} for name in generate_bindings.NAMES]
    nav = [{"Quarry": [{"Quarry": "index.md"}, {"Beside others": "comparison.md"}, {"What there is": "state.md"}]},
           {"Guide": [{title_: f"guide/{name}.md"} for name, title_, _ in GUIDE] + [{"Quantise": [{"A model": "quantize.md"}, {"Types": "quantize/types.md"}, {"Ranges and weights": "quantize/ranges.md"}, {"In a program": "quantize/program.md"}]},
                       {"Adapters (LoRA)": "adapters.md"}, {"Embedding": "embedding.md"}, {"Coming from another runtime": "coming-from.md"}]},
           {"Cookbook": [{language: f"cookbook/{name}.md"} for name, language in LANGUAGES] +
            [{"Packages": [{"All": "bindings/README.md"}, {"Python": "bindings/python/README.md"}, {"Rust": "bindings/rust/README.md"}, {"Go": "bindings/go/README.md"}]}, {"Whole programs": "examples/README.md"}]},
           {"Reference": [{"Options": "options.md"}, {"Operators": "operators.md"}, {"C headers": reference},
                          {"File formats": [{"Container": "formats/qrm.md"}, {"Graph": "formats/qir.md"}, {"What inspect reports": "formats/inspect.md"}, {"A graph as JSON": "formats/graph.md"}, {"A record of calls": "formats/record.md"}]}, {"Glossary": "glossary.md"}]},
           {"Errors": [{"All": "errors.md"}] + error_nav},
           {"Backends": [{"htp": [{"The backend": "htp.md"}, {"Models": "htp/models.md"}, {"Options": "htp/options.md"}, {"On a device": "htp/device.md"},
                                 {"Containers": "htp/containers.md"}, {"Figures of operators": "htp_operators.md"}]},
                        {"gpu": [{"The backend": "gpu.md"}, {"Models": "gpu/models.md"}, {"Tuning": "gpu/tuning.md"}, {"Devices and memory": "gpu/running.md"}]}, {"Write one": "plugin-author-guide.md"}, {"What is promised": "plugin-policy.md"}]},
           {"Performance": [{"What is measured": "performance.md"}] + [{title(page): page} for page in measured]},
           {"Project": [{"Architecture": "project/architecture.md"}, {"Compatibility": "project/compatibility.md"}, {"Changes": "project/changelog.md"},
                        {"Changes of the ABI": "abi-changes.md"}, {"Contributing": "project/contributing.md"}, {"Platforms": "platforms.md"}, {"Cross building": "cross-building.md"}, {"Windows": "windows.md"}, {"Android": "android.md"}, {"This site": "site/README.md"}, {"Security": "project/security.md"}]}]
    named = set(re.findall(r": (\S+\.md)$", "\n".join(nav_text(nav)), re.M))
    if rest := sorted(set(site.pages) - named):  # new ones that nobody has given a better place
        nav[-1]["Project"].append({"Other pages": [{title(page): page} for page in rest]})
    with open(os.path.join(work, "mkdocs.yml"), "w", encoding="utf-8") as file:
        if api:
            nav[3]["Reference"].insert(3, {"All headers, by Doxygen": "api/index.html"})
        file.write(read("docs", "site", "mkdocs.yml") + "docs_dir: src\nsite_dir: site\nnav:\n" + "\n".join(nav_text(nav, 2)) + "\n")
    print(f"   {len(site.pages)} pages, {sum(page.startswith('errors/') for page in site.pages)} of them of error ids")


main()
