"""Banks to search: an empty one found by words alone, and a filled one found by meaning too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import retain
from retain.app import App
from tests.conftest import own_world

# One line is one memory: collection/id, type, day of creation, tags, text.
NOTES = r"""
knowledge/gpu-patterns | fact | 2026-02-03 | gpu,performance,metal | # GPU Acceleration Patterns\n\nMetal beats CUDA on a laptop: shaders run without copying memory.
knowledge/token-expiry | fact | 2026-02-10 | auth,security | Session tokens expire after twelve hours; refresh tokens after thirty days.
knowledge/password-hashing | fact | 2026-02-11 | auth,security | Passwords are hashed with argon2id, never with bcrypt.
research/xss-audit | observation | 2026-03-02 | security | The security audit found a script injection in the comment form.
memory/backup-window | fact | 2026-03-05 | ops | Nightly backups run between two and three in the morning.
memory/on-call | journal | 2026-03-09 | ops | Maria is on call this sprint; Jonas takes over afterwards.
memory/coffee | preference | 2026-03-12 | people | Jonas drinks his coffee black and hates meetings before ten.
memory/vacation | journal | 2026-03-20 | people | Maria flies to Lisbon for two weeks in August.
plans/postgres | plan | 2026-04-01 | database,migration | We move from SQLite to PostgreSQL, tables first, then the search index.
plans/pool-size | fact | 2026-04-03 | database | The connection pool holds twenty connections per worker.
plans/rate-limit | fact | 2026-04-05 | api | The free tier may send one hundred requests per minute.
plans/dark-mode | plan | 2026-04-09 | ui | A dark theme for the dashboard, with contrast checked by axe.
research/latency | observation | 2026-05-02 | performance | Half of the page load goes to fonts that are fetched twice.
research/churn | observation | 2026-05-08 | business | Customers leave mostly in the third month, after the discount ends.
memory/office | fact | 2026-05-11 | people | The office has moved to the fourth floor; the door code is on the board.
knowledge/deploy | runbook | 2026-05-15 | ops | To deploy, merge into main and wait for the green check, then press ship.
knowledge/rollback | runbook | 2026-05-16 | ops | To roll back, redeploy the previous image; migrations only go forward.
knowledge/tests | preference | 2026-05-20 | testing | Tests use real files and real databases; mocks only for paid services.
knowledge/style | preference | 2026-05-21 | python | Functions before classes, and no comments that repeat the code.
memory/bike | journal | 2026-06-01 | people | Maria cycles to work and had a flat tyre on Tuesday.
memory/dog | journal | 2026-06-03 | people | Jonas adopted a rescue dog called Biscuit.
research/embedding | observation | 2026-06-07 | search | Small sentence models rank our notes as well as large ones do.
plans/mobile | plan | 2026-06-10 | ui | The mobile app comes after the public launch, with React Native.
knowledge/licence | fact | 2026-06-12 | legal | All code is under the MIT licence; fonts are under the OFL.
memory/budget | fact | 2026-06-15 | business | The cloud budget is four thousand euros a month.
"""  # noqa: E501 - a table


@pytest.fixture
def memory(home: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    """An empty bank that is searched by words alone."""
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")
    with retain.open("bank", background=False) as opened:
        yield opened


@pytest.fixture
def thinking(home: object) -> Iterator[App]:
    """An empty bank with the bundled model."""
    with retain.open("bank", background=False) as opened:
        yield opened


@pytest.fixture(scope="session")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """A team's notes with every vector made, to be read only."""
    home = tmp_path_factory.mktemp("notes")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own_world(home).items():
            patch.setenv(name, value)
        patch.delenv("RETAIN_RECALL_EMBEDDER", raising=False)
        with retain.open(str(home / "bank"), background=False) as opened:
            for line in NOTES.strip().splitlines():
                ref, kind, day, tags, text = line.split(" | ", 4)
                collection, name = ref.split("/")
                opened.put(
                    text.replace("\\n", "\n"),
                    id=name,
                    collection=collection,
                    type=kind,
                    tags=tags.split(","),
                    metadata={"created_at": f"{day}T09:00:00Z"},
                )
            opened.make_vectors()
            yield opened
