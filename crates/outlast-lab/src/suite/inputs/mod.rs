//! What the programs work on: made from a seed, the same bytes on every machine.

mod code;
mod fields;
mod graphs;
mod media;
mod science;
mod words;

pub(super) use code::{c_source, network, quantum_source};
pub(super) use fields::{
    bwaves, cactus, fdtd, lattice_boltzmann, lattice_gauge, leslie3d, weather, zeusmp,
};
pub(super) use graphs::{grid_paths, linear_program, network_flow};
pub(super) use media::{film, scene};
pub(super) use science::{
    argon, chess_commands, chess_positions, go_commands, iron_cube, iron_cube_by_gradients,
    proteins, salt, water, water_by_density,
};
pub(super) use words::{page, page_style, perl_script, text};

use outlast_workloads::Random;

/// The seed of all of them.
fn random(stream: u64) -> Random {
    Random::stream(2018, stream)
}
