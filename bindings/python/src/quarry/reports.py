# SPDX-License-Identifier: Apache-2.0
"""What the library's reports hold, for who reads code with types: at run time they are plain dicts. A key that this package does not know may be there."""

from typing import Any, Dict, List, NamedTuple, TypedDict


class CheckedNode(TypedDict, total=False):
    """A node of a `Check`: `path` and `kernel` where the backend takes it, `reason`, `id` and `hint` where it does not."""

    graph: str
    name: str
    op: str
    supported: bool
    path: str
    kernel: str
    reason: str
    id: str
    hint: str
    inputs: List[Any]
    outputs: List[Any]


class Check(TypedDict, total=False):
    """What a backend says of every node; see qr_model_check."""

    backend: str
    supported: int
    refused: int
    cut: Dict[str, Any]
    """Where the model could be cut so that the backend takes the rest."""
    nodes: List[CheckedNode]


class NodePath(TypedDict):
    """By what a node runs: `path` is "native", "reference" or "none"."""

    name: str
    op: str
    path: str
    kernel: str


class SessionReport(TypedDict, total=False):
    """What a session is; see qr_session_report."""

    model: str
    backend: str
    backend_version: str
    plugin: str
    device: int
    device_name: str
    target: str
    source: str
    grade: str
    threads: int
    options: Dict[str, Any]
    node_paths: List[NodePath]
    adapter: Dict[str, Any]


class Compatibility(NamedTuple):
    """How well a container fits a backend of this machine: "optimal", "usable", "recompile" or "incompatible"."""

    grade: str
    why: str
