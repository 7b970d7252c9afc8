//! A call to the master: a message there, a message back, and a deadline for both.

use super::{
    clock::SimClock,
    promise::promise,
    world::{Process, Sim, World},
};
use ziggurat_base::{Code, Error};
use ziggurat_engine::command::Answer;

/// Runs `work` at the master and brings back what it answers. The request is under way from the first poll on; whether
/// an unanswered one was served is not known.
pub(crate) async fn call<T: Send + 'static>(
    sim: &Sim,
    from: Process,
    work: impl FnOnce(&mut World) -> Answer<T> + Send + 'static,
) -> Answer<T> {
    let (giver, answer) = promise();
    let (rate, deadline) = sim.with(|world| {
        let life = world.health(from).life;
        let failed = giver.clone();
        let lost = move |_: &mut World| failed.give(Err(broken()));
        let failed = giver.clone();
        let arrives = move |world: &mut World| {
            let answer = work(world);
            let lost = move |_: &mut World| failed.give(Err(broken()));
            let returns = move |world: &mut World| {
                if world.health(from).life == life {
                    giver.give(answer);
                }
            };
            world.send(Process::Master, from, returns, lost);
        };
        world.send(from, Process::Master, arrives, lost);
        (world.rate(from), world.params.rpc_deadline)
    });
    let clock = SimClock {
        sim: sim.clone(),
        rate,
    };
    let answer = clock.within(deadline, answer).await;
    answer.unwrap_or_else(|| Err(Error::new(Code::RpcTimeout, "no answer from the master")))
}

fn broken() -> Error {
    Error::new(Code::RpcFail, "the connection to the master broke")
}
