# SPDX-License-Identifier: Apache-2.0
"""Shows what a fact store holds: `python examples/show_store.py FILE`. Only SQL and the standard library."""

from __future__ import annotations

import json
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def parts_of(message: dict[str, Any]) -> str:
    counted = Counter(part["type"] for part in message["parts"])
    return ", ".join(kind if number == 1 else f"{kind} ×{number}" for kind, number in counted.items()) or "no parts"


def describe(fact: dict[str, Any]) -> str:
    """One call in one line."""
    answered = "; ".join(parts_of(message) for message in fact["output_messages"]) or "nothing"
    taken_in, given_out = ("?" if fact[key] is None else fact[key] for key in ("input_tokens", "output_tokens"))
    tokens = f"{taken_in} → {given_out} tokens"
    return (
        f"  {fact['observed_at'][11:23]}  {tokens:<20}  {len(fact['input_messages']):>2} messages in, out: {answered}"
    )


def show(path: str) -> None:
    store = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
    sessions = store.execute(
        "SELECT session_id, count(*), min(model) FROM facts GROUP BY session_id ORDER BY session_id"
    )
    for session, calls, model in sessions.fetchall():
        print(f"session {session}: {calls} calls of {model}")
        query = "SELECT fact FROM facts WHERE session_id = ? ORDER BY observed_at"
        for (fact,) in store.execute(query, (session,)):
            print(describe(json.loads(fact)))
    for reason, number in store.execute("SELECT reason, count(*) FROM skips GROUP BY reason ORDER BY reason"):
        print(f"skipped: {reason} ×{number}")
    for code, number in store.execute("SELECT code, count(*) FROM losses GROUP BY code ORDER BY code"):
        print(f"not in a fact: {code} ×{number}")
    ((redacted,),) = store.execute("SELECT count(*) FROM facts WHERE instr(fact, '[REDACTED_CREDENTIAL]') > 0")
    print(f"facts in which a credential was redacted: {redacted}")
    store.close()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: show_store.py FILE")
    show(sys.argv[1])
