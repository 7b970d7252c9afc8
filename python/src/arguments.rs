//! What callers may write: keys as text or bytes, sizes as numbers or `"64MiB"`, spans as seconds or `"500ms"`.

use pyo3::{
    exceptions::{PyTypeError, PyValueError},
    prelude::*,
    types::{PyBytes, PyString},
};
use std::{net::SocketAddr, path::Path, str::FromStr, time::Duration};
use ziggurat_base::{ByteCount, Error, unit::parse_span};
use ziggurat_store::{SsdOptions, SsdPath};

/// An argument that the store's own parser refused.
pub(crate) fn wrong(error: &Error) -> PyErr {
    PyValueError::new_err(error.what().to_owned())
}

/// The bytes of a key; text is stored as UTF-8.
pub(crate) fn key<'a>(key: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    if let Ok(text) = key.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes());
    }
    match key.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes()),
        Err(_) => {
            let what = format!("a key is str or bytes, not {}", key.get_type().name()?);
            Err(PyTypeError::new_err(what))
        }
    }
}

/// The keys of a batch, copied: another thread may change the caller's list while the store works.
#[derive(Debug)]
pub(crate) struct KeyBatch {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

/// Room for one key before the buffer of a batch has to grow.
const KEY_LEN_TYPICAL: usize = 64;

impl KeyBatch {
    /// Reads any iterable of keys.
    pub(crate) fn read(keys: &Bound<'_, PyAny>) -> PyResult<Self> {
        if keys.is_instance_of::<PyString>() || keys.is_instance_of::<PyBytes>() {
            let what = "a batch takes a list of keys, and this is a single one";
            return Err(PyTypeError::new_err(what));
        }
        let count = keys.len().unwrap_or(0);
        let mut batch = Self {
            bytes: Vec::with_capacity(count * KEY_LEN_TYPICAL),
            ends: Vec::with_capacity(count),
        };
        for item in keys.try_iter()? {
            batch.bytes.extend_from_slice(key(&item?)?);
            batch.ends.push(batch.bytes.len());
        }
        Ok(batch)
    }

    /// How many.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// Each of them, in order.
    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        let mut start = 0;
        let cut = |end: &usize| {
            let key = &self.bytes[start..*end];
            start = *end;
            key
        };
        self.ends.iter().map(cut).collect()
    }

    /// Fails unless another list of the call has one item for each key.
    pub(crate) fn match_count(&self, count: usize, what: &str) -> PyResult<()> {
        if count == self.count() {
            return Ok(());
        }
        let text = format!(
            "{} keys and {count} {what}: give one for each key",
            self.count()
        );
        Err(PyValueError::new_err(text))
    }
}

/// A number of bytes, or text such as `"64MiB"`.
#[derive(Debug, FromPyObject)]
pub(crate) enum Size {
    /// Bytes.
    #[pyo3(transparent, annotation = "int")]
    Bytes(u64),
    /// With a unit.
    #[pyo3(transparent, annotation = "str")]
    Text(String),
}

impl Size {
    pub(crate) fn count(&self) -> PyResult<ByteCount> {
        match self {
            Self::Bytes(bytes) => Ok(ByteCount(*bytes)),
            Self::Text(text) => text.parse().map_err(|error| wrong(&error)),
        }
    }
}

/// Seconds, or text such as `"500ms"`.
#[derive(Debug, FromPyObject)]
pub(crate) enum Span {
    /// Seconds.
    #[pyo3(transparent, annotation = "float")]
    Seconds(f64),
    /// With a unit.
    #[pyo3(transparent, annotation = "str")]
    Text(String),
}

impl Span {
    pub(crate) fn duration(&self) -> PyResult<Duration> {
        match self {
            Self::Seconds(seconds) => Duration::try_from_secs_f64(*seconds)
                .map_err(|error| PyValueError::new_err(format!("{seconds} seconds: {error}"))),
            Self::Text(text) => parse_span(text).map_err(|error| wrong(&error)),
        }
    }
}

/// An address to listen on.
pub(crate) fn address(text: &str) -> PyResult<SocketAddr> {
    text.parse().map_err(|_| {
        let what = format!("{text:?} is not an address: write for example 127.0.0.1:50051");
        PyValueError::new_err(what)
    })
}

/// Directories on SSD, `DIR[:SIZE][,DIR…]` as the flag of that name takes them; none without a text.
pub(crate) fn ssd(list: Option<&Path>) -> PyResult<SsdOptions> {
    let Some(list) = list else {
        return Ok(SsdOptions::default());
    };
    let text = list.to_str().ok_or_else(|| {
        let what = format!("the SSD directory {} is not UTF-8", list.display());
        PyValueError::new_err(what)
    })?;
    Ok(SsdOptions {
        directories: SsdPath::list(text).map_err(|error| wrong(&error))?,
        ..SsdOptions::default()
    })
}

/// A word that the store knows, such as the name of a policy.
pub(crate) fn word<T: FromStr<Err = Error>>(text: &str) -> PyResult<T> {
    text.parse().map_err(|error| wrong(&error))
}
