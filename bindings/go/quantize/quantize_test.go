// SPDX-License-Identifier: Apache-2.0

package quantize

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quarry.dev/quarry"
)

const digits = "../../../models/digits/"

// npy is the data of a .npy file that train.py wrote.
func npy(t testing.TB, name string) []byte {
	file, err := os.ReadFile(digits + name)
	if err != nil {
		t.Fatal(err)
	}
	return file[10+int(file[8])+int(file[9])<<8:]
}

func images(t testing.TB) [][]float32 {
	var found [][]float32
	for data := npy(t, "test_images.npy"); len(data) > 0; data = data[64:] {
		image := make([]float32, 64)
		for i := range image {
			image[i] = float32(data[i]) / 255
		}
		found = append(found, image)
	}
	return found
}

func sample(image []float32) quarry.Tensor { return quarry.TensorOf(image, 1, 1, 8, 8) }

func newRuntime(t testing.TB) *quarry.Runtime {
	r, err := quarry.NewRuntime()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func open(t testing.TB, options quarry.Options) *Quantizer {
	q, err := Open(context.Background(), newRuntime(t), quarry.Source{Path: digits + "digits.onnx"}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func add(t testing.TB, q *Quantizer, images [][]float32) {
	for _, image := range images {
		if err := q.AddSample(context.Background(), sample(image)); err != nil {
			t.Fatal(err)
		}
	}
}

// written is the quantised model of the samples so far.
func written(t testing.TB, q *Quantizer) []byte {
	var model []byte
	if err := q.Write(context.Background(), quarry.Target{Memory: &model}); err != nil {
		t.Fatal(err)
	}
	return model
}

func codeOf(err error) quarry.Code {
	var failed *quarry.Error
	if errors.As(err, &failed) {
		return failed.Code
	}
	return 0
}

// recognised is how many of the digits a model gets right.
func recognised(t testing.TB, path string, images [][]float32) (right int) {
	session, err := quarry.Open(path, quarry.Options{"threads": "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	labels := npy(t, "test_labels.npy")
	for i, image := range images {
		outputs, err := session.Run(context.Background(), sample(image))
		if err != nil {
			t.Fatal(err)
		}
		scores, err := quarry.Data[float32](outputs[0])
		if err != nil {
			t.Fatal(err)
		}
		best := 0
		for j, score := range scores {
			if score > scores[best] {
				best = j
			}
		}
		if best == int(labels[i]) {
			right++
		}
	}
	return right
}

func TestAQuantisedModelRecognisesTheDigits(t *testing.T) {
	all, path := images(t), filepath.Join(t.TempDir(), "digits.qdq.onnx")
	q := open(t, quarry.Options{"activations": "u8"})
	inputs, err := q.Inputs(context.Background())
	if err != nil || len(inputs) != 1 || inputs[0].String() != "image f32[1 1 8 8]" {
		t.Fatal(inputs, err)
	}
	if _, err := q.Report(context.Background(), "json"); codeOf(err) != quarry.FailedPrecondition || !strings.Contains(err.Error(), "call Quantizer.Write") {
		t.Fatal(err)
	}
	add(t, q, all[:32])
	var told []string
	ctx := quarry.WithProgress(context.Background(), func(done, total uint64, what string) error {
		told = append(told, what)
		return nil
	})
	if err := q.Write(ctx, quarry.Target{Path: path}); err != nil || len(told) == 0 {
		t.Fatal(err, told)
	}
	if right := recognised(t, path, all); right*100 < len(all)*95 {
		t.Fatalf("%d of %d", right, len(all))
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.Contains(data, []byte("QuantizeLinear")) {
		t.Fatal(err, "the model is not quantised")
	}
	report, err := q.Report(context.Background(), "json")
	if err != nil || !json.Valid([]byte(report)) {
		t.Fatal(report, err)
	}
	if page, err := q.Report(context.Background(), "html"); err != nil || !strings.Contains(page, "<html") {
		t.Fatal(page, err)
	}
	var buffer bytes.Buffer
	if err := q.ReportTo(context.Background(), "json", quarry.Target{Writer: &buffer}); err != nil || buffer.String() != report {
		t.Fatal(buffer.String(), err)
	}
}

func TestACalibrationIsTakenUp(t *testing.T) {
	all := images(t)
	whole, first, second := open(t, nil), open(t, nil), open(t, nil)
	add(t, whole, all[:8])
	add(t, first, all[:5])
	var saved []byte
	if err := first.Save(context.Background(), quarry.Target{Memory: &saved}, "five of them"); err != nil {
		t.Fatal(err)
	}
	note, err := second.Restore(context.Background(), quarry.Source{Reader: bytes.NewReader(saved), Size: int64(len(saved))})
	if err != nil || note != "five of them" {
		t.Fatal(note, err)
	}
	if count, err := second.Samples(); err != nil || count != 5 {
		t.Fatal(count, err)
	}
	add(t, second, all[5:8])
	if !bytes.Equal(written(t, second), written(t, whole)) {
		t.Fatal("another model came of it")
	}
	if _, err := second.Restore(context.Background(), quarry.Source{Path: digits + "digits.onnx"}); err == nil {
		t.Fatal("a model was taken for a calibration")
	}
}

func TestABlackSampleIsRefused(t *testing.T) {
	q, ctx := open(t, nil), context.Background()
	var model []byte
	if err := q.Write(ctx, quarry.Target{Memory: &model}); codeOf(err) != quarry.InvalidArgument {
		t.Fatal(err)
	}
	add(t, q, [][]float32{make([]float32, 64)})
	if err := q.Write(ctx, quarry.Target{Memory: &model}); codeOf(err) != quarry.InvalidArgument || !strings.Contains(err.Error(), "one and the same number all over") || model != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]quarry.Tensor{{}, {sample(make([]float32, 63))}, {quarry.TensorOf(make([]float32, 64), 64)}, {quarry.TensorOf(make([]int32, 64), 1, 1, 8, 8)}} {
		if err := q.AddSample(ctx, wrong...); codeOf(err) != quarry.InvalidArgument {
			t.Fatal(wrong, err)
		}
	}
	if count, err := q.Samples(); err != nil || count != 1 {
		t.Fatal(count, err)
	}
}

func TestWhatEndsACall(t *testing.T) {
	all, q := images(t), open(t, nil)
	add(t, q, all[:4])
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Open(cancelled, newRuntime(t), quarry.Source{Path: digits + "digits.onnx"}, nil); !errors.Is(err, context.Canceled) || codeOf(err) != quarry.Cancelled {
		t.Fatal(err)
	}
	if err := q.AddSample(cancelled, sample(all[4])); !errors.Is(err, context.Canceled) || codeOf(err) != quarry.Cancelled {
		t.Fatal(err)
	}
	// While the library is at work.
	during, cancel := context.WithCancel(context.Background())
	defer cancel()
	var model []byte
	ctx := quarry.WithProgress(during, func(uint64, uint64, string) error {
		cancel()
		time.Sleep(10 * time.Millisecond)
		return nil
	})
	if err := q.Write(ctx, quarry.Target{Memory: &model}); !errors.Is(err, context.Canceled) || codeOf(err) != quarry.Cancelled || model != nil {
		t.Fatal(err)
	}
	past, end := context.WithTimeout(context.Background(), time.Nanosecond)
	defer end()
	if err := q.Write(past, quarry.Target{Memory: &model}); !errors.Is(err, context.DeadlineExceeded) || codeOf(err) != quarry.DeadlineExceeded {
		t.Fatal(err)
	}
	own := errors.New("of the program")
	ctx = quarry.WithProgress(context.Background(), func(uint64, uint64, string) error { return own })
	if err := q.Write(ctx, quarry.Target{Memory: &model}); !errors.Is(err, own) || codeOf(err) != quarry.Cancelled {
		t.Fatal(err)
	}
	if count, err := q.Samples(); err != nil || count != 4 || len(written(t, q)) == 0 {
		t.Fatal(count, err)
	}
}

func TestOptionsAndErrors(t *testing.T) {
	options, err := Options()
	if err != nil || len(options) == 0 {
		t.Fatal(options, err)
	}
	r, ctx := newRuntime(t), context.Background()
	for _, option := range options {
		if option.Key == "" || option.Values == "" || option.Help == "" {
			t.Fatal(option)
		}
	}
	digitsAt := quarry.Source{Path: digits + "digits.onnx"}
	if _, err := Open(ctx, r, digitsAt, quarry.Options{"activation": "u16"}); codeOf(err) != quarry.NotFound || !strings.Contains(err.Error(), "quantize.Options") {
		t.Fatal(err)
	}
	if _, err := Open(ctx, r, digitsAt, quarry.Options{"activations": "u17"}); codeOf(err) != quarry.InvalidArgument {
		t.Fatal(err)
	}
	if _, err := Open(ctx, r, quarry.Source{Path: "none.onnx"}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if _, err := Open(ctx, nil, digitsAt, nil); codeOf(err) != quarry.InvalidArgument {
		t.Fatal(err)
	}
	q := open(t, nil)
	q.Close()
	q.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, err := range []error{q.AddSample(ctx, sample(make([]float32, 64))), q.Write(ctx, quarry.Target{Path: "none"}), q.Save(ctx, quarry.Target{Path: "none"}, "")} {
		if codeOf(err) != quarry.InvalidArgument {
			t.Fatal(err)
		}
	}
	r.Close()
	if _, err := Open(ctx, r, digitsAt, nil); codeOf(err) != quarry.InvalidArgument {
		t.Fatal(err)
	}
}
