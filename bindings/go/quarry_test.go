// SPDX-License-Identifier: Apache-2.0

package quarry

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const digits = "../../models/digits/"

// npy is the data of a .npy file that train.py wrote.
func npy(t testing.TB, name string) []byte {
	file, err := os.ReadFile(digits + name)
	if err != nil {
		t.Fatal(err)
	}
	return file[10+binary.LittleEndian.Uint16(file[8:]):]
}

func images(t testing.TB) [][]float32 {
	var found [][]float32
	data := npy(t, "test_images.npy")
	for ; len(data) > 0; data = data[64:] {
		image := make([]float32, 64)
		for i := range image {
			image[i] = float32(data[i]) / 255
		}
		found = append(found, image)
	}
	return found
}

func best(scores []float32) int {
	at := 0
	for i := range scores {
		if scores[i] > scores[at] {
			at = i
		}
	}
	return at
}

func open(t testing.TB) *Session {
	session, err := Open(digits+"digits.onnx", Options{"threads": "1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

func TestDigitsAreReadAsONNXRuntimeReadsThem(t *testing.T) {
	session, labels, stored := open(t), npy(t, "test_labels.npy"), npy(t, "ort_scores.npy")
	right := 0
	for i, image := range images(t) {
		outputs, err := session.Run(context.Background(), TensorOf(image, 1, 1, 8, 8))
		if err != nil {
			t.Fatal(err)
		}
		scores, err := Data[float32](outputs[0])
		if err != nil || len(scores) != 10 || outputs[0].Shape[1] != 10 {
			t.Fatal(err, outputs)
		}
		for k, score := range scores {
			wanted := math.Float32frombits(binary.LittleEndian.Uint32(stored[(i*10+k)*4:]))
			if math.Abs(float64(score-wanted)) > 1e-4 {
				t.Fatalf("image %d: found %v, expected %v", i, score, wanted)
			}
		}
		if best(scores) == int(labels[i]) {
			right++
		}
	}
	if right*100 < len(labels)*97 {
		t.Fatalf("%d of %d right", right, len(labels))
	}
}

func TestSlicesAreUsedWhereTheyLie(t *testing.T) {
	session, image, scores := open(t), images(t)[3], make([]float32, 12)
	outputs := []Tensor{TensorOf(scores)}
	if err := session.RunInto(context.Background(), []Tensor{TensorOf(image, 1, 1, 8, 8)}, outputs); err != nil {
		t.Fatal(err)
	}
	found, _ := Data[float32](outputs[0])
	if &found[0] != &scores[0] || len(found) != 10 || scores[best(found)] == 0 {
		t.Fatal(found, scores)
	}
	if _, err := Data[int32](outputs[0]); err == nil {
		t.Fatal("f32 was given as i32")
	}
}

func TestRoomOfAnotherTypeIsRefused(t *testing.T) {
	session, image := open(t), images(t)[3]
	words := make([]int32, 10)
	inputs := []Tensor{TensorOf(image, 1, 1, 8, 8)}
	memory, err := session.AllocateMemory(4096)
	if err != nil {
		t.Fatal(err)
	}
	for _, room := range []Tensor{TensorOf(words), {DType: I64}, InMemory(memory, 0, I32)} {
		err := session.RunInto(context.Background(), inputs, []Tensor{room})
		if err == nil || !strings.Contains(err.Error(), "expected f32") {
			t.Fatal(room.DType, err)
		}
		if _, err := session.Submit(context.Background(), inputs, []Tensor{room}); err == nil {
			t.Fatal(room.DType, "was taken")
		}
	}
	for _, word := range words {
		if word != 0 {
			t.Fatal(words)
		}
	}
	outputs := []Tensor{{Bytes: make([]byte, 48)}}
	if err := session.RunInto(context.Background(), inputs, outputs); err != nil || outputs[0].DType != F32 || len(outputs[0].Bytes) != 40 {
		t.Fatal(err, outputs)
	}
}

func TestErrorsHaveIdAndHint(t *testing.T) {
	_, err := Open(digits+"digits.onnx", Options{"treads": "1"})
	var failed *Error
	if !errors.As(err, &failed) || failed.Code != NotFound || failed.ID != "QR-C0101" || failed.Hint == "" || !strings.Contains(err.Error(), "threads") {
		t.Fatal(err)
	}
	if _, err := Open("/none.onnx", nil); !errors.As(err, &failed) || failed.Code.String() != "NOT_FOUND" {
		t.Fatal(err)
	}
	session := open(t)
	_, err = session.Run(context.Background(), TensorOf(make([]float32, 64), 1, 64))
	if !errors.As(err, &failed) || failed.ID != "QR-R0003" {
		t.Fatal(err)
	}
	for _, wrong := range []Tensor{TensorOf(make([]float32, 63), 1, 1, 8, 8), TensorOf(make([]float32, 64), 1, 1, 1, 1, 1, 1, 1, 8, 8), TensorOf(make([]float32, 64), -1, -64),
		TensorOf(make([]float32, 64), 1<<40, 1<<40), TensorOf([]float32{}, 1<<59), TensorOf([]float64{}, 1<<58)} {
		if _, err := session.Run(context.Background(), wrong); err == nil {
			t.Fatal(wrong.Shape, "was taken")
		}
	}
	if _, err := session.Run(context.Background()); err == nil {
		t.Fatal("a run without inputs")
	}
	session.Close()
	session.Close()
	if _, err := session.Run(context.Background(), TensorOf(images(t)[0], 1, 1, 8, 8)); !errors.As(err, &failed) || failed.ID != "QR-C0002" {
		t.Fatal(err)
	}
}

func TestContextsEndCalls(t *testing.T) {
	session, image := open(t), images(t)[0]
	ctx, cancel := context.WithCancel(context.Background())
	if _, err := session.Run(ctx, TensorOf(image, 1, 1, 8, 8)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := session.Run(ctx, TensorOf(image, 1, 1, 8, 8)); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// A run under way: a real model's, many times over, with less time than it takes.
	model := filepath.Join(shared(), "models/yolox_nano_416/model.onnx")
	if _, err := os.Stat(model); err != nil {
		t.Skip("there is no", model, "(set QUARRY_SHARED)")
	}
	slow, err := Open(model, Options{"backend": "cpu-reference", "threads": "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	count := 1
	for _, extent := range slow.Inputs()[0].Shape {
		count *= extent
	}
	input := TensorOf(make([]float32, count), slow.Inputs()[0].Shape...)
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	_, err = slow.Run(ctx, input)
	var failed *Error
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &failed) || failed.Code != DeadlineExceeded {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 20*time.Second {
		t.Fatal("the run was ended after ", took)
	}
}

func shared() string {
	if folder := os.Getenv("QUARRY_SHARED"); folder != "" {
		return folder
	}
	return "../../../shared"
}

func TestGoroutinesTakeTurnsAndClonesRunByThemselves(t *testing.T) {
	session, images := open(t), images(t)
	var group sync.WaitGroup
	for range 4 {
		clone, err := session.Clone()
		if err != nil {
			t.Fatal(err)
		}
		for _, own := range []*Session{session, clone} {
			group.Go(func() {
				for _, image := range images[:25] {
					outputs, err := own.Run(context.Background(), TensorOf(image, 1, 1, 8, 8))
					if err != nil || len(outputs[0].Bytes) != 40 {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
}

func TestModelsAreCompiledAndInspected(t *testing.T) {
	runtime, err := NewRuntime()
	if err != nil {
		t.Fatal(err)
	}
	model, err := OpenModel(runtime, digits+"digits.onnx", nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "d.qrm")
	if err := model.Compile(context.Background(), path, Options{"metadata.author": "me"}); err != nil {
		t.Fatal(err)
	}
	compiled, err := OpenModel(runtime, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := compiled.Inspect(); err != nil || !strings.Contains(text, `"me"`) {
		t.Fatal(err, text)
	}
	backends, err := runtime.Backends()
	if err != nil || len(backends) < 2 {
		t.Fatal(err, backends)
	}
	session, err := compiled.NewSession(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	// In any order: the session holds what it needs.
	compiled.Close()
	model.Close()
	if _, err := session.Run(context.Background(), TensorOf(images(t)[0], 1, 1, 8, 8)); err != nil {
		t.Fatal(err)
	}
	if report, err := session.Report(); err != nil || !strings.Contains(report, `"cpu"`) {
		t.Fatal(err)
	}
	runtime.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := session.Run(ctx, TensorOf(images(t)[0], 1, 1, 8, 8)); err != nil {
		t.Fatal(err)
	}
	var failed *Error
	if _, err := model.NewSession(ctx, nil); !errors.As(err, &failed) || failed.ID != "QR-C0002" {
		t.Fatal(err)
	}
	if _, err := OpenModel(runtime, path, nil); !errors.As(err, &failed) || failed.ID != "QR-C0002" {
		t.Fatal(err)
	}
	session.Close()
	if Version() == "" {
		t.Fatal("no version")
	}
}

func TestWhatIsNotClosedIsCollected(t *testing.T) {
	for range 20 {
		if session, err := Open(digits+"digits.onnx", Options{"threads": "1"}); err != nil || session == nil {
			t.Fatal(err)
		}
		runtime.GC()
	}
}

// What a run costs beyond cgo's own cost: the C call with everything prepared, and the pins that cgo asks for. The least of many short rounds of both in turn: another program may have the processor.
func BenchmarkRun(b *testing.B) {
	session, err := Open("../rust/quarry/tests/relu.onnx", Options{"threads": "1"})
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	inputs, outputs := []Tensor{TensorOf([]float32{1, -2, 3, -4}, 1, 4)}, []Tensor{TensorOf(make([]float32, 4), 1, 4)}
	run := func() error { return session.RunInto(context.Background(), inputs, outputs) }
	call := func() error { return session.call(context.Background(), 1, 1) }
	if err := run(); err != nil {
		b.Fatal(err)
	}
	pins := func() error {
		var pinner runtime.Pinner
		pinner.Pin(&inputs[0].Bytes[0])
		pinner.Pin(&outputs[0].Bytes[0])
		pinner.Unpin()
		return nil
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	const calls = 100
	round := func(work func() error) float64 {
		begin := time.Now()
		for range calls {
			if err := work(); err != nil {
				b.Fatal(err)
			}
		}
		return float64(time.Since(begin).Nanoseconds()) / calls
	}
	ours, pinning, calling := math.Inf(1), math.Inf(1), math.Inf(1)
	for range 50 {
		round(run)
	}
	for b.Loop() {
		ours, pinning = min(ours, round(run)), min(pinning, round(pins))
		pinner.Pin(&inputs[0].Bytes[0])
		pinner.Pin(&outputs[0].Bytes[0])
		calling = min(calling, round(call))
		pinner.Unpin()
	}
	b.ReportMetric(0, "ns/op") // of a round: says nothing
	b.ReportMetric(ours, "ns/run")
	b.ReportMetric(calling, "ns/c-call")
	b.ReportMetric(pinning, "ns/pins")
	b.ReportMetric(ours-calling-pinning, "ns/beyond")
}
