// A core's private cache: write-back, blocking, states I, S and M.
//
// With PICL each line has an EID. A store to a line of another EID than SystemEID first sends what the
// line held to the LLC: the cross-EID store check. One entry at a time is on its way (`undo_*`). What
// leaves the cache waits for it: requests do, and a snoop is refused (`snoop_nack`) until it has gone.
// EIDs of lines in S say nothing: a store needs M, and the grant brings the LLC's EID (PICL-13).
//
// A snoop is served in IDLE and in REQ; the operation is looked up again behind it.
module l2 #(
    parameter int PICL = 1,
    parameter int GRANULE = 16,     // Bytes of a line, which is the tracking granularity.
    parameter int L2_SETS = 4,
    parameter int L2_WAYS = 2,
    parameter int LINE_BITS = 8,    // Of a line's number.
    parameter int EID_BITS = 4,
    parameter int WORD_BITS = $clog2(GRANULE / 8),
    parameter int BITS = 8 * GRANULE,
    parameter int ADDR_BITS = LINE_BITS + WORD_BITS
) (
    input  logic                 clk,
    input  logic                 rst,

    // The core: an operation stays until `resp_valid`. 0 load, 1 store, 2 fetch-and-add, 3 flush.
    input  logic                 req_valid,
    input  logic [1:0]           req_op,
    input  logic [ADDR_BITS-1:0] req_addr,
    input  logic [63:0]          req_data,
    output logic                 resp_valid,
    output logic [63:0]          resp_data,

    // Requests to the LLC: 0 GetS, 1 GetM, 2 PutM, 3 fetch-and-add, 4 flush.
    output logic                 llc_valid,
    output logic [2:0]           llc_op,
    output logic [LINE_BITS-1:0] llc_line,
    output logic [WORD_BITS-1:0] llc_word,
    output logic [BITS-1:0]      llc_data,
    input  logic                 llc_done,
    input  logic [BITS-1:0]      llc_rdata,
    input  logic                 llc_has_eid,
    input  logic [EID_BITS-1:0]  llc_eid,

    // Snoops: M becomes S, or I with `snoop_inv`.
    input  logic                 snoop_valid,
    input  logic                 snoop_inv,
    input  logic [LINE_BITS-1:0] snoop_line,
    output logic                 snoop_done,
    output logic                 snoop_nack,
    output logic                 snoop_dirty,
    output logic [BITS-1:0]      snoop_data,

    // Undo entries to the LLC. `undo_modified`: the line had an EID, which is `undo_from`.
    output logic                 undo_valid,
    output logic [LINE_BITS-1:0] undo_line,
    output logic [BITS-1:0]      undo_data,
    output logic                 undo_modified,
    output logic [EID_BITS-1:0]  undo_from,
    output logic [EID_BITS-1:0]  undo_till,
    input  logic                 undo_ready,

    input  logic [EID_BITS-1:0]  system_eid,
    input  logic [EID_BITS-1:0]  persisted_eid,

    // For the checks: a store changes the line `llc_line` would name.
    output logic                 stored,
    output logic [LINE_BITS-1:0] stored_line
);
    localparam int SET_BITS = $clog2(L2_SETS);
    localparam int WAY_BITS = L2_WAYS > 1 ? $clog2(L2_WAYS) : 1;
    localparam int TAG_BITS = LINE_BITS - SET_BITS;
    localparam int META = TAG_BITS + 2;

    localparam logic [1:0] I = 0, S = 1, M = 2;
    localparam logic [1:0] LOAD = 0, STORE = 1, ADD = 2;
    localparam logic [2:0] GETS = 0, GETM = 1, PUTM = 2, AMO = 3, FLUSH = 4;

    typedef enum logic [2:0] {INIT, IDLE, LOOKUP, ACT, REQ, FILL, SNOOP, ANSWER} state_t;
    state_t state;

    logic [SET_BITS-1:0]  init_set;
    logic [WAY_BITS-1:0]  next_victim;
    logic [LINE_BITS-1:0] line;          // Looked up.
    logic                 hit;
    logic [WAY_BITS-1:0]  way;
    logic [1:0]           line_state;
    logic [TAG_BITS-1:0]  line_tag;
    logic [BITS-1:0]      filled;
    logic                 filled_has_eid;
    logic [EID_BITS-1:0]  filled_eid;

    wire [SET_BITS-1:0]  set = line[SET_BITS-1:0];
    wire [TAG_BITS-1:0]  tag = line[LINE_BITS-1:SET_BITS];
    wire [LINE_BITS-1:0] req_line = req_addr[ADDR_BITS-1:WORD_BITS];
    wire [WORD_BITS-1:0] req_word = req_addr[WORD_BITS-1:0];

    // The arrays. A row of `meta` and of EIDs is a set's, a row of `data` a line's.
    logic found;
    logic [WAY_BITS-1:0] found_way;
    logic meta_we, data_we, eid_we;
    logic [META*L2_WAYS-1:0]     meta_row, meta_new;
    logic [BITS-1:0]             data_row, data_new;
    logic [SET_BITS-1:0]         meta_at;
    logic [META-1:0]             way_new;

    wire takes_snoop = (state == IDLE || state == REQ) && snoop_valid;
    wire takes_req = state == IDLE && !snoop_valid && req_valid && !resp_valid;
    wire [LINE_BITS-1:0] taken_line = takes_snoop ? snoop_line : req_line;

    ram #(.WIDTH(META * L2_WAYS), .DEPTH(L2_SETS)) meta (
        .clk, .re(takes_snoop || takes_req), .raddr(taken_line[SET_BITS-1:0]), .rdata(meta_row),
        .we(meta_we), .waddr(meta_at), .wdata(meta_new));
    ram #(.WIDTH(BITS), .DEPTH(L2_SETS * L2_WAYS)) data (
        .clk, .re(state == LOOKUP || state == SNOOP), .raddr({set, found_way}), .rdata(data_row),
        .we(data_we), .waddr({set, way}), .wdata(data_new));

    // The way of a line, or one to put it into.
    always_comb begin
        found = 0;
        found_way = next_victim;
        for (int i = 0; i < L2_WAYS; i++)
            if (meta_row[i*META +: 2] == I) found_way = WAY_BITS'(i);
        for (int i = 0; i < L2_WAYS; i++)
            if (meta_row[i*META +: 2] != I && meta_row[i*META+2 +: TAG_BITS] == tag) begin
                found = 1;
                found_way = WAY_BITS'(i);
            end
    end

    logic [META-1:0] found_meta;
    always_comb begin
        found_meta = '0;
        for (int i = 0; i < L2_WAYS; i++)
            if (WAY_BITS'(i) == found_way) found_meta = meta_row[i*META +: META];
    end

    function automatic logic [BITS-1:0] merged(logic [BITS-1:0] old);
        merged = old;
        merged[req_word*64 +: 64] = req_data;
    endfunction

    // The cross-EID store check, on a line that is in M and on one that a grant brings.
    logic [EID_BITS-1:0] line_eid;
    wire makes_undo = PICL != 0 && line_eid != system_eid;
    wire makes_undo_filled = PICL != 0 && !(filled_has_eid && filled_eid == system_eid);
    wire stores_here = state == ACT && req_op == STORE && hit && line_state == M
                       && !(makes_undo && undo_valid);
    wire stores_filled = state == FILL && llc_op == GETM;
    wire answers = state == ANSWER && !undo_valid;
    // The victim's way is empty once it has been put.
    wire is_put = state == REQ && llc_done && llc_op == PUTM;

    generate
        if (PICL != 0) begin : eids
            logic [EID_BITS*L2_WAYS-1:0] row, row_new;
            ram #(.WIDTH(EID_BITS * L2_WAYS), .DEPTH(L2_SETS)) eid (
                .clk, .re(takes_snoop || takes_req), .raddr(taken_line[SET_BITS-1:0]), .rdata(row),
                .we(eid_we), .waddr(set), .wdata(row_new));
            always_comb begin
                row_new = row;
                row_new[way*EID_BITS +: EID_BITS] = system_eid;
            end
            assign line_eid = row[way*EID_BITS +: EID_BITS];
        end else begin : no_eids
            assign line_eid = '0;
        end
    endgenerate

    always_comb begin
        meta_we = 0;
        meta_at = set;
        way_new = {tag, M};
        if (state == FILL) begin
            meta_we = 1;
            if (llc_op == GETS) way_new = {tag, S};
        end
        if (answers && hit) begin
            meta_we = 1;
            way_new = {tag, snoop_inv ? I : S};
        end
        if (is_put) begin
            meta_we = 1;
            way_new = {line_tag, I};
        end
        meta_new = meta_row;
        for (int i = 0; i < L2_WAYS; i++)
            if (WAY_BITS'(i) == way) meta_new[i*META +: META] = way_new;
        if (state == INIT) begin
            meta_we = 1;
            meta_at = init_set;
            meta_new = '0;
        end
        data_we = stores_here || state == FILL;
        data_new = stores_here ? merged(data_row) : llc_op == GETM ? merged(filled) : filled;
        eid_we = stores_here || stores_filled;
    end

    assign llc_valid = state == REQ;
    assign llc_word = req_word;
    assign stored = stores_here || stores_filled;
    assign stored_line = line;

    assign snoop_done = state == ANSWER;
    assign snoop_nack = undo_valid;
    assign snoop_dirty = hit && line_state == M;
    assign snoop_data = data_row;

    always_ff @(posedge clk) begin
        resp_valid <= 0;
        if (undo_ready) undo_valid <= 0;

        case (state)
            INIT: begin
                init_set <= init_set + 1;
                if (init_set == SET_BITS'(L2_SETS - 1)) state <= IDLE;
            end

            IDLE: begin
                line <= taken_line;
                if (snoop_valid) state <= SNOOP;
                else if (takes_req) state <= LOOKUP;
            end

            LOOKUP, SNOOP: begin
                hit <= found;
                way <= found_way;
                {line_tag, line_state} <= found_meta;
                state <= state == SNOOP ? ANSWER : ACT;
            end

            ACT: begin
                state <= IDLE;
                llc_line <= line;
                llc_data <= data_row;
                if (req_op == LOAD && hit) begin
                    resp_valid <= 1;
                    resp_data <= data_row[req_word*64 +: 64];
                end else if (req_op == STORE && hit && line_state == M) begin
                    if (stores_here) resp_valid <= 1;
                end else if (!undo_valid) begin
                    state <= REQ;
                    if (!hit && line_state == M && (req_op == LOAD || req_op == STORE)) begin
                        llc_op <= PUTM;
                        llc_line <= {line_tag, set};
                    end else begin
                        llc_op <= req_op == LOAD ? GETS : req_op == STORE ? GETM
                                : req_op == ADD ? AMO : FLUSH;
                        llc_data[63:0] <= req_op == ADD ? req_data : data_row[63:0];
                    end
                end
            end

            REQ: begin
                filled <= llc_rdata;
                filled_has_eid <= llc_has_eid;
                filled_eid <= llc_eid;
                if (llc_done) begin
                    state <= llc_op == GETS || llc_op == GETM ? FILL : IDLE;
                    if (llc_op == AMO || llc_op == FLUSH) begin
                        resp_valid <= 1;
                        resp_data <= llc_rdata[63:0];
                    end
                end else if (snoop_valid) begin
                    line <= snoop_line;
                    state <= SNOOP;
                end
            end

            FILL: begin
                next_victim <= next_victim + 1;
                resp_valid <= 1;
                resp_data <= filled[req_word*64 +: 64];
                state <= IDLE;
            end

            ANSWER: state <= IDLE;

            default: state <= INIT;
        endcase

        if (PICL != 0 && (stores_here && makes_undo || stores_filled && makes_undo_filled)) begin
            undo_valid <= 1;
            undo_line <= line;
            undo_data <= stores_here ? data_row : filled;
            undo_modified <= stores_here || filled_has_eid;
            undo_from <= stores_here ? line_eid : filled_has_eid ? filled_eid : persisted_eid;
            undo_till <= system_eid;
        end

        if (rst) begin
            state <= INIT;
            init_set <= '0;
            next_victim <= '0;
            resp_valid <= 0;
            undo_valid <= 0;
        end
    end
endmodule
