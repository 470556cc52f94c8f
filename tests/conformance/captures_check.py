# SPDX-License-Identifier: Apache-2.0
"""Compare what the converter makes of real captures with the known truth.

    check.py [--cli 'sediment-otel'] [-v] [DIR...]

For every NAME.expected.json in each DIR (default: the folder of this file) it runs

    CLI convert CAPTURE [LOGS] --org acme [--session-id s-1] --report REPORT

and holds the facts on stdout against the truth. One line per failing capture (its first difference), then
"N passed, N failed", counted in calls; a fact that no call explains counts as one failure. -v prints every
difference, and where the skip reasons of the report are not the expected ones (these never fail a call).
Exit status 0 when nothing failed, 1 otherwise. README.md says what the files hold."""
import argparse
import datetime
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile
import uuid

KEYS = {"schema_version", "inference_call_id", "org_id", "session_id", "user_id", "gateway_provider", "model_provider",
        "model", "input_messages", "output_messages", "input_tokens", "output_tokens", "duration_ms", "model_call_id",
        "observed_at", "raw"}
SCALARS = ("session_id", "user_id", "gateway_provider", "model_provider", "model", "model_call_id", "input_tokens",
           "output_tokens", "duration_ms")
IDENTITY = {"user.email", "user.account_id", "user.account_uuid"}


def is_any(x):
    return isinstance(x, dict) and x.get("$any") is True


def options(x):
    """The accepted values of one place; None when every value is."""
    return x.get("of") if is_any(x) else [x]


def show(x):
    s = json.dumps(x, ensure_ascii=False, default=str)
    return s if len(s) <= 120 else s[:117] + "..."


def diff(want, got, at):
    """The first difference between a pattern and a value, or None. Types count: true, 1, 1.0 and "1" all differ."""
    if is_any(want):
        if "of" not in want or any(diff(o, got, at) is None for o in want["of"]):
            return None
        return f"{at}: expected one of {show(want['of'])}, got {show(got)}"
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return f"{at}: expected {show(want)}, got {show(got)}"
        for k in want:
            if k not in got:
                return f"{at}.{k}: missing, expected {show(want[k])}"
            d = diff(want[k], got[k], f"{at}.{k}")
            if d:
                return d
        extra = sorted(set(got) - set(want))
        return f"{at}.{extra[0]}: not expected, got {show(got[extra[0]])}" if extra else None
    if isinstance(want, list):
        if not isinstance(got, list):
            return f"{at}: expected {show(want)}, got {show(got)}"
        for i, (w, g) in enumerate(zip(want, got)):
            d = diff(w, g, f"{at}[{i}]")
            if d:
                return d
        if len(want) != len(got):
            return (f"{at}: expected {len(want)} items, got {len(got)}; first "
                    + (f"missing {show(want[len(got)])}" if len(got) < len(want) else f"too many {show(got[len(want)])}"))
        return None
    if type(want) is not type(got) or want != got:
        return f"{at}: expected {show(want)}, got {show(got)}"
    return None


def with_finish(messages, finish):
    """Expected messages carry role and parts; add the finish_reason that every stored message has."""
    if is_any(messages):
        return {"$any": True, "of": [with_finish(o, finish) for o in messages["of"]]} if "of" in messages else messages
    return [{**m, "finish_reason": finish} for m in messages]


def instant(s):
    return datetime.datetime.fromisoformat(s.replace("Z", "+00:00"))


def observed(want, got):
    """The same instant, to one microsecond, written with a Z."""
    wanted = options(want)
    try:
        if got.endswith("Z") and (wanted is None or any(
                abs(instant(got) - instant(w)) <= datetime.timedelta(microseconds=1) for w in wanted)):
            return None
    except Exception:
        pass
    return f"observed_at: expected {show(want)}, got {show(got)}"


def fact_id(org, trace_id, span_id):
    capture = uuid.uuid5(uuid.uuid5(uuid.NAMESPACE_URL, "urn:sediment-otel:capture:v1"), f"{trace_id}:{span_id}")
    return str(uuid.uuid5(uuid.UUID("f8bfd6e0-f182-4bcd-a1f8-85a987a8c6e2"),
                          json.dumps([org, str(capture)], separators=(",", ":"))))


def span_of(fact):
    raw = fact.get("raw") if isinstance(fact, dict) else None
    span = raw.get("span") if isinstance(raw, dict) else None
    return span.get("span_id") if isinstance(span, dict) else None


def losses(fact, report):
    raw = fact.get("raw") or {}
    if isinstance(raw.get("losses"), list):
        return raw["losses"]
    for item in (report or {}).get("items") or []:
        if item.get("span_id") == span_of(fact):
            return item.get("losses") or []
    return []


def unsupported(call, fact):
    """Each part that Sediment has no type for must be in raw.unsupported_parts, whole and with its place.
    Where the wanted type is null, the entry is a whole message."""
    have = [x for x in (fact.get("raw") or {}).get("unsupported_parts") or [] if isinstance(x, dict)]
    for want in call["unsupported"]:
        for i, x in enumerate(have):
            if want["type"] is None:
                same = isinstance(x.get("message"), dict)
            else:
                part = x.get("part")
                same = isinstance(part, dict) and diff(want["type"], part.get("type"), "") is None
            if same and x.get("code") == want["code"] and diff(want["at"], x.get("at"), "") is None:
                del have[i]
                break
        else:
            return f"raw.unsupported_parts: no entry like {show(want)}"
    return None


def degraded(call, fact, report):
    found = [x.get("code") for x in losses(fact, report) if isinstance(x, dict)]
    for code, n in call["degraded"].items():
        d = diff(n, found.count(code), f"losses: {code}")
        if d:
            return d
    return None


