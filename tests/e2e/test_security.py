"""Bad input gets a clear error and nothing is lost (promises S1, S10, S15, S17, S19)."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import select
import subprocess
from pathlib import Path

import pytest

from retain.app import App
from retain.errors import NotFound, UsageError
from tests.cli.door import call, done
from tests.conftest import ROOT, command
from tests.guard_samples import CONTEXTUAL, TOKENS, private_key


def snapshot(directory: Path) -> dict[str, object]:
    """Every file, directory and link below a directory, as it is now."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(directory):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                found[path] = os.readlink(path)
            elif os.path.isdir(path):
                found[path] = "directory"
            else:
                found[path] = Path(path).read_bytes()
    return found


def without_state(found: dict[str, object]) -> dict[str, object]:
    """The same without the person's state, where every search brings the index up to date."""
    return {path: data for path, data in found.items() if "/.local/" not in f"{path}/"}


def git(*words: str) -> bytes:
    identity = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    return subprocess.run(["git", *identity, *words], capture_output=True, check=True).stdout


@pytest.fixture
def project(home: Path) -> Path:
    """A git project whose bank has a memory with a past and one in the trash."""
    git("init", "-q")
    done("init")
    for text in ("first", "second"):
        done("put", "-", "--id", "note", input=text)
        git("add", ".")
        git("commit", "-qm", text)
    done("put", "-", "--id", "gone", input="gone")
    done("delete", "gone")
    return home / "work"


# S1

TRAVERSALS = [
    "../x",
    "..\\x",
    "..",
    ".",
    "%2e%2e/x",
    "%2e%2e%2fx",
    "..%5cx",
    "/etc/passwd",
    "//etc/passwd",
    "C:\\x",
    "C:x",
    "~/x",
    "../.retain-sibling/x",
    "a/../../x",
    "memories/../../x",
    "x" * 5000,
    ".git/config",
    ".index/lock",
    ".trash/x",
    ".versions/x",
    "\N{FULLWIDTH FULL STOP}\N{FULLWIDTH FULL STOP}/x/y",
    "x\ny",
]
PLACES = [
    "get {}",
    "update {} --tags x",
    "append {} --content -",
    "edit {}",
    "delete {}",
    "versions {}",
    "diff {}",
    "move {} --id new",
    "move note --id {}",
    "move note --collection {}",
    "restore {} --version v1",
    "restore --trash {}",
    "restore --trash gone --collection {}",
    "restore --trash gone --id {}",
    "restore note --version {}",
    "get note --version {}",
    "get note --collection {}",
    "diff note --from {}",
    "diff note --to {}",
    "put - --id {}",
    "put - --collection {}",
    "list --collection {}",
]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_traversal_is_refused_and_nothing_is_touched(
    place: str, project: Path, tmp_path: Path
) -> None:
    (tmp_path / "home" / ".retain-sibling").mkdir()
    (tmp_path / "home" / ".retain-sibling" / "x.md").write_text("not yours", encoding="utf-8")
    (project / ".retain" / ".git").mkdir()
    before = snapshot(tmp_path)
    for bad in TRAVERSALS:
        words = [bad if word == "{}" else word for word in place.split()]
        ran = call(*words, input="text")
        assert (ran.code in (2, 3), ran.out) == (True, ""), (bad, ran)
        assert len(ran.err) < 1000, "the error repeats the whole input"
    assert snapshot(tmp_path) == before


