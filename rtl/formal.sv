// A small undo log under any environment, for bounded model checking (`read_verilog -formal`).
//
// The environment is what the LLC and memory may do: an entry stays until it is taken, a write home until
// it may go, never both at a time; words become durable whenever they like. The checksum's value does not
// matter here, so `checksum` is one that is done at any time (`FORMAL` in its file).
//
//  1. A write home is never let go while its line has an entry that is not durable.
//  2. A drain is over only when every entry is durable that was there at its begin.
module formal #(
    parameter int BUG = 0,
    parameter int LINE_BITS = 2
) (
    input logic                 clk,
    input logic                 log_wanted,
    input logic                 home_wanted,
    input logic [LINE_BITS-1:0] any_line,
    input logic                 drain_wanted,
    input logic                 beat_ready,
    input logic                 durable
);
    localparam int LINES = 1 << LINE_BITS;

    logic rst = 1;
    always_ff @(posedge clk) rst <= 0;

    logic                 log_valid = 0, home_valid = 0, drain = 0;
    logic [LINE_BITS-1:0] line;
    logic                 log_ready, home_clear, drained, beat_valid, block_starts, block_durable;
    logic [7:0]           words = 0;

    undo_log #(
        .GRANULE(64), .LINE_BITS(LINE_BITS), .UNDO_ENTRIES(2), .BLOOM_BITS(64), .HASHES(1), .CHUNK(2), .MAX_CHUNKS(2),
        .EPOCH_BITS(16), .ADDR_BITS(12)
    ) log (
        .clk, .rst, .bug(3'(BUG)), .boot_sequence(64'd1), .boot_chunks(2'd2), .log_base(12'd8),
        .system(16'd3), .persisted(16'd1),
        .log_valid, .log_line(line), .log_data('0), .log_from(4'd1), .log_till(4'd3), .log_ready,
        .home_valid, .home_line(line), .home_clear, .drain, .drained,
        .beat_valid, .beat_addr(), .beat_data(), .beat_ready,
        .beat_durable(durable && words != 0), .log_low(), .log_grow(1'b0),
        .block_starts, .block_durable);

    // Lines with an entry that is collected, in flight, and among those that a drain waits for.
    logic [LINES-1:0] collected = 0, flying = 0, due_collected = 0, due_flying = 0;

    always_ff @(posedge clk) if (!rst) begin
        words <= words + 8'(beat_valid && beat_ready) - 8'(durable && words != 0);
        if (log_valid ? log_ready : home_valid ? home_clear : 1'b1) begin
            log_valid <= log_wanted;
            home_valid <= home_wanted && !log_wanted;
            line <= any_line;
        end
        drain <= drain ? !drained : drain_wanted;
        if (block_durable) flying <= '0;
        if (block_starts) begin
            flying <= collected;
            collected <= '0;
        end
        if (log_ready) collected[line] <= 1;

        if (block_starts) due_flying <= drain ? due_collected : collected;
        else if (block_durable) due_flying <= '0;
        else if (!drain) due_flying <= flying;
        if (!drain) due_collected <= (block_starts ? '0 : collected) | LINES'(log_ready) << line;
        else if (block_starts) due_collected <= '0;
    end

    always_ff @(posedge clk) if (!rst) begin
        if (home_clear) let_go: assert (!collected[line] && !flying[line]);
        if (drained) all_durable: assert ((flying & due_flying) == 0 && (collected & due_collected) == 0);
    end
endmodule
