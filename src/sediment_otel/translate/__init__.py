# SPDX-License-Identifier: Apache-2.0
"""The one translation between the GenAI form and facts, the same for every dialect and every way in. Pure.

The package can be called: `sediment_otel.translate(span, settings)` is `translate.call.translate`, whichever of the
two the import system bound to the name first.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Translate one span: see `translate.call.translate`."""
        from .call import translate

        return translate(*args, **keywords)


sys.modules[__name__].__class__ = _Callable
