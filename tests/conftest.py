# SPDX-License-Identifier: Apache-2.0
"""What every test shares: how hypothesis searches.

`ci` (chosen where `CI` is set) is reproducible; `dev` searches anew each time; `long` is for an evening by hand:
`HYPOTHESIS_PROFILE=long make test`. No profile has a deadline: a shared machine is no measuring instrument.

`tests/strategies.py` (generated messages, spans and log records) can be imported from every test.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

_PATIENT = [HealthCheck.too_slow]
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, suppress_health_check=_PATIENT)
settings.register_profile("dev", deadline=None, print_blob=True, suppress_health_check=_PATIENT)
settings.register_profile("long", deadline=None, max_examples=20_000, suppress_health_check=_PATIENT)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev")
settings.load_profile(PROFILE)
if PROFILE == "long":  # a test may take an hour then
    os.environ.setdefault("PYTEST_TIMEOUT", "0")

sys.path.insert(0, str(Path(__file__).parent))
