// SPDX-License-Identifier: Apache-2.0

// Reads a handwritten digit: go run ./examples/digits ../../models/digits
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"time"

	"quarry.dev/quarry"
)

func main() {
	folder := "models/digits"
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	session, err := quarry.Open(folder+"/digits.onnx", quarry.Options{"threads": "1"})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	// A .npy file has its data behind a header whose length is in bytes 8 and 9.
	file, err := os.ReadFile(folder + "/test_images.npy")
	if err != nil {
		log.Fatal(err)
	}
	image := make([]float32, 64)
	for i, pixel := range file[10+binary.LittleEndian.Uint16(file[8:]):][:64] {
		image[i] = float32(pixel) / 255
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	outputs, err := session.Run(ctx, quarry.TensorOf(image, 1, 1, 8, 8))
	if err != nil {
		log.Fatal(err)
	}
	scores, err := quarry.Data[float32](outputs[0])
	if err != nil {
		log.Fatal(err)
	}
	best := 0
	for i, score := range scores {
		if score > scores[best] {
			best = i
		}
	}
	fmt.Println("the first digit is a", best)
}
