//! Molecules, meshes, sequences and positions.

use std::fmt::Write;

use outlast_workloads::Random;

use super::random;

/// Proteins in FASTA's format, residues as often as in nature, about.
pub fn proteins() -> Vec<u8> {
    const RESIDUES: &[u8] = b"AAAAAAAARRRRRNNNNDDDDDCQQQQEEEEEEGGGGGGGHHIIIIIILLLLLLLLLLKKKKKKMMFFFFPPPPPSSSSSSSTTTTTWYYYVVVVVVV";
    let mut random = random(41);
    let mut text = String::new();
    for number in 0..6000 {
        let _ = write!(text, ">p{number}");
        for at in 0..150 + random.below(500) {
            if at % 60 == 0 {
                text.push('\n');
            }
            text.push(char::from(RESIDUES[random.below(RESIDUES.len() as u64) as usize]));
        }
        text.push('\n');
    }
    text.into_bytes()
}

/// Positions of chess in the format of test suites.
pub fn chess_positions() -> Vec<u8> {
    b"r1bq1rk1/pp2bppp/2n1pn2/3p4/2PP4/2N2N2/PP2BPPP/R1BQ1RK1 w - - bm cxd5; id \"a\";\n\
      r2q1rk1/1b2bppp/p2p1n2/1pp5/4P3/1BN2Q1P/PPP2PP1/R1B1R1K1 b - - bm c4; id \"b\";\n\
      2r3k1/pp3ppp/1qn1p3/3pP3/3P4/P4N2/1P3PPP/R2Q2K1 w - - bm b4; id \"c\";\n"
        .to_vec()
}

/// Each of them is searched for an hour: the window is over before.
pub fn chess_commands() -> Vec<u8> {
    b"test\npositions.epd\n3600\n".to_vec()
}

/// Moves of a game of Go, each of which is to be found.
pub fn go_commands() -> Vec<u8> {
    let moves = "genmove black\ngenmove white\n".repeat(100);
    format!("boardsize 19\n{moves}quit\n").into_bytes()
}

fn molecules(random: &mut Random, count: u64) -> String {
    let mut text = String::from("molecule_inline\n");
    for number in 0..count {
        let side = 6.0;
        let (x, y, z) = (number % 2, number / 2 % 2, number / 4);
        let turn = random.unit() * 0.6;
        let [x, y, z] = [x, y, z].map(|place| side * place as f64);
        let _ = writeln!(text, "O {x:.3} {y:.3} {z:.3}");
        let _ = writeln!(text, "H {:.3} {:.3} {:.3}", x + turn, y + 1.4, z + 1.1);
        let _ = writeln!(text, "H {:.3} {:.3} {:.3}", x - turn, y - 1.4, z + 1.1);
    }
    text.push_str("EOF\n");
    text
}

/// Molecules of water by Hartree and Fock's method.
pub fn water() -> Vec<u8> {
    let molecules = molecules(&mut random(42), 4);
    format!("{molecules}basis = \"6-31Gss\"\nrun \"HF\"\n").into_bytes()
}

/// The same by a functional of the density, integrated over a grid.
pub fn water_by_density() -> Vec<u8> {
    let molecules = molecules(&mut random(43), 3);
    format!("{molecules}basis = \"6-31Gss\"\nrun \"B3LYP\"\n").into_bytes()
}

/// Atoms of a noble gas, as a melt.
pub fn argon() -> Vec<u8> {
    b"units lj\natom_style atomic\nlattice fcc 0.8442\nregion box block 0 20 0 20 0 20\n\
      create_box 1 box\ncreate_atoms 1 box\nmass 1 1.0\n\
      velocity all create 1.44 87287 loop geom\npair_style lj/cut 2.5\n\
      pair_coeff 1 1 1.0 1.0 2.5\nneighbor 0.3 bin\nneigh_modify delay 0 every 20 check no\n\
      fix 1 all nve\nrun 100\n"
        .to_vec()
}

/// Ions with charges, in a salt that melts.
pub fn salt() -> Vec<u8> {
    b"units real\natom_style charge\nlattice sc 3.2\nregion box block 0 22 0 22 0 22\n\
      create_box 2 box\ncreate_atoms 1 box\nset type 1 type/fraction 2 0.5 4711\n\
      mass 1 23.0\nmass 2 35.5\nset type 1 charge 0.8\nset type 2 charge -0.8\n\
      pair_style lj/cut/coul/cut 8.0 9.0\npair_coeff 1 1 0.1 2.4\npair_coeff 2 2 0.1 3.4\n\
      pair_coeff 1 2 0.1 2.9\nvelocity all create 900.0 4711\nneighbor 1.0 bin\n\
      neigh_modify every 10 delay 0 check no\nfix 1 all nvt temp 900.0 900.0 100.0\n\
      timestep 0.5\nrun 100\n"
        .to_vec()
}

/// A cube of iron that is pressed: a mesh of bricks.
fn mesh(side: u64, solver: &str) -> Vec<u8> {
    let nodes = side + 1;
    let number = |x: u64, y: u64, z: u64| 1 + x + nodes * (y + nodes * z);
    let mut text = String::from("*NODE, NSET=ALL\n");
    for z in 0..nodes {
        for y in 0..nodes {
            for x in 0..nodes {
                let _ = writeln!(text, "{}, {x}.0, {y}.0, {z}.0", number(x, y, z));
            }
        }
    }
    text.push_str("*ELEMENT, TYPE=C3D8, ELSET=CUBE\n");
    let mut element = 0;
    for z in 0..side {
        for y in 0..side {
            for x in 0..side {
                element += 1;
                let base = [(0, 0), (1, 0), (1, 1), (0, 1)];
                let corners = [0, 1].map(|up| base.map(|(a, b)| number(x + a, y + b, z + up)));
                let corners = corners.concat();
                let list: Vec<String> = corners.iter().map(u64::to_string).collect();
                let _ = writeln!(text, "{element}, {}", list.join(", "));
            }
        }
    }
    text.push_str("*NSET, NSET=GROUND\n");
    (1..=nodes * nodes).for_each(|node| _ = writeln!(text, "{node},"));
    text.push_str("*NSET, NSET=TOP\n");
    let first = number(0, 0, side);
    (first..first + nodes * nodes).for_each(|node| _ = writeln!(text, "{node},"));
    let _ = write!(
        text,
        "*BOUNDARY\nGROUND, 1, 3\n*MATERIAL, NAME=IRON\n*ELASTIC\n210000.0, 0.3\n\
         *SOLID SECTION, ELSET=CUBE, MATERIAL=IRON\n*STEP\n*STATIC, SOLVER={solver}\n\
         *CLOAD\nTOP, 3, -100.0\n*NODE PRINT, NSET=TOP\nU\n*END STEP\n"
    );
    text.into_bytes()
}

/// Solved directly.
pub fn iron_cube() -> Vec<u8> {
    mesh(16, "SPOOLES")
}

/// Solved by conjugate gradients: products of a sparse matrix with vectors.
pub fn iron_cube_by_gradients() -> Vec<u8> {
    mesh(22, "ITERATIVE SCALING")
}
