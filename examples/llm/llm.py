# SPDX-License-Identifier: Apache-2.0
"""A small Llama goes on with a text: the prompt in one run, then a token a run, with keys and values of all tokens before in the cache.
Each length of the cache is a shape bucket; all share the weights.

    python llm.py MODEL HOW_MANY ID...         (ids of tokens: the model's vocabulary is the caller's)
"""
import sys
import time

import numpy as np

import quarry


def main(model: str, how_many: int, ids: list[int]) -> None:
    prompt = len(ids)
    shapes = [{"past": 0, "seq": prompt}] + [{"past": past, "seq": 1} for past in range(prompt, prompt + how_many - 1)]
    with quarry.Session(model, shape=shapes) as session:
        # Inputs: ids, then key and value of each layer [1, heads, past, width]; outputs: logits, and the same longer.
        _, heads, _, width = session.inputs[1].shape
        caches = [np.zeros((1, heads, 0, width), np.float32) for _ in session.inputs[1:]]
        fresh = ids
        start = time.perf_counter()
        for _ in range(how_many):
            logits, *caches = session.run([np.array([fresh], np.int64), *caches])
            fresh = [int(logits[0, -1].argmax())]
            ids = ids + fresh
        seconds = time.perf_counter() - start
    print(*ids)
    print(f"{how_many / seconds:.0f} tokens a second", file=sys.stderr)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    try:
        main(sys.argv[1], max(1, min(int(sys.argv[2]), 200)), [int(i) for i in sys.argv[3:]])
    except quarry.Error as error:
        sys.exit(str(error))
