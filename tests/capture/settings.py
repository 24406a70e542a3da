"""What a score takes where no config says anything else, and where anything is enough."""

from __future__ import annotations

from retain.capture.triage import CATEGORIES
from retain.config import SETTINGS

DEFAULTS = {name: float(str(SETTINGS[f"triage.thresholds.{name}"].default)) for name in CATEGORIES}
ANYTHING = dict.fromkeys(CATEGORIES, 0.0)
