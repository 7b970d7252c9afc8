//! Doubly linked lists over rows: the memory of every policy.
//!
//! A row is in at most one list. Nodes lie in chunks that are never moved, so growth costs one chunk and never a copy of
//! the table; a row's node is found from its number with one cache miss. Each list has an end node of its own, outside
//! the chunks, so that linking knows no special case and a row can be unlinked without knowing its list.
//! Owns links and items; refuses to know what the order means.

use super::ROWS_SPARED;
use crate::Row;
use ziggurat_base::{ByteCount, prefetch::prefetch};

/// Nodes per chunk: small enough that one call allocates and clears at most a few dozen pages.
const CHUNK: usize = 4096;

/// The `younger` link of a row that is in no list.
const UNLINKED: u32 = u32::MAX;

/// The end node of list 0; the others follow downwards. Rows must stay below the last of them.
const END: u32 = u32::MAX - 1;

/// Neighbours. Of an end node: `younger` is the oldest row and `older` the youngest, which closes the ring.
#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    younger: u32,
}

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    link: Link,
    item: T,
}

/// `LISTS` lists over one set of rows, each row with an item.
pub(super) struct Lists<T, const LISTS: usize> {
    chunks: Vec<Option<Box<[Node<T>; CHUNK]>>>,
    ends: Box<[Link; LISTS]>,
}

impl<T, const LISTS: usize> std::fmt::Debug for Lists<T, LISTS> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lists")
            .field("chunks", &self.chunks.len())
            .finish_non_exhaustive()
    }
}

impl<T: Copy + Default, const LISTS: usize> Lists<T, LISTS> {
    pub(super) fn new() -> Self {
        const {
            assert!(
                LISTS <= ROWS_SPARED as usize,
                "end nodes fit above the rows"
            )
        };
        let ends = std::array::from_fn(|list| Link {
            older: END - list as u32,
            younger: END - list as u32,
        });
        Self {
            chunks: Vec::new(),
            ends: Box::new(ends),
        }
    }

    /// Whether the row is in a list.
    pub(super) fn contains(&self, row: Row) -> bool {
        self.node(row.0)
            .is_some_and(|node| node.link.younger != UNLINKED)
    }

    /// The item of a row that is in a list.
    pub(super) fn item(&self, row: Row) -> &T {
        let node = self.node(row.0).expect("the row was inserted");
        assert!(node.link.younger != UNLINKED, "{row:?} is in no list");
        &node.item
    }

    /// The item of a row that is in a list, to change.
    pub(super) fn item_mut(&mut self, row: Row) -> &mut T {
        let node = self.node_mut(row.0);
        assert!(node.link.younger != UNLINKED, "{row:?} is in no list");
        &mut node.item
    }

    /// Puts a row that is in no list at the young end of `list`.
    pub(super) fn push(&mut self, list: usize, row: Row, item: T) {
        assert!(
            row.0 < END - (LISTS as u32 - 1),
            "{row:?} is taken by an end node"
        );
        self.grow(row.index() / CHUNK);
        let node = self.node_mut(row.0);
        assert!(
            node.link.younger == UNLINKED,
            "{row:?} is in a list already"
        );
        node.item = item;
        self.link_youngest(list, row.0);
    }

    /// Takes a row out of its list and hands its item back.
    pub(super) fn take(&mut self, row: Row) -> T {
        let item = *self.item(row);
        self.unlink(row.0);
        self.node_mut(row.0).link.younger = UNLINKED;
        item
    }

    /// Moves a row from wherever it is to the young end of `list`.
    pub(super) fn requeue(&mut self, list: usize, row: Row) {
        assert!(self.contains(row), "{row:?} is in no list");
        self.unlink(row.0);
        self.link_youngest(list, row.0);
    }

    /// The oldest row of `list`; brings the one after it into the cache, which the next look will want.
    pub(super) fn oldest(&self, list: usize) -> Option<Row> {
        let row = self.ends[list].younger;
        if Self::end_of(row).is_some() {
            return None;
        }
        self.prefetch(Row(self.link(row).younger));
        Some(Row(row))
    }

    /// Puts all rows of `source` at the old end of `target`, in their order; `source` is empty afterwards.
    pub(super) fn join_older(&mut self, target: usize, source: usize) {
        let Link { older, younger } = self.ends[source];
        if Self::end_of(older).is_some() {
            return;
        }
        let end = END - target as u32;
        let oldest = self.ends[target].younger;
        self.link_mut(older).younger = oldest;
        self.link_mut(oldest).older = older;
        self.link_mut(younger).older = end;
        self.link_mut(end).younger = younger;
        self.ends[source] = Link {
            older: END - source as u32,
            younger: END - source as u32,
        };
    }

