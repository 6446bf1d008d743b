// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Text;

namespace Quarry {
    /// <summary>Why a call failed. Every failure of the library is one; programs look at <see cref="Code"/> and <see cref="Id"/>, people read the message.</summary>
    public sealed class QuarryException : Exception {
        QuarryException(Code code, string id, string plain, string hint, IReadOnlyList<KeyValuePair<string, string>> details) : base(Whole(id, plain, hint, details)) {
            Code = code;
            Id = id;
            PlainMessage = plain;
            Hint = hint;
            Details = details;
        }

        /// <summary>What kind of failure it was.</summary>
        public Code Code { get; }

        /// <summary>"QR-C0107": docs/errors.md has a section for each. Empty for what this package refuses itself.</summary>
        public string Id { get; }

        /// <summary>What was found and what was expected; <see cref="Exception.Message"/> has the id, the reasons and the hint too.</summary>
        public string PlainMessage { get; }

        /// <summary>What to do about it; may be empty.</summary>
        public string Hint { get; }

        /// <summary>Keys ("node", "op", "file", "reason" ...) and their values. A refusal of several nodes has a "reason" for each.</summary>
        public IReadOnlyList<KeyValuePair<string, string>> Details { get; }

        /// <summary>What this package refuses before the library is asked.</summary>
        internal static QuarryException Refused(string message, string hint = "") {
            return new QuarryException(Code.InvalidArgument, "", message, hint, new KeyValuePair<string, string>[0]);
        }

        /// <summary>A library that a program need not have is not there.</summary>
        internal static QuarryException Missing(string message, string hint) {
            return new QuarryException(Code.Unavailable, "", message, hint, new KeyValuePair<string, string>[0]);
        }

        /// <summary>What an error of libquarry-tokenizer says, which is freed; null: it is none.</summary>
        internal static unsafe QuarryException TakeOfTokenizer(IntPtr error) {
            if (error == IntPtr.Zero) return null;
            try {
                return Made(NativeTokenizer.qr_tokenizer_error_code(error), NativeTokenizer.qr_tokenizer_error_id(error), NativeTokenizer.qr_tokenizer_error_message(error),
                    NativeTokenizer.qr_tokenizer_error_hint(error), new KeyValuePair<string, string>[0]);
            } finally {
                NativeTokenizer.qr_tokenizer_error_destroy(error);
            }
        }

        static unsafe QuarryException Made(int code, byte* id, byte* message, byte* hint, IReadOnlyList<KeyValuePair<string, string>> details) {
            return new QuarryException(Enum.IsDefined(typeof(Code), code) ? (Code)code : Code.Unknown, Text.Of(id), Text.Of(message), HintTexts.InCSharp(Text.Of(hint)), details);
        }

        /// <summary>What a status says, which is freed; null: it is none.</summary>
        internal static unsafe QuarryException Take(IntPtr status) {
            if (status == IntPtr.Zero) return null;
            try {
                var details = new List<KeyValuePair<string, string>>();
                ulong count = Native.qr_status_detail_count(status);
                for (ulong i = 0; i < count; ++i) {
                    byte* key, value;
                    Native.qr_status_detail(status, i, &key, &value);
                    details.Add(new KeyValuePair<string, string>(Text.Of(key), Text.Of(value)));
                }
                return Made(Native.qr_status_code(status), Native.qr_status_id(status), Native.qr_status_message(status), Native.qr_status_hint(status), details.AsReadOnly());
            } finally {
                Native.qr_status_destroy(status);
            }
        }

        /// <summary>Throws what a status says.</summary>
        internal static void Check(IntPtr status) {
            QuarryException error = Take(status);
            if (error != null) throw error;
        }

        // A reason that many nodes have stands once, with its count.
        static string Whole(string id, string plain, string hint, IReadOnlyList<KeyValuePair<string, string>> details) {
            var text = new StringBuilder(id.Length == 0 ? "quarry" : id).Append(": ");
            var reasons = new List<string>();
            var counts = new Dictionary<string, int>();
            foreach (KeyValuePair<string, string> detail in details) {
                if (detail.Key == "reason") {
                    if (!counts.TryGetValue(detail.Value, out int count)) reasons.Add(detail.Value);
                    counts[detail.Value] = count + 1;
                }
                if (detail.Key == "file" && !plain.Contains(detail.Value.Substring(detail.Value.LastIndexOf('/') + 1))) text.Append(detail.Value).Append(": ");
            }
            text.Append(plain);
            foreach (string reason in reasons) {
                text.Append("; ").Append(reason);
                if (counts[reason] > 1) text.Append(" (").Append(counts[reason]).Append(" times)");
            }
            if (hint.Length > 0) text.Append(" (hint: ").Append(hint).Append(")");
            return text.ToString();
        }
    }
}
