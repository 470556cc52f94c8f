# SPDX-License-Identifier: Apache-2.0
"""Runs in the environment that has Sediment's packages: a question per line of standard input, an answer per line.

`read`: every inference call of the organisation as JSON; `count`: how many there are; `empty`: forget all of them.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from sediment_core import FactStore
from sediment_core.postgres_engine import create_postgres_engine


def read(store: FactStore, org: str) -> list[Any]:
    return [call.model_dump(mode="json") for call in store.read_inference_calls(org)]


def empty() -> None:
    engine = create_postgres_engine(os.environ["SEDIMENT_BOOTSTRAP_DATABASE_URL"])
    with engine.begin() as connection:
        connection.exec_driver_sql("TRUNCATE inference_calls, inference_call_aliases, sessions CASCADE")
    engine.dispose()


def main() -> None:
    engine = create_postgres_engine(os.environ["SEDIMENT_DATABASE_URL"])
    store = FactStore(engine)
    operations = {
        "read": lambda asked: read(store, asked["org"]),
        "count": lambda asked: len(store.read_rollout_inference_calls(asked["org"])),
        "empty": lambda asked: empty(),
    }
    for line in sys.stdin:
        asked = json.loads(line)
        sys.stdout.write(json.dumps(operations[asked["op"]](asked)) + "\n")
        sys.stdout.flush()
    engine.dispose()


if __name__ == "__main__":
    main()
