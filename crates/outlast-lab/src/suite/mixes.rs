//! Mixes of eight programs, one on each core.

/// A mix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// Its name.
    pub name: &'static str,
    /// Its programs, core by core.
    pub programs: [&'static str; 8],
}

const fn mix(name: &'static str, programs: [&'static str; 8]) -> Mix {
    Mix { name, programs }
}

/// PiCL's Table V. `claims.csv` says how its rows were read.
pub const MIXES: [Mix; 8] = [
    mix("w0", ["h264ref", "soplex", "hmmer", "bzip2", "gcc", "sjeng", "perlbench", "hmmer"]),
    mix("w1", ["gcc", "gobmk", "gcc", "soplex", "bzip2", "gamess", "tonto", "gcc"]),
    mix("w2", ["bzip2", "lbm", "gobmk", "perlbench", "cactusADM", "bzip2", "h264ref", "mcf"]),
    mix("w3", ["gcc", "bzip2", "tonto", "cactusADM", "astar", "bzip2", "namd", "zeusmp"]),
    mix("w4", ["perlbench", "wrf", "gobmk", "gcc", "namd", "gobmk", "milc", "bzip2"]),
    mix("w5", ["omnetpp", "bzip2", "bzip2", "gobmk", "sjeng", "perlbench", "bzip2", "gobmk"]),
    mix("w6", ["gcc", "tonto", "gamess", "cactusADM", "dealII", "gobmk", "omnetpp", "bzip2"]),
    mix("w7", ["gcc", "wrf", "gcc", "bzip2", "gamess", "gromacs", "gcc", "perlbench"]),
];
