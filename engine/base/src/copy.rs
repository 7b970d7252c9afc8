//! Copy and sum in one pass.
//!
//! Two ways, both exact: through the cache in steps of 4 KiB, where the sum reads what the copy has just written (the
//! destination is about to be used: a get); and past the cache with streaming stores, where the sum reads the source
//! (the destination will not be read soon: a put into a segment). Measured ratios to `memcpy` are in docs/benchmarks.md.

use crate::Crc32;

/// Bytes copied before they are summed: small enough to be in the first-level cache when the sum comes by.
const STEP: usize = 4096;

/// Below this many bytes a streaming store costs more than it saves.
const STREAM_MIN: usize = 32 * 1024;

/// Copies `source` over `target` and sums it. Both must have the same length.
///
/// # Panics
/// When the lengths differ.
pub fn copy_and_sum(target: &mut [u8], source: &[u8]) -> Crc32 {
    assert_eq!(target.len(), source.len(), "copy needs equal lengths");
    // SAFETY: both slices are valid for their length, and a shared and a unique borrow cannot overlap.
    unsafe { raw_copy_and_sum(target.as_mut_ptr(), source.as_ptr(), source.len()) }
}

/// [`copy_and_sum`] over raw memory that others may race on (a segment).
///
/// # Safety
/// `source` must be readable and `target` writable for `len` bytes, and they must not overlap. Bytes that change
/// meanwhile give a sum that does not fit them, which is what the proof on read is for.
pub(crate) unsafe fn raw_copy_and_sum(target: *mut u8, source: *const u8, len: usize) -> Crc32 {
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

/// Copies past the cache and sums the source. For targets that are not read soon.
///
/// # Safety
/// As [`raw_copy_and_sum`]; additionally `source` must not change meanwhile (a caller's buffer, not a segment).
pub(crate) unsafe fn raw_stream_and_sum(target: *mut u8, source: *const u8, len: usize) -> Crc32 {
    if len < STREAM_MIN {
        // SAFETY: the caller's promise, unchanged.
        return unsafe { raw_copy_and_sum(target, source, len) };
    }
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
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the feature was detected; the ranges are the caller's promise.
            return unsafe { stream_avx512(target, source, len) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the feature was detected; the ranges are the caller's promise.
            return unsafe { stream_avx2(target, source, len) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(source, target, len) }
}

macro_rules! stream_with {
    ($name:ident, $feature:literal, $width:literal, $load:ident, $store:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $feature)]
        /// # Safety
        /// Valid, non-overlapping ranges of `len` bytes.
        unsafe fn $name(target: *mut u8, source: *const u8, len: usize) {
            use core::arch::x86_64::{$load, $store};
            let head = target.align_offset($width).min(len);
            let wide = (len - head) / $width * $width;
            // SAFETY: head + wide <= len, so every access lies in the caller's ranges; after `head` bytes the target is
            // aligned to the vector's width, as the streaming store demands.
            unsafe {
                std::ptr::copy_nonoverlapping(source, target, head);
                let mut at = head;
                while at < head + wide {
                    $store(target.add(at).cast(), $load(source.add(at).cast()));
                    at += $width;
                }
                std::ptr::copy_nonoverlapping(source.add(at), target.add(at), len - at);
            }
        }
    };
}

stream_with!(
    stream_avx512,
    "avx512f",
    64,
    _mm512_loadu_si512,
    _mm512_stream_si512
);
stream_with!(
    stream_avx2,
    "avx2",
    32,
    _mm256_loadu_si256,
    _mm256_stream_si256
);

#[cfg(test)]
mod tests {
    use super::{copy_and_sum, raw_stream_and_sum, stream_avx2};
    use crate::Crc32;

    #[test]
    fn both_ways_copy_and_sum_exactly() {
        let source: Vec<u8> = (0..200_003_u32).map(|i| (i * 31 / 7) as u8).collect();
        for (start, len) in [
            (0, 0),
            (1, 1),
            (3, 4096),
            (0, 4097),
            (5, 65_536),
            (1, 200_000),
        ] {
            let from = &source[start..start + len];
            let mut target = vec![0; len + 7];
            assert_eq!(copy_and_sum(&mut target[7..], from), Crc32::of(from));
            assert_eq!(&target[7..], from);
            let mut target = vec![0xa5; len + 9];
            // SAFETY: both ranges are `len` bytes long, in separate allocations.
            let sum = unsafe { raw_stream_and_sum(target.as_mut_ptr().add(5), from.as_ptr(), len) };
            assert_eq!((sum, &target[5..5 + len]), (Crc32::of(from), from));
            assert_eq!(
                target[5 + len..],
                [0xa5; 4],
                "nothing behind the end is touched"
            );
        }
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn narrower_streaming_stores_agree() {
        if !is_x86_feature_detected!("avx2") {
            return;
        }
        let source: Vec<u8> = (0..1000_u32).map(|i| i as u8).collect();
        let mut target = vec![0; 1000];
        // SAFETY: AVX2 was detected and both ranges are 990 bytes long.
        unsafe { stream_avx2(target.as_mut_ptr().add(3), source.as_ptr().add(2), 990) };
        assert_eq!(target[3..993], source[2..992]);
    }
}
