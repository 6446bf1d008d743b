# SPDX-License-Identifier: Apache-2.0
"""A small Llama goes on with a text: the prompt in one run, then a token a run; the session keeps keys and values of all tokens before (option "state").

    python llm.py MODEL HOW_MANY ID...         (ids of tokens: the model's vocabulary is the caller's)
"""
import sys
import time

import numpy as np

import quarry


def main(model: str, how_many: int, ids: list[int]) -> None:
    with quarry.Session(model, state="auto") as session:
        fresh = ids
        start = time.perf_counter()
        for _ in range(how_many):
            logits = session.run(np.array([fresh], np.int64))[0]
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
