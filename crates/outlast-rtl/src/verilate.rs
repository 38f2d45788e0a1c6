//! From the RTL to a shared object: Verilator makes C++, the compiler the rest. Nothing of it is needed
//! to build the workspace.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::ffi::{Api, Model};
use crate::{Config, SOURCES};

/// Why there is no model.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A program is not installed.
    #[error("{program} is missing: {install}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// The command that installs it.
        install: &'static str,
    },
    /// A program has failed.
    #[error("{program} failed: {message}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// What it said.
        message: String,
    },
    /// A file could not be written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The object cannot be loaded.
    #[error(transparent)]
    Load(#[from] libloading::Error),
}

/// Runs a program to its end, and returns what it printed. `install` is the command that installs it.
pub(crate) fn run(
    program: &'static str,
    install: &'static str,
    command: &mut Command,
) -> Result<String, BuildError> {
    let output = command.output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => BuildError::Missing { program, install },
        _ => BuildError::Io(error),
    })?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(printed);
    }
    let message = format!("{printed}{}", String::from_utf8_lossy(&output.stderr));
    Err(BuildError::Failed { program, message })
}

/// Puts the RTL into a folder, and returns its files.
pub(crate) fn write_sources(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let write = |&(name, text): &(&str, &str)| {
        let path = folder.join(name);
        std::fs::write(&path, text).map(|()| path)
    };
    SOURCES.iter().map(write).collect()
}

/// Hardware that can be simulated.
#[derive(Clone, Copy, Debug)]
pub struct Hardware {
    pub(crate) config: Config,
    api: Api,
}

impl Hardware {
    /// Builds the hardware of these parameters, or takes what an earlier call has left in the folder.
    ///
    /// # Errors
    /// When a tool is missing or fails.
    pub fn build(config: Config, kept_in: &Path) -> Result<Self, BuildError> {
        let mut hasher = DefaultHasher::new();
        (SOURCES, SHIM, config.parameters()).hash(&mut hasher);
        let path = kept_in.join(format!("picl-{:016x}.so", hasher.finish()));
        if !path.exists() {
            let folder = tempfile::tempdir_in(kept_in)?;
            let built = compile(config, folder.path())?;
            std::fs::rename(built, &path)?;
        }
        Ok(Self { config, api: Api::load(&path)? })
    }

    /// Its parameters.
    pub fn config(&self) -> Config {
        self.config
    }

    pub(crate) fn start(&self) -> Model {
        Model::new(self.api)
    }
}

const SHIM: &str = include_str!("shim.cpp");

fn compile(config: Config, folder: &Path) -> Result<PathBuf, BuildError> {
    let sources = write_sources(folder)?;
    let shim = folder.join("shim.cpp");
    std::fs::write(&shim, SHIM)?;
    let mut verilator = Command::new("verilator");
    verilator.args(["--cc", "--top-module", "top", "--assert", "-DCHECKS", "-O3", "--Mdir"]);
    verilator.arg(folder).args([
        "-Wno-WIDTH",
        "-Wno-fatal",
        "--x-assign",
        "fast",
        "--x-initial",
        "fast",
    ]);
    verilator.args(config.parameters().iter().map(|(name, value)| format!("-G{name}={value}")));
    run(
        "verilator",
        "apt-get install verilator",
        verilator.args(sources.iter().filter(|path| !path.ends_with("formal.sv"))),
    )?;
    let has = run(
        "verilator",
        "apt-get install verilator",
        Command::new("verilator").args(["--getenv", "VERILATOR_ROOT"]),
    )?;
    let include = Path::new(has.trim()).join("include");
    let object = folder.join("picl.so");
    let mut units =
        vec![shim, include.join("verilated.cpp"), include.join("verilated_threads.cpp")];
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("Vtop") && name.ends_with(".cpp") {
            units.push(path);
        }
    }
    let mut compiler = Command::new("c++");
    compiler.args([
        "-std=c++17",
        "-shared",
        "-fPIC",
        "-O1",
        "-w",
        "-pthread",
        "-DVL_IGNORE_UNKNOWN_PLI",
    ]);
    compiler.arg(format!("-DGRANULE={}", config.granule));
    compiler.arg(format!("-DCORE_ADDR_BITS={}", config.home_bits + 3));
    compiler.arg("-I").arg(folder).arg("-I").arg(&include).arg("-I").arg(include.join("vltstd"));
    run("c++", "apt-get install g++", compiler.arg("-o").arg(&object).args(&units))?;
    Ok(object)
}
