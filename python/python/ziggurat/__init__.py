"""Ziggurat for Python: a verified key-value store for LLM KV cache, in this process or as a cluster.

    with ziggurat.open(dram="256MiB") as store:          # or ziggurat.connect("127.0.0.1:50051")
        store.put("prompt/1", b"some KV cache")
        assert store.get("prompt/1") == b"some KV cache"

Keys are str or bytes, 1 to 4096 bytes long. Values come from any object with the buffer protocol, or from an address with a
size, and go to either. Every call lets other threads run. A miss is None; what fails raises ziggurat.Error; what is asked
wrongly raises ValueError or TypeError.
"""

from ._error import Error
from ._native import Master, Node, Store, connect, open

__all__ = ["Error", "Master", "Node", "Store", "connect", "open"]
