#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The record of a binding's public names (bindings/api_record.py) takes additions, and nothing else without a line that names it.

test_api_record.py SOURCE_ROOT
"""
import contextlib
import io
import os
import sys
import tempfile

sys.path[:0] = [os.path.join(sys.argv[1], "bindings"), os.path.join(sys.argv[1], "bindings", "go")]
import api_record
from public_names import public_names

FIRST = {"quarry.Open": "func(path string) error", "quarry.Tensor": "type struct", "quarry.Tensor.Shape": "field []int"}
GO = """package quarry // import "quarry.dev/quarry"

FUNCTIONS

func Open(path string) (*Session, error)
    Open opens.

TYPES

type Code int32
    Code is one.

const (
	Busy Code = 3 // of types.h
)
type Session struct {
	Inputs, Outputs []int // public
	handle[C.qr_session]
}
func (s *Session) Run(ctx context.Context) error
type Writer interface {
	io.Writer
	End() error
}
"""


def outcome(path, rows, update=False):
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            api_record.check(path, rows, update)
        except SystemExit as error:
            return str(error)
    return ""


def expect(what, found, *words):
    if not all(word in found for word in words) or bool(words) != bool(found):
        sys.exit(f"FAILED: {what}: found {found!r}, expected {words or 'nothing'}")


with tempfile.TemporaryDirectory() as folder:
    path, api_record.CHANGES = os.path.join(folder, "api.txt"), os.path.join(folder, "changes.md")

    def tell(*lines):
        with open(api_record.CHANGES, "w", encoding="utf-8") as file:
            file.write("# Changes\n" + "".join(f"- {line}\n" for line in lines))

    tell("`quarry.Tensor`: an old line")
    expect("the first record", outcome(path, FIRST, update=True))
    expect("the same", outcome(path, FIRST))
    more = {**FIRST, "quarry.Close": "func()"}
    expect("an addition", outcome(path, more), "not up to date", "quarry.Close", "--record")
    expect("an addition, recorded", outcome(path, more, update=True))
    less = {name: rest for name, rest in more.items() if name != "quarry.Open"}
    other = {**more, "quarry.Tensor": "type interface"}
    for update in (False, True):
        expect("a name that goes", outcome(path, less, update), "quarry.Open: found none", "docs/abi-changes.md")
        expect("a name that says something else, of an old line", outcome(path, other, update), "quarry.Tensor: found 'type interface', expected 'type struct'")
    expect("the record is as before", outcome(path, more))
    tell("`quarry.Tensor`: an old line", "`quarry.Tensor`: is an interface, for a reason")
    expect("a new line", outcome(path, other, update=True))
    expect("what is recorded then", outcome(path, other))
    expect("a line allows one break", outcome(path, more), "quarry.Tensor")
found = public_names(GO, "quarry")
expected = {"quarry.Open": "func(path string) (*Session, error)", "quarry.Code": "type int32", "quarry.Busy": "const Code", "quarry.Session": "type struct", "quarry.Session.Inputs": "field []int",
            "quarry.Session.Outputs": "field []int", "quarry.Session.Run": "method *(ctx context.Context) error", "quarry.Writer": "type interface {io.Writer; End() error}"}
if found != expected:
    sys.exit(f"FAILED: names of Go: found {found}, expected {expected}")
