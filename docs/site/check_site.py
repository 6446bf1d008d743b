#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every link of a built site leads to a file of it, every fragment to an anchor, and nothing is fetched from elsewhere.

check_site.py SITE
"""
import html.parser
import os
import sys
import urllib.parse

site = os.path.abspath(sys.argv[1])


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.anchors, self.links, self.loads = set(), [], []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe") and found.get("src"):
            self.loads.append(found["src"])
        if tag == "link" and "stylesheet" in (found.get("rel") or ""):
            self.loads.append(found.get("href") or "")


pages = {}
for folder, _, names in os.walk(site):
    for name in names:
        if name.endswith(".html"):
            pages[os.path.join(folder, name)] = Page(os.path.join(folder, name))
problems, links = [], 0
for path, page in pages.items():
    shown = os.path.relpath(path, site)
    if shown == "404.html":  # its links are from the root of a server
        continue
    for target in page.links + page.loads:
        address = urllib.parse.urlsplit(target)
        if address.scheme or address.netloc:
            if target in page.loads and not target.startswith("data:"):
                problems.append(f"{shown}: loads {target} from elsewhere")
            continue
        links += 1
        to = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(address.path))) if address.path else path
        if os.path.isdir(to):
            to = os.path.join(to, "index.html")
        if not os.path.exists(to):
            problems.append(f"{shown}: {target} leads nowhere")
        elif shown.startswith("api/") and address.fragment == "nested-classes":
            continue  # Doxygen's own slip
        elif address.fragment and to in pages and urllib.parse.unquote(address.fragment) not in pages[to].anchors | {"__skip"}:
            problems.append(f"{shown}: {target}: no such anchor")
for problem in problems[:40]:
    print("   FAILED", problem)
print(f"   {len(pages)} pages, {links} links, {len(problems)} problems")
sys.exit(1 if problems or len(pages) < 100 else 0)
