// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;

namespace Quarry {
    // What is in a tensor.
    public sealed partial class Tensor {
        /// <summary>The array that it lies in, which may be longer than the tensor. No copy: what is written there is the tensor's.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it lies in no array of T (of results: <see cref="DataType.F32"/> in float[], types of 8 bits
        /// and fewer, but for I8, in byte[], F16 and BF16 in ushort[]; what has 2 GB and more in none).</exception>
        public T[] AsArray<T>() where T : struct {
            // By the type itself: the runtime would let an int[] pass for a uint[].
            if (storage.Array == null || storage.Array.GetType() != typeof(T[]))
                throw QuarryException.Refused("tensor: found " + this + " in " + (storage.Array == null ? "memory that is not the collector's" : storage.Array.GetType().Name) + ", expected " + typeof(T).Name + "[]",
                    "ToArray makes a copy, Pin gives its address");
            return (T[])storage.Array;
        }

        /// <summary>A copy of its elements. byte takes the bytes of every type.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: T is not what its type is in C#, or there are more than an array has.</exception>
        /// <exception cref="ObjectDisposedException">It is disposed of.</exception>
        public T[] ToArray<T>() where T : struct {
            long count = Count<T>();
            if (count > int.MaxValue) throw QuarryException.Refused("tensor: found " + count + " elements, expected at most " + int.MaxValue + ", which is what an array has", "Pin gives its address");
            var values = new T[count];
            Move(values, true);
            return values;
        }

        /// <summary>A copy of the elements of an <see cref="DataType.F32"/>.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it has another type.</exception>
        public float[] ToFloats() {
            return ToArray<float>();
        }

        /// <summary>A copy of the elements of an <see cref="DataType.I32"/>.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it has another type.</exception>
        public int[] ToInts() {
            return ToArray<int>();
        }

        /// <summary>A copy of the elements of an <see cref="DataType.I64"/>.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it has another type.</exception>
        public long[] ToLongs() {
            return ToArray<long>();
        }

        /// <summary>Copies values into it, as many as it has elements.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: T is not what its type is in C#, or their number is another.</exception>
        /// <exception cref="ObjectDisposedException">It is disposed of.</exception>
        public void Write<T>(T[] values) where T : struct {
            if (values == null) throw new ArgumentNullException("values");
            long count = Count<T>();
            if (values.Length != count) throw QuarryException.Refused("data: found " + values.Length + " elements, expected " + count + " for " + this);
            Move(values, false);
        }

        /// <summary>Its address, which stays until the result is disposed of: for code of one's own that is unsafe, spans and other libraries.</summary>
        /// <exception cref="ObjectDisposedException">It is disposed of.</exception>
        public PinnedTensor Pin() {
            return storage.Pin(SizeBytes);
        }

        /// <summary>How many T it has.</summary>
        long Count<T>() {
            if (typeof(T) == typeof(byte)) return SizeBytes;
            bool fits;
            switch (Type) {
                case DataType.F32: fits = typeof(T) == typeof(float); break;
                case DataType.F64: fits = typeof(T) == typeof(double); break;
                case DataType.I32: fits = typeof(T) == typeof(int); break;
                case DataType.U32: fits = typeof(T) == typeof(uint); break;
                case DataType.I64: fits = typeof(T) == typeof(long); break;
                case DataType.U64: fits = typeof(T) == typeof(ulong); break;
                case DataType.I16: fits = typeof(T) == typeof(short); break;
                case DataType.I8: fits = typeof(T) == typeof(sbyte); break;
                case DataType.Bool: fits = typeof(T) == typeof(bool); break;
                default: fits = Type.Bits() == 16 && typeof(T) == typeof(ushort); break;
            }
            if (!fits) throw QuarryException.Refused("tensor: found " + this + ", expected what is " + typeof(T).Name + " in C#", "byte takes the elements of every type");
            return ElementCount;
        }

        unsafe void Move<T>(T[] values, bool outwards) where T : struct {
            using (PinnedTensor own = Pin()) {
                if (values is bool[] truths) {  // which cannot be pinned
                    byte* bytes = (byte*)own.Address;
                    for (int i = 0; i < truths.Length; ++i) {
                        if (outwards) truths[i] = bytes[i] != 0;
                        else bytes[i] = (byte)(truths[i] ? 1 : 0);
                    }
                    return;
                }
                GCHandle other = GCHandle.Alloc(values, GCHandleType.Pinned);
                try {
                    void* from = (void*)own.Address, to = (void*)other.AddrOfPinnedObject();
                    Buffer.MemoryCopy(outwards ? from : to, outwards ? to : from, own.SizeBytes, own.SizeBytes);
                } finally {
                    other.Free();
                }
            }
        }

#if NET8_0_OR_GREATER
        /// <summary>The array that it lies in, as far as the tensor goes: <see cref="AsArray{T}"/>.</summary>
        /// <exception cref="QuarryException"><see cref="Code.InvalidArgument"/>: it lies in no array of T.</exception>
        public Span<T> AsSpan<T>() where T : struct {
            return new Span<T>(AsArray<T>(), 0, (int)Count<T>());
        }
#endif
    }
}
