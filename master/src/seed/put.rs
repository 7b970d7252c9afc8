//! A foreign write: space, tokens that the nodes know, and in the end the proof of its bytes by their owners.

use super::{
    Seed, TENANT,
    ask::{Wait, ask_all, first_error, tokens},
    peers::OpenWrite,
};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use ziggurat_base::{Code, Error, Key, MemberId};
use ziggurat_engine::{
    command::{Answer, Hint, PutAnswer, PutEnd, PutGrant, PutItem, Tags, Target, Written},
    port::MetadataApi as _,
    token::{Announce, TokenRange, TokenUse},
};
use ziggurat_proto::{
    order::{NodeCommand, Outcome, Prove},
    seed::{Handle, Peer, Replica, ReplicaState, SeedPut, SoftPin},
};

/// How long nodes may take to acknowledge tokens.
const ANNOUNCE_WAIT: Duration = Duration::from_secs(2);

/// How long the owners may take to prove a payload, beside the time for its bytes.
const PROVE_WAIT: Duration = Duration::from_secs(2);

/// At least so many bytes are proved in a second.
const PROVE_RATE: u64 = 200 << 20;

/// How long a put waits for room that eviction will make, and how often it looks.
const ROOM_WAIT: Duration = Duration::from_millis(500);
const ROOM_PAUSE: Duration = Duration::from_millis(10);

impl Seed {
    /// Reserves space and lets the client at it.
    pub(super) async fn open_to_write(
        &self,
        peer: Peer,
        put: &SeedPut<'_>,
    ) -> Answer<Vec<Replica>> {
        if put.hard_pin {
            return Err(Error::new(
                Code::NotSupported,
                "with_hard_pin: objects cannot be kept from eviction",
            ));
        }
        let member = self.peers.member(peer)?;
        let grant = self.reserve(member, put).await?;
        let targets = grant.targets.as_slice();
        let mut write = OpenWrite::new(self.partition.clone(), grant.ticket, put.len(), targets);
        let each = targets.iter().map(|_| tokens(&put.slices));
        let each: Vec<Vec<TokenRange>> = each.collect::<Answer<_>>()?;
        let span = self.partition.config().write_release;
        let announce = |(target, tokens): (&Target, &Vec<TokenRange>)| {
            let announce = Announce {
                ticket: grant.ticket,
                placement: target.placement.clone(),
                object_len: put.len(),
                allows: TokenUse::Write,
                span,
                tokens: tokens.clone(),
            };
            (target.member, NodeCommand::Announce(announce))
        };
        let asked = targets.iter().zip(&each).map(announce).collect();
        let acknowledged = ask_all(&self.partition, asked, Wait::all(ANNOUNCE_WAIT)).await;
        for ((_, knows), answer) in write.targets.iter_mut().zip(&acknowledged) {
            *knows = answer.is_ok();
        }
        if !acknowledged.iter().any(Result::is_ok) {
            return Err(first_error(acknowledged).while_doing("announce a put to its nodes"));
        }
        let known = write.targets.iter().zip(&each).filter(|((_, k), _)| *k);
        let replicas = known
            .map(|((target, _), tokens)| self.replica(target, tokens, ReplicaState::Processing))
            .collect();
        self.peers.keep(peer, put.key, write)?;
        Ok(replicas)
    }

    /// Asks for space. A full partition makes room by and by: foreign clients do not know its word for that, so it is waited
    /// for here.
    async fn reserve(&self, member: MemberId, put: &SeedPut<'_>) -> Answer<PutGrant> {
        let hint = match put.soft_pin {
            SoftPin::Enable(_) => Hint::Hot,
            SoftPin::Preserve | SoftPin::Disable => Hint::None,
        };
        let item = PutItem {
            tags: Tags {
                hint,
                ..Tags::default()
            },
            ..PutItem::new(put.key, put.len())
        };
        let items = [item];
        let until = Instant::now() + ROOM_WAIT;
        loop {
            let answers = self
                .partition
                .put_start_as(member, TENANT, &items, &put.wish)
                .await?;
            let error = match answers.into_iter().next() {
                Some(Ok(PutAnswer::Granted(grant))) => return Ok(grant),
                Some(Ok(PutAnswer::Existed)) => {
                    return Err(Error::new(
                        Code::ObjectAlreadyExists,
                        "the key is readable already",
                    ));
                }
                Some(Err(error)) => error,
                None => return Err(Code::Internal.into()),
            };
            if error.code() != Code::Backpressure {
                return Err(error);
            }
            if Instant::now() >= until {
                return Err(Error::new(Code::NoAvailableHandle, error.what().to_owned()));
            }
            sleep(ROOM_PAUSE).await;
        }
    }

    /// Ends the client's open write of a key.
    pub(super) async fn end_write(&self, peer: Peer, key: Key<'_>) -> Answer<()> {
        let Some(write) = self.peers.take(peer, key) else {
            return Err(Error::new(
                Code::InvalidWrite,
                format!("this connection has no open write of {key}: PutStart comes first"),
            ));
        };
        let known = write.targets.iter().filter(|(_, knows)| *knows);
        let prove = |(target, _): &(Target, bool)| {
            let prove = Prove {
                ticket: write.ticket,
                placement: target.placement.clone(),
                object_len: write.object_len,
            };
            (target.member, NodeCommand::Prove(prove))
        };
        let asked = known.map(prove).collect();
        let wait = PROVE_WAIT + Duration::from_secs(write.object_len / PROVE_RATE);
        let proofs = ask_all(&self.partition, asked, Wait::all(wait)).await;
        let mut good = proofs.iter().filter_map(|proof| match proof {
            Ok(Outcome::Proof(crc)) => Some(*crc),
            _ => None,
        });
        let Some(crc) = good.next() else {
            return Err(first_error(proofs).while_doing("prove a put"));
        };
        if good.any(|other| other != crc) {
            return Err(Error::new(
                Code::ChecksumMismatch,
                "the replicas were written with different bytes: none is kept",
            ));
        }
        let mut proved = proofs.iter().map(Result::is_ok);
        let results = write.targets.iter().map(|(_, knows)| {
            // A node that never knew the tokens has nothing to prove.
            let is_good = *knows && proved.next() == Some(true);
            Some(is_good)
        });
        let end = PutEnd {
            ticket: write.ticket,
            crc,
            written: Written::Each(results.collect()),
        };
        let done = self.partition.put_end(&[end]).await?;
        done.into_iter().collect::<Answer<Vec<_>>>()?;
        write.ended();
        Ok(())
    }

    /// A replica as a client sees it, with a handle for each token.
    pub(super) fn replica(
        &self,
        target: &Target,
        tokens: &[TokenRange],
        state: ReplicaState,
    ) -> Replica {
        let endpoint = self.partition.address_of(target.member);
        let handle = |range: &TokenRange| Handle {
            segment: target.placement.segment,
            endpoint: endpoint.clone(),
            token: range.token,
            len: range.len,
        };
        Replica {
            state,
            handles: tokens.iter().map(handle).collect(),
        }
    }
}
