// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;
using System.Text;

namespace Quarry {
    /// <summary>Hints of the library call things by the names of C: here by those of this package, where it has them.</summary>
    internal static class HintTexts {
        static readonly Dictionary<string, string> Names = new Dictionary<string, string> {
            {"qr_generator_options", "GeneratorOptions"}, {"qr_generator_prompt", "Generator.Prompt"}, {"qr_generator_rewind", "Generator.Rewind"}, {"qr_state_rewind", "State.Rewind"},
            {"qr_state_reset", "State.Reset"}, {"qr_state_fork", "State.Fork"}, {"qr_state_write", "State.Write"},
            {"qr_session_create", "Model.CreateSession"}, {"qr_session_run", "Session.Run"}, {"qr_session_submit", "Session.SubmitAsync"}, {"qr_session_clone", "Session.Clone"},
            {"qr_session_recover", "Session.Recover"}, {"qr_session_abort", "the CancellationToken"}, {"qr_model_check", "Model.Check"}, {"qr_signal_reset", "Signal.Reset"},
        };

        internal static string InCSharp(string hint) {
            hint = hint.Replace("qr_generator_options.names", "GeneratorOptions.Names");
            var text = new StringBuilder();
            int at = 0;
            while (at < hint.Length) {
                int begin = hint.IndexOf("qr_", at, System.StringComparison.Ordinal);
                if (begin < 0) break;
                int end = begin;
                while (end < hint.Length && (char.IsLetterOrDigit(hint[end]) || hint[end] == '_')) ++end;
                string word = hint.Substring(begin, end - begin);
                text.Append(hint, at, begin - at).Append(Names.TryGetValue(word, out string name) ? name : word);
                at = end;
            }
            return text.Append(hint, at, hint.Length - at).ToString();
        }
    }
}
