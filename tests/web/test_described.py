"""The interface does what its description says: tried out from the description itself.

In a file of its own: to read the description takes seconds, which `--fast` has no use for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from retain.web.app import OPERATIONS
from retain.web.openapi import document
from tests.web.stage import TOKEN, Served, started

pytestmark = pytest.mark.slow

# A bank refuses what no schema can say: a name that cannot be one, a memory that is not there.
ACCEPTED = ["2xx", "400", "404", "409", "413", "422"]
REFUSED = ["4xx"]
CHECKS = [
    schemathesis.checks.not_a_server_error,
    allow_header_conformance,
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]
# Those that hold whatever was sent.
ALWAYS = [
    schemathesis.checks.not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
EXAMPLES = 12  # of each operation, good ones and bad ones
# The same calls in every run: a failure is the change's, not the dice's.
SAME = settings(
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    deadline=None,
    derandomize=True,
    database=None,
)


def described() -> Any:
    config = SchemathesisConfig.from_dict(
        {
            # What an answer of one run taught would make the next call another one in another run.
            "phases": {
                "fuzzing": {
                    "extra-data-sources": {"responses": False},
                    "error-feedback": {"enabled": False},
                },
                "coverage": {"extra-data-sources": {"responses": False}},
            },
            "checks": {
                "positive_data_acceptance": {"expected-statuses": ACCEPTED},
                "negative_data_rejection": {"expected-statuses": REFUSED},
            },
        }
    )
    config.projects.default.generation.modes = list(GenerationMode)
    return schemathesis.openapi.from_dict(document(OPERATIONS), config=config)


schema = described()

_EACH = 0.012  # seconds; most examples take two requests, and a server 200 of them a second


@pytest.fixture(scope="module")
def paced() -> Callable[[], None]:
    """To be called before each example: a client in a hurry is refused, and that is not tried."""
    last = 0.0

    def wait() -> None:
        nonlocal last
        time.sleep(max(0.0, last + _EACH - time.monotonic()))
        last = time.monotonic()

    return wait


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A bank with a memory; without a model, which would make a vector of everything."""
    home = tmp_path_factory.mktemp("api")
    with started(home, project=True, env={"RETAIN_RECALL_EMBEDDER": "none"}) as server:
        server.store("# Hello\n\nSee [[other]].", id="hello", tags=["greeting"])
        yield server


@schema.parametrize()
@SAME
def test_an_operation_does_what_is_written_about_it(
    case: Any, served: Served, paced: Callable[[], None]
) -> None:
    paced()
    case.call_and_validate(base_url=served.url, headers=HEADERS, checks=CHECKS)


@schema.include(path_regex=r"{collection}/{id}").parametrize()
@SAME
def test_an_operation_does_so_on_a_memory_that_is_there(
    case: Any, served: Served, paced: Callable[[], None]
) -> None:
    paced()
    if served.get("/api/v1/memories/here/memories/hello").status_code == 404:
        served.store("# Hello", id="hello", collection="memories")
    case.path_parameters |= {"scope": "here", "collection": "memories", "id": "hello"}
    case.call_and_validate(base_url=served.url, headers=HEADERS, checks=ALWAYS)
