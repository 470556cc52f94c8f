# SPDX-License-Identifier: Apache-2.0
"""AnyValue and the scalars of OTLP JSON, value by value."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest

from sediment_otel.otlp.fields import (
    KIND_OF,
    STATUS_OF,
    Unreadable,
    id_of_bytes,
    read_count,
    read_enum,
    read_id,
    read_severity,
    read_time,
    time_of_iso,
)
from sediment_otel.otlp.values import read_attributes, read_value

BIG = 10**40


@pytest.mark.parametrize(
    ("wrapper", "value"),
    [
        ({"stringValue": "x"}, "x"),
        ({"stringValue": ""}, ""),
        ({"stringValue": "a\x00\ud83e"}, "a\x00\ud83e"),
        ({"boolValue": True}, True),
        ({"boolValue": False}, False),
        ({"intValue": "25"}, 25),
        ({"intValue": 25}, 25),
        ({"intValue": 25.0}, 25),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": str(BIG)}, BIG),
        ({"intValue": BIG}, BIG),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "1.5e3"}, 1500.0),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"doubleValue": None}, None),
        ({"bytesValue": "AAEC"}, b"\x00\x01\x02"),
        ({"bytesValue": "+/8="}, b"\xfb\xff"),
        ({"bytesValue": "-_8"}, b"\xfb\xff"),
        ({"bytesValue": ""}, b""),
        ({"arrayValue": {"values": [{"intValue": "1"}, {}, {"stringValue": "b"}]}}, [1, None, "b"]),
        ({"arrayValue": {}}, []),
        ({"kvlistValue": {}}, {}),
        (
            {"kvlistValue": {"values": [{"key": "a", "value": {"arrayValue": {"values": [{"kvlistValue": {}}]}}}]}},
            {"a": [{}]},
        ),
        ({}, None),
        ({"stringValue": None}, None),
        ({"string_value": "x"}, "x"),
        ({"int_value": "5"}, 5),
        ({"bool_value": False}, False),
        ({"double_value": 2}, 2.0),
        ({"bytes_value": "AA=="}, b"\x00"),
        ({"array_value": {"values": [{"int_value": 1}]}}, [1]),
        ({"kvlist_value": {"values": [{"key": "k", "value": {"string_value": "v"}}]}}, {"k": "v"}),
    ],
)
def test_a_wrapper_gives_its_plain_value_in_both_readings(wrapper: Any, value: Any) -> None:
    for strict in (False, True):
        read = read_value(wrapper, strict)
        assert read == value
        assert type(read) is type(value)


def test_a_double_named_nan_is_not_a_number() -> None:
    assert math.isnan(read_value({"doubleValue": "NaN"}, True))


@pytest.mark.parametrize(
    ("wrapper", "kept"),
    [
        ({"intValue": "twelve"}, "twelve"),
        ({"intValue": "1_0"}, "1_0"),
        ({"intValue": "٣"}, "٣"),
        ({"intValue": "9" * 5000}, "9" * 5000),
        ({"intValue": True}, True),
        ({"intValue": 2.5}, 2.5),
        ({"stringValue": 7}, 7),
        ({"boolValue": "true"}, "true"),
        ({"doubleValue": "much"}, "much"),
        ({"doubleValue": 10**400}, 10**400),
        ({"bytesValue": "not base64!"}, "not base64!"),
        ({"arrayValue": "x"}, "x"),
        ({"kvlistValue": 3}, 3),
        ("bare", "bare"),
        (["a", {"b": 1}], ["a", {"b": 1}]),
    ],
)
def test_a_value_of_the_wrong_type_stays_as_written_or_is_refused_when_strict(wrapper: Any, kept: Any) -> None:
    read = read_value(wrapper, False)
    assert read == kept
    assert type(read) is type(kept)
    with pytest.raises(Unreadable):
        read_value(wrapper, True)


def test_unknown_fields_of_a_value_are_nothing_when_strict_and_a_plain_object_otherwise() -> None:
    assert read_value({"futureValue": 1}, True) is None
    assert read_value({"futureValue": 1}, False) == {"futureValue": 1}


def test_the_last_of_equal_keys_wins() -> None:
    pairs = [{"key": "k", "value": {"stringValue": "old"}}, {"key": "k", "value": {"intValue": "2"}}]
    assert read_attributes(pairs, True) == ({"k": 2}, 0)


def test_attributes_may_be_a_plain_object_of_wrappers_and_plain_values() -> None:
    pairs = {"a": {"intValue": "1"}, "b": "text", "c": {"role": "user"}, "d": [1, None]}
    assert read_attributes(pairs, False) == ({"a": 1, "b": "text", "c": {"role": "user"}, "d": [1, None]}, 0)
    with pytest.raises(Unreadable):
        read_attributes(pairs, True)


def test_a_pair_that_cannot_be_used_is_counted_as_dropped_and_its_siblings_stay() -> None:
    pairs = [None, 7, {"key": 5, "value": {"stringValue": "x"}}, {"key": "k"}, ["p", "q"]]
    assert read_attributes(pairs, False) == ({"k": None, "p": "q"}, 3)
    with pytest.raises(Unreadable):
        read_attributes(pairs, True)


TRACE = "53e8191e848dfe8c399aed647a6b3d00"
SPAN = "80dd1ef4744d0001"


@pytest.mark.parametrize(
    ("text", "size", "strict_too"),
    [
        (TRACE, 16, True),
        (TRACE.upper(), 16, True),
        (SPAN, 8, True),
        ("0x" + TRACE, 16, False),
        ("0X" + SPAN, 8, False),
        ("U+gZHoSN/ow5mu1kems9AA==", 16, False),
        ("U-gZHoSN_ow5mu1kems9AA", 16, False),
        ("gN0e9HRNAAE=", 8, False),
        ("gN0e9HRNAAE", 8, False),
        (base64.b64decode(TRACE).hex(), 16, False),
        (base64.b64decode(SPAN).hex(), 8, False),
    ],
)
def test_an_id_is_read_in_every_spelling(text: str, size: int, strict_too: bool) -> None:
    true_id = TRACE if size == 16 else SPAN
    assert read_id(text, size, False) == true_id
    assert read_id(text, size, True) == (true_id if strict_too else None)


@pytest.mark.parametrize("value", [None, "", "0" * 32, "AAAAAAAAAAAAAAAAAAAAAA=="])
def test_an_absent_or_zero_id_is_empty(value: Any) -> None:
    assert read_id(value, 16, False) == ""


@pytest.mark.parametrize(
    "value",
    ["xyz", "g" * 32, TRACE + "00", TRACE[:-1], " " * 32, "ab " * 11, "�" * 32, "é" * 32, "00" * 20, 7, 1.5, [], {}],
)
def test_what_is_no_id_is_none(value: Any) -> None:
    assert read_id(value, 16, False) is None
    assert read_id(value, 16, True) is None


def test_ids_in_bytes_may_be_raw_hex_text_or_spoilt() -> None:
    raw = bytes.fromhex(TRACE)
    spoilt = base64.b64decode(TRACE)
    assert id_of_bytes(raw, 16, True) == TRACE
    assert id_of_bytes(spoilt, 16, False) == TRACE
    assert id_of_bytes(TRACE.encode(), 16, False) == TRACE
    assert id_of_bytes(spoilt, 16, True) is None
    assert id_of_bytes(bytes(16), 16, True) == ""
    assert id_of_bytes(b"", 16, True) == ""
    assert id_of_bytes(b"abc", 16, False) is None


@pytest.mark.parametrize(
    ("value", "time"),
    [
        ("1790000010000000000", 1790000010000000000),
        (1790000010000000001, 1790000010000000001),
        (0, None),
        ("0", None),
        (-5, None),
        (None, None),
        ("", None),
        (str(2**64), None),
        ("9" * 5000, None),
        ("18446744073709551615", 2**64 - 1),
    ],
)
def test_a_time_is_a_number_or_its_text_and_unset_if_not_positive(value: Any, time: int | None) -> None:
    assert read_time(value, False) == time
    assert read_time(value, True) == time


@pytest.mark.parametrize("value", ["soon", "1e18", "-1", True, [1], {}, math.inf])
def test_an_unreadable_time_is_unset_or_refused_when_strict(value: Any) -> None:
    assert read_time(value, False) is None
    with pytest.raises(Unreadable):
        read_time(value, True)


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T00:00:00.000000001Z", 1),
        ("2026-11-30T10:12:39.799523Z", 1796033559799523000),
        ("2026-11-30 10:12:39,5", 1796033559500000000),
        ("2026-11-30T12:12:39.5+02:00", 1796033559500000000),
        ("2026-11-30T05:12:39.1234567899-0500", 1796033559123456789),
        ("2026-13-30T10:12:39Z", None),
        ("1969-12-31T23:59:59Z", None),
        ("yesterday", None),
        ("2026-11-30", None),
    ],
)
def test_iso_times_are_exact_to_the_nanosecond(text: str, nanos: int | None) -> None:
    assert time_of_iso(text) == nanos


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (3, "client"),
        (1, "internal"),
        ("SPAN_KIND_CLIENT", "client"),
        ("SpanKind.CONSUMER", "consumer"),
        ("server", "server"),
        ("2", "server"),
        (None, "unspecified"),
        (99, "unspecified"),
        ("SPAN_KIND_OF", "unspecified"),
        ([], "unspecified"),
    ],
)
def test_a_kind_is_read_by_number_or_name(value: Any, kind: str) -> None:
    assert read_enum(value, KIND_OF, False) == kind


def test_strict_enums_refuse_unknown_names_and_pass_over_unknown_numbers() -> None:
    assert read_enum("STATUS_CODE_ERROR", STATUS_OF, True) == "error"
    assert read_enum(7, STATUS_OF, True) == "unset"
    for value in ("ERROR", [], {}):
        with pytest.raises(Unreadable):
            read_enum(value, STATUS_OF, True)


@pytest.mark.parametrize(
    ("value", "severity"),
    [
        (9, 9),
        ("SEVERITY_NUMBER_INFO", 9),
        ("SEVERITY_NUMBER_WARN2", 14),
        ("SeverityNumber.FATAL4", 24),
        ("<SeverityNumber.DEBUG3: 7>", 7),
        ("17", 17),
        (None, 0),
        (99, 0),
        ("LOUD", 0),
        ([], 0),
    ],
)
def test_a_severity_is_read_by_number_or_name(value: Any, severity: int) -> None:
    assert read_severity(value, False) == severity


@pytest.mark.parametrize(
    ("value", "count"), [(3, 3), ("3", 3), (3.0, 3), (None, 0), (-1, 0), ("x", 0), ([], 0), (2.5, 0)]
)
def test_a_count_is_a_whole_number_or_nothing(value: Any, count: int) -> None:
    assert read_count(value, False) == count
