// SPDX-License-Identifier: Apache-2.0

package quarry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"
)

const facts = "../../models/facts.onnx"

func newRuntime(t *testing.T) *Runtime {
	made, err := NewRuntime()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func opened(t *testing.T, r *Runtime, source Source) *Model {
	t.Helper()
	model, err := OpenModelFrom(context.Background(), r, source, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	return model
}

// readerAt is a function as an io.ReaderAt.
type readerAt func(part []byte, offset int64) (int, error)

func (f readerAt) ReadAt(part []byte, offset int64) (int, error) { return f(part, offset) }

func TestModelsFromEverywhere(t *testing.T) {
	content, err := os.ReadFile(facts)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(facts)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	folder, err := os.Open("../../models")
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	padded, err := os.CreateTemp(t.TempDir(), "padded")
	if err != nil {
		t.Fatal(err)
	}
	defer padded.Close()
	if _, err := padded.Write(append(append(make([]byte, 100), content...), 7, 7, 7)); err != nil {
		t.Fatal(err)
	}
	r, size := newRuntime(t), int64(len(content))
	for _, source := range []Source{{Path: facts}, {Path: facts, Folder: folder}, {File: file}, {File: padded, Offset: 100, Size: size},
		{Reader: bytes.NewReader(content), Size: size}, {Reader: file, Size: size, Folder: folder}} {
		model := opened(t, r, source)
		properties, err := model.Properties()
		if err != nil || !reflect.DeepEqual(properties, map[string]string{"colour": "blue"}) {
			t.Fatal(properties, err)
		}
	}
	if _, err := OpenModelFrom(context.Background(), r, Source{}, nil); err == nil {
		t.Fatal("nothing was opened")
	}
}

func TestAReaderThatFails(t *testing.T) {
	r, own := newRuntime(t), errors.New("of the reader")
	from := func(read readerAt) error {
		_, err := OpenModelFrom(context.Background(), r, Source{Reader: read, Size: 100}, nil)
		return err
	}
	var failed *Error
	if err := from(func([]byte, int64) (int, error) { return 0, own }); !errors.Is(err, own) || !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if err := from(func([]byte, int64) (int, error) { return 3, io.EOF }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	denied := &os.PathError{Op: "read", Path: "model", Err: syscall.EACCES}
	if err := from(func([]byte, int64) (int, error) { return 0, denied }); !errors.As(err, &failed) || failed.Code != PermissionDenied {
		t.Fatal(err)
	}
	defer func() {
		if recover() != "read" {
			t.Fatal("the panic was lost")
		}
	}()
	from(func([]byte, int64) (int, error) { panic("read") })
}

func TestWhatAModelSays(t *testing.T) {
	model := opened(t, newRuntime(t), Source{Path: facts})
	inputs, err := model.Inputs()
	if err != nil || !reflect.DeepEqual(inputs[0].DimNames, []string{"", "columns"}) || inputs[0].Quantization != nil {
		t.Fatal(inputs, err)
	}
	outputs, err := model.Outputs()
	if err != nil || !reflect.DeepEqual(outputs[0].DimNames, []string{"", "columns"}) {
		t.Fatal(outputs, err)
	}
	session, err := model.NewSession(context.Background(), Options{"shape": "columns=3;columns=5"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	buckets, err := session.Buckets()
	if err != nil || len(buckets) != 2 || !reflect.DeepEqual(buckets[1].Inputs[0].Shape, []int{2, 5}) || !reflect.DeepEqual(buckets[0].Outputs[0].Shape, []int{2, 3}) {
		t.Fatal(buckets, err)
	}
	found := session.Outputs()[0].Quantization
	if found == nil || !math.IsNaN(found.Scale) || found.Kind != PerChannel || !reflect.DeepEqual(found.Scales, []float32{0.5, 0.25}) ||
		!reflect.DeepEqual(found.ZeroPoints, []int32{3, 5}) || found.Axis != 0 || found.BlockSize != 0 {
		t.Fatal(found)
	}
}

func TestAContextEndsEveryCallThatMayTakeLong(t *testing.T) {
	r := newRuntime(t)
	model := opened(t, r, Source{Path: digits + "digits.onnx"})
	path := filepath.Join(t.TempDir(), "d.qrm")
	if err := model.Compile(context.Background(), path, nil); err != nil {
		t.Fatal(err)
	}
	compiled, session := opened(t, r, Source{Path: path}), open(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, call := range map[string]func(context.Context) error{
		"open": func(ctx context.Context) error {
			_, err := OpenModelFrom(ctx, r, Source{Path: path}, nil)
			return err
		},
		"inspect": func(ctx context.Context) error { _, err := compiled.InspectContext(ctx); return err },
		"verify":  compiled.Verify,
		"compatibility": func(ctx context.Context) error {
			grade, _, err := compiled.Compatibility(ctx, nil)
			if err == nil && grade != Optimal {
				t.Error(grade)
			}
			return err
		},
		"plan": func(ctx context.Context) error {
			plan, err := compiled.Plan(ctx, nil)
			if err == nil && plan.Weights < 100000 {
				t.Error(plan)
			}
			return err
		},
		"clone":   func(ctx context.Context) error { _, err := session.CloneContext(ctx); return err },
		"recover": session.Recover,
	} {
		if err := call(context.Background()); err != nil {
			t.Error(name, err)
		}
		if err := call(ended); !errors.Is(err, context.Canceled) {
			t.Error(name, err)
		}
	}
}

func TestAProgressFunctionStopsACall(t *testing.T) {
	r := newRuntime(t)
	model := opened(t, r, Source{Path: digits + "digits.onnx"})
	path := filepath.Join(t.TempDir(), "d.qrm")
	steps, enough := 0, errors.New("enough")
	counted := WithProgress(context.Background(), func(done, total uint64, what string) error { steps++; return nil })
	stopped := WithProgress(context.Background(), func(done, total uint64, what string) error { return enough })
	for name, call := range map[string]func(context.Context) error{
		"compile": func(ctx context.Context) error { return model.Compile(ctx, path, nil) },
		"plan":    func(ctx context.Context) error { _, err := model.Plan(ctx, nil); return err },
		"create": func(ctx context.Context) error {
			session, err := model.NewSession(ctx, nil)
			if err == nil {
				session.Close()
			}
			return err
		},
	} {
		var failed *Error
		if err := call(stopped); !errors.Is(err, enough) || !errors.As(err, &failed) || failed.ID != "QR-C0013" || failed.Code != Cancelled {
			t.Error(name, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error(name, "a stopped call wrote a file")
		}
		before := steps
		if err := call(counted); err != nil || steps == before {
			t.Error(name, err, steps)
		}
		os.Remove(path)
	}
	defer func() {
		if told := recover(); told != "told" {
			t.Error(told)
		}
	}()
	model.Compile(WithProgress(context.Background(), func(done, total uint64, what string) error { panic("told") }), path, nil)
}

func TestMemoryBeforeThereIsASession(t *testing.T) {
	r := newRuntime(t)
	memory, err := r.AllocateMemory("cpu", 0, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	image := images(t)[2]
	if err := memory.Access(func(data []byte) { copy(data, TensorOf(image).Bytes) }); err != nil {
		t.Fatal(err)
	}
	registered, err := r.RegisterMemory("cpu", 0, make([]byte, 4096))
	if err != nil || registered.Size() != 4096 {
		t.Fatal(err)
	}
	registered.Close()
	session, err := opened(t, r, Source{Path: digits + "digits.onnx"}).NewSession(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	found, err := session.Run(context.Background(), InMemory(memory, 0, F32, 1, 1, 8, 8))
	if err != nil {
		t.Fatal(err)
	}
	expected, err := session.Run(context.Background(), TensorOf(image, 1, 1, 8, 8))
	if err != nil || !bytes.Equal(found[0].Bytes, expected[0].Bytes) {
		t.Fatal(err)
	}
	if _, err := r.AllocateMemory("no such", 0, 4096); err == nil {
		t.Fatal("it was made")
	}
	r.Close()
	if _, err := r.AllocateMemory("cpu", 0, 4096); err == nil {
		t.Fatal("it was made")
	}
}

func TestALibraryOfAnotherABIIsRefused(t *testing.T) {
	major, minor := ABIVersion()
	for _, found := range []struct {
		major, minor int
		fits         bool
	}{{major, minor, true}, {major, minor + 1, true}, {major, minor - 1, false}, {major + 1, minor, false}} {
		if err := checkABI(found.major, found.minor); (err == nil) != found.fits {
			t.Error(found, err)
		}
	}
}

func TestAWaitingThatEndsBeforeItsRun(t *testing.T) {
	session := open(t)
	run, err := session.Submit(context.Background(), []Tensor{TensorOf(images(t)[4], 1, 1, 8, 8)}, make([]Tensor, 1))
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := run.WaitContext(ended); err != nil { // nil: it was quick
		var failed *Error
		if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || failed.ID != "QR-R0019" {
			t.Fatal(err)
		}
	}
	outputs, err := run.WaitContext(context.Background())
	if err != nil || outputs[0].DType != F32 {
		t.Fatal(err)
	}
	if outputs, err = run.WaitContext(ended); err != nil || len(outputs) != 1 {
		t.Fatal(err)
	}
}

// nonZero is an ONNX file of y[2, n] = NonZero(x[2, 3]); field numbers are those of onnx.proto.
func nonZero() []byte {
	field := func(number byte, parts ...[]byte) []byte {
		content := bytes.Join(parts, nil)
		return append([]byte{number<<3 | 2, byte(len(content))}, content...)
	}
	text := func(number byte, text string) []byte { return field(number, []byte(text)) }
	info := func(name string, dtype byte, last []byte) []byte {
		shape := field(2, field(1, []byte{8, 2}), field(1, last))
		return bytes.Join([][]byte{text(1, name), field(2, field(1, []byte{8, dtype}, shape))}, nil)
	}
	node := field(1, text(1, "x"), text(2, "y"), text(4, "NonZero"))
	graph := field(7, node, text(2, "g"), field(11, info("x", 1, []byte{8, 3})), field(12, info("y", 7, text(2, "n"))))
	return bytes.Join([][]byte{{8, 10}, graph, field(8, []byte{16, 21})}, nil)
}

func TestRoomAndTheSessionsMemoryByTurns(t *testing.T) {
	content := nonZero()
	model := opened(t, newRuntime(t), Source{Reader: bytes.NewReader(content), Size: int64(len(content))})
	session, err := model.NewSession(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	inputs := []Tensor{TensorOf([]float32{0, 1, 2, 3, 0, 0}, 2, 3)}
	for turn := range 4 {
		outputs := make([]Tensor, 1)
		if turn%2 == 1 {
			outputs[0] = TensorOf(make([]int64, 12), 12)
		}
		if err := session.RunInto(context.Background(), inputs, outputs); err != nil {
			t.Fatal(turn, err)
		}
		found, err := Data[int64](outputs[0])
		if err != nil || !reflect.DeepEqual(found, []int64{0, 0, 1, 1, 2, 0}) || !reflect.DeepEqual(outputs[0].Shape, []int{2, 3}) {
			t.Fatal(turn, found, outputs[0].Shape, err)
		}
	}
}
