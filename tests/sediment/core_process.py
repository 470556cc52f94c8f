# SPDX-License-Identifier: Apache-2.0
"""Runs in the environment that has Sediment's packages: a question per line of standard input, an answer per line.

`read`: every inference call of the organisation as JSON; `count`: how many there are; `empty`: forget all of them;
`accept`: a developer accepts what each call answered, found by its model call id; `map`: for each call null, or why
the trainer mapping refuses it; `endorse`: a derived bundle in which every call has an accepted commit of its own.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from sediment_core import DeveloperDecision, FactStore
from sediment_core.postgres_engine import create_postgres_engine
from sediment_derive.attribution import AttributionSource
from sediment_derive.split import split_of
from sediment_export import read_derived_bundle, write_derived_bundle
from sediment_export.attributed_completions import AttributedCompletion, AttributedCompletionPolicy
from sediment_export.trainer import TrainerMappingError, map_inference_call


def read(store: FactStore, org: str) -> list[Any]:
    # raw may be nested deeper than a model can be dumped
    return [
        {**call.model_dump(mode="json", exclude={"raw"}), "raw": call.raw} for call in store.read_inference_calls(org)
    ]


def empty() -> None:
    engine = create_postgres_engine(os.environ["SEDIMENT_BOOTSTRAP_DATABASE_URL"])
    with engine.begin() as connection:
        connection.exec_driver_sql(
            "TRUNCATE inference_calls, inference_call_aliases, sessions, developer_decisions CASCADE"
        )
    engine.dispose()


def accept(store: FactStore, org: str) -> int:
    decisions = [
        DeveloperDecision(
            org_id=org,
            session_id=call.session_id,
            agent_harness="claude-code",
            file_path="",
            accepted=True,
            explicit=True,
            interaction_mode="agent",
            call_id=call.model_call_id,
            occurred_at=call.observed_at,
        )
        for call in store.read_inference_calls(org)
    ]
    return sum(store.store_decisions(decisions))


def endorse(store: FactStore, org: str, source: str, out: str) -> int:
    """Attribution needs a repository with the code that each call wrote, which no trace carries: it is said here."""
    calls = {call.inference_call_id: call for call in store.read_inference_calls(org)}
    decisions = {decision.call_id: decision for decision in store.read_decisions(org)}
    bundle = read_derived_bundle(Path(source))
    provenance = bundle.rollouts[0].provenance
    rows = [
        AttributedCompletion(
            org_id=org,
            session_id=call.session_id,
            inference_call_id=name,
            repo="acme/repo",
            commit_sha="0" * 40,
            file_path=f"{name}.txt",
            similarity_score=1.0,
            attribution_source=AttributionSource.GIT_NOTES,
            decisions=[decisions[call.model_call_id]],
            ci_outcomes=[],
            provenance=replace(provenance, policy_version=AttributedCompletionPolicy().policy_version),
            split=split_of(call.session_id, bundle.policy.eval_fraction),
        )
        for name, call in calls.items()
    ]
    rows.sort(key=lambda row: (row.repo, row.commit_sha, row.file_path, row.inference_call_id))
    write_derived_bundle(replace(bundle, attributed_completions=tuple(rows)), Path(out))
    return len(rows)


def reasons(store: FactStore, org: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for call in store.read_inference_calls(org):
        try:
            map_inference_call(call)
        except TrainerMappingError as error:
            found[call.inference_call_id] = error.reason
        else:
            found[call.inference_call_id] = None if call.model is not None else "model_absent"
    return found


def main() -> None:
    engine = create_postgres_engine(os.environ["SEDIMENT_DATABASE_URL"])
    store = FactStore(engine)
    operations = {
        "read": lambda asked: read(store, asked["org"]),
        "count": lambda asked: len(store.read_rollout_inference_calls(asked["org"])),
        "empty": lambda asked: empty(),
        "accept": lambda asked: accept(store, asked["org"]),
        "endorse": lambda asked: endorse(store, asked["org"], asked["source"], asked["out"]),
        "map": lambda asked: reasons(store, asked["org"]),
    }
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(operations[asked["op"]](asked)) + "\n")
        sys.stdout.flush()
    engine.dispose()


if __name__ == "__main__":
    main()
