# SPDX-License-Identifier: Apache-2.0
"""Events of profiles, and where the time of runs goes, node by node: what `quarry bench --profile` prints."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Sequence, Tuple

from ._library import lib
from .tables import Cell, html_table, html_title, text_table

COLUMNS = ("node", "operator", "kernel", "ms", "share %", "calls")


@dataclass(frozen=True)
class Event:
    """One event of a profile; docs/guide.md ("Profiles") has what is in it."""

    id: int
    parent: int
    level: int
    clock: int
    thread: int
    begin: int
    end: int
    node: int
    name: str
    kind: str
    op: str
    counters: Dict[str, Tuple[int, str]]
    attributes: Dict[str, str]


@dataclass(frozen=True)
class NodeTime:
    """What a node takes of one run: the median over the runs in which it ran, without the nodes inside it (of a loop's body)."""

    name: str
    op: str
    kernel: str
    shapes: str
    fused: str
    """Names of nodes whose work this one does too."""
    ms: float
    share: float
    """Of all nodes' times, from 0 to 1."""
    calls: float
    """In one run."""

    def _row(self) -> Tuple[Cell, ...]:
        return self.name, self.op, self.kernel, self.ms, 100 * self.share, f"{self.calls:g}"


class NodeTimes(Sequence[NodeTime]):
    """The nodes, the longest first. repr() is the table, in a notebook too."""

    def __init__(self, nodes: List[NodeTime], runs: int, wall_ms: float) -> None:
        self.nodes = nodes
        self.runs = runs
        self.wall_ms = wall_ms
        """Of one run, the median."""

    def __len__(self) -> int:
        return len(self.nodes)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self.nodes[index]

    def __iter__(self) -> Iterator[NodeTime]:
        return iter(self.nodes)

    def _title(self) -> str:
        return f"{self.runs} run{'' if self.runs == 1 else 's'}, {self.wall_ms:.3f} ms each (median), {len(self.nodes)} nodes"

    def __repr__(self) -> str:
        return self._title() + ("\n" + text_table(COLUMNS, [node._row() for node in self.nodes]) if self.nodes else "")

    def _repr_html_(self) -> str:
        return html_title(self._title()) + html_table(COLUMNS, [node._row() for node in self.nodes])


def _median(values: Iterable[float]) -> float:
    """As the program has it: of an even number the mean of the two in the middle."""
    found = sorted(values)
    return (found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2 if found else 0.0


class _Tree:
    """Which call and which outer node each event is of."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.by_id = {event.id: event for event in events}

    def outer(self, event: Event) -> Iterator[Event]:
        seen = set()
        while event.parent in self.by_id and event.parent not in seen:
            seen.add(event.parent)
            event = self.by_id[event.parent]
            yield event

    def root(self, event: Event) -> Event:
        found = event
        for found in self.outer(event):
            pass
        return found


def node_times(events: Sequence[Event]) -> NodeTimes:
    """Sums up the runs among the events. Times of a device's cycles are left out: they are of no clock that people have."""
    timed = [event for event in events if event.clock in (lib.QR_CLOCK_HOST, lib.QR_CLOCK_DEVICE_NS)]
    tree = _Tree(timed)
    own = {event.id: event.end - event.begin for event in timed if event.kind == "node"}
    walls: Dict[int, int] = {}
    for event in timed:
        if event.kind == "run" and event.parent == 0:
            walls[event.id] = event.end - event.begin
        elif event.kind == "node":
            inner_of = next((one for one in tree.outer(event) if one.kind == "node"), None)
            if inner_of is not None:
                own[inner_of.id] -= event.end - event.begin
    rows: "Dict[Tuple[str, ...], Dict[int, List[int]]]" = defaultdict(lambda: defaultdict(list))
    calls = set(walls)
    for event in timed:
        if event.kind != "node":
            continue
        root = tree.root(event)
        if root.id not in calls and root.kind != "node":
            continue  # of a call that is no run
        calls.add(root.id if root.id in walls else 0)
        said = event.attributes
        key = (event.name or f"node {event.node}", event.op, said.get("kernel", ""), said.get("shapes", ""), said.get("fused", ""))
        rows[key][root.id if root.id in walls else 0].append(max(0, own[event.id]))
    count = len(calls)
    made, whole = [], 0.0
    for (name, op, kernel, shapes, fused), by_run in rows.items():
        ms = _median(sum(times) for times in by_run.values()) / 1e6
        whole += ms * len(by_run) / count
        made.append((NodeTime(name, op, kernel, shapes, fused, ms, 0.0, sum(map(len, by_run.values())) / len(by_run)), ms * len(by_run) / count))
    made.sort(key=lambda pair: -pair[1])
    nodes = [NodeTime(n.name, n.op, n.kernel, n.shapes, n.fused, n.ms, weight / whole if whole else 0.0, n.calls) for n, weight in made]
    return NodeTimes(nodes, count, _median(walls.values()) / 1e6)
