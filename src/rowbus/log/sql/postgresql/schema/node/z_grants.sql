-- Say who may call pgq_node: roles that read on other nodes, roles that write here, and administrators.
-- What begins with `_` is called by the others alone, which run as their owner. Locks nothing; returns nothing.
grant usage on schema pgq_node to public;
revoke all on all functions in schema pgq_node from public;
grant execute on all functions in schema pgq_node to pgq_admin;

grant execute on function
pgq_node.is_root_node(text),
pgq_node.is_leaf_node(text),
pgq_node._is_node(text, text),
pgq_node.version()
to public;

grant execute on function
pgq_node.register_consumer(text, text, text, int8),
pgq_node.unregister_consumer(text, text),
pgq_node.change_consumer_provider(text, text, text),
pgq_node.set_consumer_uptodate(text, text, boolean),
pgq_node.set_consumer_paused(text, text, boolean),
pgq_node.set_consumer_completed(text, text, int8),
pgq_node.set_consumer_error(text, text, text)
to pgq_writer;

grant execute on function
pgq_node.get_consumer_info(text),
pgq_node.get_consumer_state(text, text),
pgq_node.get_queue_locations(text),
pgq_node.get_node_info(text),
pgq_node.get_subscriber_info(text),
pgq_node.register_subscriber(text, text, text, int8),
pgq_node.unregister_subscriber(text, text),
pgq_node.set_subscriber_watermark(text, text, bigint)
to pgq_reader, pgq_writer;

grant select on pgq_node.node_location, pgq_node.node_info, pgq_node.local_state, pgq_node.subscriber_info
to pgq_reader, pgq_writer;
grant select, insert, update, delete
on pgq_node.node_location, pgq_node.node_info, pgq_node.local_state, pgq_node.subscriber_info
to pgq_admin;
