"""How long leaving takes: the same with a screen and without."""

from __future__ import annotations

from typing import Final

# For the model's summary while the person waits; one that is made behind may take longer.
LEAVING_SECONDS: Final = 6.0
TWICE_SECONDS: Final = 2.0  # within which a second Ctrl+C leaves
