// SystemEID, PersistedEID, and what has epochs persist.
//
//   idle -an epoch is due-> scan -all sets-> barrier -no entry is on its way-> drain -all entries are
//   durable-> settle -all writes home are durable-> write -PersistedEID is durable-> idle
//
// An epoch is due ACS_GAP epochs behind the last that has ended; with `bulk` the last one is at once, and
// one pass takes all. SystemEID counts on only while EIDs can tell all epochs apart that have not
// persisted, with one to spare (PICL-4), and once no undo entry is on its way: so ValidTill never falls
// along the log (PICL-9). In the log epochs have EPOCH_BITS, in caches EID_BITS.
module epochs #(
    parameter int CORES = 2,
    parameter int EID_BITS = 4,
    parameter int EPOCH_BITS = 32,
    parameter int ACS_GAP = 1
) (
    input  logic                  clk,
    input  logic                  rst,
    input  logic [2:0]            bug,              // Planted: see `top`.
    input  logic [EPOCH_BITS-1:0] boot_persisted,
    input  logic                  advance,          // All cores stand and have saved their registers.
    output logic                  may_advance,
    input  logic                  bulk,
    output logic [EPOCH_BITS-1:0] system,
    output logic [EPOCH_BITS-1:0] persisted,

    output logic                  acs_run,
    output logic [EID_BITS-1:0]   acs_age,
    input  logic                  acs_done,
    input  logic [CORES-1:0]      link_busy,        // An undo entry is on its way from this core.
    output logic                  drain,            // Asks for all entries to become durable.
    input  logic                  drained,
    output logic                  settle,           // Holds new writes home.
    input  logic                  settled,
    output logic                  write_valid,
    output logic [EPOCH_BITS-1:0] write_epoch,
    input  logic                  write_ready,
    input  logic                  write_durable
);
    typedef enum logic [2:0] {IDLE, SCAN, BARRIER, DRAIN, SETTLE, WRITE, WAIT} state_t;
    state_t state;
    logic [EPOCH_BITS-1:0] until_epoch;
    logic [CORES-1:0]      waits;
    logic                  is_bulk;

    wire [EPOCH_BITS-1:0] committed = system - 1;
    wire [EPOCH_BITS-1:0] behind = committed - persisted;
    wire is_due = is_bulk ? behind != 0 : behind > EPOCH_BITS'(ACS_GAP);

    assign may_advance = system - persisted < EPOCH_BITS'((1 << EID_BITS) - 1)
                         && (link_busy == 0 || bug == 7);
    assign acs_run = state == SCAN;
    assign acs_age = EID_BITS'(system - until_epoch);
    assign drain = state == DRAIN;
    assign settle = state == SETTLE;
    assign write_valid = state == WRITE;
    assign write_epoch = until_epoch;

    always_ff @(posedge clk) begin
        if (advance && may_advance) system <= system + 1;
        if (bulk) is_bulk <= 1;
        case (state)
            IDLE: if (is_due) begin
                until_epoch <= is_bulk ? committed : committed - EPOCH_BITS'(ACS_GAP);
                state <= bug == 6 ? WRITE : SCAN;
            end else is_bulk <= bulk;
            SCAN: begin
                waits <= '1;
                if (acs_done) state <= BARRIER;
            end
            BARRIER: begin
                waits <= waits & link_busy;
                if (waits == 0) state <= DRAIN;
            end
            DRAIN: if (drained) state <= SETTLE;
            SETTLE: if (settled) state <= WRITE;
            WRITE: if (write_ready) state <= WAIT;
            WAIT: if (write_durable) begin
                persisted <= until_epoch;
                state <= IDLE;
            end
            default: state <= IDLE;
        endcase
        if (rst) begin
            state <= IDLE;
            is_bulk <= 0;
            system <= boot_persisted + 1;
            persisted <= boot_persisted;
        end
    end
endmodule
