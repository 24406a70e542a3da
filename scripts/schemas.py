"""Write src/retain/schemas/*.schema.json from the models of typed memories.

python scripts/schemas.py            # rewrite the files
python scripts/schemas.py --check    # fail if they are not up to date
"""

from __future__ import annotations

import json
import os
import sys

from retain.schema import CATEGORIES, json_schema

FOLDER = os.path.join(os.path.dirname(__file__), os.pardir, "src", "retain", "schemas")


def pages() -> dict[str, str]:
    """Every file's name and text."""
    return {
        f"{name.replace('_', '-')}.schema.json": json.dumps(json_schema(name), indent=2) + "\n"
        for name in ("base", *CATEGORIES)
    }


def main() -> int:
    new = pages()
    if "--check" in sys.argv:
        return 0 if _there() == new else 1
    os.makedirs(FOLDER, exist_ok=True)
    for name, text in new.items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


def _there() -> dict[str, str]:
    found = {}
    for name in os.listdir(FOLDER):
        with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
            found[name] = file.read()
    return found


if __name__ == "__main__":
    sys.exit(main())
