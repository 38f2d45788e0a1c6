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

/// A network in Verilog: stations with queues, each of which sends what it gets to another one after a
/// time that is drawn.
pub fn network() -> Vec<u8> {
    const STATIONS: u64 = 4000;
    let mut random = random(12);
    let mut text = String::from(
        "module station(input [31:0] in, output reg [31:0] out);\n\
         parameter ID = 0;\nreg [31:0] queue [0:63];\nreg [31:0] seed;\ninteger head, tail;\n\
         event go;\n\
         always @(in) begin queue[tail & 63] = in; tail = tail + 1; if (tail == head + 1) -> go; end\n\
         always @(go) while (head < tail) begin\n  \
         #(1 + (seed >> 16) % 50) seed = seed * 1103515245 + 12345;\n  \
         out = queue[head & 63] + 1 + seed[7:0];\n  head = head + 1;\nend\n\
         initial begin head = 0; tail = 0; seed = ID * 7919; out = 0; #(1 + ID % 50) out = ID + 1; end\n\
         endmodule\nmodule top;\n",
    );
    let mut from: Vec<u64> = (0..STATIONS).collect();
    for last in (1..STATIONS).rev() {
        from.swap(last as usize, random.below(last + 1) as usize);
    }
    for (station, from) in from.iter().enumerate() {
        let _ = writeln!(text, "wire [31:0] w{station};");
        let _ = writeln!(text, "station #({station}) s{station}(w{from}, w{station});");
    }
    text.push_str("initial #100000 $finish;\nendmodule\n");
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
