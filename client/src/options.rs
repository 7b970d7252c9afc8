//! What a caller may say about a put.

use ziggurat_base::{Error, Key};
use ziggurat_engine::command::{Hint, Tags, Wish};

/// What goes for all objects of one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutOptions {
    /// Memory replicas, each on another segment; best effort, at least one. Default 1.
    pub wish: Wish,
}

impl PutOptions {
    /// Asks for `replicas` memory replicas.
    #[must_use]
    pub fn replicas(replicas: u8) -> Self {
        Self {
            wish: Wish {
                replicas,
                ..Wish::default()
            },
        }
    }

    /// Asks for `dfs` replicas in shard files besides; with no memory replicas for those alone.
    #[must_use]
    pub fn with_dfs(mut self, dfs: u8) -> Self {
        self.wish.dfs = dfs;
        self
    }

    /// Tries these segments first, in this order.
    #[must_use]
    pub fn preferring<'a>(mut self, segments: impl IntoIterator<Item = &'a str>) -> Self {
        self.wish.preferred = segments.into_iter().map(Into::into).collect();
        self
    }
}

/// One object of a batch.
#[derive(Clone, Copy, Debug)]
pub struct PutRequest<'a> {
    /// 1 to 4096 bytes.
    pub key: &'a [u8],
    /// The payload in parts, stored one behind the other; no parts are an empty value.
    pub parts: &'a [&'a [u8]],
    /// The object before this one in a prompt.
    pub parent: Option<&'a [u8]>,
    /// The group it belongs to.
    pub group: Option<&'a [u8]>,
    /// Whether it is likely to be used again.
    pub hint: Hint,
}

impl<'a> PutRequest<'a> {
    /// An object without relations.
    #[must_use]
    pub fn new(key: &'a [u8], parts: &'a [&'a [u8]]) -> Self {
        Self {
            key,
            parts,
            parent: None,
            group: None,
            hint: Hint::None,
        }
    }

    pub(crate) fn tags(&self) -> Result<Tags<'a>, Error> {
        let named = |what: &'static str| move |error: Error| error.while_doing(what);
        Ok(Tags {
            parent: self
                .parent
                .map(Key::new)
                .transpose()
                .map_err(named("the parent"))?,
            group: self
                .group
                .map(Key::new)
                .transpose()
                .map_err(named("the group"))?,
            hint: self.hint,
        })
    }
}
