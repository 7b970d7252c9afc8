//! Memory of the caller: objects with the buffer protocol, and bare addresses. The only `unsafe` of the crate.
//!
//! The contract is that of `ctypes` and of `readinto`: nobody writes to memory while the store reads it, nobody touches
//! memory while the store writes to it, and a bare address stays valid for the whole call. An object with the buffer
//! protocol is kept alive and cannot be resized until the call has ended. What can be checked is checked here: null
//! addresses, sizes beyond the buffer, read-only or scattered buffers, targets of one batch that overlap.
#![expect(
    unsafe_code,
    reason = "addresses that Python hands over become slices here"
)]

use pyo3::{
    buffer::PyUntypedBuffer,
    exceptions::{PyBufferError, PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyInt, PyMemoryView},
};
use std::ptr::NonNull;

/// What keeps the memory where it is.
#[derive(Debug)]
enum Holder {
    /// The caller's promise.
    Promise,
    /// An immutable object.
    Bytes(#[expect(dead_code, reason = "held, never read")] Py<PyBytes>),
    /// An export of the buffer protocol.
    Buffer(#[expect(dead_code, reason = "held, never read")] PyUntypedBuffer),
}

/// A checked range of the caller's memory.
#[derive(Debug)]
struct Range {
    start: NonNull<u8>,
    len: usize,
    _holder: Holder,
}

// SAFETY: the range is only an address and a length; `Holder` may be sent by itself, and the contract of the module
// covers the bytes on whatever thread they are touched.
unsafe impl Send for Range {}
// SAFETY: a shared range only gives shared slices.
unsafe impl Sync for Range {}

/// Memory that a put reads.
#[derive(Debug)]
pub(crate) struct Source(Range);

/// Memory that a get writes to.
#[derive(Debug)]
pub(crate) struct Target(Range);

impl Source {
    /// Reads an argument: an object with the buffer protocol, or an address with a size.
    pub(crate) fn read(place: &Bound<'_, PyAny>, size: Option<i64>) -> PyResult<Self> {
        if let Ok(bytes) = place.cast::<PyBytes>() {
            let content = bytes.as_bytes();
            return Ok(Self(Range {
                start: NonNull::from_ref(content).cast(),
                len: within(size, content.len())?,
                _holder: Holder::Bytes(bytes.clone().unbind()),
            }));
        }
        if let Some(range) = promised(place, size)? {
            return Ok(Self(range));
        }
        Ok(Self(exported(export(place)?, size)?))
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is not null and the range does not wrap (checked where it was made). The holder, or the
        // caller's promise, keeps the memory valid and unchanged while `self` lives.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.len) }
    }
}

impl Target {
    /// Reads an argument: a writable object with the buffer protocol, or an address with a size.
    pub(crate) fn read(place: &Bound<'_, PyAny>, size: Option<i64>) -> PyResult<Self> {
        if let Some(range) = promised(place, size)? {
            return Ok(Self(range));
        }
        let buffer = export(place)?;
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer is read-only"));
        }
        Ok(Self(exported(buffer, size)?))
    }

    /// The bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `Source::bytes`; nobody else touches the memory meanwhile by the contract of the module, and
        // targets of one batch do not overlap (`refuse_overlap`).
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
    }

    fn start(&self) -> usize {
        self.0.start.addr().get()
    }
}

/// Two writers of one byte in one batch have no right result.
pub(crate) fn refuse_overlap(targets: &[Target]) -> PyResult<()> {
    let apart = |left: &Target, right: &Target| left.start() + left.0.len <= right.start();
    if targets.is_sorted_by(apart) {
        return Ok(());
    }
    let mut sorted: Vec<_> = targets.iter().filter(|target| target.0.len > 0).collect();
    sorted.sort_unstable_by_key(|target| target.start());
    let clash = sorted.windows(2).find(|pair| !apart(pair[0], pair[1]));
    match clash {
        None => Ok(()),
        Some(pair) => Err(PyValueError::new_err(format!(
            "two targets of the batch overlap: {} bytes at {:#x} and {} bytes at {:#x}",
            pair[0].0.len,
            pair[0].start(),
            pair[1].0.len,
            pair[1].start(),
        ))),
    }
}

/// The size that was asked for, if the memory has so much; all of it when none was.
fn within(size: Option<i64>, len: usize) -> PyResult<usize> {
    let Some(size) = size else {
        return Ok(len);
    };
    match usize::try_from(size) {
        Ok(size) if size <= len => Ok(size),
        Ok(_) => Err(PyValueError::new_err(format!(
            "size {size} is more than the {len} bytes of the buffer"
        ))),
        Err(_) => Err(negative(size)),
    }
}

fn negative(size: i64) -> PyErr {
    PyValueError::new_err(format!("size {size} is negative"))
}

/// The range at a bare address; `None` when the argument is not a number.
fn promised(place: &Bound<'_, PyAny>, size: Option<i64>) -> PyResult<Option<Range>> {
    if !place.is_instance_of::<PyInt>() {
        return Ok(None);
    }
    let address: usize = place
        .extract()
        .map_err(|_| PyValueError::new_err(format!("{place} is not an address")))?;
    let size = size.ok_or_else(|| PyTypeError::new_err("an address needs a size"))?;
    let len = usize::try_from(size).map_err(|_| negative(size))?;
    let start = match NonNull::new(std::ptr::with_exposed_provenance_mut::<u8>(address)) {
        Some(start) => start,
        None if len == 0 => NonNull::dangling(),
        None => return Err(PyValueError::new_err("the address is null")),
    };
    if address.checked_add(len).is_none() {
        let what = format!("{len} bytes at {address:#x} go beyond the end of memory");
        return Err(PyValueError::new_err(what));
    }
    Ok(Some(Range {
        start,
        len,
        _holder: Holder::Promise,
    }))
}

/// The export of an object. Some exporters (ctypes) leave out what a memory view of them fills in.
fn export(place: &Bound<'_, PyAny>) -> PyResult<PyUntypedBuffer> {
    if let Ok(buffer) = PyUntypedBuffer::get(place) {
        return Ok(buffer);
    }
    let view = PyMemoryView::from(place)?;
    if view.getattr("ndim")?.extract::<usize>()? == 0 {
        return Err(scalar());
    }
    PyUntypedBuffer::get(&view)
}

fn scalar() -> PyErr {
    PyTypeError::new_err("a scalar is no memory: give an address as int, or an array")
}

/// The range of an export.
fn exported(buffer: PyUntypedBuffer, size: Option<i64>) -> PyResult<Range> {
    if buffer.dimensions() == 0 {
        return Err(scalar());
    }
    if !buffer.is_c_contiguous() {
        let what = "the buffer is not contiguous: copy it first";
        return Err(PyBufferError::new_err(what));
    }
    Ok(Range {
        // An export without bytes may have no address.
        start: NonNull::new(buffer.buf_ptr().cast()).unwrap_or(NonNull::dangling()),
        len: within(size, buffer.len_bytes())?,
        _holder: Holder::Buffer(buffer),
    })
}
