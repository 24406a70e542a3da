"""Models behind an address that speaks OpenAI's `/v1/embeddings`: a provider, or a local server."""

from __future__ import annotations

import email.utils
import ipaddress
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException, HTTPMessage
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

from retain.embed import EmbedderError, FloatArray
from retain.guard.characters import visible

if TYPE_CHECKING:
    from http.client import HTTPResponse

__all__ = ["RemoteModel"]

_BATCH: Final = 64
_MAX_CHARS: Final = 8_000  # what a model of 8,192 tokens takes of any script
_MAX_ANSWER: Final = 50_000_000
_CHUNK: Final = 1 << 16
_PAUSES: Final = (0.5, 1.0)  # seconds before the second and the third attempt
_MAX_WAIT: Final = 5.0
_VISIBLE: Final = re.compile(r"[!-~]+")
_TRY_AGAIN: Final = (429, 500, 502, 503, 504)
_SAME_REQUEST: Final = (301, 302, 307, 308)


class _Refused(Exception):
    """An answer that says the same request may succeed a little later."""

    def __init__(self, error: EmbedderError, retry_after: str) -> None:
        super().__init__(error.message)
        self.error = error
        self.retry_after = retry_after


class RemoteModel:
    """A model behind an address; the texts leave this machine unless it is a local one."""

    def __init__(
        self, address: str, model: str, *, api_key: str = "", timeout: float = 10.0
    ) -> None:
        self._url = _endpoint(address)
        self._host = urlsplit(self._url).netloc
        self._model = model.strip()
        if not self._model:
            raise EmbedderError(
                f"no model is named for {self._host}",
                hint="Name one that it serves: retain config set recall.model NAME",
            )
        self._key = _checked_key(api_key)
        self._timeout = timeout
        self._opener = _opener(urlsplit(self._url))
        self._lock = threading.Lock()
        self._dimension = 0

    @property
    def name(self) -> str:
        """The host and the model's name there."""
        return f"openai:{self._host}/{self._model}"

    @property
    def dimension(self) -> int:
        """How many numbers a vector has; before the first vector, the address is asked."""
        if not self._dimension:
            self.embed(["dimension"])
        return self._dimension

    def embed(self, texts: Sequence[str]) -> FloatArray:
        """One unit vector a text, in order."""
        import numpy as np

        parts = [
            self._vectors(texts[start : start + _BATCH]) for start in range(0, len(texts), _BATCH)
        ]
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), np.float32)

    def query(self, text: str) -> FloatArray:
        """The unit vector of one text."""
        vector: FloatArray = self.embed([text])[0]
        return vector

    def _vectors(self, texts: Sequence[str]) -> FloatArray:
        sent = {"model": self._model, "input": [_sendable(text) for text in texts]}
        vectors = self._unit(self._listed(self._ask(json.dumps(sent).encode("ascii")), len(texts)))
        with self._lock:
            self._dimension = self._dimension or vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise self._error(
                f"gave vectors of {vectors.shape[1]} numbers after some of {self._dimension}"
            )
        return vectors

    def _ask(self, body: bytes) -> object:
        """Send one request, again a little later where the answer asks for that."""
        for pause in _PAUSES:
            try:
                return self._ask_once(body)
            except _Refused as refused:
                time.sleep(_wait(refused.retry_after, pause))
        try:
            return self._ask_once(body)
        except _Refused as refused:
            raise refused.error from None

    def _ask_once(self, body: bytes) -> object:
        request = urllib.request.Request(self._url, body, self._headers())  # noqa: S310 - http(s)
        deadline = time.monotonic() + self._timeout
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                answer: object = json.loads(self._body(response, deadline))
        except urllib.error.HTTPError as error:
            raise self._status_error(error) from None
        except TimeoutError:
            raise self._too_slow() from None
        except (OSError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise self._too_slow() from None
            raise self._error(f"cannot be reached: {reason}") from error
        except (ValueError, RecursionError):
            raise self._error("answered with something other than JSON") from None
        return answer

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "retain",
        }
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _body(self, response: HTTPResponse, deadline: float) -> bytes:
        """The whole answer; one that trickles or never ends is given up."""
        data = bytearray()
        while chunk := response.read1(_CHUNK):
            data += chunk
            if len(data) > _MAX_ANSWER:
                raise self._error("sent an answer without end")
            if time.monotonic() > deadline:
                raise self._too_slow()
        return bytes(data)

    def _status_error(self, error: urllib.error.HTTPError) -> Exception:
        with error:
            said = self._said(error)
            refused = self._error(f"answered {error.code}{said}", _hint(error.code))
            if error.code in _TRY_AGAIN:
                return _Refused(refused, error.headers.get("Retry-After", ""))
            return refused

    def _said(self, error: urllib.error.HTTPError) -> str:
        """The server's own words, without the key that some of them repeat."""
        try:
            words = error.read(2_000).decode("utf-8", "replace")
        except (OSError, HTTPException):
            return ""
        if self._key:
            words = words.replace(self._key, "[key]")
        words = visible(" ".join(words.split()))[:200]
        return f": {words}" if words else ""

    def _listed(self, answer: object, count: int) -> list[object]:
        """The vectors in the order of their texts, whatever order the answer has them in."""
        data = answer.get("data") if isinstance(answer, dict) else None
        if not isinstance(data, list) or not all(isinstance(one, dict) for one in data):
            raise self._error("answered without a list of vectors")
        if len(data) != count:
            raise self._error(f"gave {len(data)} vectors for {count} texts")
        found = {one.get("index"): one.get("embedding") for one in data if _is_index(one)}
        if found.keys() != set(range(count)):
            raise self._error("did not say which vector is whose")
        return [found[number] for number in range(count)]

    def _unit(self, listed: list[object]) -> FloatArray:
        import numpy as np

        try:
            vectors = np.array(listed)
        except ValueError:
            raise self._error("gave vectors of several lengths") from None
        if vectors.ndim != 2 or vectors.dtype.kind not in "fi":
            raise self._error("gave vectors that are not lists of numbers, all of one length")
        with np.errstate(all="ignore"):
            norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise self._error("gave a vector without a direction: not finite, or all zeros")
        unit: FloatArray = (vectors / norms).astype(np.float32)
        return unit

    def _too_slow(self) -> EmbedderError:
        return self._error(f"did not answer within {self._timeout:g} seconds")

    def _error(self, what: str, hint: str = "") -> EmbedderError:
        return EmbedderError(f"the embedding model at {self._host} {what}", hint=hint)


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows a redirect within one server: the key and the texts go nowhere else."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,  # noqa: ARG002 - as urllib calls it
        headers: HTTPMessage,  # noqa: ARG002
        newurl: str,
    ) -> urllib.request.Request:
        if _origin(newurl) != _origin(req.full_url) or code not in _SAME_REQUEST:
            fp.close()
            raise EmbedderError(
                f"the embedding model at {req.host} redirects to {visible(newurl[:200])}",
                unchanged="Nothing was sent there.",
                hint="If that is right, set it: retain config set recall.embedder ADDRESS",
            )
        return urllib.request.Request(newurl, req.data, req.headers)  # noqa: S310 - same origin


