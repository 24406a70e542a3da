"""Git: history beside the user's work, never in it, and nothing hostile ever runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from retain.bank import git
from retain.bank.git import Outcome, Repository
from retain.errors import HistoryError

pytestmark = pytest.mark.slow


def run_git(where: Path, *arguments: str, check: bool = True) -> str:
    """What a person's own git says, with hooks, filters and all."""
    done = subprocess.run(
        ["git", *arguments], cwd=where, capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    assert not check or done.returncode == 0, done.stderr
    return done.stdout.decode("utf-8", "replace").removesuffix("\n")


def save(path: Path, content: bytes) -> dict[str, bytes | None]:
    """Write a file as the bank does, and return it as a change to commit."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {str(path): content}


def opened(where: Path) -> Repository:
    repository = Repository.containing(str(where))
    assert repository is not None
    return repository


def committed(outcome: Outcome) -> str:
    assert outcome.warning == ""
    assert outcome.commit is not None
    return outcome.commit


def new_project(where: Path) -> Path:
    where.mkdir(parents=True)
    run_git(where, "init", "-q", "-b", "main")
    run_git(where, "config", "user.name", "Ada")
    run_git(where, "config", "user.email", "ada@example.org")
    return where


def first_commit(project: Path) -> None:
    (project / "code.py").write_text("print()\n", encoding="utf-8")
    (project / ".retain").mkdir()
    (project / ".retain" / "a.md").write_bytes(b"one\n")
    run_git(project, "add", ".")
    run_git(project, "commit", "-q", "-m", "first")


@pytest.fixture
def project(home: Path) -> Path:
    """A repository with one commit that holds code.py and .retain/a.md."""
    project = new_project(home / "work" / "project")
    first_commit(project)
    return project


@pytest.fixture
def memory(project: Path) -> Path:
    return project / ".retain" / "a.md"


@pytest.fixture
def canary(home: Path) -> Path:
    """A file that only a command started by hostile configuration makes."""
    return home / "canary"


@pytest.fixture
def trap(home: Path, canary: Path) -> str:
    """A script that leaves the canary, passes its input on and succeeds."""
    script = home / "trap.sh"
    script.write_text(f'#!/bin/sh\necho "$0 $@" >> {canary}\nexit 0\n', encoding="utf-8")
    script.chmod(0o755)
    return str(script)


def test_a_repository_that_is_not_around_the_bank_is_none(project: Path) -> None:
    run_git(project.parent, "init", "-q", "--bare", "bare.git")
    (project / "sub").mkdir()
    (project / "sub" / ".git").write_bytes(b"gitdir: /nowhere\n")
    for place in (
        project.parent / "bare.git",
        project / ".git",
        project / "sub",
        "/no/such",
        "a\0b",
    ):
        assert Repository.containing(str(place)) is None
    run_git(project, "config", "core.worktree", str(project.parent))
    run_git(project, "config", "core.worktree", str(project.parent / "bare.git"))
    assert Repository.containing(str(project)) is None


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 30", "kill -9 $$", ""])
def test_a_git_that_fails_hangs_or_is_missing_is_reported(
    project: Path, home: Path, memory: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    repository = opened(project)
    (home / "bin").mkdir()
    if script:
        (home / "bin" / "git").write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (home / "bin" / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}/bin" + (f":{os.environ['PATH']}" if script else ""))
    monkeypatch.setattr(git, "TIMEOUT_SECONDS", 0.2)
    assert Repository.containing(str(project)) is None
    outcome = repository.commit(save(memory, b"two"), "m")
    assert outcome.commit is None
    assert outcome.warning.startswith("not committed: ")


def test_a_relative_entry_of_path_never_runs_a_git_of_the_work_tree(
    project: Path, trap: str, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(trap, project / "git")
    monkeypatch.chdir(project)
    monkeypatch.setenv("PATH", f".::{os.environ['PATH']}")
    assert opened(project).resolve("HEAD")
    assert not canary.exists()


@pytest.mark.parametrize(
    "path", ["code.py", "/etc/passwd", "{root}/../x", "{root}-sibling/x", "{root}", "{root}/a\0b",
             "{root}/.git/config", "{root}/d/.GIT/hooks/x", "{root}/..", "{root}/\ud800"],
)  # fmt: skip
def test_a_path_outside_the_tree_or_inside_git_is_refused(project: Path, path: str) -> None:
    repository = opened(project)
    named = path.format(root=project)
    with pytest.raises(HistoryError):
        repository.relative(named)
    outcome = repository.commit({named: b"x"}, "m")
    assert outcome.commit is None
    assert outcome.warning.startswith("not committed: ")


def test_log_lists_newest_first_and_follows_renames(project: Path, memory: Path) -> None:
    repository = opened(project)
    run_git(project, "mv", ".retain/a.md", ".retain/b.md")
    run_git(project, "commit", "-q", "-m", "rename")
    new = committed(repository.commit(save(project / ".retain" / "b.md", b"one\ntwo\n"), "second"))
    log = repository.log(str(project / ".retain" / "b.md"))
    assert [(c.subject, c.path) for c in log] == [
        ("second", ".retain/b.md"),
        ("rename", ".retain/b.md"),
        ("first", ".retain/a.md"),
    ]
    assert log[0].hash == new
    assert log[0].author == "Ada"
    assert time.strptime(log[0].time, "%Y-%m-%dT%H:%M:%SZ")
    assert len(repository.log(str(project / ".retain" / "b.md"), limit=2)) == 2


def test_read_finds_the_name_that_a_file_had_at_a_commit(project: Path, memory: Path) -> None:
    repository = opened(project)
    run_git(project, "mv", ".retain/a.md", ".retain/c.md")
    run_git(project, "commit", "-q", "-m", "a to c")
    committed(repository.commit(save(memory, b"someone else\n"), "a new a"))
    moved = str(project / ".retain" / "c.md")
    for commit in repository.log(moved):
        assert repository.read(commit.hash, moved) == b"one\n"
    assert repository.read(repository.head(), str(memory)) == b"someone else\n"
    assert repository.read(repository.resolve("HEAD~1"), str(memory)) is None


@pytest.mark.parametrize(
    "name", ["", "-", "--all", "--output=x", "-h", "a\0b", "a\nb", "\x1b[31m", "\x9b", "x" * 251,
             "nope", "HEAD~99", "a..b", "^HEAD", "HEAD:code.py", "HEAD^{tree}", "\ud800", "f" * 40,
             "HEAD -- x", "@{upstream}", ":/", "--end-of-options"],
)  # fmt: skip
def test_a_revision_that_names_no_commit_is_refused_with_a_hint(project: Path, name: str) -> None:
    before = sorted(os.listdir(project))
    with pytest.raises(HistoryError, match="version") as caught:
        opened(project).resolve(name)
    assert "retain versions" in caught.value.hint
    assert sorted(os.listdir(project)) == before


def test_a_commit_holds_just_the_given_bytes_and_leaves_a_clean_status(
    project: Path, memory: Path
) -> None:
    repository = opened(project)
    content = b"\xef\xbb\xbfa\r\nb\x00\xff\n"
    before = run_git(project, "rev-parse", "HEAD")
    new = committed(repository.commit(save(memory, content), "Update a\n\nwhy"))
    assert repository.read("HEAD", str(memory)) == content
    assert run_git(project, "rev-parse", "HEAD", "HEAD^").split() == [new, before]
    assert run_git(project, "log", "-1", "--format=%an <%ae>|%cn|%B") == (
        "Ada <ada@example.org>|Ada|Update a\n\nwhy\n"
    )
    assert run_git(project, "status", "--porcelain") == ""
    assert run_git(project, "fsck", "--strict") == ""


def test_an_unchanged_tree_makes_no_commit(project: Path, memory: Path) -> None:
    repository = opened(project)
    head = run_git(project, "rev-parse", "HEAD")
    assert repository.commit({}, "nothing") == Outcome(None, "")
    assert repository.commit(save(memory, b"one\n"), "same") == Outcome(None, "")
    assert repository.commit({str(project / "no.md"): None}, "gone") == Outcome(None, "")
    assert run_git(project, "rev-parse", "HEAD") == head


def test_ignored_files_are_not_committed_unless_they_are_tracked(
    project: Path, memory: Path
) -> None:
    (project / ".gitignore").write_text("private/\n.retain/*.md\n", encoding="utf-8")
    repository = opened(project)
    hidden = save(project / "private" / "x.md", b"x")
    outcome = repository.commit(hidden, "m")
    assert outcome.commit is None
    assert ".gitignore excludes private/x.md" in outcome.warning
    mixed = repository.commit(hidden | save(memory, b"two"), "m")
    assert mixed.commit is not None
    assert "private/x.md" in mixed.warning
    assert run_git(project, "show", "--name-only", "--format=") == ".retain/a.md"


@pytest.mark.parametrize(
    "message, subject",
    [
        ("a\0b\x1b[31mc\x85", "ab[31mc"),
        ("\n\n \n", "Update memories"),
        ("\U0001f600 \ud800", "\U0001f600 ?"),
        ("--output=x\r\n\r\nbody", "--output=x"),
        ("x" * 100_000, "x" * 16_000),
    ],
)
def test_a_message_is_text_and_nothing_else(
    project: Path, memory: Path, message: str, subject: str
) -> None:
    repository = opened(project)
    committed(repository.commit(save(memory, b"two"), message))
    assert repository.log(str(memory))[0].subject == subject


@pytest.mark.parametrize(
    "name", ["-x.md", "--output=x", "a\nb.md", "\nlead.md", 'q"uo\'te.md', "t\tab.md",
             "\U0001f600.md", os.fsdecode(b"\xff\xfe.md"), ":(glob)*.md", "*.md", "a b.md", "!x",
             "\\x.md", "-/--/x.md", "#x"],
)  # fmt: skip
def test_strange_names_are_committed_read_logged_and_deleted(project: Path, name: str) -> None:
    repository = opened(project)
    path = project / name
    committed(repository.commit(save(path, b"strange"), "add"))
    assert repository.read("HEAD", str(path)) == b"strange"
    assert [c.path for c in repository.log(str(path))] == [name]
    assert run_git(project, "status", "--porcelain") == ""
    path.unlink()
    committed(repository.commit({str(path): None}, "delete"))
    assert repository.read("HEAD", str(path)) is None
    assert [c.subject for c in repository.log(str(path))] == ["add"]
    assert run_git(project, "ls-tree", "-r", "--name-only", "HEAD") == ".retain/a.md\ncode.py"


def test_staged_changes_are_neither_committed_nor_lost(project: Path, memory: Path) -> None:
    (project / "code.py").write_bytes(b"staged")
    (project / "new.py").write_bytes(b"new")
    run_git(project, "add", ".")
    committed(opened(project).commit(save(memory, b"two"), "m"))
    assert run_git(project, "show", "--name-only", "--format=") == ".retain/a.md"
    assert run_git(project, "status", "--porcelain") == "M  code.py\nA  new.py"
    run_git(project, "commit", "-qm", "mine")
    assert run_git(project, "show", "HEAD:.retain/a.md") == "two"


@pytest.mark.parametrize("staged", [b"staged by hand", b"two", None])
def test_what_is_staged_at_the_same_path_stays_staged(
    project: Path, memory: Path, staged: bytes | None
) -> None:
    memory.write_bytes(staged or b"")
    run_git(project, *(("add", ".") if staged else ("rm", "-q", "--cached", ".retain/a.md")))
    outcome = opened(project).commit(save(memory, b"two"), "m")
    assert outcome.commit is not None
    assert run_git(project, "show", "HEAD:.retain/a.md") == "two"
    if staged == b"two":
        assert outcome.warning == ""
    else:
        assert "`git reset -q -- .retain/a.md`" in outcome.warning
        run_git(project, "reset", "-q", "--", ".retain/a.md")
    assert run_git(project, "status", "--porcelain") == ""


def test_nothing_is_committed_while_the_index_is_locked(project: Path, memory: Path) -> None:
    head = run_git(project, "rev-parse", "HEAD")
    lock = project / ".git" / "index.lock"
    lock.write_bytes(b"")
    outcome = opened(project).commit(save(memory, b"two"), "m")
    assert (outcome.commit, run_git(project, "rev-parse", "HEAD")) == (None, head)
    assert "index is locked" in outcome.warning
    lock.unlink()
    assert opened(project).commit(save(memory, b"three"), "m").commit
    assert run_git(project, "status", "--porcelain") == ""


def conflict(project: Path, *command: str) -> None:
    memory = project / ".retain" / "a.md"
    run_git(project, "checkout", "-q", "-b", "side")
    memory.write_bytes(b"side\n")
    run_git(project, "commit", "-qam", "side")
    run_git(project, "checkout", "-q", "main")
    memory.write_bytes(b"main\n")
    run_git(project, "commit", "-qam", "main")
    run_git(project, *command, check=False)


@pytest.mark.parametrize(
    "command, reason",
    [
        (("rebase", "side"), "a rebase is under way"),
        (("rebase", "--apply", "side"), "a rebase or a patch series is under way"),
        (("merge", "side"), "a merge is under way"),
        (("cherry-pick", "side"), "a cherry-pick is under way"),
        (("revert", "--no-edit", "HEAD~1"), "a revert is under way"),
        (("bisect", "start"), "a bisect is under way"),
        (("checkout", "-q", "--detach"), "HEAD is detached"),
    ],
)
def test_nothing_is_committed_while_git_is_in_the_middle_of_something(
    project: Path, command: tuple[str, ...], reason: str
) -> None:
    conflict(project, *command)
    state = run_git(project, "status", "--porcelain"), run_git(project, "rev-parse", "HEAD")
    index = (project / ".git" / "index").read_bytes()
    outcome = opened(project).commit({str(project / "new.md"): b"x"}, "m")
    assert outcome == Outcome(None, f"not committed: {reason}; {git.SAVED}")
    assert state == (
        run_git(project, "status", "--porcelain"),
        run_git(project, "rev-parse", "HEAD"),
    )
    assert (project / ".git" / "index").read_bytes() == index


def test_a_linked_worktree_commits_to_its_own_branch(project: Path, home: Path) -> None:
    tree = home / "work" / "tree"
    run_git(project, "worktree", "add", "-q", "-b", "feature", str(tree))
    repository = opened(tree)
    assert repository.root == os.path.realpath(tree)
    head = run_git(project, "rev-parse", "main")
    new = committed(repository.commit(save(tree / ".retain" / "a.md", b"tree"), "m"))
    assert run_git(project, "rev-parse", "main", "feature").split() == [head, new]
    assert run_git(tree, "status", "--porcelain") == ""
    assert run_git(project, "status", "--porcelain") == ""


def test_a_sha256_repository_without_an_identity_works(home: Path) -> None:
    project = home / "work" / "p"
    run_git(home, "init", "-q", "--object-format=sha256", str(project))
    repository = opened(project)
    path = project / "a.md"
    assert repository.log(str(path)) == []  # the branch is unborn
    assert len(committed(repository.commit(save(path, b"a"), "add"))) == 64
    assert run_git(project, "log", "-1", "--format=%an <%ae>") == "Retain <retain@localhost>"
    path.unlink()
    committed(repository.commit({str(path): None}, "delete"))
    assert repository.read("HEAD~1", str(path)) == b"a"


def use_everything(project: Path) -> None:
    """Every operation there is, on files that hostile attributes cover too."""
    repository = opened(project)
    memory = project / ".retain" / "a.md"
    repository.commit(save(memory, b"two\n"), "m")
    repository.commit(save(project / "b.md", b"b\n"), "m")
    repository.log(str(memory))
    repository.read("HEAD~1", str(memory))
    repository.read("HEAD", str(memory))
    repository.resolve("HEAD")
    assert repository.commit({str(project / "b.md"): None}, "m").commit


SETTINGS = [
    "core.fsmonitor", "core.hooksPath", "filter.x.clean", "filter.x.smudge", "filter.x.process",
    "diff.external", "diff.x.textconv", "diff.x.command", "merge.x.driver", "gpg.program",
    "gpg.ssh.program", "core.sshCommand", "core.askPass", "core.editor", "core.pager",
    "core.alternateRefsCommand", "core.gitProxy", "credential.helper", "sequence.editor",
    "trailer.x.command", "pager.log", "pager.rev-parse", "alias.log", "alias.update-ref",
    "interactive.diffFilter", "uploadpack.packObjectsHook", "trace2.eventTarget",
    "trace2.normalTarget", "trace2.perfTarget", "gpg.ssh.defaultKeyCommand",
]  # fmt: skip


def make_hostile(project: Path, trap: str, home: Path) -> None:
    (project / ".git" / "info").mkdir(exist_ok=True)
    attributes = "* filter=x diff=x merge=x\n"
    (project / ".gitattributes").write_text(attributes, encoding="utf-8")
    (project / ".git" / "info" / "attributes").write_text(attributes, encoding="utf-8")
    included = home / "included"
    for name in SETTINGS:
        run_git(project, "config", "-f", str(included), name, trap)
    signing = ("commit.gpgSign", "log.showSignature", "tag.gpgSign", "user.signingKey")
    for name in ("filter.x.required", *signing):
        run_git(project, "config", "-f", str(included), name, "true")
    for name in ("pre-commit", "reference-transaction", "post-index-change"):
        shutil.copy(trap, home / name)
    run_git(project, "config", "core.attributesFile", str(project / ".gitattributes"))
    # Last of all: from here on the test's own git would spring the traps.
    run_git(project, "config", "include.path", str(included))


def test_hostile_repository_settings_start_nothing(
    project: Path, trap: str, canary: Path, home: Path
) -> None:
    signed = project / ".git" / "signed"
    raw = run_git(project, "cat-file", "commit", "HEAD").replace(
        "\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n", 1
    )
    signed.write_text(raw + "\n", encoding="utf-8")
    new = run_git(project, "hash-object", "-t", "commit", "-w", str(signed))
    run_git(project, "update-ref", "HEAD", new)
    make_hostile(project, trap, home)
    use_everything(project)
    assert not canary.exists(), canary.read_text(encoding="utf-8")
    run_git(project, "status", check=False)
    assert canary.exists(), "the traps of this test do not spring"


def test_a_change_in_the_same_instant_as_the_index_is_still_noticed(
    project: Path, memory: Path
) -> None:
    code, index = project / "code.py", project / ".git" / "index"
    code.write_bytes(b"aaaa")
    instant = time.time_ns() - 100 * 10**9
    os.utime(code, ns=(instant, instant))
    run_git(project, "add", "code.py")
    run_git(project, "commit", "-qm", "a")
    os.utime(index, ns=(instant, instant))
    # Same size, same date: only git's doubt about an entry as young as the index finds this out.
    with code.open("r+b") as file:
        file.write(b"bbbb")
    os.utime(code, ns=(instant, instant))
    run_git(project, "config", "core.trustctime", "false")
    committed(opened(project).commit(save(memory, b"two"), "m"))
    assert run_git(project, "status", "--porcelain") == " M code.py"


def test_inherited_git_variables_change_nothing(
    project: Path, home: Path, trap: str, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = new_project(home / "work" / "other")
    first_commit(other)
    before = run_git(other, "rev-parse", "HEAD"), (other / ".git" / "index").read_bytes()
    with monkeypatch.context() as patch:
        for name, value in {
            "GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other),
            "GIT_INDEX_FILE": str(other / ".git" / "index"), "GIT_COMMON_DIR": str(other / ".git"),
            "GIT_OBJECT_DIRECTORY": str(other / ".git" / "objects"), "GIT_EXTERNAL_DIFF": trap,
            "GIT_SSH_COMMAND": trap, "GIT_SSH": trap, "GIT_ASKPASS": trap, "SSH_ASKPASS": trap,
            "GIT_EDITOR": trap, "GIT_PAGER": trap, "PAGER": trap, "EDITOR": trap,
            "GIT_PROXY_COMMAND": trap, "GIT_TRACE": str(canary), "GIT_NAMESPACE": "x",
            "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor={trap}'", "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": trap,
            "GIT_EXEC_PATH": str(home), "GIT_TEMPLATE_DIR": str(home), "GIT_GLOB_PATHSPECS": "1",
            "GIT_CEILING_DIRECTORIES": str(project), "GIT_DEFAULT_HASH": "sha256",
        }.items():  # fmt: skip
            patch.setenv(name, value)
        use_everything(project)
        assert opened(project).root == os.path.realpath(project)
    assert not canary.exists()
    assert before == (run_git(other, "rev-parse", "HEAD"), (other / ".git" / "index").read_bytes())
    assert len(run_git(project, "log", "--format=%H").split()) == 4


def test_a_partial_clone_never_fetches(project: Path, home: Path, trap: str, canary: Path) -> None:
    clone = home / "work" / "clone"
    run_git(project, "config", "uploadpack.allowFilter", "true")
    run_git(home, "clone", "-qn", "--filter=blob:none", f"file://{project}", str(clone))
    for name in ("remote.origin.uploadpack", "core.sshCommand", "core.gitProxy"):
        run_git(clone, "config", name, trap)
    run_git(clone, "config", "remote.origin.url", f"ext::{trap} %S")
    run_git(clone, "config", "protocol.ext.allow", "always")
    run_git(clone, "read-tree", "HEAD")
    repository = opened(clone)
    committed(repository.commit(save(clone / ".retain" / "x.md", b"x"), "m"))
    assert repository.read(repository.head(), str(clone / ".retain" / "x.md")) == b"x"
    with pytest.raises(HistoryError):
        repository.read("HEAD", str(clone / ".retain" / "a.md"))
    assert not canary.exists(), canary.read_text(encoding="utf-8")


def test_a_branch_that_moves_meanwhile_is_reported_and_left_alone(
    project: Path, memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = git.run

    def meddle(arguments: tuple[str, ...], *rest: object) -> object:
        if arguments[0] == "fast-import":
            run_git(project, "commit", "-q", "--allow-empty", "-m", "meanwhile")
        return real(arguments, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(git, "run", meddle)
    outcome = opened(project).commit(save(memory, b"two"), "ours")
    assert outcome.commit is None
    assert "the branch has moved" in outcome.warning
    assert run_git(project, "log", "--format=%s").split("\n") == ["meanwhile", "first"]


WRITER = """
import sys
from retain.bank.git import Repository
root, who = sys.argv[1:]
repository = Repository.containing(root)
for turn in range(5):
    path = f"{root}/.retain/{who}.md"
    text = f"{who} {turn}".encode()
    open(path, "wb").write(text)
    outcome = repository.commit({path: text}, f"{who} {turn}")
    assert outcome.commit and not outcome.warning, outcome
"""


def test_six_processes_lose_no_commit(project: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(project), f"w{n}"], stderr=subprocess.PIPE
        )
        for n in range(6)
    ]
    for writer in writers:
        _, err = writer.communicate(timeout=60)
        assert writer.returncode == 0, err.decode()
    subjects = run_git(project, "log", "--format=%s").split("\n")
    assert sorted(subjects[:-1]) == [f"w{n} {turn}" for n in range(6) for turn in range(5)]
    assert run_git(project, "status", "--porcelain") == ""
    assert run_git(project, "fsck", "--strict") == ""
