//! Where a read puts its bytes: one buffer for each answer, dirty before.

use ziggurat_base::{Code, Error};
use ziggurat_engine::{command::Answer, journey::GetInto};

/// What buffers hold before anything is read into them.
const DIRT: u8 = 0xa5;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    pub(crate) buffers: Vec<Vec<u8>>,
    /// Longer answers are refused.
    most: u64,
}

impl Rooms {
    pub(crate) fn new(count: usize, most: u64) -> Self {
        Self {
            buffers: vec![Vec::new(); count],
            most,
        }
    }
}

impl GetInto for Rooms {
    fn rooms<'a>(&'a mut self, wanted: &[(usize, u64)]) -> Vec<Answer<&'a mut [u8]>> {
        let mut buffers = self.buffers.iter_mut().enumerate();
        let room = |(index, len): &(usize, u64)| {
            let (_, buffer) = buffers
                .find(|(number, _)| number == index)
                .expect("indices rise and name answers");
            if *len > self.most {
                return Err(Error::new(Code::BufferOverflow, "the room is too small"));
            }
            buffer.clear();
            buffer.resize(*len as usize, DIRT);
            Ok(&mut buffer[..])
        };
        wanted.iter().map(room).collect()
    }
}
