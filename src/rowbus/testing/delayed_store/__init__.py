"""The tests that every delayed message store must pass: `rowbus.testing.DelayedMessageStoreContract`."""
