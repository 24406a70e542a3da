"""Which bank is in force, which settings it has, where its state lies and on what disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final, NamedTuple

from retain.config import Config, config_file, load
from retain.errors import ConfigError, NotFound, RetainError, UsageError

# What other programs keep their settings in: a memory there would be an order to them.
_OTHERS: Final = (".claude", ".codex", ".cursor", ".gemini", ".config")
_MOUNTS: Final = "/proc/self/mountinfo"
# Another machine may write here, or the host of a virtual one: this kernel would not know, nor
# would it share the memory that SQLite's write-ahead log needs.
_NETWORKS: Final = frozenset(
    "9p afs beegfs ceph cifs coda fakeowner gfs2 gpfs grpcfuse lustre ncpfs nfs nfs4 ocfs2 "
    "orangefs osxfs prl_fs pvfs2 smb2 smb3 smbfs vboxsf virtiofs vmhgfs".split()
)
_MARKS: Final[Mapping[str, str]] = {
    ".retain": "retain",
    ".arcaneum": "arcaneum",
    ".memories": "memories",
    ".claude/memory": "claude",
}


class BankLocation(NamedTuple):
    """A bank's location, and why it is the one in force."""

    root: str
    kind: str
    scope: str
    reason: str
    exists: bool
    foreign_config: str = ""  # another tool's own config file for it


def global_root(env: Mapping[str, str]) -> str:
    """The person's own bank: RETAIN_HOME, else ~/.retain."""
    return os.path.realpath(os.path.expanduser(env.get("RETAIN_HOME") or "~/.retain"))


def from_home(path: str, home: str) -> str:
    """A path as a person would write it: `~` for their home directory."""
    home = home.rstrip("/")
    return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path


def is_inside(path: str, root: str) -> bool:
    """Whether a path is below a directory, links resolved."""
    return os.path.realpath(path).startswith(os.path.join(os.path.realpath(root), ""))


def project_of(root: str) -> str:
    """The project that a bank is about: the directory the bank stands in."""
    for ending in ("/.retain", "/.memories", "/.claude/memory"):
        if root.endswith(ending):
            return root.removesuffix(ending)
    return os.path.dirname(root)


def find_bank(
    cwd: str,
    env: Mapping[str, str],
    *,
    bank: str = "",
    local: bool = False,
    everywhere: bool = False,
) -> BankLocation:
    """The bank in force: the one named, else the nearest above `cwd`, else the global one."""
    if bool(bank) + local + everywhere > 1:
        raise UsageError("--bank, --local and --global exclude each other")
    if everywhere:
        return _global(env, "--global")
    named, by = (bank, "--bank") if bank else (env.get("RETAIN_BANK", ""), "RETAIN_BANK")
    if named and not local:
        return _named(os.path.join(cwd, os.path.expanduser(named)), by)
    home, own = os.path.realpath(os.path.expanduser("~")), global_root(env)
    passed_over = []
    project, parent = "", os.path.realpath(cwd)
    while parent not in (project, home):
        project, parent = parent, os.path.dirname(parent)
        for mark, kind in _marks(project):
            if _is_foreign(mark, project):
                passed_over.append(mark)
                continue
            location = _locate(project, mark, kind)
            if location and location.root != own and not _is_foreign(location.root, project):
                return location
    if local:
        raise NotFound(
            f"no project bank in {cwd} or above it",
            hint="Run `retain init` in the project's root to make one.",
        )
    reason = f"no project bank in {cwd} or above it, so the global one"
    for mark in passed_over:
        reason += f"; {mark} belongs to another user (--bank uses it all the same)"
    return _global(env, reason)


def _global(env: Mapping[str, str], reason: str) -> BankLocation:
    root = global_root(env)
    return BankLocation(root, "retain", "global", reason, os.path.isdir(root))


