# SPDX-License-Identifier: Apache-2.0
"""The contract as data: the files of `semconv/`, which an installed wheel carries inside the package.

`load_schema(name)` returns the JSON object in one file (`"inference-call-v1"`, with or without `.json`),
`read_resource(name)` the bytes of any file, `resource_names()` what there is. A name that is not there
raises `ResourceError`, which lists those that are.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

_PACKAGE = Path(__file__).resolve().parent
#: In a wheel beside the modules; in a working tree (src/sediment_otel/) at the top level.
_PLACES = (_PACKAGE / "semconv", _PACKAGE.parents[1] / "semconv")


class ResourceError(LookupError):
    """A file of the contract is asked for that is not there, or the installation lacks them all."""


@lru_cache(maxsize=1)
def _directory() -> Path:
    for place in _PLACES:
        if place.is_dir():
            return place
    raise ResourceError("semconv/ is missing from this installation of sediment-otel: install it again")


def resource_names() -> list[str]:
    """File names, sorted."""
    return sorted(path.name for path in _directory().iterdir() if path.is_file())


def read_resource(name: str) -> bytes:
    """The file as it stands. Only names from `resource_names()`, so that no path leads elsewhere."""
    if name not in resource_names():
        raise ResourceError(f"no {name!r} in semconv/: there are {', '.join(resource_names())}")
    return (_directory() / name).read_bytes()


def load_schema(name: str) -> dict[str, Any]:
    """A JSON Schema, parsed anew at each call: the caller may change what it gets."""
    file_name = name if name.endswith(".json") else f"{name}.json"
    return cast("dict[str, Any]", json.loads(read_resource(file_name)))
