// SPDX-License-Identifier: Apache-2.0
//! Says where libquarry is: in QUARRY_LIB_DIR, else where pkg-config says. No crate is needed for that.
use std::process::Command;

fn main() {
    for name in ["QUARRY_LIB_DIR", "PKG_CONFIG_PATH", "PKG_CONFIG_SYSROOT_DIR"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rustc-link-lib=dylib=quarry");
    let mut packages = vec!["quarry >= 0.1.0"];
    for (feature, library, package) in
        [("QUANTIZE", "quarry-quantize", "quarry-quantize >= 0.1.0"), ("GENERATE", "quarry-generate", "quarry-generate >= 0.1.0")]
    {
        if std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some() {
            println!("cargo::rustc-link-lib=dylib={library}");
            packages.push(package);
        }
    }
    if let Ok(folder) = std::env::var("QUARRY_LIB_DIR") {
        return search(&folder);
    }
    let program = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".into());
    // Not --atleast-version: some of these programs then print nothing else.
    match Command::new(&program).arg("--libs-only-L").args(packages).output() {
        Ok(done) if done.status.success() => {
            for word in String::from_utf8_lossy(&done.stdout).split_whitespace() {
                search(word.trim_start_matches("-L"));
            }
        }
        // The linker's own folders may have it; where they do not, it says so.
        Ok(done) => println!("cargo::warning={}", String::from_utf8_lossy(&done.stderr).trim().replace('\n', " ")),
        Err(error) => println!("cargo::warning={program}: {error}; set QUARRY_LIB_DIR to the folder of libquarry.so"),
    }
}

fn search(folder: &str) {
    println!("cargo::rustc-link-search=native={folder}");
    // For `cargo test` and `cargo run` of crates that read it (DEP_QUARRY_LIB_DIR).
    println!("cargo::metadata=lib_dir={folder}");
}
