// SPDX-License-Identifier: Apache-2.0
namespace Quarry {
    /// <summary>How tokens are picked and when they end: <see cref="Session.CreateGenerator"/>. Zeros, as made: the most probable token, until the state is full.</summary>
    public sealed class GeneratorOptions {
        /// <summary>Logits are divided by it; 0: the largest is taken, and none is drawn.</summary>
        public float Temperature { get; set; }

        /// <summary>Keeps the so many largest; 0: all.</summary>
        public uint TopK { get; set; }

        /// <summary>Keeps the most probable until their sum is at least this; 0 and 1: all.</summary>
        public float TopP { get; set; }

        /// <summary>Keeps what is at least so probable as this times the most probable; 0: all.</summary>
        public float MinP { get; set; }

        /// <summary>Of tokens that were there: logits over 0 are divided by it, others multiplied; 0 and 1: none.</summary>
        public float RepetitionPenalty { get; set; }

        /// <summary>The penalty is of how many of the last tokens; 0: of all.</summary>
        public ulong RepetitionWindow { get; set; }

        /// <summary>The same seed draws the same tokens of the same logits, on every machine.</summary>
        public ulong Seed { get; set; }

        /// <summary>The tokens at which a model ends; may be null.</summary>
        public long[] StopTokens { get; set; }

        /// <summary>Texts that end a run with a <see cref="Tokenizer"/>; they are no part of its text. May be null.</summary>
        public string[] StopTexts { get; set; }

        /// <summary>Of a <see cref="Generator.Run(TokenSink, Signal, System.Threading.CancellationToken)"/>; 0: until something else ends it.</summary>
        public ulong MaxNewTokens { get; set; }

        /// <summary>So many tokens of a prompt are one run: logits of all of them take memory; 0: 256.</summary>
        public ulong PromptChunk { get; set; }

        /// <summary>Where the model's names are others: "input_ids=tokens,logits=scores"; may be null.</summary>
        public string Names { get; set; }
    }
}
