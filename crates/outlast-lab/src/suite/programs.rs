//! The table: a program of SPEC CPU2006 and what stands for it.

use super::{Counterpart, Entry, Input, Package, Window, inputs};

const fn package(name: &'static str, has: &'static str) -> Package {
    Package { name, has }
}

/// The `count` millions of instructions behind the first `skip` millions.
const fn window(skip: u64, count: u64) -> Window {
    Window { skip: skip * 1_000_000, count: count * 1_000_000 }
}

/// Of each at quick scale.
const QUICK: u64 = 20;
/// Of each at full scale, as the paper has it.
const FULL: u64 = 250;

/// What most rows have in common: nothing on standard input, nothing to do before.
const PLAIN: Counterpart = Counterpart {
    about: "",
    packages: &[],
    command: &[],
    stdin: None,
    inputs: &[],
    before: &[],
    quick: window(0, QUICK),
    full: window(0, FULL),
};

const PYTHON: Package = package("python3", "/usr/bin/python3");
const NUMPY: Package = package("python3-numpy", "/usr/lib/python3/dist-packages/numpy/__init__.py");
const LEMON: Package = package("liblemon-utils", "/usr/bin/dimacs-solver");
const ERGO: Package = package("ergo", "/usr/bin/ergo");
const LAMMPS: Package = package("lammps", "/usr/bin/lmp");
const CALCULIX: Package = package("calculix-ccx", "/usr/bin/ccx");

/// A script for Python with NumPy.
const fn script(
    name: &'static str,
    about: &'static str,
    inputs: &'static [Input],
    skip: u64,
) -> Entry {
    Entry {
        name,
        counterpart: Ok(Counterpart {
            about,
            packages: &[PYTHON, NUMPY],
            command: &["/usr/bin/python3", "fields.py"],
            inputs,
            quick: window(skip, QUICK),
            full: window(skip, FULL),
            ..PLAIN
        }),
    }
}

