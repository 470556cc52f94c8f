# SPDX-License-Identifier: Apache-2.0
"""Runs inside the environment that holds `sediment-core`, never in ours. One JSON object a line, in and out.

In: `{"op": "validate" | "redact", "facts": [<text of one fact>, …]}`. Out: `{"answers": […]}`, one for each fact:
null or the type and text of the error for `validate`; the fact, or null where it is refused, for `redact`.
"""

import json
import sys

from sediment_core.models import InferenceCall
from sediment_core.redaction import redact_fact


def validate(text):
    try:
        InferenceCall.model_validate_json(text)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def redact(text):
    try:
        call = InferenceCall.model_validate(json.loads(text))
        return redact_fact(call)[0].model_dump(mode="json")
    except Exception:
        return None


OPERATIONS = {"validate": validate, "redact": redact}

for line in sys.stdin:
    request = json.loads(line)
    operation = OPERATIONS[request["op"]]
    print(json.dumps({"answers": [operation(text) for text in request["facts"]]}), flush=True)
