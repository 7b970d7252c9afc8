//! Compiles the two schemas without any program beside the Rust toolchain.
#![forbid(unsafe_code)]

use std::error::Error;

const HOT: &str = "ziggurat.proto";
const SEED: &str = "mooncake_store.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    for schema in [HOT, SEED] {
        println!("cargo::rerun-if-changed={schema}");
    }
    let hot = protox::compile([HOT], ["."])?;
    prost_build::Config::new().compile_fds(hot)?;
    let seed = protox::compile([SEED], ["."])?;
    tonic_prost_build::configure()
        .build_transport(false)
        .compile_fds(seed)?;
    Ok(())
}
