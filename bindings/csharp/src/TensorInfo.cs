// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Text;

namespace Quarry {
    /// <summary>What is known of an input or output.</summary>
    public sealed unsafe class TensorInfo {
        /// <summary>A dimension that is symbolic or known only after the run.</summary>
        public const long UnknownDimension = Native.QR_DIM_UNKNOWN;

        internal delegate IntPtr At(IntPtr of, ulong index, qr_tensor_info* info);
        internal delegate IntPtr NameAt(IntPtr of, ulong index, ulong axis, qr_string* name);

        readonly long[] shape;
        readonly string[] dimensionNames;

        TensorInfo(qr_tensor_info info, string[] names) {
            Name = Text.Of(info.name);
            Type = DataTypes.Of(info.dtype);
            shape = new long[info.rank];
            for (int i = 0; i < shape.Length; ++i) shape[i] = info.dims[i];
            dimensionNames = names;
            SizeBytes = (long)info.size_bytes;
            Scale = info.scale;
            ZeroPoint = info.zero_point;
            BlockSize = info.block_size;
            bool many = info.is_quantized > Native.QR_QUANTIZED_PER_TENSOR;
            QuantizedAxis = many ? (int)info.quantized_axis : -1;
            var scales = new float[info.scale_count];
            var zeros = new int[info.scale_count];
            for (int i = 0; i < scales.Length; ++i) {
                if (info.scales != null) scales[i] = info.scales[i];
                if (info.zero_points != null) zeros[i] = info.zero_points[i];
            }
            Scales = Array.AsReadOnly(scales);
            ZeroPoints = Array.AsReadOnly(zeros);
        }

        /// <summary>Of all inputs or outputs of a model or session; `nameAt` may be null.</summary>
        internal static IReadOnlyList<TensorInfo> All(IntPtr of, ulong count, At at, NameAt nameAt) {
            var list = new List<TensorInfo>();
            for (ulong i = 0; i < count; ++i) {
                var info = new qr_tensor_info {struct_size = (uint)sizeof(qr_tensor_info)};
                QuarryException.Check(at(of, i, &info));
                var names = new string[info.rank];
                for (uint axis = 0; axis < info.rank; ++axis) {
                    var name = new qr_string();
                    if (nameAt != null) QuarryException.Check(nameAt(of, i, axis, &name));
                    names[axis] = Text.Of(name);
                }
                list.Add(new TensorInfo(info, names));
            }
            return list.AsReadOnly();
        }

        /// <summary>As the model has it.</summary>
        public string Name { get; }

        /// <summary>The type of its elements.</summary>
        public DataType Type { get; }

        /// <summary>A copy of its dimensions, with <see cref="UnknownDimension"/> where one is not known.</summary>
        public long[] Shape {
            get { return (long[])shape.Clone(); }
        }

        /// <summary>The name of a symbolic dimension ("batch"), of a model's tensor; empty where it has none.</summary>
        /// <exception cref="IndexOutOfRangeException">It has not so many dimensions.</exception>
        public string DimensionName(int axis) {
            return dimensionNames[axis];
        }

        /// <summary>0 where a dimension is unknown.</summary>
        public long SizeBytes { get; }

        /// <summary>Of a quantised tensor: a value q means (q - <see cref="ZeroPoint"/>) * Scale. 0: it is not quantised; NaN: <see cref="Scales"/> hold.</summary>
        public double Scale { get; }

        /// <summary>Beside <see cref="Scale"/>.</summary>
        public long ZeroPoint { get; }

        /// <summary>Per channel or per block; empty: there are none.</summary>
        public IReadOnlyList<float> Scales { get; }

        /// <summary>Beside <see cref="Scales"/>.</summary>
        public IReadOnlyList<int> ZeroPoints { get; }

        /// <summary>The axis of <see cref="Scales"/>; -1: there are none.</summary>
        public int QuantizedAxis { get; }

        /// <summary>In elements along the axis; 0: no blocks.</summary>
        public long BlockSize { get; }

        internal bool IsStatic {
            get { return Array.IndexOf(shape, UnknownDimension) < 0; }
        }

        /// <summary>"x f32[batch,3,224,224]".</summary>
        public override string ToString() {
            var text = new StringBuilder(Name).Append(' ').Append(Type.Word()).Append('[');
            for (int i = 0; i < shape.Length; ++i) {
                if (i > 0) text.Append(',');
                text.Append(shape[i] != UnknownDimension ? shape[i].ToString() : dimensionNames[i].Length == 0 ? "?" : dimensionNames[i]);
            }
            return text.Append(']').ToString();
        }
    }
}
