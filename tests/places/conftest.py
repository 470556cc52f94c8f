# SPDX-License-Identifier: Apache-2.0
"""`place_facts` can be imported from every test here."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