@pytest.mark.slow
@pytest.mark.parametrize("bad", TRAVERSALS)
def test_traversal_in_frontmatter_and_config_is_refused(
    bad: str, project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(tmp_path)
    ran = call("put", "-", input=f"---\nid: {json.dumps(bad)}\n---\ntext\n")
    assert ran.code == 2
    monkeypatch.setenv("RETAIN_MEMORY_DEFAULT_COLLECTION", bad)
    assert call("put", "-", "--id", "new", input="text").code == 2
    assert snapshot(tmp_path) == before


def test_nul_is_refused_through_the_app(project: Path, tmp_path: Path) -> None:
    before = snapshot(tmp_path)
    app, text = App(), "text"
    for name in ("a\0b", "\0", "note\0"):
        for refused in (
            lambda name=name: app.get(name),
            lambda name=name: app.delete(name),
            lambda name=name: app.put(text, id=name),
            lambda name=name: app.put(text, id="x", collection=name),
            lambda name=name: app.move("note", to_collection=None, to_id=name),
            lambda name=name: app.untrash("gone", to_id=name),
            lambda name=name: app.untrash(name),
            lambda name=name: app.list(collection=name),
            lambda name=name: app.get("note", version=name),
        ):
            with pytest.raises((UsageError, NotFound)):
                refused()
    assert snapshot(tmp_path) == before


def test_links_in_the_bank_are_not_followed(project: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("# Secret\n", encoding="utf-8")
    bank = project / ".retain"
    (bank / "memories" / "link.md").symlink_to(secret)
    (bank / "linked").symlink_to(tmp_path)
    before = without_state(snapshot(tmp_path))
    for words in (("get", "link"), ("get", "linked/secret"), ("update", "link", "--tags", "x")):
        ran = call(*words)
        assert (ran.code in (1, 3), ran.out) == (True, ""), ran
    assert call("put", "-", "--id", "x", "--collection", "linked", input="x").code == 1
    assert "Secret" not in done("list")
    assert "not followed" in done("status")
    assert without_state(snapshot(tmp_path)) == before


# S10


@pytest.mark.parametrize("flag", ["--output=stolen", "-o", "--exec=x", "-", "--", "^HEAD", ":/x"])
def test_version_that_looks_like_an_option_is_only_an_unknown_version(
    flag: str, project: Path, tmp_path: Path
) -> None:
    before = snapshot(tmp_path)
    code = 2 if flag == "--" else 3
    for words in (
        ("get", "note", f"--version={flag}"),
        ("restore", "note", f"--version={flag}"),
        ("diff", "note", f"--from={flag}"),
        ("diff", "note", f"--to={flag}"),
    ):
        ran = call(*words)
        assert (ran.code, ran.out) == (code, ""), (words, ran)
    assert snapshot(tmp_path) == before


def test_names_that_start_with_a_dash_are_refused_or_only_text(project: Path) -> None:
    assert call("get", "-x").code == 2
    assert call("put", "-", "--id=-x", input="text").code == 2
    assert call("put", "-", "--collection=--output=x", input="text").code == 2
    os.environ["RETAIN_VERSIONING_AUTO_COMMIT"] = "true"
    try:
        words = ("--title=--output=x", "--tags=-a,--b", "--context=-m", "--created-by=--author=x")
        done("put", "-", "--id", "dash", *words, input="-text\n--output=y\n")
    finally:
        del os.environ["RETAIN_VERSIONING_AUTO_COMMIT"]
    assert done("get", "dash", "--format", "raw") == "-text\n--output=y\n"
    assert done("list", "--filter", "tags=--b", "--quiet") == "memories/dash\n"
    assert git("log", "-1", "--format=%s").decode() == "retain: put memories/dash\n"
    assert sorted(os.listdir(project)) == [".git", ".retain"]


# S15

KINDS = {kind for kind, _ in TOKENS}
SECRETS = [token for _, token in TOKENS] + [secret for _, secret, _ in CONTEXTUAL if secret]
TEXT = "\n\n".join(
    [f"Token: {token} is it." for _, token in TOKENS]
    + [text.replace("@@", secret) for _, secret, text in CONTEXTUAL]
    + [private_key(), private_key("EC ")]
)
# A line of the key itself: what must not be found anywhere.
PEM_LINE = private_key().splitlines()[2]


def everything_stored(project: Path) -> bytes:
    """Each byte below the project, and the content of each object git has."""
    files = [data for data in snapshot(project).values() if isinstance(data, bytes)]
    objects = git("cat-file", "--batch-all-objects", "--batch")
    return b"\n".join([*files, objects])


def leaks(stored: bytes, secrets: list[str]) -> list[str]:
    # A word such as "hunter2" may stand in a text for other reasons.
    return [one for one in (*secrets, PEM_LINE) if len(one) > 15 and one.encode() in stored]


@pytest.fixture
def committing(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RETAIN_VERSIONING_AUTO_COMMIT", "true")
    return project


def test_there_are_enough_kinds_of_secret() -> None:
    assert len(KINDS) >= 25


@pytest.mark.slow
def test_no_door_lets_a_secret_into_the_bank_or_git(
    committing: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = [token for _, token in TOKENS]
    assert "REDACTED" in done("put", "-", "--id", "text", input=TEXT) + done("get", "text")
    done("put", "-", "--id", "front", input=f"---\nkey: {tokens[0]}\nnote: 'x'\n---\n{TEXT}")
    done("put", "-", "--id", "title", "--title", " ".join(tokens), input="x")
    done("put", "-", "--title", tokens[4], "--created-by", tokens[5], input="x")
    done("put", "-", "--id", "tags", "--tags", ",".join(tokens), input="x")
    done("put", "-", "--id", "context", "--context", " ".join(tokens), input="x")
    for option in ("--category", "--project", "--priority", "--type", "--related-to"):
        done("put", "-", "--id", "options", option, tokens[7], input="x")
    nested = {f"key{n}": [token, {"deep": token}] for n, token in enumerate(tokens)}
    done("put", "-", "--id", "metadata", "--metadata", json.dumps(nested), input="x")
    done("put", "-", "--id", "labelled", "--metadata", '{"db_password": "hunt3r-zwei"}', input="x")
    done("update", "text", "--content", "-", input=TEXT + "\nmore")
    done("update", "text", "--title", tokens[3], "--metadata", json.dumps(nested))
    done("append", "text", "--content", "-", input=TEXT)
    draft = tmp_path / "draft"
    draft.write_text(TEXT, encoding="utf-8")
    monkeypatch.setenv("EDITOR", f"cp '{draft}'")
    done("edit", "text")
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.md").write_text(f"---\ntitle: {tokens[2]}\n---\n{TEXT}", encoding="utf-8")
    record = {"title": tokens[1], "content": {"rule": TEXT, "list": tokens}}
    (source / "b.json").write_text(json.dumps(record), encoding="utf-8")
    (source / "bad.md").write_bytes(b"\xff\xfe " + TEXT.encode())
    done("import", str(source))
    done("import", str(source), "--replace")
    done("delete", "text")
    stored = everything_stored(committing)
    assert leaks(stored, SECRETS) == []
    assert b"hunt3r-zwei" not in stored
    assert stored.count(b"[REDACTED:") > 100
    assert json.loads(done("get", "b", "--json"))["problem"] is None


def test_secret_as_a_name_is_refused(committing: Path, tmp_path: Path) -> None:
    token = TOKENS[6][1]
    before = snapshot(committing)
    for words in (("--id", token), ("--id", "x", "--collection", token)):
        ran = call("put", "-", *words, input="text")
        assert (ran.code, token in ran.err) == (2, False)
    assert call("move", "note", "--id", token).code == 2
    source = tmp_path / "source"
    source.mkdir()
    (source / f"{token}.md").write_text("text", encoding="utf-8")
    assert call("import", str(source)).code == 1
    assert snapshot(committing) == before


def test_a_secret_stays_when_that_is_said_and_it_is_said_again(committing: Path) -> None:
    kind, token = TOKENS[6]
    for words in (("put", "-", "--id", "kept"), ("append", "kept", "--content", "-")):
        ran = call(*words, "--allow-secret", input=f"use {token}")
        assert ran.code == 0
        assert f"stored as given, with what looks like 1 secret ({kind})" in ran.err
    assert done("get", "kept", "--format", "raw").count(token) == 2
    ran = call("update", "kept", "--content", "-", "--json", input=f"use {token}")
    assert json.loads(ran.out)["warnings"]
    assert token not in done("get", "kept")


# S17

MARK = "\x1b[7;5;31m"
HOSTILE = (
    f"evil{MARK}\x1b]8;;http://evil\x07x\x1b]8;;\x07\x1b]52;c;ZXZpbA==\x07\x9b2J\u202elive\u2066\r"
)
NAME = HOSTILE.replace("/", "")
RAW = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SHOWING = [
    "list",
    "list --sort title",
    "get note",
    "get note --show-versions",
    "versions note",
    "diff note",
    "status",
    "collections",
    "trash list",
    "config list",
    "config check",
    "get {hostile}",
    "get note --version {hostile}",
    "list --filter {hostile}",
    "list --collection {hostile}",
    "restore --trash {hostile}",
    "import {hostile}",
    "import hostile.zip",
    "config set memory.enabled {hostile}",
    "{hostile}",
    "list {hostile}",
]


@pytest.fixture
def hostile(project: Path) -> Path:
    """A project where every place that can hold text holds something that acts on a terminal."""
    options = ("--title", HOSTILE, "--tags", f"a{HOSTILE}", "--context", HOSTILE)
    done(
        "put", "-", "--id", "note", *options, "--category", HOSTILE, input=f"# {HOSTILE}\n{HOSTILE}"
    )
    git("add", ".")
    git("commit", "-qm", HOSTILE, "--author", f"{HOSTILE.strip()} <x@example.org>")
    done("append", "note", "--content", "-", input=HOSTILE)
    bank = project / ".retain"
    (bank / "memories" / f"{NAME}.md").write_text(HOSTILE, encoding="utf-8")
    (bank / f"{NAME}-collection").mkdir()
    (bank / f"{NAME}-collection" / "x.md").write_text(f"---\n{HOSTILE}\n", encoding="utf-8")
    (bank / ".trash" / f"{NAME}.md").write_text(HOSTILE, encoding="utf-8")
    (bank / "memories" / f"{NAME}-link.md").symlink_to(HOSTILE)
    (bank / "memories" / "bytes-\udcff.md").write_bytes(b"x")
    escaped = json.dumps(HOSTILE)
    config = (
        f"[memory]\n{escaped} = 1\nstorage_strategy = {escaped}\ndefault_collection = {escaped}\n"
    )
    (bank / "config.toml").write_text(config, encoding="utf-8")
    import zipfile

    with zipfile.ZipFile("hostile.zip", "w") as archive:
        archive.writestr(f"{HOSTILE}.md", "x")
    return project


@pytest.mark.slow
@pytest.mark.parametrize("words", SHOWING)
def test_nothing_acts_on_the_terminal(words: str, hostile: Path) -> None:
    asked = [HOSTILE if word == "{hostile}" else word for word in words.split()]
    for extra in ((), ("--json",), ("--quiet",)):
        ran = call(*asked, *extra)
        assert not RAW.search(ran.out), (extra, ran.out)
        assert not RAW.search(ran.err), (extra, ran.err)
        if extra == ("--json",):
            json.loads(ran.out or ran.err)


def test_json_keeps_the_value_itself(hostile: Path) -> None:
    by_hand = f"---\ntitle: {json.dumps(HOSTILE)}\n---\n"
    (hostile / ".retain" / "memories" / "by-hand.md").write_text(by_hand, encoding="utf-8")
    assert json.loads(done("get", "by-hand", "--json"))["title"] == HOSTILE.strip()


def on_terminal(*words: str) -> str:
    """What a command writes to a real terminal."""
    leader, follower = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    child = subprocess.Popen(
        [*command(), *words], stdin=follower, stdout=follower, stderr=follower, env=env
    )
    os.close(follower)
    seen = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            data = os.read(leader, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not data:
            break
        seen += data
    child.wait(60)
    os.close(leader)
    return seen.decode("utf-8")


@pytest.mark.parametrize(
    "words",
    ["list", "get note", "get note --format raw", "diff note", "versions note", "trash list"],
)
def test_a_real_terminal_gets_only_our_own_colours(words: str, hostile: Path) -> None:
    seen = on_terminal(*words.split())
    ours = re.sub(r"\x1b\[[0-9;]*m", "", seen.replace(MARK, "HOSTILE")).replace("\r\n", "\n")
    assert "HOSTILE" not in ours
    assert not RAW.search(ours), ours
    assert "evil" in ours


# S19

FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "commands"}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_ATTRIBUTES = {
    ("os", "system"),
    ("os", "popen"),
    ("yaml", "load"),
    ("yaml", "load_all"),
    ("yaml", "unsafe_load"),
    ("yaml", "full_load"),
    ("yaml", "UnsafeLoader"),
    ("yaml", "FullLoader"),
    ("yaml", "Loader"),
    ("yaml", "CLoader"),
}
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def faults(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names if name.name in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom) and node.module in FORBIDDEN_MODULES:
            found.append(str(node.module))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if (node.value.id, node.attr) in FORBIDDEN_ATTRIBUTES:
                found.append(f"{node.value.id}.{node.attr}")
        elif isinstance(node, ast.Call):
            found += _call_faults(node)
    return found


def _call_faults(node: ast.Call) -> list[str]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    found = [name] if name in FORBIDDEN_CALLS else []
    shell = given.get("shell")
    if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
        found.append("shell=")
    opens = name == "open" or method == "fdopen"
    mode = node.args[1] if len(node.args) > 1 else given.get("mode")
    binary = isinstance(mode, ast.Constant) and "b" in str(mode.value)
    if (opens and not binary) or method in ("read_text", "write_text"):
        found += [] if "encoding" in given else [f"{name or method} without encoding"]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_source_uses_nothing_that_runs_data_or_guesses_an_encoding(path: Path) -> None:
    assert faults(ast.parse(path.read_bytes())) == []


def test_forbidden_things_would_be_found() -> None:
    text = (
        "import pickle, os, yaml\nfrom marshal import loads\neval('1')\nyaml.load(x)\n"
        "os.system('x')\nrun(x, shell=True)\nopen('f')\nopen('f', 'w')\nopen('f', 'rb')\n"
        "os.fdopen(3, 'w')\nPath('f').read_text()\n"
    )
    assert len(faults(ast.parse(text))) == 10
