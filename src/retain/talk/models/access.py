"""Where a model is reached, and with which key.

Keys come from the environment or from `chat.env` in the person's own bank, never from a config.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from retain.config import Config
from retain.locate import from_home, global_root
from retain.talk.models.errors import ModelError

_FILE: Final = "chat.env"
_SETTINGS: Final = (
    "retain config set chat.model NAME --global",
    "retain config set chat.base_url http://127.0.0.1:11434/v1 --global",
)
# How to do without a key, in Markdown, and in the one line of an error.
LOCAL: Final = f"""\
**Without a key**, with Ollama on this machine: `{_SETTINGS[0]}` and
`{_SETTINGS[1]}`; for LM Studio the same with
`http://127.0.0.1:1234/v1`."""
_LOCAL_HINT: Final = f"For a model on this machine: `{_SETTINGS[0]}` and `{_SETTINGS[1]}`."
_MAX_BYTES: Final = 100_000
_VISIBLE: Final = re.compile(r"[!-~]+")
_NO_KEY: Final = "local"  # the packages insist on some key; this one opens nothing


class Vendor(NamedTuple):
    """Where a provider is, and the variables its own tools use."""

    address: str
    address_variable: str
    key_variable: str


_VENDORS: Final[Mapping[str, Vendor]] = {
    "anthropic": Vendor("https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
    "openai": Vendor("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
}


class Access(NamedTuple):
    """An address with its key; the key is in no `repr`."""

    base_url: str
    key: str
    variable: str  # the one that has the key, or would have

    def __repr__(self) -> str:
        return f"Access({self.base_url!r})"

    @property
    def host(self) -> str:
        return urlsplit(self.base_url).netloc

    @property
    def is_local(self) -> bool:
        return _is_loopback(urlsplit(self.base_url).hostname or "")

    @property
    def is_official(self) -> bool:
        """Whether this is the provider's own address, where its newest rules hold."""
        return any(self.base_url == vendor.address for vendor in _VENDORS.values())

    def without_key(self, text: str) -> str:
        """A server's words, which may repeat the key."""
        return text.replace(self.key, "[key]") if self.key != _NO_KEY else text


def access(provider: str, config: Config, env: Mapping[str, str]) -> Access:
    """The address and the key in force, or an error that says how to set a key."""
    vendor = _VENDORS[provider]
    known = environment(env)
    ours = config.text("chat.base_url").strip()
    if provider == "anthropic" and config.text("chat.provider") != "anthropic":
        ours = ""  # with `auto` it is the address of the other kind
    address = ours or known.get(vendor.address_variable, "").strip() or vendor.address
    parts = _checked(address)
    is_open = parts.scheme == "http" or _is_loopback(parts.hostname or "")
    named = config.text("chat.api_key_env").strip()
    variable = key_variable(provider, config)
    # Someone's own server needs no key, and the usual one was not given for it.
    key = "" if ours and is_open and not named else _key(variable, known)
    if not key and (named or not is_open):
        raise _no_key(variable, env)
    return Access(_whole(provider, address), key or _NO_KEY, variable)


def key_variable(provider: str, config: Config) -> str:
    """The variable that a provider's key is looked for in."""
    return config.text("chat.api_key_env").strip() or _VENDORS[provider].key_variable


def key_file(env: Mapping[str, str]) -> str:
    """Return the file that keys are read from, as a person would write its path."""
    return from_home(os.path.join(global_root(env), _FILE), env.get("HOME", ""))


def _whole(provider: str, address: str) -> str:
    """An address as the packages want it: OpenAI's with `/v1`, Anthropic's without."""
    address = address.rstrip("/").removesuffix("/chat/completions")
    if provider == "anthropic":
        return address.removesuffix("/v1")
    return address if urlsplit(address).path else f"{address}/v1"


def _key(variable: str, known: Mapping[str, str]) -> str:
    key = known.get(variable, "").strip()
    if key and not _VISIBLE.fullmatch(key):
        # Not repeated, and never sent: the packages would show it in an error of their own.
        raise ModelError(
            "bad_key",
            f"the key in {variable} has characters that no key has",
            hint=f"Set {variable} again, without spaces or line breaks.",
        )
    return key


def environment(env: Mapping[str, str]) -> Mapping[str, str]:
    """The variables in force: the process's own, then those in the person's `chat.env`."""
    path = os.path.join(global_root(env), _FILE)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return env
    except OSError as error:
        raise _unused(path, error.strerror or "it cannot be opened") from None
    with open(handle, "rb") as file:
        _refuse_open_to_others(path, os.fstat(handle))
        text = file.read(_MAX_BYTES).decode("utf-8-sig", "replace")
    return {**dict(_pairs(text)), **env}


def _refuse_open_to_others(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise _unused(path, "it is no plain file")
    if found.st_uid != os.geteuid():
        raise _unused(path, "it belongs to someone else")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise _unused(path, f"others can read it (its mode is {stat.S_IMODE(found.st_mode):o})")


def _unused(path: str, why: str) -> ModelError:
    return ModelError(
        "no_key", f"{path} is not used: {why}", hint=f"Make it yours alone: chmod 600 {path}"
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if equals and name and not name.startswith("#"):
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            yield name, value[1:-1] if quoted else value


def _no_key(variable: str, env: Mapping[str, str]) -> ModelError:
    return ModelError(
        "no_key",
        f"there is no key for the model: {variable} is not set",
        hint=f"Set {variable} in your environment, or write {variable}=... into {key_file(env)}, "
        f"readable by you alone (`chmod 600`). {_LOCAL_HINT}",
    )


def _checked(address: str) -> SplitResult:
    try:
        parts = urlsplit(address)
        has_host = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https") or not _VISIBLE.fullmatch(address):
        # The address is not repeated: it may hold a password.
        raise ModelError(
            "other",
            "the model's address cannot be used",
            hint="chat.base_url is like http://127.0.0.1:11434/v1, and a key is given on its own.",
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
