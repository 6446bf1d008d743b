// SPDX-License-Identifier: Apache-2.0
using System;
using System.Runtime.InteropServices;
using static Quarry.Tests.QuarryTest;

namespace Quarry.Tests {
    /// <summary>Tensors by themselves.</summary>
    internal static class TensorTests {
        static void TestEveryTypeOfArray() {
            Same(Tensor.Of(new double[] {1, 2}, 2).ToArray<double>()[1], 2.0);
            Same(Tensor.Of(new[] {1, 2}, 2).ToInts()[1], 2);
            Same(Tensor.Of(new uint[] {1, 2}, 2).ToArray<uint>()[1], 2u);
            Same(Tensor.Of(new long[] {1, 2}, 2).ToLongs()[1], 2L);
            Same(Tensor.Of(new ulong[] {1, 2}, 2).ToArray<ulong>()[1], 2ul);
            Same(Tensor.Of(new short[] {1, -2}, 2).ToArray<short>()[1], (short)-2);
            Same(Tensor.Of(new sbyte[] {1, -2}, 2).ToArray<sbyte>()[1], (sbyte)-2);
            Same(Tensor.Of(new ushort[] {1, 0x3c00}, DataType.F16, 2).ToArray<ushort>()[1], (ushort)0x3c00);
            Same(Tensor.Of(new byte[] {1, 2}, DataType.U8, 2).ToArray<byte>()[1], (byte)2);
            Same(Tensor.Of(new byte[] {0x21, 0x03}, DataType.U4, 3).ToString(), "u4[3]");
            Same(string.Join(",", Tensor.Of(new[] {true, false, true}, 3).ToArray<bool>()), "True,False,True");
            Same(Tensor.Of(new float[] {1}).ToString(), "f32[]");
            Same(Tensor.Of(new float[0], 0, 3).ToFloats().Length, 0);
            Same(string.Join(",", Tensor.Of(new float[] {1}, 1).ToArray<byte>()), "0,0,128,63");
        }

        static void TestOutsideOfTheCollectorsMemory() {
            using (Tensor outside = Tensor.Allocate(DataType.I64, 3)) {
                Same(string.Join(",", outside.ToLongs()), "0,0,0");
                outside.Write(new long[] {4, 5, 6});
                Same(outside.ToLongs()[2], 6L);
                using (PinnedTensor pinned = outside.Pin()) {
                    Same(pinned.SizeBytes, 24L);
                    Same((long)pinned.Address % 64, 0L);
                    outside.Dispose();  // what is pinned stays
                    Same(Marshal.ReadInt64(pinned.Address, 8), 5L);
                }
                Throws<ObjectDisposedException>(() => outside.ToLongs());
                Fails(Code.InvalidArgument, () => outside.AsArray<long>());
            }
            using (Tensor truths = Tensor.Allocate(DataType.Bool, 2)) {
                truths.Write(new[] {false, true});
                Same(truths.ToArray<bool>()[1], true);
            }
        }

        static void TestWhatIsNoTensor() {
            Fails(Code.InvalidArgument, () => Tensor.Of(new float[3], 2, 2));
            Fails(Code.InvalidArgument, () => Tensor.Of(new byte[15], DataType.F32, 2, 2));
            Fails(Code.InvalidArgument, () => Tensor.Of(new ushort[2], DataType.F32, 2));
            Fails(Code.InvalidArgument, () => Tensor.Allocate(DataType.F32, 1L << 40, 1L << 40));
            Fails(Code.InvalidArgument, () => Tensor.Allocate(DataType.F32, 1L << 61, 4));
            Fails(Code.InvalidArgument, () => Tensor.Allocate(DataType.F32, -1));
            Fails(Code.InvalidArgument, () => Tensor.Of(new float[2], 2).ToInts());
            Fails(Code.InvalidArgument, () => Tensor.Of(new int[2], 2).AsArray<uint>());
            Fails(Code.InvalidArgument, () => Tensor.Of(new float[2], 2).Write(new float[3]));
            Throws<ArgumentNullException>(() => Tensor.Of((float[])null, 2));
        }
    }
}
