# SPDX-License-Identifier: Apache-2.0
"""Run the conformance cases in this folder against a converter.

    run.py [--cli 'sediment-otel'] [--jobs N] [DIR or FILES...]

Each case is one JSON file; README.md describes the format. A case's input is
written to a temporary file and given to `CLI convert FILE --org acme --report R`
(plus the case's own options); what comes out is compared with what the case
expects. One line is printed per failing case, with the first difference, and a
last line "N passed, N failed". The exit status is 1 if a case failed, 2 if there
was nothing to run. Standard library only.
"""

from __future__ import annotations

import argparse
import base64
import concurrent.futures
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

TIMEOUT_S = 300
SHOWN = 160

CASE_KEYS = {"name", "about", "options", "input", "input_lines", "input_text",
             "input_base64", "input_name", "expect"}
EXPECT_KEYS = {"exit", "fact_count", "facts", "spans", "skipped", "degraded",
               "absent_text", "present_text", "raw_present", "raw_absent", "log_absent"}
INPUT_KEYS = ("input", "input_lines", "input_text", "input_base64")

FACT_KEYS = {"schema_version", "inference_call_id", "org_id", "session_id", "user_id",
             "gateway_provider", "model_provider", "model", "input_messages",
             "output_messages", "input_tokens", "output_tokens", "duration_ms",
             "model_call_id", "observed_at", "raw"}
PART_KEYS = {"text": {"type", "content"}, "reasoning": {"type", "content"},
             "tool_call": {"type", "id", "name", "arguments"},
             "tool_call_response": {"type", "id", "result"}}
GATEWAYS = {"litellm", "portkey", "helicone", "unknown"}
ORG = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


class CaseError(Exception):
    """The case file itself cannot be used."""


# -- reading a case ---------------------------------------------------------------


def expand(value):
    """Replace every {"$repeat": ["text", n]} by the text repeated n times."""
    if isinstance(value, dict):
        if set(value) == {"$repeat"}:
            text, times = value["$repeat"]
            return text * times
        return {key: expand(item) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item) for item in value]
    return value


def load_case(path):
    try:
        case = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CaseError(f"unreadable case file: {error}") from None
    if not isinstance(case, dict):
        raise CaseError("a case is a JSON object")
    unknown = set(case) - CASE_KEYS
    if unknown:
        raise CaseError(f"unknown case keys {sorted(unknown)}")
    unknown = set(case.get("expect", {})) - EXPECT_KEYS
    if unknown:
        raise CaseError(f"unknown expect keys {sorted(unknown)}")
    if sum(key in case for key in INPUT_KEYS) != 1:
        raise CaseError(f"a case has exactly one of {', '.join(INPUT_KEYS)}")
    return expand(case)


def input_bytes(case):
    if "input" in case:
        return (json.dumps(case["input"]) + "\n").encode("ascii")
    if "input_lines" in case:
        return "".join(json.dumps(line) + "\n" for line in case["input_lines"]).encode("ascii")
    if "input_text" in case:
        return case["input_text"].encode("utf-8")
    return base64.b64decode(case["input_base64"], validate=True)


# -- comparing --------------------------------------------------------------------


