// Two cores' caches with PiCL ("PiCL: A Software-Transparent, Persistent Cache Log for Nonvolatile Main
// Memory", MICRO'18, section V): private caches (`l2`), a slice of the last level (`llc`), the off-chip
// interface (`undo_log`, `mem_port`) and the epochs. Without PICL the same caches are the baseline.
//
// With PLANTS `bug` plants one: 1 the filter is ignored; 2 forwarded entries of some lines are dropped; 3 ACS ends
// early; 4 the LLC's EID stays as it is when an undo entry comes; 5 the buffer takes entries over those
// in flight; 6 PersistedEID is written without a scan; 7 SystemEID counts on while entries are on their way.
module top #(
    parameter int PICL = 1,
    parameter int PLANTS = 0,
    parameter int CORES = 2,
    parameter int GRANULE = 16,         // Bytes of a private line and of what an EID speaks of: 16 or 64.
    parameter int HOME_BITS = 6,        // Of a 64-byte line's number.
    parameter int L2_SETS = 2,
    parameter int L2_WAYS = 2,
    parameter int LLC_SETS = 4,
    parameter int LLC_WAYS = 2,
    parameter int EID_BITS = 4,
    parameter int EPOCH_BITS = 32,
    parameter int ACS_GAP = 1,
    parameter int UNDO_ENTRIES = 28,    // What 2 KB hold with their addresses and epochs (PICL-6).
    parameter int DOUBLE_BUFFER = 1,
    parameter int BLOOM_BITS = 4096,
    parameter int CHUNK = 8,
    parameter int MAX_CHUNKS = 4,
    parameter int RESERVE = 4,
    parameter int ADDR_BITS = 32,       // Of a word in memory.
    parameter int SUBS = 64 / GRANULE,
    parameter int SUB_BITS = SUBS > 1 ? $clog2(SUBS) : 0,
    parameter int LINE_BITS = HOME_BITS + SUB_BITS,
    parameter int WORD_BITS = $clog2(GRANULE / 8),
    parameter int BITS = 8 * GRANULE,
    parameter int CORE_ADDR_BITS = HOME_BITS + 3,
    parameter int CHUNK_BITS = $clog2(MAX_CHUNKS + 1)
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic [2:0]                      bug,

    // What firmware has read from memory, and where things lie there.
    input  logic [EPOCH_BITS-1:0]           boot_persisted,
    input  logic [63:0]                     boot_sequence,
    input  logic [CHUNK_BITS-1:0]           boot_chunks,
    input  logic [ADDR_BITS-1:0]            header_addr,

    input  logic [CORES-1:0]                req_valid,
    input  logic [2*CORES-1:0]              req_op,
    input  logic [CORE_ADDR_BITS*CORES-1:0] req_addr,
    input  logic [64*CORES-1:0]             req_data,
    output logic [CORES-1:0]                resp_valid,
    output logic [64*CORES-1:0]             resp_data,

    // The operating system's registers and interrupt.
    input  logic                            advance,
    output logic                            may_advance,
    input  logic                            bulk,
    output logic [EPOCH_BITS-1:0]           system_eid,
    output logic [EPOCH_BITS-1:0]           persisted_eid,
    output logic                            log_low,
    input  logic                            log_grow,

    output logic                            mem_valid,
    output logic                            mem_write,
    output logic [1:0]                      mem_kind,
    output logic [ADDR_BITS-1:0]            mem_addr,
    output logic [63:0]                     mem_data,
    input  logic                            mem_ready,
    input  logic                            read_valid,
    input  logic [63:0]                     read_data,
    input  logic                            ack_valid,
    input  logic [1:0]                      ack_kind,

    // What happens, for a test bench: an entry comes to the undo buffer; a line has gone home; a block
    // begins; a scan runs; a lookup of the LLC has found a line with these EIDs.
    output logic                            undo_valid,
    output logic                            undo_modified,
    output logic [LINE_BITS-1:0]            undo_line,
    output logic [BITS-1:0]                 undo_data,
    output logic [EID_BITS-1:0]             undo_from,
    output logic [EID_BITS-1:0]             undo_till,
    output logic                            home_valid,
    output logic [HOME_BITS-1:0]            home_line,
    output logic [SUBS-1:0]                 home_mask,
    output logic                            block_starts,
    output logic                            block_durable,
    output logic                            scans,
    output logic                            seen,
    output logic [HOME_BITS-1:0]            seen_line,
    output logic [SUBS-1:0]                 seen_modified,
    output logic [SUBS*EID_BITS-1:0]        seen_eids,
    output logic [2:0]                      violated    // Invariants of `checks`.
);
    wire  [2:0]                 planted = PLANTS != 0 ? bug : 3'd0;
    logic [CORES-1:0]           q_valid, q_done, s_valid, s_done, s_nack, s_dirty;
    logic [CORES-1:0]           u_valid, u_modified, u_ready, l2_stored;
    logic [3*CORES-1:0]         q_op;
    logic [LINE_BITS*CORES-1:0] q_line, u_line, l2_stored_line;
    logic [WORD_BITS*CORES-1:0] q_word;
    logic [BITS*CORES-1:0]      q_data, s_data, u_data;
    logic [EID_BITS*CORES-1:0]  u_from, u_till;
    logic [BITS-1:0]            a_data;
    logic                       a_has_eid, s_inv, llc_stored;
    logic [EID_BITS-1:0]        a_eid;
    logic [LINE_BITS-1:0]       s_line;

    logic [511:0]               home_data, fill_data;
    logic [HOME_BITS-1:0]       fill_line;
    logic                       home_wanted, home_ready, fill_valid, fill_ready;
    logic                       entry_valid, entry_ready;
    logic                       acs_run, acs_done, drain, drained, settle, settled;
    logic [EID_BITS-1:0]        acs_age;
    logic                       ask_valid, ask_clear;
    logic                       beat_valid, beat_ready, beat_durable;
    logic [ADDR_BITS-1:0]       beat_addr;
    logic [63:0]                beat_data;
    logic                       eid_valid, eid_ready, eid_durable;
    logic [EPOCH_BITS-1:0]      eid_epoch;

    genvar c;
    generate
        for (c = 0; c < CORES; c++) begin : core
            l2 #(
                .PICL(PICL), .GRANULE(GRANULE), .L2_SETS(L2_SETS), .L2_WAYS(L2_WAYS),
                .LINE_BITS(LINE_BITS), .EID_BITS(EID_BITS)
            ) cache (
                .clk, .rst,
                .req_valid(req_valid[c]), .req_op(req_op[c*2 +: 2]),
                .req_addr(req_addr[c*CORE_ADDR_BITS +: CORE_ADDR_BITS]),
                .req_data(req_data[c*64 +: 64]),
                .resp_valid(resp_valid[c]), .resp_data(resp_data[c*64 +: 64]),
                .llc_valid(q_valid[c]), .llc_op(q_op[c*3 +: 3]),
                .llc_line(q_line[c*LINE_BITS +: LINE_BITS]),
                .llc_word(q_word[c*WORD_BITS +: WORD_BITS]), .llc_data(q_data[c*BITS +: BITS]),
                .llc_done(q_done[c]), .llc_rdata(a_data), .llc_has_eid(a_has_eid), .llc_eid(a_eid),
                .snoop_valid(s_valid[c]), .snoop_inv(s_inv), .snoop_line(s_line),
                .snoop_done(s_done[c]), .snoop_nack(s_nack[c]), .snoop_dirty(s_dirty[c]),
                .snoop_data(s_data[c*BITS +: BITS]),
                .undo_valid(u_valid[c]), .undo_line(u_line[c*LINE_BITS +: LINE_BITS]),
                .undo_data(u_data[c*BITS +: BITS]), .undo_modified(u_modified[c]),
                .undo_from(u_from[c*EID_BITS +: EID_BITS]),
                .undo_till(u_till[c*EID_BITS +: EID_BITS]), .undo_ready(u_ready[c]),
                .system_eid(system_eid[EID_BITS-1:0]), .persisted_eid(persisted_eid[EID_BITS-1:0]),
                .stored(l2_stored[c]), .stored_line(l2_stored_line[c*LINE_BITS +: LINE_BITS]));
        end
    endgenerate

    llc #(
        .PICL(PICL), .CORES(CORES), .GRANULE(GRANULE), .LLC_SETS(LLC_SETS),
        .LLC_WAYS(LLC_WAYS), .LINE_BITS(LINE_BITS), .EID_BITS(EID_BITS)
    ) slice (
        .clk, .rst, .bug(planted),
        .req_valid(q_valid), .req_op(q_op), .req_line(q_line), .req_word(q_word), .req_data(q_data),
        .req_done(q_done), .resp_data(a_data), .resp_has_eid(a_has_eid), .resp_eid(a_eid),
        .snoop_valid(s_valid), .snoop_inv(s_inv), .snoop_line(s_line), .snoop_done(s_done),
        .snoop_nack(s_nack), .snoop_dirty(s_dirty), .snoop_data(s_data),
        .undo_valid(u_valid), .undo_line(u_line), .undo_data(u_data), .undo_modified(u_modified),
        .undo_from(u_from), .undo_till(u_till), .undo_ready(u_ready),
        .log_valid(entry_valid), .log_line(undo_line), .log_data(undo_data),
        .log_modified(undo_modified), .log_from(undo_from), .log_till(undo_till),
        .log_ready(entry_ready),
        .home_valid(home_wanted), .home_line, .home_data, .home_mask, .home_ready,
        .fill_valid, .fill_line, .fill_ready, .fill_data,
        .system_eid(system_eid[EID_BITS-1:0]), .persisted_eid(persisted_eid[EID_BITS-1:0]),
        .acs_run, .acs_age, .acs_done, .stored(llc_stored),
        .seen, .seen_line, .seen_modified, .seen_eids);

    mem_port #(
        .PICL(PICL), .GRANULE(GRANULE), .HOME_BITS(HOME_BITS), .ADDR_BITS(ADDR_BITS)
    ) port (
        .clk, .rst,
        .fill_valid, .fill_line, .fill_ready, .fill_data,
        .home_valid(home_wanted), .home_line, .home_data, .home_mask, .home_ready,
        .ask_valid, .ask_clear, .settle, .settled,
        .log_valid(beat_valid), .log_addr(beat_addr), .log_data(beat_data), .log_ready(beat_ready),
        .log_durable(beat_durable),
        .eid_valid, .eid_addr(header_addr), .eid_data(64'(eid_epoch)), .eid_ready, .eid_durable,
        .mem_valid, .mem_write, .mem_kind, .mem_addr, .mem_data, .mem_ready,
        .read_valid, .read_data, .ack_valid, .ack_kind);

    assign undo_valid = entry_valid && entry_ready;
    assign home_valid = home_wanted && home_ready;
    assign scans = acs_run;

    generate
        if (PICL != 0) begin : picl
            undo_log #(
                .GRANULE(GRANULE), .LINE_BITS(LINE_BITS), .EID_BITS(EID_BITS),
                .EPOCH_BITS(EPOCH_BITS), .ADDR_BITS(ADDR_BITS), .UNDO_ENTRIES(UNDO_ENTRIES),
                .DOUBLE_BUFFER(DOUBLE_BUFFER), .BLOOM_BITS(BLOOM_BITS), .CHUNK(CHUNK),
                .MAX_CHUNKS(MAX_CHUNKS), .RESERVE(RESERVE)
            ) log (
                .clk, .rst, .bug(planted), .boot_sequence, .boot_chunks, .log_base(header_addr + 8),
                .system(system_eid), .persisted(persisted_eid),
                .log_valid(entry_valid), .log_line(undo_line), .log_data(undo_data),
                .log_from(undo_from), .log_till(undo_till), .log_ready(entry_ready),
                .home_valid(ask_valid), .home_line, .home_clear(ask_clear),
                .drain, .drained,
                .beat_valid, .beat_addr, .beat_data, .beat_ready, .beat_durable,
                .log_low, .log_grow, .block_starts, .block_durable);

            epochs #(
                .CORES(CORES), .EID_BITS(EID_BITS), .EPOCH_BITS(EPOCH_BITS),
                .ACS_GAP(ACS_GAP)
            ) epoch (
                .clk, .rst, .bug(planted), .boot_persisted, .advance, .may_advance, .bulk,
                .system(system_eid), .persisted(persisted_eid),
                .acs_run, .acs_age, .acs_done, .link_busy(u_valid), .drain, .drained,
                .settle, .settled, .write_valid(eid_valid), .write_epoch(eid_epoch),
                .write_ready(eid_ready), .write_durable(eid_durable));

