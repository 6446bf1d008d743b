#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds functions of C and C++ that are longer than 60 lines or deeper than three levels.

check_functions.py SOURCE_ROOT
check_functions.py SOURCE_ROOT --list [FOLDER ...]: all of them, those that long_functions.txt knows included

A function's lines are all from the first of its head to its last brace. A level is a block of if, else, for, while, do, switch, try or a lambda, with braces or without;
an `if` or `else` before one statement is read with it and is none. Text as clang-format lays it out is read right; macros are not expanded.
long_functions.txt says what may be longer or deeper: functions by name with a reason, and folders by how many they have, which may become fewer and never more.
"""
import bisect
import os
import re
import subprocess
import sys

kMostLines, kMostLevels = 60, 3

# Every alternative begins with a character of its own, by which the text is searched quickly.
unread = re.compile(r'''R"([^()\\\s]*)\([\s\S]*?\)\1"|"(?:[^"\\\n]|\\.)*"|\d[\w']*|'(?:[^'\\\n]|\\.)+'|//[^\n]*|/\*[\s\S]*?\*/|#(?:[^\n\\]|\\[\s\S])*''')
keyword = re.compile(r"\b(?:else if|if|for|while|switch|else|do|try|catch)\b")
lambda_head = re.compile(r"(?:^|[=(,{\s&|?:!])\[[^\[\]]*\]\s*(\([^{}]*\))?\s*(mutable|noexcept|constexpr|->[^{};]*|\s)*$")
function_head = re.compile(r"\)\s*(const|noexcept|override|final|mutable|&|\s)*(->\s*[^;{}]+)?$|\)\s*(const|noexcept|\s)*:\s*[\w:<>]|\brequires\b")
member_head = re.compile(r"\)\s*(const|noexcept|\s)*:\s[^;]*[\w>]$")  # of a constructor's list, with braces
block_head = re.compile(r"(?:^|[:)\s}])(?:if\s*(?:constexpr\s*)?\(\)|for\s*\(\)|while\s*\(\)|switch\s*\(\)|catch\s*\(\)|else|do|try)$")
room_head = re.compile(r'(?:inline\s+)?namespace\b|extern ""$')
type_head = re.compile(r"\b(?:class|struct|union|enum)\b")


def blank(match):
    """What is no code becomes nothing, a string or a number; lines stay."""
    text = match.group()
    if text[0].isdigit():
        return text
    return {'"': '""', "R": '""', "'": "0"}.get(text[0], "") + "\n" * text.count("\n")


def without_arguments(head):
    while "(" in head:
        shorter = re.sub(r"\([^()]*\)", "\x01", head)
        if shorter == head:
            break
        head = shorter
    return head.replace("\x01", "()")


class Block:
    __slots__ = ("kind", "head", "begin", "around", "levels", "deep", "deepest")

    def __init__(self, kind, head, begin, around):
        self.kind, self.head, self.begin, self.around = kind, head, begin, around  # around: open parentheses, and where the statement began
        self.levels = self.deep = self.deepest = 0


def kind_of(head, stack, parentheses):
    """room: a namespace or type; function; code: a block or a lambda in a function; case: a block of a switch; value: an initialiser."""
    around = stack[-1].kind if stack else "room"
    if "[" in head and lambda_head.search(head) and (around != "room" or parentheses or "=" in head):
        return "code" if any(block.kind == "function" for block in stack) else "function"
    if parentheses or around == "value":
        return "value"
    if around == "room":
        if room_head.match(head):
            return "room"
        if head.endswith("=") or member_head.search(head):
            return "value"
        if not head.endswith(")") and type_head.search(without_arguments(head)):
            return "room"
        return "function" if function_head.search(head) else "value"
    if not head:
        return "code"
    if head.endswith(":"):
        return "case"
    if type_head.match(head):
        return "room"
    return "code" if block_head.search(without_arguments(head)) else "value"


def name_of(head):
    found = re.search(r"(operator\s*[^\s(]+|[\w:~]+)\s*(?:<[^<>()]*>)?\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head))
    return found[1] if found else (re.findall(r"\w+", head) or ["?"])[-1]


def functions_of(text):
    """(name, first line, last line, levels, the line that is deepest) of each function."""
    text = unread.sub(blank, text)
    ends = [match.start() for match in re.finditer("\n", text)]
    found, stack, parentheses, start = [], [], 0, 0

    def note(levels, at):
        for block in reversed(stack):
            if block.kind == "function":
                if levels > block.deep:
                    block.deep, block.deepest = levels, at
                return
            levels += block.levels

    for match in re.finditer(r"[{}();]", text):
        mark, at = match.group(), match.start()
        if mark == "(":
            parentheses += 1
        elif mark == ")":
            parentheses -= 1
        elif mark == ";":
            if parentheses:  # of a for
                continue
            words = keyword.findall(without_arguments(text[start:at])) if stack and stack[-1].kind in ("function", "code", "case") else ()
            if words:
                note(len(words) - (words[-1] in ("if", "else", "else if")), at)
            start = at + 1
        elif mark == "{":
            head = text[start:at]
            stripped = head.strip()
            stack.append(Block(kind_of(stripped, stack, parentheses), stripped, start + len(head) - len(head.lstrip()), (parentheses, start)))
            if stack[-1].kind == "code":
                stack[-1].levels = max(1, len(keyword.findall(without_arguments(stripped))))
                note(0, at)
            parentheses, start = 0, at + 1
        else:
            block = stack.pop()
            parentheses, begin = block.around
            start = begin if block.kind == "value" else at + 1
            if block.kind == "function":
                first, last, deepest = (bisect.bisect_left(ends, place) + 1 for place in (block.begin, at, block.deepest))
                found.append((name_of(block.head), first, last, block.deep, deepest))
    if stack or parentheses:
        raise ValueError("its braces do not close: it cannot be read")
    return found


def self_test():
    """What the scanner must distinguish."""
    text = '\n'.join((
        'namespace n {', 'struct S : T {', '  S() noexcept : a_{1}, b_(2) {}', '  int f() const { return (g{1}).x; }', '  const int a_ = 1;', '};',
        'template <class F>', 'int deep(const char *s = "}{", char c = \'{\') {  // } {', '  if (a) return 1;', '  for (int i = 0; i < 1; ++i)',
        '    if (const auto [x, y] = p{1, 2}; x) {', '      call([&](int z) {', '        while (z) if (y) z = R"({)";', '      });', '    } else if (b) {',
        '      switch (c) {', '        case 1: {', '          do f(); while (1);', '        }', '      }', '    }', '  return {};', '}',
        'int kTable[] = {1, 2};', 'constexpr auto kMade = [] {', '  for (;;) {', '  }', '}();', '}'))
    found = [(name, last - first + 1, deep) for name, first, last, deep, _ in functions_of(text)]
    wanted = [("S", 1, 0), ("f", 1, 0), ("deep", 17, 4), ("kMade", 4, 1)]
    return [] if found == wanted else [f"check_functions.py reads its own example wrongly: found {found}, expected {wanted}"]


def tracked(root):
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True).stdout
        files = [f for f in listed.splitlines() if os.path.exists(os.path.join(root, f))]
    except (OSError, subprocess.CalledProcessError):  # a release archive
        files = []
        for folder, folders, names in os.walk(root):
            folders[:] = [d for d in folders if not d.startswith((".", "build"))]
            files += [os.path.relpath(os.path.join(folder, n), root) for n in names]
    return sorted(f for f in files if f.endswith((".h", ".hpp", ".c", ".cpp")))


def main():
    root = sys.argv[1]
    problems, over = self_test(), []
    for path in tracked(root):
        with open(os.path.join(root, path), encoding="utf-8") as handle:
            text = handle.read()
        try:
            over += [(path, name, first, last - first + 1, deep, deepest) for name, first, last, deep, deepest in functions_of(text)
                     if last - first >= kMostLines or deep > kMostLevels]
        except ValueError as why:
            problems.append(f"{path}: {why}")
    if "--list" in sys.argv[2:]:
        for path, name, first, lines, deep, deepest in over:
            if path.startswith(tuple(sys.argv[3:]) or ("",)):
                print(f"{path}:{first}: {name}: {lines} lines, {deep} levels (line {deepest})")
        return problems

    allowed, counted = {}, {}
    for line in open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "long_functions.txt"), encoding="utf-8"):
        line = line.split("#")[0].strip()
        if line:
            what, reason = line.split(": ", 1)
            if " " in what:
                allowed[tuple(what.split())] = reason
            else:
                counted[what] = int(reason)
    known, here = set(), dict.fromkeys(counted, 0)
    for path, name, first, lines, deep, deepest in over:
        folder = next((f for f in counted if path.startswith(f + "/")), None)
        if (path, name) in allowed:
            known.add((path, name))
        elif folder:
            here[folder] += 1
        else:
            problems.append(f"{path}:{first}: {name} has {lines} lines and {deep} levels (line {deepest}), expected at most {kMostLines} and {kMostLevels}: "
                            "cut it by subject, or say in tests/tidy/long_functions.txt why it is clearer whole")
    for path, name in sorted(set(allowed) - known):
        problems.append(f"tests/tidy/long_functions.txt: {path} {name}: it is short or gone, take the line away")
    for folder, count in counted.items():
        if here[folder] > count:
            problems.append(f"{folder}: found {here[folder]} functions over {kMostLines} lines or {kMostLevels} levels, expected at most {count} "
                            f"(check_functions.py ROOT --list {folder} names them)")
        elif here[folder] < count:
            print(f"tests/tidy/long_functions.txt: {folder}: {here[folder]} are left, write that in place of {count}")
    print(f"{len(over)} functions over {kMostLines} lines or {kMostLevels} levels: {len(known)} with a reason, {sum(here.values())} counted by folder, {len(problems)} problems")
    return problems


found = main()
for problem in found:
    print(f"FAILED {problem}")
sys.exit(1 if found else 0)
