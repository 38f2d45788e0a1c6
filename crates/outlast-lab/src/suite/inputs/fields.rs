//! Programs over fields: scripts for Python with NumPy, whose loops over arrays are compiled code.
//!
//! What has no package of its own (flow, fields, lattices) is written here. Arrays lie in memory as the
//! originals' do and do not fit a last level; work goes slab by slab, so what is in between stays in
//! near caches, and the rest streams.

/// A dye that flows and spreads, as particles on a lattice: nine densities a cell, two copies.
pub fn lattice_boltzmann() -> Vec<u8> {
    br#"import numpy as np
H, W, SLAB = 640, 512, 8
ex = [0, 1, 0, -1, 0, 1, -1, -1, 1]
ey = [0, 0, 1, 0, -1, 1, 1, -1, -1]
w = [4/9] + [1/9] * 4 + [1/36] * 4
src = [np.full((H, W), w[k]) for k in range(9)]
dst = [np.full((H, W), w[k]) for k in range(9)]
src[0][100:200, 100:200] = 2.0
t = np.empty((SLAB, W))
for step in range(10000):
    for y in range(1, H - 1 - SLAB, SLAB):
        rows = slice(y, y + SLAB)
        f = [src[k][rows] for k in range(9)]
        rho = f[0] + f[1]
        for k in range(2, 9):
            rho += f[k]
        parts = {x: rho * (0.6 * x) for x in set(w)}
        for k in range(9):
            to = dst[k][y + ey[k]:y + ey[k] + SLAB]
            np.multiply(f[k], 0.4, out=t)
            if ex[k] == 0:
                np.add(t, parts[w[k]], out=to)
            elif ex[k] == 1:
                np.add(t[:, :-1], parts[w[k]][:, :-1], out=to[:, 1:])
            else:
                np.add(t[:, 1:], parts[w[k]][:, 1:], out=to[:, :-1])
    src, dst = dst, src
"#
    .to_vec()
}

