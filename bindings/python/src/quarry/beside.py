# SPDX-License-Identifier: Apache-2.0
"""Libraries that lie beside libquarry, each opened when it is first wanted."""

import os
from typing import Any, Dict

from ._library import file_name, library_path, opened
from .errors import LibraryMissing, refused

_opened: Dict[str, Any] = {}


def library(part: str) -> Any:
    """libquarry-PART: the file that QUARRY_PART_LIBRARY names, what lies beside libquarry, else what the system's loader finds."""
    if part not in _opened:
        soname, variable = file_name(part), f"QUARRY_{part.upper()}_LIBRARY"
        beside = os.path.join(os.path.dirname(library_path()), soname)
        path = os.environ.get(variable) or (beside if os.path.exists(beside) else soname)
        try:
            _opened[part] = opened(path)
        except OSError as error:
            raise refused(f"cannot open '{path}': {error}", f"set {variable} to the file of an installed {soname}", LibraryMissing) from None
    return _opened[part]
