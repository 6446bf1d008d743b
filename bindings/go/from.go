// SPDX-License-Identifier: Apache-2.0

package quarry

// #include <quarry/quarry.h>
import "C"

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"
)

// OpenModelBytes opens a model in memory, as go:embed gives it.
func OpenModelBytes(ctx context.Context, r *Runtime, data []byte, options Options) (*Model, error) {
	return OpenModelFrom(ctx, r, Source{Reader: bytes.NewReader(data), Size: int64(len(data))}, options)
}

// OpenModelFS opens a model in a file system: embed.FS, os.DirFS, a zip.Reader. External data of an .onnx are found beside it, there.
func OpenModelFS(ctx context.Context, r *Runtime, files fs.FS, name string, options Options) (*Model, error) {
	data, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, inFS(name, err)
	}
	external := func(beside string) (io.ReaderAt, int64, error) {
		found, err := fs.ReadFile(files, path.Join(path.Dir(name), beside))
		return bytes.NewReader(found), int64(len(found)), err
	}
	return OpenModelFrom(ctx, r, Source{Reader: bytes.NewReader(data), Size: int64(len(data)), External: external}, options)
}

// inFS is a file system's error as one of this package's, in which it is found.
func inFS(name string, err error) error {
	made := refused("file '%s': %v", name, err)
	made.Code, made.cause = Unavailable, err
	switch {
	case errors.Is(err, fs.ErrNotExist):
		made.Code = NotFound
	case errors.Is(err, fs.ErrPermission):
		made.Code = PermissionDenied
	}
	return made
}

// OpenFS makes a session of a model in a file system, as Open of a path.
func OpenFS(files fs.FS, name string, options Options) (*Session, error) {
	r, err := NewRuntime()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	m, err := OpenModelFS(context.Background(), r, files, name, options)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.NewSession(context.Background(), options)
}

// CheckReport is what a backend says of every node of a model.
type CheckReport struct {
	Backend            string
	Supported, Refused int
	Nodes              []CheckedNode
}

// CheckedNode is a node of a CheckReport: Path and Kernel where the backend takes it, Reason, ID and Hint where it does not.
type CheckedNode struct {
	Graph, Name, Op  string
	Supported        bool
	Path, Kernel     string
	Reason, ID, Hint string
}

// Check asks the backend that the option "backend" names about every node, and compiles nothing.
func (m *Model) Check(ctx context.Context, options Options) (*CheckReport, error) {
	var text *C.char
	err := m.with(options, func(c *C.qr_options) error {
		return called(ctx, m.core.pointer, func(call *C.qr_call_options) *C.qr_status { return C.qr_model_check(m.pointer, c, call, &text) })
	})
	if err != nil {
		return nil, err
	}
	made := new(CheckReport)
	if err := json.Unmarshal([]byte(takeText(text)), made); err != nil {
		failed := refused("the report of qr_model_check: %v", err)
		failed.Code = Internal
		return nil, failed
	}
	return made, nil
}
