//! A hint to the cache, safe to call from the engine, which forbids `unsafe`.

/// Asks for the cache line of `item` ahead of use. No effect on what the program computes.
#[inline]
pub fn prefetch<T: ?Sized>(item: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch may name any address, and this one comes from a live reference; it reads nothing that the
    // program can observe.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = item;
}