def _named(path: str, by: str) -> BankLocation:
    root = os.path.realpath(path)
    if os.path.basename(root) in _OTHERS or {".git", ".ssh"} & set(root.split(os.sep)):
        raise UsageError(
            f"{root} is another program's own, and no bank ({by})",
            unchanged="Nothing was read or changed.",
            hint="Name a directory of memories.",
        )
    reason = f"named by {by}"
    for mark, kind in _marks(root):
        if inside := _locate(root, mark, kind):
            return inside._replace(scope="bank", reason=reason)
    parent = os.path.dirname(root)
    for project in (parent, os.path.dirname(parent)):
        for mark, kind in _marks(project):
            # What else lies there was not named, and is nobody's concern if it is broken.
            with contextlib.suppress(RetainError):
                beside = _locate(project, mark, kind)
                if beside and beside.root == root:
                    return beside._replace(scope="bank", reason=reason)
    return BankLocation(root, "retain", "bank", reason, os.path.isdir(root))


def _marks(project: str) -> Iterator[tuple[str, str]]:
    """What shows that a directory has a bank, the first in force: a path and a kind of store."""
    for name, kind in _MARKS.items():
        path = os.path.join(project, name)
        if os.path.isfile(path) if kind == "arcaneum" else os.path.isdir(path):
            yield path, kind


def _is_foreign(path: str, project: str) -> bool:
    """Whether another user put this here: /tmp/.retain must not reach into anyone's session.

    Root may work in anybody's project, and in it uses the bank of the one whose project it is.
    """
    user = os.geteuid()
    try:
        ours = (user, 0) if user else (0, os.stat(project).st_uid)
        return os.lstat(path).st_uid not in ours
    except FileNotFoundError:
        return False


def _locate(project: str, mark: str, kind: str) -> BankLocation | None:
    """The bank that a mark in a project stands for; None if it is switched off there."""
    if kind == "arcaneum":
        from retain.foreign import arcaneum_root  # few projects have such a file

        root = arcaneum_root(project, mark)
        exists = os.path.isdir(root)
        reason = f"named by {mark}"
        return BankLocation(root, kind, "project", reason, exists, mark) if root else None
    reason = f"found {os.path.relpath(mark, project)} in {project}"
    theirs = os.path.join(mark, "memory-config.json") if kind == "claude" else ""
    return BankLocation(refuse_link(mark), kind, "project", reason, True, theirs)


def refuse_link(root: str) -> str:
    """The root itself, refused when a cloned project points it somewhere else."""
    parent = os.path.dirname(root)
    if os.path.islink(root) or (os.path.basename(parent) == ".claude" and os.path.islink(parent)):
        raise RetainError(
            f"{root} is a symbolic link; Retain does not follow links into other places",
            unchanged="Nothing was read or changed.",
            hint=f"If you trust it, name its target: --bank {os.path.realpath(root)}",
        )
    return root


class Locator:
    """The banks around one working directory, by its environment and a call's flags.

    None of them is opened; the settings in force for each are read once.
    """

    def __init__(
        self,
        cwd: str,
        env: Mapping[str, str],
        *,
        bank: str = "",
        local: bool = False,
        everywhere: bool = False,
    ) -> None:
        self.cwd, self.env = cwd, env
        self.named, self.local, self.everywhere = bank, local, everywhere
        self.user_file = config_file(global_root(env))
        self.forget()

    def forget(self) -> None:
        """Look again next time: a bank was made, or a setting was changed."""
        for name in ("location", "config"):
            self.__dict__.pop(name, None)
        self._stamp = _stamp(self.user_file)  # before it is read: a later write is seen
        self._configs: dict[str, Config] = {}

    @cached_property
    def location(self) -> BankLocation:
        """The bank in force."""
        location = self.find_location()
        if location.scope != "project" or self.local:
            return location
        strategy = self.load_config(location).values["memory.storage_strategy"]
        if strategy.value != "user":
            return location
        return self.global_location._replace(
            reason=f"memory.storage_strategy is user ({strategy.origin})"
        )

    def find_location(self) -> BankLocation:
        """The bank that flags and directories lead to, whatever its settings say."""
        return find_bank(
            self.cwd, self.env, bank=self.named, local=self.local, everywhere=self.everywhere
        )

    @property
    def global_location(self) -> BankLocation:
        """The person's own bank, which anyone may make meanwhile."""
        return _global(self.env, "--global")

    @cached_property
    def config(self) -> Config:
        """The settings in force for the bank in force."""
        return self.load_config(self.location)

    @property
    def is_alone(self) -> bool:
        """Whether reads look in no other bank, whichever there are."""
        return self.location.scope != "project" or self.local

    def latest_config(self) -> Config:
        """The same, read again when the person has changed their own config."""
        if _stamp(self.user_file) != self._stamp:
            self.forget()
        return self.config

    def load_config(self, location: BankLocation) -> Config:
        """The settings in force for a bank, read once."""
        if location.root not in self._configs:
            theirs = None
            if location.foreign_config:
                from retain.foreign import arcaneum_layer, claude_layer  # few are another tool's

                read = claude_layer if location.kind == "claude" else arcaneum_layer
                theirs = read(location.foreign_config)
            config = load(self.user_file, config_file(location.root), self.env, theirs)
            self._configs[location.root] = config
        return self._configs[location.root]

    def locations(self) -> list[tuple[BankLocation, Config]]:
        """The banks a read looks in, each with its settings: the project's, then the person's."""
        self.refuse_switched_off()
        banks = [(self.location, self.config)]
        if not self.is_alone and self.global_location.exists:
            config = self.load_config(self.global_location)
            if config.flag("memory.enabled"):
                banks.append((self.global_location, config))
        return banks

    def refuse_switched_off(self) -> None:
        """Raise where memory is switched off for the bank in force."""
        is_on, origin = self.config.values["memory.enabled"]
        if not is_on:
            raise ConfigError(
                f"memory is switched off for {self.location.root} "
                f"(memory.enabled = false: {origin})",
                unchanged="Nothing was read or changed.",
                hint=f"Switch it on where it is switched off: {origin}.",
            )


