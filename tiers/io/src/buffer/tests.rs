use super::{Buffer, Pool};
use std::{
    pin::Pin,
    task::{Context, Poll, Waker},
};
use ziggurat_base::{Code, Job, Result};

const GRAIN: usize = Pool::GRAIN;

fn pool(grains: usize) -> Pool {
    Pool::new((grains * GRAIN) as u64).unwrap()
}

fn poll(job: &mut Job<'static, Result<Buffer>>) -> Option<Buffer> {
    match Pin::new(job).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result.unwrap()),
        Poll::Pending => None,
    }
}

#[test]
fn buffers_are_aligned_and_of_the_length_that_was_asked() {
    let pool = pool(8);
    let one = pool.try_take(GRAIN + 3).unwrap();
    let two = pool.try_take(1).unwrap();
    for (buffer, len) in [(&one, GRAIN + 3), (&two, 1)] {
        assert_eq!(buffer.len(), len);
        assert!(buffer.as_ptr().addr().is_multiple_of(GRAIN));
    }
    assert_eq!(pool.in_use(), 3 * GRAIN as u64);
    drop((one, two));
    assert_eq!((pool.in_use(), pool.bytes()), (0, 8 * GRAIN as u64));
}

#[test]
fn a_small_request_does_not_overtake_a_large_one() {
    let pool = pool(4);
    let held = pool.try_take(3 * GRAIN).unwrap();
    let mut large = pool.take(2 * GRAIN);
    let mut small = pool.take(GRAIN);
    assert!(poll(&mut large).is_none());
    assert!(poll(&mut small).is_none(), "there is room, but no turn");
    assert!(pool.try_take(GRAIN).is_none());
    assert_eq!(pool.waiters(), 2);
    drop(held);
    assert_eq!(pool.waiters(), 0);
    let small = poll(&mut small).unwrap();
    let large = poll(&mut large).unwrap();
    assert_eq!((small.len(), large.len()), (GRAIN, 2 * GRAIN));
    assert!(
        large.offset() < small.offset(),
        "the first was served first"
    );
}

#[test]
fn whoever_leaves_the_line_lets_the_next_one_in() {
    let pool = pool(4);
    let held = pool.try_take(3 * GRAIN).unwrap();
    let mut large = pool.take(2 * GRAIN);
    let mut small = pool.take(GRAIN);
    assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
    drop(large);
    let small = poll(&mut small).unwrap();
    drop((held, small));
    assert_eq!((pool.in_use(), pool.waiters()), (0, 0));
}

#[test]
fn what_was_served_and_never_fetched_goes_back() {
    let pool = pool(2);
    let held = pool.try_take(2 * GRAIN).unwrap();
    let mut first = pool.take(2 * GRAIN);
    let mut second = pool.take(GRAIN);
    assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
    drop(held);
    assert_eq!(pool.in_use(), 2 * GRAIN as u64, "served already");
    drop(first);
    drop(poll(&mut second).unwrap());
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn shortening_gives_whole_grains_back() {
    let pool = pool(3);
    let mut held = pool.try_take(3 * GRAIN).unwrap();
    held.fill(7);
    let mut waiting = pool.take(GRAIN);
    assert!(poll(&mut waiting).is_none());
    held.shorten(GRAIN + 1);
    assert_eq!(held.len(), GRAIN + 1);
    poll(&mut waiting).unwrap().fill(9);
    assert!(held.iter().all(|byte| *byte == 7));
}

#[test]
fn what_can_never_come_is_refused_with_both_numbers() {
    let pool = pool(2);
    for len in [0, 2 * GRAIN + 1] {
        assert!(pool.try_take(len).is_none());
        let error = pollster::block_on(pool.take(len)).unwrap_err();
        assert_eq!(error.code(), Code::InvalidParams);
        assert!(error.what().contains(&len.to_string()), "{error}");
        assert!(error.what().contains("8192"), "{error}");
    }
}

#[test]
fn threads_that_share_a_small_pool_all_get_their_turn() {
    let pool = pool(8);
    std::thread::scope(|scope| {
        for thread in 0..6_u8 {
            let pool = pool.clone();
            scope.spawn(move || {
                for round in 0..500_usize {
                    let len = 1 + (round * 997 + usize::from(thread) * 4099) % (5 * GRAIN);
                    let mut buffer = pollster::block_on(pool.take(len)).unwrap();
                    buffer.fill(thread);
                    assert!(buffer.iter().all(|byte| *byte == thread));
                }
            });
        }
    });
    assert_eq!((pool.in_use(), pool.waiters()), (0, 0));
}
