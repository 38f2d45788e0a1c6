//! Tests of the runtime through its public interface where something gives out: the disk, the
//! operating system, room, lanes. A program of its own, since some of its processes are made to fail.
#![cfg(not(miri))]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod calls;
mod disk;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod injector;
mod lanes;
mod limits;

use outlast::Scheme;
use outlast::scheme::SCHEMES;

/// `OUTLAST_FAILING=all`: every write and every call fails, one a run, and not each of a few.
fn step(usual: u64) -> u64 {
    if std::env::var_os("OUTLAST_FAILING").is_some() { 1 } else { usual }
}

/// Every scheme but the literal variants, which lose what they say they keep.
fn sound_schemes() -> impl Iterator<Item = Scheme> {
    SCHEMES.iter().map(|row| row.scheme).filter(|scheme| !scheme.is_published())
}
