# SPDX-License-Identifier: Apache-2.0
"""Basic redaction against Sediment's published vectors and the rules of section 8 of the contract."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from sediment_otel.translate import credentials
from sediment_otel.translate.redact import (
    IDENTITY_MARKER,
    MARKER,
    hide_account_identity,
    redact_fact,
    redact_text,
    redact_value,
    replace_unstorable,
)

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "sediment-vectors" / "redaction.json").read_text(encoding="utf-8")
)
TOKEN = "0123456789abcdef"


def fact(*parts: dict[str, Any], raw: Any = None) -> dict[str, Any]:
    message = {"role": "user", "parts": list(parts), "finish_reason": None}
    return {
        "session_id": f"sk-{TOKEN}",
        "model": f"sk-{TOKEN}",
        "input_messages": [message],
        "output_messages": [],
        "raw": raw or {},
    }


def text(content: str) -> dict[str, Any]:
    return {"type": "text", "content": content}


def call(arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": f"sk-{TOKEN}", "name": f"sk-{TOKEN}", "arguments": arguments}


def answer(result: Any) -> dict[str, Any]:
    return {"type": "tool_call_response", "id": "call_1", "result": result}


def parts_of(redacted: dict[str, Any]) -> list[Any]:
    return [
        part.get("content", part.get("arguments", part.get("result")))
        for part in redacted["input_messages"][0]["parts"]
    ]


@pytest.mark.parametrize("vector", VECTORS["text"], ids=lambda vector: vector["in"][:30])
def test_a_text_comes_out_as_sediment_publishes_it(vector: dict[str, Any]) -> None:
    expected = vector["in"] if vector["out"] == "(unchanged)" else vector["out"]
    assert redact_text(vector["in"]) == expected
    assert redact_text(expected) is expected


@pytest.mark.parametrize("vector", VECTORS["raw"], ids=lambda vector: json.dumps(vector["in"])[:30])
def test_an_object_comes_out_as_sediment_publishes_it(vector: dict[str, Any]) -> None:
    assert redact_value(vector["in"]) == vector["out"]
    assert redact_value(vector["out"]) is vector["out"]


def test_a_credential_of_a_tool_is_replaced_in_every_other_part() -> None:
    given, expected = VECTORS["cross_part"]["in"], VECTORS["cross_part"]["out"]
    redacted = redact_fact(
        fact(
            answer(given["tool_call_response.result"]),
            text(given["text"]),
            call(given["tool_call.arguments"]),
            raw=given["raw"],
        )
    )
    assert parts_of(redacted) == [
        expected["tool_call_response.result"],
        expected["text"],
        expected["tool_call.arguments"],
    ]
    assert redacted["raw"] == expected["raw"]


TEXTS = [
    # header
    (f"Authorization = Bearer\t{TOKEN}==;", f"Authorization = Bearer\t{MARKER};"),
    (f"authorization:\nbearer {TOKEN}", f"authorization:\nbearer {MARKER}"),
    (f"Authorization: Basic {TOKEN}", None),
    (f"Bearer\n{TOKEN}", None),
    (f"xBearer {TOKEN}", None),
    (f"Bearer {TOKEN[:15]}", None),
    (f"Bearer {TOKEN[:15]}=", None),
    (f"Bearer {TOKEN[:15]}\u212a", f"Bearer {MARKER}"),
    # quoted pairs
    ("'Proxy-Authorization' : \"a'b\"", f"'Proxy-Authorization' : \"{MARKER}\""),
    ('"my_api_key": "a\\"b" c', f'"my_api_key": "{MARKER}" c'),
    ('"api_key": "cut sho', f'"api_key": "{MARKER}'),
    ('"api_key": "a\\', f'"api_key": "{MARKER}'),
    ('"api_key": "abc\\"def\nnext', f'"api_key": "{MARKER}"def\nnext'),
    ('"api_key": "two\nlines"', None),
    ('"api_key": ""', None),
    ('"api_key\': "v"', None),
    ('"a":"api_key":"v"', None),
    ("\"a\":'v'api_key': 'w'", None),
    ("\"api_key\":'v'api_key': 'w'", f"\"api_key\":'{MARKER}'api_key': 'w'"),
    ('"x-authorization": "v"', None),
    ('"my_apikey": "v"', None),
    # assignments
    ("api key: 'abcdefgh'", f"api key: '{MARKER}'"),
    ("api_key='abcdefg'", None),
    ("api_key='abc defgh'", None),
    ("api_key='abcdefgh\"", None),
    (f"x-y_api_key={TOKEN}", f"x-y_api_key={MARKER}"),
    (f"'x-y_api_key'={TOKEN}", f"'x-y_api_key'={MARKER}"),
    (f"_api_key={TOKEN}", None),
    (f"x__api_key={TOKEN}", None),
    (f"api__key={TOKEN}", None),
    (f"api_key={TOKEN[:15]}", None),
    (f"api_key=={TOKEN}", None),
    (f"ap\u0131_\u212aey={TOKEN}", f"ap\u0131_\u212aey={MARKER}"),
    # provider keys
    (f"(sk-{TOKEN})", f"({MARKER})"),
    (f"task-{TOKEN}", None),
    (f"SK-{TOKEN}", None),
    (f"sk-{TOKEN[:15]}", None),
    # a neighbour that hides another one
    (f"api_key={TOKEN}'api_key'={TOKEN}", f"api_key={MARKER}'api_key'={MARKER}"),
]


@pytest.mark.parametrize(("given", "expected"), TEXTS)
def test_a_near_miss_stays_and_a_hit_goes(given: str, expected: str | None) -> None:
    if expected is None:
        assert redact_text(given) is given
    else:
        assert redact_text(given) == expected
        assert redact_text(expected) is expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("short", MARKER),
        ("", MARKER),
        (f"bearer  {TOKEN}=", f"bearer  {MARKER}"),
        (f"Bearer {TOKEN} x", MARKER),
        ("Bearer short", MARKER),
        (f"BEARER\t{MARKER}", f"BEARER\t{MARKER}"),
        (["short", f"sk-{TOKEN}"], ["short", MARKER]),
        ({"x": "short"}, {"x": "short"}),
        (5, 5),
        (None, None),
    ],
)
@pytest.mark.parametrize("key", ["Authorization", "PROXY-authorization", "x_api-key", "apiKey", "my-api_\u212aey"])
def test_only_a_string_under_a_credentials_key_is_replaced_whole(key: str, value: Any, expected: Any) -> None:
    redacted = redact_value({key: value})
    assert redacted == {key: expected}
    assert redact_value(redacted) is redacted


@pytest.mark.parametrize(
    "key", ["api key", "authorization ", "x-authorization", "my_apikey", "author\u0131zation", "key"]
)
def test_other_keys_are_no_credentials(key: str) -> None:
    assert redact_value(given := {key: "short"}) is given


def test_a_credential_is_replaced_where_it_fills_whole_lines_the_longest_first() -> None:
    redacted = redact_fact(
        fact(
            call({"api_key": "two\nlines", "x_api_key": "two", "authorization": f"Bearer {TOKEN}"}),
            text("two\nlines\ntwo\n two"),
            text(f"{TOKEN}\nin a {TOKEN} line\n{TOKEN}\r"),
            answer("two"),
            raw={"two": ["two", "Two"]},
        )
    )
    assert parts_of(redacted)[1:] == [
        f"{MARKER}\n{MARKER}\n two",
        f"{MARKER}\nin a {TOKEN} line\n{TOKEN}\r",
        MARKER,
    ]
    assert redacted["raw"] == {"two": [MARKER, "Two"]}
    assert redact_fact(redacted) is redacted


def test_a_credential_that_ends_with_a_line_feed_leaves_its_empty_line_to_the_next() -> None:
    redacted = redact_fact(fact(call({"api_key": "ab\n", "apikey": "\ncd"}), text("ab\n\ncd"), text("ab\ncd")))
    assert parts_of(redacted)[1:] == [MARKER * 2, "ab\ncd"]


def test_a_pair_that_comes_to_light_when_a_line_is_gone_is_redacted_at_once() -> None:
    redacted = redact_fact(fact(call({"api_key": '"k":'}), text('"k":\n"api_key":"v"')))
    assert parts_of(redacted)[1:] == [f'{MARKER}\n"api_key":"{MARKER}"']
    assert redact_fact(redacted) is redacted


def test_a_credential_of_raw_or_of_text_is_not_looked_for_elsewhere() -> None:
    redacted = redact_fact(fact(text("abc"), answer('{"api_key":"abc"}'), raw={"api_key": "abc"}))
    assert parts_of(redacted) == ["abc", f'{{"api_key":"{MARKER}"}}']


def test_ids_names_roles_and_keys_are_not_touched() -> None:
    given = fact(call({f"sk-{TOKEN}": 1}), raw={f"sk-{TOKEN}": 2})
    assert redact_fact(given) is given


def test_the_input_is_not_changed_in_place() -> None:
    given = fact(call({"api_key": "abc"}), text("abc"), raw={"a": [f"sk-{TOKEN}"]})
    before = json.dumps(given)
    assert redact_fact(given) != given
    assert json.dumps(given) == before


def test_any_depth_of_nesting_is_redacted() -> None:
    value: Any = f"sk-{TOKEN}"
    for _ in range(50_000):
        value = [value]
    redacted = redact_fact(fact(call({"a": value}), raw={"a": value}))["raw"]["a"]
    while isinstance(redacted, list):
        redacted = redacted[0]
    assert redacted == MARKER


def test_an_object_that_stands_in_several_places_is_redacted_in_each() -> None:
    shared = {"a": f"sk-{TOKEN}"}
    assert redact_value([shared, {"b": [shared]}, shared]) == [{"a": MARKER}, {"b": [{"a": MARKER}]}, {"a": MARKER}]


def test_a_value_that_makes_the_redactor_fail_is_withheld_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(value: str) -> str:
        if value == "bad":
            raise RecursionError
        return value

    monkeypatch.setattr(credentials, "redact_text", failing)
    redacted = redact_fact(fact(text("bad"), text("good"), call({"x": ["bad", "good"]}), raw={"y": "bad"}))
    assert parts_of(redacted) == [MARKER, "good", {"x": [MARKER, "good"]}]
    assert redacted["raw"] == {"y": MARKER}


def test_an_object_that_cannot_be_walked_is_withheld() -> None:
    class Broken(dict[str, Any]):
        def values(self) -> Any:
            raise RuntimeError

    assert redact_fact(fact(text("good"), raw=Broken(a=f"sk-{TOKEN}")))["raw"] == {}


HOSTILE = {
    "keys that open": '"api_key',
    "pairs that open": '"a":"',
    "pairs in other quotes": "'a':\"",
    "escaped quotes": '"api_key":"\\',
    "bearers": "Bearer ",
    "headers": "Authorization: ",
    "headers and blanks": "Authorization" + " " * 50,
    "quotes": "\"'",
    "backslashes": "\\",
    "quotes and blanks": '" ',
    "prefixes": "a_",
    "prefixes of both kinds": "a-b_",
    "names": "api_",
    "hidden neighbours": f"api_key={TOKEN}'api_key'={TOKEN}é",
    "glued neighbours": f"'api_key'={TOKEN}",
    "short keys": "sk-a.",
    "line feeds": "\n",
    "letters": "a",
    "words": "api key bearer sk- authorization ",
}


@pytest.mark.parametrize("piece", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("start", ["", '"api_key":"'], ids=repr)
def test_a_megabyte_of_hostile_text_takes_linear_time(start: str, piece: str) -> None:
    def seconds(size: int) -> float:
        given = start + piece * (size // len(piece)) + '\n"api_key bearer authorization sk-'
        begin = time.process_time()
        redact_text(given)
        return time.process_time() - begin

    # Four rounds of five passes at most; quadratic time would be minutes.
    small, large = seconds(50_000), seconds(1_000_000)
    assert large < 5
    assert large < 80 * max(small, 0.002)


def test_many_credentials_and_many_lines_take_linear_time() -> None:
    keys = {f"{number}_api_key": f"secret {number}\nx" for number in range(10_000)}
    lines = "\n".join(f"secret {number}\ny" for number in range(50_000))
    begin = time.process_time()
    redact_fact(fact(call(keys), text(lines), raw={"a": lines}))
    assert time.process_time() - begin < 5


UNSTORABLE = [
    ("a\x00b", "a\ufffdb", [""]),
    (["ok", "\ud800"], ["ok", "\ufffd"], ["/1"]),
    ({"a": {"b/c~": ["\udfff\x00"]}}, {"a": {"b/c~": ["\ufffd\ufffd"]}}, ["/a/b~1c~0/0"]),
    ({"k\x00": 1}, {"k\ufffd": 1}, ["/k\ufffd"]),
    ({"k\x00": "v\x00"}, {"k\ufffd": "v\ufffd"}, ["/k\ufffd", "/k\ufffd"]),
    (
        {f"k{chr(point)}": number for number, point in ((1, 0), (2, 0xD800), (3, 0xFFFD))},
        {"k\ufffd\ufffd": 1, "k\ufffd\ufffd\ufffd": 2, "k\ufffd": 3},
        None,
    ),
]


@pytest.mark.parametrize(("given", "expected", "places"), UNSTORABLE)
def test_nul_and_lone_surrogates_become_the_replacement_character(given: Any, expected: Any, places: Any) -> None:
    clean, found = replace_unstorable(given)
    assert clean == expected
    if isinstance(given, dict):
        assert list(clean) == list(expected)
    assert places is None or found == places
    assert replace_unstorable(clean) == (clean, [])


@pytest.mark.parametrize("given", ["é\U0001f600", {"a": [1, None, True, 1.5, {"b": "\x01"}]}, [], 7])
def test_a_value_that_can_be_stored_is_the_same_object(given: Any) -> None:
    clean, found = replace_unstorable(given)
    assert clean is given
    assert found == []


def test_the_accounts_identity_is_hidden_and_nothing_else() -> None:
    given = {"user.email": "a@b.c", "user.account_id": 5, "user.account_uuid": None, "user.id": "u", "enduser.id": "e"}
    hidden = hide_account_identity(given)
    assert hidden == {**given, **dict.fromkeys(["user.email", "user.account_id", "user.account_uuid"], IDENTITY_MARKER)}
    assert list(hidden) == list(given)
    assert hide_account_identity(hidden) is hidden
    assert hide_account_identity(plain := {"user.id": "u"}) is plain
