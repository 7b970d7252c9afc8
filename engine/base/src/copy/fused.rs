//! Copy and sum in one walk through the registers, for processors with AVX-512 and wide carry-less multiplication.
//!
//! A CRC is the remainder of a division of polynomials, so bytes may be replaced by what they leave further on: 16 bytes
//! times x^2048, reduced, added to those 2048 bits behind them. Four registers carry the remainders of 256 bytes; each
//! turn stores the next 256 bytes and folds the remainders into them. What is left at the end, 256 bytes with the same
//! remainder as all that passed, is summed as any bytes are.
//!
//! Every byte is loaded once: what is summed is what was stored, even when somebody changes the source meanwhile.

use super::Caching;
use core::arch::x86_64::{
    __m512i, _mm_cvtsi32_si128, _mm_sfence, _mm512_clmulepi64_epi128, _mm512_loadu_si512,
    _mm512_set4_epi64, _mm512_store_si512, _mm512_storeu_si512, _mm512_stream_si512,
    _mm512_ternarylogic_epi64, _mm512_xor_si512, _mm512_zextsi128_si512,
};
use crc32fast::Hasher;

/// Bytes of a register, and of a cache line.
const WIDE: usize = 64;

/// Bytes of a turn.
const BLOCK: usize = 4 * WIDE;

/// How far ahead the lines to be written are asked for. The processor sees the walk through the source and fetches it by
/// itself, but begins to fetch what is written only when it is: nearer comes too late, further gains nothing.
const AHEAD: usize = 2048;

/// Fewer bytes are not worth the way in and out.
pub(super) const LEN_MIN: usize = 2 * BLOCK;

/// What a remainder leaves one block further on, for its low and its high 8 bytes.
const FURTHER: (u64, u64) = (power(8 * BLOCK as u32 + 32), power(8 * BLOCK as u32 - 32));

/// x^`exponent` modulo the polynomial of CRC-32, lowest power in the highest bit, one place up: the product of two such
/// numbers comes out one place down.
const fn power(exponent: u32) -> u64 {
    let mut rest: u32 = 1 << 31;
    let mut done = 0;
    while done < exponent {
        let carry = rest & 1;
        rest >>= 1;
        if carry != 0 {
            rest ^= 0xedb8_8320;
        }
        done += 1;
    }
    (rest as u64) << 1
}

/// Whether this processor can.
pub(super) fn available() -> bool {
    is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq")
}

/// # Safety
/// [`available`]; `source` readable and `target` writable for `len` bytes, at least [`LEN_MIN`], without overlap.
#[target_feature(enable = "avx512f,vpclmulqdq")]
pub(super) unsafe fn copy_and_sum(
    target: *mut u8,
    source: *const u8,
    len: usize,
    caching: Caching,
) -> u32 {
    // Stores of whole lines only: one that spans two would wait for loads whose addresses end like its own.
    let head = target.align_offset(WIDE);
    let walk = (len - head) / BLOCK * BLOCK;
    // SAFETY: head + walk <= len, so all three parts lie in the caller's ranges; behind the head the target is aligned.
    unsafe {
        let sum = piece(Hasher::new(), target, source, head).finalize();
        let hasher = blocks(target.add(head), source.add(head), walk, sum, caching);
        let done = head + walk;
        piece(hasher, target.add(done), source.add(done), len - done).finalize()
    }
}

/// Copies a few bytes and goes on with the sum of what was copied.
///
/// # Safety
/// Ranges of `len` bytes without overlap, valid for reads and for writes.
unsafe fn piece(mut hasher: Hasher, target: *mut u8, source: *const u8, len: usize) -> Hasher {
    // SAFETY: the caller's promise; the target has just been written.
    unsafe {
        std::ptr::copy_nonoverlapping(source, target, len);
        hasher.update(std::slice::from_raw_parts(target, len));
    }
    hasher
}

