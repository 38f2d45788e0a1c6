// The filters over the addresses in the undo buffer: one for the entries that are collected, one for the
// block in flight. Both have BLOOM_BITS, in rows of 32, and three hashes.
//
// `start` asks about a key in both, or with `inserts` adds it to the filter `bank`. `clear` empties one, a
// row a cycle, while the other goes on. A reset empties both, and `cleared` says when.
module bloom #(
    parameter int KEY_BITS = 8,
    parameter int BLOOM_BITS = 4096,
    parameter int HASHES = 3
) (
    input  logic                clk,
    input  logic                rst,
    input  logic                start,
    input  logic                inserts,
    input  logic                bank,
    input  logic [KEY_BITS-1:0] key,
    output logic                done,
    output logic [1:0]          found,   // By bank; with `done`.
    input  logic                clear,
    input  logic                clear_bank,
    output logic                cleared
);
    localparam int ROWS = BLOOM_BITS / 32;
    localparam int ROW_BITS = ROWS > 1 ? $clog2(ROWS) : 1;
    localparam int INDEX_BITS = ROW_BITS + 5;

    // Hash `h` of a key: its bits folded, each time another way.
    logic [INDEX_BITS*HASHES-1:0] hashes;
    genvar h;
    generate
        for (h = 0; h < HASHES; h++) begin : folds
            logic [INDEX_BITS-1:0] folded;
            always_comb begin
                folded = '0;
                for (int i = 0; i < KEY_BITS; i++) begin
                    folded[(i * (2 * h + 1) + 3 * h) % INDEX_BITS] ^= key[i];
                    folded[(i * 5 + i / 3 + 7 * h + 1) % INDEX_BITS] ^= key[i];
                end
            end
            assign hashes[h*INDEX_BITS +: INDEX_BITS] = folded;
        end
    endgenerate

    typedef enum logic [1:0] {IDLE, READ, USE} state_t;
    state_t state;
    logic [1:0] n;
    wire [INDEX_BITS-1:0] index = hashes[n*INDEX_BITS +: INDEX_BITS];
    logic [63:0] row;
    logic [1:0] all;
    logic is_clearing, clearing_bank, clears_both;
    logic [ROW_BITS-1:0] clear_row;

    genvar b;
    generate
        for (b = 0; b < 2; b++) begin : filters
            wire clears = is_clearing && (clears_both || clearing_bank == b);
            wire adds = state == USE && inserts && bank == b;
            ram #(.WIDTH(32), .DEPTH(ROWS)) bits (
                .clk, .re(state == READ), .raddr(index[INDEX_BITS-1:5]), .rdata(row[b*32 +: 32]),
                .we(clears || adds), .waddr(clears ? clear_row : index[INDEX_BITS-1:5]),
                .wdata(clears ? '0 : row[b*32 +: 32] | 32'd1 << index[4:0]));
        end
    endgenerate

    assign found = all;

    always_ff @(posedge clk) begin
        done <= 0;
        cleared <= 0;
        case (state)
            IDLE: if (start && !done) begin
                n <= 0;
                all <= 2'b11;
                state <= READ;
            end
            READ: state <= USE;
            USE: begin
                n <= n + 1;
                for (int i = 0; i < 2; i++) all[i] <= all[i] && row[i*32 + 32'(index[4:0])];
                state <= READ;
                if (n == 2'(HASHES - 1)) begin
                    state <= IDLE;
                    done <= 1;
                end
            end
            default: state <= IDLE;
        endcase

        if (is_clearing) begin
            clear_row <= clear_row + 1;
            if (clear_row == ROW_BITS'(ROWS - 1)) begin
                is_clearing <= 0;
                cleared <= 1;
            end
        end else if (clear) begin
            is_clearing <= 1;
            clears_both <= 0;
            clearing_bank <= clear_bank;
            clear_row <= '0;
        end

        if (rst) begin
            state <= IDLE;
            done <= 0;
            is_clearing <= 1;
            clears_both <= 1;
            clear_row <= '0;
            cleared <= 0;
        end
    end
endmodule