def _opener(url: SplitResult) -> urllib.request.OpenerDirector:
    # A proxy has no way to a server on this machine, and no business with it.
    proxies = urllib.request.ProxyHandler({} if _is_loopback(url.hostname or "") else None)
    return urllib.request.build_opener(proxies, _SameOrigin())


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()


def _endpoint(address: str) -> str:
    """The address of the embeddings themselves, from that of the API."""
    try:
        parts = urlsplit(address.strip())
        usable = parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable or not _VISIBLE.fullmatch(address.strip()):
        # The address is not repeated: it may hold a password.
        raise EmbedderError(
            "the embedder's address cannot be used",
            hint="It is like https://api.example.com/v1, and a key is given on its own.",
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/embeddings"):
        path = (path or "/v1") + "/embeddings"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _checked_key(key: str) -> str:
    key = key.strip()
    # http.client would repeat such a key in its own error.
    if key and not _VISIBLE.fullmatch(key):
        raise EmbedderError(
            "the embedder's API key has characters that no key has",
            hint="Check RETAIN_RECALL_API_KEY.",
        )
    return key


def _sendable(text: str) -> str:
    """A text as servers take it: whole characters, not too many, and never none at all."""
    return text[:_MAX_CHARS].encode("utf-8", "replace").decode("utf-8") or " "


def _is_index(one: dict[str, object]) -> bool:
    return type(one.get("index")) is int


def _wait(retry_after: str, usual: float) -> float:
    """How long the server asks to wait, within reason."""
    wanted = usual
    if retry_after.strip().isdecimal():
        wanted = float(retry_after)
    elif retry_after:
        try:
            at = email.utils.parsedate_to_datetime(retry_after)
            wanted = at.timestamp() - time.time()
        except ValueError:
            pass
    return min(max(wanted, 0.0), _MAX_WAIT)


def _hint(status: int) -> str:
    if status in (401, 403):
        return "Check the key in RETAIN_RECALL_API_KEY."
    if status in (400, 404, 422):
        return "Check recall.embedder and recall.model: `retain config list` shows them."
    return "Words are still found without it; try again later." if status in _TRY_AGAIN else ""
