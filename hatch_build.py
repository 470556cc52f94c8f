# SPDX-License-Identifier: Apache-2.0
"""Build hook: the wheel carries `semconv/` as `sediment_otel/semconv/`; an editable install reads the tree itself.

Hatchling's static `force-include` would also copy the files into an editable install, where they go stale.
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class SemconvHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds `semconv/` to standard wheels only."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "standard":
            build_data["force_include"]["semconv"] = "sediment_otel/semconv"
