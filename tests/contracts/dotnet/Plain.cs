// Messages by their namespaces, as tests/contracts/test_dotnet.py reads them from Plain.dll.
namespace Shop.Commands
{
    public enum Speed { Slow, Fast }

    public class ShipOrder
    {
        public int Number { get; set; }
        public Speed By { get; set; }
    }
}

namespace Shop.Events
{
    public class OrderShipped
    {
        public string Note { get; set; }
    }
}

namespace Shop.Messages
{
    public class Shipped { }
}

namespace Shop.Other
{
    public class Thing { }
}
