# SPDX-License-Identifier: Apache-2.0
"""Basic redaction of one fact, as a running Sediment does it at its own door (section 8 of the contract).

In: a fact, or any value of it, as builtins (`dict`, `list`, `str`, numbers, null). Out: the same value with
credentials replaced by `MARKER`; the very same object where nothing was replaced, so that a caller can tell by `is`.
Inputs are never changed in place. Redacting twice changes nothing.

Order inside a fact: `raw` and its strings; then the credentials that stand under a credential's key in the
arguments of a tool call or in the result of a tool, taken before redaction, are replaced wherever one fills a whole
line of another string of the fact. Ids, names, roles, scalars, keys and numbers are never touched.

Nothing here recurses, so nesting has no limit. A value that makes a redactor fail is withheld, never the fact:
a string becomes the marker, an object becomes empty.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sediment_otel.translate import credentials
from sediment_otel.translate.credentials import MARKER, bearer_token, is_credential_key, redact_text

__all__ = [
    "IDENTITY_MARKER",
    "MARKER",
    "hide_account_identity",
    "redact_fact",
    "redact_text",
    "redact_value",
    "replace_unstorable",
]

IDENTITY_MARKER = "[REDACTED_IDENTITY]"
REPLACEMENT = "\ufffd"
_ACCOUNT_KEYS = ("user.email", "user.account_id", "user.account_uuid")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTENT_OF = {"text": "content", "reasoning": "content", "tool_call": "arguments", "tool_call_response": "result"}
_STRUCTURED = {"tool_call": "arguments", "tool_call_response": "result"}

# How a string is rewritten, given whether it stands under a credential's key.
Rewrite = Callable[[str, bool], str]


def redact_value(value: Any) -> Any:
    """The value with the credentials in its strings replaced, wherever they stand; keys and numbers stay."""
    return _rewrite(value, _redact_string)


def redact_fact(fact: dict[str, Any]) -> dict[str, Any]:
    """The fact with the credentials in its parts and its `raw` replaced."""
    secrets = _Secrets(_structured_credentials(fact))

    def redact_string(text: str, under_credential_key: bool) -> str:
        redacted = _redact_string(text, under_credential_key)
        replaced = secrets.replace_lines(redacted)
        # A line less can bring a pair to light; without this, redacting twice would change something.
        return replaced if replaced is redacted else _redact_string(replaced, under_credential_key)

    def redact(value: Any) -> Any:
        return _rewrite(value, redact_string if secrets else _redact_string)

    changed: dict[str, Any] = {}
    if "raw" in fact:
        raw = _guarded(redact, fact["raw"])
        if raw is not fact["raw"]:
            changed["raw"] = raw
    for field in ("input_messages", "output_messages"):
        messages = fact.get(field)
        if isinstance(messages, list):
            redacted = _each(messages, lambda message: _redact_message(message, redact))
            if redacted is not messages:
                changed[field] = redacted
    return {**fact, **changed} if changed else fact


def replace_unstorable(value: Any) -> tuple[Any, list[str]]:
    """NUL and surrogates in every string, keys included, become U+FFFD.

    Returns the value (the same object where nothing was replaced) and the JSON Pointers of the strings that were,
    once per string. The pointer of a key is that of its member, spelt with the new key. A key that would
    collide with another one of its object gets further U+FFFD at its end, so that no member is lost.
    """
    if not _holds_unstorable(value):
        return value, []
    places: list[str] = []
    root: list[Any] = []
    # Last in, first out, children in reverse: members arrive in their order. Copies are complete when it is empty.
    stack: list[tuple[list[Any] | dict[str, Any], str, Any, str]] = [(root, "", value, "")]
    while stack:
        holder, key, node, pointer = stack.pop()
        if isinstance(node, str):
            copy: Any = _UNSTORABLE.sub(REPLACEMENT, node)
            if copy != node:
                places.append(pointer)
        elif isinstance(node, dict):
            copy = {}
            names = _storable_keys(node, pointer, places)
            stack.extend(
                (copy, name, member, f"{pointer}/{_escaped(name)}")
                for name, member in reversed(list(zip(names, node.values(), strict=True)))
            )
        elif isinstance(node, (list, tuple)):
            copy = []
            stack.extend((copy, "", node[index], f"{pointer}/{index}") for index in range(len(node) - 1, -1, -1))
        else:
            copy = node
        if isinstance(holder, list):
            holder.append(copy)
        else:
            holder[key] = copy
    return root[0], places


def hide_account_identity(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes with the account's identity replaced; the same object where there is none (section 5)."""
    hidden = {key: IDENTITY_MARKER for key in _ACCOUNT_KEYS if key in attributes and attributes[key] != IDENTITY_MARKER}
    return {**attributes, **hidden} if hidden else attributes


def _holds_unstorable(value: Any) -> bool:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            if _UNSTORABLE.search(node):
                return True
        elif isinstance(node, dict):
            stack.extend(node)
            stack.extend(node.values())
        elif isinstance(node, (list, tuple)):
            stack.extend(node)
    return False


def _storable_keys(node: dict[Any, Any], pointer: str, places: list[str]) -> list[Any]:
    """The keys of one object in their order, all storable and all different."""
    names: list[Any] = []
    taken = {key for key in node if not isinstance(key, str) or not _UNSTORABLE.search(key)}
    for key in node:
        if key not in taken:
            key = _UNSTORABLE.sub(REPLACEMENT, key)
            while key in taken:
                key += REPLACEMENT
            taken.add(key)
            places.append(f"{pointer}/{_escaped(key)}")
        names.append(key)
    return names


