# SPDX-License-Identifier: Apache-2.0
"""The floor of the benchmarks: the least that any converter of such spans must do, and no rules.

Parse the OTLP JSON line, take the attributes out of their wrappers, parse the message attributes, build one
dict per span with the messages and a raw that holds all attributes parsed, dump it. With orjson throughout.
Run as a program it does this for every line of a file: `floor.py IN OUT`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import orjson

MESSAGES = ("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions")


def plain(value: dict[str, Any]) -> Any:
    """An attribute value without its wrapper."""
    for kind, inner in value.items():
        if kind == "stringValue":
            return inner
        if kind == "intValue":
            return int(inner)
        if kind == "arrayValue":
            return [plain(item) for item in inner["values"]]
        return inner
    return None


def convert(line: bytes) -> list[bytes]:
    """One dumped dict for each span of the line."""
    found = []
    for group in orjson.loads(line)["resourceSpans"]:
        resource = {pair["key"]: plain(pair["value"]) for pair in group["resource"]["attributes"]}
        for scoped in group["scopeSpans"]:
            for span in scoped["spans"]:
                attributes = {pair["key"]: plain(pair["value"]) for pair in span["attributes"]}
                for key in MESSAGES:
                    attributes[key] = orjson.loads(attributes[key])
                system = {"role": "system", "parts": attributes["gen_ai.system_instructions"]}
                fact = {
                    "input_messages": [system, *attributes["gen_ai.input.messages"]],
                    "output_messages": attributes["gen_ai.output.messages"],
                    "raw": {
                        "span": {**span, "attributes": attributes},
                        "resource": {"attributes": resource},
                        "scope": scoped["scope"],
                    },
                }
                found.append(orjson.dumps(fact))
    return found


def main(source: str, target: str) -> None:
    """Convert a file of lines. Like `convert` it leaves what is there alone until the new file is whole: a file that is
    emptied and filled again gets its own pages back, which costs less than new ones."""
    with open(source, "rb") as lines, open(f"{target}.part", "wb") as out:
        for line in lines:
            for fact in convert(line):
                out.write(fact)
                out.write(b"\n")
    os.replace(out.name, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