/// A wave in three dimensions, differences of fourth order, three time levels: as codes of relativity
/// have it.
pub fn cactus() -> Vec<u8> {
    br#"import numpy as np
N = 96
a, b, c = (np.zeros((N, N, N)) for _ in range(3))
b[N//2, N//2, N//2] = 1.0
k = np.full((N, N, N), 0.04)
for step in range(10000):
    for z in range(2, N - 2):
        u = b[z]
        d = -7.5 * u[2:-2, 2:-2]
        for near, far in ((b[z-1][2:-2, 2:-2], b[z-2][2:-2, 2:-2]), (b[z+1][2:-2, 2:-2], b[z+2][2:-2, 2:-2]),
                          (u[1:-3, 2:-2], u[:-4, 2:-2]), (u[3:-1, 2:-2], u[4:, 2:-2]),
                          (u[2:-2, 1:-3], u[2:-2, :-4]), (u[2:-2, 3:-1], u[2:-2, 4:])):
            d += 1.3333333 * near - 0.0833333 * far
        v = u[2:-2, 2:-2]
        g = k[z][2:-2, 2:-2]
        e = d * g * (1.0 + 0.1 * v) - 0.01 * v * v * v
        c[z][2:-2, 2:-2] = 2.0 * v - a[z][2:-2, 2:-2] + e
    a, b, c = b, c, a
"#
    .to_vec()
}

/// Electric and magnetic fields after Yee, six components and their materials.
pub fn fdtd() -> Vec<u8> {
    br#"import numpy as np
N = 80
ex, ey, ez, hx, hy, hz = (np.zeros((N, N, N)) for _ in range(6))
eps = 0.5 + 0.1 * np.cos(np.arange(N * N * N).reshape(N, N, N))
for step in range(10000):
    ez[N//2, N//2, N//2] += np.sin(0.1 * step)
    for z in range(1, N - 1):
        c = eps[z]
        ex[z][1:, 1:] += c[1:, 1:] * (hz[z][1:, 1:] - hz[z][:-1, 1:] - hy[z][1:, 1:] + hy[z-1][1:, 1:])
        ey[z][1:, 1:] += c[1:, 1:] * (hx[z][1:, 1:] - hx[z-1][1:, 1:] - hz[z][1:, 1:] + hz[z][1:, :-1])
        ez[z][1:, 1:] += c[1:, 1:] * (hy[z][1:, 1:] - hy[z][1:, :-1] - hx[z][1:, 1:] + hx[z][:-1, 1:])
    for z in range(1, N - 1):
        hx[z][:-1, :-1] += 0.5 * (ey[z+1][:-1, :-1] - ey[z][:-1, :-1] - ez[z][1:, :-1] + ez[z][:-1, :-1])
        hy[z][:-1, :-1] += 0.5 * (ez[z][:-1, 1:] - ez[z][:-1, :-1] - ex[z+1][:-1, :-1] + ex[z][:-1, :-1])
        hz[z][:-1, :-1] += 0.5 * (ex[z][1:, :-1] - ex[z][:-1, :-1] - ey[z][:-1, 1:] + ey[z][:-1, :-1])
"#
    .to_vec()
}

/// Matrices of SU(3) on the links of a lattice in four dimensions: products along staples.
pub fn lattice_gauge() -> Vec<u8> {
    br#"import numpy as np
L = 14
V = L ** 4
rng = np.random.RandomState(1)
links = [np.linalg.qr(rng.randn(V, 3, 3) + 1j * rng.randn(V, 3, 3))[0] for _ in range(4)]
site = np.arange(V).reshape(L, L, L, L)
ahead = [np.roll(site, -1, axis=d).reshape(-1) for d in range(4)]
SLAB = 128
for sweep in range(10000):
    for mu in range(4):
        for s in range(0, V, SLAB):
            here = slice(s, s + SLAB)
            staple = np.zeros((len(site.reshape(-1)[here]), 3, 3), complex)
            for nu in range(4):
                if nu == mu:
                    continue
                a = links[nu][here]
                b = links[mu][ahead[nu][here]]
                c = links[nu][ahead[mu][here]].conj().swapaxes(1, 2)
                staple += a @ b @ c
            u = links[mu][here]
            links[mu][here] = 0.98 * u + 0.02 / 3 * staple
"#
    .to_vec()
}

/// A script for flows by finite volumes: `fields` fields on a grid of side `n`, which are advected
/// and diffuse, with `work` rounds of a state equation for each cell.
fn flow(n: u32, fields: u32, work: u32, implicit: bool) -> Vec<u8> {
    let solve = match implicit {
        // Back substitution along the planes, as in implicit schemes.
        true => {
            "    for z in range(N - 2, 0, -1):\n        for f in range(F):\n            \
             q = new[f][z]\n            q -= 0.2 * new[f][z + 1]\n            q *= 0.83\n"
        }
        false => "",
    };
    format!(
        "import numpy as np\n\
         N, F = {n}, {fields}\n\
         base = np.arange(N * N * N).reshape(N, N, N) % 17 * 0.01\n\
         old = [base + 1.0 + 0.1 * f for f in range(F)]\n\
         new = [base + 1.0 for f in range(F)]\n\
         i = (slice(1, -1), slice(1, -1))\n\
         for step in range(10000):\n    \
         for z in range(1, N - 1):\n        \
         p = 0.4 * old[0][z][i]\n        \
         u = old[1][z][i] * 0.1\n        \
         for r in range({work}):\n            \
         p = p * (1.0 - 0.01 * p) + 0.02 * u\n            \
         u = u + 0.003 * p\n        \
         for f in range(F):\n            \
         q, lo, hi = old[f][z], old[f][z - 1], old[f][z + 1]\n            \
         d = q[2:, 1:-1] + q[:-2, 1:-1] + q[1:-1, 2:] + q[1:-1, :-2] + lo[i] + hi[i] - 6.0 * q[i]\n            \
         g = u * (q[2:, 1:-1] - q[:-2, 1:-1]) + p * (hi[i] - lo[i])\n            \
         new[f][z][i] = q[i] + 0.05 * d - 0.01 * g\n\
         {solve}    old, new = new, old\n"
    )
    .into_bytes()
}

/// Flow at high speed, an implicit solver.
pub fn bwaves() -> Vec<u8> {
    flow(80, 5, 1, true)
}

/// Magnetohydrodynamics: more fields, more work for each.
pub fn zeusmp() -> Vec<u8> {
    flow(72, 8, 4, false)
}

/// Turbulence.
pub fn leslie3d() -> Vec<u8> {
    flow(88, 6, 1, false)
}

/// The weather: many fields, much physics in each column.
pub fn weather() -> Vec<u8> {
    flow(64, 10, 20, false)
}