def _stamp(path: str) -> tuple[int, int, int] | None:
    """What changes when a file is written; None where there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def other_stores(env: Mapping[str, str]) -> list[str]:
    """Directories where other tools keep a person's own memories, which could be imported."""
    home = _home(env)
    data = env.get("XDG_DATA_HOME") or os.path.join(home, ".local", "share")
    ragdocs = os.path.join(data, "mcp-markdown-ragdocs")
    candidates = [os.path.join(home, ".arcaneum", "retain"), os.path.join(ragdocs, "memories")]
    with contextlib.suppress(OSError):
        candidates += [os.path.join(ragdocs, name, "memories") for name in os.listdir(ragdocs)]
    return [path for path in candidates if os.path.isdir(path)]


# State


def state_home(env: Mapping[str, str]) -> str:
    """The person's directory for derived and private state."""
    base = env.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(_home(env), ".local", "state")
    return os.path.join(base, "retain")


def state_directory(root: str, env: Mapping[str, str]) -> str:
    """Where the state of one bank lies: its index, its inbox, what hooks have shown.

    The name comes from the bank's real path, never from anything in the bank: a clone cannot claim
    the state of another project.
    """
    import hashlib  # 3 ms, which a command that needs no index can do without

    real = os.path.realpath(root)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:12]
    name = os.path.basename(real)
    if name in (".retain", ".memories", "memory"):  # the project's name tells a person more
        name = os.path.basename(project_of(real)) or name
    safe = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in name)
    return os.path.join(state_home(env), "banks", f"{safe[:40].lstrip('.') or 'bank'}-{digest}")


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME", "") or os.path.expanduser("~")


def make_private_directory(path: str) -> None:
    """Make a directory that only its owner can read, and those missing above it; all synced."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        make_private_directory(above)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)  # a umask may have taken bits away
        with open_directory(above) as fd:
            os.fsync(fd)


@contextlib.contextmanager
def open_directory(path: str) -> Iterator[int]:
    """A handle of a directory, for syncing and locking it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def is_network(path: str) -> bool:
    """Whether a path is on a disk that other machines may write to; False where nobody can tell.

    The nearest folder that exists decides. Mounts are found by device number, which names them
    also behind binds and links; a device without a mount is a subvolume, and those are local.
    """
    path = os.path.abspath(path)
    while not os.path.exists(path) and path != "/":
        path = os.path.dirname(path)
    try:
        device = os.stat(path).st_dev
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError:
        return False
    for line in lines:
        facts, _, source = line.partition(" - ")
        major, _, minor = facts.split(" ", 3)[2].partition(":")
        kind = source.partition(" ")[0]
        # "fuseblk" is a local disk with a driver outside the kernel; of the others one cannot know.
        is_remote = kind in _NETWORKS or kind == "fuse" or kind.startswith("fuse.")
        if is_remote and os.makedev(int(major), int(minor)) == device:
            return True
    return False
