-- Create the schema pgq_node: a queue replicated over several databases, its nodes. Each database knows the locations
-- of all nodes, what it is itself (root, branch or leaf), who reads here for it, and which nodes read from it.
-- Locks what is created; returns nothing.
create schema if not exists pgq_node;

create table if not exists pgq_node.node_location (
    queue_name text not null,
    node_name text not null,
    node_location text not null,
    dead boolean not null default false,
    constraint node_location_pkey primary key (queue_name, node_name)
);

-- What this database is for a queue. `combined_queue` of a leaf: the queue here into which its events are merged.
create table if not exists pgq_node.node_info (
    queue_name text not null,
    node_type text not null,
    node_name text not null,
    worker_name text,
    combined_queue text,
    node_attrs text,
    constraint node_info_pkey primary key (queue_name),
    constraint node_info_queue_name_node_name_fkey
    foreign key (queue_name, node_name) references pgq_node.node_location (queue_name, node_name),
    constraint node_info_node_type_check check (node_type in ('root', 'branch', 'leaf')),
    constraint node_info_check check (
        case node_type
            when 'root' then worker_name is not null and combined_queue is null
            when 'branch' then worker_name is not null and combined_queue is null
            when 'leaf' then worker_name is not null
            else false
        end
    )
);

-- The consumers that read a queue on another node and write here, and how far they are.
create table if not exists pgq_node.local_state (
    queue_name text not null,
    consumer_name text not null,
    provider_node text not null,
    last_tick_id bigint not null,
    cur_error text,
    paused boolean not null default false,
    uptodate boolean not null default false,
    constraint local_state_pkey primary key (queue_name, consumer_name),
    constraint local_state_queue_name_fkey
    foreign key (queue_name) references pgq_node.node_info (queue_name),
    constraint local_state_queue_name_provider_node_fkey
    foreign key (queue_name, provider_node) references pgq_node.node_location (queue_name, node_name)
);

-- The nodes that read from this one: their worker, and the consumer that keeps what they have not passed on yet.
create table if not exists pgq_node.subscriber_info (
    queue_name text not null,
    subscriber_node text not null,
    worker_name text not null,
    watermark_name text not null,
    constraint subscriber_info_pkey primary key (queue_name, subscriber_node),
    constraint subscriber_info_queue_name_fkey
    foreign key (queue_name) references pgq_node.node_info (queue_name),
    constraint subscriber_info_queue_name_subscriber_node_fkey
    foreign key (queue_name, subscriber_node) references pgq_node.node_location (queue_name, node_name),
    constraint subscriber_info_worker_name_fkey
    foreign key (worker_name) references pgq.consumer (co_name),
    constraint subscriber_info_watermark_name_fkey
    foreign key (watermark_name) references pgq.consumer (co_name)
);
