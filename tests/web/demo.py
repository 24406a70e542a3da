"""A bank as a small team might have it: what web tests look at, and what the pictures show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.conftest import command
from tests.talk.servers import Server, Use, claude
from tests.web import stage
from tests.web.stage import Served

PROPOSE: Final = """
import json, os, sys
from retain.capture.inbox import Inbox
from retain.capture.proposal import Proposal
root, found = json.load(sys.stdin)
for fields in found:
    Inbox(root, os.environ).propose(Proposal("", **fields))
"""
LONG: Final = "connection-pool"  # the memory that has everything: versions, links both ways, files
TYPED: Final = "postgres-for-orders"
RUNBOOK: Final = "queue-is-stuck"


class Note(NamedTuple):
    """A memory of the bank."""

    place: str  # collection/id
    days: float  # how long ago it was written
    title: str
    text: str
    tags: str = ""
    type: str = "fact"
    by: str = "Claude"
    more: tuple[tuple[str, Any], ...] = ()

    @property
    def id(self) -> str:
        return self.place.rpartition("/")[2]


_POOL: Final = """\
Every service opens **one** pool at start and shares it; a pool for each request ran the database
out of connections twice in a week ([[pool-incident]]).

## The numbers

| service | size | wait |
| --- | ---: | ---: |
| web | 20 | 2 s |
| billing | 10 | 5 s |
| workers | 4 each | 30 s |

```python
pool = Pool(dsn, size=20, wait=2.0)

def order(number: int) -> Order:
    with pool.connection() as db:  # given back whatever happens
        return load(db, number)
```

1. Never keep a connection across a call to another service.
2. Tests use a pool of two, so that a leak shows at once: see [[src/db/pool.py]].

> Postgres counts connections, not queries. An idle one costs about 10 MB.

