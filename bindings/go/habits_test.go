// SPDX-License-Identifier: Apache-2.0

package quarry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// onDigit runs the fifth image, which is a 4... whatever the label says: the same by every way.
func onDigit(t *testing.T, session *Session) int {
	t.Helper()
	outputs, err := session.Run(context.Background(), TensorOf(images(t)[4], 1, 1, 8, 8))
	if err != nil {
		t.Fatal(err)
	}
	scores, err := Data[float32](outputs[0])
	if err != nil {
		t.Fatal(err)
	}
	return best(scores)
}

func TestModelsFromMemoryAndFileSystems(t *testing.T) {
	wanted := onDigit(t, open(t))
	data, err := os.ReadFile(digits + "digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	r := newRuntime(t)
	model, err := OpenModelBytes(context.Background(), r, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	session, err := model.NewSession(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	embedded, err := OpenFS(fstest.MapFS{"models/digits.onnx": {Data: data}}, "models/digits.onnx", Options{"threads": "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer embedded.Close()
	inFolder, err := OpenFS(os.DirFS(digits), "digits.onnx", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer inFolder.Close()
	for _, one := range []*Session{session, embedded, inFolder} {
		if found := onDigit(t, one); found != wanted {
			t.Fatal(found, "expected", wanted)
		}
	}
}

func TestExternalDataInAFileSystem(t *testing.T) {
	r := newRuntime(t)
	model, err := OpenModel(r, digits+"digits.onnx", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	folder := t.TempDir()
	if err := model.ExportTo(context.Background(), Target{Path: folder + "/out.onnx.data"}, nil); err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for _, name := range []string{"out.onnx", "out.onnx.data"} {
		data, err := os.ReadFile(folder + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		files["in/"+name] = &fstest.MapFile{Data: data}
	}
	session, err := OpenFS(files, "in/out.onnx", nil)
	if err != nil {
		t.Fatal(err)
	}
	if onDigit(t, session) != onDigit(t, open(t)) {
		t.Fatal("another digit")
	}
	session.Close()
	delete(files, "in/out.onnx.data")
	var failed *Error
	if _, err := OpenFS(files, "in/out.onnx", nil); !errors.As(err, &failed) || failed.Code != NotFound || failed.ID != "QR-O0007" {
		t.Fatal(err)
	}
}

func TestEveryErrorIsOursAndGosToo(t *testing.T) {
	session := open(t)
	image := TensorOf(images(t)[0], 1, 1, 8, 8)
	run := func(inputs ...Tensor) error { _, err := session.Run(context.Background(), inputs...); return err }
	opened := func(path string, options Options) error { _, err := Open(path, options); return err }
	passed, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	_, late := session.Run(passed, image)
	_, missing := OpenFS(fstest.MapFS{}, "none.onnx", nil)
	_, wrongType := Data[int32](image)
	memory, err := session.AllocateMemory(64)
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	broken := t.TempDir() + "/broken.onnx"
	data, _ := os.ReadFile(digits + "digits.onnx")
	if err := os.WriteFile(broken, data[:5000], 0o600); err != nil {
		t.Fatal(err)
	}
	// nonZero is of one node; an operator of that length is not there.
	odd := t.TempDir() + "/odd.onnx"
	if err := os.WriteFile(odd, bytes.ReplaceAll(nonZero(), []byte("NonZero"), []byte("NoSuchO")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		err   error
		is    error // of Go's; nil: none
		words string
	}{
		{opened("/none.onnx", nil), fs.ErrNotExist, "/none.onnx"},
		{missing, fs.ErrNotExist, "none.onnx"},
		{late, context.DeadlineExceeded, "more time"},
		{late, os.ErrDeadlineExceeded, ""},
		{opened(odd, nil), errors.ErrUnsupported, "odd.onnx"},
		{opened(broken, nil), nil, "broken.onnx: the model is cut off"},
		{run(), nil, "found 0 inputs"},
		{run(TensorOf(images(t)[0][:63], 1, 1, 8, 8)), nil, "252 bytes"},
		{run(TensorOf(images(t)[0], 1, 1, 1, 1, 1, 1, 1, 8, 8)), nil, "9 dimensions"},
		{run(InMemory(memory, 0, F32, 1, 1, 8, 8)), nil, "256 bytes"},
		{wrongType, nil, "asked for as"},
		{checkABI(99, 0), nil, "99.0"},
	} {
		var failed *Error
		if !errors.As(one.err, &failed) || !strings.Contains(one.err.Error(), one.words) || (one.is != nil && !errors.Is(one.err, one.is)) || strings.Contains(failed.Hint, "qr_") {
			t.Errorf("%v: expected an error of quarry's that is %v, with %q", one.err, one.is, one.words)
		}
		if one.is == nil && (errors.Is(one.err, fs.ErrNotExist) || errors.Is(one.err, context.DeadlineExceeded)) {
			t.Errorf("%v is what it is not", one.err)
		}
	}
}

func TestAReasonStandsOnce(t *testing.T) {
	err := &Error{ID: "QR-O0005", Message: "the model", Details: []Detail{{"reason", "a"}, {"reason", "b"}, {"reason", "a"}, {"file", "/m/x.onnx"}}}
	if err.Error() != "QR-O0005: /m/x.onnx: the model; a (2 times); b" {
		t.Fatal(err)
	}
}

func TestABackendIsAskedAboutEveryNode(t *testing.T) {
	model, err := OpenModel(newRuntime(t), digits+"digits.onnx", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	taken, err := model.Check(context.Background(), nil)
	if err != nil || taken.Backend != "cpu" || taken.Refused != 0 || taken.Supported != len(taken.Nodes) || taken.Nodes[0].Kernel == "" || !taken.Nodes[0].Supported {
		t.Fatal(taken, err)
	}
	// As a backend says that refuses (docs/guide.md).
	var refused CheckReport
	err = json.Unmarshal([]byte(`{"backend":"b","supported":0,"refused":1,"nodes":[{"name":"n","op":"Conv","supported":false,"reason":"r","id":"QR-B0002","hint":"h"}]}`), &refused)
	if err != nil || refused.Refused != 1 || refused.Nodes[0] != (CheckedNode{Name: "n", Op: "Conv", Reason: "r", ID: "QR-B0002", Hint: "h"}) {
		t.Fatal(refused, err)
	}
}

func TestLogLinesGoToSlog(t *testing.T) {
	var lines bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r, err := NewRuntimeWith(RuntimeOptions{Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	model, err := OpenModel(r, digits+"digits.onnx", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close() // what was made from it goes on logging
	session, err := model.NewSession(context.Background(), Options{"threads": "1"})
	if err != nil {
		t.Fatal(err)
	}
	session.Close()
	model.Close()
	if text := lines.String(); !strings.Contains(text, "level=INFO") || !strings.Contains(text, "topic=session") {
		t.Fatalf("found the log %q", text)
	}
	lines.Reset()
	quiet, err := NewRuntimeWith(RuntimeOptions{Log: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelWarn})), BackendPath: []string{"/none"}})
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	if model, err = OpenModel(quiet, digits+"digits.onnx", nil); err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	if session, err = model.NewSession(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	session.Close()
	if lines.Len() != 0 {
		t.Fatal(lines.String())
	}
}

func TestEventsAreRangedOver(t *testing.T) {
	session := open(t)
	profile, err := session.NewProfile()
	if err != nil {
		t.Fatal(err)
	}
	defer profile.Close()
	if err := session.RunProfiled(context.Background(), profile, []Tensor{TensorOf(images(t)[0], 1, 1, 8, 8)}, make([]Tensor, 1)); err != nil {
		t.Fatal(err)
	}
	count := 0
	for i, event := range profile.All() {
		if i != count || (i == 0 && event.Kind != "run") {
			t.Fatal(i, event)
		}
		if count++; count == 3 {
			break
		}
	}
	if count != 3 {
		t.Fatal(count)
	}
}

// Names of files are bytes: one that is no UTF-8 serves wherever a path is taken.
func TestNamesInAnyBytes(t *testing.T) {
	folder, ctx, r := t.TempDir(), context.Background(), newRuntime(t)
	path, container, graph, table := folder+"/caf\xe9.onnx", folder+"/caf\xe9.qrm", folder+"/\xe9.onnx", folder+"/\xe9.csv"
	data, err := os.ReadFile(digits + "digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if err = os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	model, err := OpenModel(r, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	if err = model.Compile(ctx, container, nil); err != nil {
		t.Fatal(err)
	}
	if err = model.ExportTo(ctx, Target{Path: graph}, nil); err != nil {
		t.Fatal(err)
	}
	wanted := onDigit(t, open(t))
	for _, name := range []string{path, container, graph} {
		session, err := Open(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if found := onDigit(t, session); found != wanted {
			t.Errorf("%q: found %d, expected %d", name, found, wanted)
		}
		profile, err := session.NewProfile()
		if err != nil {
			t.Fatal(err)
		}
		if err = profile.ExportTo("csv", Target{Path: table}); err != nil {
			t.Error(err)
		}
		profile.Close()
		session.Close()
	}
	if _, err = os.Stat(table); err != nil {
		t.Error(err)
	}
	events, err := Open(path, Options{"profiling_level": "basic", "profiling_file_path": folder + "/o\xe9.csv"})
	if err != nil {
		t.Fatal(err)
	}
	onDigit(t, events)
	events.Close()
	if _, err = os.Stat(folder + "/o\xe9.csv"); err != nil {
		t.Error(err)
	}
	if _, err = Open(folder+"/no\xe9.onnx", nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `no\xe9.onnx`) {
		t.Errorf("found %v, expected that the file is not there", err)
	}
	files := os.DirFS(folder)
	if _, err = OpenFS(files, "caf\xe9.onnx", nil); err == nil {
		t.Error("found a name of io/fs that is no UTF-8, which fs.ValidPath refuses")
	}
}
