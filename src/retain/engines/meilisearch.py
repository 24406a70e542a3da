"""Meilisearch as a text arm: one index for each collection, terms matched as whole tokens.

Meilisearch is made for people who type: it forgives typos, completes words, joins and splits
them. All of that is switched off, and what cannot be is kept out by how terms are written: each
is one ASCII word, parted from the next by a full stop, so that neither side ever reads two of
them as one. Its ranking drops words from the end of a question until enough is found, so every
term leads a question of its own, the rarest first. What these bring back is weighed here, by the
terms that it has.
"""

from __future__ import annotations

import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from retain.engines.arm import (
    GRAVE,
    EngineDown,
    EngineError,
    EngineRefused,
    Held,
    Match,
    Piece,
    Sieve,
)
from retain.engines.spelling import kept, meant, word
from retain.engines.tally import Row, tally
from retain.engines.trouble import Speaker, plain
from retain.guard.characters import flat

if TYPE_CHECKING:
    from meilisearch import Client
    from requests import PreparedRequest, Response, Session

    from retain.engines.naming import Names

__all__ = ["MeilisearchSettings", "MeilisearchText"]

_OLDEST: Final = (1, 14)  # that can be told which filters a field is for
_MOST_BYTES: Final = 256 * 1024 * 1024  # of an answer
_PART: Final = 1024 * 1024  # of it that is read at once
_WORDS: Final = 10  # of a question that Meilisearch reads
_LEADERS: Final = 24  # terms that lead a question of their own
_PAGE: Final = 5_000  # documents asked for at once
_MANY: Final = 500  # memories that are named in one filter
_SLOTS: Final = 4_096  # that memories are spread over, so that a manifest is read in parts
_FEWEST: Final = 300  # pieces that are weighed here, if there are so many
_K1: Final = 1.2
_PARTING: Final = ". "  # Meilisearch never takes words on both sides of a full stop together
_FULL: Final = frozenset({"no_space_left_on_device", "database_size_limit_reached"})
_SETTINGS: Final[dict[str, Any]] = {
    "searchableAttributes": ["terms"],
    "filterableAttributes": [
        {
            "attributePatterns": ["owner", "type", "status", "tags"],
            "features": {"facetSearch": False, "filter": {"equality": True, "comparison": False}},
        },
        {
            "attributePatterns": ["place", "created", "slot"],
            "features": {"facetSearch": False, "filter": {"equality": True, "comparison": True}},
        },
    ],
    "rankingRules": ["words"],
    "typoTolerance": {"enabled": False},
    "prefixSearch": "disabled",
    "facetSearch": False,
    "proximityPrecision": "byWord",
    "stopWords": [],
    "synonyms": {},
    "dictionary": [],
    "separatorTokens": [],
    "nonSeparatorTokens": [],
    # Else it guesses a language, and some it parts words in.
    "localizedAttributes": [{"attributePatterns": ["*"], "locales": ["eng"]}],
}


class MeilisearchSettings(NamedTuple):
    """What can be chosen; replicas and shards are the server's own business."""

    indexing: float = 60.0  # seconds that a change may wait for its turn
    candidates: int = 3  # pieces weighed for each that is asked for; more find a little more


