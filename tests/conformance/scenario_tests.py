"""Tests that show our half of each interop scenario: of each line of tests/golden/dotnet/scenarios.md.

A golden row is read by the test of every row of every file; what is named beside it shows what else a line asks for.
"""

from __future__ import annotations

from typing import Final

READ: Final = "conformance/test_dotnet_rows.py::test_every_row_is_handled_consumed_or_refused_with_its_reason"
WRITTEN: Final = (
    "conformance/test_dotnet_headers.py::test_our_rows_have_dotnets_headers_but_for_the_expected_differences"
)
JSON: Final = "messages/bodies/test_json_bodies.py"
XML: Final = "messages/bodies/test_xml_bodies.py"
SERIALIZERS: Final = "messages/bodies/test_serializers.py"
OUTGOING: Final = "messages/test_outgoing.py"
AUDIT: Final = "transport/recoverability/test_audit.py"
FAILURE: Final = "transport/recoverability/test_failure_headers.py"
PUBLISHING: Final = "transport/pubsub/test_publishing.py"

TESTS: Final[dict[str, tuple[str, ...]]] = {
    # Commands and replies
    "command there": (READ, WRITTEN, f"{JSON}::test_every_value_is_the_one_that_dotnet_set"),
    "names of types": (
        READ,
        "endpoint/test_handler_signatures.py::test_a_dotnet_assembly_qualified_name_is_cut_to_the_full_name",
        "messages/test_messages.py::test_a_name_that_would_break_the_header_is_refused",
    ),
    "custom headers": (
        READ,
        "conformance/test_golden_rows.py::test_our_rows_are_what_dotnet_asks_for",
        "messages/test_headers.py::test_characters_beyond_the_bmp_are_read_escaped_or_raw",
    ),
    "conversation": (
        WRITTEN,
        f"{OUTGOING}::test_a_handlers_message_continues_conversation_and_correlation_and_names_what_it_is_related_to",
        f"{OUTGOING}::test_a_new_conversation_names_the_previous_one",
    ),
    "reply": (
        WRITTEN,
        f"{OUTGOING}::test_a_send_continues_a_trace_an_event_begins_one_and_a_reply_says_nothing",
    ),
    "reply to an instance": (
        "conformance/test_core.py::test_when_replying_to_a_specific_address",
        "conformance/test_addresses.py::test_a_reply_to_an_address_without_a_schema_goes_to_the_receivers_schema",
    ),
    "callbacks": (
        WRITTEN,
        "endpoint/test_control_messages.py::test_a_return_code_answers_as_dotnet_answers",
        "endpoint/test_control_messages.py::test_an_int_or_enum_answer_of_dotnet_is_handled_as_a_return_code",
    ),
    "transaction modes": (
        READ,
        "conformance/test_core.py::test_when_message_is_moved_to_error_queue_its_sends",
        f"{PUBLISHING}::test_what_is_published_immediately_leaves_though_the_handler_fails",
    ),
    "host identity": (WRITTEN, "transport/test_client.py::test_a_client_may_say_who_sends"),
    # Events
    "inheritance": (
        READ,
        WRITTEN,
        f"{PUBLISHING}::test_who_subscribes_to_a_parent_gets_what_has_it_as_a_parent",
        f"{PUBLISHING}::test_a_dotnet_endpoint_that_subscribes_to_what_every_event_is_gets_a_copy",
    ),
    "interfaces": (READ, f"{SERIALIZERS}::test_a_marker_interface_of_dotnet_is_no_parent"),
    "subscribe, unsubscribe": (
        "conformance/test_dotnet_headers.py::test_a_subscription_is_the_row_that_dotnet_writes",
        f"{PUBLISHING}::test_after_unsubscribing_no_copies_come_until_it_subscribes_again",
        f"{PUBLISHING}::test_an_event_nobody_subscribes_to_is_no_error",
    ),
    # Time
    "time to be received": (
        WRITTEN,
        "conformance/test_core.py::test_when_time_to_be_received_has_expired",
        (
            "conformance/test_golden_rows.py::"
            "test_an_empty_body_is_never_null_and_a_time_to_be_received_is_the_databases"
        ),
    ),
    "delayed": (
        WRITTEN,
        (
            "conformance/test_addresses.py::"
            "test_a_delayed_message_for_an_address_without_a_schema_is_delivered_in_its_own_schema"
        ),
        "transport/delayed/test_moving.py::test_nothing_is_moved_before_the_clock_of_the_database_says_so",
        (
            "transport/delayed/test_moving.py::"
            "test_a_mover_of_net_works_on_the_same_table_and_none_is_lost_or_doubled"
        ),
    ),
    "time zone": (
        "cli/test_doctor.py::test_delayed_messages_whose_time_a_time_zone_moved_fail",
        "transport/delayed/test_time_shift.py::test_a_start_fails_where_times_were_moved",
        "transport/queues/test_catalog.py::test_the_time_zone_of_a_role_is_known",
        (
            "transport/delayed/test_client.py::"
            "test_the_time_zone_of_the_user_changes_nothing_not_even_when_clocks_are_put_back"
        ),
    ),
    # Failures
    "retries": (
        WRITTEN,
        (
            "transport/recoverability/test_policy.py::"
            "test_by_default_a_message_has_24_attempts_with_10_20_and_30_s_between_them"
        ),
    ),
    "error queue": (
        WRITTEN,
        f"{FAILURE}::test_the_exceptions_message_is_cut_at_16384_characters_and_in_its_stack_alike",
        (
            "transport/recoverability/test_stack_traces.py::"
            "test_a_trace_is_dotnets_innermost_first_with_the_file_and_without_source"
        ),
    ),
    "poison rows": (READ, "endpoint/test_fates.py::test_each_message_has_a_fate_that_it_was_promised"),
    "return to source": (
        READ,
        WRITTEN,
        f"{AUDIT}::test_a_retried_message_is_acknowledged_once_it_is_processed",
    ),
    "audits": (WRITTEN, f"{AUDIT}::test_audit_copies_may_have_a_time_to_be_received_of_their_own"),
    # Sagas, outbox, platform
    "saga": (
        WRITTEN,
        f"{OUTGOING}::test_a_reply_is_addressed_to_the_saga_that_asked",
        "platform/test_reports.py::test_changes_of_sagas_equal_dotnets_byte_for_byte_but_for_times",
        "sagas/test_saga_audit.py::test_each_change_of_a_saga_is_told_and_named_in_the_audit_copy",
    ),
    "outbox": (
        READ,
        WRITTEN,
        "transport/deduplication/test_endpoint.py::test_a_message_that_comes_again_is_consumed_without_its_handlers",
    ),
    "tracing": (
        WRITTEN,
        f"{OUTGOING}::test_what_is_delayed_begins_a_trace_if_there_is_one",
        f"{FAILURE}::test_a_copy_with_a_trace_begins_a_new_one_when_it_comes_back",
    ),
    # Addresses and tables
    "schema not public": (
        READ,
        "conformance/test_addresses.py::test_a_reply_to_an_address_without_a_schema_goes_to_the_receivers_schema",
        "conformance/test_postgresql_transport.py::test_when_custom_schema_configured_for_error_queue",
    ),
    "queue names": (
        "messages/test_dotnet_addresses.py::test_each_spelling_of_an_address_means_the_table_it_means_in_dotnet",
        "messages/test_dotnet_addresses.py::test_the_name_of_an_endpoint_makes_the_address_it_makes_in_dotnet",
        "messages/test_dotnet_addresses.py::test_a_name_too_long_for_dotnet_is_too_long_here",
    ),
    "tables": (
        "conformance/test_dotnet_tables.py::test_a_table_has_the_columns_indexes_and_constraints_of_dotnets",
        "transport/queues/test_queue_table.py::test_body_string_is_nservicebuss_generated_column",
    ),
    # Bodies
    "SystemJsonSerializer": (
        READ,
        f"{JSON}::test_every_value_is_the_one_that_dotnet_set",
        f"{JSON}::test_what_is_written_equals_what_dotnet_writes",
    ),
    "what SystemJsonSerializer reads": (
        (
            "messages/bodies/test_forms_dotnet_reads.py::"
            "test_what_dotnet_reads_is_read_and_what_it_refuses_refused_but_for_what_is_listed"
        ),
        f"{JSON}::test_what_is_no_number_is_refused_and_never_null",
    ),
    "NewtonsoftJsonSerializer": (
        READ,
        f"{JSON}::test_every_value_is_the_one_that_dotnet_set",
        f"{JSON}::test_type_names_in_a_body_are_ignored",
    ),
    "XmlSerializer": (
        READ,
        f"{XML}::test_every_value_is_the_one_that_dotnet_set",
        f"{SERIALIZERS}::test_a_failure_names_a_content_type_for_which_there_is_no_serializer",
    ),
    "several serializers": (
        READ,
        f"{SERIALIZERS}::test_the_content_type_decides_and_the_main_one_takes_the_rest",
    ),
    "heartbeat, custom checks": (
        "platform/test_reports.py::test_heartbeats_and_checks_equal_dotnets_byte_for_byte_but_for_times",
        "platform/test_endpoint.py::test_a_started_endpoint_registers_once_and_beats_until_it_stops",
    ),
    "metrics": (
        "platform/test_reports.py::test_metadata_equal_dotnets_byte_for_byte",
        "platform/test_reports.py::test_measurements_equal_dotnets_byte_for_byte_but_for_the_keys_of_tags",
    ),
}

WITHOUT: Final[dict[str, str]] = {}
"""The lines of which our half has no test, and why."""