What is still open is in [[pool-for-reports]], and why it is Postgres at all in
[[postgres-for-orders]].
"""

_DECISION: Final = {
    "status": "accepted",
    "context": "Orders are written by **two** services, and SQLite lets one of them wait.",
    "decision": "Postgres 17 for everything about orders; SQLite stays for the queries.",
    "rationale": [
        "Both services write at the same time",
        "Changes of the schema are transactional",
        "The team has run it for years",
    ],
    "alternatives": [
        {"option": "MySQL", "rejected_reason": "No transactional DDL"},
        {"option": "SQLite with a queue", "rejected_reason": "One more thing that can be stuck"},
    ],
    "consequences": ["A server to look after", "Backups move to `wal-g`"],
}
_RUNBOOK: Final = {
    "trigger": "The age of the oldest job is above ten minutes",
    "symptoms": ["Mails come late", "`jobs_waiting` climbs in a straight line"],
    "steps": [
        "Look at `retain search 'queue'` for the last time this happened",
        "See which job holds the lock: `jobs locks --older 5m`",
        "End that worker by its process id; the job goes back to the queue",
        "Watch the oldest age fall for two minutes",
    ],
    "verification": "The age of the oldest job is below one minute",
    "root_cause": "A mail server that answers slowly keeps a worker for as long as it likes",
    "environment": "production",
}

_NOTES: Final = (
    Note("knowledge/connection-pool", 34, "How connections to the database are shared", _POOL,
         "database,performance", more=(("related_files", ["src/db/pool.py"]),)),
    Note("decisions/postgres-for-orders", 61, "Postgres for orders", "", "database,orders",
         "decision", more=(("content", _DECISION), ("related_files", ["src/db/pool.py"]))),
    Note("runbooks/queue-is-stuck", 20, "The job queue is stuck", "See also [[mail-timeouts]].",
         "queue,on-call", "runbook", "Ada", (("content", _RUNBOOK),)),
    Note("knowledge/pool-incident", 36, "Twice out of connections in one week",
         "On Tuesday and again on Friday the database refused new connections for eleven minutes. "
         "Each request opened a pool of its own; see [[connection-pool]].", "database,incident"),
    Note("plans/pool-for-reports", 12, "Reports get a pool of their own",
         "Reports hold connections for minutes. A separate pool of three keeps them away from the "
         "shop. Blocked by [[read-replica]].", "database,reports", "plan", "Ada"),
    Note("plans/read-replica", 9, "A read replica for reports and search",
         "Half the load is reading. Ask for a replica in the same zone; [[replica-costs]] has not "
         "been written yet.", "database,reports", "plan", "Ada"),
    Note("knowledge/mail-timeouts", 21, "Mail needs a timeout of its own",
         "The mail library waits for ever by default. Ten seconds is enough; after that the job is "
         "tried again, at most five times. Found while [[queue-is-stuck]].", "queue,mail"),
    Note("knowledge/cart-cache", 45, "Carts are cached in Redis for an hour",
         "Keys are short, `user:42:cart`, and expire. A cart that is gone is read from the "
         "database, so losing Redis costs time and no data.", "cache,performance"),
    Note("preferences/small-commits", 118, "Small commits, one subject each",
         "A commit does one thing and its first line says which. Review takes minutes then.",
         "style", "preference", "Ada"),
    Note("preferences/plain-english", 110, "Plain English in messages",
         "Say what happened, what was not changed, and what to do next. No jokes in errors.",
         "style", "preference", "Ada"),
    Note("preferences/no-mocks", 96, "Tests use real things",
         "A real database in a container, real files, real servers. Mocks agreed with us twice "
         "while production did not.", "style,testing", "preference", "Ada"),
    Note("knowledge/money-in-cents", 140, "Money is whole cents, never a float",
         "Amounts are integers of the smallest unit with the currency beside them. Rounding "
         "happens once, when a price is made: see [[rounding]].", "money"),
    Note("knowledge/rounding", 138, "Prices are rounded half to even",
         "Finance wants banker's rounding. The tax banks accepts it per line, not per order.",
         "money"),
    Note("decisions/one-repository", 160, "One repository for shop and billing",
         "They change together nine times out of ten. Builds are kept fast by [[build-cache]].",
         "build", "decision", "Ada"),
    Note("knowledge/build-cache", 83, "The build cache is keyed by the lock file",
         "Changing `package-lock.json` or `uv.lock` begins a new cache. A broken one is forgotten "
         "with the button _Clear caches_.", "build,performance"),
    Note("runbooks/restore-backup", 75, "Bring back yesterday's database",
         "1. Stop the workers.\n2. `wal-g backup-fetch LATEST`.\n3. Replay to the minute before."
         "\n\n"
         "Practised every quarter; the last time took 38 minutes.", "database,on-call", "runbook",
         "Ada"),
    Note("runbooks/certificate", 52, "The certificate is about to end",
         "It renews itself 30 days before. If it does not, port 80 is closed again: open it, run "
         "the renewal by hand and look at [[firewall]].", "on-call,network", "runbook"),
    Note("knowledge/firewall", 51, "What the firewall lets in",
         "443 from everywhere, 80 for certificates alone, 22 from the banks. Nothing else.",
         "network"),
    Note("knowledge/staging-port", 15, "Staging answers on port 8443",
         "The proxy took 443 for the demo shop. Scripts read `STAGING_URL`.", "network,staging"),
    Note("knowledge/staging-data", 14, "Staging has yesterday's orders, without names",
         "The copy replaces names and addresses before it leaves production. Never copy by hand.",
         "staging,privacy"),
    Note("constraints/personal-data", 130, "Personal data stays in the region",
         "Backups, logs and error reports included. Ask before a new service sees any of it.",
         "privacy", "constraint", "Ada"),
    Note("constraints/api-rate", 67, "The bank's interface allows 5 calls a second",
         "More are refused for a minute. Payouts are made in groups; see [[payout-groups]].",
         "payments", "constraint"),
    Note("knowledge/payout-groups", 66, "Payouts go out in groups of fifty",
         "One call for fifty payouts stays below [[api-rate]]. A group that fails is split in half "
         "and tried again.", "payments"),
    Note("knowledge/idempotency", 58, "Payments carry a key, so that a second try pays once",
         "The key is the order's number with the attempt. The bank remembers it for a day.",
         "payments"),
    Note("knowledge/webhooks", 40, "Webhooks arrive twice, and out of order",
         "Trust the number in the message and not the time it came. A late one is dropped.",
         "payments,queue"),
    Note("decisions/search-engine", 90, "Search stays in Postgres",
         "Full text with trigrams is good enough for 40,000 products, and one thing less to run.",
         "search,database", "decision", "Ada"),
    Note("knowledge/synonyms", 29, "Synonyms are in a table that the shop can edit",
         "`sneaker` finds `trainer`. Changes count after a minute.", "search"),
    Note("knowledge/slow-query", 8, "Counting all orders is what made the first page slow",
         "`count(*)` reads the whole table. The page shows an estimate now, and says so.",
         "database,performance"),
    Note("knowledge/image-sizes", 25, "Pictures come in three sizes",
         "320, 800 and 1600 pixels, as WebP with JPEG beside it. Made when a product is saved.",
         "frontend,performance"),
    Note("knowledge/dark-mode", 24, "Dark mode follows the system",
         "A choice of one's own wins, and is kept in the browser. Colours are variables.",
         "frontend"),
    Note("knowledge/checkout-steps", 19, "Three steps to pay, and the back button works",
         "Each step has an address. A reload never pays: see [[idempotency]].",
         "frontend,payments"),
    Note("knowledge/forms", 18, "What was typed is never lost",
         "Forms keep a draft in the tab until the server has it.", "frontend"),
    Note("knowledge/locale", 33, "Numbers and dates are written for the reader's language",
         "`Intl` does it in the browser. On the server everything is UTC and cents.",
         "frontend,money"),
    Note("tech-debt/old-templates", 101, "Half of the mails use the old templates",
         "They cannot be translated. Twelve of them are left.", "mail", "tech_debt"),
    Note("tech-debt/user-table", 87, "The table of users has 61 columns",
         "Addresses belong into a table of their own. Waits for a quiet month.", "database",
         "tech_debt", "Ada"),
    Note("tech-debt/flaky-checkout", 6, "The checkout test fails one time in eighty",
         "It clicks before the price is there. Wait for the price, not for a second.", "testing",
         "tech_debt"),
    Note("sessions/2026-pool", 33, "Session: finding the leak of connections",
         "Goal reached: one pool for each service. Left to do: [[pool-for-reports]].", "database",
         "session_summary"),
    Note("sessions/2026-mail", 20, "Session: why mails came late",
         "The queue was held by one slow mail server; see [[mail-timeouts]].", "mail,queue",
         "session_summary"),
    Note("journal/first-black-friday", 0.9, "What the load test told us",
         "At 900 orders a minute the queue is the limit, not the database. Workers were doubled.",
         "performance,queue", "journal", "Ada"),
    Note("journal/new-colleague", 3, "Grace joins the team on Monday",
         "She takes over search. Show her [[search-engine]] and [[synonyms]] first.", "team",
         "journal", "Ada"),
    Note("knowledge/feature-flags", 11, "Flags are removed within a month",
         "A flag has an owner and a day on which it goes. The build warns about older ones.",
         "build,style"),
    Note("knowledge/log-levels", 57, "An error in the log wakes someone",
         "So a customer's wrong card is a warning, and a failed payout is an error.", "on-call"),
    Note("knowledge/trace-ids", 56, "Every request has a number that all logs carry",
         "It is in the header `X-Request`, and on the page that says sorry.", "on-call,network"),
    Note("knowledge/alerts", 43, "Alerts say what to do",
         "Each names its runbook, or it is deleted. Last week: 3 alerts, all with one.", "on-call"),
    Note("knowledge/discounts", 28, "Discounts never add up",
         "The best one counts. Vouchers are not discounts, they are money.", "money,orders"),
    Note("knowledge/returns", 27, "A return is an order with negative lines",
         "Stock, tax and money follow from that by themselves.", "orders,money"),
    Note("knowledge/stock", 26, "Stock is reserved when paying begins",
         "For fifteen minutes. A job frees what was not paid.", "orders,queue"),
    Note("knowledge/order-numbers", 72, "Order numbers tell nobody how many we sell",
         "They are random and have a check digit. Support reads them over the phone.",
         "orders,privacy"),
    Note("knowledge/tax", 71, "Tax is worked out for each line",
         "By the place of delivery. The rates are a table with dates from and to.", "money,orders"),
    Note("knowledge/python-version", 5, "Python 3.13 everywhere since October",
         "Containers, laptops and the build. 3.11 goes away in the spring.", "build"),
    Note("knowledge/deploy", 4, "A release takes nine minutes and goes back in one",
         "The old version stays up until the new one has answered for a minute.", "build,on-call"),
    Note("knowledge/old-host", 200, "The old server is at the hoster's",
         "It was switched off.", "network", more=(
             ("status", "retired"), ("retired_at", "2026-09-01T10:00:00Z"),
             ("retired_reason", "Switched off in September"))),
    Note("decisions/mongo", 210, "MongoDB for the catalogue",
         "It was tried for half a year.", "database", "decision", "Ada", (
             ("status", "archived"), ("archived_at", "2026-07-01T10:00:00Z"),
             ("archived_reason", "Replaced by Postgres"))),
    Note("knowledge/long-name", 2,
         "A title that somebody pasted from a mail and that goes on for much longer than a title "
         "should, with a path like src/services/billing/adapters/very_long_module_name.py in it",
         "It has to fit as well, on a phone too. `an_identifier_without_any_space_that_is_longer_"
         "than_a_narrow_screen_is_wide_by_far`", "style"),
    Note("knowledge/hostile", 2.5, "<img src=x onerror=alert(1)> in a review",
         "A customer wrote `<script>` into a review. It was shown as text, as it should be.",
         "privacy,frontend"),
)  # fmt: skip

_PROPOSED: Final = (
    (
        "decision",
        "Use wal-g for backups",
        "It writes to the store we have, and goes to the minute.",
    ),
    ("runbook", "Payouts were refused by the bank", "Wait a minute, halve the group, try again."),
    ("preference", "Dates in logs are UTC", "Everybody reads them in another time zone."),
)


def _stamp(when: datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def _write(bank: Path, note: Note, text: str, days: float) -> None:
    then = datetime.now(UTC) - timedelta(days=days)
    made = datetime.now(UTC) - timedelta(days=note.days)
    head = {
        "id": note.id,
        "title": note.title,
        "type": note.type,
        "tags": [tag for tag in note.tags.split(",") if tag],
        "created_at": _stamp(made),
        "updated_at": _stamp(then),
        "created_by": note.by,
        **dict(note.more),
    }
    lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items())
    path = bank / f"{note.place}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\n{lines}---\n\n{text}\n" if text else f"---\n{lines}---\n", "utf-8")
    os.utime(path, (then.timestamp(), then.timestamp()))


def fill(home: Path) -> Path:
    """A project's bank with some sixty memories, below a home where no server runs yet."""
    work = home / "work"
    (work / "src" / "db").mkdir(parents=True)
    (work / "src" / "db" / "pool.py").write_text("class Pool: ...\n", encoding="utf-8")
    subprocess.run(
        [*command(), "init"], env=stage.world(home), cwd=work, check=True, capture_output=True
    )
    bank = work / ".retain"
    for note in _NOTES:
        _write(bank, note, note.text, note.days)
    own = home / ".retain"
    for place, title in (("facts/editor", "I use Helix"), ("facts/mornings", "Meetings after ten")):
        _write(own, Note(place, 70, title, f"{title}.", "me", by="Ada"), f"{title}.", 70)
    return bank


