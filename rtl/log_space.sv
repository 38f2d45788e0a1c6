// Log pointers: where the next block goes, and which super blocks are free again.
//
// The operating system gives the log in chunks of CHUNK blocks, which are the super blocks. They form a
// ring in the order of their age: a new one comes behind the one in use. A chunk is free when its
// greatest ValidTill is not above PersistedEID. `low` is the interrupt of exhaustion: few blocks are left
// and the next chunk is not free. The operating system answers with `grow`, or ends the epoch and has
// all epochs persist; RESERVE blocks are what that may need.
module log_space #(
    parameter int CHUNK = 8,
    parameter int MAX_CHUNKS = 4,
    parameter int RESERVE = 4,
    parameter int BLOCK_WORDS = 256,
    parameter int ADDR_BITS = 32,
    parameter int EPOCH_BITS = 32,
    parameter int CHUNK_BITS = $clog2(MAX_CHUNKS + 1)
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [CHUNK_BITS-1:0] boot_chunks,
    input  logic [ADDR_BITS-1:0]  log_base,
    input  logic [EPOCH_BITS-1:0] persisted,
    input  logic                  take,        // The next block begins; its greatest ValidTill is `till`.
    input  logic [EPOCH_BITS-1:0] till,
    output logic                  has_place,
    output logic [ADDR_BITS-1:0]  place,
    output logic                  low,
    input  logic                  grow
);
    localparam int INDEX_BITS = $clog2(CHUNK + 1);

    logic [CHUNK_BITS-1:0] chunk, chunks;
    logic [INDEX_BITS-1:0] index;       // Blocks taken of the chunk.
    logic [CHUNK_BITS-1:0] next [0:MAX_CHUNKS-1];
    logic [EPOCH_BITS-1:0] tills [0:MAX_CHUNKS-1];

    wire is_full = index == INDEX_BITS'(CHUNK);
    wire [CHUNK_BITS-1:0] next_chunk = next[chunk];
    wire next_free = tills[next_chunk] <= persisted && !(next_chunk == chunk && !is_full);
    wire [CHUNK_BITS-1:0] at_chunk = is_full ? next_chunk : chunk;
    wire [INDEX_BITS-1:0] at_index = is_full ? '0 : index;

    assign has_place = !is_full || next_free;
    assign low = 32'(index) + RESERVE >= CHUNK && !next_free;
    assign place = log_base + ADDR_BITS'((32'(at_chunk) * CHUNK + 32'(at_index)) * BLOCK_WORDS);

    always_ff @(posedge clk) begin
        if (take) begin
            chunk <= at_chunk;
            index <= at_index + 1;
            tills[at_chunk] <= till;
        end else if (grow && 32'(chunks) < MAX_CHUNKS) begin
            next[chunks] <= next_chunk;
            next[chunk] <= chunks;
            tills[chunks] <= '0;
            chunks <= chunks + 1;
        end
        if (rst) begin
            chunk <= '0;
            index <= '0;
            chunks <= boot_chunks;
            for (int i = 0; i < MAX_CHUNKS; i++) begin
                next[i] <= CHUNK_BITS'(i + 1) == boot_chunks ? '0 : CHUNK_BITS'(i + 1);
                tills[i] <= '0;
            end
        end
    end
endmodule
