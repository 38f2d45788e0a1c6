//! Files and their names.

use std::fs::File;
use std::io;
use std::path::Path;

/// Whether a path names this open file, not another that has been renamed over it. Elsewhere than
/// on Unix an open file keeps its name, and this is not asked.
///
/// # Errors
/// What the operating system says; `NotFound` when nothing has the name.
pub fn is_named(path: &Path, file: &File) -> io::Result<bool> {
    let named = std::fs::metadata(path)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let open = file.metadata()?;
        Ok((named.dev(), named.ino()) == (open.dev(), open.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = (named, file);
        Ok(true)
    }
}

/// Removes a file that could not be completed, unless another process has locked it by now. If it
/// has lost its name, what has the name stays.
pub fn remove_if_free(path: &Path, file: &File) {
    if file.try_lock().is_ok() && is_named(path, file).unwrap_or(false) {
        let _ = std::fs::remove_file(path);
    }
}

/// How long this process may make a file, in bytes, if there is a limit. To write past it ends the
/// process with a signal.
pub fn file_len_limit() -> Option<u64> {
    #[cfg(all(unix, not(outlast_portable)))]
    return rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    #[cfg(not(all(unix, not(outlast_portable))))]
    None
}
