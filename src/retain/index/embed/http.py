"""Models behind an address that speaks OpenAI's `/v1/embeddings`: a provider, or a local server."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit, urlunsplit

from retain.index.embed import Embedder, EmbedderError, FloatArray
from retain.text.sanitize import visible

if TYPE_CHECKING:
    import httpx2

_BATCH: Final = 64
_TIMEOUT: Final = 10.0  # seconds
_MAX_CHARS: Final = 8_000  # what a model of 8,192 tokens takes of any script
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
        if not _is_plain(self._key):
            raise EmbedderError(
                "the embedder's API key has characters that no key has",
                hint="Check RETAIN_RECALL_API_KEY.",
            )
        self._dimension = 0

    @property
    def name(self) -> str:
        """The host and the model's name there."""
        return f"openai:{self._host}/{self._model}"

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
            parts.append(self._read_vectors(self._ask(batch), len(batch)))
        return np.concatenate(parts) if parts else np.empty((0, self._dimension), np.float32)

    @cached_property
    def _client(self) -> httpx2.Client:
        import httpx2  # 100 ms

        # A proxy has no way to a server on this machine, and no business with it.
        host = urlsplit(self._url).hostname or ""
        is_local = host in ("localhost", "::1") or host.startswith("127.")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        return httpx2.Client(headers=headers, timeout=_TIMEOUT, trust_env=not is_local)

    def _ask(self, texts: Sequence[str]) -> Any:
        """Send one request, again a little later where the answer asks for that."""
        import httpx2

        for pause in (*_PAUSES, None):
            try:
                body = {"model": self._model, "input": texts}
                response = self._client.post(self._url, json=body)
                if response.is_success:
                    return response.json()
            except httpx2.HTTPError as error:
                why = str(error) or type(error).__name__
                raise self._error(f"cannot be reached: {why}") from error
            except (ValueError, RecursionError):
                raise self._error("answered with something other than JSON") from None
            if pause is None or response.status_code not in _TRY_AGAIN:
                break
            wanted = response.headers.get("Retry-After", "")
            time.sleep(min(float(wanted) if wanted.isdecimal() else pause, _MAX_WAIT))
        # The server's own words, without the key that some of them repeat. A redirect is not
        # followed: the key and the texts go nowhere but to the address that was set.
        code = response.status_code
        words = f"go to {response.headers.get('Location')}" if code < 400 else response.text[:2_000]
        words = words.replace(self._key, "[key]") if self._key else words
        hint = "Check the key in RETAIN_RECALL_API_KEY." if code in (401, 403) else ""
        raise self._error(f"answered {code}: {visible(' '.join(words.split()))[:200]}", hint)

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
        size, before = vectors.shape[1], self._dimension
        if before not in (0, size):
            raise self._error(f"gave vectors of {size} numbers after some of {before}")
        self._dimension = size
        unit: FloatArray = (vectors / norms).astype(np.float32)
        return unit

    def _error(self, what: str, hint: str = "") -> EmbedderError:
        return EmbedderError(f"the embedding model at {self._host} {what}", hint=hint)


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