/// Copies whole blocks and goes on from the sum of what was before them.
///
/// # Safety
/// As [`copy_and_sum`], with a target on a line and a `len` of at least one whole block.
#[target_feature(enable = "avx512f,vpclmulqdq")]
unsafe fn blocks(
    target: *mut u8,
    source: *const u8,
    len: usize,
    before: u32,
    caching: Caching,
) -> Hasher {
    let (low, high) = (FURTHER.0 as i64, FURTHER.1 as i64);
    let further = _mm512_set4_epi64(high, low, high, low);
    // SAFETY: `at` is at most `len - BLOCK` in all uses, and the target is aligned at every multiple of a line.
    let turn = |at: usize| unsafe { block(target.add(at), source.add(at), caching) };
    let mut sums = turn(0);
    let register = _mm512_zextsi128_si512(_mm_cvtsi32_si128(!before as i32));
    sums[0] = _mm512_xor_si512(sums[0], register);
    for at in (BLOCK..len).step_by(BLOCK) {
        if caching == Caching::Fill && at + AHEAD < len {
            ask_to_write(target.wrapping_add(at + AHEAD));
        }
        let next = turn(at);
        for (sum, next) in sums.iter_mut().zip(next) {
            *sum = fold(*sum, further, next);
        }
    }
    if caching == Caching::Bypass {
        // Streaming stores come before everything that follows, as ordinary stores do.
        _mm_sfence();
    }
    let mut left = [0; BLOCK];
    for (bytes, sum) in left.chunks_exact_mut(WIDE).zip(sums) {
        // SAFETY: the chunk has the length of the register.
        unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), sum) };
    }
    // The remainder so far is in these bytes: the sum begins with an empty register.
    let mut hasher = Hasher::new_with_initial(!0);
    hasher.update(&left);
    hasher
}

/// Copies one block and hands out what it was.
///
/// # Safety
/// [`BLOCK`] bytes to read and to write; the target lies on a line.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn block(target: *mut u8, source: *const u8, caching: Caching) -> [__m512i; 4] {
    // SAFETY: the caller's promise, for each of the four lines.
    unsafe {
        let bytes = [0, 1, 2, 3].map(|line| _mm512_loadu_si512(source.add(line * WIDE).cast()));
        for (line, bytes) in bytes.into_iter().enumerate() {
            let to = target.add(line * WIDE).cast();
            match caching {
                Caching::Fill => _mm512_store_si512(to, bytes),
                Caching::Bypass => _mm512_stream_si512(to, bytes),
            }
        }
        bytes
    }
}

/// The remainder of `sum`, one block further on, and of `next`.
#[target_feature(enable = "avx512f,vpclmulqdq")]
#[inline]
fn fold(sum: __m512i, further: __m512i, next: __m512i) -> __m512i {
    /// The exclusive or of three.
    const XOR: i32 = 0x96;
    let low = _mm512_clmulepi64_epi128::<0x00>(sum, further);
    let high = _mm512_clmulepi64_epi128::<0x11>(sum, further);
    _mm512_ternarylogic_epi64::<XOR>(low, high, next)
}

/// Asks for the lines of one block in order to write them.
#[inline]
fn ask_to_write(block: *mut u8) {
    for line in 0..BLOCK / WIDE {
        // SAFETY: a prefetch may name any address and changes nothing that the program can observe; processors without
        // this one skip it.
        unsafe {
            core::arch::asm!(
                "prefetchw [{0}]",
                in(reg) block.wrapping_add(line * WIDE),
                options(nostack, preserves_flags, readonly)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::power;

    #[test]
    fn powers_are_those_of_the_literature() {
        // Folding by 512 and by 128 bits, as in Intel's paper on fast CRC computation.
        let pairs = [
            (512, 0x1_5444_2bd4, 0x1_c6e4_1596),
            (128, 0x1_7519_97d0, 0x0_ccaa_009e),
        ];
        for (bits, low, high) in pairs {
            assert_eq!((power(bits + 32), power(bits - 32)), (low, high));
        }
    }
}