def identity(x, at):
    """Account identity stands in raw as a marker only."""
    if isinstance(x, dict):
        for k, v in x.items():
            d = (f"{at}.{k}: account identity not redacted" if k in IDENTITY and v != "[REDACTED_IDENTITY]"
                 else identity(v, f"{at}.{k}"))
            if d:
                return d
    if isinstance(x, list):
        return next((d for i, v in enumerate(x) if (d := identity(v, f"{at}[{i}]"))), None)
    return None


def compare(call, fact, report):
    """All differences between one expected call and one fact."""
    out = []
    if set(fact) != KEYS:
        out.append(f"keys: missing {sorted(KEYS - set(fact))}, not expected {sorted(set(fact) - KEYS)}")
    for d in (diff(1, fact.get("schema_version"), "schema_version"), diff("acme", fact.get("org_id"), "org_id"),
              diff(with_finish(call["input"], None), fact.get("input_messages"), "input"),
              diff(with_finish(call["output"], call["finish_reason"]), fact.get("output_messages"), "output")):
        if d:
            out.append(d)
    out += [d for k in SCALARS if (d := diff(call[k], fact.get(k), k))]
    out += [d for d in (observed(call["observed_at"], fact.get("observed_at")),) if d]
    out += [d for d in (diff(fact_id("acme", call["trace_id"], call["span_id"]), fact.get("inference_call_id"),
                             "inference_call_id"),
                        unsupported(call, fact), degraded(call, fact, report), identity(fact.get("raw"), "raw")) if d]
    return out


def convert(cli, folder, truth):
    """Run the converter. Returns (facts, report, error)."""
    session = truth["session"]
    with tempfile.TemporaryDirectory() as tmp:
        path = pathlib.Path(tmp) / "report.json"
        cmd = cli + ["convert", str(folder / truth["capture"])]
        if truth.get("logs"):
            cmd.append(str(folder / truth["logs"]))
        cmd += ["--org", "acme"]
        if session.startswith(("none", "mixed")):
            cmd += ["--session-id", "s-1"]
        cmd += ["--report", str(path)]
        try:
            p = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=300)
        except (OSError, subprocess.TimeoutExpired) as e:
            return [], None, f"cannot run: {e}"
        facts, report, error = [], None, None
        allowed = (0,) if truth["calls"] else (0, 3)
        if p.returncode not in allowed:
            last = p.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
            error = f"exit status {p.returncode}" + (f": {last[0]}" if last else "")
        try:
            facts = [json.loads(x) for x in p.stdout.decode("utf-8").splitlines() if x.strip()]
            if not all(isinstance(f, dict) for f in facts):
                facts, error = [], error or "stdout is not JSON objects, one per line"
        except ValueError as e:
            error = error or f"stdout is not JSON lines: {e}"
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as e:
            error = error or f"no readable report: {e}"
        return facts, report, error


def check(cli, file):
    """Returns (passed, failed, [differences], [notes])."""
    truth = json.loads(file.read_text(encoding="utf-8"))
    facts, report, error = convert(cli, file.parent, truth)
    if error:
        return 0, max(1, len(truth["calls"])), [error], []
    passed = failed = 0
    problems, left = [], list(facts)
    for call in truth["calls"]:
        mine = [f for f in left if span_of(f) == call["span_id"]]
        left = [f for f in left if not any(f is x for x in mine)]
        ds = [] if len(mine) == 1 else [f"{len(mine)} facts, expected 1"]
        ds += compare(call, mine[0], report) if mine else []
        if ds:
            failed += 1
            problems += [f"call {call['span_id']}: {d}" for d in ds]
        else:
            passed += 1
    for f in left:
        failed += 1
        problems.append(f"a fact too many: span {span_of(f)}, model_call_id {show(f.get('model_call_id'))}")
    if not truth["calls"] and not facts:
        passed += 1                                     # a capture without calls counts as one: nothing may come out
    return passed, failed, problems, notes(truth, report)


def notes(truth, report):
    out, items = [], {i.get("span_id"): i for i in report.get("items") or [] if isinstance(i, dict)}
    for reason, spans in truth["skipped"].items():
        for s in spans:
            got = items.get(s, {})
            if got.get("outcome") != "skipped":
                out.append(f"span {s}: expected skipped, report says {show(got.get('outcome'))}")
            elif reason != "$any" and got.get("reason") != reason:
                out.append(f"span {s}: expected skip reason {reason}, report says {show(got.get('reason'))}")
    if not isinstance(report.get("skipped"), dict):
        out.append("report: no skipped counts")
    elif report.get("spans") != (report.get("facts") or 0) + sum(report["skipped"].values()):
        out.append("report: spans is not facts plus skipped")
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--cli", default="sediment-otel", help="the command, with its leading arguments")
    ap.add_argument("-v", "--verbose", action="store_true", help="every difference, and skip reasons that differ")
    ap.add_argument("dirs", nargs="*", metavar="DIR")
    a = ap.parse_args()
    cli, passed, failed = shlex.split(a.cli), 0, 0
    for folder in [pathlib.Path(d) for d in a.dirs] or [pathlib.Path(__file__).resolve().parent]:
        files = sorted(folder.glob("*.expected.json"))
        if not files:
            sys.exit(f"{folder}: no *.expected.json")
        for file in files:
            p, f, problems, ns = check(cli, file.resolve())
            passed, failed = passed + p, failed + f
            name = file.name.removesuffix(".expected.json")
            if problems:
                more = "" if len(problems) == 1 or a.verbose else f"  (+{len(problems) - 1} more)"
                print(f"{name}: {f} of {p + f} failed; {problems[0]}{more}")
            if a.verbose:
                for x in problems[1:]:
                    print(f"    {x}")
                for x in ns:
                    print(f"    note {name}: {x}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
