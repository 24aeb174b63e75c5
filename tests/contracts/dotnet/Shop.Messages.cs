// The messages of a shop, as tests/contracts/test_dotnet.py reads them from Shop.Messages.dll.
//
// Compiled by Mono's compiler (mono-mcs), which knows no nullable references: their attributes stand here as Roslyn
// writes them, and as System.Text.Json names its own.
//
//     mcs -target:library -out:NServiceBus.Core.dll NServiceBus.cs
//     mcs -target:library -optimize -r:NServiceBus.Core.dll -out:Shop.Messages.dll Shop.Messages.cs
//     mcs -target:library -optimize -out:Plain.dll Plain.cs
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Text.Json.Serialization;
using NServiceBus;

namespace System.Runtime.CompilerServices
{
    public sealed class NullableAttribute : Attribute
    {
        public NullableAttribute(byte flag) { }
        public NullableAttribute(byte[] flags) { }
    }

    public sealed class NullableContextAttribute : Attribute
    {
        public NullableContextAttribute(byte flag) { }
    }

    public sealed class RequiredMemberAttribute : Attribute { }
}

namespace System.Text.Json.Serialization
{
    public sealed class JsonPropertyNameAttribute : Attribute
    {
        public JsonPropertyNameAttribute(string name) { }
    }

    public sealed class JsonIgnoreAttribute : Attribute { }
}

namespace Shop
{
    public enum Colour { Red, Green = 5 }

    [Flags]
    public enum Days : byte { Monday = 1, Sunday = 64 }

    [NullableContext(1)]
    public class Line
    {
        public string Sku { get; set; }
        public decimal Price { get; set; }
        public Colour Colour { get; set; }
        public Line Bundled { get; set; }
    }

    [NullableContext(1)]
    public class PlaceOrder : ICommand
    {
        public static string Version { get; set; }
        [RequiredMember] public Guid OrderId { get; set; }
        public string Customer { get; set; }
        [Nullable(2)] public string Note { get; set; }
        [JsonPropertyName("how_many")] public int Count { get; set; }
        public long? Points { get; set; }
        public bool Gift { get; set; }
        public double Weight { get; set; }
        public DateTimeOffset Ordered { get; set; }
        public DateTime? Wanted { get; set; }
        public TimeSpan Patience { get; set; }
        public Colour? Paper { get; set; }
        public Days On { get; set; }
        public byte[] Seal { get; set; }
        public List<byte[]> Seals { get; set; }
        [Nullable(new byte[] { 1, 0, 1, 2 })] public Dictionary<KeyValuePair<string, int>, string> Pairs { get; set; }
        public List<Line> Lines { get; set; }
        public string[] Tags { get; set; }
        public HashSet<Guid> Coupons { get; set; }
        public Dictionary<string, decimal> Prices { get; set; }
        [Nullable(new byte[] { 1, 2 })] public IReadOnlyList<string> Notes { get; set; }
        public object Other { get; set; }
        public char Letter { get; set; }
        [JsonIgnore] public string Secret { get; set; }
        public string Shout { get { return Customer.ToUpper(); } }
        internal string Hidden { get; set; }
        public string this[int at] { get { return Tags[at]; } set { } }
    }

    public interface IOrderEvent : IEvent
    {
        Guid OrderId { get; set; }
    }

    public class OrderEvent : IOrderEvent
    {
        public Guid OrderId { get; set; }
    }

    public class OrderPlaced : OrderEvent
    {
        public string Channel { get; set; }
    }

    public class Outer
    {
        public class Asked : IMessage
        {
            public int Number { get; set; }
        }
    }

    public class Batch<T> : IMessage
    {
        public T Item { get; set; }
    }

    internal class Cancel : ICommand
    {
        public Cancel(string reason) { Reason = reason; }
        public string Reason { get; }
        public Batch<int> Many { get; set; }
        public int[,] Table { get; set; }
    }
}
