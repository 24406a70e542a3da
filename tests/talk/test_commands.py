"""Slash commands: what they say, what they do, and that nothing they show acts on a terminal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from retain.app import App
from retain.sessions.store import Sessions
from retain.talk.approval import Answer, Question
from retain.talk.commands import COMMANDS, Shown, completions, is_command, named, parted
from retain.talk.models import ModelError
from tests.conftest import Run
from tests.talk.servers import claude, claude_error
from tests.talk.talking import chats_of, talking

ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
NASTY = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\u202ewalrus\u202c\x9b31m"


@pytest.fixture(autouse=True)
def _without_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETAIN_RECALL_EMBEDDER", "none")


# Names


@pytest.mark.parametrize(
    "line, start",
    [
        ("/help", "- `/search WORDS`: "),
        ("/", "- `/search WORDS`: "),
        ("/?", "- `/search WORDS`: "),
        ("/mem", "Nothing is remembered yet."),
        ("/MEMORIES", "Nothing is remembered yet."),
        ("  /memories  ", "Nothing is remembered yet."),
        ("/sess", "No conversations yet."),
        ("/too", "- **read_file**: "),
    ],
)
def test_a_command_is_known_by_its_beginning(work: Path, line: str, start: str) -> None:
    with talking(work) as talk:
        shown = talk.type(line)
        assert shown.text.startswith(start)
        assert not shown.is_error


@pytest.mark.parametrize(
    "line, text",
    [
        ("/x", "Unknown command: /x. `/help` lists them."),
        ("/s", "Unknown command: /s. It could be /search, /sessions, /skills."),
        ("/m", "Unknown command: /m. It could be /memories, /model."),
        ("/x\x1b[2J y", "Unknown command: /x\\x1b[2J. `/help` lists them."),
        ("/searchy", "Unknown command: /searchy. `/help` lists them."),
    ],
)
def test_an_unknown_command_says_so(work: Path, line: str, text: str) -> None:
    with talking(work) as talk:
        assert talk.type(line) == Shown(text, is_error=True)


def test_every_command_is_there_and_listed(work: Path) -> None:
    names = "search sessions resume title tag compact memories remember forget context model tools"
    assert [one.name for one in COMMANDS] == f"{names} skills export new help quit".split()
    assert completions("/") == list(COMMANDS)
    assert [one.name for one in completions("/re")] == ["resume", "remember"]
    assert completions("/nothing") == []
    with talking(work) as talk:
        lines = talk.type("/help").text.splitlines()
        assert [line.split("`")[1] for line in lines] == [one.usage for one in COMMANDS]


def test_a_command_has_the_same_other_names_everywhere(work: Path) -> None:
    for one in COMMANDS:
        assert {named(f"/{name} x") for name in (one.name, *one.also)} == {one.name}
    assert [named(text) for text in ("/EXIT", "/q", "/clear", "/?")] == [
        "quit",
        "quit",
        "new",
        "help",
    ]
    assert not any(map(named, ("/qu", "quit", "/", "", "/usr/bin", " /quit")))
    with talking(work) as talk:
        assert talk.type("/clear") == Shown("A new conversation.", "new")
        assert "Also `/exit`, `/q`." in talk.type("/help").text


@pytest.mark.parametrize(
    "line, text",
    [
        ("/search", "say what to look for. Usage: /search WORDS"),
        ("/remember", "say what to remember. Usage: /remember FACT"),
        ("/forget", "say what to forget. Usage: /forget WORDS or ID"),
        ("/resume", "say which. `/sessions` lists them."),
    ],
)
def test_a_command_without_its_words_says_how_it_goes(work: Path, line: str, text: str) -> None:
    with talking(work) as talk:
        assert talk.type(line) == Shown(text, is_error=True)


# What was said and is remembered


def test_search_finds_messages_and_memories(work: Path) -> None:
    App(cwd=str(work)).put("The walrus eats fish.", id="food", collection="notes")
    with talking(work) as talk:
        talk.say("is the walrus hungry?")
        text = talk.type("/search walrus").text
        assert text.startswith('Search results for "walrus":\n\n- **[memory]** ')
        assert "The walrus eats fish. (`notes/food`)" in text
        session = talk.session
        assert f"- **[session: is the walrus hungry?]** is the walrus hungry? (`{session}`)" in text
        assert talk.type("/search xylophone").text == 'No results found for "xylophone".'


def test_search_lists_a_common_word_and_says_what_is_superseded(work: Path) -> None:
    app = App(cwd=str(work))
    for number in range(12):
        app.put(f"Herd {number}: the stampede began at dawn.", id=f"herd-{number}")
    app.supersede("herd-1", "herd-2")
    app.put("Bread is baked on Fridays.", id="bread")
    with talking(work) as talk:
        text = talk.type("/search stampede").text
        assert text.count("[memory]") == 8
        assert "Bread" not in text
        assert "superseded by memories/herd-2" in talk.type("/search herd 1 stampede").text


@pytest.mark.parametrize("words", ['"', "foo-bar", "c++", "' OR 1=1", "a AND (", "*", "->", "-"])
def test_nothing_that_is_searched_for_is_syntax(work: Path, words: str) -> None:
    with talking(work) as talk:
        talk.say("hello")
        shown = talk.type(f"/search {words}")
        assert not shown.is_error
        assert shown.text.startswith(("No results", "Search results"))
        assert talk.type("/search " + "x" * 20_000).is_error


def test_search_without_an_index_still_finds_what_was_said(work: Path) -> None:
    (work / ".retain" / "config.toml").write_text("[memory]\nenabled = false\n", encoding="utf-8")
    with talking(work) as talk:
        talk.say("the walrus")
        text = talk.type("/search walrus").text
        assert "(memories cannot be searched: memory is switched off" in text
        assert "[session: the walrus]" in text


def test_facts_are_kept_shown_and_forgotten(work: Path, run: Run) -> None:
    with talking(work) as talk:
        saved = talk.type("/remember Jo drinks tea").text
        assert saved == ("✦ Memory saved: Jo drinks tea · in your own bank · /forget jo-drinks-tea")
        assert talk.type("/remember Jo drinks  tea.").text.startswith("✦ Known already: Jo drinks")
        talk.type("/remember Ann has a boat")
        assert talk.type("/memories").text.count("\n") == 1
        boat = talk.type("/memories BOAT").text
        found = re.fullmatch(r"- Ann has a boat \(`global:(facts/[^`]+)`\)", boat)
        assert found
        assert talk.type("/memories walrus").text == "No fact speaks of that."
        several = talk.type("/forget a")
        assert several.is_error
        assert several.text.startswith("that could be several: global:facts/")
        assert len(talk.chat.facts()) == 2
        text = talk.type("/forget boat").text
        back = f"retain restore --trash {found[1]} --global"
        assert text == f"Forgotten: Ann has a boat (`{back}` brings it back)"
        assert "boat" not in (work.parent / ".retain" / "MEMORY.md").read_text(encoding="utf-8")
        assert [one.fact for one in talk.chat.sessions.facts()] == ["Jo drinks tea"]
        missing = talk.type("/forget boat")
        assert missing == Shown("no fact speaks of 'boat'. `/memories` lists them.", is_error=True)
        assert run(*back.split()[1:]).code == 0
        assert len(talk.chat.facts()) == 2


def test_a_fact_that_is_refused_says_why(work: Path) -> None:
    with talking(work) as talk:
        shown = talk.type("/remember ---")
        assert shown.is_error
        assert shown.text.startswith("Not saved: --- (")


def test_a_secret_is_not_remembered(work: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    with talking(work) as talk:
        shown = talk.type(f"/remember The token of Jo is {secret}")
        assert secret not in shown.text
        assert "[REDACTED:" in shown.text


# The conversation


def test_sessions_are_listed_and_resumed(work: Path) -> None:
    with talking(work) as talk:
        talk.say("about the walrus")
        first = talk.session
        assert talk.type("/new") == Shown("A new conversation.", "new")
        assert talk.chat.session is None
        talk.say("about the boat")
        text = talk.type("/sessions").text
        head, _, newest, oldest, _, ending = text.split("\n")
        assert (head, ending[:12]) == ("Recent sessions:", "Use `/resume")
        assert newest.endswith("  about the boat  (2 messages)")
        assert oldest.startswith(f"- `{first}`  20")
        assert talk.session not in talk.type("/sessions walrus").text
        assert talk.type("/sessions xylophone").text == "No conversation speaks of that."
        shown = talk.type(f"/resume {first}")
        assert shown == Shown(f"Resumed: about the walrus (`{first}`)", "resumed")
        assert talk.session == first
        assert talk.type(f"/resume {first}").action == "resumed"
        missing = talk.type("/resume \x1b[2Jx")
        assert missing.is_error
        assert missing.text == 'Session "\\x1b[2Jx" not found. `/sessions` lists them.'
        assert talk.session == first
        assert talk.type("/resume session_20").is_error  # which of them?


def test_the_persons_own_conversations_are_found_in_a_project(work: Path) -> None:
    own = work.parent / ".retain"
    App(cwd=str(work)).own.init()
    sessions = Sessions(str(own))
    name = sessions.create().id
    sessions.add(name, "user", "is the walrus mine?")
    sessions.close()
    with talking(work) as talk:
        talk.say("is the boat mine?")
        assert f"- `global:{name}`  20" in talk.type("/sessions").text
        assert f"- `{talk.session}`  20" in talk.type("/sessions").text
        assert f"is the walrus mine? (`global:{name}`)" in talk.type("/search walrus").text
        shown = talk.type(f"/resume global:{name}")
        assert shown.is_error
        assert f"`retain chat --global --resume {name}`" in shown.text


def test_context_names_what_was_recalled(work: Path) -> None:
    App(cwd=str(work)).put("The walrus eats fish.", id="food", collection="notes")
    sessions = chats_of(work / ".retain")
    old = sessions.create()
    sessions.add(old.id, "user", "about the walrus")
    sessions.summarise(old.id, "It was about the walrus.")
    sessions.close()
    with talking(work) as talk:
        talk.say("what does the walrus eat?")
        text = talk.type("/context").text
        assert "\nRecalled:\n- notes/food: " in text
        assert f"({old.id}): It was about the walrus." in text


def test_at_most_fifteen_sessions_are_listed(work: Path) -> None:
    sessions = chats_of(work / ".retain")
    for number in range(20):
        sessions.add(sessions.create().id, "user", f"number {number}")
    sessions.close()
    with talking(work) as talk:
        assert talk.type("/sessions").text.count("- `session_") == 15


def test_compact_takes_a_wish_for_the_summary(work: Path) -> None:
    with talking(work) as talk:
        talk.say("hello")
        talk.server.says(claude("Only the walrus."))
        shown = talk.type("/compact keep all that was said of the walrus")
        assert "Only the walrus." in shown.text
        asked = talk.asked.last
        assert "keep all that was said of the walrus" in asked.partition("<conversation>")[0]
        assert "Be complete and brief" in asked


def test_a_conversation_gets_a_title_and_tags(work: Path) -> None:
    with talking(work) as talk:
        for line in ("/title Boats", "/tag a"):
            assert talk.type(line).is_error
        talk.say("about the walrus")
        assert talk.type("/title  Boats  and \x1b[2Jships") == Shown(
            "Title: Boats and \\x1b[2Jships", "titled"
        )
        assert talk.type("/title").text == "Title: about the walrus"
        assert talk.type("/tag").text == "No tags."
        assert talk.type("/tag sea, ice,sea").text.startswith("Tags: sea, ice (")
        assert talk.chat.sessions.get(talk.session).tags == ("sea", "ice")
        assert talk.type("/tag").text.startswith("Tags: sea, ice (")
        assert talk.type("/sessions ice").text.count("- `session_") == 1
        assert talk.type("/tag -").text == "No tags."
        assert talk.type("/tag " + "x" * 5000).is_error


def test_compact_says_what_the_model_goes_on_from(work: Path) -> None:
    with talking(work) as talk:
        assert talk.type("/compact").text == "There is nothing to compact yet."
        talk.say("hello")
        talk.server.says(claude(f"They said hello. {NASTY}"))
        shown = talk.type("/compact")
        assert shown.text.startswith("Compacted. The model goes on from this summary:\n\nThey said")
        assert not ACTING.search(shown.text)
        assert talk.type("/compact").text == "There is nothing new to compact."
        talk.say("more")
        talk.server.says(claude_error(401, "authentication_error", "no"))
        failed = talk.type("/compact")
        assert failed.is_error
        assert "does not accept the key" in failed.text


def test_export_names_the_file_it_made(work: Path) -> None:
    with talking(work) as talk:
        assert talk.type("/export").text.startswith("there is nothing to export yet.")
        talk.say("hello")
        path = work / f"{talk.session}.json"
        assert talk.type("/export") == Shown(f"Written: `{path}`")
        again = talk.type("/export")
        assert again.is_error
        assert "exists already" in again.text
        assert talk.type("/export notes.md").text == f"Written: `{work / 'notes.md'}`"
        assert talk.type("/export no/where.md").is_error


def test_quit_is_left_to_the_door(work: Path) -> None:
    with talking(work) as talk:
        for line in ("/quit", "/exit", "/q"):
            assert talk.type(line) == Shown("", "quit")


# How it is set up


def test_context_shows_every_part_and_what_was_left_out(work: Path) -> None:
    (work / ".retain" / "context").mkdir()
    file = work / ".retain" / "context" / "system_prompt.md"
    file.write_text("Be a project.", encoding="utf-8")
    with talking(work, RETAIN_CHAT_CONTEXT_TOKENS="4096") as talk:
        assert talk.type("/context").text == "Nothing was sent yet: say something first."
        for number in range(12):
            talk.say(f"question {number} " + "word " * 100)
        text = talk.type("/context").text
        prompt = talk.chat.prompt
        assert prompt
        first, _, head, *_ = text.split("\n")
        assert first == f"{prompt.tokens:,} of {prompt.budget:,} tokens, 0 memories recalled."
        assert head == "| part | tokens | |"
        for row in (
            "| context/system_prompt.md (built in) |",
            "| context/system_prompt.md (project) |",
            "| how memory works |",
            "| tools |",
            "| this conversation (",
        ):
            assert f"\n{row}" in text
        assert "Left out or cut:\n" in text
        assert "older messages: no room; /compact summarises them" in text
        rows = re.findall(r"^\| .* \| ([\d,]+) \|", text, re.MULTILINE)
        assert sum(int(one.replace(",", "")) for one in rows) == prompt.tokens <= prompt.budget


def test_the_model_is_shown_and_chosen(work: Path) -> None:
    with talking(work) as talk:
        text = talk.type("/model").text
        assert text.startswith(f"Model: **{talk.side.name}**\n\n")
        assert "- model-a\n- model-b" in text
        shown = talk.type("/model claude-opus-5-5")
        assert shown == Shown("Now talking to claude-opus-5-5.", "model")
        failed = talk.type("/model openai:gpt-5")
        assert failed.is_error
        assert "OPENAI_API_KEY" in failed.text
        assert talk.chat.model_name == "claude-opus-5-5"


def test_models_are_named_without_a_server(work: Path) -> None:
    with talking(work) as talk:
        talk.chat.env = {"HOME": str(work)}
        assert "- claude-sonnet-5-5" in talk.type("/model").text


def test_tools_and_skills_are_listed(work: Path) -> None:
    with talking(work) as talk:
        assert talk.type("/tools").text.count("- **") == 6
        assert talk.type("/skills").text.startswith("No skills yet")
        folder = work / ".retain" / "skills" / "feeding"
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text("---\ndescription: Feed it\n---\nFish.", encoding="utf-8")
        assert "- **feeding** (project): Feed it" in talk.type("/skills").text


def test_what_was_allowed_is_listed_and_taken_back(work: Path) -> None:
    with talking(work) as talk:
        approvals = talk.chat.toolbox.approvals
        for words in (("git", "status"), ("git", "log")):
            pattern = " ".join(words)
            asked = Question("1", "run_command", "Run?", pattern, "runs", (pattern,), words=words)
            approvals.remember(asked, Answer("always", pattern))
        text = talk.type("/tools").text
        assert text.endswith("\n1. `git status`\n2. `git log`")
        for line in ("/tools forget", "/tools forget x", "/tools forget 3", "/tools forget 0"):
            assert talk.type(line).is_error
        assert talk.type("/tools forget 1") == Shown("You will be asked again before: `git status`")
        assert [str(rule) for rule in approvals.rules()] == ["git log"]


# S17


def test_nothing_that_is_shown_acts_on_a_terminal(work: Path) -> None:
    bank = work / ".retain"
    App(cwd=str(work)).put(f"The walrus {NASTY} eats.", id="walrus", collection="notes")
    folder = bank / "skills" / "feeding"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(f'---\ndescription: "x"\n---\n{NASTY}', encoding="utf-8")
    sessions = chats_of(bank)
    one = sessions.create(f"model {NASTY}").id
    sessions.add(one, "user", f"the walrus {NASTY}")
    sessions.summarise(one, f"walrus {NASTY}")
    sessions.close()
    with talking(work) as talk:
        talk.server.says(claude(f"[MEMORY] The walrus {NASTY} sleeps\n\n{NASTY}"))
        talk.say(f"walrus {NASTY}")
        for line in (
            f"/{NASTY}", f"/search {NASTY}", "/search walrus", "/sessions", f"/sessions {NASTY}",
            f"/resume {NASTY}", f"/resume {one}", "/compact", "/memories", f"/memories {NASTY}",
            f"/remember Jo {NASTY}", f"/forget {NASTY}", "/context", f"/model {NASTY}", "/model",
            "/tools", f"/tools forget {NASTY}", f"/title {NASTY}", f"/tag {NASTY}", "/skills",
            f"/export {NASTY}.json", "/new", "/help", "/quit",
        ):  # fmt: skip
            assert not ACTING.search(talk.type(line).text), line
        assert talk.type("/search walrus").text.count("walrus") >= 2


def test_a_model_error_is_one_line(work: Path) -> None:
    with talking(work) as talk:
        talk.server.says(claude_error(400, "invalid_request_error", f"bad {NASTY}\nand more"))
        with pytest.raises(ModelError) as failed:
            talk.say("hello")
        assert "\n" not in failed.value.message
        assert not ACTING.search(failed.value.message)


@pytest.mark.parametrize("space", [" ", "\n", "\t", "  \n "])
def test_any_space_parts_a_command_from_the_rest(work: Path, space: str) -> None:
    line = f"/remember{space}Jo has a boat\n"
    assert parted(line) == ("/remember", "Jo has a boat")
    assert named(line) == "remember"
    with talking(work) as talk:
        assert talk.type(line).text.startswith("✦ Memory saved: Jo has a boat")


def test_what_has_no_slash_before_it_is_all_rest() -> None:
    assert parted("hi /search") == ("", "hi /search")
    assert parted("/") == ("/", "")


@pytest.mark.parametrize(
    "text, wanted",
    [
        ("/search x", True),
        ("/mem", True),
        ("/", True),
        ("/?", True),
        ("/usr/bin/env fails on my machine", False),
        ("// TODO: this", False),
        ("hi /search", False),
        ("/remember\nmany lines", True),
    ],
)
def test_a_path_or_a_comment_is_something_said(text: str, wanted: bool) -> None:
    assert is_command(text) is wanted
