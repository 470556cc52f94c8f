# SPDX-License-Identifier: Apache-2.0
"""Makes the kits of the tests with real instrumentations importable."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "sdk"))
sys.path.insert(0, str(Path(__file__).parents[1]))
