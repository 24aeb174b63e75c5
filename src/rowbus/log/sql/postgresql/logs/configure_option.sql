-- Change one of the settings that Rowbus adds to a log; NULL unsets it.
-- Locks the row of the log's options. Returns 1, or no row for a span of time that it cannot have.
select pgq.set_queue_option(:'log'::text, :'name'::text, :'value'::text) as done
where case :'name'::text
    when 'tick_period' then coalesce(:'value'::text::interval <= interval '100 years', true)
    else true
end
