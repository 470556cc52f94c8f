# SPDX-License-Identifier: Apache-2.0
"""Turns OpenTelemetry GenAI traces into Sediment `InferenceCall` facts, and back."""

from __future__ import annotations
