"""Bodies: message objects as JSON, XML or MessagePack, in the forms that .NET's serializers write and read."""
