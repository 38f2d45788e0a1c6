//! Debian's packages: which are there, in which version.

use std::path::Path;
use std::process::{Command, Stdio};

use outlast_tracer::qemu_version;

use super::{Counterpart, Package, counterparts};

/// The packages of these that are not there.
pub(super) fn missing(packages: &[Package]) -> Vec<&'static str> {
    let is_missing = |package: &&Package| !Path::new(package.has).exists();
    packages.iter().filter(is_missing).map(|package| package.name).collect()
}

/// The packages that these programs need and that are not there, QEMU's included.
pub fn missing_packages(names: &[&str]) -> Vec<&'static str> {
    let of = counterparts().filter(|(entry, _)| names.contains(&entry.name));
    let mut all: Vec<_> = of.flat_map(|(_, counterpart)| missing(counterpart.packages)).collect();
    if qemu_version().is_none() {
        all.push("qemu-user");
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Names and versions of a counterpart's packages as Debian has them; only names elsewhere.
pub(super) fn versions(counterpart: &Counterpart) -> String {
    let names = counterpart.packages.iter().map(|package| package.name);
    let mut query = Command::new("dpkg-query");
    query.args(["-W", "-f", "${Package} ${Version}, "]).args(names.clone()).stderr(Stdio::null());
    let known = query.output().ok().filter(|output| output.status.success());
    match known {
        Some(output) => String::from_utf8_lossy(&output.stdout).trim_end_matches(", ").to_owned(),
        None => names.collect::<Vec<_>>().join(", "),
    }
}

/// Installs packages by `apt-get`, which only root may.
///
/// # Errors
/// What apt-get says, or that we are not root.
pub fn install(names: &[&str]) -> Result<(), String> {
    let list = names.join(" ");
    if !rustix::process::geteuid().is_root() {
        return Err(format!("only root can install: run `apt-get install {list}` as root"));
    }
    let mut apt = Command::new("apt-get");
    apt.args(["install", "-y", "--no-install-recommends"]).args(names);
    apt.env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    let output = apt.output().map_err(|error| format!("apt-get: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = text.lines().rfind(|line| !line.is_empty()).unwrap_or("it failed").to_owned();
    Err(format!("apt-get install {list}: {last}"))
}
