//! Where the bytes of a get go: memory of our own, or the caller's buffers.

use ziggurat_base::{ByteCount, Code, Error};
use ziggurat_engine::{command::Answer, journey::GetInto};

/// A fresh buffer for each answer.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(crate) values: Vec<Vec<u8>>,
}

impl Fresh {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            values: vec![Vec::new(); count],
        }
    }
}

impl GetInto for Fresh {
    fn rooms<'a>(&'a mut self, wanted: &[(usize, u64)]) -> Vec<Answer<&'a mut [u8]>> {
        let mut values = self.values.iter_mut().enumerate();
        let room = |(index, len): &(usize, u64)| {
            let (_, value) = values
                .find(|(at, _)| at == index)
                .ok_or_else(|| Error::from(Code::Internal))?;
            let len = usize::try_from(*len).map_err(|_| Error::from(Code::BufferOverflow))?;
            *value = vec![0; len];
            Ok(&mut value[..])
        };
        wanted.iter().map(room).collect()
    }
}

/// The caller's buffers; each must be as large as its answer, or larger.
#[derive(Debug)]
pub(crate) struct Given<'b, 'm> {
    pub(crate) buffers: &'b mut [&'m mut [u8]],
}

impl GetInto for Given<'_, '_> {
    fn rooms<'a>(&'a mut self, wanted: &[(usize, u64)]) -> Vec<Answer<&'a mut [u8]>> {
        let mut buffers = self.buffers.iter_mut().enumerate();
        let room = |(index, len): &(usize, u64)| {
            let (_, buffer) = buffers
                .find(|(at, _)| at == index)
                .ok_or_else(|| Error::from(Code::Internal))?;
            let size = buffer.len();
            let fits = usize::try_from(*len)
                .ok()
                .and_then(|len| buffer.get_mut(..len));
            fits.ok_or_else(|| {
                let what = format!(
                    "the object has {}, the buffer {}",
                    ByteCount(*len),
                    ByteCount(size as u64)
                );
                Error::new(Code::BufferOverflow, what)
            })
        };
        wanted.iter().map(room).collect()
    }
}
