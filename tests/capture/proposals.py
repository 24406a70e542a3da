"""A proposal, as a hook makes one."""

from __future__ import annotations

import os
from pathlib import Path

from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal

DECISION = Proposal(
    id="",
    category="decision",
    title="Use Postgres",
    text="We use Postgres because one writer is not enough.",
    score=0.6,
    created_at="2026-11-15T18:00:00Z",
    event="stop",
    host="claude-code",
    session_id="3f2a9c1e-1111-4222-8333-abcdefabcdef",
    transcript_path="/nowhere/s1.jsonl",
    start=10,
    end=90,
    cwd="/work",
)


def inbox(root: Path | str) -> Inbox:
    """The inbox of a bank, as the person of this test has it."""
    return Inbox(str(root), os.environ)
