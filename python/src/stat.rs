//! What is known about objects and directories, as dictionaries.

use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};
use std::collections::BTreeMap;
use ziggurat_base::SegmentId;
use ziggurat_store::{Keep, ObjectStat, SegmentStat, TierStats};

/// The segments of a cluster by their numbers.
pub(crate) type Segments = BTreeMap<SegmentId, SegmentStat>;

/// Everything about an object; its replicas by the segments that they lie on.
pub(crate) fn object<'py>(
    py: Python<'py>,
    stat: &ObjectStat,
    segments: &Segments,
) -> PyResult<Bound<'py, PyDict>> {
    let replicas = PyList::empty(py);
    for target in stat.replicas.as_slice() {
        // Unmounted since the object was asked about: then it has no replica there any more.
        let Some(segment) = segments.get(&target.placement.segment) else {
            continue;
        };
        let replica = PyDict::new(py);
        replica.set_item("segment", &*segment.name)?;
        let tier = match segment.keep {
            Keep::Delegated => "dram",
            Keep::Owned { .. } => "ssd",
            Keep::Shared { .. } => "dfs",
        };
        replica.set_item("tier", tier)?;
        replicas.append(replica)?;
    }
    let known = PyDict::new(py);
    known.set_item("size", stat.len)?;
    known.set_item("version", stat.ticket.0)?;
    known.set_item("crc32", stat.crc.0)?;
    known.set_item("lease", stat.lease.as_secs_f64())?;
    known.set_item("replicas", replicas)?;
    Ok(known)
}

/// An SSD directory in numbers.
pub(crate) fn directory<'py>(py: Python<'py>, stats: &TierStats) -> PyResult<Bound<'py, PyDict>> {
    let numbers = PyDict::new(py);
    macro_rules! copy {
        ($($name:ident)*) => { $(numbers.set_item(stringify!($name), stats.$name)?;)* };
    }
    copy!(records logical_bytes live_bytes file_bytes unwritten_bytes capacity files index_bytes);
    copy!(written written_bytes stored_bytes device_bytes copied copied_bytes reads read_bytes);
    copy!(rotten mismatched evicted discarded write_errors full);
    Ok(numbers)
}
