# SPDX-License-Identifier: Apache-2.0
"""What the keys of a span's attributes decide by themselves, without a look at their values.

The spans of one instrumentation have the same keys in the same order, span after span. What follows from the keys
alone (their sorted order, which of them hold messages, which one feeds a field) is found out once and remembered by
the keys; nothing that depends on a value or a setting is. Few layouts are remembered, and only small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

import msgspec

from ..dialects import gen_ai
from ..dialects.registry import MESSAGE_ATTRIBUTES, PRODUCT_SESSION_KEYS, SIGN_KEYS
from . import identity

#: Attributes that say whose account was used (contract, section 5).
ACCOUNT_IDENTITY = frozenset({"user.email", "user.account_id", "user.account_uuid"})

_SPECIAL = MESSAGE_ATTRIBUTES | ACCOUNT_IDENTITY
_FIELDS = gen_ai.DIALECT.fields
#: Attributes that make a call more than the short way knows.
_UNUSUAL = frozenset({*_FIELDS["previous_response_id"], gen_ai.API_TYPE})
_SESSIONS = tuple(dict.fromkeys((identity.SESSION_KEY, *PRODUCT_SESSION_KEYS, *identity.SESSION_KEYS_BEHIND)))
_MOST = 256
_MOST_KEYS = 64
_MOST_TEXT = 4096


class Layout(msgspec.Struct):
    """What follows from the keys. `None` where no key feeds a field; else the first one that does."""

    #: All keys, sorted; the function that takes their values in this order; the one that puts such values together
    #: again into something that encodes as the object of these keys and values.
    ordered: tuple[str, ...]
    values: Callable[[Mapping[str, Any]], tuple[Any, ...]]
    pack: Callable[..., Any]
    #: Those that are not stored as they are (messages, account identity), with their places among the sorted ones.
    special: tuple[tuple[int, str], ...]
    model: str | None
    provider: str | None
    response_id: str | None
    input_tokens: str | None
    output_tokens: str | None
    #: Keys that name a session, in the order of the contract; whether metadata may name one; whether any names a user.
    sessions: tuple[str, ...]
    has_metadata: bool
    names_user: bool
    #: The gateway that the keys show.
    gateway: str | None
    #: Whether a key says more than the short way knows; whether one is the sign of another dialect.
    unusual: bool
    has_sign: bool
    #: Where each key stands.
    place: Mapping[str, int]
    #: Whether these keys were seen only once. When they come again, a struct is made for them: it encodes sooner than a
    #: dict, and takes longer to make than one.
    is_new: bool = True


def layout_of(attributes: Mapping[str, Any]) -> Layout:
    """The layout of a span's attributes."""
    return layout_of_keys(tuple(attributes))


def layout_of_keys(keys: tuple[str, ...]) -> Layout:
    """The layout of attributes with these keys, in their order. A key may occur twice: the last one counts."""
    found = _KNOWN.get(keys)
    if found is None:
        found = _layout(keys)
        if len(keys) <= _MOST_KEYS and sum(map(len, keys)) <= _MOST_TEXT:
            if len(_KNOWN) >= _MOST:
                _KNOWN.clear()
            _KNOWN[keys] = found
    elif found.is_new:
        found.is_new = False
        found.pack = _struct_of(found.ordered) or found.pack
    return found


def _dict_of(keys: tuple[str, ...]) -> Callable[..., Any]:
    return lambda *values: dict(zip(keys, values, strict=True))


def _struct_of(keys: tuple[str, ...]) -> Callable[..., Any] | None:
    """A struct that encodes as an object of these keys; None where JSON has to escape one, or there is none."""
    if not keys:
        return None
    names = [f"at_{place}" for place in range(len(keys))]
    try:
        return msgspec.defstruct("Attributes", names, rename=dict(zip(names, keys, strict=True)), gc=False)
    except ValueError:
        return None


_KNOWN: dict[tuple[str, ...], Layout] = {}


def _layout(keys: tuple[str, ...]) -> Layout:
    present = frozenset(keys)

    def first(*candidates: str) -> str | None:
        return next((key for key in candidates if key in present), None)

    ordered = tuple(sorted(present))
    return Layout(
        ordered=ordered,
        values=itemgetter(*ordered) if len(ordered) > 1 else lambda attributes: tuple(attributes.values()),
        pack=_dict_of(ordered),
        special=tuple((place, key) for place, key in enumerate(ordered) if key in _SPECIAL),
        model=first(*_FIELDS["response_model"], *_FIELDS["request_model"]),
        provider=first(*_FIELDS["model_provider"]),
        response_id=first(*_FIELDS["response_id"]),
        input_tokens=first(*_FIELDS["input_tokens"]),
        output_tokens=first(*_FIELDS["output_tokens"]),
        sessions=tuple(key for key in _SESSIONS if key in present),
        has_metadata=not present.isdisjoint(identity.METADATA_KEYS),
        names_user=not present.isdisjoint(identity.USER_KEYS),
        gateway=identity.gateway_of_keys(keys),
        unusual=not present.isdisjoint(_UNUSUAL),
        has_sign=not present.isdisjoint(SIGN_KEYS),
        place={key: place for place, key in enumerate(keys)},
    )
