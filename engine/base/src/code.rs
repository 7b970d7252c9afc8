//! Stable numeric codes. Where the established store has a code for the same thing, ours has the same number; ours
//! alone start at -2000. Append only: docs/errors.md has a line for each, checked by `cargo xtask tidy`.

macro_rules! codes {
    ($($(#[doc = $cause:literal])* $variant:ident = $number:literal, $name:literal, $cure:literal;)*) => {
        /// What happened, as a number that never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum Code { $($(#[doc = $cause])* $variant = $number,)* }

        impl Code {
            /// Every code, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name that the established store and docs/errors.md use.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// One sentence on what happened.
            #[must_use]
            pub fn cause(self) -> &'static str {
                match self { $(Self::$variant => concat!($($cause),*).trim_ascii_start(),)* }
            }

            /// One sentence on what to do.
            #[must_use]
            pub fn cure(self) -> &'static str {
                match self { $(Self::$variant => $cure,)* }
            }

            /// The code of a number that came over the wire.
            #[must_use]
            pub fn from_number(number: i32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

codes! {
    /// Success.
    Ok = 0, "OK", "Nothing to do.";
    /// The process broke one of its own rules.
    Internal = -1, "INTERNAL_ERROR", "Report it with the log lines around it.";
    /// The answer does not fit into the buffer given.
    BufferOverflow = -10, "BUFFER_OVERFLOW", "Ask for the size first, or give a larger buffer.";
    /// A metadata partition number does not exist.
    ShardIndexOutOfRange = -100, "SHARD_INDEX_OUT_OF_RANGE", "Check that client and master run the same configuration.";
    /// No segment of that name or number is mounted.
    SegmentNotFound = -101, "SEGMENT_NOT_FOUND", "List the segments with `ziggurat status`; mount it again if its node restarted.";
    /// A segment of that name is mounted by another live node.
    SegmentAlreadyExists = -102, "SEGMENT_ALREADY_EXISTS", "Give the segment another name, or stop the other node.";
    /// The member is unknown: it never joined, or its time to live ran out.
    ClientNotFound = -103, "CLIENT_NOT_FOUND", "Join again; the client library and the node do so by themselves.";
    /// No segment has room, even after eviction.
    NoAvailableHandle = -200, "NO_AVAILABLE_HANDLE", "Retry after a moment when the error says retryable; otherwise add memory, lower replica counts, or remove pins.";
    /// The peer speaks no protocol version that this process speaks.
    InvalidVersion = -300, "INVALID_VERSION", "See docs/versioning.md; upgrade the older side.";
    /// The key is empty or longer than 4096 bytes.
    InvalidKey = -400, "INVALID_KEY", "Use keys of 1 to 4096 bytes.";
    /// Bytes could not be written to any requested replica.
    WriteFail = -500, "WRITE_FAIL", "Look at the node's log; retry.";
    /// An argument is out of range or contradicts another.
    InvalidParams = -600, "INVALID_PARAMS", "The message names the value and its bounds.";
    /// The write belongs to another client.
    IllegalClient = -601, "ILLEGAL_CLIENT", "Only the writer that started a put may end or revoke it.";
    /// The write is not open any more: ended, revoked, pre-empted or fenced.
    InvalidWrite = -700, "INVALID_WRITE", "Start the put again.";
    /// The range lies outside the object.
    InvalidRead = -701, "INVALID_READ", "Ask for a range within the object's size.";
    /// The descriptor names space that the node does not have.
    InvalidReplica = -702, "INVALID_REPLICA", "Locate the object again.";
    /// The object is being written and has nothing readable yet.
    ReplicaIsNotReady = -703, "REPLICA_IS_NOT_READY", "Retry after the writer has finished.";
    /// There is no such object.
    ObjectNotFound = -704, "OBJECT_NOT_FOUND", "A miss: compute the value and put it.";
    /// The key is present, or somebody is writing it.
    ObjectAlreadyExists = -705, "OBJECT_ALREADY_EXISTS", "Nothing to do, or retry after the other writer has finished.";
    /// A reader holds the object, or it is pinned.
    ObjectHasLease = -706, "OBJECT_HAS_LEASE", "Wait for the lease to end, or use force.";
    /// The guard ended before the bytes had arrived; they were thrown away.
    LeaseExpired = -707, "LEASE_EXPIRED", "Read again; raise the lease if this is frequent.";
    /// A copy or move of the object is under way.
    ObjectHasReplicationTask = -708, "OBJECT_HAS_REPLICATION_TASK", "Retry after the task has finished.";
    /// There is no such copy or move.
    ObjectNoReplicationTask = -709, "OBJECT_NO_REPLICATION_TASK", "Create the task first.";
    /// The object has no replica there.
    ReplicaNotFound = -710, "REPLICA_NOT_FOUND", "Locate the object again.";
    /// The object already has a replica there.
    ReplicaAlreadyExists = -711, "REPLICA_ALREADY_EXISTS", "Nothing to do.";
    /// The space now belongs to another version; the owner refused to send foreign bytes.
    ReplicaIsGone = -712, "REPLICA_IS_GONE", "Locate the object again.";
    /// The replica is not in this process' memory.
    ReplicaNotInLocalMemory = -713, "REPLICA_NOT_IN_LOCAL_MEMORY", "Read it through the data plane.";
    /// A replica is in use by a task.
    ObjectReplicaBusy = -714, "OBJECT_REPLICA_BUSY", "Retry after the task has finished.";
    /// The connection to the node broke during the transfer.
    TransferFail = -800, "TRANSFER_FAIL", "Retry; the node's death is noticed by the master within its time to live.";
    /// The bytes do not have the checksum of the object; they were thrown away.
    ChecksumMismatch = -801, "CHECKSUM_MISMATCH", "Read again from another replica; a repeated mismatch means broken memory or a broken network.";
    /// The master or node could not be reached.
    RpcFail = -900, "RPC_FAIL", "Check the address and that the process runs: `ziggurat doctor`.";
    /// No answer within the deadline.
    RpcTimeout = -901, "RPC_TIMEOUT", "Retry; raise the deadline if the network is slow.";
    /// etcd refused or failed an operation.
    EtcdOperationError = -1000, "ETCD_OPERATION_ERROR", "Look at etcd's log.";
    /// A key is missing in etcd.
    EtcdKeyNotExist = -1001, "ETCD_KEY_NOT_EXIST", "Check the cluster id.";
    /// Another process won an etcd transaction.
    EtcdTransactionFail = -1002, "ETCD_TRANSACTION_FAIL", "Retry.";
    /// An etcd call was cancelled.
    EtcdContextCancelled = -1003, "ETCD_CTX_CANCELLED", "Retry.";
    /// A journal entry is missing.
    OplogEntryNotFound = -1004, "OPLOG_ENTRY_NOT_FOUND", "Restore from a snapshot.";
    /// A Kubernetes lease call failed.
    K8sLeaseOperationError = -1005, "K8S_LEASE_OPERATION_ERROR", "Look at the API server's log.";
    /// A Kubernetes lease is missing.
    K8sLeaseNotFound = -1006, "K8S_LEASE_NOT_FOUND", "Check the lease's name.";
    /// A standby has not caught up.
    IncompleteOplogCatchUp = -1007, "INCOMPLETE_OPLOG_CATCH_UP", "Wait, or promote another.";
    /// The process cannot do this now: it starts, drains, or waits for its first segment.
    UnavailableInCurrentStatus = -1010, "UNAVAILABLE_IN_CURRENT_STATUS", "Retry after a moment.";
    /// This way of running has no such function.
    UnavailableInCurrentMode = -1011, "UNAVAILABLE_IN_CURRENT_MODE", "The message names the option that turns it on.";
    /// This build or version has no such function.
    NotSupported = -1012, "NOT_SUPPORTED", "See the status table in README.md.";
    /// A file is missing.
    FileNotFound = -1100, "FILE_NOT_FOUND", "The message names it.";
    /// A file cannot be opened.
    FileOpenFail = -1101, "FILE_OPEN_FAIL", "Check path and permissions.";
    /// A file cannot be read.
    FileReadFail = -1102, "FILE_READ_FAIL", "Check the device.";
    /// A file cannot be written.
    FileWriteFail = -1103, "FILE_WRITE_FAIL", "Check free space and permissions.";
    /// A buffer is not aligned for the device.
    FileInvalidBuffer = -1104, "FILE_INVALID_BUFFER", "Report it: the library aligns by itself.";
    /// Another process has the directory.
    FileLockFail = -1105, "FILE_LOCK_FAIL", "Stop it, or give another directory.";
    /// A file handle is not open.
    FileInvalidHandle = -1106, "FILE_INVALID_HANDLE", "Report it.";
    /// A log file of the SSD tier is missing.
    BucketNotFound = -1200, "BUCKET_NOT_FOUND", "It was removed by hand; the objects in it are misses.";
    /// A log file of the SSD tier exists already.
    BucketAlreadyExists = -1201, "BUCKET_ALREADY_EXISTS", "Report it.";
    /// A batch has more keys than one log file takes.
    KeysExceedBucketLimit = -1202, "KEYS_EXCEED_BUCKET_LIMIT", "Use smaller batches.";
    /// The store holds as many keys as it can.
    KeysUltraLimit = -1203, "KEYS_ULTRA_LIMIT", "Remove keys, or add partitions.";
    /// The object cannot be written to the SSD tier.
    UnableOffload = -1300, "UNABLE_OFFLOAD", "Look at the node's log.";
    /// The SSD tier cannot take more for the moment.
    UnableOffloading = -1301, "UNABLE_OFFLOADING", "Retry.";
    /// There is no such task.
    TaskNotFound = -1400, "TASK_NOT_FOUND", "It may have been cleaned up after it ended.";
    /// Too many tasks wait.
    TaskPendingLimitExceeded = -1401, "TASK_PENDING_LIMIT_EXCEEDED", "Retry later.";
    /// There is no such job.
    JobNotFound = -1402, "JOB_NOT_FOUND", "It may have been cleaned up after it ended.";
    /// A format version is not known.
    SerializeUnsupported = -1500, "SERIALIZE_UNSUPPORTED", "Upgrade this process.";
    /// A message could not be encoded.
    SerializeFail = -1501, "SERIALIZE_FAIL", "Report it.";
    /// A message could not be decoded; the connection was closed.
    DeserializeFail = -1502, "DESERIALIZE_FAIL", "Check that both sides are Ziggurat and not damaged by a proxy.";
    /// The state directory could not be written.
    PersistentFail = -1503, "PERSISTENT_FAIL", "Check free space and permissions of --state-dir.";
    /// The shared filesystem did not answer in time.
    DfsNetworkTimeout = -1600, "DFS_NETWORK_TIMEOUT", "Check the mount.";
    /// The shared filesystem is not configured or not mounted.
    DfsServiceUnavailable = -1601, "DFS_SERVICE_UNAVAILABLE", "Check the mount and the root's configuration.";
    /// The shared filesystem is full.
    DfsQuotaExceeded = -1602, "DFS_QUOTA_EXCEEDED", "Grow it: `ziggurat dfs grow`.";
    /// The shared filesystem refuses access.
    DfsPermissionDenied = -1603, "DFS_PERMISSION_DENIED", "Check ownership of the root.";
    /// A file of the shared filesystem was replaced.
    DfsStaleHandle = -1604, "DFS_STALE_HANDLE", "The library opens it again by itself.";
    /// Not all bytes reached the shared filesystem.
    DfsPartialWrite = -1605, "DFS_PARTIAL_WRITE", "Retry.";
    /// The tenant's quota is used up.
    TenantQuotaExceeded = -1700, "TENANT_QUOTA_EXCEEDED", "Remove objects, or raise the quota.";
    /// The tenant is not registered.
    TenantNotRegistered = -1701, "TENANT_NOT_REGISTERED", "Register it first.";
    /// The tenant still has objects.
    TenantNotEmpty = -1702, "TENANT_NOT_EMPTY", "Remove them first.";
    /// A bounded queue is full; nothing was done.
    Backpressure = -2000, "BACKPRESSURE", "Retry after a moment; the client library does so by itself.";
    /// The process is shutting down.
    Cancelled = -2001, "CANCELLED", "Connect to another, or wait for its restart.";
    /// The configuration has faults; the message lists all of them.
    ConfigInvalid = -2002, "CONFIG_INVALID", "Mend them; `ziggurat config` shows where each value came from.";
    /// A batch of a ledger does not follow the one before it.
    LedgerOutOfOrder = -2003, "LEDGER_OUT_OF_ORDER", "Begin a new snapshot; the node does so by itself.";
}

impl Code {
    /// The number on the wire.
    #[must_use]
    pub fn number(self) -> i32 {
        self as i32
    }

    /// Whether the same call may succeed a moment later without anybody's help.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Backpressure
                | Self::UnavailableInCurrentStatus
                | Self::ReplicaIsNotReady
                | Self::LeaseExpired
                | Self::ReplicaIsGone
                | Self::TransferFail
                | Self::RpcFail
                | Self::RpcTimeout
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn numbers_are_unique_and_come_back() {
        for code in Code::ALL {
            assert_eq!(Code::from_number(code.number()), Some(*code));
        }
        assert_eq!(Code::from_number(-99_999), None);
        assert_eq!(Code::ObjectNotFound.number(), -704);
    }

    #[test]
    fn every_code_has_a_cause_and_a_cure() {
        for code in Code::ALL {
            assert!(
                code.cause().ends_with('.') && code.cure().ends_with('.'),
                "{code:?}"
            );
        }
    }
}
