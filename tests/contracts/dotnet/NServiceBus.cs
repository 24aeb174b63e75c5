// What NServiceBus's own assembly has of these, for the compiler alone.
namespace NServiceBus
{
    public interface IMessage { }
    public interface ICommand : IMessage { }
    public interface IEvent : IMessage { }
}
