# SPDX-License-Identifier: Apache-2.0
"""Properties of the two translations, over generated messages in every place a call may carry them."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sediment_otel.dialects.registry import detect, read
from sediment_otel.facts import InferenceCall
from sediment_otel.genai import Subject
from sediment_otel.settings import Settings
from sediment_otel.translate.call import translate_subject
from sediment_otel.translate.compare import differences
from sediment_otel.translate.restore import restore
from sediment_otel.vocabulary import LossCode, SpanRole
from strategies import subjects

SETTINGS = {raw: Settings(session_id="s", raw=raw, include_failed=True) for raw in ("full", "residual")}
SCHEMA = json.loads((Path(__file__).parents[2] / "semconv" / "inference-call-v1.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize("raw", ["full", "residual"])
@given(subject=subjects())
def test_a_restored_call_reads_as_the_original_did(raw: str, subject: Subject) -> None:
    found = translate_subject(subject, SETTINGS[raw])
    if found.encoded is None:
        return
    original = read(subject, detect(subject.span))
    span = restore(found.encoded)
    assert detect(span).role is SpanRole.CALL
    assert differences(original, read(Subject(span), detect(span))) == []


@pytest.mark.parametrize("raw", ["full", "residual"])
@given(subject=subjects())
def test_every_fact_is_valid_and_the_same_every_time(raw: str, subject: Subject) -> None:
    found = translate_subject(subject, SETTINGS[raw])
    if found.encoded is None:
        return
    assert translate_subject(subject, SETTINGS[raw]).encoded == found.encoded
    fact = InferenceCall.from_json(found.encoded)
    assert fact.to_json() == found.encoded
    VALIDATOR.validate(json.loads(found.encoded))


@given(subject=subjects())
def test_both_kinds_of_raw_give_the_same_fact(subject: Subject) -> None:
    full, residual = (translate_subject(subject, SETTINGS[raw]) for raw in ("full", "residual"))
    assert (full.encoded is None) == (residual.encoded is None)
    if full.encoded is not None and residual.encoded is not None:
        left, right = json.loads(full.encoded), json.loads(residual.encoded)
        del left["raw"], right["raw"]
        assert left == right
        assert len(residual.encoded) <= len(full.encoded) + 200


@given(subject=subjects(), raw=st.sampled_from(["full", "residual"]))
def test_a_fact_survives_the_way_there_and_back_again(subject: Subject, raw: str) -> None:
    found = translate_subject(subject, SETTINGS[raw])
    if found.encoded is None or any(loss.code is LossCode.REPLACED_CHARACTER for loss in found.losses):
        return  # an id with a NUL is no id; the same id with U+FFFD is one
    again = translate_subject(Subject(restore(found.encoded)), SETTINGS[raw])
    assert again.encoded is not None
    left, right = json.loads(found.encoded), json.loads(again.encoded)
    del left["raw"], right["raw"]
    assert left == right
