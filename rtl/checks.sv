// The invariants, on shadow state that follows what happens at the modules' borders.
//
//  1. An in-place write never leaves before the undo entries of its lines are durable.
//  2. PersistedEID never names an epoch of which a line is dirty.
//  3. PersistedEID never names an epoch of which an undo entry that was made from a modified line is in
//     flight. (One made from a clean line may be: home has that content until 1 lets it be written.)
`ifdef FORMAL
`define INVARIANT(number, condition) assert (condition);
`else
`define INVARIANT(number, condition) assert (condition) else violated[number - 1] <= 1;
`endif

module checks #(
    parameter int CORES = 2,
    parameter int GRANULE = 16,
    parameter int LINE_BITS = 8,
    parameter int EID_BITS = 4,
    parameter int EPOCH_BITS = 32,
    parameter int SUBS = 64 / GRANULE,
    parameter int SUB_BITS = SUBS > 1 ? $clog2(SUBS) : 0,
    parameter int HOME_BITS = LINE_BITS - SUB_BITS
) (
    input logic                       clk,
    input logic                       rst,
    input logic [CORES-1:0]           l2_stored,
    input logic [LINE_BITS*CORES-1:0] l2_stored_line,
    input logic                       llc_stored,
    input logic [LINE_BITS-1:0]       llc_stored_line,
    input logic [CORES-1:0]           link_valid,
    input logic [LINE_BITS*CORES-1:0] link_line,
    input logic [CORES-1:0]           link_modified,
    input logic [EID_BITS*CORES-1:0]  link_from,
    input logic [CORES-1:0]           link_ready,
    input logic                       entry_valid,
    input logic [LINE_BITS-1:0]       entry_line,
    input logic                       entry_modified,
    input logic [EID_BITS-1:0]        entry_from,
    input logic                       block_starts,
    input logic                       block_durable,
    input logic                       home_beat,
    input logic                       home_valid,
    input logic [HOME_BITS-1:0]       home_line,
    input logic [SUBS-1:0]            home_mask,
    input logic                       eid_valid,
    input logic [EPOCH_BITS-1:0]      eid_epoch,
    input logic [EPOCH_BITS-1:0]      system,
    output logic [2:0]                violated
);
    localparam int LINES = 1 << LINE_BITS;

    logic [LINES-1:0]          collected, flying;       // Lines with an entry in the buffer, in flight.
    logic [LINES-1:0]          dirty;
    logic [EPOCH_BITS*LINES-1:0] dirty_of;              // The epoch of the last store.
    logic                      made, made_flying;       // Entries from modified lines: are there any,
    logic [EPOCH_BITS-1:0]     least, least_flying;     // and the least ValidFrom.
    wire [EPOCH_BITS-1:0] from_epoch = system - EPOCH_BITS'(EID_BITS'(system[EID_BITS-1:0] - entry_from));

    logic [LINES-1:0] homes;
    always_comb begin
        homes = '0;
        for (int i = 0; i < SUBS; i++)
            homes[LINE_BITS'(home_line) * SUBS + LINE_BITS'(i)] = home_mask[i];
    end

    always_ff @(posedge clk) begin
        if (block_durable) begin
            flying <= '0;
            made_flying <= 0;
        end
        if (block_starts) begin
            flying <= collected;
            collected <= '0;
            made_flying <= made;
            least_flying <= least;
            made <= 0;
        end
        if (entry_valid) begin
            collected[entry_line] <= 1;
            if (entry_modified && (!made || from_epoch < least)) least <= from_epoch;
            if (entry_modified) made <= 1;
        end
        if (home_valid) dirty <= dirty & ~homes;
        for (int i = 0; i < CORES; i++)
            if (l2_stored[i]) begin
                dirty[l2_stored_line[i*LINE_BITS +: LINE_BITS]] <= 1;
                dirty_of[l2_stored_line[i*LINE_BITS +: LINE_BITS]*EPOCH_BITS +: EPOCH_BITS] <= system;
            end
        if (llc_stored) begin
            dirty[llc_stored_line] <= 1;
            dirty_of[llc_stored_line*EPOCH_BITS +: EPOCH_BITS] <= system;
        end
        if (rst) {collected, flying, dirty, made, made_flying} <= '0;
    end

    always_ff @(posedge clk) if (rst) violated <= '0; else begin
        if (home_beat) begin
            `INVARIANT(1, (homes & collected) == 0)
            `INVARIANT(1, (homes & flying) == 0)
            for (int i = 0; i < CORES; i++)
                `INVARIANT(1, !(link_valid[i] && homes[link_line[i*LINE_BITS +: LINE_BITS]]))
        end
        if (eid_valid) begin
            for (int i = 0; i < LINES; i++)
                `INVARIANT(2, !(dirty[i] && dirty_of[i*EPOCH_BITS +: EPOCH_BITS] <= eid_epoch))
            `INVARIANT(3, !(made && least <= eid_epoch))
            `INVARIANT(3, !(made_flying && least_flying <= eid_epoch))
            for (int i = 0; i < CORES; i++)
                `INVARIANT(3, !(link_valid[i] && link_modified[i]
                    && EID_BITS'(system[EID_BITS-1:0] - link_from[i*EID_BITS +: EID_BITS])
                       >= EID_BITS'(system - eid_epoch)))
        end
    end
endmodule
