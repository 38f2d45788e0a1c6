// The undo buffer with its filter, and the log behind it.
//
// Entries are collected in one of two banks. A bank that is full, or that something waits for, is
// written to the log as one block, in the format that recovery reads (`outlast-schemes`,
// `picl/layout.rs`), while the other bank collects. One block at a time is in flight: so only the
// youngest can be torn. A write home asks the filter; a line that may be in it waits for its block.
//
// The words of a block go to memory as their checksum is computed; the checksum's own word is last. An
// entry's data take 64 bytes there; with smaller lines the rest is zero.
module undo_log #(
    parameter int GRANULE = 16,
    parameter int LINE_BITS = 8,
    parameter int EID_BITS = 4,
    parameter int EPOCH_BITS = 32,
    parameter int ADDR_BITS = 32,
    parameter int UNDO_ENTRIES = 28,
    parameter int DOUBLE_BUFFER = 1,
    parameter int BLOOM_BITS = 4096,
    parameter int HASHES = 3,
    parameter int CHUNK = 8,
    parameter int MAX_CHUNKS = 4,
    parameter int RESERVE = 4,
    parameter int BITS = 8 * GRANULE,
    parameter int SUB_BITS = GRANULE < 64 ? $clog2(64 / GRANULE) : 0,
    parameter int HOME_BITS = LINE_BITS - SUB_BITS,
    parameter int CHUNK_BITS = $clog2(MAX_CHUNKS + 1)
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [2:0]            bug,              // Planted: see `top`.
    input  logic [63:0]           boot_sequence,
    input  logic [CHUNK_BITS-1:0] boot_chunks,
    input  logic [ADDR_BITS-1:0]  log_base,
    input  logic [EPOCH_BITS-1:0] system,
    input  logic [EPOCH_BITS-1:0] persisted,

    input  logic                  log_valid,
    input  logic [LINE_BITS-1:0]  log_line,
    input  logic [BITS-1:0]       log_data,
    input  logic [EID_BITS-1:0]   log_from,
    input  logic [EID_BITS-1:0]   log_till,
    output logic                  log_ready,

    // A write home may go when `home_clear` comes.
    input  logic                  home_valid,
    input  logic [HOME_BITS-1:0]  home_line,
    output logic                  home_clear,

    input  logic                  drain,
    output logic                  drained,

    output logic                  beat_valid,
    output logic [ADDR_BITS-1:0]  beat_addr,
    output logic [63:0]           beat_data,
    input  logic                  beat_ready,
    input  logic                  beat_durable,     // One of them.

    output logic                  log_low,
    input  logic                  log_grow,

    // For the checks: a block begins, and is durable.
    output logic                  block_starts,
    output logic                  block_durable
);
    localparam int COUNT_BITS = $clog2(UNDO_ENTRIES + 1);
    localparam int HEAD_WORDS = (4 + UNDO_ENTRIES + 7) / 8 * 8;
    localparam int BLOCK_WORDS = HEAD_WORDS + 8 * UNDO_ENTRIES;
    localparam int WORD_BITS = $clog2(BLOCK_WORDS + 1);
    localparam int ROW = BITS + LINE_BITS + 30;

    // An EID as an epoch: the youngest one that it can be.
    function automatic logic [EPOCH_BITS-1:0] epoch_of(logic [EID_BITS-1:0] eid);
        epoch_of = system - EPOCH_BITS'(EID_BITS'(system[EID_BITS-1:0] - eid));
    endfunction

    logic                  filling;                 // The bank that collects.
    logic [COUNT_BITS-1:0] count;
    logic [EPOCH_BITS-1:0] base, till;              // Least ValidFrom, greatest ValidTill.
    logic                  flying;                  // A block is in flight, or its filter not clear.
    logic [COUNT_BITS-1:0] fly_count, acked;
    logic [EPOCH_BITS-1:0] fly_base, fly_till;
    logic [63:0]           sequence_number;
    logic                  flush_wanted, boots;     // `boots`: the filters are not clear yet.

    // The filter, for entries and writes home.
    logic       bloom_start, bloom_done, bloom_clear, bloom_cleared;
    logic [1:0] bloom_found;
    wire has_room = count < COUNT_BITS'(UNDO_ENTRIES) && (DOUBLE_BUFFER != 0 || !flying);
    typedef enum logic [1:0] {FREE, INSERT, QUERY} front_t;
    front_t front;
    wire [HOME_BITS-1:0] key = front == INSERT ? HOME_BITS'(log_line >> SUB_BITS) : home_line;
    bloom #(.KEY_BITS(HOME_BITS), .BLOOM_BITS(BLOOM_BITS), .HASHES(HASHES)) filter (
        .clk, .rst, .start(bloom_start), .inserts(front == INSERT), .bank(filling), .key,
        .done(bloom_done), .found(bloom_found),
        .clear(bloom_clear), .clear_bank(!filling), .cleared(bloom_cleared));
    assign bloom_start = front != FREE;
    assign log_ready = front == INSERT && bloom_done;
    wire may_have = bloom_found[filling] || flying && bloom_found[!filling];
    assign home_clear = front == QUERY && bloom_done && (!may_have || bug == 1);

    // The banks.
    logic [COUNT_BITS-1:0] entry;
    logic [ROW-1:0]        row;
    wire [EPOCH_BITS-1:0] from_epoch = epoch_of(log_from), till_epoch = epoch_of(log_till);
    ram #(.WIDTH(ROW), .DEPTH(2 << COUNT_BITS)) buffer (
        .clk, .re(1'b1), .raddr({bug == 5 ? 1'b0 : !filling, entry}), .rdata(row),
        .we(log_ready), .waddr({bug == 5 ? 1'b0 : filling, count}),
        .wdata({till_epoch[14:0], from_epoch[14:0], log_line, log_data}));

    // The writer.
    typedef enum logic [2:0] {NONE, READ, SUM, BEAT, LAST, ACKS, CLEAR} back_t;
    back_t back;
    logic [WORD_BITS-1:0] word, words_out;
    logic [63:0]          value, sum;
    logic                 sum_start, sum_done;
    logic [ADDR_BITS-1:0] place, block_at;
    logic                 has_place;
    wire in_head = word < WORD_BITS'(HEAD_WORDS);
    wire [WORD_BITS-1:0] past_head = word - WORD_BITS'(HEAD_WORDS);
    assign entry = in_head ? COUNT_BITS'(word - 4) : COUNT_BITS'(past_head >> 3);
    wire [511:0] padded = 512'(row[BITS-1:0]);
    wire [14:0] short_from = row[BITS+LINE_BITS +: 15] - fly_base[14:0];
    wire [14:0] short_till = row[BITS+LINE_BITS+15 +: 15] - fly_base[14:0];
    wire [63:0] entry_word = {short_till, short_from, 34'(row[BITS +: LINE_BITS])};
    always_comb begin
        case (word)
            0: value = sequence_number;
            1: value = 64'(fly_base);
            2: value = {17'd0, 15'(fly_till - fly_base), 32'(fly_count)};
            3: value = '0;
            default: if (in_head) value = 32'(word) - 4 < 32'(fly_count) ? entry_word : '0;
                     else value = padded[past_head[2:0]*64 +: 64];
        endcase
    end
    wire is_last = word + 1 == WORD_BITS'(HEAD_WORDS) + WORD_BITS'({fly_count, 3'd0});
    wire starts = back == NONE && front == FREE && count != 0 && has_place
                  && (count == COUNT_BITS'(UNDO_ENTRIES) || flush_wanted);
    assign block_starts = starts;
    assign block_durable = back == ACKS && words_out == 0;
    checksum block_sum (.clk, .clear(starts), .start(sum_start), .word(value), .done(sum_done), .sum);
    assign sum_start = back == SUM && !sum_done;
    assign beat_valid = back == BEAT || back == LAST;
    assign beat_addr = block_at + (back == LAST ? 3 : ADDR_BITS'(word));
    assign beat_data = back == LAST ? sum : value;
    assign bloom_clear = block_durable;

    log_space #(
        .CHUNK(CHUNK), .MAX_CHUNKS(MAX_CHUNKS), .RESERVE(RESERVE), .BLOCK_WORDS(BLOCK_WORDS),
        .ADDR_BITS(ADDR_BITS), .EPOCH_BITS(EPOCH_BITS)
    ) space (
        .clk, .rst, .boot_chunks, .log_base, .persisted, .take(starts), .till,
        .has_place, .place, .low(log_low), .grow(log_grow));

    // What was there when a drain began is durable: blocks until then, and one of what was collected.
    logic       drains;
    logic [3:0] blocks, drain_until;                // Blocks begun.
    wire [3:0]  drain_target = blocks + (count != 0 || front == INSERT ? 4'd1 : 4'd0);
    assign drained = drains && (blocks == drain_until && !flying || blocks == drain_until + 4'd1);

    always_ff @(posedge clk) begin
        case (front)
            FREE: if (!starts && !boots) begin
                if (log_valid && has_room && !log_ready) front <= INSERT;
                else if (home_valid && !log_valid) front <= QUERY;
            end
            default: if (bloom_done) front <= FREE;
        endcase
        if (log_ready) begin
            count <= count + 1;
            base <= count == 0 || from_epoch < base ? from_epoch : base;
            till <= count == 0 || till_epoch > till ? till_epoch : till;
        end
        if (starts) flush_wanted <= 0;
        else if (front == QUERY && bloom_done && bloom_found[filling] && count != 0) flush_wanted <= 1;

        drains <= drain && !drained;
        if (drain && !drains && !drained) drain_until <= drain_target;
        if (drains && blocks != drain_until && blocks != drain_until + 4'd1 && count != 0 && !starts)
            flush_wanted <= 1;

        words_out <= words_out + WORD_BITS'(beat_valid && beat_ready) - WORD_BITS'(beat_durable);
        case (back)
            NONE: if (starts) begin
                back <= READ;
                word <= '0;
                flying <= 1;
                filling <= !filling;
                fly_count <= count;
                fly_base <= base;
                fly_till <= till;
                count <= '0;
                block_at <= place;
                blocks <= blocks + 1;
            end
            READ: back <= SUM;
            SUM: if (sum_done) back <= word == 3 ? READ : BEAT;
            BEAT: if (beat_ready) back <= is_last ? LAST : READ;
            LAST: if (beat_ready) back <= ACKS;
            ACKS: if (words_out == 0) begin
                back <= CLEAR;
                sequence_number <= sequence_number + 1;
            end
            CLEAR: if (bloom_cleared) begin
                back <= NONE;
                flying <= 0;
                boots <= 0;
            end
            default: back <= NONE;
        endcase
        if (back == SUM && sum_done && word == 3 || back == BEAT && beat_ready) word <= word + 1;

        if (rst) begin
            front <= FREE;
            back <= CLEAR;
            boots <= 1;
            filling <= 0;
            count <= '0;
            flying <= 1;
            flush_wanted <= 0;
            sequence_number <= boot_sequence;
            words_out <= '0;
            blocks <= '0;
            drains <= 0;
        end
    end
endmodule
