//! Kernels in the manner of SSCA 2.2 on a scale-free graph.
//!
//! The graph comes from R-MAT with the benchmark's probabilities (0.55, 0.1, 0.1, 0.25). A vertex
//! is a line of its own: degree, in-degree, score, mark, and the first chunk of its edges; a chunk
//! holds up to eight edges. Of eight transactions five add an edge with its weight (kernel 1), one
//! enters the heaviest edge of a vertex into the list of heavy edges (kernel 2), two walk the
//! neighbours of a vertex and score it by theirs (kernels 3 and 4).

use outlast::{Abort, BlockKind, PoolOffset, RootKind, Runner, Transact};

use super::fill;
use crate::Random;

const DEGREE: u64 = 0;
const IN_DEGREE: u64 = 8;
const SCORE: u64 = 16;
const MARK: u64 = 24;
const EDGES: u64 = 32;
const VERTEX_BYTES: u64 = 64;
/// Edges of a chunk, behind its next pointer and its count.
const CHUNK_EDGES: u64 = 8;
const CHUNK_HEAD: u64 = 16;
/// Edges for each vertex at first, as in the benchmark.
const EDGES_A_VERTEX: u64 = 8;
/// Neighbours that a walk visits at most.
const WALK_MAX: u64 = 16;
/// Entries of the list of heavy edges.
const HEAVY: u64 = 64;

/// Bytes of a vertex with its edges, about.
pub(super) fn vertex_footprint(element_bytes: u64) -> u64 {
    VERTEX_BYTES + 2 * (CHUNK_HEAD + CHUNK_EDGES * (8 + element_bytes))
}

#[derive(Clone, Debug)]
pub(super) struct Graph {
    vertices: u64,
    first: PoolOffset,
    heavy: PoolOffset,
    /// Bytes of an edge: its target, then its weight or label.
    edge_bytes: u64,
    pub(super) random: Random,
    steps: u64,
}

impl Graph {
    pub(super) fn load<R: Runner>(
        vertices: u64,
        element_bytes: u64,
        random: Random,
        runner: &mut R,
    ) -> Result<Self, Abort> {
        let (first, heavy) = runner.run(|tx| {
            let first = tx.alloc(vertices * VERTEX_BYTES, BlockKind::General)?;
            tx.set_root(first, RootKind::Opaque)?;
            Ok((first, tx.alloc(8 + 16 * HEAVY, BlockKind::General)?))
        })?;
        // Blocks may have been used before.
        for vertex in 0..vertices {
            runner.run(|tx| tx.store(first.plus(vertex * VERTEX_BYTES), &[0; 64]))?;
        }
        runner.run(|tx| tx.store(heavy, &[0; 8 + 16 * HEAVY as usize]))?;
        let edge_bytes = 8 + element_bytes;
        let mut graph = Self { vertices, first, heavy, edge_bytes, random, steps: 0 };
        for _ in 0..vertices * EDGES_A_VERTEX {
            graph.add_edge(runner)?;
        }
        Ok(graph)
    }

    fn vertex(&self, number: u64) -> PoolOffset {
        self.first.plus(number * VERTEX_BYTES)
    }

    /// An edge of R-MAT: quadrant by quadrant.
    fn draw_edge(&mut self) -> (u64, u64) {
        let (mut from, mut to) = (0, 0);
        for _ in 0..u64::BITS - (self.vertices - 1).leading_zeros() {
            let (down, right) = match self.random.below(100) {
                0..55 => (0, 0),
                55..65 => (0, 1),
                65..75 => (1, 0),
                _ => (1, 1),
            };
            (from, to) = (2 * from + down, 2 * to + right);
        }
        (from % self.vertices, to % self.vertices)
    }

    fn add_edge<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        let (from, to) = self.draw_edge();
        self.steps += 1;
        let mut edge = vec![0; self.edge_bytes as usize];
        edge[..8].copy_from_slice(&to.to_le_bytes());
        fill(&mut edge[8..], self.steps);
        let (vertex, target) = (self.vertex(from), self.vertex(to));
        let edge_bytes = self.edge_bytes;
        runner.run(|tx| {
            let chunk = PoolOffset(tx.load_u64(vertex.plus(EDGES))?);
            let count = if chunk.0 == 0 { CHUNK_EDGES } else { tx.load_u64(chunk.plus(8))? };
            let (chunk, count) = if count == CHUNK_EDGES {
                let fresh = tx.alloc(CHUNK_HEAD + CHUNK_EDGES * edge_bytes, BlockKind::General)?;
                tx.store_u64(fresh, chunk.0)?;
                tx.store_u64(vertex.plus(EDGES), fresh.0)?;
                (fresh, 0)
            } else {
                (chunk, count)
            };
            tx.store(chunk.plus(CHUNK_HEAD + count * edge_bytes), &edge)?;
            tx.store_u64(chunk.plus(8), count + 1)?;
            let degree = tx.load_u64(vertex.plus(DEGREE))?;
            tx.store_u64(vertex.plus(DEGREE), degree + 1)?;
            let in_degree = tx.load_u64(target.plus(IN_DEGREE))?;
            tx.store_u64(target.plus(IN_DEGREE), in_degree + 1)
        })
    }

    /// Visits edges of a vertex, at most [`WALK_MAX`]: target and weight.
    fn walk<T: Transact>(
        &self,
        tx: &mut T,
        vertex: PoolOffset,
        mut visit: impl FnMut(&mut T, u64, u64) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut chunk = PoolOffset(tx.load_u64(vertex.plus(EDGES))?);
        let mut left = WALK_MAX;
        while chunk.0 != 0 && left > 0 {
            let count = tx.load_u64(chunk.plus(8))?;
            for k in 0..count.min(left) {
                let at = chunk.plus(CHUNK_HEAD + k * self.edge_bytes);
                let (to, weight) = (tx.load_u64(at)?, tx.load_u64(at.plus(8))?);
                visit(tx, to, weight)?;
            }
            left -= count.min(left);
            chunk = PoolOffset(tx.load_u64(chunk)?);
        }
        Ok(())
    }

    pub(super) fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        let kernel = self.random.below(8);
        if kernel < 5 {
            return self.add_edge(runner);
        }
        let (from, _) = self.draw_edge();
        self.steps += 1;
        let (vertex, steps, heavy) = (self.vertex(from), self.steps, self.heavy);
        if kernel == 5 {
            return runner.run(|tx| {
                let mut heaviest = 0;
                self.walk(tx, vertex, |_, _, weight| {
                    heaviest = heaviest.max(weight);
                    Ok(())
                })?;
                let count = tx.load_u64(heavy)?;
                let entry = heavy.plus(8 + 16 * (count % HEAVY));
                tx.store_u64(entry, from)?;
                tx.store_u64(entry.plus(8), heaviest)?;
                tx.store_u64(heavy, count + 1)
            });
        }
        runner.run(|tx| {
            let mut score = 0u64;
            self.walk(tx, vertex, |tx, to, _| {
                score = score.wrapping_add(tx.load_u64(self.vertex(to).plus(DEGREE))?);
                Ok(())
            })?;
            tx.store_u64(vertex.plus(SCORE), score)?;
            tx.store_u64(vertex.plus(MARK), steps)
        })
    }
}
