//! The processor: instructions that make checksums and copies fast.

use super::Check;

/// Whether checksums are computed by carry-less multiplication.
pub(super) fn checksums() -> Check {
    const NAME: &str = "checksums";
    #[cfg(target_arch = "x86_64")]
    let (is_fast, wanted) = (
        is_x86_feature_detected!("pclmulqdq") && is_x86_feature_detected!("sse4.1"),
        "pclmulqdq and sse4.1",
    );
    #[cfg(target_arch = "aarch64")]
    let (is_fast, wanted) = (std::arch::is_aarch64_feature_detected!("crc"), "crc");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let (is_fast, wanted) = (false, "instructions that we know");
    if is_fast {
        return Check::ok(NAME, format!("the processor has {wanted}"));
    }
    Check::warn(
        NAME,
        format!("the processor lacks {wanted}: checksums cost several times more"),
        "in a virtual machine, hand the host's processor through",
    )
}

/// Whether large copies can go past the cache.
pub(super) fn streaming() -> Check {
    const NAME: &str = "streaming copies";
    #[cfg(target_arch = "x86_64")]
    let width = if is_x86_feature_detected!("avx512f") {
        Some("avx512f")
    } else if is_x86_feature_detected!("avx2") {
        Some("avx2")
    } else {
        None
    };
    #[cfg(not(target_arch = "x86_64"))]
    let width: Option<&str> = None;
    match width {
        Some(width) => Check::ok(NAME, format!("the processor has {width}")),
        None => Check::ok(NAME, "plain copies on this processor"),
    }
}
