// SPDX-License-Identifier: Apache-2.0

package quarry

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
)

func TestRunsAreQueued(t *testing.T) {
	session, images := open(t), images(t)
	var wanted [][]float32
	for _, image := range images[:40] {
		outputs, err := session.Run(context.Background(), TensorOf(image, 1, 1, 8, 8))
		if err != nil {
			t.Fatal(err)
		}
		scores, _ := Data[float32](outputs[0])
		wanted = append(wanted, scores)
	}
	var group sync.WaitGroup
	for first := range 4 {
		group.Go(func() {
			for i := first; i < 40; i += 4 {
				run, err := session.Submit(context.Background(), []Tensor{TensorOf(images[i], 1, 1, 8, 8)}, make([]Tensor, 1))
				var failed *Error
				if errors.As(err, &failed) && failed.Code == Busy {
					i -= 4
					runtime.Gosched()
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				runtime.GC() // what the run was lent stays
				outputs, err := run.Wait()
				if err != nil {
					t.Error(err)
					return
				}
				scores, _ := Data[float32](outputs[0])
				for k := range scores {
					if scores[k] != wanted[i][k] {
						t.Errorf("image %d: %v, expected %v", i, scores, wanted[i])
						break
					}
				}
			}
		})
	}
	group.Wait()
	var failed *Error
	if _, err := session.Submit(context.Background(), nil, make([]Tensor, 1)); err == nil {
		t.Fatal("a run without inputs")
	}
	ctx, cancel := context.WithCancel(context.Background())
	run, err := session.Submit(ctx, []Tensor{TensorOf(images[0], 1, 1, 8, 8)}, make([]Tensor, 1))
	cancel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	run.Abort()
	if _, err := session.Submit(ctx, []Tensor{TensorOf(images[0], 1, 1, 8, 8)}, make([]Tensor, 1)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// Closed with a run under way, which nobody waits for.
	if _, err := session.Submit(nil, []Tensor{TensorOf(images[0], 1, 1, 8, 8)}, make([]Tensor, 1)); err != nil {
		t.Fatal(err)
	}
	session.Close()
	if _, err := session.Submit(nil, []Tensor{TensorOf(images[0], 1, 1, 8, 8)}, make([]Tensor, 1)); !errors.As(err, &failed) || failed.ID != "QR-C0002" {
		t.Fatal(err)
	}
}

func TestMemoryOfTheDevice(t *testing.T) {
	session, image := open(t), images(t)[2]
	plain, err := session.Run(context.Background(), TensorOf(image, 1, 1, 8, 8))
	if err != nil {
		t.Fatal(err)
	}
	registered, err := session.RegisterMemory(TensorOf(image).Bytes)
	if err != nil {
		t.Fatal(err)
	}
	found, err := session.AllocateMemory(4096)
	if err != nil || found.Size() != 4096 {
		t.Fatal(err)
	}
	inputs, outputs := []Tensor{InMemory(registered, 0, F32, 1, 1, 8, 8)}, []Tensor{InMemory(found, 64, F32)}
	same := func() {
		t.Helper()
		if err := found.Access(func(bytes []byte) {
			if string(bytes[64:104]) != string(plain[0].Bytes) {
				t.Errorf("found %v, expected %v", bytes[64:104], plain[0].Bytes)
			}
			clear(bytes)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.RunInto(context.Background(), inputs, outputs); err != nil || len(outputs[0].Shape) != 2 || outputs[0].Shape[1] != 10 {
		t.Fatal(err, outputs)
	}
	same()
	run, err := session.Submit(context.Background(), inputs, outputs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(); err != nil {
		t.Fatal(err)
	}
	same()
	// Slices again, in the same places of C's.
	if again, err := session.Run(context.Background(), TensorOf(image, 1, 1, 8, 8)); err != nil || string(again[0].Bytes) != string(plain[0].Bytes) {
		t.Fatal(err)
	}
	for _, wrong := range []Tensor{InMemory(registered, 1, F32, 1, 1, 8, 8), InMemory(registered, -1, F32, 1, 1, 8, 8), InMemory(registered, 1<<40, F32, 1, 1, 8, 8)} {
		if err := session.RunInto(context.Background(), []Tensor{wrong}, outputs); err == nil {
			t.Fatal(wrong, "was taken")
		}
	}
	registered.Close()
	registered.Close()
	if err := session.RunInto(context.Background(), inputs, outputs); err == nil {
		t.Fatal("a closed memory was taken")
	}
	if err := registered.Access(func([]byte) {}); err == nil || registered.Size() != 0 {
		t.Fatal("a closed memory was accessed")
	}
}

func TestProfilesHoldTheNodes(t *testing.T) {
	session, err := Open(digits+"digits.onnx", Options{"threads": "1", "profiling_level": "linting"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	profile, err := session.NewProfile()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.RunProfiled(context.Background(), profile, []Tensor{TensorOf(images(t)[0], 1, 1, 8, 8)}, make([]Tensor, 1)); err != nil {
		t.Fatal(err)
	}
	events, err := profile.Events()
	if err != nil || len(events) < 2 || events[0].Kind != "run" || events[0].End < events[0].Begin {
		t.Fatal(err, events)
	}
	nodes := 0
	for _, event := range events {
		if event.Kind == "node" && event.Attributes["kernel"] != "" && len(event.Counters) > 0 {
			nodes++
		}
	}
	if nodes == 0 {
		t.Fatal(events)
	}
	if text, err := profile.Export("csv"); err != nil || len(text) < 100 {
		t.Fatal(err, text)
	}
	if _, err := profile.Export("none"); err == nil {
		t.Fatal("an unknown format")
	}
	// The run before the last is not in it, and neither is one without a profile.
	profile.Clear()
	if _, err := session.Run(context.Background(), TensorOf(images(t)[0], 1, 1, 8, 8)); err != nil {
		t.Fatal(err)
	}
	if events, err := profile.Events(); err != nil || len(events) != 0 {
		t.Fatal(err, events)
	}
	profile.Close()
	if _, err := profile.Export("csv"); err == nil {
		t.Fatal("a closed profile")
	}
}
