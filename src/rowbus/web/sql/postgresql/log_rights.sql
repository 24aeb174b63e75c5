-- Say what this role may do with the consumers of logs. Locks nothing.
-- Returns one row: whether it may replay dead letters, discard all of them, discard some, and move a consumer.
select
    has_function_privilege(
        to_regprocedure('pgq.dead_letter_replay(text, text, bigint[])')::oid, 'execute'
    ) as may_replay,
    has_function_privilege(
        to_regprocedure('pgq.dead_letter_purge(text, text, timestamptz)')::oid, 'execute'
    ) as may_discard,
    has_function_privilege(
        to_regprocedure('pgq.dead_letter_discard(text, text, bigint[])')::oid, 'execute'
    ) as may_discard_some,
    has_function_privilege(
        to_regprocedure('pgq.register_consumer_at(text, text, bigint)')::oid, 'execute'
    ) as may_move
