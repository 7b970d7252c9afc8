//! Copy and sum in one pass.
//!
//! Two ways for the target, both exact: through the cache, because it is about to be used, and past the cache with
//! streaming stores, because it will not be read soon or does not fit (see [`Caching`]). Processors with AVX-512 do either
//! in one walk through their registers (`copy/fused.rs`); others copy in steps and sum each step while the cache has it.
//! Measured ratios to `memcpy` are in docs/benchmarks.md.

#[cfg(target_arch = "x86_64")]
mod fused;

use crate::Crc32;

/// Bytes copied before they are summed: small enough to be in the first-level cache when the sum comes by.
const STEP: usize = 4096;

/// Below this many bytes a streaming store costs more than it saves.
const STREAM_MIN: usize = 32 * 1024;

/// What a copy does with the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// The target passes through the cache: it is used next.
    Fill,
    /// The target goes to memory directly, which is faster: it is not used soon, or is larger than the cache anyway.
    Bypass,
}

/// Copies `source` over `target`, through the cache, and sums it. Both must have the same length.
///
/// # Panics
/// When the lengths differ.
pub fn copy_and_sum(target: &mut [u8], source: &[u8]) -> Crc32 {
    assert_eq!(target.len(), source.len(), "copy needs equal lengths");
    let (target, source, len) = (target.as_mut_ptr(), source.as_ptr(), source.len());
    // SAFETY: both slices are valid for their length, and a shared and a unique borrow cannot overlap.
    unsafe { raw_copy_and_sum(target, source, len, Caching::Fill) }
}

/// Copies and sums what arrives in the target. Others may race on the source (a segment): bytes that change meanwhile give
/// a sum that does not fit them, which is what the proof on read is for.
///
/// # Safety
/// `source` must be readable and `target` writable for `len` bytes, and they must not overlap.
pub(crate) unsafe fn raw_copy_and_sum(
    target: *mut u8,
    source: *const u8,
    len: usize,
    caching: Caching,
) -> Crc32 {
    #[cfg(target_arch = "x86_64")]
    if len >= fused::LEN_MIN && fused::available() {
        // SAFETY: it is available and the length is enough; the rest is the caller's promise.
        return Crc32(unsafe { fused::copy_and_sum(target, source, len, caching) });
    }
    // Through the cache in any case: past it, only the source could be summed, and that may have changed since.
    let _ = caching;
    let mut hasher = crc32fast::Hasher::new();
    let mut at = 0;
    while at < len {
        let here = STEP.min(len - at);
        // SAFETY: `at + here <= len`, so the caller's promise covers both ranges; the target was just initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(source.add(at), target.add(at), here);
            hasher.update(std::slice::from_raw_parts(target.add(at), here));
        }
        at += here;
    }
    Crc32(hasher.finalize())
}

/// Copies past the cache and sums. For targets that are not read soon.
///
/// # Safety
/// As [`raw_copy_and_sum`]; additionally `source` must not change meanwhile (a caller's buffer, not a segment).
pub(crate) unsafe fn raw_stream_and_sum(target: *mut u8, source: *const u8, len: usize) -> Crc32 {
    if len < STREAM_MIN {
        // SAFETY: the caller's promise, unchanged.
        return unsafe { raw_copy_and_sum(target, source, len, Caching::Fill) };
    }
    #[cfg(target_arch = "x86_64")]
    if fused::available() {
        // SAFETY: it is available and the length is enough; the rest is the caller's promise.
        return Crc32(unsafe { fused::copy_and_sum(target, source, len, Caching::Bypass) });
    }
    // SAFETY: the caller's promise, unchanged.
    unsafe { stream_in_steps(target, source, len) }
}

/// # Safety
/// As [`raw_stream_and_sum`].
unsafe fn stream_in_steps(target: *mut u8, source: *const u8, len: usize) -> Crc32 {
    let mut hasher = crc32fast::Hasher::new();
    let mut at = 0;
    while at < len {
        let here = (4 * STEP).min(len - at);
        // SAFETY: `at + here <= len`, so the caller's promise covers both ranges, and the source is initialised and
        // unchanging.
        unsafe {
            stream(target.add(at), source.add(at), here);
            hasher.update(std::slice::from_raw_parts(source.add(at), here));
        }
        at += here;
    }
    fence();
    Crc32(hasher.finalize())
}

/// Orders streaming stores before everything that follows, as ordinary stores are.
fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64; the instruction touches no memory.
    unsafe {
        core::arch::x86_64::_mm_sfence();
    }
}

/// # Safety
/// Valid, non-overlapping ranges of `len` bytes.
unsafe fn stream(target: *mut u8, source: *const u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the feature was detected; the ranges are the caller's promise.
        return unsafe { stream_avx2(target, source, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source, target, len) }
}

/// # Safety
/// Valid, non-overlapping ranges of `len` bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn stream_avx2(target: *mut u8, source: *const u8, len: usize) {
    use core::arch::x86_64::{_mm256_loadu_si256, _mm256_stream_si256};
    const WIDE: usize = 32;
    let head = target.align_offset(WIDE).min(len);
    let end = head + (len - head) / WIDE * WIDE;
    // SAFETY: head <= end <= len, so every access lies in the caller's ranges; after `head` bytes the target is aligned to
    // the vector's width, as the streaming store demands.
    unsafe {
        std::ptr::copy_nonoverlapping(source, target, head);
        for at in (head..end).step_by(WIDE) {
            _mm256_stream_si256(
                target.add(at).cast(),
                _mm256_loadu_si256(source.add(at).cast()),
            );
        }
        std::ptr::copy_nonoverlapping(source.add(end), target.add(end), len - end);
    }
}

#[cfg(test)]
mod tests {
    use super::{Caching, raw_copy_and_sum, raw_stream_and_sum, stream_in_steps};
    use crate::Crc32;

    type Copy = unsafe fn(*mut u8, *const u8, usize) -> Crc32;

    /// # Safety
    /// As [`raw_copy_and_sum`].
    unsafe fn bypass(target: *mut u8, source: *const u8, len: usize) -> Crc32 {
        // SAFETY: the caller's promise.
        unsafe { raw_copy_and_sum(target, source, len, Caching::Bypass) }
    }

    /// # Safety
    /// As [`raw_copy_and_sum`].
    unsafe fn fill(target: *mut u8, source: *const u8, len: usize) -> Crc32 {
        // SAFETY: the caller's promise.
        unsafe { raw_copy_and_sum(target, source, len, Caching::Fill) }
    }

    const COPIES: [Copy; 4] = [fill, bypass, raw_stream_and_sum, stream_in_steps];

    #[test]
    fn every_way_copies_and_sums_exactly() {
        let source: Vec<u8> = (0..200_003_u32).map(|i| (i * 31 / 7) as u8).collect();
        let lens = (0..1100).chain([4096, 4097, 32_768, 65_536, 70_001, 200_000]);
        for (number, len) in lens.enumerate() {
            let (start, shift) = (number % 3, number * 7 % 129);
            let from = &source[start..start + len];
            for copy in COPIES {
                let mut target = vec![0xa5; shift + len + 4];
                // SAFETY: both ranges are `len` bytes long, in separate allocations.
                let sum = unsafe { copy(target.as_mut_ptr().add(shift), from.as_ptr(), len) };
                assert_eq!(sum, Crc32::of(from), "{len} bytes");
                assert!(target[shift..shift + len] == *from, "{len} bytes");
                let around = [&target[..shift], &target[shift + len..]].concat();
                assert!(around.iter().all(|byte| *byte == 0xa5), "{len} bytes");
            }
        }
    }
}
