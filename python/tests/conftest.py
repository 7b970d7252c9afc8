"""The two ways to have a store: in this process, and as the client of a cluster."""

from collections.abc import Iterator

import pytest
import ziggurat

ANY_PORT = "127.0.0.1:0"


@pytest.fixture(scope="session")
def master() -> Iterator[ziggurat.Master]:
    """A master with one node, both in this process, reached over sockets."""
    with ziggurat.Master(ANY_PORT) as master, ziggurat.Node(master.address, "128MiB"):
        yield master


@pytest.fixture(params=["in process", "cluster"])
def store(request: pytest.FixtureRequest) -> Iterator[ziggurat.Store]:
    """An empty store of each kind."""
    if request.param == "in process":
        opened = ziggurat.open(dram="128MiB")
    else:
        opened = ziggurat.connect(request.getfixturevalue("master").address)
        opened.remove_all(force=True)
    with opened as store:
        yield store
