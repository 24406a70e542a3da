"""Every setting there is: its key, what it is when nobody sets it, and who may.

What a project may set is marked `project`; the rest is the person's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final, NamedTuple
else:
    from retain.tuples import NamedTuple

__all__ = ["MOST", "SETTINGS", "Scalar", "Setting"]

MOST: Final = 10**12  # no number in a config is larger

Scalar = bool | int | float | str


class Setting(NamedTuple):
    """One key a person may set."""

    key: str
    default: Scalar
    about: str
    project: bool = False
    choices: tuple[str, ...] = ()
    least: float = 0
    most: float = 0  # 0 means no end; what lies beyond it in a file counts as this

    @property
    def highest(self) -> float:
        return self.most or MOST

    @property
    def variable(self) -> str:
        """The environment variable that sets this key."""
        return "RETAIN_" + self.key.upper().replace(".", "_")


_MODELS: Final = ("haiku", "sonnet", "opus")


def _captured() -> Iterator[Setting]:
    """The settings of single categories that a session's end looks for."""
    for name, threshold, model in (
        ("decision", 0.4, "sonnet"),
        ("runbook", 0.4, "haiku"),
        ("constraint", 0.5, "sonnet"),
        ("tech_debt", 0.4, "haiku"),
        ("preference", 0.4, "haiku"),
        ("session_summary", 0.6, "haiku"),
    ):
        about = f"From which score on a session has a {name} to save."
        yield Setting(f"triage.thresholds.{name}", threshold, about, True, (), 0, 1)
        about = f"Which model the skill asks to draft a {name}."
        yield Setting(f"triage.parallel.category_models.{name}", model, about, True, _MODELS)


def _engines() -> Iterator[Setting]:
    """Where the arms of an index live: a person's to say, never a project's."""
    yield Setting(
        "engine.text",
        "sqlite",
        "Where words are looked up; `sqlite`: in the bank's own index.",
        False,
        ("sqlite", "meilisearch", "postgres"),
    )
    yield Setting(
        "engine.vector",
        "sqlite",
        "Where vectors are compared; `sqlite`: in the bank's own index.",
        False,
        ("sqlite", "qdrant", "postgres", "upstash"),
    )
    yield Setting(
        "engine.patience_ms",
        1000,
        "How many milliseconds an engine may take; after that the bank's own index answers.",
        False,
        (),
        50,
        10_000,
    )
    yield Setting(
        "engine.banks",
        "",
        "What banks are called on a server that several machines share: "
        "`team-notes=~/work/app/.retain, anna=~/.retain`.",
    )
    for kind, url, variable in (
        ("meilisearch", "http://127.0.0.1:7700", "MEILISEARCH_API_KEY"),
        ("qdrant", "http://127.0.0.1:6333", "QDRANT_API_KEY"),
        ("postgres", "postgresql://127.0.0.1/retain", "PGPASSWORD"),
        ("upstash", "", "UPSTASH_VECTOR_REST_TOKEN"),
    ):
        about = f"Where {kind.capitalize()} is."
        if kind == "qdrant":
            about += (
                " Of a cluster several, parted by commas: where one is away, the next is asked."
            )
        yield Setting(f"engine.{kind}.url", url, about)
        about = f"Which variable has the key to {kind.capitalize()}."
        yield Setting(f"engine.{kind}.key_env", variable, about)
    yield from _qdrant()
    yield from _postgres()