/// Every program, those of integers first, as the benchmark lists them.
pub const PROGRAMS: &[Entry] = &[
    Entry {
        name: "perlbench",
        counterpart: Ok(Counterpart {
            about: "perl: a script that sorts mails by patterns and counts of words",
            packages: &[package("perl-base", "/usr/bin/perl")],
            command: &["/usr/bin/perl", "mails.pl"],
            inputs: &[Input { name: "mails.pl", make: inputs::perl_script }],
            quick: window(600, QUICK),
            full: window(600, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "bzip2",
        counterpart: Ok(Counterpart {
            about: "bzip2 itself, on text, tables and noise",
            packages: &[package("bzip2", "/bin/bzip2")],
            command: &["/bin/bzip2", "-9", "-c", "text"],
            inputs: &[Input { name: "text", make: inputs::text }],
            quick: window(150, QUICK),
            full: window(150, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "gcc",
        counterpart: Ok(Counterpart {
            about: "the compiler of C itself, at -O2",
            packages: &[package("cpp-12", "/usr/lib/gcc/x86_64-linux-gnu/12/cc1")],
            command: &[
                "/usr/lib/gcc/x86_64-linux-gnu/12/cc1",
                "-fpreprocessed",
                "source.i",
                "-quiet",
                "-O2",
                "-o",
                "source.s",
            ],
            inputs: &[Input { name: "source.i", make: inputs::c_source }],
            quick: window(800, QUICK),
            full: window(800, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "mcf",
        counterpart: Ok(Counterpart {
            about: "LEMON's network simplex on duties of vehicles",
            packages: &[LEMON],
            command: &["/usr/bin/dimacs-solver", "flow.dimacs", "solution"],
            inputs: &[Input { name: "flow.dimacs", make: inputs::network_flow }],
            quick: window(3000, QUICK),
            full: window(3000, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "gobmk",
        counterpart: Ok(Counterpart {
            about: "GNU Go, which the benchmark is",
            packages: &[package("gnugo", "/usr/games/gnugo")],
            command: &["/usr/games/gnugo", "--mode", "gtp", "--level", "8", "--seed", "1"],
            stdin: Some("moves"),
            inputs: &[Input { name: "moves", make: inputs::go_commands }],
            quick: window(600, QUICK),
            full: window(600, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "hmmer",
        counterpart: Ok(Counterpart {
            about: "HMMER 2, which the benchmark is: a model of RNA recognition, proteins",
            packages: &[package("hmmer2", "/usr/share/doc/hmmer2/examples/tutorial/rrm.hmm")],
            command: &[
                "/usr/bin/hmm2search",
                "--cpu",
                "0",
                "/usr/share/doc/hmmer2/examples/tutorial/rrm.hmm",
                "proteins.fa",
            ],
            inputs: &[Input { name: "proteins.fa", make: inputs::proteins }],
            quick: window(300, QUICK),
            full: window(300, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "sjeng",
        counterpart: Ok(Counterpart {
            about: "Sjeng itself, on three positions",
            packages: &[package("sjeng", "/usr/games/sjeng")],
            command: &["/usr/games/sjeng"],
            stdin: Some("commands"),
            inputs: &[
                Input { name: "commands", make: inputs::chess_commands },
                Input { name: "positions.epd", make: inputs::chess_positions },
            ],
            quick: window(600, QUICK),
            full: window(600, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "libquantum",
        counterpart: Ok(Counterpart {
            about: "the library libquantum itself: modular exponentiation of Shor's algorithm",
            packages: &[
                package("libquantum-dev", "/usr/include/quantum.h"),
                package("gcc", "/usr/bin/gcc"),
                package("libc6-dev", "/usr/include/stdlib.h"),
            ],
            command: &["./shor"],
            inputs: &[Input { name: "shor.c", make: inputs::quantum_source }],
            before: &[&[
                "/usr/bin/gcc",
                "-O2",
                "-o",
                "shor",
                "shor.c",
                "-fopenmp",
                "-lquantum",
                "-lm",
            ]],
            quick: window(1500, QUICK),
            full: window(1500, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "h264ref",
        counterpart: Ok(Counterpart {
            about: "x264 without its vector code, on a film of 352 by 288",
            packages: &[package("x264", "/usr/bin/x264")],
            command: &[
                "/usr/bin/x264",
                "--no-asm",
                "--threads",
                "1",
                "--sync-lookahead",
                "0",
                "--input-res",
                "352x288",
                "-o",
                "film.264",
                "film.yuv",
            ],
            inputs: &[Input { name: "film.yuv", make: inputs::film }],
            quick: window(1000, QUICK),
            full: window(1000, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "omnetpp",
        counterpart: Ok(Counterpart {
            about: "Icarus Verilog: stations with queues that send each other packets",
            packages: &[package("iverilog", "/usr/bin/vvp")],
            command: &["/usr/bin/vvp", "-n", "network.vvp"],
            inputs: &[Input { name: "network.v", make: inputs::network }],
            before: &[&["/usr/bin/iverilog", "-o", "network.vvp", "network.v"]],
            quick: window(3000, QUICK),
            full: window(3000, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "astar",
        counterpart: Ok(Counterpart {
            about: "LEMON's shortest paths over a map of terrain",
            packages: &[LEMON],
            command: &["/usr/bin/dimacs-solver", "map.dimacs", "solution"],
            inputs: &[Input { name: "map.dimacs", make: inputs::grid_paths }],
            quick: window(2850, QUICK),
            full: window(2820, 140),
            ..PLAIN
        }),
    },
    Entry {
        name: "xalancbmk",
        counterpart: Ok(Counterpart {
            about: "xsltproc: a catalogue to a page of sorted tables",
            packages: &[package("xsltproc", "/usr/bin/xsltproc")],
            command: &["/usr/bin/xsltproc", "-o", "page.html", "page.xsl", "page.xml"],
            inputs: &[
                Input { name: "page.xsl", make: inputs::page_style },
                Input { name: "page.xml", make: inputs::page },
            ],
            quick: window(1500, QUICK),
            full: window(1500, FULL),
            ..PLAIN
        }),
    },
    script(
        "bwaves",
        "NumPy: flow at high speed, solved implicitly",
        &[Input { name: "fields.py", make: inputs::bwaves }],
        800,
    ),
    Entry {
        name: "gamess",
        counterpart: Ok(Counterpart {
            about: "Ergo: molecules of water by Hartree and Fock's method",
            packages: &[ERGO],
            command: &["/usr/bin/ergo", "water.ergo"],
            inputs: &[Input { name: "water.ergo", make: inputs::water }],
            quick: window(2500, QUICK),
            full: window(2500, FULL),
            ..PLAIN
        }),
    },
    script(
        "milc",
        "NumPy: matrices of SU(3) on a lattice in four dimensions",
        &[Input { name: "fields.py", make: inputs::lattice_gauge }],
        1500,
    ),
    script(
        "zeusmp",
        "NumPy: flow with fields of magnetohydrodynamics",
        &[Input { name: "fields.py", make: inputs::zeusmp }],
        800,
    ),
    Entry {
        name: "gromacs",
        counterpart: Ok(Counterpart {
            about: "LAMMPS: a melt of argon",
            packages: &[LAMMPS],
            command: &["/usr/bin/lmp", "-in", "argon.lammps"],
            inputs: &[Input { name: "argon.lammps", make: inputs::argon }],
            quick: window(1500, QUICK),
            full: window(1500, FULL),
            ..PLAIN
        }),
    },
    script(
        "cactusADM",
        "NumPy: a wave in three dimensions, differences of fourth order",
        &[Input { name: "fields.py", make: inputs::cactus }],
        800,
    ),
    script(
        "leslie3d",
        "NumPy: turbulent flow",
        &[Input { name: "fields.py", make: inputs::leslie3d }],
        800,
    ),
    Entry {
        name: "namd",
        counterpart: Ok(Counterpart {
            about: "LAMMPS: a salt of charged ions",
            packages: &[LAMMPS],
            command: &["/usr/bin/lmp", "-in", "salt.lammps"],
            inputs: &[Input { name: "salt.lammps", make: inputs::salt }],
            quick: window(1500, QUICK),
            full: window(1500, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "dealII",
        counterpart: Ok(Counterpart {
            about: "CalculiX: finite elements, solved by conjugate gradients",
            packages: &[CALCULIX],
            command: &["/usr/bin/ccx", "-i", "cube"],
            inputs: &[Input { name: "cube.inp", make: inputs::iron_cube_by_gradients }],
            quick: window(2500, QUICK),
            full: window(2500, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "soplex",
        counterpart: Ok(Counterpart {
            about: "GLPK's simplex on goods through a network of stores",
            packages: &[package("glpk-utils", "/usr/bin/glpsol")],
            command: &["/usr/bin/glpsol", "--lp", "goods.lp", "-o", "solution"],
            inputs: &[Input { name: "goods.lp", make: inputs::linear_program }],
            quick: window(2500, QUICK),
            full: window(2500, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "povray",
        counterpart: Ok(Counterpart {
            about: "POV-Ray itself: balls over a chessboard",
            packages: &[package("povray", "/usr/bin/povray")],
            command: &[
                "/usr/bin/povray",
                "+Iscene.pov",
                "+W320",
                "+H240",
                "+Oscene.png",
                "+WT1",
                "-D",
            ],
            inputs: &[Input { name: "scene.pov", make: inputs::scene }],
            quick: window(1000, QUICK),
            full: window(1000, FULL),
            ..PLAIN
        }),
    },
    Entry {
        name: "calculix",
        counterpart: Ok(Counterpart {
            about: "CalculiX itself: a cube under pressure, solved directly",
            packages: &[CALCULIX],
            command: &["/usr/bin/ccx", "-i", "cube"],
            inputs: &[Input { name: "cube.inp", make: inputs::iron_cube }],
            quick: window(4000, QUICK),
            full: window(4000, FULL),
            ..PLAIN
        }),
    },
    script(
        "GemsFDTD",
        "NumPy: electric and magnetic fields after Yee",
        &[Input { name: "fields.py", make: inputs::fdtd }],
        800,
    ),
    Entry {
        name: "tonto",
        counterpart: Ok(Counterpart {
            about: "Ergo: molecules of water by a functional of the density",
            packages: &[ERGO],
            command: &["/usr/bin/ergo", "water.ergo"],
            inputs: &[Input { name: "water.ergo", make: inputs::water_by_density }],
            quick: window(3000, QUICK),
            full: window(3000, FULL),
            ..PLAIN
        }),
    },
    script(
        "lbm",
        "NumPy: a dye that flows, as particles on a lattice",
        &[Input { name: "fields.py", make: inputs::lattice_boltzmann }],
        800,
    ),
    script(
        "wrf",
        "NumPy: a flow of many fields with much work in each cell",
        &[Input { name: "fields.py", make: inputs::weather }],
        800,
    ),
    Entry {
        name: "sphinx3",
        counterpart: Ok(Counterpart {
            about: "PocketSphinx, its successor: a sentence from a novel",
            packages: &[
                package("pocketsphinx", "/usr/bin/pocketsphinx_continuous"),
                package("pocketsphinx-en-us", "/usr/share/pocketsphinx/model/en-us/en-us/mdef"),
                package("pocketsphinx-testdata", "/usr/share/pocketsphinx/test/data/numbers.raw"),
            ],
            command: &[
                "/usr/bin/pocketsphinx_continuous",
                "-infile",
                "/usr/share/pocketsphinx/test/data/librivox/sense_and_sensibility_01_austen_64kb-0870.wav",
            ],
            quick: window(1500, QUICK),
            full: window(1500, FULL),
            ..PLAIN
        }),
    },
];
