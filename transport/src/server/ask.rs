//! What a request is about: space that its asker knows, or bytes that a foreign client names by a token.

use super::ahead::Fetched;
use crate::counts::Fault;
use std::sync::Arc;
use ziggurat_base::{
    Job, MemberId, Result, SegmentId, Ticket,
    checksum::chunk_count,
    frame::{BY_TOKEN, Header, Kind, Span, TokenSpan},
};
use ziggurat_engine::port::{Access, Host, ReadSlot, WriteSlot};

pub(super) enum Ask {
    Space(Access, Span),
    Token(TokenSpan),
}

impl Ask {
    /// Reads the meta of a request and checks it against the header.
    pub(super) fn decode(header: &Header, meta: &[u8]) -> Result<Self, Fault> {
        let ask = if header.flags & BY_TOKEN == 0 {
            let access = Access {
                member: header.member,
                segment: header.segment,
                ticket: header.ticket,
            };
            let span = Span::decode(meta, header.segment).map_err(|_| Fault::Span)?;
            Self::Space(access, span)
        } else {
            let named = (header.member, header.segment, header.ticket);
            if named != (MemberId(0), SegmentId(0), Ticket::NONE) {
                return Err(Fault::Span);
            }
            Self::Token(TokenSpan::decode(meta).map_err(|_| Fault::Span)?)
        };
        if !ask.fits(header) {
            return Err(Fault::Length);
        }
        Ok(ask)
    }

    fn fits(&self, header: &Header) -> bool {
        let table_len = u64::from(header.table_len);
        let sums_len = 4 * chunk_count(self.len());
        match (header.kind, self) {
            (Kind::Write, Self::Space(..)) => {
                header.body_len == self.len() && table_len == sums_len
            }
            (Kind::Write, Self::Token(_)) => {
                header.body_len == self.len() && (table_len == sums_len || table_len == 0)
            }
            _ => header.body_len == 0 && table_len == 0,
        }
    }

    /// Bytes in the range.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Space(_, span) => span.len,
            Self::Token(span) => span.len,
        }
    }

    pub(super) fn open_write(&self, host: &dyn Host) -> Result<Box<dyn WriteSlot>> {
        match self {
            Self::Space(access, span) => host.open_write(*access, span),
            Self::Token(span) => host.open_token_write(span),
        }
    }

    pub(super) fn open_read(&self, host: &dyn Host) -> Result<Box<dyn ReadSlot>> {
        match self {
            Self::Space(access, span) => host.open_read(*access, span),
            Self::Token(span) => host.open_token_read(span),
        }
    }

    /// The fetch of a read whose bytes have to be fetched first.
    pub(super) fn fetch(&self, host: &Arc<dyn Host>) -> Option<Job<'static, Fetched>> {
        let Self::Space(access, span) = self else {
            return None;
        };
        // A job that nobody polls has done nothing.
        drop(host.fetch(*access, span)?);
        let (host, access, span) = (Arc::clone(host), *access, span.clone());
        Some(Box::pin(async move {
            match host.fetch(access, &span) {
                Some(fetching) => fetching.await,
                // Its place has gone since it was asked.
                None => host.open_read(access, &span),
            }
        }))
    }

    /// Whether it is about a whole object.
    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Self::Space(_, span) if span.len == span.object_len)
    }
}

#[cfg(test)]
mod tests {
    use super::Ask;
    use crate::counts::Fault;
    use ziggurat_base::{
        CHUNK, SegmentId, Ticket,
        frame::{BY_TOKEN, Header, Kind, TokenSpan},
    };

    fn write(len: u64, table_len: u32) -> Header {
        Header {
            flags: BY_TOKEN,
            body_len: len,
            table_len,
            ..Header::new(Kind::Write, 1)
        }
    }

    #[test]
    fn a_write_by_token_has_its_sums_or_none() {
        let len = CHUNK as u64 + 1;
        let meta = TokenSpan {
            token: 7,
            offset: 3,
            len,
        }
        .encode();
        let fault = |header: &Header| Ask::decode(header, &meta).err();
        assert_eq!(fault(&write(len, 0)), None);
        assert_eq!(fault(&write(len, 8)), None);
        assert_eq!(fault(&write(len, 4)), Some(Fault::Length));
        assert_eq!(fault(&write(len - 1, 8)), Some(Fault::Length));
        let read = Header {
            flags: BY_TOKEN,
            ..Header::new(Kind::Read, 1)
        };
        assert_eq!(fault(&read), None);
        let named = Header {
            ticket: Ticket(1),
            ..read
        };
        assert_eq!(fault(&named), Some(Fault::Span));
        let named = Header {
            segment: SegmentId(1),
            ..read
        };
        assert_eq!(fault(&named), Some(Fault::Span));
        assert_eq!(Ask::decode(&read, &meta[1..]).err(), Some(Fault::Span));
    }
}
