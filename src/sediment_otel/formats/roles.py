# SPDX-License-Identifier: Apache-2.0
"""Other names of the usual roles (contract, section 4). Unknown roles pass as they are."""

from __future__ import annotations

from typing import Any

ROLE_NAMES: dict[str, str] = {
    "model": "assistant",
    "ai": "assistant",
    "bot": "assistant",
    "tool-call": "assistant",
    "human": "user",
    "function": "tool",
    "tool-response": "tool",
    "toolResult": "tool",
}


def role_name(role: Any) -> Any:
    """The role without white space around it and under its usual name; what is no text stays as it is."""
    if type(role) is not str:
        return role
    trimmed = role.strip()
    return ROLE_NAMES.get(trimmed, trimmed)
