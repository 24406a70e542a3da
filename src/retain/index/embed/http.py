"""Models behind an address that speaks OpenAI's `/v1/embeddings`: a provider, or a local server."""

from __future__ import annotations

import contextlib
import json
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from retain.index.embed import Embedder, EmbedderError, FloatArray
from retain.text.sanitize import visible

_BATCH: Final = 64
_TIMEOUT: Final = 10.0  # seconds
_MAX_CHARS: Final = 8_000  # what a model of 8,192 tokens takes of any script
_MAX_ANSWER: Final = 50_000_000
_PAUSES: Final = (0.5, 1.0)  # seconds before the second and the third attempt
_MAX_WAIT: Final = 5.0
_TRY_AGAIN: Final = (429, 500, 502, 503, 504)


class RemoteModel(Embedder):
    """A model behind an address; the texts leave this machine unless it is a local one."""

    def __init__(self, address: str, model: str, *, api_key: str = "") -> None:
        self._url = _embeddings_url(address)
        self._host = urlsplit(self._url).netloc
        self._model, self._key = model.strip(), api_key.strip()
        if not self._model:
            raise EmbedderError(
                f"no model is named for {self._host}",
                hint="Name one that it serves: retain config set recall.model NAME",
            )
        # http.client would repeat such a key in its own error.
        if not _is_plain(self._key):
            raise EmbedderError(
                "the embedder's API key has characters that no key has",
                hint="Check RETAIN_RECALL_API_KEY.",
            )
        # A proxy has no way to a server on this machine, and no business with it.
        host = urlsplit(self._url).hostname or ""
        is_local = host in ("localhost", "::1") or host.startswith("127.")
        proxies = urllib.request.ProxyHandler({} if is_local else None)
        self._opener = urllib.request.build_opener(proxies, _NoRedirect())
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

        parts = []
        for start in range(0, len(texts), _BATCH):
            # Servers take whole characters, not too many, and never none at all.
            batch = [
                text[:_MAX_CHARS].encode("utf-8", "replace").decode() or " "
                for text in texts[start : start + _BATCH]
            ]
            vectors = self._read_vectors(self._ask(batch), len(batch))
            self._dimension = self._dimension or vectors.shape[1]
            if vectors.shape[1] != self._dimension:
                raise self._error(
                    f"gave vectors of {vectors.shape[1]} numbers after some of {self._dimension}"
                )
            parts.append(vectors)
        return np.concatenate(parts) if parts else np.empty((0, self.dimension), np.float32)

    def _ask(self, texts: Sequence[str]) -> Any:
        """Send one request, again a little later where the answer asks for that."""
        headers = {"Content-Type": "application/json", "User-Agent": "retain"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        body = json.dumps({"model": self._model, "input": texts}).encode()
        request = urllib.request.Request(self._url, body, headers)  # noqa: S310 - http(s)
        for pause in (*_PAUSES, None):
            try:
                with self._opener.open(request, timeout=_TIMEOUT) as response:
                    return json.loads(response.read(_MAX_ANSWER))
            except urllib.error.HTTPError as error:
                if pause is None or error.code not in _TRY_AGAIN:
                    raise self._error(_describe(error, self._key), error.code) from None
                wanted = error.headers.get("Retry-After", "")
                time.sleep(min(float(wanted) if wanted.isdecimal() else pause, _MAX_WAIT))
            except (OSError, HTTPException) as error:
                raise self._error(f"cannot be reached: {error}") from error
            except (ValueError, RecursionError):
                raise self._error("answered with something other than JSON") from None
        raise AssertionError  # the last attempt returns or raises

    def _read_vectors(self, answer: Any, count: int) -> FloatArray:
        """The unit vectors in the order of their texts, whatever order the answer has."""
        import numpy as np

        try:
            by_index = {item["index"]: item["embedding"] for item in answer["data"]}
            vectors = np.array([by_index[number] for number in range(count)], np.float64)
            with np.errstate(all="ignore"):
                norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise self._error(
                f"did not give {count} vectors for {count} texts, lists of numbers of one length"
            ) from None
        if not (np.isfinite(norms) & (norms > 0)).all():
            raise self._error("gave a vector without a direction: not finite, or all zeros")
        unit: FloatArray = (vectors / norms).astype(np.float32)
        return unit

    def _error(self, what: str, code: int = 0) -> EmbedderError:
        hint = ""
        if code in (401, 403):
            hint = "Check the key in RETAIN_RECALL_API_KEY."
        elif code and code not in _TRY_AGAIN:
            hint = "Check recall.embedder and recall.model: `retain config list` shows them."
        return EmbedderError(f"the embedding model at {self._host} {what}", hint=hint)


def _describe(error: urllib.error.HTTPError, key: str) -> str:
    """The server's own words, without the key that some of them repeat."""
    words = f"go to {error.headers['Location']}" if 300 <= error.code < 400 else ""
    with error, contextlib.suppress(OSError, HTTPException):
        words = words or error.read(2_000).decode("utf-8", "replace")
    words = words.replace(key, "[key]") if key else words
    return f"answered {error.code}: {visible(' '.join(words.split()))[:200]}"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the key and the texts go nowhere but to the address that was set."""

    def redirect_request(self, *_args: Any, **_kwargs: Any) -> None:
        return None


def _is_plain(text: str) -> bool:
    """Whether a text has only visible ASCII characters."""
    return text.isascii() and text.isprintable() and " " not in text


def _embeddings_url(address: str) -> str:
    """The address of the embeddings themselves, from that of the API."""
    try:
        parts = urlsplit(address.strip())
        is_usable = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        is_usable = False
    if not is_usable or not _is_plain(address.strip()):
        # The address is not repeated: it may hold a password.
        raise EmbedderError(
            "the embedder's address cannot be used",
            hint="It is like https://api.example.com/v1, and a key is given on its own.",
        )
    path = parts.path.rstrip("/")
    if not path.endswith("/embeddings"):
        path = (path or "/v1") + "/embeddings"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
