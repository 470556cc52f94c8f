# SPDX-License-Identifier: Apache-2.0
"""The configurations in collector/: they parse, fit together, and their filter lets every model call through."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from replay import pairs, telemetry

from sediment_otel.dialects.registry import detect, wanted
from sediment_otel.settings import Settings
from sediment_otel.sidecar.config import ServeConfig, load
from sediment_otel.telemetry import LogRecord, Span
from sediment_otel.translate.glimpse import glimpse_span
from sediment_otel.vocabulary import SpanRole

FOLDER = Path(__file__).parent.parent.parent / "collector"
COLLECTORS = ["beside-backend.yaml", "gateway.yaml", "agent.yaml", "in-line.yaml"]
FILTERED = COLLECTORS[:3]


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


@pytest.mark.parametrize("name", COLLECTORS)
def test_every_component_of_a_pipeline_is_configured_and_every_configured_one_is_used(name: str) -> None:
    (config,) = documents(name)
    used: dict[str, set[str]] = {"receivers": set(), "processors": set(), "exporters": set()}
    for pipeline in config["service"]["pipelines"].values():
        for kind, names in used.items():
            names.update(pipeline.get(kind, []))
    for kind, names in used.items():
        assert names == set(config[kind]), kind
    assert set(config["service"].get("extensions", [])) == set(config.get("extensions", {}))
    for exporter in config["exporters"].values():
        if "auth" in exporter:
            assert exporter["auth"]["authenticator"] in config["extensions"]


@pytest.mark.parametrize("name", FILTERED)
def test_batches_with_dialogues_fit_into_the_collectors_receiver(name: str) -> None:
    (config,) = documents(name)
    protocols = config["receivers"]["otlp"]["protocols"]
    assert protocols["grpc"]["max_recv_msg_size_mib"] * 1024 * 1024 == ServeConfig().max_request_bytes
    assert protocols["http"]["max_request_body_size"] == ServeConfig().max_request_bytes


@pytest.mark.parametrize("name", FILTERED)
def test_the_memory_limiter_comes_first_and_the_filter_only_before_the_sidecar(name: str) -> None:
    (config,) = documents(name)
    for pipeline, parts in config["service"]["pipelines"].items():
        assert parts["processors"][0] == "memory_limiter"
        assert ("filter/genai" in parts["processors"]) == pipeline.endswith("/sediment")
        assert {"traces/sediment", "logs/sediment"} <= set(config["service"]["pipelines"])


def test_the_filters_are_the_same_everywhere() -> None:
    filters = [documents(name)[0]["processors"]["filter/genai"] for name in FILTERED]
    assert filters[0] == filters[1] == filters[2]


class Filter:
    """The conditions, as far as these files use the collector's language: a drop where every term is true."""

    def __init__(self) -> None:
        found = documents(FILTERED[0])[0]["processors"]["filter/genai"]
        (self.span,) = found["traces"]["span"]
        (self.record,) = found["logs"]["log_record"]

    def drops_span(self, span: Span) -> bool:
        keys = re.findall(r'attributes\["([^"]+)"\] == nil', self.span)
        named, scoped = re.findall(r'not IsMatch\((?:name|instrumentation_scope\.name), "([^"]+)"\)', self.span)
        term = r'attributes\["[^"]+"\] == nil|not IsMatch\([a-z_.]+, "[^"]*"\)'
        rest = re.sub(term, "", self.span)
        assert set(rest.split()) <= {"and"}, rest
        return (
            all(key not in span.attributes for key in keys)
            and not re.search(named, span.name)
            and not re.search(scoped, span.scope.name)
        )

    def drops_record(self, record: LogRecord) -> bool:
        by_field, by_attribute = re.findall(r'"(\^[^"]+)"', self.record)
        name = record.attributes.get("event.name")
        return not re.search(by_field, record.event_name) and not (type(name) is str and re.search(by_attribute, name))


