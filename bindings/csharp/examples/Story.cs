// SPDX-License-Identifier: Apache-2.0
// Goes on with a text, word by word: Story.exe model.onnx tokenizer.json "Once upon a time"
// Without a tokenizer, by tokens: Story.exe model.onnx 1,3,34
using System;
using System.Collections.Generic;
using Quarry;

static class Story {
    static void Main(string[] arguments) {
        string prompt = arguments[arguments.Length - 1];
        var options = new GeneratorOptions {MaxNewTokens = 24};  // Temperature, TopP and others: as they are, the most probable token
        using (Model model = Model.Open(arguments[0]))
        using (Session session = model.CreateSession(new Dictionary<string, string> {{"state", "auto"}}))
        using (Generator generator = session.CreateGenerator(options)) {
            GeneratedRun run;
            if (arguments.Length == 2) {
                generator.Prompt(Array.ConvertAll(prompt.Split(','), long.Parse));
                run = generator.Run(token => {
                    Console.Write(token + " ");
                    return true;
                });
            } else {
                using (Tokenizer tokenizer = Tokenizer.Open(arguments[1])) {
                    generator.Prompt(tokenizer.Encode(prompt));
                    run = generator.Run(tokenizer, piece => {
                        Console.Write(piece);
                        return true;
                    });
                }
            }
            Console.WriteLine("\nended by " + run.End + " after " + run.Count + " tokens");
        }
    }
}
