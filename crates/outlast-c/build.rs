//! Names the interface that the shared library has, so that a program finds the one it was linked with.

fn main() {
    let part = |name: &str| std::env::var(format!("CARGO_PKG_VERSION_{name}")).unwrap_or_default();
    let (major, minor) = (part("MAJOR"), part("MINOR"));
    // Until 1.0 each minor version has an interface of its own.
    let interface = if major == "0" { format!("0.{minor}") } else { major };
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liboutlast_c.so.{interface}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
