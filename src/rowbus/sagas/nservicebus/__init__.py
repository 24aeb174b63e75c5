"""Sagas whose state lies as NServiceBus.Persistence.Sql has it, so that .NET and Python share them."""
