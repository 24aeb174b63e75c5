-- Change one of PgQ's own settings of a log, unless that is no number or span of time it can have.
-- Locks the log's row. Returns 1, or no row.
select pgq.set_queue_config(:'log'::text, :'name'::text, :'value'::text) as done
where case :'name'::text
    when 'ticker_paused' then true
    when 'external_ticker' then true
    when 'ticker_max_count' then :'value'::text::integer >= 0
    else :'value'::text::interval between interval '0' and interval '100 years'
end
