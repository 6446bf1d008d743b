# SPDX-License-Identifier: Apache-2.0
"""Tables as text, and as HTML for notebooks."""

from typing import Sequence, Union

Cell = Union[str, int, float]
MOST = 500  # rows that a page shows


def _escaped(text: str) -> str:
    for letter, name in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(letter, name)
    return text


def _text(cell: Cell) -> str:
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def text_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A line for each row; numbers stand at the right."""
    cells = [[_text(cell) for cell in row] for row in rows]
    widths = [max(len(line[at]) for line in [list(columns), *cells]) for at in range(len(columns))]
    is_number = [bool(rows) and all(isinstance(row[at], (int, float)) for row in rows) for at in range(len(columns))]
    lines = ["  ".join(cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, is_number)).rstrip()
             for line in [list(columns), *cells]]
    return "\n".join(lines)


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """The same for a page; of very many rows the first ones."""
    out = ["<table><thead><tr>", *(f"<th>{_escaped(column)}</th>" for column in columns), "</tr></thead><tbody>"]
    for row in rows[:MOST]:
        out += ["<tr>", *(f"<td>{_escaped(_text(cell))}</td>" for cell in row), "</tr>"]
    if len(rows) > MOST:
        out.append(f'<tr><td colspan="{len(columns)}">{len(rows) - MOST} more</td></tr>')
    return "".join([*out, "</tbody></table>"])


def html_title(text: str) -> str:
    return f"<p><b>{_escaped(text)}</b></p>"


def html_folded(title: str, inner: str) -> str:
    """What is shown when its title is clicked."""
    return f"<details><summary>{_escaped(title)}</summary>{inner}</details>"
