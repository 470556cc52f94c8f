# SPDX-License-Identifier: Apache-2.0
"""The filter over encoded JSON: what it lets pass needs no redaction, however it is spelt."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sediment_otel.translate.credential_filter import (
    Filter,
    credential_filter,
    may_hold_credential,
    may_hold_credential_pure,
)
from sediment_otel.translate.credentials import is_credential_key
from sediment_otel.translate.redact import MARKER, redact_fact, redact_text, redact_value, replace_unstorable

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "sediment-vectors" / "redaction.json").read_text(encoding="utf-8")
)
TOKEN = "0123456789abcdef"
FAST: Filter = credential_filter()
FILTERS = {"pure": may_hold_credential_pure} | ({} if FAST is may_hold_credential_pure else {"hyperscan": FAST})

# Pieces of which near misses and hits are made.
PIECES = (
    *"\"'\\ \t\n\r:=-_./+~[],x1é\u00a0\u2003\u2028\x1c\x85\x00\x1b\u212a\u017f\u0130\u0131\U0001f600<&",
    *('\\"', "api_key", "api-key", "api key", "apikey", "API_KEY", "ap\u0131_\u212aey", "x_api_key", "my-api-key"),
    *("authorization", "Authorization", "proxy-authorization", "Bearer", "bearer ", "Bearer ", "Bearer\t"),
    *("sk-", "sk-", "SK-", "task-", "sk-proj-", TOKEN, TOKEN[:15], TOKEN[:8], TOKEN[:7], "v", "abc def"),
    *('"api_key":"', "'api_key' : '", "api_key=", "OPENAI_API_KEY=", "Authorization: Bearer ", '"a":"', '": "', MARKER),
)
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
lines = st.lists(
    st.sampled_from(["s1", "s1\ns2", " s1 ", "", f"Bearer {TOKEN}", MARKER, "bearer x"]) | texts, max_size=4
)
strings = texts | lines.map("\n".join)
keys = st.sampled_from(["a", "api_key", "X-API-KEY", "authorization", "api_\u212aey", "apikey", "my_apikey"]) | texts
scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | strings
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
objects = st.dictionaries(keys, values, max_size=3)
parts = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "reasoning"]), "content": strings}),
    st.fixed_dictionaries({"type": st.just("tool_call"), "id": strings, "name": strings, "arguments": objects}),
    st.fixed_dictionaries({"type": st.just("tool_call_response"), "id": strings, "result": values}),
)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": strings, "parts": st.lists(parts, max_size=3), "finish_reason": st.none() | strings}
    ),
    max_size=2,
)
facts = st.fixed_dictionaries(
    {"model": strings, "input_messages": messages, "output_messages": messages, "raw": objects}
)
often = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def spellings(value: Any) -> list[bytes]:
    """The same JSON as several encoders write it."""
    ascii_only = json.dumps(value).encode()
    return [
        msgspec.json.encode(value),
        ascii_only,
        json.dumps(value, ensure_ascii=False, indent=1).encode(),
        ascii_only.replace(b"/", rb"\/").replace(rb"\t", rb"\u0009").replace(rb"\n", rb"\u000A"),
        ascii_only.replace(b"<", rb"\u003c").replace(b"&", rb"\u0026"),
    ]


@often
@given(strings)
def test_redacting_a_text_twice_changes_nothing(text: str) -> None:
    redacted = redact_text(text)
    assert redact_text(redacted) is redacted


@often
@given(facts)
def test_redacting_a_fact_twice_changes_nothing(fact: dict[str, Any]) -> None:
    redacted = redact_fact(fact)
    assert (redacted is fact) == (redacted == fact)
    assert redact_fact(redacted) is redacted


@often
@given(facts)
def test_what_the_filter_lets_pass_needs_no_redaction(fact: dict[str, Any]) -> None:
    needed = redact_fact(fact) is not fact or replace_unstorable(fact)[1] != []
    for data in spellings(fact):
        answers = {name: accept(data) for name, accept in FILTERS.items()}
        assert len(set(answers.values())) == 1, (answers, data)
        assert not needed or answers["pure"], data


@often
@given(strings)
def test_the_filter_holds_for_a_text_on_its_own(text: str) -> None:
    needed = redact_text(text) is not text or "\x00" in text
    for data in spellings({"a": text}):
        answers = {accept(data) for accept in FILTERS.values()}
        assert len(answers) == 1, data
        assert not needed or answers == {True}, data


HITS = [vector["in"] for vector in VECTORS["text"] if vector["out"] != "(unchanged)"] + [
    vector["in"] for vector in VECTORS["raw"]
]


@pytest.mark.parametrize("accept", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize("hit", HITS, ids=lambda hit: json.dumps(hit)[:30])
def test_every_vector_is_a_hit_also_with_any_of_its_letters_escaped(accept: Filter, hit: Any) -> None:
    plain = json.dumps({"a": hit})
    assert accept(plain.encode())
    for index, letter in enumerate(plain):
        if letter.isalnum() and plain[index - 1] != "\\":
            for escape in (f"\\u{ord(letter):04x}", f"\\u{ord(letter):04X}"):
                spelt = plain[:index] + escape + plain[index + 1 :]
                assert json.loads(spelt) == {"a": hit}
                assert accept(spelt.encode()), spelt


@pytest.mark.parametrize("accept", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize(
    "data",
    [
        rb'"\u0000"',
        rb'"\ud800"',
        rb'"x\uDFFFy"',
        rb'{"a\u0000":1}',
        b'{"ap\xc4\xb1_\xe2\x84\xaaey = 0123456789abcdef":1}',
        rb'["ap\u0131_\u212Aey = 0123456789abcdef"]',
        b'{"api_\xe2\x84\xaaEY" : ""}',
        rb'"\nsk-0123456789abcdef"',
        rb'"\u00e9sk-0123456789abcdef"',
        b'"\xc3\xa9sk-0123456789abcdef"',
        b'{"Authorization"\n:\t"x"}',
        rb'"Bearer\u00090123456789abcdef"',
        rb'"Bearer 0123456789abcde\u002B"',
        rb'"{\u0022api_key\u0022: \u0022v\u0022}"',
        rb'"\u0027api_key\u0027:\u0027v\u0027"',
        rb'"\"api key\" = 0123456789abcdef"',
        rb'"\u0027api key\u0027:0123456789abcdef"',
    ],
)
def test_odd_spellings_are_hits(accept: Filter, data: bytes) -> None:
    assert accept(data)


@pytest.mark.parametrize("accept", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize(
    "text",
    [
        "",
        "task-0123456789abcdef0123, disk-usage-0123456789abcdef, a_sk-0123456789abcdef",
        "the bearer of bad news; authorization is required; Authorization: none",
        'def f(api_key: str) -> None: os.environ["API_KEY"]; "authorization" in headers; apiKey',
        "\x1b[31mred\x1b[0m <a href=x>&amp;</a> \u0131\u0130\u212a\u017f \U0001f600 \\u212a",
        "api_key=short, the API key. Next",
    ],
)
def test_ordinary_text_is_no_hit(accept: Filter, text: str) -> None:
    assert not accept(msgspec.json.encode({"a": text}))


@pytest.mark.parametrize("accept", FILTERS.values(), ids=FILTERS.keys())
@pytest.mark.parametrize(
    "piece",
    [
        b'"api_key',
        b"api_key=",
        b"Bearer ",
        b'authorization\\"',
        b"sk-",
        b"\\u",
        b"\\n",
        b"\xe2\x80\x83",
        b"a",
        b"api_key=\\n\\n\\n",
    ],
)
def test_a_megabyte_of_hostile_json_takes_linear_time(accept: Filter, piece: bytes) -> None:
    for data in (piece * (1_000_000 // len(piece)), b"api_key=" + piece * (1_000_000 // len(piece))):
        begin = time.process_time()
        accept(data)
        assert time.process_time() - begin < 2


@pytest.mark.parametrize("accept", FILTERS.values(), ids=FILTERS.keys())
def test_threads_may_ask_at_the_same_time(accept: Filter) -> None:
    hit = msgspec.json.encode({"a": "x" * 200_000 + f" sk-{TOKEN}"})
    miss = msgspec.json.encode({"a": "x" * 200_000})
    wrong: list[object] = []
    together = threading.Barrier(4)

    def ask(data: bytes, expected: bool) -> None:
        try:
            together.wait()
            wrong.extend(answer for _ in range(50) if (answer := accept(data)) is not expected)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=ask, args=pair) for pair in [(hit, True), (miss, False)] * 2]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_chosen_filter_answers_like_both() -> None:
    assert may_hold_credential(f'"sk-{TOKEN}"'.encode())
    assert not may_hold_credential(b'"plain"')
    assert credential_filter(pure=True) is may_hold_credential_pure


def test_the_filter_is_pure_where_hyperscan_is_absent_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "hyperscan", None)
    assert credential_filter() is may_hold_credential_pure
    monkeypatch.setitem(__import__("sys").modules, "hyperscan", object())
    assert credential_filter() is may_hold_credential_pure


def test_only_the_kelvin_sign_spells_a_credentials_key_outside_ascii() -> None:
    """The filter knows U+212A alone; this goes through all of Unicode for another character."""
    for point in range(0x80, 0x110000):
        folded = chr(point).casefold()
        if folded.isascii() and chr(point) != "\u212a":
            assert folded not in "authorization proxy_authorization x_api_key apikey", hex(point)
    assert is_credential_key("api_\u212aey")
    assert redact_value({"api_\u212aey": "x"}) == {"api_\u212aey": MARKER}
