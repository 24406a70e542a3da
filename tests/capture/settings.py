"""What is judged by where no config says anything else, as the config has it."""

from __future__ import annotations

from retain.capture.triage import CATEGORIES, Settings
from retain.settings import SETTINGS


def _under(prefix: str) -> dict[str, object]:
    return {
        key.removeprefix(prefix): one.default
        for key, one in SETTINGS.items()
        if key.startswith(prefix)
    }


DEFAULTS = Settings(
    max_messages=int(SETTINGS["triage.max_messages"].default),
    thresholds={name: float(str(least)) for name, least in _under("triage.thresholds.").items()},
    parallel={
        "enabled": SETTINGS["triage.parallel.enabled"].default,
        "category_models": _under("triage.parallel.category_models."),
        "verification_model": SETTINGS["triage.parallel.verification_model"].default,
        "default_model": SETTINGS["triage.parallel.default_model"].default,
    },
    descriptions={},
    captured=CATEGORIES,
)
ANYTHING = DEFAULTS._replace(thresholds=dict.fromkeys(CATEGORIES, 0.0))
