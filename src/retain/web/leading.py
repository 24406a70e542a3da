"""Where links in double brackets lead: looked up before a text is laid out, many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Final

from retain.text.links import find_links
from retain.web.office import Office
from retain.web.prose import Resolve, linked
from retain.web.rendering import address

if TYPE_CHECKING:
    from retain.app import App


# Of texts that are shown together: links that are looked up, and how many are read to find them.
_MOST: Final = 2_000
_MOST_READ: Final = 20_000


def targets(texts: Iterable[str]) -> list[str]:
    """What texts link to, each once; not for who has a bank's turn, for long ones take their time.

    Of very many links the first are looked up, of the others nothing is said.
    """
    written = islice((one for text in texts for one in linked(text)), _MOST_READ)
    different = islice(dict.fromkeys(written), _MOST)
    return list(dict.fromkeys(link.target for one in different for link in find_links(one)))


def places(app: App, office: Office, named: Sequence[str]) -> dict[str, str]:
    """The page of each memory that is linked to, by its name there; empty where there is none."""
    if not named:
        return {}
    found = app.resolve_links(named)
    with office.turn:
        pages = {
            target: address(office.scope_of(scope), collection, name)
            for target, (scope, collection, name) in found.items()
        }
    return {target: pages.get(target, "") for target in named}


def resolving(found: Mapping[str, str]) -> Resolve:
    """What tells, of a link's target, its page; None for one that nobody looked up."""

    def resolve(target: str) -> str | None:
        named = (link.target for link in find_links(f"[[{target}]]"))
        return next((found[name] for name in named if name in found), None)

    return resolve