def enrich(served: Served) -> None:
    """What only a server that runs can add: versions, proposals, a kept search."""
    at = f"/memories/here/knowledge/{LONG}"
    seen = served.api("GET", at)
    changed = seen["content"].replace("| web | 20 | 2 s |", "| web | 24 | 2 s |")
    changed = changed.replace("about 10 MB", "about 9 MB, measured in May")
    served.api("PUT", at, {"text": changed, "expect": seen["hash"]})
    # Changed in an editor, so that the file which the memory speaks of is newer than it.
    pool = served.work / "src" / "db" / "pool.py"
    pool.write_text("class Pool:\n    size = 24\n", encoding="utf-8")
    served.api("PUT", "/searches/On%20call", {"query": "tag=on-call"})
    found = [
        {
            "category": category,
            "title": title,
            "text": text,
            "host": "claude-code",
            "session_id": "s1",
            "created_at": _stamp(datetime.now(UTC) - timedelta(hours=3)),
        }
        for category, title, text in _PROPOSED
    ]
    subprocess.run(
        [sys.executable, "-c", PROPOSE],
        input=json.dumps([str(served.bank), found]).encode(),
        env=stage.world(served.home),
        check=True,
        capture_output=True,
    )


KEY: Final = "sk-test-0123456789abcdef"
_REPLY: Final = """\
Redis fits: you need expiry by key, and two services share the data.

1. Keep keys short: `user:42:cart`.
2. Expire after an hour.

```python
def cached(key: str, seconds: int = 3600) -> Cart:
    if found := redis.get(key):  # most of the time
        return Cart.loads(found)
    return load(key)
```

[MEMORY] The shop caches carts in Redis for an hour
"""
_SETTINGS: Final = "[cache]\nurl = redis://cache:6379\nseconds = 3600\n"


