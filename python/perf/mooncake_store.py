"""The calls of `MooncakeDistributedStore` that scripts for side-by-side measurements make, over Ziggurat.

Not the compatible module: only what such scripts need, so that the same work runs against both. `global_segment_size > 0`
makes this process a node of the cluster, `enable_ssd_offload` gives it a directory on SSD; `get_into` of a miss is -704, as there.
"""

import ziggurat

OK = 0
MISS = -704


class ReplicateConfig:
    """Accepted where the other store takes one."""

    def __init__(self) -> None:
        self.replica_num = 1


class ReplicaDescriptor:
    """Where one replica lies, as far as scripts ask."""

    def __init__(self, tier: str) -> None:
        self._tier = tier

    def is_memory_replica(self) -> bool:
        return self._tier == "dram"


def _code(call, *arguments) -> int:
    """0, or the code of the error that the call raised."""
    try:
        call(*arguments)
    except ziggurat.Error as error:
        return error.code
    return OK


class MooncakeDistributedStore:
    """A client, and a node if it is given memory."""

    def __init__(self) -> None:
        self._store: ziggurat.Store | None = None
        self._node: ziggurat.Node | None = None

    def setup(
        self,
        local_hostname: str,
        metadata_server: str,
        global_segment_size: int = 0,
        local_buffer_size: int = 0,
        protocol: str = "tcp",
        rdma_devices: str = "",
        master_server_addr: str = "127.0.0.1:50051",
        enable_ssd_offload: bool = False,
        ssd_offload_path: str = "",
        **_others: object,
    ) -> int:
        """Connects, and hosts a segment if it has a size."""
        try:
            if global_segment_size > 0:
                ssd = ssd_offload_path if enable_ssd_offload else None
                self._node = ziggurat.Node(master_server_addr, global_segment_size, ssd=ssd)
            store = ziggurat.connect(master_server_addr, node=self._node)
        except ziggurat.Error as error:
            self.close()
            return error.code
        self._store = store
        # Where both sides mean the same there is nothing in between.
        self.batch_put_from = store.batch_put_from
        self.batch_get_into = store.batch_get_into
        self.batch_remove = store.batch_remove
        self.is_exist = store.is_exist
        self.batch_is_exist = store.batch_is_exist
        self.remove_all = store.remove_all
        return OK

    def register_buffer(self, address: int, size: int) -> int:
        """TCP needs no registration."""
        return OK

    def unregister_buffer(self, address: int) -> int:
        return OK

    def put(self, key: str, value: bytes | memoryview, config: ReplicateConfig | None = None) -> int:
        return _code(self._store.put, key, value)

    def put_from(self, key: str, address: int, size: int, config: ReplicateConfig | None = None) -> int:
        return _code(self._store.put_from, key, address, size)

    def get(self, key: str) -> bytes:
        """The value; empty for a miss, as there."""
        value = self._store.get(key)
        return b"" if value is None else value

    def get_into(self, key: str, address: int, size: int) -> int:
        try:
            len_read = self._store.get_into(key, address, size)
        except ziggurat.Error as error:
            return error.code
        return MISS if len_read is None else len_read

    def get_size(self, key: str) -> int:
        size = self._store.get_size(key)
        return MISS if size is None else size

    def batch_get_replica_desc(self, keys: list[str]) -> dict[str, list[ReplicaDescriptor]]:
        """The replicas of the keys that are there."""
        known = zip(keys, self._store.batch_stat(keys), strict=True)
        return {
            key: [ReplicaDescriptor(replica["tier"]) for replica in stat["replicas"]]
            for key, stat in known
            if stat is not None
        }

    def get_offload_rpc_read_count(self) -> int:
        """Reads that the directories of this process answered."""
        return 0 if self._node is None else sum(one["reads"] for one in self._node.ssd())

    def remove(self, key: str, force: bool = False) -> int:
        try:
            return OK if self._store.remove(key, force) else MISS
        except ziggurat.Error as error:
            return error.code

    def close(self) -> int:
        if self._store is not None:
            self._store.close()
        if self._node is not None:
            self._node.stop()
        return OK
