// The port to memory, of 64-bit words: fills of lines, writes home, words of the log, PersistedEID.
//
// Memory may make writes durable in any order and acknowledges each (`ack_*`), by the kind of it. It
// orders accesses to one word, and a read finds what was written before. A write home first asks the
// undo log (`ask_*`); while `settle` none begins, and `settled` says that all are durable.
module mem_port #(
    parameter int PICL = 1,
    parameter int GRANULE = 16,
    parameter int HOME_BITS = 6,
    parameter int ADDR_BITS = 32,
    parameter int SUBS = 64 / GRANULE
) (
    input  logic                 clk,
    input  logic                 rst,

    input  logic                 fill_valid,
    input  logic [HOME_BITS-1:0] fill_line,
    output logic                 fill_ready,
    output logic [511:0]         fill_data,

    input  logic                 home_valid,
    input  logic [HOME_BITS-1:0] home_line,
    input  logic [511:0]         home_data,
    input  logic [SUBS-1:0]      home_mask,
    output logic                 home_ready,
    output logic                 ask_valid,
    input  logic                 ask_clear,
    input  logic                 settle,
    output logic                 settled,

    input  logic                 log_valid,
    input  logic [ADDR_BITS-1:0] log_addr,
    input  logic [63:0]          log_data,
    output logic                 log_ready,
    output logic                 log_durable,

    input  logic                 eid_valid,
    input  logic [ADDR_BITS-1:0] eid_addr,
    input  logic [63:0]          eid_data,
    output logic                 eid_ready,
    output logic                 eid_durable,

    output logic                 mem_valid,
    output logic                 mem_write,
    output logic [1:0]           mem_kind,     // 0 home, 1 log, 2 PersistedEID.
    output logic [ADDR_BITS-1:0] mem_addr,
    output logic [63:0]          mem_data,
    input  logic                 mem_ready,
    input  logic                 read_valid,
    input  logic [63:0]          read_data,
    input  logic                 ack_valid,
    input  logic [1:0]           ack_kind
);
    typedef enum logic [1:0] {NONE, ASKS, BEATS, READS} state_t;
    state_t state;
    logic [2:0]  beat;
    logic        asked;         // The read was taken.
    logic [15:0] words_out;     // Words on their way home.

    wire skips = !home_mask[32'(beat) * 8 / GRANULE];
    wire home_beat = state == BEATS && !skips;
    wire reads = state == READS && !asked;

    assign ask_valid = state == ASKS;
    assign home_ready = state == BEATS && beat == 7 && (skips || mem_ready);
    assign settled = state != BEATS && words_out == 0;
    assign fill_ready = state == READS && read_valid && beat == 7;
    assign log_ready = log_valid && mem_ready && !reads && !home_beat;
    assign eid_ready = eid_valid && mem_ready && !reads && !home_beat && !log_valid;
    assign log_durable = ack_valid && ack_kind == 1;
    assign eid_durable = ack_valid && ack_kind == 2;

    always_comb begin
        mem_valid = 1;
        mem_write = 1;
        mem_kind = 0;
        mem_addr = {ADDR_BITS'(home_line) << 3} | ADDR_BITS'(beat);
        mem_data = home_data[beat*64 +: 64];
        if (reads) begin
            mem_write = 0;
            mem_addr = ADDR_BITS'(fill_line) << 3;
        end else if (home_beat) begin
        end else if (log_valid) begin
            mem_kind = 1;
            mem_addr = log_addr;
            mem_data = log_data;
        end else begin
            mem_valid = eid_valid;
            mem_kind = 2;
            mem_addr = eid_addr;
            mem_data = eid_data;
        end
    end

    logic [447:0] collected;
    assign fill_data = {read_data, collected};

    always_ff @(posedge clk) begin
        words_out <= words_out + 16'(home_beat && mem_ready) - 16'(ack_valid && ack_kind == 0);
        case (state)
            NONE: begin
                beat <= '0;
                asked <= 0;
                if (fill_valid) state <= READS;
                else if (home_valid) state <= PICL != 0 ? ASKS : BEATS;
            end
            ASKS: if (ask_clear && !settle) state <= BEATS;
            BEATS: if (skips || mem_ready) begin
                beat <= beat + 1;
                if (beat == 7) state <= NONE;
            end
            READS: begin
                if (mem_ready) asked <= 1;
                if (read_valid) begin
                    beat <= beat + 1;
                    if (beat != 7) collected[beat*64 +: 64] <= read_data;
                    else state <= NONE;
                end
            end
        endcase
        if (rst) begin
            state <= NONE;
            words_out <= '0;
        end
    end
endmodule
