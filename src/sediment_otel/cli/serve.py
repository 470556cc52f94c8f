# SPDX-License-Identifier: Apache-2.0
"""`sediment-otel serve`: the sidecar, OTLP in and facts out."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..settings import SettingsError
from .common import (
    EXIT_UNREADABLE,
    EXIT_USAGE,
    TRACES,
    Gateway,
    IncludeFailed,
    KeepAccountIdentity,
    MaxFactBytes,
    Org,
    Raw,
    Salvage,
    SessionAttribute,
    SessionId,
    fail,
    say,
)

EPILOG = """\
Examples:

  sediment-otel serve --data ./sidecar

  sediment-otel serve --data ./sidecar --config serve.toml --check

  sediment-otel serve --data ./sidecar -o facts.jsonl --forward http://collector:4318

Every option may also stand in the TOML file (settle = 5.0) or in the environment (SEDIMENT_OTEL_SERVE_SETTLE=5). A
bearer token never stands on the command line: --token-file, or SEDIMENT_OTEL_SERVE_TOKEN. SIGTERM ends it in order.
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""

    @app.command(epilog=EPILOG, rich_help_panel=TRACES)
    def serve(
        config: Annotated[Path | None, typer.Option("--config", metavar="FILE", help="Settings as TOML.")] = None,
        data: Annotated[
            Path | None, typer.Option("--data", metavar="DIR", help="Where journal.db and facts.db live (private).")
        ] = None,
        http: Annotated[
            str | None, typer.Option("--http", metavar="HOST:PORT", help="OTLP/HTTP [127.0.0.1:4318], or off.")
        ] = None,
        grpc: Annotated[
            str | None, typer.Option("--grpc", metavar="HOST:PORT", help="OTLP/gRPC [127.0.0.1:4317], or off.")
        ] = None,
        admin: Annotated[
            str | None,
            typer.Option("--admin", metavar="HOST:PORT", help="A port for /healthz, /readyz and /metrics alone [off]."),
        ] = None,
        out: Annotated[
            list[str] | None,
            typer.Option("-o", "--out", metavar="SINK", help="Deliver facts there, too (facts.jsonl, …). Repeatable."),
        ] = None,
        settle: Annotated[
            float | None, typer.Option("--settle", metavar="SECONDS", help="How long a span waits for its context [5].")
        ] = None,
        forward: Annotated[
            str | None, typer.Option("--forward", metavar="URL", help="Pass the original OTLP on, unredacted.")
        ] = None,
        max_request_bytes: Annotated[
            str | None, typer.Option("--max-request-bytes", metavar="N", help="Largest request, inflated [64MiB].")
        ] = None,
        memory_budget: Annotated[
            str | None, typer.Option("--memory-budget", metavar="N", help="Bytes of requests in flight [128MiB].")
        ] = None,
        journal_budget: Annotated[
            str | None, typer.Option("--journal-budget", metavar="N", help="Bytes that may wait in the journal [4GiB].")
        ] = None,
        disk_budget: Annotated[
            str | None,
            typer.Option("--disk-budget", metavar="N", help="Bytes of the whole directory, store included [0: none]."),
        ] = None,
        min_free: Annotated[
            str | None, typer.Option("--min-free", metavar="N", help="Free disk space that is left alone [64MiB].")
        ] = None,
        read_timeout: Annotated[
            float | None, typer.Option("--read-timeout", metavar="SECONDS", help="For a request's body to arrive [30].")
        ] = None,
        grace: Annotated[
            float | None, typer.Option("--grace", metavar="SECONDS", help="For an orderly end after SIGTERM [20].")
        ] = None,
        token_file: Annotated[
            Path | None, typer.Option("--token-file", metavar="FILE", help="Bearer token that senders must show.")
        ] = None,
        tls_cert: Annotated[
            Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate chain, PEM.")
        ] = None,
        tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key, PEM.")] = None,
        tls_client_ca: Annotated[
            Path | None, typer.Option("--tls-client-ca", metavar="FILE", help="Senders must show a certificate of it.")
        ] = None,
        org: Org = None,
        session_attribute: SessionAttribute = None,
        session_id: SessionId = None,
        gateway: Gateway = None,
        raw: Raw = None,
        include_failed: IncludeFailed = None,
        max_fact_bytes: MaxFactBytes = None,
        keep_account_identity: KeepAccountIdentity = None,
        salvage: Salvage = None,
        check: Annotated[bool, typer.Option("--check", help="Check the configuration, show it, and end.")] = False,
    ) -> None:
        """Receive OTLP and turn it into facts, losing nothing."""
        translation = {
            "org": org,
            "session_attributes": tuple(session_attribute) if session_attribute else None,
            "session_id": session_id,
            "gateway": gateway,
            "raw": raw,
            "include_failed": include_failed,
            "max_fact_bytes": max_fact_bytes,
            "keep_account_identity": keep_account_identity,
            "salvage": salvage,
        }
        options: dict[str, Any] = {
            "data": data,
            "http": http,
            "grpc": grpc,
            "admin": admin,
            "sinks": tuple(out) if out else None,
            "settle": settle,
            "forward": forward,
            "max_request_bytes": max_request_bytes,
            "memory_budget": memory_budget,
            "journal_budget": journal_budget,
            "disk_budget": disk_budget,
            "min_free": min_free,
            "read_timeout": read_timeout,
            "grace": grace,
            "token_file": token_file,
            "tls_cert": tls_cert,
            "tls_key": tls_key,
            "tls_client_ca": tls_client_ca,
        }
        raise typer.Exit(run(config, options, {k: v for k, v in translation.items() if v is not None}, check=check))


def run(config: Path | None, options: dict[str, Any], translation: dict[str, Any], *, check: bool) -> int:
    """Serve, or only check; the exit code."""
    from ..sidecar.config import load, shown

    try:
        found = load(config, os.environ, translation=translation, **options)
        warnings = found.check()
    except SettingsError as error:
        fail(f"wrong setting: {error}", EXIT_USAGE)
    try:
        from ..sidecar.service import Service
    except ImportError as error:
        fail(
            f"serve needs the extra `sidecar` ({error.name} is missing): pip install 'sediment-otel[sidecar]'",
            EXIT_UNREADABLE,
        )
    if not check:
        return Service(found).run()
    for warning in warnings:
        say(f"warning: {warning}")
    say(
        f"data {found.data}, http {found.http}, grpc {found.grpc}, settle {found.settle:g} s,"
        f" org {found.translation.org}"
    )
    say(f"sinks: {', '.join([str(found.store), *map(shown, found.sinks)])}")
    say("the configuration is good")
    return 0
