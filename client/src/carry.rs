//! A client that carries the shard files of its roots, where no node does.

use crate::remote::{Link, Remote};
use futures_util::future::{Either, select};
use std::{
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::sleep;
use ziggurat_base::{Clock, Error};
use ziggurat_dfs::Carriers;
use ziggurat_engine::port::MemberApi as _;

/// Pause before a partition that could not be talked to is tried again.
const PAUSE: Duration = Duration::from_millis(500);

/// Carries for as long as the client lives.
pub(crate) async fn run(remote: Weak<Remote>, carriers: Arc<Carriers>, clock: Arc<dyn Clock>) {
    loop {
        let Some(remote) = remote.upgrade() else {
            return;
        };
        let linked = remote.link().await;
        let weak = Arc::downgrade(&remote);
        drop(remote);
        if let Ok(link) = linked {
            let error = carry(&link, &carriers, &*clock).await;
            if let Some(remote) = weak.upgrade() {
                let _error = remote.heed::<()>(&link, Err(error));
            }
        }
        sleep(PAUSE).await;
    }
}

/// Carries until the session or the membership is lost.
async fn carry(link: &Link, carriers: &Carriers, clock: &dyn Clock) -> Error {
    if let Err(error) = carriers.mount(&link.session, link.member).await {
        return error;
    }
    let listening = async {
        loop {
            match link.session.effects(link.member).await {
                Ok(effects) => effects.iter().for_each(|effect| carriers.heed(effect)),
                Err(error) => return error,
            }
        }
    };
    let carrying = carriers.carry(
        &link.session,
        link.member,
        link.era,
        clock,
        link.time_to_live,
    );
    match select(pin!(listening), pin!(carrying)).await {
        Either::Left((error, _)) | Either::Right((error, _)) => error,
    }
}
