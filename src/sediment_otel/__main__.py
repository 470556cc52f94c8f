# SPDX-License-Identifier: Apache-2.0
"""`python -m sediment_otel`: the command line."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
