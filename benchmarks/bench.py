# SPDX-License-Identifier: Apache-2.0
"""What translation costs, as ratios to a floor that runs beside it (see `floor.py`).

    make bench                       # everything; (d) makes a file of 500 MB
    .venv/bin/python benchmarks/bench.py --file-mb 50 --only a,b,c

CPU time, median of five, the two sides in turn. Absolute times are shown for the sense of it; they mean
little beyond the machine.
"""

from __future__ import annotations

import argparse
import gc
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import floor
import samples

from sediment_otel.genai import Subject
from sediment_otel.otlp import decode_json, decode_protobuf, encode_protobuf_traces
from sediment_otel.settings import Settings
from sediment_otel.telemetry import Batch
from sediment_otel.translate.call import TOGETHER, translate_subjects
from sediment_otel.translate.result import NOTHING

ROUNDS = 5
SETTINGS = Settings(org="acme")
HERE = Path(__file__).resolve().parent


def from_json(lines: list[bytes]) -> list[bytes | None]:
    """OTLP JSON bytes to fact bytes: decoded, read, translated, checked, redacted, encoded, with full raw."""
    return translated([decode_json(line) for line in lines])


def from_protobuf(messages: list[bytes]) -> list[bytes | None]:
    """The same from protobuf."""
    return translated([decode_protobuf(data, signal="traces") for data in messages])


def translated(batches: list[Batch]) -> list[bytes | None]:
    """The facts of the batches' spans, as `convert` makes them: some spans side by side."""
    given = [(Subject(span), NOTHING) for batch in batches for span in batch.items]  # type: ignore[arg-type]
    return [found.encoded for found in translate_subjects(given, SETTINGS)]


def floor_of(lines: list[bytes]) -> list[bytes]:
    """The floor for as many lines."""
    return [fact for line in lines for fact in floor.convert(line)]


def timed(work: Callable[[Any], Any], inputs: list[Any]) -> float:
    """CPU seconds for one pass over the inputs."""
    began = time.process_time()
    for each in inputs:
        work(each)
    return time.process_time() - began


def paired(ours: Callable[[Any], Any], mine: list[Any], theirs: list[Any]) -> tuple[float, float, float]:
    """Median CPU seconds of ours and of the floor, and the median of the ratios, round by round."""
    a, b = [], []
    mine, theirs = ([given[n : n + TOGETHER] for n in range(0, len(given), TOGETHER)] for given in (mine, theirs))
    for work, inputs in ((ours, mine), (floor_of, theirs)):
        timed(work, inputs)  # caches, and the interpreter that adapts to what it runs
    for _ in range(ROUNDS):
        gc.collect()
        a.append(timed(ours, mine))
        b.append(timed(floor_of, theirs))
    return statistics.median(a), statistics.median(b), statistics.median(x / y for x, y in zip(a, b, strict=True))


def in_process(wanted: set[str]) -> Iterator[str]:
    """Rows for (a), (b) and (c)."""
    rows = (
        ("a", "12 KB, 20 messages, OTLP JSON", 12_000, 20, 2_000, False),
        ("b", "12 KB, 20 messages, protobuf", 12_000, 20, 2_000, True),
        ("c", "0.8 KB, 2 messages, OTLP JSON", 800, 2, 8_000, False),
        ("c", "200 KB, 60 messages, OTLP JSON", 200_000, 60, 150, False),
    )
    for name, title, size, messages, count, protobuf in rows:
        if name not in wanted:
            continue
        lines = [samples.line(size, messages, number) for number in range(count)]
        mine = lines
        if protobuf:
            mine = [encode_protobuf_traces(decode_json(line).items) for line in lines]  # type: ignore[arg-type]
        assert all((from_protobuf if protobuf else from_json)(mine[:3])), "no fact came out"
        ours, theirs, ratio = paired(from_protobuf if protobuf else from_json, mine, lines)
        yield (
            f"({name}) {title:<32} {ratio:5.2f} x floor   "
            f"({1e6 * ours / count:7.1f} us against {1e6 * theirs / count:7.1f} us)"
        )


def child(command: list[str], folder: str) -> tuple[float, float, float]:
    """CPU seconds (children included), wall seconds and the peak memory in MB of the largest process."""
    began = time.monotonic()
    environment = {**os.environ, "TMPDIR": folder}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{command[:3]} failed with status {status}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss / 1024


def roomy_memory(needed: int) -> str | None:
    """A directory in memory with room for so many bytes: there the processor is measured, not the disk."""
    folder = "/dev/shm"
    return folder if os.path.isdir(folder) and shutil.disk_usage(folder).free > needed else None


def whole_files(megabytes: int) -> Iterator[str]:
    """Rows for (d): `convert` on a large JSON Lines file, with one worker and with two."""
    with tempfile.TemporaryDirectory(prefix="bench-", dir=roomy_memory(megabytes * 6_000_000)) as folder:
        source, out = Path(folder, "traces.jsonl"), Path(folder, "out.jsonl")
        spans = 0
        with source.open("wb") as file:
            while file.tell() < megabytes * 1_000_000:
                file.write(samples.line(12_000, 20, spans) + b"\n")
                spans += 1
        convert = [sys.executable, "-m", "sediment_otel", "convert", str(source), "-o", str(out), "--quiet"]
        least = [sys.executable, str(HERE / "floor.py"), str(source), str(out)]
        ratios, speedups, memory = [], [], 0.0
        for _ in range(ROUNDS):
            cpu, wall, peak = child(convert, folder)
            floor_cpu, _, _ = child(least, folder)
            _, wall_of_two, peak_of_two = child([*convert, "--workers", "2"], folder)
            ratios.append(cpu / floor_cpu)
            speedups.append(wall / wall_of_two)
            memory = max(memory, peak, peak_of_two)
            print(
                f"    round: convert {cpu:.2f} s CPU, {wall:.2f} s wall; floor {floor_cpu:.2f} s CPU; "
                f"two workers {wall_of_two:.2f} s wall",
                file=sys.stderr,
            )
        yield (
            f"(d) convert, {megabytes} MB, {spans} spans        {statistics.median(ratios):5.2f} x floor, "
            f"two workers {statistics.median(speedups):.2f} x as fast, {memory:.0f} MB at most in one process"
        )


def main() -> None:
    """Print one row per measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="a,b,c,d,e", help="which of a,b,c,d,e to run; e is the in-process part")
    parser.add_argument("--file-mb", type=int, default=500, help="size of the file for (d)")
    arguments = parser.parse_args()
    wanted = set(arguments.only.split(","))
    gc.freeze()
    for row in in_process(wanted):
        print(row, flush=True)
    if "d" in wanted:
        for row in whole_files(arguments.file_mb):
            print(row, flush=True)
    if "e" in wanted:
        import bench_sdk

        for row in bench_sdk.run():
            print(row, flush=True)


if __name__ == "__main__":
    main()
