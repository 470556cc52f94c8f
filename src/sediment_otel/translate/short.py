# SPDX-License-Identifier: Apache-2.0
"""The short way through the translation, for messages that already have the shape of a fact.

`formats.canonical` checked them while decoding. What is left is to put the system message in front, to give
the answer its finish reason, and to decide what stands in `raw`: text that is exactly as long as this
project would write it stands there as it is, other text is parsed first. Every string of the messages is
then in `raw` as well, so that looking for credentials there is looking for them everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ..formats.canonical import CheckedMessage, Text
from ..genai import Messages, Reading

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


class Short(NamedTuple):
    """Input and output as encoded JSON, and the stored form of the attributes they stood in."""

    inputs: msgspec.Raw
    outputs: msgspec.Raw
    ready: Mapping[str, Any]


def short_way(reading: Reading, reasons: list[str | None]) -> Short | None:
    """The messages of a fact without a look at each, or None where the general way must go.

    It is open where every direction stands in one span attribute of JSON text that decoded into fact
    messages, with one choice at most.
    """
    given, system, output = reading.input, reading.system, reading.output
    for messages in (given, system, output):
        if messages is not None and (messages.typed is None or not messages.source.startswith(_SPAN)):
            return None
    if output is not None and len(output.typed or ()) > 1:
        return None
    ready: dict[str, Any] = {}
    inputs = _stored(given, ready) if given is not None else b"[]"
    if system is not None:
        if system is given or not _stored(system, ready):
            return None
        inputs = _with_system(system.typed or [], given, inputs)
    outputs = _stored(output, ready) if output is not None else b"[]"
    if output is not None and reasons and reasons[0] is not None:
        (message,) = output.typed or [None]
        if message is not None and message.finish_reason is None:
            outputs = encode([CheckedMessage(message.role, message.parts, reasons[0])])
    return Short(msgspec.Raw(inputs), msgspec.Raw(outputs), ready)


_SPAN = "span attribute "


def _stored(messages: Messages, ready: dict[str, Any]) -> bytes:
    """The messages encoded; the stored form of their attribute goes to `ready`."""
    text = (messages.text or "").encode()
    encoded = encode(messages.typed)
    exact = messages.surplus is not None and len(text) == len(encoded) + messages.surplus
    ready[messages.source[len(_SPAN) :]] = msgspec.Raw(text) if exact else _decode(text)
    return encoded


def _with_system(parts: list[Text], given: Messages | None, inputs: bytes) -> bytes:
    """The system message in front, unless the input begins with the same texts."""
    messages: list[CheckedMessage] = (given.typed or []) if given is not None else []
    if messages and messages[0].role == "system":
        texts = [part.content for part in messages[0].parts if type(part) is Text]
        if texts == [part.content for part in parts]:
            return inputs
    first = encode([CheckedMessage("system", list(parts), None)])
    return first if len(inputs) == 2 else first[:-1] + b"," + inputs[1:]
