# SPDX-License-Identifier: Apache-2.0
"""A cheap question put to encoded JSON: could redaction change anything in it?

In: JSON text as bytes (UTF-8; compact or not, written by any encoder). Out: a bool. `False` is a promise: no string of
this JSON, decoded, is changed by `redact_fact`, be it by its text, by the key it stands under or as the echo of a
credential elsewhere, and none holds NUL or a lone surrogate. `True` promises nothing; the caller decodes and redacts.

It is a promise because every pattern is looser than the rule it stands for, byte for byte of the encoded form:

* letters may be spelt as characters that fold to them (U+0130, U+0131, U+212A), raw or escaped;
* white space is a blank, any escape or any byte outside ASCII; a token or value byte may belong to an escape;
* `\\u0020` to `\\u007f` could spell anything in ASCII, `\\u0000` is NUL, and a surrogate may be a lone one: all of
  these are hits, pairs of surrogates included. The escapes of `&`, `<` and `>`, which some encoders write as a matter
  of course, and of control characters are not.

Two implementations give the same answer: `hyperscan` (extra `fast`), and pure Python with one search a pattern. Both
are safe to call from several threads. Which one is the caller's choice (`credential_filter`); the environment is not
read here.
"""

from __future__ import annotations

import functools
import importlib
import re
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

Filter: TypeAlias = Callable[[bytes], bool]

_BLANK = rb"(?: |\\u[0-9a-f]{4}|\\[a-z]|[\x80-\xff])"
_SPACE = rb"(?:[ \t\r\n]|\\u[0-9a-f]{4}|\\[a-z]|[\x80-\xff])"
_QUOTE = rb"""(?:\\?"|')"""
_TOKEN = rb"[a-z0-9._~+/\\\x80-\xff-]"
_API_KEY = rb"ap(?:i|\xc4[\xb0\xb1]|\\u013[01])[ _-]?(?:k|\xe2\x84\xaa|\\u212a)ey"

_AUTHORIZATION = rb"authorization" + _QUOTE + _SPACE + rb"*:" + _SPACE + rb"*" + _QUOTE
_BEARER = rb"bearer(?: |\\t|\\u0009)+" + _TOKEN + rb"{16}"
_QUOTED_KEY = _API_KEY + _QUOTE + _SPACE + rb"*:" + _SPACE + rb"*" + _QUOTE
_VALUE = rb"(?:" + _QUOTE + rb"""[^ "']{8}|""" + _TOKEN + rb"{16})"
_ASSIGNED_KEY = _API_KEY + _QUOTE + rb"?" + _BLANK + rb"*[:=]" + _BLANK + rb"*" + _VALUE
_ESCAPE = rb"\\u(?:0000|002[0-57-9a-f]|003[0-9abdf]|00[4-7][0-9a-f]|d[89a-f])"
# In this one letter case matters. The byte before the key is a letter where it ends an escape, as in `\nsk-`.
_PROVIDER_KEY = rb"(?:[^A-Za-z0-9_-]|\\[bfnrt]|\\u[0-9A-Fa-f]{4})sk-[A-Za-z0-9_-]{16}"

# Each of these begins with literal bytes, which `re` looks for first: a search costs a few microseconds in 10 KB.
_IN_LOWER_CASE = tuple(
    re.compile(pattern)
    for pattern in (_BEARER, _AUTHORIZATION, _ESCAPE, rb"(?:" + _QUOTED_KEY + rb"|" + _ASSIGNED_KEY + rb")")
)
_PROVIDER_BODY = re.compile(rb"sk-[A-Za-z0-9_-]{16}")
_PROVIDER = re.compile(_PROVIDER_KEY)
_LONGEST_BEFORE = 6


def credential_filter(pure: bool = False) -> Filter:
    """The filter to use: `hyperscan` where it is installed and works, unless `pure`, else pure Python."""
    if not pure:
        try:
            return _hyperscan_filter(importlib.import_module("hyperscan"))
        except Exception:  # absent, built for another processor, or of a release that is called otherwise
            pass
    return may_hold_credential_pure


def may_hold_credential(data: bytes) -> bool:
    """The filter that `credential_filter()` chooses, chosen at the first call."""
    return _chosen()(data)


def may_hold_credential_pure(data: bytes) -> bool:
    """The filter without any package."""
    lowered = data.lower()
    if any(pattern.search(lowered) for pattern in _IN_LOWER_CASE):
        return True
    return any(
        _PROVIDER.search(data, max(0, body.start() - _LONGEST_BEFORE), body.end())
        for body in _PROVIDER_BODY.finditer(data)
    )


@functools.cache
def _chosen() -> Filter:
    return credential_filter()


def _hyperscan_filter(hyperscan: Any) -> Filter:
    patterns = (_BEARER, _AUTHORIZATION, _QUOTED_KEY, _ASSIGNED_KEY, _ESCAPE, _PROVIDER_KEY)
    once = hyperscan.HS_FLAG_SINGLEMATCH | hyperscan.HS_FLAG_DOTALL
    flags = [once | hyperscan.HS_FLAG_CASELESS] * (len(patterns) - 1) + [once]
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    database.compile(expressions=list(patterns), ids=list(range(len(patterns))), flags=flags)
    stopped = hyperscan.ScanTerminated
    of_thread = threading.local()  # a scratch serves one scan at a time

    def may_hold(data: bytes) -> bool:
        try:
            scratch = of_thread.scratch
        except AttributeError:
            scratch = of_thread.scratch = hyperscan.Scratch(database)
        try:
            database.scan(data, match_event_handler=_stop, scratch=scratch)
        except stopped:
            return True
        return False

    if not may_hold(b'"sk-0123456789abcdef"') or may_hold(b'"plain"'):
        raise RuntimeError("hyperscan gives wrong answers")
    return may_hold


def _stop(*_match: object) -> bool:
    return True
