// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>A pair of input and output that a session keeps from run to run.</summary>
    public sealed unsafe class StatePair {
        readonly long[] shape;

        internal StatePair(qr_state_info info) {
            Input = Text.Of(info.input);
            Output = Text.Of(info.output);
            Axis = info.axis;
            Type = DataTypes.Of(info.dtype);
            shape = new long[info.rank];
            for (int i = 0; i < shape.Length; ++i) shape[i] = info.dims[i];
            Capacity = (long)info.capacity;
            Bytes = (long)info.bytes;
        }

        /// <summary>Its name as an input.</summary>
        public string Input { get; }

        /// <summary>Its name as an output.</summary>
        public string Output { get; }

        /// <summary>Along which it grows; -1: it keeps its size.</summary>
        public int Axis { get; }

        /// <summary>The type of its elements.</summary>
        public DataType Type { get; }

        /// <summary>A copy of its dimensions now; <see cref="TensorInfo.UnknownDimension"/>: the next run says.</summary>
        public long[] Shape {
            get { return (long[])shape.Clone(); }
        }

        /// <summary>Entries along the axis that there is room for; 0: it keeps its size.</summary>
        public long Capacity { get; }

        /// <summary>Of memory that is held.</summary>
        public long Bytes { get; }

        /// <summary>"past &lt;- present [1,2,2]".</summary>
        public override string ToString() {
            return Input + " <- " + Output + " [" + string.Join(",", shape) + "]";
        }
    }
}
