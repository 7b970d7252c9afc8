#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| ziggurat_tests::fuzz::dfs_block(bytes));
