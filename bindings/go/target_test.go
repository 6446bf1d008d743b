// SPDX-License-Identifier: Apache-2.0

package quarry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// files takes several, and fails where it is asked to.
type files struct {
	names   []string
	content map[string]*bytes.Buffer
	ends    []bool
	fails   error
}

func (f *files) Begin(name string, size, more uint64) error {
	f.names = append(f.names, fmt.Sprint(name, " ", more))
	if f.content == nil {
		f.content = map[string]*bytes.Buffer{}
	}
	f.content[name] = &bytes.Buffer{}
	f.content[""] = f.content[name]
	return nil
}

func (f *files) Write(data []byte) (int, error) {
	if f.fails != nil {
		return 0, f.fails
	}
	return f.content[""].Write(data)
}

func (f *files) End(committed bool) error {
	f.ends = append(f.ends, committed)
	return nil
}

type writerFunc func(data []byte) (int, error)

func (f writerFunc) Write(data []byte) (int, error) { return f(data) }

func TestCallsWriteEverywhere(t *testing.T) {
	r, ctx := newRuntime(t), context.Background()
	model := opened(t, r, Source{Path: digits + "digits.onnx"})
	path := filepath.Join(t.TempDir(), "d.qrm")
	if err := model.Compile(ctx, path, nil); err != nil {
		t.Fatal(err)
	}
	expected, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var memory []byte
	var buffer bytes.Buffer
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	for _, target := range []Target{{Memory: &memory}, {Writer: &buffer}, {File: file}, {Path: "e.qrm", Folder: folder}} {
		if err := model.CompileTo(ctx, target, nil); err != nil {
			t.Fatal(err)
		}
	}
	onDisk, _ := os.ReadFile(path)
	inFolder, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "e.qrm"))
	if !bytes.Equal(memory, expected) || !bytes.Equal(buffer.Bytes(), expected) || !bytes.Equal(onDisk, expected) || !bytes.Equal(inFolder, expected) {
		t.Fatal(len(memory), buffer.Len(), len(onDisk), len(inFolder), len(expected))
	}
	// Several files, and what was external data by name.
	taken := &files{}
	if err := model.ExportTo(ctx, Target{Writer: taken, Name: "d.onnx.data"}, nil); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(taken.names, taken.ends) != "[d.onnx.data 1 d.onnx 0] [true]" {
		t.Fatal(taken.names, taken.ends)
	}
	graph, constants := taken.content["d.onnx"].Bytes(), taken.content["d.onnx.data"].Bytes()
	from := func(external func(string) (io.ReaderAt, int64, error)) error {
		made, err := OpenModelFrom(ctx, r, Source{Reader: bytes.NewReader(graph), Size: int64(len(graph)), External: external}, nil)
		if err != nil {
			return err
		}
		defer made.Close()
		return made.Verify(ctx)
	}
	if err := from(func(name string) (io.ReaderAt, int64, error) {
		if name != "d.onnx.data" {
			t.Error(name)
		}
		return bytes.NewReader(constants), int64(len(constants)), nil
	}); err != nil {
		t.Fatal(err)
	}
	var failed *Error
	if err := from(func(string) (io.ReaderAt, int64, error) { return nil, 0, fs.ErrNotExist }); !errors.As(err, &failed) || failed.Code != NotFound {
		t.Fatal(err)
	}
	own := errors.New("of the program")
	if err := from(func(string) (io.ReaderAt, int64, error) { return nil, 0, own }); !errors.Is(err, own) {
		t.Fatal(err)
	}
	if err := from(func(string) (io.ReaderAt, int64, error) {
		return readerAt(func([]byte, int64) (int, error) { return 0, own }), 100, nil
	}); !errors.Is(err, own) {
		t.Fatal(err)
	}
	if err := model.ExportTo(ctx, Target{Writer: &buffer, Name: "d.onnx.data"}, nil); err == nil {
		t.Fatal("two files were taken for one")
	}
	if err := model.CompileTo(ctx, Target{}, nil); err == nil {
		t.Fatal("nothing was written to")
	}
}

func TestAWriterThatFails(t *testing.T) {
	model := opened(t, newRuntime(t), Source{Path: digits + "digits.onnx"})
	own := errors.New("of the writer")
	for _, err := range []error{own, &os.PathError{Op: "write", Path: "model", Err: syscall.ENOSPC}} {
		taken := &files{fails: err}
		found := model.CompileTo(context.Background(), Target{Writer: taken}, nil)
		var failed *Error
		if !errors.Is(found, err) || !errors.As(found, &failed) || len(taken.ends) != 1 || taken.ends[0] {
			t.Fatal(found, taken.ends)
		}
		if err != own && failed.Code != ResourceExhausted {
			t.Fatal(found)
		}
	}
	defer func() {
		if recover() != "written" {
			t.Fatal("the panic was lost")
		}
	}()
	model.CompileTo(context.Background(), Target{Writer: writerFunc(func([]byte) (int, error) { panic("written") })}, nil)
}