    /// A hint that `row` will be used soon; harmless for any row.
    pub(super) fn prefetch(&self, row: Row) {
        if let Some(node) = self.node(row.0) {
            prefetch(node);
        }
    }

    /// A hint that `row`, whose node is in the cache, will be unlinked soon; harmless for any row.
    pub(super) fn prefetch_neighbours(&self, row: Row) {
        if let Some(node) = self.node(row.0) {
            self.prefetch(Row(node.link.older));
            self.prefetch(Row(node.link.younger));
        }
    }

    /// Bytes allocated.
    pub(super) fn memory(&self) -> ByteCount {
        let chunks = self.chunks.iter().flatten().count() * size_of::<[Node<T>; CHUNK]>();
        let pointers = self.chunks.capacity() * size_of::<Option<Box<[Node<T>; CHUNK]>>>();
        ByteCount((chunks + pointers + size_of::<[Link; LISTS]>()) as u64)
    }

    /// The list whose end node `row` is.
    fn end_of(row: u32) -> Option<usize> {
        let list = END.wrapping_sub(row) as usize;
        (list < LISTS).then_some(list)
    }

    fn node(&self, row: u32) -> Option<&Node<T>> {
        let chunk = self.chunks.get(row as usize / CHUNK)?.as_ref()?;
        Some(&chunk[row as usize % CHUNK])
    }

    fn node_mut(&mut self, row: u32) -> &mut Node<T> {
        let chunk = self.chunks[row as usize / CHUNK]
            .as_mut()
            .expect("a chunk is allocated before its first row is linked");
        &mut chunk[row as usize % CHUNK]
    }

    fn link(&self, row: u32) -> Link {
        match Self::end_of(row) {
            Some(list) => self.ends[list],
            None => self.node(row).expect("links name linked rows").link,
        }
    }

    fn link_mut(&mut self, row: u32) -> &mut Link {
        match Self::end_of(row) {
            Some(list) => &mut self.ends[list],
            None => &mut self.node_mut(row).link,
        }
    }

    fn link_youngest(&mut self, list: usize, row: u32) {
        let end = END - list as u32;
        let older = self.ends[list].older;
        *self.link_mut(row) = Link {
            older,
            younger: end,
        };
        self.link_mut(older).younger = row;
        self.ends[list].older = row;
    }

    fn unlink(&mut self, row: u32) {
        let Link { older, younger } = self.link(row);
        self.link_mut(older).younger = younger;
        self.link_mut(younger).older = older;
    }

    fn grow(&mut self, chunk: usize) {
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        if self.chunks[chunk].is_none() {
            let blank = Node {
                link: Link {
                    older: UNLINKED,
                    younger: UNLINKED,
                },
                item: T::default(),
            };
            let nodes = vec![blank; CHUNK].into_boxed_slice();
            let nodes = nodes
                .try_into()
                .unwrap_or_else(|_| unreachable!("CHUNK nodes were made"));
            self.chunks[chunk] = Some(nodes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{CHUNK, Lists};
    use crate::Row;

    fn drain<const LISTS: usize>(lists: &mut Lists<u32, LISTS>, list: usize) -> Vec<u32> {
        let mut rows = Vec::new();
        while let Some(row) = lists.oldest(list) {
            assert_eq!(lists.take(row), row.0 + 1);
            rows.push(row.0);
        }
        rows
    }

    #[test]
    fn rows_leave_in_the_order_in_which_they_came() {
        let mut lists = Lists::<u32, 2>::new();
        for row in [5, 0, CHUNK as u32 * 3, 7, 1] {
            lists.push(0, Row(row), row + 1);
        }
        lists.take(Row(7));
        lists.requeue(0, Row(5));
        assert!(lists.contains(Row(5)) && !lists.contains(Row(7)) && !lists.contains(Row(9_999)));
        assert_eq!(drain(&mut lists, 0), [0, CHUNK as u32 * 3, 1, 5]);
        assert_eq!(lists.oldest(1), None);
    }

    #[test]
    fn joining_keeps_both_orders() {
        let mut lists = Lists::<u32, 3>::new();
        for (list, row) in [(0, 1), (1, 2), (1, 3), (0, 4)] {
            lists.push(list, Row(row), row + 1);
        }
        lists.join_older(1, 0);
        lists.join_older(1, 0);
        lists.push(0, Row(8), 9);
        lists.join_older(2, 1);
        assert_eq!(drain(&mut lists, 2), [1, 4, 2, 3]);
        assert_eq!(drain(&mut lists, 0), [8]);
        assert_eq!(drain(&mut lists, 1), [] as [u32; 0]);
    }

    #[test]
    #[should_panic(expected = "in a list already")]
    fn a_row_is_in_one_list_only() {
        let mut lists = Lists::<u32, 2>::new();
        lists.push(0, Row(3), 0);
        lists.push(1, Row(3), 0);
    }
}