class MeilisearchText:
    """A bank's terms on a Meilisearch server."""

    name = "Meilisearch"

    def __init__(
        self,
        address: str,
        key: str,
        names: Names,
        *,
        patience: float,
        settings: MeilisearchSettings = MeilisearchSettings(),  # noqa: B008 - a tuple
    ) -> None:
        url = _usable(address)
        self.address = url or "an address that cannot be read"
        self._names = names
        self._settings = settings
        self._wire = _Wire(url, key, patience)

    def load(self) -> None:
        self._wire.load()

    def version(self) -> str:
        with self._wire.reading():
            return flat(str(self._wire.ask("get", "version")["pkgVersion"]), 40)

    def ready(self, collections: Iterable[str]) -> None:
        self._ready({self._names.of(collection) for collection in collections})

    def _ready(self, indexes: Iterable[str]) -> None:
        tasks = [task for index in sorted(indexes) for task in self._made(index)]
        self._done(tasks, lenient=True)

    def _made(self, index: str) -> list[int]:
        """The tasks that make an index as it should be; none where it is."""
        found = self._wire.ask("get", f"indexes/{index}/settings", missing={})
        if found and _agree(_SETTINGS, found):
            return []
        tasks = []
        if found:
            self._check_empty(index)
        else:
            self._check_version()
            body = {"uid": index, "primaryKey": "id"}
            tasks.append(self._task("post", "indexes", body))
        return [*tasks, self._task("patch", f"indexes/{index}/settings", _SETTINGS)]

    def _check_empty(self, index: str) -> None:
        # One that was made and then not told how, because something ended in between, has none.
        with self._wire.reading():
            stats = self._wire.ask("get", f"indexes/{index}/stats")
            if int(stats["numberOfDocuments"]):
                raise EngineRefused(
                    f"The index {index} at {self.address} (Meilisearch) has other settings.",
                    hint="`retain engine repair` gives it those that it needs.",
                )

    def _check_version(self) -> None:
        version = self.version()
        parts = version.split(".")
        if not all(part.isdecimal() for part in parts[:2]) or tuple(map(int, parts[:2])) < _OLDEST:
            wanted = ".".join(map(str, _OLDEST))
            raise EngineRefused(
                f"Meilisearch at {self.address} is {version}; {wanted} or newer is needed."
            )

    def put(self, pieces: Sequence[Piece]) -> None:
        by_index: dict[str, list[Piece]] = defaultdict(list)
        for piece in self._winners(pieces):
            by_index[self._names.of(piece.collection)].append(piece)
        self._ready(by_index)
        tasks = []
        for index, some in by_index.items():
            documents = [self._document(piece) for piece in some]
            tasks.append(self._task("post", f"indexes/{index}/documents", documents))
            tasks.append(self._delete(index, self._stale(some)))
        self._done(tasks)

    def _winners(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Those that are not older than what is held, as far as can be seen beforehand."""
        # Meilisearch has no condition on a write. Who writes in this very moment is not seen;
        # the next comparison of what is held then sets it right.
        held = self.held([piece.memory for piece in pieces])
        return [
            piece
            for piece in pieces
            if (there := held.get(piece.memory)) is None
            or (piece.written, piece.hash) >= (there.written, there.hash)
        ]

    def _document(self, piece: Piece) -> dict[str, Any]:
        owner = self._owner(piece.memory)
        return {
            "id": piece.id,
            "owner": owner,
            "slot": _slot(owner),
            "memory": kept(piece.memory),
            "place": piece.place,
            "pieces": piece.pieces,
            "type": word(piece.type),
            "status": word(piece.status),
            "tags": [word(tag) for tag in piece.tags],
            "created": _moment(piece.created),
            "hash": piece.hash,
            "written": repr(piece.written),  # a number would lose its last digit on the way
            "digest": piece.digest,
            "model": kept(piece.model),
            "terms": _PARTING.join(word(term) for term in piece.terms.split()),
        }

    def _owner(self, memory: str) -> str:
        """One short name for all pieces of a memory, however long its own is."""
        return self._names.piece(memory, GRAVE)

    def _stale(self, pieces: Sequence[Piece]) -> str:
        """A filter for what these memories had before and have no more."""
        # By place, not by version: where two write one memory at once, what is left is whole.
        places: dict[str, set[int]] = defaultdict(set)
        for piece in pieces:
            places[self._owner(piece.memory)].add(piece.place)
        owners: dict[frozenset[int], list[str]] = defaultdict(list)
        for owner, there in places.items():
            owners[frozenset(there)].append(owner)
        return " OR ".join(
            f"({_among('owner', some)} AND ({_elsewhere(there)}))" for there, some in owners.items()
        )

    def remove(self, memories: Sequence[str]) -> None:
        there = self._indexes()
        by_index = self._by_index(memories)
        self._done(
            [
                self._delete(index, _among("owner", owners))
                for index, owners in by_index.items()
                if index in there
            ]
        )

    def _by_index(self, memories: Iterable[str]) -> dict[str, list[str]]:
        """The owners of these memories' pieces, by the index they are in."""
        found: dict[str, list[str]] = defaultdict(list)
        for memory in dict.fromkeys(memories):
            collection = memory.rpartition("/")[0]
            found[self._names.of(collection)].append(self._owner(memory))
        return found

    def held(self, memories: Sequence[str]) -> Mapping[str, Held]:
        there = self._indexes()
        return {
            held.memory: held
            for index, owners in self._by_index(memories).items()
            if index in there
            for at in range(0, len(owners), _MANY)
            for held in self._held(index, _among("owner", owners[at : at + _MANY]))
        }

    def manifest(self) -> Iterator[Held]:
        for index in self._indexes():
            parts = min(_SLOTS, 1 + self._total(index, "") // _PAGE)
            for part in range(parts):
                first, end = part * _SLOTS // parts, (part + 1) * _SLOTS // parts
                yield from self._held(index, f"slot >= {first} AND slot < {end}")

    def prune(self, before: float) -> int:
        found = 0
        for index in self._indexes():
            graves = self._held(index, f"place = {GRAVE}")
            old = [self._owner(grave.memory) for grave in graves if grave.written < before]
            found += len(old)
            conditions = [
                f"place = {GRAVE} AND {_among('owner', old[at : at + _MANY])}"
                for at in range(0, len(old), _MANY)
            ]
            self._done([self._delete(index, condition) for condition in conditions])
        return found

    def _held(self, index: str, condition: str) -> Iterator[Held]:
        """The memories whose pieces all pass a filter or none of them."""
        with self._wire.reading():
            found = tally(
                Row(
                    id=str(document["id"]),
                    memory=meant(document["memory"]),
                    hash=str(document["hash"]),
                    written=float(document["written"]),
                    pieces=int(document["pieces"]),
                    model=meant(document["model"]),
                )
                for document in self._documents(index, condition)
            )
        yield from found.values()

    def _documents(self, index: str, condition: str) -> Iterator[Mapping[str, Any]]:
        fields = ["id", "memory", "hash", "written", "pieces", "model"]
        offset = 0
        while True:
            body = {"filter": condition, "fields": fields, "limit": _PAGE, "offset": offset}
            # A collection may be gone by now, on another machine's word.
            page = self._wire.ask("post", f"indexes/{index}/documents/fetch", body, missing={})
            documents = page.get("results", [])
            yield from documents
            offset += _PAGE
            if len(documents) < _PAGE:
                return

    def count(self, sieve: Sieve) -> int:
        return sum(self._total(index, _condition(sieve)) for index in self._within(sieve))

    def _total(self, index: str, condition: str) -> int:
        body = {"limit": 0, **({"filter": condition} if condition else {})}
        with self._wire.reading():
            page = self._wire.ask("post", f"indexes/{index}/documents/fetch", body, missing={})
            return int(page.get("total", 0))

    def matching(self, terms: Mapping[str, float], sieve: Sieve, limit: int) -> list[Match]:
        weights: dict[str, float] = {}
        for term, weight in sorted(terms.items(), key=lambda item: -item[1]):
            if weight > 0:
                weights.setdefault(word(term), weight)
        indexes = self._within(sieve)
        if not weights or not indexes or limit <= 0:
            return []
        queries = [
            query for index in indexes for query in _queries(index, weights, _condition(sieve))
        ]
        most = max(_FEWEST, limit * self._settings.candidates)
        body = {"federation": {"limit": most}, "queries": queries}
        with self._wire.reading():
            return _weighed(self._wire.ask("post", "multi-search", body)["hits"], weights, limit)

    def otherwise(self) -> list[str]:
        return [f"{index} has other settings than Retain gives it" for index in self._odd()]

    def adapt(self) -> None:
        """Meilisearch reads everything again by itself when its settings change."""
        self._done(
            [self._task("patch", f"indexes/{index}/settings", _SETTINGS) for index in self._odd()]
        )

    def _odd(self) -> list[str]:
        """The indexes whose settings are not ours; one that is gone by now has none."""
        found = []
        for index in self._indexes():
            settings = self._wire.ask("get", f"indexes/{index}/settings", missing=_SETTINGS)
            if not _agree(_SETTINGS, settings):
                found.append(index)
        return found

    def drop(self) -> None:
        self._done([self._task("delete", f"indexes/{index}") for index in self._indexes()])

    def close(self) -> None:
        self._wire.close()

    def _within(self, sieve: Sieve) -> list[str]:
        there = self._indexes()
        if not sieve.collections:
            return there
        asked = {self._names.of(collection) for collection in sieve.collections}
        return [index for index in there if index in asked]

    def _indexes(self) -> list[str]:
        """The bank's indexes that are there."""
        found: list[str] = []
        offset, total = 0, 1
        with self._wire.reading():
            while offset < total:
                page = self._wire.ask("get", f"indexes?limit=1000&offset={offset}")
                found += [str(index["uid"]) for index in page["results"]]
                offset, total = offset + 1000, int(page["total"])
        return [quote(uid) for uid in found if uid.startswith(self._names.prefix)]

    def _delete(self, index: str, condition: str) -> int:
        return self._task("post", f"indexes/{index}/documents/delete", {"filter": condition})

    def _task(self, method: str, path: str, body: Any = None) -> int:
        with self._wire.reading():
            return int(self._wire.ask(method, path, body)["taskUid"])

    def _done(self, tasks: Sequence[int], *, lenient: bool = False) -> None:
        """Wait for tasks; two machines that make one index at once both have it (`lenient`)."""
        deadline = time.monotonic() + self._settings.indexing
        waiting, pause = list(tasks), 0.005
        while waiting:
            asked = ",".join(map(str, waiting[:100]))
            with self._wire.reading():
                found = self._wire.ask("get", f"tasks?limit=100&uids={asked}")["results"]
                ended = {int(task["uid"]) for task in found if self._ended(task, lenient)}
            waiting = [task for task in waiting if task not in ended]
            if waiting and time.monotonic() > deadline:
                raise EngineDown(
                    f"Meilisearch at {self.address} took a change and has not carried it out in "
                    f"{self._settings.indexing:g} seconds."
                )
            if waiting and not ended:
                time.sleep(pause)
                pause = min(0.25, pause * 1.5)

    def _ended(self, task: Mapping[str, Any], lenient: bool) -> bool:
        status = task["status"]
        if status in ("failed", "canceled"):
            error = task.get("error") or {}
            if not (lenient and error.get("code") == "index_already_exists"):
                raise self._wire.failed(error)
        return status not in ("enqueued", "processing")


class _Answered(Exception):
    """The server answered with a status that says no."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


class _Wire:
    """Requests by Meilisearch's own client, with one end to them: an answer or an EngineError."""

    def __init__(self, address: str, key: str, patience: float) -> None:
        self._address = address
        self._speaker = Speaker("Meilisearch", address, key)
        self._speaker.address = address or "an address that cannot be read"
        self._key = key
        self._patience = patience
        self._session: Session | None = None

    def ask(self, method: str, path: str, body: Any = None, missing: Any = None) -> Any:
        """The answer to one request; `missing` where there is no such index."""
        try:
            return self._asked(method, path, body)
        except _Answered as answer:
            error = _error(answer.body)
            if missing is not None and error.get("code") == "index_not_found":
                return missing
            raise self._refusal(answer.status, error) from None
        # All that `requests` raises is one of the first two; a body may be nested without end.
        except (OSError, ValueError, RecursionError) as error:
            raise self._trouble(error) from None

    def load(self) -> type[Client]:
        """Load the client."""
        try:
            from meilisearch import Client
        except ImportError:
            raise EngineRefused(
                "Meilisearch needs a package that is not installed.",
                hint='Install it: pip install "retain-bank[meilisearch]"',
            ) from None
        return Client

    def _asked(self, method: str, path: str, body: Any) -> Any:
        make = self.load()
        from meilisearch.errors import MeilisearchCommunicationError, MeilisearchTimeoutError

        if not self._address:
            raise self._speaker.refused(
                "cannot be asked", hint="An address looks like http://127.0.0.1:7700."
            )
        if self._session is None:
            self._session = _session(self._key, self._patience)
        # Its headers change with every request, so each has a client of its own; no key in them.
        client = make(self._address)
        kind = "application/json" if body is not None else None
        # For None it would send `null`, which Meilisearch leaves unread when it deletes an index,
        # and takes for the beginning of the next request.
        sent = b"" if body is None else body
        try:
            return client.http.send_request(getattr(self._session, method), path, sent, kind)
        except MeilisearchTimeoutError:
            raise TimeoutError from None
        except MeilisearchCommunicationError as error:
            raise (error.__cause__ if isinstance(error.__cause__, OSError) else OSError()) from None

    @contextmanager
    def reading(self) -> Iterator[None]:
        """What is no answer of Meilisearch's is a failure of the server, not of Retain."""
        try:
            yield
        except EngineError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError):
            raise self._speaker.unreadable() from None

    def _refusal(self, status: int, error: Mapping[str, Any]) -> EngineError:
        said = str(error.get("message", ""))
        if error.get("code") in _FULL:
            return self._speaker.answered(507, said)
        return self._speaker.answered(status, said)

    def failed(self, error: Mapping[str, Any]) -> EngineError:
        """What a task says that came to nothing."""
        if error.get("type") == "invalid_request":
            return self._refusal(400, error)
        return self._refusal(500, error)

    def _trouble(self, error: Exception) -> EngineError:
        # Only what kind it is: the text of some of these holds the headers, and so the key.
        from requests import exceptions

        speaker = self._speaker
        if isinstance(error, exceptions.JSONDecodeError | RecursionError):
            return speaker.unreadable()
        if isinstance(error, TimeoutError | exceptions.Timeout):
            return speaker.down(f"did not answer within {self._patience:g} seconds")
        if isinstance(error, exceptions.SSLError):
            return speaker.refused("has a certificate that is not to be trusted")
        if isinstance(error, ValueError):
            return speaker.refused("has an address or a key that cannot be used")
        return speaker.down("cannot be reached")

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _session(key: str, patience: float) -> Session:
    """A session that ends in time whatever the server does, and sends the key nowhere else."""
    from requests import Session

    class Bounded(Session):
        def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
            deadline = time.monotonic() + patience
            kwargs |= {"timeout": patience, "stream": True, "allow_redirects": False}
            answer = super().send(request, **kwargs)
            with answer:
                body = _body(answer, deadline)
            if not 200 <= answer.status_code < 300:
                raise _Answered(answer.status_code, body)
            answer._content = body  # what `content` and `json()` read, and nothing else can set
            return answer

    def authorised(request: PreparedRequest) -> PreparedRequest:
        # Said here, it comes before what a .netrc file might say; without a key nothing is sent.
        request.headers.pop("Authorization", None)
        if key:
            request.headers["Authorization"] = f"Bearer {key}"
        return request

    session = Bounded()
    session.auth = authorised
    return session


def _body(answer: Response, deadline: float) -> bytes:
    from urllib3.exceptions import HTTPError
    from urllib3.exceptions import TimeoutError as TooLate

    parts, size = [], 0
    try:
        # What there is, and not as much as was asked for: a byte now and then would take for ever.
        while part := answer.raw.read1(_PART, decode_content=True):
            parts.append(part)
            size += len(part)
            if size > _MOST_BYTES:
                raise OSError
            if time.monotonic() > deadline:  # each part came in time, all of them together do not
                raise TimeoutError
    except TooLate:
        raise TimeoutError from None
    except HTTPError:  # it broke off
        raise OSError from None
    return b"".join(parts)


def _error(body: bytes) -> Mapping[str, Any]:
    import json

    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return error if isinstance(error, dict) else {}


def _usable(address: str) -> str:
    """The address without what only the server is to know; empty if there is no asking it."""
    url = plain(address if "://" in address else f"http://{address}")
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return url if parts.scheme in ("http", "https") and parts.hostname else ""


def _agree(wanted: Any, found: Any) -> bool:
    """Whether settings are as they should be; those that we say nothing of may be anything."""
    if isinstance(wanted, dict) and wanted:
        return isinstance(found, dict) and all(
            _agree(value, found.get(key)) for key, value in wanted.items()
        )
    return bool(wanted == found)


def _slot(owner: str) -> int:
    return zlib.crc32(owner.encode()) % _SLOTS


def _among(field: str, values: Iterable[str]) -> str:
    """A filter for one of these values, which are UUIDs or words of our own spelling."""
    return f"{field} IN [{', '.join(values)}]"


def _moment(seconds: float) -> int:
    """A moment as a whole number, which both sides read alike: Meilisearch rounds others."""
    return round(seconds * 1e6)


def _elsewhere(places: frozenset[int]) -> str:
    """A filter for all places but these, which as a rule have no gaps."""
    first, last = min(places), max(places)
    gaps = [str(place) for place in range(first, last) if place not in places]
    return f"place < {first} OR place > {last}" + (f" OR {_among('place', gaps)}" if gaps else "")


def _condition(sieve: Sieve) -> str:
    parts = ["place >= 0"]
    for field, values in (("type", sieve.types), ("tags", sieve.tags), ("status", sieve.statuses)):
        if values:
            parts.append(_among(field, map(word, values)))
    if sieve.without_statuses:
        parts.append(f"NOT {_among('status', map(word, sieve.without_statuses))}")
    if sieve.since is not None or sieve.until is not None:
        parts.append("created != 0")
    if sieve.since is not None:
        parts.append(f"created >= {_moment(sieve.since)}")
    if sieve.until is not None:
        parts.append(f"created <= {_moment(sieve.until)}")
    return " AND ".join(parts)


def _queries(index: str, weights: Mapping[str, float], condition: str) -> Iterator[dict[str, Any]]:
    """A question for each term and those that are more common, so that one without it is found.

    A question is worth what all its terms are, so that the server's own merging comes near to
    how the pieces will be weighed.
    """
    words = list(weights)
    for at in range(min(len(words), _LEADERS)):
        some = words[at : at + _WORDS]
        yield {
            "indexUid": index,
            "q": _PARTING.join(some),
            "filter": condition,
            "matchingStrategy": "last",
            "locales": ["eng"],
            "attributesToRetrieve": ["memory", "place", "digest", "terms"],
            "federationOptions": {"weight": sum(weights[term] for term in some)},
        }


def _weighed(
    hits: Iterable[Mapping[str, Any]], weights: Mapping[str, float], limit: int
) -> list[Match]:
    """What was found by how far each has the terms: BM25, with the rarities of the whole bank."""
    from retain.index.text import shares_of

    found = {
        (meant(hit["memory"]), int(hit["place"]), str(hit["digest"])): str(hit["terms"]).replace(
            _PARTING, " "
        )
        for hit in hits
    }
    average = sum(bag.count(" ") + 1 for bag in found.values()) / (len(found) or 1)
    spaced = [f" {term} " for term in weights]
    matches = [
        Match(*piece, sum(map(float.__mul__, weights.values(), shares)))
        for piece, bag in found.items()
        if any(shares := shares_of(spaced, bag, _K1, average))
    ]
    return sorted(matches, key=lambda match: (-match.score, match.memory, match.place))[:limit]