def test_the_filter_lets_every_model_call_and_what_it_needs_through() -> None:
    chosen = Filter()
    calls = dropped = 0
    for capture, logs in pairs():
        for path in filter(None, (capture, logs)):
            spans, records = telemetry(path)
            for span in spans:
                needed = (
                    detect(span).role is not SpanRole.OTHER or glimpse_span(0, span, Settings()).session is not None
                )
                calls += detect(span).role is SpanRole.CALL
                drop = chosen.drops_span(span)
                dropped += drop
                assert not (needed and drop), (path.name, span.name, sorted(span.attributes))
            for record in records:
                assert not (wanted(record) and chosen.drops_record(record)), (path.name, record.event_name)
    assert calls > 50
    web = Span(trace_id="1" * 32, span_id="2" * 16, name="GET /", attributes={"http.route": "/"})
    assert chosen.drops_span(web)
    assert chosen.drops_record(LogRecord(event_name="http.access"))


def pod(name: str) -> dict[str, Any]:
    (found,) = [d for d in documents(name) if d["kind"] in ("Deployment", "StatefulSet")]
    return dict(found["spec"]["template"]["spec"])


@pytest.mark.parametrize("name", ["kubernetes-sidecar.yaml", "kubernetes-gateway.yaml"])
def test_the_containers_are_not_root_and_read_only_and_their_options_are_known(name: str) -> None:
    spec = pod(name)
    (container,) = [c for c in spec.get("initContainers", []) + spec["containers"] if c["name"] == "sediment-otel"]
    security = container["securityContext"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"]["drop"] == ["ALL"]
    given = options(container["args"])
    mounts = {m["mountPath"] for m in container["volumeMounts"]}
    assert str(given["data"]) in mounts
    ports = {p["name"]: p["containerPort"] for p in container["ports"]}
    assert ports["admin"] == load(None, {}, admin=given["admin"]).admin.port
    assert float(given["grace"]) < spec["terminationGracePeriodSeconds"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
        assert container[probe]["httpGet"]["path"] in ("/readyz", "/healthz")


def options(args: list[str]) -> dict[str, str]:
    """Command-line options as settings; unknown ones fail."""
    assert args[0] == "serve"
    words = [part for arg in args[1:] for part in arg.split("=", 1)]
    given = {words[i].removeprefix("--").replace("-", "_"): words[i + 1] for i in range(0, len(words), 2)}
    assert set(given) <= {*ServeConfig.__dataclass_fields__}
    return given


def test_the_sidecar_container_starts_before_the_application_and_ends_after_it() -> None:
    (container,) = pod("kubernetes-sidecar.yaml")["initContainers"]
    assert container["restartPolicy"] == "Always"


def test_compose_publishes_on_loopback_only() -> None:
    (config,) = documents("compose.yaml")
    service = config["services"]["sediment-otel"]
    assert service["read_only"]
    assert service["cap_drop"] == ["ALL"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    options(service["command"])
    assert (FOLDER / service["build"]["dockerfile"].removeprefix("collector/")).exists()


def test_the_image_does_not_run_as_root() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    assert re.search(r"^USER 10001", text, re.MULTILINE)
    assert text.index("USER 10001") < text.index("ENTRYPOINT")


def test_the_unit_is_confined_and_names_known_options() -> None:
    text = (FOLDER / "sediment-otel.service").read_text()
    for line in ("DynamicUser=yes", "ProtectSystem=strict", "NoNewPrivileges=yes", "StateDirectoryMode=0700"):
        assert line in text.splitlines()
    (command,) = re.findall(r"^ExecStart=\S+ (.*)$", text, re.MULTILINE)
    words = command.split()
    assert words[0] == "serve"
    assert {w for w in words if w.startswith("--")} <= {"--config", "--data"}


def test_the_example_settings_are_the_defaults() -> None:
    assert load(FOLDER / "serve.toml", {}) == ServeConfig()
    text = (FOLDER / "serve.toml").read_text()
    for name in ServeConfig.__dataclass_fields__:
        assert name in ("token", "translation") or re.search(rf"^#?{name} = ", text, re.MULTILINE), name


def test_every_file_is_listed_with_its_use() -> None:
    text = (FOLDER / "README.md").read_text()
    for file in FOLDER.iterdir():
        if file.name != "README.md":
            assert f"]({file.name})" in text, file.name
