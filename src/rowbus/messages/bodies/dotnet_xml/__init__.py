"""XML as NServiceBus's XmlSerializer writes and reads it."""
