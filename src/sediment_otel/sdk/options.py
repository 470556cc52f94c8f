# SPDX-License-Identifier: Apache-2.0
"""Settings of an entry point: objects, plain names, and what the environment says for the rest.

A name is that of a field of `Settings` or `ProcessSettings`, so that a declarative configuration file may say
`sediment: {sink: facts.db, org: acme}`. Raises `SettingsError`, which names what is wrong and what is accepted.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ..settings import PREFIX, ProcessSettings, Settings, SettingsError
from ..sinks import Sink

_FIELDS: dict[str, frozenset[str]] = {
    kind.__name__: frozenset(item.name for item in fields(kind)) for kind in (Settings, ProcessSettings)
}


def resolve(
    sink: str | Sink | None,
    settings: Settings | None,
    process: ProcessSettings | None,
    options: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> tuple[str | Sink, Settings, ProcessSettings]:
    """The sink and both kinds of settings. A settings object that was given is taken as it is, the environment
    left aside; plain options win over both."""
    environment = os.environ if environment is None else environment
    unknown = sorted(set(options) - _FIELDS["Settings"] - _FIELDS["ProcessSettings"])
    if unknown:
        accepted = ", ".join(sorted(_FIELDS["Settings"] | _FIELDS["ProcessSettings"]))
        raise SettingsError(f"unknown option {', '.join(unknown)}: accepted are {accepted}")
    mine = {key: _plain(value) for key, value in options.items() if key in _FIELDS["Settings"] and value is not None}
    ours = {key: value for key, value in options.items() if key in _FIELDS["ProcessSettings"] and value is not None}
    settings = Settings.from_environment(environment, **mine) if settings is None else replace(settings, **mine)
    process = ProcessSettings.from_environment(environment, **ours) if process is None else replace(process, **ours)
    chosen = sink if sink is not None else process.sink
    if isinstance(chosen, os.PathLike):
        chosen = os.fspath(chosen)
    if not chosen:
        raise SettingsError(f"no sink: set {PREFIX}SINK, or give sink=, as in facts.jsonl or facts.db")
    if isinstance(chosen, str):
        process = replace(process, sink=chosen)
    return chosen, settings, process


def _plain(value: Any) -> Any:
    """A list of a configuration file as the tuple that settings hold."""
    return tuple(value) if isinstance(value, list) else value
