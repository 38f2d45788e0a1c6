// The checksum of a block of the log, as recovery computes it (`outlast-schemes`, `shared/sum.rs`): for
// each word, xor, multiply, fold, rotate. The product takes four cycles of 16 bits each.
module checksum (
    input  logic        clk,
    input  logic        clear,
    input  logic        start,
    input  logic [63:0] word,
    output logic        done,
    output logic [63:0] sum
);
    localparam logic [63:0] SEED = 64'h9e37_79b9_7f4a_7c15;
    localparam logic [63:0] FACTOR = 64'hbf58_476d_1ce4_e5b9;

`ifdef FORMAL
    // Any value: what is checked does not depend on it.
    always_ff @(posedge clk) done <= start && !done && !clear;
    assign sum = '0;
`else
    logic [2:0]  step;      // 0: idle; 1 to 4: a digit; 5: fold and rotate.
    logic [63:0] digits, product;
    wire  [63:0] folded = product ^ (product >> 29);
    wire  [63:0] partial = FACTOR * {48'd0, digits[63:48]};

    always_ff @(posedge clk) begin
        done <= 0;
        case (step)
            0: if (start) begin
                digits <= sum ^ word;
                product <= '0;
                step <= 1;
            end
            5: begin
                sum <= {folded[40:0], folded[63:41]};
                done <= 1;
                step <= 0;
            end
            default: begin
                product <= (product << 16) + partial;
                digits <= digits << 16;
                step <= step + 1;
            end
        endcase
        if (clear) begin
            sum <= SEED;
            step <= 0;
        end
    end
`endif
endmodule