def _escaped(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")


def _redact_string(text: str, under_credential_key: bool) -> str:
    # Looked up at the call, so that a test can put a failing one in its place.
    return credentials.redact_credential(text) if under_credential_key else credentials.redact_text(text)


def _redact_message(message: Any, redact: Callable[[Any], Any]) -> Any:
    if not isinstance(message, dict) or not isinstance(message.get("parts"), list):
        return message
    parts = _each(message["parts"], lambda part: _redact_part(part, redact))
    return message if parts is message["parts"] else {**message, "parts": parts}


def _redact_part(part: Any, redact: Callable[[Any], Any]) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    field = _CONTENT_OF.get(kind) if isinstance(kind, str) else None
    if field is None or field not in part:
        return part
    content = _guarded(redact, part[field])
    return part if content is part[field] else {**part, field: content}


def _each(items: list[Any], change: Callable[[Any], Any]) -> list[Any]:
    changed = [change(item) for item in items]
    return items if all(new is old for new, old in zip(changed, items, strict=True)) else changed


def _guarded(redact: Callable[[Any], Any], value: Any) -> Any:
    try:
        return redact(value)
    except Exception:  # whatever it is: the value must not leave as it is
        return {} if isinstance(value, dict) else MARKER


def _structured_credentials(fact: dict[str, Any]) -> set[str]:
    """The credentials that stand under a credential's key in tool arguments and tool results."""
    found: set[str] = set()
    for field in ("input_messages", "output_messages"):
        messages = fact.get(field)
        for message in messages if isinstance(messages, list) else ():
            parts = message.get("parts") if isinstance(message, dict) else None
            for part in parts if isinstance(parts, list) else ():
                place = _STRUCTURED.get(str(part.get("type"))) if isinstance(part, dict) else None
                if place:
                    _rewrite(part.get(place), _collector(found))
    return found


def _collector(found: set[str]) -> Rewrite:
    def collect(text: str, under_credential_key: bool) -> str:
        if under_credential_key and text and credentials.redact_credential(text) != text:
            bearer = bearer_token(text)
            found.add(bearer[1] if bearer else text)
        return text

    return collect


class _Secrets:
    """Known credentials, replaced where one fills whole lines of a text; the longest of those that fit goes first.

    Only a line feed ends a line. Looked up by their first line, so the cost does not grow with their number.
    """

    def __init__(self, secrets: set[str]) -> None:
        self._by_first_line: dict[str, list[str]] = {}
        for secret in sorted(secrets, key=lambda secret: (-len(secret), secret)):
            self._by_first_line.setdefault(secret.partition("\n")[0], []).append(secret)

    def __bool__(self) -> bool:
        return bool(self._by_first_line)

    def replace_lines(self, text: str) -> str:
        kept: list[str] = []
        copied = line = 0
        while line <= len(text):
            feed = text.find("\n", line)
            feed = len(text) if feed < 0 else feed
            end = self._end_of_secret(text, line, feed)
            if end < 0:
                line = feed + 1
                continue
            kept += text[copied:line], MARKER
            copied = end
            # A credential that ends with a line feed leaves an empty line, where the next one may begin.
            line = end if text[end - 1] == "\n" else end + 1
        if not kept:
            return text
        kept.append(text[copied:])
        replaced = "".join(kept)
        return text if replaced == text else replaced

    def _end_of_secret(self, text: str, line: int, feed: int) -> int:
        for secret in self._by_first_line.get(text[line:feed], ()):
            end = line + len(secret)
            if text.startswith(secret, line) and (end == len(text) or text[end] == "\n"):
                return end
        return -1


def _rewrite(value: Any, rewrite: Rewrite) -> Any:
    """The value with every string in it rewritten; what did not change stays the same object."""
    if isinstance(value, str):
        return _withheld_on_failure(rewrite, value, False)
    if not isinstance(value, (dict, list, tuple)):
        return value
    done: dict[int, Any] = {}
    entered: set[int] = set()
    stack: list[Any] = [value]
    while stack:
        node = stack[-1]
        if id(node) not in entered:
            entered.add(id(node))
            members = node.values() if isinstance(node, dict) else node
            pending = [m for m in members if isinstance(m, (dict, list, tuple)) and id(m) not in entered]
            if pending:
                stack.extend(pending)
                continue
        stack.pop()
        if id(node) not in done:
            done[id(node)] = _rewritten(node, done, rewrite)
    return done[id(value)]


def _rewritten(node: Any, done: dict[int, Any], rewrite: Rewrite) -> Any:
    """One container whose inner containers are done."""
    copy: Any = None
    keyed = isinstance(node, dict)
    for place, member in node.items() if keyed else enumerate(node):
        if isinstance(member, str):
            under = keyed and isinstance(place, str) and is_credential_key(place)
            new = _withheld_on_failure(rewrite, member, under)
        elif isinstance(member, (dict, list, tuple)):
            new = done.get(id(member), member)
        else:
            continue
        if new is not member:
            if copy is None:
                copy = dict(node) if keyed else list(node)
            copy[place] = new
    return node if copy is None else copy


def _withheld_on_failure(rewrite: Rewrite, text: str, under_credential_key: bool) -> str:
    try:
        return rewrite(text, under_credential_key)
    except Exception:  # whatever it is: the text must not leave as it is
        return MARKER