`ifdef CHECKS
            checks #(
                .CORES(CORES), .GRANULE(GRANULE), .LINE_BITS(LINE_BITS), .EID_BITS(EID_BITS),
                .EPOCH_BITS(EPOCH_BITS)
            ) invariants (
                .clk, .rst, .l2_stored, .l2_stored_line, .llc_stored, .llc_stored_line(undo_line),
                .link_valid(u_valid), .link_line(u_line), .link_modified(u_modified),
                .link_from(u_from), .link_ready(u_ready),
                .entry_valid(undo_valid), .entry_line(undo_line), .entry_modified(undo_modified),
                .entry_from(undo_from), .block_starts, .block_durable,
                .home_beat(mem_valid && mem_write && mem_kind == 0), .home_valid, .home_line,
                .home_mask, .eid_valid, .eid_epoch, .system(system_eid), .violated);
`else
            assign violated = '0;
`endif
        end else begin : no_picl
            assign {ask_clear, settle, drain, drained, log_low, may_advance} = '0;
            assign {beat_valid, beat_addr, beat_data, eid_valid, eid_epoch} = '0;
            assign {acs_run, acs_age, system_eid, persisted_eid} = '0;
            assign {block_starts, block_durable} = '0;
            assign entry_ready = 0;
            assign violated = '0;
        end
    endgenerate
endmodule
