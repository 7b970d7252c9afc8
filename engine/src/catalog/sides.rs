//! Records of versions that do not fit into a row: several replicas, several extents, or a chunk table. Kept in chunks
//! that never move, so that growth costs no copy.

use super::fleet::ReplicaRecord;

const CHUNK: usize = 1024;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sides {
    chunks: Vec<Vec<Option<Vec<ReplicaRecord>>>>,
    vacant: Vec<u32>,
}

impl Sides {
    pub(crate) fn insert(&mut self, replicas: Vec<ReplicaRecord>) -> u32 {
        if let Some(index) = self.vacant.pop() {
            *self.cell(index) = Some(replicas);
            return index;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        let last = self.chunks.len() - 1;
        self.chunks[last].push(Some(replicas));
        (last * CHUNK + self.chunks[last].len() - 1) as u32
    }

    fn cell(&mut self, index: u32) -> &mut Option<Vec<ReplicaRecord>> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    pub(crate) fn get(&self, index: u32) -> &[ReplicaRecord] {
        self.chunks[index as usize / CHUNK][index as usize % CHUNK]
            .as_deref()
            .expect("a side record in use")
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> &mut Vec<ReplicaRecord> {
        self.cell(index).as_mut().expect("a side record in use")
    }

    pub(crate) fn remove(&mut self, index: u32) -> Vec<ReplicaRecord> {
        let replicas = self.cell(index).take().expect("a side record in use");
        self.vacant.push(index);
        replicas
    }

    pub(crate) fn memory(&self) -> u64 {
        let cell = size_of::<Option<Vec<ReplicaRecord>>>() + size_of::<ReplicaRecord>();
        self.chunks
            .iter()
            .map(|chunk| (chunk.len() * cell) as u64)
            .sum()
    }
}