def show(value):
    text = value if isinstance(value, str) and value.startswith("(") else json.dumps(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def kind(value):
    return {bool: "bool", int: "int", float: "float", str: "string", list: "array",
            dict: "object", type(None): "null"}[type(value)]


def is_marker(expected, name):
    return isinstance(expected, dict) and set(expected) == {name}


def first_difference(expected, actual, path=""):
    """None if actual matches expected, else one line that says where it does not."""
    here = path or "/"
    if is_marker(expected, "$any"):
        return None
    if is_marker(expected, "$exact"):
        return exact_difference(expected["$exact"], actual, path)
    if is_marker(expected, "$contains") or is_marker(expected, "$contains_all"):
        (name, wanted), = expected.items()
        if type(actual) is not list:
            return f"{here}: expected an array, got {kind(actual)} {show(actual)}"
        for item in wanted if name == "$contains_all" else [wanted]:
            if all(first_difference(item, element) for element in actual):
                return f"{here}: no element matches {show(item)} in {show(actual)}"
        return None
    if type(expected) is not type(actual):
        return f"{here}: expected {show(expected)}, got {kind(actual)} {show(actual)}"
    if isinstance(expected, dict):
        for key, wanted in expected.items():
            below = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if is_marker(wanted, "$absent"):
                if key in actual:
                    return f"{below}: expected no such key, got {show(actual[key])}"
            elif key not in actual:
                return f"{below}: missing, expected {show(wanted)}"
            else:
                difference = first_difference(wanted, actual[key], below)
                if difference:
                    return difference
        return None
    if isinstance(expected, list):
        if len(expected) != len(actual):
            return (f"{here}: expected {len(expected)} elements, got {len(actual)}: "
                    f"{show(actual)}")
        for index, (wanted, item) in enumerate(zip(expected, actual)):
            difference = first_difference(wanted, item, f"{path}/{index}")
            if difference:
                return difference
        return None
    if expected != actual:
        return f"{here}: expected {show(expected)}, got {show(actual)}"
    return None


def exact_difference(expected, actual, path):
    """Like first_difference, without markers and with no key to spare."""
    if type(expected) is not type(actual) or not isinstance(expected, (dict, list)):
        return first_difference(expected, actual, path)
    if isinstance(expected, list):
        if len(expected) != len(actual):
            return first_difference(expected, actual, path)
        pairs = [(index, wanted, actual[index]) for index, wanted in enumerate(expected)]
    else:
        problem = keys_problem(actual, set(expected), path or "/")
        if problem:
            return f"{problem} in {show(actual)}"
        pairs = [(key.replace("~", "~0").replace("/", "~1"), wanted, actual[key])
                 for key, wanted in expected.items()]
    for name, wanted, item in pairs:
        difference = exact_difference(wanted, item, f"{path}/{name}")
        if difference:
            return difference
    return None


def strings_of(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from strings_of(item)


def searchable(values):
    """The compact JSON text of the values, then each key and string in them, decoded."""
    parts = []
    for value in values:
        parts.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        parts.extend(strings_of(value))
    return "\n".join(parts)


# -- the closed shape every fact has ----------------------------------------------


def keys_problem(value, wanted, path):
    if not isinstance(value, dict):
        return f"{path}: expected an object, got {kind(value)}"
    if set(value) != wanted:
        missing, extra = sorted(wanted - set(value)), sorted(set(value) - wanted)
        return f"{path}: " + ", ".join(filter(None, [missing and f"missing keys {missing}",
                                                     extra and f"extra keys {extra}"]))
    return None


def id_problem(value, path):
    if not isinstance(value, str):
        return f"{path}: expected a string, got {kind(value)}"
    if not value or value != value.strip() or UNSTORABLE.search(value):
        return f"{path}: blank, padded or unstorable: {show(value)}"
    return None


def message_problem(message, path):
    problem = keys_problem(message, {"role", "parts", "finish_reason"}, path)
    if problem:
        return problem
    if not isinstance(message["role"], str) or not message["role"].strip():
        return f"{path}/role: not a role: {show(message['role'])}"
    if not isinstance(message["finish_reason"], (str, type(None))):
        return f"{path}/finish_reason: {show(message['finish_reason'])}"
    if not isinstance(message["parts"], list):
        return f"{path}/parts: expected an array, got {kind(message['parts'])}"
    for index, part in enumerate(message["parts"]):
        at = f"{path}/parts/{index}"
        part_type = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part_type, str) or part_type not in PART_KEYS:
            return f"{at}: no such part type: {show(part)}"
        problem = keys_problem(part, PART_KEYS[part_type], at)
        if not problem and part_type in ("text", "reasoning"):
            if not isinstance(part["content"], str):
                problem = f"{at}/content: expected a string, got {kind(part['content'])}"
        if not problem and part_type in ("tool_call", "tool_call_response"):
            problem = id_problem(part["id"], f"{at}/id")
        if not problem and part_type == "tool_call":
            if not isinstance(part["name"], str):
                problem = f"{at}/name: expected a string, got {kind(part['name'])}"
            elif not isinstance(part["arguments"], dict):
                problem = f"{at}/arguments: expected an object, got {kind(part['arguments'])}"
        if problem:
            return problem
    return None


def fact_problem(fact, path):
    problem = keys_problem(fact, FACT_KEYS, path)
    if problem:
        return problem
    if type(fact["schema_version"]) is not int or fact["schema_version"] != 1:
        return f"{path}/schema_version: expected 1, got {show(fact['schema_version'])}"
    for key in ("inference_call_id", "session_id", "user_id", "model_call_id",
                "model", "model_provider"):
        if fact[key] is not None or key in ("inference_call_id", "session_id"):
            problem = id_problem(fact[key], f"{path}/{key}")
            if problem:
                return problem
    if not isinstance(fact["org_id"], str) or not ORG.fullmatch(fact["org_id"]):
        return f"{path}/org_id: {show(fact['org_id'])}"
    if fact["gateway_provider"] not in GATEWAYS:
        return f"{path}/gateway_provider: {show(fact['gateway_provider'])}"
    for key in ("input_tokens", "output_tokens", "duration_ms"):
        value = fact[key]
        if value is not None and (type(value) is not int or not 0 <= value < 2 ** 63):
            return f"{path}/{key}: {show(value)}"
    if not isinstance(fact["observed_at"], str) or not INSTANT.fullmatch(fact["observed_at"]):
        return f"{path}/observed_at: {show(fact['observed_at'])}"
    if not isinstance(fact["raw"], dict):
        return f"{path}/raw: expected an object, got {kind(fact['raw'])}"
    for key in ("input_messages", "output_messages"):
        if not isinstance(fact[key], list):
            return f"{path}/{key}: expected an array, got {kind(fact[key])}"
        for index, message in enumerate(fact[key]):
            problem = message_problem(message, f"{path}/{key}/{index}")
            if problem:
                return problem
    return None


# -- running ----------------------------------------------------------------------


def not_json(text):
    raise ValueError(f"{text} is not JSON")


def read_facts(stdout):
    facts = []
    for number, line in enumerate(stdout.decode("utf-8").split("\n"), 1):
        if line.strip():
            try:
                facts.append(json.loads(line, parse_constant=not_json))
            except ValueError as error:
                raise ValueError(f"line {number} of the output: {error}") from None
    return facts


def counts_difference(wanted, actual, path):
    for name, number in wanted.items():
        if is_marker(number, "$any"):
            if not actual.get(name):
                return f"{path}/{name}: expected some, got {show(actual.get(name, 0))}"
        elif actual.get(name, 0) != number:
            return f"{path}/{name}: expected {number}, got {show(actual.get(name, 0))}"
    return None


def check(case, status, stdout, stderr, report_text):
    """The first difference between a run and the case, or None."""
    expect = case["expect"]
    if "exit" in expect and status != expect["exit"]:
        last = stderr.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1]
        return f"exit: expected {expect['exit']}, got {status}" + (
            f" ({last[:SHOWN]})" if last else "")
    try:
        facts = read_facts(stdout)
    except ValueError as error:
        return f"facts: {error}"
    for index, fact in enumerate(facts):
        problem = fact_problem(fact, f"facts/{index}")
        if problem:
            return f"{problem} (the shape of every fact)"
    report = None
    if report_text is not None:
        try:
            report = json.loads(report_text)
        except ValueError as error:
            return f"report: {error}"
    if report is None and {"spans", "skipped", "degraded"} & set(expect):
        return "report: none was written"
    if report is not None and report.get("facts") != len(facts):
        return f"report/facts: says {show(report.get('facts'))}, {len(facts)} were written"
    for name in ("skipped", "degraded"):
        if name in expect:
            difference = counts_difference(expect[name], report.get(name, {}), f"report/{name}")
            if difference:
                return difference
    if "fact_count" in expect and len(facts) != expect["fact_count"]:
        skipped = (report or {}).get("skipped", {})
        return f"fact_count: expected {expect['fact_count']}, got {len(facts)} (skipped: {show(skipped)})"
    if "spans" in expect:
        if report.get("spans") != expect["spans"]:
            return f"report/spans: expected {expect['spans']}, got {show(report.get('spans'))}"
        total = len(facts) + sum(report.get("skipped", {}).values())
        if total != expect["spans"]:
            return (f"report: {expect['spans']} spans, but facts and skipped add up to {total}: "
                    f"{show(report.get('skipped'))}")
    if "facts" in expect:
        difference = first_difference(expect["facts"], facts, "facts")
        if difference:
            return difference
    messages = searchable(fact[key] for fact in facts for key in ("input_messages", "output_messages"))
    raw = searchable(fact["raw"] for fact in facts)
    people = "\n".join([stderr.decode("utf-8", "replace"), report_text or "",
                        searchable([report])])
    for name, haystack, wanted in (("present_text", messages, True), ("absent_text", messages, False),
                                   ("raw_present", raw, True), ("raw_absent", raw, False),
                                   ("log_absent", people, False)):
        for text in expect.get(name, []):
            if (text in haystack) is not wanted:
                return f"{name}: {show(text)} is {'not there' if wanted else 'there'}"
    return None