def spoken_to(model: Server) -> dict[str, str]:
    """The environment of a server whose chats speak with this model."""
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": model.url}


# What is to be saved has to be the person's own words: the project's memories were read as well.
_QUESTION = (
    "The shop caches carts in Redis for an hour. What should our two services use as a cache?"
)


def talk(served: Served, model: Server) -> str:
    """A chat that has saved a memory and now asks whether it may write a file; its session."""
    (served.work / "settings.ini").write_text("[cache]\nseconds = 60\n", encoding="utf-8")
    path = f"/chats/{served.api('POST', '/chats', {})['id']}"
    model.says(claude(_REPLY))
    served.api("POST", f"{path}/messages", {"text": _QUESTION})
    _until(served, path, "memory")
    write = Use("write_file", {"path": "settings.ini", "content": _SETTINGS})
    model.says(claude("I will put that into the settings.", write))
    served.api("POST", f"{path}/messages", {"text": "Good. Set it up."})
    _until(served, path, "question")
    session: str = served.api("GET", path)["session"]
    return session


def _until(served: Served, path: str, kind: str) -> None:
    """Wait until something of a kind was said and, if it is no question, all of it was."""
    for _ in range(1_200):
        is_said = any(one["kind"] == kind for one in served.api("GET", f"{path}/words")["words"])
        if is_said and (kind == "question" or not served.api("GET", path)["doing"]):
            return
        time.sleep(0.05)
    raise AssertionError(f"no {kind} ever came")
