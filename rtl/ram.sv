// One memory with a read port and a write port, both of one row a cycle.
//
// The row read stays at the output until the next read. A read beside a write of the same row has the
// old one, and no module of this folder relies on that. Synthesis takes block RAM for large ones.
module ram #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 4,
    parameter int ADDR = DEPTH > 1 ? $clog2(DEPTH) : 1
) (
    input  logic             clk,
    input  logic             re,
    input  logic [ADDR-1:0]  raddr,
    output logic [WIDTH-1:0] rdata,
    input  logic             we,
    input  logic [ADDR-1:0]  waddr,
    input  logic [WIDTH-1:0] wdata
);
    logic [WIDTH-1:0] rows [0:DEPTH-1];

    always_ff @(posedge clk) begin
        if (we) rows[waddr] <= wdata;
        if (re) rdata <= rows[raddr];
    end
endmodule
