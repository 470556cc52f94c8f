# SPDX-License-Identifier: Apache-2.0
"""Runs in the environment that has Sediment's packages: a question per line of standard input, an answer per line.

`read`: every inference call of the organisation as JSON; `count`: how many there are; `empty`: forget all of them;
`accept`: a developer accepts what each call answered, found by its model call id; `map`: for each call null, or why
the trainer mapping refuses it.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from sediment_core import DeveloperDecision, FactStore
from sediment_core.postgres_engine import create_postgres_engine
from sediment_export.trainer import TrainerMappingError, map_inference_call


def read(store: FactStore, org: str) -> list[Any]:
    return [call.model_dump(mode="json") for call in store.read_inference_calls(org)]


def empty() -> None:
    engine = create_postgres_engine(os.environ["SEDIMENT_BOOTSTRAP_DATABASE_URL"])
    with engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE inference_calls, inference_call_aliases, sessions, developer_decisions CASCADE")
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
        "map": lambda asked: reasons(store, asked["org"]),
    }
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(operations[asked["op"]](asked)) + "\n")
        sys.stdout.flush()
    engine.dispose()


if __name__ == "__main__":
    main()
