"""Words in Meilisearch: one index for a bank, terms matched as whole tokens.

Meilisearch is made for people who type: it forgives typos, completes words, joins and splits them.
All of that is switched off, and what cannot be is kept out by how terms are written: each is one
ASCII word, parted from the next by a full stop. Its ranking drops words from the end of a question
until enough is found, so every term leads a question of its own, the rarest first. What these bring
back is weighed here, by the terms that it has.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from meilisearch import Client
from meilisearch.errors import MeilisearchCommunicationError, MeilisearchTimeoutError
from requests import PreparedRequest, Response, Session
from requests.exceptions import ConnectionError as Broken
from requests.exceptions import SSLError
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as TooLate

from retain.index.engines.engine import Document, Filter, Match
from retain.index.engines.server import (
    MAX_BYTES,
    MAX_PAGES,
    UNREADABLE,
    Server,
)
from retain.index.fulltext import shares_of
from retain.text.sanitize import flat

_OLDEST: Final = (1, 14)  # that can be told which filters a field is for
_PAGE: Final = 5_000  # documents listed at once
_TASK_SECONDS: Final = 60.0  # that a change may wait for its turn
_FULL: Final = frozenset({"no_space_left_on_device", "database_size_limit_reached"})
_PARTING: Final = ". "  # Meilisearch never takes words on both sides of a full stop together
_WORDS: Final = 10  # of a question that Meilisearch reads
_LEADERS: Final = 24  # terms that lead a question of their own
_MIN_WEIGHED: Final = 300  # documents that are weighed here, if there are so many
_WEIGHED: Final = 3  # for each that is asked for; more find a little more
_K1: Final = 1.2
_WORD: Final = re.compile("[a-z0-9]{1,64}")
_MARK: Final = "zq"  # begins what stands for another text
_PART: Final = 1024 * 1024  # bytes read at once
_SETTINGS: Final[dict[str, Any]] = {
    "searchableAttributes": ["terms"],
    "filterableAttributes": [
        {
            "attributePatterns": ["collection", "type", "status", "tags"],
            "features": {"facetSearch": False, "filter": {"equality": True, "comparison": False}},
        },
        {
            "attributePatterns": ["created"],
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


class Meilisearch:
    """A bank's terms on a Meilisearch server."""

    def __init__(self, server: Server) -> None:
        self._server, self._path = server, f"indexes/{server.container}"
        self._session: Session | None = None

    def version(self) -> str:
        return flat(str(self._ask("get", "version")["pkgVersion"]), 40)

    def put(self, documents: Sequence[Document]) -> None:
        if not documents:
            return
        self._make()
        rows = [
            {
                "id": document.id,
                **document.fields(_word),
                "created": _moment(document.created),
                "terms": _PARTING.join(map(_word, document.terms.split())),
            }
            for document in documents
        ]
        self._change(("post", f"{self._path}/documents", rows))

    def delete(self, ids: Sequence[str]) -> None:
        if ids and self._settings_there():
            self._change(("post", f"{self._path}/documents/delete-batch", list(ids)))

    def ids(self) -> Iterator[str]:
        for page in range(MAX_PAGES):
            body = {"fields": ["id"], "limit": _PAGE, "offset": page * _PAGE}
            rows = self._ask("post", f"{self._path}/documents/fetch", body, {"results": []})
            yield from (str(row["id"]) for row in rows["results"])
            if len(rows["results"]) < _PAGE:
                return
        raise self._server.unreadable()

    def count(self) -> int:
        stats = self._ask("get", f"{self._path}/stats", None, {"numberOfDocuments": 0})
        return int(stats["numberOfDocuments"])

    def matching(self, terms: Mapping[str, float], where: Filter, limit: int) -> list[Match]:
        weights: dict[str, float] = {}
        for term, weight in sorted(terms.items(), key=lambda item: -item[1]):
            if weight > 0:
                weights.setdefault(_word(term), weight)
        if not weights or limit <= 0:
            return []
        body = {
            "federation": {"limit": max(_MIN_WEIGHED, limit * _WEIGHED)},
            "queries": list(self._queries(weights, _condition(where))),
        }
        found = self._ask("post", "multi-search", body, {"hits": []})
        return _weigh(found["hits"], weights, limit)

    def _queries(self, weights: Mapping[str, float], condition: str) -> Iterator[dict[str, Any]]:
        """A question for each term and those that are more common, so that one without it is found.

        A question is worth what all its terms are, so that the server's own merging comes near to
        how the documents will be weighed.
        """
        words = list(weights)
        for at in range(min(len(words), _LEADERS)):
            some = words[at : at + _WORDS]
            yield {
                "indexUid": self._server.container,
                "q": _PARTING.join(some),
                "matchingStrategy": "last",
                "locales": ["eng"],
                "attributesToRetrieve": ["id", "terms"],
                "federationOptions": {"weight": sum(weights[term] for term in some)},
                **({"filter": condition} if condition else {}),
            }

    def drop(self, *, others: bool = False) -> int:
        if others or not self._settings_there():  # words are no model's
            return 0
        dropped = self.count()
        self._change(("delete", self._path, None))
        return dropped

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # Making the index

    def _settings_there(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._ask("get", f"{self._path}/settings", None, {})
        return found

    def _make(self) -> None:
        found = self._settings_there()
        if found and _agree(_SETTINGS, found):
            return
        changes: list[tuple[str, str, Any]] = [("patch", f"{self._path}/settings", _SETTINGS)]
        if not found:
            self._server.check_version(self.version(), _OLDEST)
            body = {"uid": self._server.container, "primaryKey": "id"}
            changes.insert(0, ("post", "indexes", body))
        elif self.count():  # an empty one was made by another machine that was ended then
            raise self._server.refused(
                f"has other settings in the index {self._server.container}",
                "`retain engine drop --yes` removes it, and `retain engine push` fills it anew.",
            )
        self._change(*changes)

    def _change(self, *changes: tuple[str, str, Any]) -> None:
        """Ask for changes, which the server carries out in its own time, and wait for them."""
        tasks = [int(self._ask(*change)["taskUid"]) for change in changes]
        end, pause = time.monotonic() + _TASK_SECONDS, 0.005
        while tasks:
            listed = self._ask("get", f"tasks?limit=100&uids={','.join(map(str, tasks))}")
            for task in listed["results"]:
                if task["status"] in ("failed", "canceled"):
                    self._check_failed(task.get("error") or {})
                if task["status"] not in ("enqueued", "processing"):
                    tasks.remove(int(task["uid"]))
            if tasks and time.monotonic() > end:
                raise self._server.down("has not carried out a change in time")
            if tasks:
                time.sleep(pause)
                pause = min(0.25, pause * 1.5)

    def _check_failed(self, error: Mapping[str, Any]) -> None:
        """Raise what a task says that came to nothing; two machines may make one index at once."""
        if error.get("code") != "index_already_exists":
            status = 507 if error.get("code") in _FULL else 500
            status = 400 if error.get("type") == "invalid_request" else status
            raise self._server.answered(status, str(error.get("message", "")))

    # Asking the server

    def _ask(self, method: str, path: str, body: Any = None, *absent: Any) -> Any:
        """The answer to one request; `absent` where there is no such index."""
        if self._session is None:
            self._session = _session(self._server)
        # Its headers change with every request, so each has a client of its own; no key in them.
        client = Client(self._server.urls[0])
        # For None it would send `null`, which Meilisearch leaves unread when it deletes an index,
        # and takes for the beginning of the next request.
        sent = b"" if body is None else body
        kind = "application/json" if body is not None else None
        try:
            return client.http.send_request(getattr(self._session, method), path, sent, kind)
        except _Answered as answer:
            code = answer.error.get("code")
            if absent and code == "index_not_found":
                return absent[0]
            status = 507 if code in _FULL else answer.status
            raise self._server.answered(status, str(answer.error.get("message", ""))) from None
        except (MeilisearchTimeoutError, TimeoutError):
            raise self._server.down("did not answer in time") from None
        except MeilisearchCommunicationError as error:
            # Only what kind it is: the text of some of these holds the headers, and so the key.
            if isinstance(error.__cause__, SSLError):
                why = "has no certificate that is to be trusted, or none at all"
                raise self._server.refused(why) from None
            raise self._server.down("cannot be reached") from None
        except UNREADABLE:
            raise self._server.unreadable() from None


class _Answered(Exception):
    """The server answered with a status that says no."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        try:
            error = json.loads(body)
        except (ValueError, RecursionError):
            error = {}
        self.error: Mapping[str, Any] = error if isinstance(error, dict) else {}


def _session(server: Server) -> Session:
    """A session that ends in time whatever the server does, and sends the key nowhere else."""

    class Bounded(Session):
        def send(self, request: PreparedRequest, **kwargs: Any) -> Response:
            end = time.monotonic() + server.seconds
            kwargs |= {"timeout": server.seconds, "stream": True, "allow_redirects": False}
            answer = super().send(request, **kwargs)
            with answer:
                body = _read(answer, end)
            if not 200 <= answer.status_code < 300:
                raise _Answered(answer.status_code, body)
            answer._content = body  # what `content` and `json()` read, and nothing else can set
            return answer

    def authorise(request: PreparedRequest) -> PreparedRequest:
        # Said here, it comes before what a .netrc file might say; without a key nothing is sent.
        request.headers.pop("Authorization", None)
        request.headers["Accept-Encoding"] = "identity"
        if server.key:
            request.headers["Authorization"] = f"Bearer {server.key}"
        return request

    session = Bounded()
    session.auth = authorise
    return session


def _read(answer: Response, end: float) -> bytes:
    # It was not asked for: a small answer could unfold into all the memory there is.
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise ValueError
    body = bytearray()
    try:
        # What there is, and not as much as was asked for: a byte now and then takes for ever.
        while part := answer.raw.read1(_PART, decode_content=False):
            body += part
            if len(body) > MAX_BYTES:
                raise ValueError
            if time.monotonic() > end:
                raise TimeoutError
    except TooLate:
        raise TimeoutError from None
    except HTTPError:  # it broke off
        raise Broken from None
    return bytes(body)


def _word(text: str) -> str:
    """A word of ASCII letters and digits that stands for this text and for no other.

    No tokenizer parts it, no normaliser changes it, and no filter can be broken out of by it.
    """
    # What looks like one that stands for another gets a digest too, or it could be guessed.
    if _WORD.fullmatch(text) and not text.startswith(_MARK):
        return text
    return _MARK + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _moment(seconds: float) -> int:
    """A moment as a whole number, which both sides read alike: Meilisearch rounds others."""
    return round(seconds * 1e6)


def _condition(where: Filter) -> str:
    def one_of(field: str, values: Iterable[str]) -> str:
        return f"{field} IN [{', '.join(map(_word, values))}]"

    parts = [one_of(field, values) for field, values in where.wanted.items()]
    if where.without_statuses:
        parts.append(f"NOT {one_of('status', where.without_statuses)}")
    if where.since is not None or where.until is not None:
        parts.append("created != 0")
    if where.since is not None:
        parts.append(f"created >= {_moment(where.since)}")
    if where.until is not None:
        parts.append(f"created <= {_moment(where.until)}")
    return " AND ".join(parts)


def _weigh(
    hits: Iterable[Mapping[str, Any]], weights: Mapping[str, float], limit: int
) -> list[Match]:
    """What was found by how far each has the terms: BM25, with the rarities of the whole bank."""
    bags = {str(hit["id"]): str(hit["terms"]).replace(_PARTING, " ") for hit in hits}
    average = sum(bag.count(" ") + 1 for bag in bags.values()) / (len(bags) or 1)
    spaced = [f" {term} " for term in weights]
    matches = [
        Match(id_, sum(map(float.__mul__, weights.values(), shares)))
        for id_, bag in bags.items()
        if any(shares := shares_of(spaced, bag, _K1, average))
    ]
    return sorted(matches, key=lambda match: (-match.score, match.id))[:limit]


def _agree(wanted: Any, found: Any) -> bool:
    """Whether settings are as they should be; those that we say nothing of may be anything."""
    if isinstance(wanted, dict) and wanted:
        return isinstance(found, dict) and all(
            _agree(value, found.get(key)) for key, value in wanted.items()
        )
    return bool(wanted == found)
