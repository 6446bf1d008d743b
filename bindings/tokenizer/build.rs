// SPDX-License-Identifier: Apache-2.0
//! The library's name for the loader: that of Quarry's other libraries, with the major number of the C ABI.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libquarry-tokenizer.so.0");
    }
}
