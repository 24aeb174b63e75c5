-- Where Analytics brings its archive back for the proof. No unique constraint on purpose: that no event is there twice
-- is for Spark to achieve and for the reconciliation to prove. Returns nothing.
create table rowbus_demo.archived (
    ev_id bigint,
    ev_time timestamptz,
    ev_txid bigint,
    ev_retry integer,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
)
