// SPDX-License-Identifier: Apache-2.0
// Goes on with a text, word by word: java -cp quarry-runtime.jar examples/Story.java model.onnx tokenizer.json "Once upon a time"
// Without a tokenizer, by tokens: java -cp quarry-runtime.jar examples/Story.java model.onnx 1,3,34

import java.util.Arrays;
import java.util.Collections;
import quarry.Generator;
import quarry.Model;
import quarry.Session;
import quarry.Tokenizer;

public class Story {
    public static void main(String[] arguments) {
        String prompt = arguments[arguments.length - 1];
        Generator.Options options = new Generator.Options().maxNewTokens(24);  // temperature, topP and others: as they are, the most probable token
        try (Model model = Model.open(arguments[0]); Session session = model.session(Collections.singletonMap("state", "auto")); Generator generator = session.generator(options)) {
            Generator.Outcome outcome;
            if (arguments.length == 2) {
                generator.prompt(Arrays.stream(prompt.split(",")).mapToLong(Long::parseLong).toArray());
                outcome = generator.run(token -> {
                    System.out.print(token + " ");
                    return true;
                });
            } else {
                try (Tokenizer tokenizer = Tokenizer.open(arguments[1])) {
                    generator.prompt(tokenizer.encode(prompt, true));
                    outcome = generator.run(tokenizer, piece -> {
                        System.out.print(piece);
                        return true;
                    });
                }
            }
            System.out.println("\nended by " + outcome.end + " after " + outcome.count + " tokens");
        }
    }
}
