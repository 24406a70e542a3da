"""Real clusters on this machine: three Qdrants that know each other, a Postgres with a replica."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import psycopg
from psycopg.sql import SQL, Literal

from tests.engines import servers
from tests.engines.servers import Process, free_port

__all__ = ["Nodes", "Pair", "postgres_pair", "qdrant_nodes"]

_PASSWORD: Final = "replicates-only"


class Nodes:
    """Qdrants that are one cluster; to whoever asks they are one server of several addresses."""

    def __init__(self, nodes: list[Process], key: str) -> None:
        self.nodes, self.key = nodes, key
        self.address = ",".join(node.address for node in nodes)

    def start(self) -> None:
        for node in self.nodes:
            node.start()

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()


def qdrant_nodes(directory: Path, key: str, count: int = 3) -> Nodes:
    """A cluster, not started yet; the first of it is the one that the others join."""
    ports = [free_port() for _ in range(count)]
    nodes = []
    for number, port in enumerate(ports):
        place = directory / f"node{number}"
        place.mkdir()
        node = servers.qdrant(
            place,
            key,
            CLUSTER__ENABLED="true",
            CLUSTER__P2P__PORT=str(port),
            # A node that is gone is noticed sooner than on a network.
            CLUSTER__CONSENSUS__TICK_PERIOD_MS="50",
            SERVICE__JWT_RBAC="true",
        )
        arguments = ["--uri", f"http://127.0.0.1:{port}"]
        if number:
            arguments += ["--bootstrap", f"http://127.0.0.1:{ports[0]}"]
        node.add(arguments)
        nodes.append(node)
    return Nodes(nodes, key)


class Pair(NamedTuple):
    """A Postgres that is written to, and one that follows it."""

    primary: Process
    replica: Process


def postgres_pair(directory: Path, key: str) -> Pair:
    """A Postgres and a streaming replica of it, both started."""
    primary = servers.postgres(directory, key)
    primary.start()
    replica = _replica_of(primary)
    replica.start()
    return Pair(primary, replica)


def _replica_of(primary: Process) -> Process:
    """Copied as it is documented."""
    port = free_port()
    data = primary.directory / "replica"
    with psycopg.connect(primary.address, password=primary.key, autocommit=True) as connection:
        connection.execute(
            SQL("CREATE ROLE follower REPLICATION LOGIN PASSWORD {}").format(Literal(_PASSWORD))
        )
    info = psycopg.conninfo.conninfo_to_dict(primary.address)
    source = f"host=127.0.0.1 port={info['port']} user=follower password={_PASSWORD}"
    copy = servers.postgres_program("pg_basebackup")
    subprocess.run(
        [str(copy), "--pgdata", str(data), "--dbname", source, "--write-recovery-conf",
         "--wal-method=stream", "--checkpoint=fast", "--no-sync"],
        check=True, cwd=primary.directory, env=_environment(),
        user=primary.user, group=primary.user,
        extra_groups=None if primary.user is None else [],
    )  # fmt: skip
    return servers.postgres_at(data, port, primary.key, primary.user)


def _environment() -> Mapping[str, str]:
    return {"PATH": os.environ.get("PATH", "")}
