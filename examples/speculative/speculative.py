# SPDX-License-Identifier: Apache-2.0
"""Speculative decoding: a small model drafts some tokens, the large one looks at all of them in one run and takes as many as it would have picked itself.
The text is that of the large model alone, in fewer runs of it. What was drafted in vain is forgotten: the state of the large model is rewound, the generator
of the small one does so by itself.

    python speculative.py MODEL DRAFT HOW_MANY ID...         (both of one vocabulary, with no input but input_ids and a cache)
"""
import sys

import numpy as np

import quarry


def main(model: str, draft: str, how_many: int, sequence: list[int]) -> None:
    wanted, runs = len(sequence) + how_many, 0
    with quarry.Session(model, state="auto") as judge, quarry.Session(draft, state="auto") as small, quarry.Generator(small, max_new_tokens=4) as drafter:
        state = judge.state
        while len(sequence) < wanted:
            drafter.prompt(sequence)
            guesses = list(drafter)
            logits = judge.run(np.array([(sequence + guesses)[state.length:]], np.int64))[0]
            picked = logits[0, -len(guesses) - 1:].argmax(-1).tolist()
            right = next((i for i, (a, b) in enumerate(zip(guesses, picked)) if a != b), len(guesses))
            sequence = sequence + picked[:right + 1]
            state.rewind(len(sequence) - 1)  # the last was picked, and is not run yet
            runs += 1
    print(*sequence[:wanted])
    print(f"{runs} runs of the large model", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], sys.argv[2], max(1, min(int(sys.argv[3]), 200)), [int(i) for i in sys.argv[4:]])
    except quarry.Error as error:
        sys.exit(str(error))
