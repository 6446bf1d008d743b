// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>Gets each token of a run as it is picked, but for a stop token, on the thread of the call. It calls nothing of the generator.</summary>
    /// <returns>False ends the run (<see cref="EndReason.Callback"/>). So does an exception, which the run then throws.</returns>
    public delegate bool TokenSink(long token);

    /// <summary>Gets the text of a run piece by piece, as far as it is certain, on the thread of the call. It calls nothing of the generator.</summary>
    /// <returns>False ends the run (<see cref="EndReason.Callback"/>). So does an exception, which the run then throws.</returns>
    public delegate bool TextSink(string piece);

    /// <summary>Why tokens end. A reason of a library that is newer than this package is a number of its own.</summary>
    public enum EndReason {
        /// <summary>A stop text is complete; its tokens are the last of the sequence.</summary>
        StopText = -1,
        /// <summary>They do not: the next step gives another.</summary>
        None = NativeGenerate.QR_END_NONE,
        /// <summary>A stop token was picked: it is the last of the sequence.</summary>
        StopToken = NativeGenerate.QR_END_STOP_TOKEN,
        /// <summary>As many as were wanted.</summary>
        Length = NativeGenerate.QR_END_LENGTH,
        /// <summary>The state is full (option "state.capacity").</summary>
        Capacity = NativeGenerate.QR_END_CAPACITY,
        /// <summary>The sink said so.</summary>
        Callback = NativeGenerate.QR_END_CALLBACK,
        /// <summary>The signal was aborted.</summary>
        Aborted = NativeGenerate.QR_END_ABORTED,
        /// <summary>The signal's timeout ran out.</summary>
        Deadline = NativeGenerate.QR_END_DEADLINE
    }

    /// <summary>What a step of a generator gave.</summary>
    public struct GeneratedToken {
        internal GeneratedToken(long token, EndReason end) {
            Token = token;
            End = end;
        }

        /// <summary>-1: <see cref="EndReason.Capacity"/>.</summary>
        public long Token { get; }

        /// <summary>Whether it is the last, and why.</summary>
        public EndReason End { get; }
    }

    /// <summary>How a run of a generator ended.</summary>
    public struct GeneratedRun {
        internal GeneratedRun(long count, EndReason end) {
            Count = count;
            End = end;
        }

        /// <summary>So many tokens were picked, a stop token included.</summary>
        public long Count { get; }

        /// <summary>Why it ended.</summary>
        public EndReason End { get; }
    }

    /// <summary>What a generator has.</summary>
    public sealed class TokenSequence {
        internal TokenSequence(long[] tokens, qr_sequence_info info) {
            Tokens = tokens;
            Run = (long)info.run;
            Reused = (long)info.reused;
            Capacity = (long)info.capacity;
            Vocabulary = (long)info.vocabulary;
        }

        /// <summary>All of it; a copy.</summary>
        public long[] Tokens { get; }

        /// <summary>Of the tokens, those that the state has.</summary>
        public long Run { get; }

        /// <summary>Of the last prompt, those that were not run again.</summary>
        public long Reused { get; }

        /// <summary>So many tokens have room; 0: no end is known.</summary>
        public long Capacity { get; }

        /// <summary>0: before the first run, where the model does not say it.</summary>
        public long Vocabulary { get; }
    }
}