def run_case(path, cli):
    """(case name, first difference or None)"""
    name = Path(path).stem
    try:
        case = load_case(path)
        content = input_bytes(case)
    except (CaseError, ValueError, TypeError) as error:
        return name, f"case: {error}"
    options = case.get("options", [])
    if not any(option == "--org" or option.startswith("--org=") for option in options):
        options = ["--org", "acme", *options]
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("SEDIMENT_OTEL_")}
    with tempfile.TemporaryDirectory(prefix="case-") as folder:
        source = Path(folder, case["input_name"])
        source.write_bytes(content)
        report = Path(folder, "report-of-the-run.json")
        command = [*cli, "convert", str(source), *options, "--report", str(report)]
        try:
            done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL,
                                  env=environment, timeout=TIMEOUT_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            return name, f"run: {error}"
        report_text = report.read_text(encoding="utf-8") if report.exists() else None
    try:
        return name, check(case, done.returncode, done.stdout, done.stderr, report_text)
    except Exception as error:  # one unforeseen answer must not stop the others
        return name, f"answer cannot be compared: {type(error).__name__}: {error}"


def find_cases(arguments):
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            yield from sorted(path.glob("*.json"))
        else:
            yield path


def main():
    parser = argparse.ArgumentParser(description="Run conformance cases against a converter.")
    parser.add_argument("--cli", default="sediment-otel", help="the command, split like a shell line")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases run at once")
    parser.add_argument("paths", nargs="*", metavar="DIR or FILE",
                        help="cases to run (without any: the folder of this file)")
    arguments = parser.parse_args()
    paths = list(find_cases(arguments.paths or [Path(__file__).resolve().parent]))
    if not paths:
        print("no cases found", file=sys.stderr)
        return 2
    cli = shlex.split(arguments.cli)
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max(1, arguments.jobs)) as pool:
        for name, difference in pool.map(lambda path: run_case(path, cli), paths):
            if difference:
                failed += 1
                print(f"{name}: {difference}".replace("\n", " ").encode("utf-8", "backslashreplace").decode("utf-8"))
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
