# SPDX-License-Identifier: Apache-2.0
"""What a credential looks like in text, and under which keys it stands.

`redact_text` takes decoded text and gives it back with every credential replaced by `MARKER`, the same
object when there is none. Five passes run in the order of section 8 of the contract: an authorization header,
a quoted key with a quoted value, an `api_key` assignment, a bearer token, an `sk-` key. What each pass takes
and leaves was established by running Basic redaction of Sediment 0.6.1 and is compared with it in
`tests/oracle`; the consequences that surprise are said beside the pattern that has them.

Every pass is linear in the length of the text: no pattern can start twice over the same stretch.
Nothing raises on any `str`; lone surrogates are ordinary characters here.
"""

from __future__ import annotations

import re

MARKER = "[REDACTED_CREDENTIAL]"
_ROUNDS = 4

# With IGNORECASE the letters of a class include the four characters that fold to one (U+0130, U+0131, U+017F,
# U+212A); Sediment matches them too, so none of these patterns is ASCII-only.
_TOKEN = r"[A-Za-z0-9._~+/-]{16,}=*"
_HEADER = re.compile(rf"(\bAuthorization\s*[:=]\s*Bearer[ \t]+){_TOKEN}", re.IGNORECASE)
_BEARER = re.compile(rf"(\bBearer[ \t]+){_TOKEN}", re.IGNORECASE)
_WHOLE_BEARER = re.compile(rf"(Bearer[ \t]+)({_TOKEN})", re.IGNORECASE)
# Sediment replaces `bearer <marker>` once more, since it leaves only the spelling `Bearer <marker>` alone. Here
# redacting twice changes nothing, so every spelling of the prefix stays.
_REDACTED = re.compile(rf"(?:Bearer[ \t]+)?(?-i:{re.escape(MARKER)})", re.IGNORECASE)

# A name may be prefixed by words, each ended by one `_` or `-`. Without quotes a hyphen ends what is looked at, since a
# name may begin after it: `x-api_key=` and `MY_api_key=` are names, `_api_key=` and `x__api_key=` are not. Between two
# equal quotes nothing but the name may stand.
_ASSIGNMENT = re.compile(
    r"""((?<![A-Za-z0-9_])(?:(?:[A-Za-z0-9]+_)*api[ _-]?key|(["'])(?:[A-Za-z0-9]+[_-])*api[ _-]?key\2)\s*[:=]\s*)"""
    rf"""(?:"[^\s"']{{8,}}(?:(")|\Z)|'[^\s"']{{8,}}(?:(')|\Z)|{_TOKEN})""",
    re.IGNORECASE,
)
_PROVIDER_KEY = re.compile(r"(?<![A-Za-z0-9_-])sk-[A-Za-z0-9_-]{16,}")

# A quoted pair, up to the quote that opens the value. Every pair is read, whatever its key, because a pair that
# is no credential still uses up its text: in `"a":"api_key":"v"` the key is `a`.
_PAIR = re.compile(r"""(["'])([^"']+)\1\s*:\s*(["'])""")
_BODY = {
    '"': re.compile(r'[^"\\\n]*(?:\\[^\n][^"\\\n]*)*'),
    "'": re.compile(r"[^'\\\n]*(?:\\[^\n][^'\\\n]*)*"),
}

_NAMES = frozenset({"authorization", "proxy_authorization", "x_api_key", "api_key", "apikey"})


def is_credential_key(key: str) -> bool:
    """Whether a string under this key is a credential. Letter case and `-` or `_` make no difference."""
    if key[-1:] not in "yYnN" or len(key) < 6:
        return False
    name = key.casefold().replace("-", "_")
    return name in _NAMES or name.endswith("_api_key")


def bearer_token(value: str) -> tuple[str, str] | None:
    """`("Bearer ", token)` where the whole value is a bearer token of 16 or more characters, else null."""
    match = _WHOLE_BEARER.fullmatch(value)
    return (match[1], match[2]) if match else None


def redact_credential(value: str) -> str:
    """The string under a credential's key: replaced whole, but `Bearer ` stays before a token or the marker."""
    if _REDACTED.fullmatch(value):
        return value
    bearer = bearer_token(value)
    return bearer[0] + MARKER if bearer else MARKER


def redact_text(text: str) -> str:
    """The text without its credentials; the same object where it has none.

    The passes are repeated until they find nothing more, so that redacting the outcome again changes nothing. One
    round is nearly always all: only a credential glued to another one (`api_key=<token>'api_key'=<token>`) comes to
    light when its neighbour is gone. A text that needs more than `_ROUNDS` was made to need them; it is withheld.
    """
    result = text
    for _ in range(_ROUNDS):
        redacted = _five_passes(result)
        if redacted == result:
            return result
        result = redacted
    return MARKER


def _five_passes(text: str) -> str:
    lowered = text.lower()
    key, bearer = "key" in lowered, "bearer" in lowered
    if bearer:
        text = _HEADER.sub(_keep_prefix, text)
    if key or "authorization" in lowered:
        text = _redact_pairs(text)
    if key:
        text = _ASSIGNMENT.sub(_keep_assignment, text)
    if bearer:
        text = _BEARER.sub(_keep_prefix, text)
    if "sk-" in text:
        text = _PROVIDER_KEY.sub(MARKER, text)
    return text


def _keep_prefix(match: re.Match[str]) -> str:
    return match[1] + MARKER


def _keep_assignment(match: re.Match[str]) -> str:
    opening = match[0][len(match[1])]
    quote = opening if opening in "\"'" else ""
    return match[1] + quote + MARKER + (match[3] or match[4] or "")


def _redact_pairs(text: str) -> str:
    kept: list[str] = []
    copied = position = 0
    while (pair := _PAIR.search(text, position)) is not None:
        start = pair.end()
        end = _value_end(text, start, pair[3])
        if end < 0:
            position = pair.start() + 1
            continue
        if is_credential_key(pair[2]):
            kept += text[copied:start], MARKER
            copied = end
        position = end + 1
    if not kept:
        return text
    kept.append(text[copied:])
    return "".join(kept)


def _value_end(text: str, start: int, quote: str) -> int:
    r"""Where the value that begins at `start` ends: before its quote or at the end of the text; -1 for no value.

    A value is one line and not empty. `\"` does not end it, unless nothing else on that line does; then the last
    such quote is the end.
    """
    match = _BODY[quote].match(text, start)
    end = match.end() if match else start
    if text[end : end + 1] == "\\" and end + 1 == len(text):
        end += 1
    if end < len(text) and text[end] != quote:
        end = text.rfind(quote, start, end)
    return end if end > start else -1
