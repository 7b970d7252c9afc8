//! Asking nodes, several at once, and not for ever; and making up tokens.

use crate::Partition;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use ziggurat_base::{Code, Error, MemberId};
use ziggurat_engine::{command::Answer, token::TokenRange};
use ziggurat_proto::order::{NodeCommand, Outcome};

/// How long nodes may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// In all.
    pub(super) all: Duration,
    /// Once one of them has said yes.
    pub(super) rest: Duration,
}

impl Wait {
    /// Everybody has the same time.
    pub(super) fn all(span: Duration) -> Self {
        Self {
            all: span,
            rest: span,
        }
    }
}

/// Asks each node; answers by position. One that takes too long answers `RpcTimeout`, one that is no member any more
/// `ReplicaIsGone`.
pub(super) async fn ask_all(
    partition: &Partition,
    asked: Vec<(MemberId, NodeCommand)>,
    wait: Wait,
) -> Vec<Answer<Outcome>> {
    let mut until = Instant::now() + wait.all;
    let late = |(member, _): &(MemberId, NodeCommand)| {
        let what = format!("node {member} did not answer within {:?}", wait.all);
        Err(Error::new(Code::RpcTimeout, what))
    };
    let mut answers: Vec<_> = asked.iter().map(late).collect();
    let ask = |(number, (member, command))| async move {
        (number, partition.order(member, command).await)
    };
    let mut under_way: FuturesUnordered<_> = asked.into_iter().enumerate().map(ask).collect();
    while let Ok(Some((number, answer))) = timeout_at(until, under_way.next()).await {
        if answer.is_ok() {
            until = until.min(Instant::now() + wait.rest);
        }
        answers[number] = answer;
    }
    answers
}

/// The first thing that went wrong.
pub(super) fn first_error<T>(answers: Vec<Answer<T>>) -> Error {
    let mut errors = answers.into_iter().filter_map(Result::err);
    errors
        .next()
        .unwrap_or_else(|| Error::new(Code::Internal, "nobody was asked"))
}

/// A token for each slice of a payload. Nobody can guess them; two are the same once in 2^64 tries, which their node
/// notices.
pub(super) fn tokens(slices: &[u64]) -> Answer<Vec<TokenRange>> {
    let mut dice = vec![0; 8 * slices.len()];
    getrandom::fill(&mut dice).map_err(|error| {
        Error::new(
            Code::Internal,
            format!("the system gives no random numbers: {error}"),
        )
    })?;
    let (words, _) = dice.as_chunks::<8>();
    let mut offset = 0;
    let token = |(word, len): (&[u8; 8], &u64)| {
        let start = offset;
        offset += len;
        TokenRange {
            // 0 means "no token".
            token: u64::from_le_bytes(*word).max(1),
            offset: start,
            len: *len,
        }
    };
    Ok(words.iter().zip(slices).map(token).collect())
}

#[cfg(test)]
mod tests {
    use super::{Wait, ask_all, first_error, tokens};
    use crate::{EraStore, Partition};
    use std::{sync::Arc, time::Duration};
    use ziggurat_base::{Code, ManualClock, MemberId, SegmentId};
    use ziggurat_engine::{catalog::Config, command::MemberOffer};
    use ziggurat_proto::order::{NodeCommand, OrderApi as _, Outcome, Report};

    #[test]
    fn slices_get_tokens_of_their_own() {
        let list = tokens(&[3, 0, 5]).unwrap();
        let spans: Vec<_> = list.iter().map(|t| (t.offset, t.len)).collect();
        assert_eq!(spans, [(0, 3), (3, 0), (3, 5)]);
        assert!(list[0].token != list[1].token && list.iter().all(|t| t.token != 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_node_is_not_waited_for_once_another_has_answered() {
        let eras = EraStore::open(None).unwrap();
        let clock = Arc::new(ManualClock::default());
        let partition = Partition::open(Config::default(), clock, eras).unwrap();
        let offer = MemberOffer {
            address: "node:1".into(),
            in_process: false,
            feed: false,
            promotes: false,
        };
        let silent = partition.join_now(&offer).unwrap().member;
        let member = partition.join_now(&offer).unwrap().member;
        let command = NodeCommand::Unhost {
            segment: SegmentId(1),
        };
        let asked = [silent, member, MemberId(1)].map(|node| (node, command.clone()));
        let wait = Wait {
            all: Duration::from_secs(2),
            rest: Duration::from_millis(100),
        };
        let answering = async {
            let given = partition.orders(member).await.unwrap();
            let report = Report {
                member,
                serial: given[0].serial,
                outcome: Ok(Outcome::Done),
            };
            partition.report(&report).await.unwrap();
        };
        let began = tokio::time::Instant::now();
        let (answers, ()) = tokio::join!(ask_all(&partition, asked.into(), wait), answering);
        assert!(began.elapsed() < Duration::from_secs(1));
        assert_eq!(answers[1], Ok(Outcome::Done));
        let code = |answer: &Result<_, ziggurat_base::Error>| answer.as_ref().unwrap_err().code();
        assert_eq!(code(&answers[2]), Code::ReplicaIsGone, "no member");
        assert_eq!(first_error(answers).code(), Code::RpcTimeout);
    }
}
