//! Sources: what compilers and simulators of circuits work on.

use std::fmt::Write;

use super::random;

/// A C program of many functions, already preprocessed.
pub fn c_source() -> Vec<u8> {
    const FUNCTIONS: u64 = 1500;
    let mut random = random(11);
    let mut text = String::from(
        "struct node { struct node *next, *other; long key; int kind; double weight; };\n\
         extern void *malloc(unsigned long);\nextern int puts(const char *);\n\
         static long table[256];\n",
    );
    for number in 0..FUNCTIONS {
        let (a, b, c) = (random.below(97) + 3, random.below(13) + 2, random.below(250));
        let _ = writeln!(text, "static long f{number}(struct node *at, long n, int m) {{");
        let _ = writeln!(text, "  long sum = {a}; double d = 0.5 * n; int i, j;");
        for part in 0..2 + random.below(5) {
            let (k, l) = (random.below(256), random.below(60) + 4);
            match random.below(5) {
                0 => {
                    let _ = writeln!(
                        text,
                        "  for (i = 0; i < n % {l}; i++) for (j = i; j < m; j += {b}) \
                         sum += table[(i * {a} + j) & 255] ^ (sum >> {part});"
                    );
                }
                1 => {
                    let _ = writeln!(
                        text,
                        "  while (at && at->key != {k}) {{ if (at->kind == {b}) d += at->weight; \
                         else sum -= at->key; at = at->kind & 1 ? at->next : at->other; }}"
                    );
                }
                2 => {
                    let _ = writeln!(text, "  switch ((sum + {k}) % 7) {{");
                    for case in 0..7 {
                        let _ = writeln!(
                            text,
                            "  case {case}: sum = sum * {} + m; d -= sum / {l}.0; break;",
                            case * 3 + 1
                        );
                    }
                    text.push_str("  }\n");
                }
                3 => {
                    let _ = writeln!(
                        text,
                        "  if (d > {k}.25 && n > m || sum % {l} == 3) {{ table[{c}] += (long)d; \
                         d = d * d / (1.0 + {b}); }} else table[sum & 255] = n << {part};"
                    );
                }
                _ if number > 0 => {
                    let callee = random.below(number);
                    let _ = writeln!(text, "  sum += f{callee}(at, sum & {k}, m - 1);");
                }
                _ => {}
            }
        }
        text.push_str("  return sum + (long)d;\n}\n");
    }
    text.push_str("int main(void) {\n  struct node at = { 0, 0, 3, 1, 2.5 };\n  long all = 0;\n");
    for number in 0..FUNCTIONS {
        let _ = writeln!(text, "  all += f{number}(&at, {number}, 5);");
    }
    text.push_str("  return (int)all;\n}\n");
    text.into_bytes()
}

/// A circuit of gates with delays, drawn at random, and registers that feed it: an event queue and
/// pointers, as in simulators of networks.
pub fn circuit() -> Vec<u8> {
    const WIRES: u64 = 24_000;
    const INPUTS: u64 = 512;
    let mut random = random(12);
    let mut text = format!(
        "`timescale 1ns/1ps\nmodule top;\nreg clock = 0;\nreg [{last}:0] state = 1;\n\
         wire [{wires}:0] w;\nassign w[{last}:0] = state;\n",
        last = INPUTS - 1,
        wires = WIRES - 1
    );
    for wire in INPUTS..WIRES {
        let kind = ["and", "or", "xor", "nand", "nor", "xnor"][random.below(6) as usize];
        let (a, b) = (random.below(wire), random.below(wire));
        let delay = 1 + random.below(9);
        let _ = writeln!(text, "{kind} #{delay} g{wire}(w[{wire}], w[{a}], w[{b}]);");
    }
    let _ = write!(
        text,
        "always #40 clock = ~clock;\n\
         always @(posedge clock) state <= {{state[{before}:0], state[{last}] ^ state[17]}} ^ \
         {{w[{top}:{low}]}};\ninitial #40000 $finish;\nendmodule\n",
        before = INPUTS - 2,
        last = INPUTS - 1,
        top = WIRES - 1,
        low = WIRES - INPUTS
    );
    text.into_bytes()
}

/// The quantum part of Shor's algorithm by libquantum's own functions: modular exponentiation over a
/// register of superposed states.
pub fn quantum_source() -> Vec<u8> {
    br#"#include <quantum.h>
#include <stdlib.h>
int main(void) {
    int n = 1397, x = 8, i, width = 2 * quantum_getwidth(1397), swidth = quantum_getwidth(1397);
    srand(1);
    quantum_reg qr = quantum_new_qureg(0, width);
    for (i = 0; i < width; i++) quantum_hadamard(i, &qr);
    quantum_addscratch(3 * swidth + 2, &qr);
    quantum_exp_mod_n(n, x, width, swidth, &qr);
    for (i = 0; i < 3 * swidth + 2; i++) quantum_bmeasure(0, &qr);
    quantum_qft(width, &qr);
    return qr.size == 0;
}
"#
    .to_vec()
}
