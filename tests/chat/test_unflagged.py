"""What of a reply is for the person, whole or in pieces."""

from __future__ import annotations

import pytest

from retain.chat.unflagged import Unflagged, unflagged

REPLY = """\
Noted.
[MEMORY] The API listens on port 8080.
Next.

**[MEMORY]** Updated facts:

- Jo lives in Oslo
- Jo likes tea
  without milk

> [MEMORY] Jamie uses pnpm (replaces: Jamie uses npm)

- [MEMORY] Jo has a cat
- another matter

The end, [MEMORY] Jo sings
```
[MEMORY] in code
```
[MEMORY] Jo runs. The answer is 42.
[MEMORY](https://example.com)
[MEMORY] Jo dances"""

SHOWN = """\
Noted.
Next.
- another matter
The end, [MEMORY] Jo sings
```
[MEMORY] in code
```
[MEMORY] Jo runs. The answer is 42.
[MEMORY](https://example.com)"""


def test_lines_that_only_flag_facts_are_left_out() -> None:
    lines = [line for line in unflagged(REPLY).split("\n") if line.strip()]
    assert lines == SHOWN.split("\n")


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_the_pieces_a_reply_comes_in_change_nothing(size: int) -> None:
    lines = Unflagged()
    parts = [lines.fed(REPLY[at : at + size]) for at in range(0, len(REPLY), size)]
    assert "".join([*parts, lines.rest()]) == unflagged(REPLY)


def test_what_cannot_be_a_flag_is_shown_before_its_line_ends() -> None:
    lines = Unflagged()
    assert lines.fed("[ME") == ""
    assert lines.fed("DIA] is") == "[MEDIA] is"
    assert lines.fed(" here") == " here"
    assert lines.rest() == ""
