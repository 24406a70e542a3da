"""Files that a model reads and writes: only where it may, and only what was shown."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from retain.app import App
from retain.errors import Unsafe
from retain.talk import files
from tests.talk.box import Box, snapshot

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def put(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


# Reading


def test_file_of_the_project_is_read_without_asking(box: Box) -> None:
    put(box.work / "src" / "app.py", "print('hi')\n")
    assert box.good("read_file", path="src/app.py") == "print('hi')\n"
    assert box.good("read_file", path="src/../src/app.py") == "print('hi')\n"
    assert box.good("read_file", path=str(box.work / "src" / "app.py")) == "print('hi')\n"
    assert not box.asked


def test_file_above_the_working_directory_is_the_projects_too(work: Path) -> None:
    put(work / "README.md", "read me\n")
    (work / "sub").mkdir()
    box = Box(work / "sub")
    assert box.good("read_file", path="../README.md") == "read me\n"
    assert not box.asked


def test_missing_file_is_said_to_be_missing(box: Box) -> None:
    assert box.bad("read_file", path="nowhere/a.txt") == "Error: File not found: nowhere/a.txt"


def test_long_file_comes_in_parts(box: Box) -> None:
    text = "".join(f"line {number}\n" for number in range(10_000))
    put(box.work / "long.txt", text)
    first = box.good("read_file", path="long.txt")
    assert first.startswith(text[:50_000])
    assert f"characters 0 to 50,000 of {len(text):,}; go on with offset=50000" in first
    assert text[50_000:60_000] in box.good("read_file", path="long.txt", offset=50_000)
    assert box.good("read_file", path="long.txt", offset=5, limit=10).startswith(text[5:15] + "\n[")
    assert "is beyond" in box.bad("read_file", path="long.txt", offset=10_000_000)


def test_secret_is_not_shown_even_where_a_part_begins_inside_it(box: Box) -> None:
    put(box.work / "notes.txt", f"token: {TOKEN}\nrest\n")
    text = box.good("read_file", path="notes.txt")
    assert TOKEN not in text
    assert "[REDACTED:" in text
    assert "1 secret is not shown" in text
    assert TOKEN[10:20] not in box.good("read_file", path="notes.txt", offset=12)


@pytest.mark.parametrize(
    "data, word",
    [(b"\x7fELF\0\1", "binary"), (b"x" * (files.MOST_BYTES + 1), "larger than")],
    ids=["binary", "large"],
)
def test_file_that_is_no_text_to_read_is_refused_with_a_word(
    box: Box, data: bytes, word: str
) -> None:
    put(box.work / "thing", data)
    assert word in box.bad("read_file", path="thing")


def test_directory_is_listed(box: Box) -> None:
    put(box.work / "src" / "b.py", "")
    (box.work / "src" / "a").mkdir()
    assert box.good("read_file", path="src") == "src is a directory:\na/\nb.py"


def test_what_would_act_on_a_screen_or_hide_is_inert(box: Box) -> None:
    hostile = "a\x1b[2Jb\x1b]52;c;aGk=\x07c\u202ed\u200be\U000e0041f\r\n"
    put(box.work / "evil.txt", hostile)
    text = box.good("read_file", path="evil.txt")
    assert all(char.isprintable() or char in "\n\t" for char in text)
    assert "\\x1b[2Jb" in text
    assert "CRLF" in text


def test_fifo_and_device_are_refused_without_waiting(box: Box) -> None:
    os.mkfifo(box.work / "pipe")
    assert "not a plain file" in box.bad("read_file", path="pipe")
    assert "belongs to the system" in box.bad("read_file", path="/dev/zero")
    assert "belongs to the system" in box.bad("read_file", path="/proc/self/environ")


@pytest.mark.parametrize("path", ["../outside.txt", "~/outside.txt", "//{home}/outside.txt"])
def test_file_outside_the_project_is_asked_about(box: Box, home: Path, path: str) -> None:
    put(home / "outside.txt", "hello\n")
    path = path.format(home=home)
    assert box.good("read_file", path=path) == "hello\n"
    (question,) = box.asked
    assert question.title == f"Read {home}/outside.txt?"
    assert question.reason == "is outside the project"
    box.answer = box.answer._replace(choice="no", note="Not that one.")
    assert box.bad("read_file", path=path) == "The person said no. Not that one."


@pytest.mark.parametrize(
    "name", [".env", ".env.local", "server.key", "deploy/id_rsa", ".aws/credentials", ".netrc"]
)
def test_file_that_may_hold_secrets_is_asked_about(box: Box, name: str) -> None:
    put(box.work / name, "plain\n")
    box.good("read_file", path=name)
    assert [question.reason for question in box.asked] == ["may hold secrets"]
    assert box.asked[0].choices == ("once",)


def test_file_that_may_hold_secrets_is_asked_about_each_time(box: Box) -> None:
    put(box.work / ".env", "plain\n")
    box.answer = box.answer._replace(choice="session")
    for _ in range(2):
        assert "allowed only this once" in box.good("read_file", path=".env")
        assert "allowed only this once" in box.good("write_file", path=".env", content="A=1\n")
        put(box.work / ".env", "plain\n")
    assert len(box.asked) == 4


def test_example_of_such_a_file_is_not(box: Box) -> None:
    put(box.work / ".env.example", "KEY=\n")
    box.good("read_file", path=".env.example")
    assert not box.asked


@pytest.mark.parametrize(
    "path, is_private",
    [
        ("prod.env", True),
        ("deploy/PROD.ENV", True),
        (".envrc", True),
        (".env-production", True),
        ("infra/terraform.tfstate", True),
        ("infra/terraform.tfstate.backup", True),
        ("infra/prod.tfvars", True),
        ("prod.auto.tfvars.json", True),
        ("credentials.yml", True),
        ("config/credentials.yml.enc", True),
        ("config/secrets.yaml", True),
        ("config/master.key", True),
        (".config/gh/hosts.yml", True),
        ("kubeconfig", True),
        ("kubeconfig.yaml", True),
        ("prod.kubeconfig", True),
        (".kube/config", True),
        (".bash_history", True),
        (".psql_history", True),
        (".zsh_history", True),
        (".netrc", True),
        (".pgpass", True),
        (".my.cnf", True),
        ("id_ed25519", True),
        ("id_ecdsa_sk", True),
        (".docker/config.json", True),
        (".m2/settings.xml", True),
        (".git/config", True),
        (".config/gcloud/credentials.db", True),
        ("id_ed25519.pub", False),
        ("prod.env.example", False),
        ("credentials.py", False),
        ("src/secrets.ts", False),
        ("docs/credentials.md", False),
        ("environment.py", False),
        ("ansible/hosts.yml", False),
        ("app/config", False),
        ("history.md", False),
        ("chat_history.py", False),
        ("main.tf", False),
        ("keys.json", False),
    ],
)
def test_file_is_private_by_its_name(box: Box, path: str, is_private: bool) -> None:
    assert files.target(box.tools.project, path).is_private == is_private


@pytest.mark.parametrize("between", ["\u200b", "\u2060", "\x01", "\u202e", "\u00ad"])
def test_secret_that_is_parted_by_what_cannot_be_seen_is_not_shown(box: Box, between: str) -> None:
    put(box.work / "notes.txt", f"token: {TOKEN[:20]}{between}{TOKEN[20:]}\nrest\n")
    text = box.good("read_file", path="notes.txt")
    assert text.startswith("token: [REDACTED:")
    assert TOKEN[20:] not in text


@pytest.mark.parametrize(
    "path", ["", "  ", "a\0b", "x" * 5_000, "\ud800", "../../../../../../etc/\0passwd"]
)
def test_what_is_no_path_is_refused(box: Box, path: str) -> None:
    for name, more in (("read_file", {}), ("write_file", {"content": "x"})):
        assert box.bad(name, path=path, **more).startswith("Error: ")
    assert not box.asked


def test_link_out_of_the_project_is_not_followed(box: Box, home: Path) -> None:
    put(home / "secret.txt", "mine\n")
    put(home / "dir" / "a.txt", "mine\n")
    (box.work / "notes.txt").symlink_to(home / "secret.txt")
    (box.work / "dir").symlink_to(home / "dir")
    before = snapshot(home)
    for path in ("notes.txt", "dir/a.txt", "dir"):
        assert "leads out of the project" in box.bad("read_file", path=path)
        assert "leads out of the project" in box.bad("write_file", path=path, content="x")
    assert "leads out" in box.bad("run_command", command="ls", cwd="dir")
    assert snapshot(home) == before
    assert not box.asked


def test_link_that_stays_inside_leads_to_its_file(box: Box) -> None:
    put(box.work / "AGENTS.md", "old\n")
    (box.work / "CLAUDE.md").symlink_to("AGENTS.md")
    assert box.good("read_file", path="CLAUDE.md") == "old\n"
    assert "AGENTS.md" in box.good("write_file", path="CLAUDE.md", content="new\n")
    assert (box.work / "CLAUDE.md").is_symlink()
    assert (box.work / "AGENTS.md").read_text(encoding="utf-8") == "new\n"


def test_loop_of_links_is_refused(box: Box) -> None:
    (box.work / "a").symlink_to("b")
    (box.work / "b").symlink_to("a")
    assert box.bad("read_file", path="a").startswith("Error: ")


def test_link_put_in_place_after_the_check_is_not_followed(box: Box, home: Path) -> None:
    put(home / "secret.txt", "mine\n")
    note = put(box.work / "sub" / "note.txt", "ours\n")
    found = files.target(box.tools.project, "sub/note.txt")
    note.unlink()
    note.symlink_to(home / "secret.txt")
    with pytest.raises(Unsafe):
        files.read(box.tools.project, found, 0, 100)
    note.unlink()
    (box.work / "sub").rmdir()
    put(home / "elsewhere" / "note.txt", "mine\n")
    (box.work / "sub").symlink_to(home / "elsewhere")
    with pytest.raises(Unsafe):
        files.read(box.tools.project, found, 0, 100)


def test_file_swapped_for_a_link_while_the_person_thinks_is_not_read(box: Box, home: Path) -> None:
    shown = put(home / "harmless.txt", "fine\n")
    put(home / "secret.txt", "mine\n")

    def swap() -> None:
        shown.unlink()
        shown.symlink_to(home / "secret.txt")

    box.before = swap
    assert "mine" not in box.bad("read_file", path="~/harmless.txt")


@pytest.mark.parametrize(
    "name",
    [".index/x", "sessions.db", "config.toml", ".trash/a.md", "approvals.json", ".versions/a.md"],
)
def test_what_a_bank_keeps_for_itself_is_refused(box: Box, home: Path, name: str) -> None:
    for bank in (box.work / ".retain", home / ".retain"):
        put(bank / name, "internal\n")
        assert "search_memory" in box.bad("read_file", path=str(bank / name))


def test_memory_is_a_file_that_may_be_read(box: Box) -> None:
    put(box.work / ".retain" / "knowledge" / "a.md", "# A\n")
    assert box.good("read_file", path=".retain/knowledge/a.md") == "# A\n"


def test_home_directory_is_no_project(home: Path) -> None:
    put(home / "diary.txt", "dear\n")
    box = Box(home)
    box.good("read_file", path="diary.txt")
    assert len(box.asked) == 1
    assert "hidden file" in box.bad("write_file", path=".bashrc", content="evil\n")
    box.good("write_file", path="todo.txt", content="buy milk\n")
    assert box.asked[-1].choices == ("once", "session")


def test_repository_around_the_working_directory_is_the_project(home: Path) -> None:
    put(home / "repo" / ".git" / "HEAD", "ref: refs/heads/main\n")
    put(home / "repo" / "README.md", "read me\n")
    (home / "repo" / "sub").mkdir()
    box = Box(home / "repo" / "sub")
    assert box.good("read_file", path="../README.md") == "read me\n"
    assert not box.asked


# Writing


def test_writing_asks_with_the_difference_and_says_what_was_done(box: Box) -> None:
    put(box.work / "a.txt", "one\ntwo\n")
    assert (
        box.good("write_file", path="a.txt", content="one\n2\n") == "File written: a.txt (6 chars)"
    )
    (question,) = box.asked
    assert question.title == "Write a.txt?"
    assert question.detail.splitlines() == [
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
    ]
    assert (box.work / "a.txt").read_text(encoding="utf-8") == "one\n2\n"


def test_no_means_that_nothing_is_written(box: Box) -> None:
    box.answer = box.answer._replace(choice="no")
    before = snapshot(box.work)
    assert box.bad("write_file", path="new/a.txt", content="x") == "The person said no."
    assert snapshot(box.work) == before
    assert not (box.work / "new").exists()


def test_new_file_gets_its_directories_and_is_as_open_as_they_are(box: Box) -> None:
    box.good("write_file", path=".github/workflows/ci.yml", content="on: push\n")
    path = box.work / ".github" / "workflows" / "ci.yml"
    assert path.read_text(encoding="utf-8") == "on: push\n"
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(path.parent.stat().st_mode) & 0o666
    assert sorted(os.listdir(path.parent)) == ["ci.yml"]
    assert os.listdir(box.work / ".github") == ["workflows"]


def test_mode_line_endings_and_byte_order_mark_stay(box: Box) -> None:
    path = put(box.work / "run.sh", "\ufeffone\r\ntwo\r\n")
    path.chmod(0o750)
    box.good("write_file", path="run.sh", content="one\n2\n")
    assert path.read_bytes() == "\ufeffone\r\n2\r\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_same_text_needs_no_asking(box: Box) -> None:
    put(box.work / "a.txt", "same\n")
    assert "Nothing to write" in box.good("write_file", path="a.txt", content="same\n")
    assert not box.asked


def test_change_made_while_the_person_thinks_is_kept(box: Box) -> None:
    path = put(box.work / "a.txt", "old\n")
    box.before = lambda: path.write_text("by hand\n", encoding="utf-8")
    assert "changed meanwhile" in box.bad("write_file", path="a.txt", content="new\n")
    assert path.read_text(encoding="utf-8") == "by hand\n"


def test_link_put_in_place_while_the_person_thinks_is_not_written_through(
    box: Box, home: Path
) -> None:
    secret = put(home / "secret.txt", "mine\n")
    path = box.work / "a.txt"
    box.before = lambda: path.symlink_to(secret)
    assert box.bad("write_file", path="a.txt", content="new\n").startswith("Error: ")
    assert secret.read_text(encoding="utf-8") == "mine\n"


def test_directory_swapped_while_the_person_thinks_is_not_entered(box: Box, home: Path) -> None:
    (box.work / "sub").mkdir()
    (home / "target").mkdir()

    def swap() -> None:
        (box.work / "sub").rmdir()
        (box.work / "sub").symlink_to(home / "target")

    box.before = swap
    box.bad("write_file", path="sub/a.txt", content="new\n")
    assert os.listdir(home / "target") == []


@pytest.mark.parametrize(
    "path",
    [
        "../x.txt",
        "~/x.txt",
        "/tmp/retain-must-not-write-this",
        "../work2/x.txt",
        ".git/hooks/pre-commit",
        ".GIT/config",
        "sub/.git/config",
        ".retain/knowledge/a.md",
        ".retain/config.toml",
        ".retain/.index/x",
        ".retain/../.retain/a.md",
        ".memories/a.md",
        ".claude/memory/a.json",
        ".",
    ],
)
def test_writing_where_no_tool_may_is_refused_unasked(box: Box, home: Path, path: str) -> None:
    before = snapshot(home)
    assert box.bad("write_file", path=path, content="x").startswith("Error: ")
    assert snapshot(home) == before
    assert not os.path.exists("/tmp/retain-must-not-write-this")
    assert not box.asked


def test_persons_own_files_of_a_bank_may_be_written(box: Box) -> None:
    box.good("write_file", path=".retain/skills/deploy/SKILL.md", content="# Deploy\n")
    assert len(box.asked) == 1


def test_mark_of_a_secret_never_replaces_the_secret(box: Box) -> None:
    path = put(box.work / "config.ini", f"token = {TOKEN}\nname = a\n")
    shown = box.good("read_file", path="config.ini").partition("\n[1 secret")[0]
    assert "destroy the secret" in box.bad(
        "write_file", path="config.ini", content=shown.replace("= a", "= b")
    )
    assert TOKEN in path.read_text(encoding="utf-8")


def test_difference_is_inert_and_whole(box: Box) -> None:
    many = "\n".join(f"\x1b[31m{number}\u202e" for number in range(4_000))
    put(box.work / "a.txt", many)
    box.good("write_file", path="a.txt", content=many.replace("\x1b[31m", "\x1b[32m"))
    detail = box.asked[0].detail
    assert all(char.isprintable() or char == "\n" for char in detail)
    assert len(detail.splitlines()) == 8_003


def test_what_cannot_be_shown_whole_is_not_written(box: Box) -> None:
    hidden = "# nothing\n" * 10_100 + "curl x | sh\n"
    assert "can be shown" in box.bad("write_file", path="big.sh", content=hidden)
    assert not box.asked
    assert not (box.work / "big.sh").exists()


@pytest.mark.parametrize("char", ["\x0b", "\x0c", "\x1c", "\x1e", "\x85", "\u2028", "\u2029", "\r"])
def test_difference_hides_nothing_behind_a_line_break_of_another_kind(box: Box, char: str) -> None:
    put(box.work / "a.sh", "echo hi\n")
    box.good("write_file", path="a.sh", content=f"echo hi{char}rm -rf x\n")
    shown = char.encode("unicode_escape").decode()
    assert box.asked[0].detail.splitlines()[3:] == ["-echo hi", f"+echo hi{shown}rm -rf x"]


def test_difference_shows_what_cannot_be_seen(box: Box) -> None:
    box.good("write_file", path="a.txt", content="a\u200bb\u00adc\ufeff 🏳️\u200d🌈\n")
    assert box.asked[0].detail.splitlines()[-1] == "+a\\u200bb\\xadc\\ufeff 🏳️\u200d🌈"


def test_line_breaks_of_windows_are_no_difference(box: Box) -> None:
    put(box.work / "a.txt", "one\r\ntwo\r\n")
    box.good("write_file", path="a.txt", content="one\nTWO\n")
    assert box.asked[0].detail.splitlines()[3:] == [" one", "-two", "+TWO"]


def test_long_texts_are_compared_between_the_first_and_last_change(box: Box) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    put(box.work / "a.txt", "\n".join(lines))
    lines[3] = "changed"
    box.good("write_file", path="a.txt", content="\n".join(lines))
    assert box.asked[0].detail.splitlines()[2:] == ["@@ -4,1 +4,1 @@", "-line 3", "+changed"]


def test_project_is_found_from_inside_its_bank(work: Path) -> None:
    inside = work / ".retain" / "knowledge"
    inside.mkdir()
    assert files.project(App(cwd=str(inside)).location, str(inside), os.environ).root == str(work)
