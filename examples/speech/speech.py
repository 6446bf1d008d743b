# SPDX-License-Identifier: Apache-2.0
"""When somebody speaks in a recording: Silero VAD, 32 ms at a time, its state carried from one to the next.

    python speech.py MODEL RECORDING.wav      (16 kHz, one channel, 16 bits)
"""
import sys
import wave

import numpy as np

import quarry

RATE, FRAME, CONTEXT = 16000, 512, 64


def read_wav(path: str) -> np.ndarray:
    with wave.open(path) as file:
        if (file.getframerate(), file.getnchannels(), file.getsampwidth()) != (RATE, 1, 2):
            sys.exit(f"'{path}': expected 16 kHz, one channel, 16 bits")
        return np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768


def main(model: str, recording: str) -> None:
    # Each frame comes with the last samples of the one before.
    sound = np.concatenate([np.zeros(CONTEXT, np.float32), read_wav(recording)])
    frames = (len(sound) - CONTEXT) // FRAME
    # The rate is a constant, and so no input of the session.
    shape = {"input": (1, CONTEXT + FRAME), "state": (2, 1, 128), "sr": f"[{RATE}]"}
    state = np.zeros((2, 1, 128), np.float32)
    probabilities = []
    begin = None
    with quarry.Session(model, shape=shape) as session:
        for frame in range(frames):
            window = sound[frame * FRAME:frame * FRAME + CONTEXT + FRAME][None]
            output, state = session.run([window, state])
            probability = float(output.item())
            probabilities.append(probability)
            if probability >= 0.5 and begin is None:
                begin = frame * FRAME / RATE
            if probability < 0.35 and begin is not None:
                print(f"speech from {begin:.2f} to {frame * FRAME / RATE:.2f} s")
                begin = None
    if begin is not None:
        print(f"speech from {begin:.2f} to {frames * FRAME / RATE:.2f} s")
    speech = sum(p >= 0.5 for p in probabilities)
    mean = sum(probabilities) / frames if frames else 0.0
    print(f"{speech} of {frames} frames are speech, mean probability {mean:.3f}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except quarry.Error as error:
        sys.exit(str(error))
