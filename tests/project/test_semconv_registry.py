# SPDX-License-Identifier: Apache-2.0
"""The registry of this project's own names agrees with the code and keeps the form of OpenTelemetry's registries."""

from __future__ import annotations

import re
from enum import Enum
from typing import Any

import pytest
import yaml

from sediment_otel._resources import read_resource
from sediment_otel.vocabulary import DropReason, LossCode, SkipReason

GROUPS: list[dict[str, Any]] = yaml.safe_load(read_resource("registry.yaml"))["groups"]
ATTRIBUTES: dict[str, dict[str, Any]] = {
    attribute["id"]: attribute for group in GROUPS for attribute in group.get("attributes", ()) if "id" in attribute
}
METRICS = [group for group in GROUPS if group["type"] == "metric"]

ENUMERATIONS: dict[str, type[Enum]] = {
    "sediment.skip.reason": SkipReason,
    "sediment.drop.reason": DropReason,
    "sediment.loss.code": LossCode,
}
# error.type is OpenTelemetry's own.
FOREIGN_ATTRIBUTES = {"error.type"}
INSTRUMENTS = {"counter", "gauge", "histogram", "updowncounter"}


@pytest.mark.parametrize("name", ENUMERATIONS)
def test_an_enumeration_has_the_members_of_the_vocabulary_in_the_same_order(name: str) -> None:
    members = ATTRIBUTES[name]["type"]["members"]
    assert [member["value"] for member in members] == [member.value for member in ENUMERATIONS[name]]
    assert [member["id"] for member in members] == [member["value"] for member in members]


def test_every_enumeration_in_the_registry_is_compared_with_the_code() -> None:
    assert {name for name, attribute in ATTRIBUTES.items() if isinstance(attribute["type"], dict)} == set(ENUMERATIONS)


def test_every_own_name_is_defined_once_under_the_projects_namespace() -> None:
    ids = [attribute["id"] for group in GROUPS for attribute in group.get("attributes", ()) if "id" in attribute]
    names = ids + [metric["metric_name"] for metric in METRICS]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"sediment(\.[a-z][a-z0-9_]*)+", name)] == []


def test_everything_named_says_what_it_is_and_how_stable() -> None:
    members = [m for a in ATTRIBUTES.values() if isinstance(a["type"], dict) for m in a["type"]["members"]]
    for thing in [*ATTRIBUTES.values(), *METRICS, *members]:
        assert thing["brief"].strip().endswith("."), thing
        assert thing["stability"] == "development", thing


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric["metric_name"])
def test_a_metric_has_an_instrument_a_unit_and_only_known_attributes(metric: dict[str, Any]) -> None:
    assert metric["id"] == f"metric.{metric['metric_name']}"
    assert metric["instrument"] in INSTRUMENTS
    assert re.fullmatch(r"s|\{[a-z]+\}", metric["unit"])
    for attribute in metric.get("attributes", ()):
        assert attribute["ref"] in ATTRIBUTES.keys() | FOREIGN_ATTRIBUTES
        assert attribute["requirement_level"]


def test_the_metrics_are_those_the_accounting_needs() -> None:
    names = {metric["metric_name"].removeprefix("sediment.otel.") for metric in METRICS}
    assert names == {
        "spans.ended",
        "facts",
        "skipped",
        "dropped",
        "losses",
        "queue.depth",
        "deliveries",
        "translate.duration",
    }