def _qdrant() -> Iterator[Setting]:
    """What Qdrant's collections are made with, and how they are asked."""
    for key, default, least, about in (
        ("shards", 1, 1, "Into how many parts Qdrant splits a collection."),
        ("replicas", 1, 1, "How many copies of each part it keeps, on as many nodes."),
        ("write_consistency", 1, 1, "How many copies must have a write before it counts."),
        ("m", 16, 4, "How many edges a point has in Qdrant's graph."),
        ("ef_construct", 128, 4, "How many neighbours are looked at when a point is added."),
        ("ef", 128, 4, "How many are looked at when one is looked for."),
    ):
        yield Setting(f"engine.qdrant.{key}", default, about, False, (), least)
    about = "Whether writes of one part go through one of its copies: then all have the same order."
    ways: tuple[str, ...] = ("weak", "medium", "strong")
    yield Setting("engine.qdrant.write_ordering", "medium", about, False, ways)
    ways = ("one", "majority", "quorum", "all")
    about = "How many copies are asked, and must agree, when Qdrant is read."
    yield Setting("engine.qdrant.read_consistency", "one", about, False, ways)
    about = "Whether Qdrant compares small copies of vectors first."
    yield Setting("engine.qdrant.quantization", "none", about, False, ("none", "int8"))
    about = "With small copies: how many times more than asked for are compared again exactly."
    yield Setting("engine.qdrant.oversampling", 2.0, about, False, (), 1, 20)
    yield Setting("engine.qdrant.on_disk", False, "Whether it reads vectors from disk.")
    about = "Whether it reads from disk what searches are narrowed by."
    yield Setting("engine.qdrant.payload_on_disk", True, about)


def _postgres() -> Iterator[Setting]:
    """What Postgres' tables and graphs are made with, and how they are asked."""
    for key, default, least, about in (
        ("m", 16, 2, "How many neighbours a point has in Postgres' graph of vectors."),
        ("ef_construction", 64, 4, "How many candidates are looked at while it is built."),
        ("ef", 200, 1, "How many are looked at while it is searched."),
        ("exact", 5000, 0, "Up to how many pieces a collection has no graph: all are compared."),
    ):
        yield Setting(f"engine.postgres.{key}", default, about, False, (), least)
    yield Setting(
        "engine.postgres.schema", "retain", "What the names of its two schemas begin with."
    )
    yield Setting("engine.postgres.half", False, "Whether vectors take 16 bits a number.")
    about = "How much memory the building of a graph may take, as Postgres writes it."
    yield Setting("engine.postgres.memory", "256MB", about)
    about = "How many seconds it may take."
    yield Setting("engine.postgres.building", 900.0, about, False, (), 1)
    about = "Whether a write waits for the disk, and for the replicas that the server waits for."
    yield Setting("engine.postgres.synchronous", True, about)
    about = "A replica that is searched instead; what is written and compared goes to `url`."
    yield Setting("engine.postgres.read_url", "", about)


