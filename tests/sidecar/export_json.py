# SPDX-License-Identifier: Apache-2.0
"""Run by another interpreter: captures through the Python SDK's OTLP/HTTP JSON exporter.

    python export_json.py URL CAPTURE...

That exporter cannot be installed beside the protobuf one (they pin different versions of a package they share).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent.parent / "src"))

from opentelemetry.exporter.otlp.json.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.json.http.trace_exporter import OTLPSpanExporter
from replay import sdk_records, sdk_spans, telemetry

base, *captures = sys.argv[1:]
spans, records = OTLPSpanExporter(endpoint=f"{base}/v1/traces"), OTLPLogExporter(endpoint=f"{base}/v1/logs")
for name in captures:
    some_spans, some_records = telemetry(Path(name))
    if some_records:
        assert records.export(sdk_records(some_records)).name == "SUCCESS", name
    if some_spans:
        assert spans.export(sdk_spans(some_spans)).name == "SUCCESS", name