SETTINGS: Final[Mapping[str, Setting]] = {
    setting.key: setting
    for setting in (
        Setting("memory.enabled", True, "Whether memories are read and written here.", True),
        Setting(
            "memory.storage_strategy",
            "project",
            "`project`: the nearest project bank; `user`: always the global one.",
            True,
            ("project", "user"),
        ),
        Setting(
            "memory.recency_boost_days",
            7,
            "How many days a memory counts as recent when hits are ranked.",
            True,
        ),
        Setting(
            "memory.recency_boost_factor",
            1.2,
            "What the score of a recent memory is multiplied by.",
            True,
        ),
        Setting(
            "memory.recency_by_type",
            "",
            "The same for single types: `plan=14:1.3, fact=0:1` (days, then factor).",
            True,
        ),
        Setting(
            "memory.default_collection",
            "",
            "Where `put` stores without --collection; empty means the store's own default.",
            True,
        ),
        Setting("memory.max_bytes", 2_000_000, "The largest file that is stored or read.", least=1),
        Setting("memory.created_by", "", "Who `put` names as author; empty means found out."),
        Setting(
            "versioning.mode",
            "auto",
            "`auto`: git's history in a work tree, numbered copies everywhere; "
            "`numbered`: copies only; `off`: no copies.",
            True,
            ("auto", "numbered", "off"),
        ),
        Setting(
            "versioning.max_versions", 10, "How many numbered copies a memory keeps.", True, (), 1
        ),
        Setting("versioning.auto_commit", False, "Commit every change of a memory to git.", True),
        Setting(
            "recall.embedder",
            "bundled",
            "Where vectors come from: `bundled`, `none`, a directory with a BERT-family model, or "
            "the address of an OpenAI-compatible `/v1/embeddings`.",
        ),
        Setting("recall.model", "", "Which model to ask for at that address."),
        Setting("guard.redact_secrets", True, "Replace secrets by [REDACTED:kind] on the way in."),
        Setting(
            "records.grace_period_days",
            30,
            "How many days a retired record is kept before it may be cleaned away.",
            True,
        ),
        Setting(
            "records.archive_retired",
            True,
            "Whether a retired record that is cleaned away is kept aside and not deleted.",
            True,
        ),
        Setting(
            "records.max_per_category",
            100,
            "How many active records a category may have; 0 means any number.",
            True,
        ),
        Setting(
            "records.match_strategy",
            "title_tags",
            "What new information is compared with to find the record it belongs to.",
            True,
            ("title_tags", "title", "tags", "hybrid"),
        ),
        Setting("retrieval.enabled", True, "Whether a prompt brings memories with it.", True),
        Setting(
            "retrieval.max_inject",
            5,
            "How many memories a prompt brings at most; 0 means none.",
            True,
            (),
            0,
            20,
        ),
        Setting(
            "retrieval.budget",
            1500,
            "How many tokens they may take together.",
            True,
            (),
            0,
            2000,
        ),
        Setting("triage.enabled", True, "Whether a session's end is looked at for memories.", True),
        Setting(
            "triage.capture",
            "agent",
            "Who saves what was found: `agent` is asked to before it stops, `inbox` keeps it for "
            "you.",
            True,
            ("agent", "inbox"),
        ),
        Setting(
            "triage.max_messages",
            50,
            "How many of a session's last messages are looked at.",
            True,
            (),
            10,
            200,
        ),
        Setting(
            "triage.parallel.enabled", True, "Whether the skill drafts categories at once.", True
        ),
        Setting(
            "triage.parallel.verification_model",
            "sonnet",
            "Which model the skill asks to check drafts.",
            True,
            _MODELS,
        ),
        Setting(
            "triage.parallel.default_model",
            "haiku",
            "Which model the skill asks to draft anything else.",
            True,
            _MODELS,
        ),
        *_captured(),
        Setting("hooks.session_start", True, "A brief when a session begins.", True),
        Setting("hooks.user_prompt_submit", True, "Memories that fit a prompt.", True),
        Setting("hooks.pre_tool_use", True, "Refuse to write into a bank past Retain."),
        Setting("hooks.post_tool_use", True, "Set aside what was written into one all the same."),
        Setting("hooks.stop", True, "Look for what to remember when an agent stops.", True),
        Setting("hooks.pre_compact", True, "The same before a conversation is compacted.", True),
        Setting("hooks.post_compact", True, "Propose the summary of a compaction.", True),
        Setting("hooks.session_end", True, "Propose a summary when a session ends.", True),
        Setting(
            "hooks.deadline_ms",
            120,
            "After how many milliseconds a hook answers with what there is.",
            False,
            (),
            10,
            10_000,
        ),
        Setting("chat.model", "claude-sonnet-5-5", "Which model the chat talks to."),
        Setting(
            "chat.provider",
            "auto",
            "Whose protocol it is asked by; `auto`: Anthropic's for names that begin with "
            "`claude`, else OpenAI's.",
            False,
            ("auto", "anthropic", "openai"),
        ),
        Setting(
            "chat.base_url",
            "",
            "Where a server is that speaks OpenAI's protocol, such as "
            "`http://127.0.0.1:11434/v1` for Ollama; empty means the provider itself.",
        ),
        Setting(
            "chat.api_key_env",
            "",
            "Which variable has the key; empty means `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`.",
        ),
        Setting(
            "chat.max_tokens",
            0,
            "How long a reply may get; 0 means 16,000 tokens for Claude, elsewhere what the "
            "server allows.",
        ),
        Setting(
            "chat.context_tokens",
            0,
            "How many tokens the model can read; 0 means by its name, or 128,000.",
        ),
        Setting(
            "chat.facts",
            "person",
            "Where facts go that a chat learns in a project: `person`, your own bank; `bank`, the "
            "project's.",
            False,
            ("person", "bank"),
        ),
        *_engines(),
    )
}
